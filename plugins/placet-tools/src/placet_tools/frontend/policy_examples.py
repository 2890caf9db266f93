"""Runs the examples of a policy: each is decided by a new kernel, and no tool runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from placet.domains.approvals import Approvals
from placet.kernel.kernel import Kernel
from placet.schemas.codec import Json
from placet_tools.frontend.call_answers import CallAnswer, answers_of, plain_refusals
from placet_tools.frontend.judged_tools import JudgedTools
from placet_tools.frontend.policy_file import PolicySource, name_of
from placet_tools.parts.marks import with_example_forms
from placet_tools.policy.errors import fault
from placet_tools.policy.marks import MarkedCall, note_done, note_started
from placet_tools.policy.rules import EarlierCall, Example
from placet_tools.tool import DeclaredTool
from placet_tools.tools import Tools

_OUTBOX: int = 1_000


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """The result of one example.

    Attributes:
        example: The example.
        answer: The answer of the policy.
        is_ok: The answer is the expected one.
    """

    example: Example
    answer: CallAnswer
    is_ok: bool

    def as_dict(self) -> dict[str, Json]:
        """Return the result as plain JSON."""
        call = self.example.call
        return {
            "place": self.example.place,
            "tool": call.tool,
            "arguments": dict(call.arguments),
            "expected": self.example.gives,
            "status": self.answer.status,
            "codes": list(self.answer.codes),
            "message": self.answer.message,
            "ok": self.is_ok,
        }


def run_examples(tools: Tools, policy: PolicySource) -> list[ExampleResult]:
    """Decide the examples of a policy, and compare the answers with the expected ones.

    Args:
        tools: The tools.
        policy: The policy.

    Raises:
        ToolPolicyError: The policy cannot be read, or does not fit the tools.
    """
    parsed = JudgedTools(tools, policy).enforced.policy
    examples = () if parsed is None else parsed.examples
    return [_result(example, JudgedTools(tools, policy), name_of(policy)) for example in examples]


def _result(example: Example, judged: JudgedTools, name: str) -> ExampleResult:
    for number, earlier in enumerate(example.given):
        _note(judged, earlier, f"{name}: {example.place}.given[{number}].call")
    domain, call = judged.domain, example.call
    kernel = Kernel([domain, Approvals()])
    for tool in domain.tools:
        kernel.change_executor(domain.kind_of(tool), _OUTBOX)
    kernel.register_agent(call.agent)
    payload = _logged(domain.tools[call.tool], call.arguments)
    intent = kernel.intent(domain.kind_of(call.tool), payload, agent=call.agent)
    verdict = kernel.decide({"intents": [intent], "dry_run": True})
    (answer,) = answers_of(plain_refusals(verdict.refusals), 1, domain.name)
    codes = {code.removeprefix(f"{domain.name}.") for code in answer.codes}
    return ExampleResult(example, answer, example.gives in {answer.status, *codes})


def _logged(tool: DeclaredTool, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return arguments as an intent has them; as they are if they do not fit and are refused."""
    if not tool.marks:
        return {**arguments}
    try:
        return with_example_forms(tool.plain(arguments), tool.marks)
    except ValidationError:
        return {**arguments}


def _note(judged: JudgedTools, earlier: EarlierCall, place: str) -> None:
    """Note a call as started and done."""
    assert judged.enforced.policy is not None, "examples are of a policy"
    tool = judged.domain.tools[earlier.tool]
    try:
        arguments = with_example_forms(tool.plain(earlier.arguments), tool.marks)
    except ValidationError as error:
        raise fault(place, f"the arguments do not fit {tool.name}: {error}") from None
    markings = judged.enforced.policy.markings.get(tool.name, ())
    call = MarkedCall("given", arguments, earlier.agent)
    note_started(markings, judged.enforced.noted, call, 0)
    note_done(markings, judged.enforced.noted, call, earlier.result)
