"""The adapter of language models.

Asks a model, offers tool search if there are many kinds, and returns its output.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from time import monotonic
from typing import Any, Final, Self, TypeAlias

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from placet.agents.adapters.llm import tool_search as finding
from placet.agents.adapters.llm.bounded_answers import bound_answers
from placet.agents.adapters.llm.endpoint import find_model, key_advice
from placet.agents.adapters.llm.failures import host_of
from placet.agents.adapters.llm.messages import conversation
from placet.agents.adapters.llm.model_settings import request_settings
from placet.agents.adapters.llm.prices import (
    Prices,
    address_of,
    bare_answer,
    cost_of,
    is_private,
    pricing_of,
)
from placet.agents.adapters.llm.requests import Requests
from placet.agents.adapters.llm.reserve import (
    REQUESTS_MAX,
    reserve,
    tokens_of_answer,
    tokens_of_request,
    worst_case,
)
from placet.agents.adapters.llm.responses import account_of, call_of, kept
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput, PlannerUnavailable, Usage
from placet.agents.proposal.codes import Code
from placet.agents.proposal.tools import definitions
from placet.schemas.codec import to_json
from placet.schemas.keywords import explain_keywords

Function: TypeAlias = Callable[
    [list[ModelMessage], AgentInfo], ModelResponse | Awaitable[ModelResponse]
]
"""Stands for a model: its messages and what it is offered, to its answer."""

_FILTERED: Final = "the provider's content filter stopped the answer"
_CUT_OFF: Final = (
    "the answer was cut off at its greatest length (--max-output-tokens, max_output_tokens, in "
    "Python settings={'max_tokens': ...}); none of it was proposed: propose less"
)
_BROKEN_OFF: Final[Mapping[str | None, tuple[str, str]]] = {
    "length": (Code.PLAN_TOO_LARGE, _CUT_OFF),
    "error": (
        Code.ENVELOPE_INVALID,
        "the answer broke off with an error; none of it was proposed: propose it again",
    ),
}
"""Finish reason -> code and message of an answer that is incomplete, so that it is no plan."""
_SEARCH_FIRST: Final = "not proposed: read what was found, then propose all of the plan at once"


@explain_keywords
class Llm:
    """An adapter that asks a language model, which answers by tool calls.

    Args:
        model: Name of the model (`anthropic:…`, `openai:…`, `google:…`, or `test`), a model of
            pydantic-ai, or a function that stands for one.
        temperature: Sampling temperature; None is the provider's default.
        prices: Prices of the model; None uses pydantic-ai's price list, and a server on the
            loopback interface costs nothing if the list does not know the model.
        settings: Further settings of pydantic-ai, such as `thinking`. `max_tokens` is 4096 if it
            is absent.
        attempt_seconds_max: Maximum seconds of one request, within the time of the turn.
        on_text: Called with the text of an answer as it streams.
        base_url: Address of the model's server; None is the provider's own. With an address, no key
            is sent unless `api_key_env` names it.
        api_key_env: Environment variable with the key; None is the one that the provider's client
            reads.

    Attributes:
        model_name: Name of the model, as its server knows it.
        address: Host and port of the model's server; empty if it has none.

    Raises:
        ValueError: There is no such model or setting, its key is missing, or an address or a key is
            stated with a model object or a function.
    """

    def __init__(
        self,
        model: str | Model | Function,
        *,
        temperature: float | None = None,
        prices: Prices | None = None,
        settings: ModelSettings | None = None,
        attempt_seconds_max: float = 60.0,
        on_text: Callable[[str], None] | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
    ) -> None:
        if isinstance(model, str):
            self._model = _named(model, base_url, api_key_env)
        elif base_url is not None or api_key_env is not None:
            raise ValueError(
                "base_url and api_key_env are for a model that is named, as in "
                "Llm('openai-chat:qwen3:4b', base_url=...); this model has its address"
            )
        else:
            self._model = model if isinstance(model, Model) else FunctionModel(model)
        bound_answers(self._model)
        self.model_name = self._model.model_name
        self.address = host_of(self._model) or ""
        self._pricing = pricing_of(self._model, prices)
        self._settings = request_settings(self._model, settings)
        if temperature is not None:
            self._settings["temperature"] = temperature
        self._requests = Requests(
            self._model,
            self._settings,
            attempt_seconds_max=attempt_seconds_max,
            on_text=on_text,
            key_advice=key_advice(base_url, api_key_env),
        )

    @property
    def is_priced(self) -> bool:
        """Whether the cost of an answer can be computed."""
        return self._pricing.is_known

    @property
    def is_private(self) -> bool:
        """Whether the model's server is at an address of a private network."""
        return is_private(address_of(self._model))

    def worst_case(self, context: PlannerInput) -> Usage:
        """Return the most that an answer to a planner input may use, for a shared budget.

        Searches of kinds have further requests, so they may use the rest of the turn.
        """
        if len(context.catalogue) > context.tools_max:
            requests = REQUESTS_MAX * (finding.ROUNDS_MAX + 1)
            return Usage(requests, context.tokens_left, 0, context.usd_left)
        request = tokens_of_request(
            conversation(context, is_searching=False), _parameters(context, False)
        )
        return worst_case(self._model, self._pricing, self._settings, context, request)

    async def __aenter__(self) -> Self:
        """Keep connections open between one message and the next."""
        await self._requests.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:  # noqa: ANN401  # passed on
        await self._requests.__aexit__(*error)

    def request_digest(self, context: PlannerInput) -> str:
        """Return the digest of the first request for a planner input.

        It covers model, messages, tools and settings; the address of the server is no part of it.
        """
        is_searching = len(context.catalogue) > context.tools_max
        tools = _parameters(context, is_searching).function_tools
        settings = sorted((name, repr(value)) for name, value in self._settings.items())
        request = [
            f"{self._model.system}:{self._model.model_name}",
            account_of(conversation(context, is_searching=is_searching)),
            [[tool.name, tool.description, tool.parameters_json_schema] for tool in tools],
            [list(setting) for setting in settings],
        ]
        return blake2b(to_json(request), digest_size=16).hexdigest()

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Ask the model, and return its answer; a search of kinds takes a further request.

        Raises:
            PlannerOverBudget: The request is estimated to exceed the rest of the turn's budget.
            PlannerUnavailable: The model cannot be reached.
        """
        async with self._requests:
            return await self._propose(context)

    async def _propose(self, context: PlannerInput) -> PlannerOutput:
        ends_at = monotonic() + context.seconds_left
        is_searching = len(context.catalogue) > context.tools_max
        parameters = _parameters(context, is_searching)
        messages = conversation(context, is_searching=is_searching)
        account: list[ModelMessage] = []
        usage = Usage()
        searches = 0
        while True:
            sent = [*messages, *account]
            request_tokens = tokens_of_request(sent, parameters)
            try:
                limit = reserve(
                    self._model, self._pricing, self._settings, context, usage, request_tokens
                )
                answer, requests = await self._requests.send(sent, parameters, ends_at, limit)
            except PlannerUnavailable as error:
                error.usage = usage  # the searches before it are paid for
                raise
            usage = usage.plus(self._usage(answer, requests, request_tokens))
            if answer is None or answer.finish_reason == "content_filter":
                return self._raw(
                    PlannerOutput(text=_FILTERED, refused=True), usage, answer, account
                )
            unread = _BROKEN_OFF.get(answer.finish_reason) if answer.tool_calls else None
            answer = kept(answer)
            account.append(answer)
            is_over = searches == finding.ROUNDS_MAX
            if not is_searching or is_over or unread or not _searches(answer):
                break
            searches += 1
            account.append(
                ModelRequest(parts=[_result(call, context) for call in answer.tool_calls])
            )
        calls = tuple(map(call_of, answer.tool_calls))
        if is_searching:
            calls = tuple(map(finding.unwrapped, calls))
        raw = PlannerOutput(calls, text=answer.text or "", unread=unread)
        return self._raw(raw, usage, answer, account)

    def _raw(
        self,
        raw: PlannerOutput,
        usage: Usage,
        answer: ModelResponse | None,
        account: list[ModelMessage],
    ) -> PlannerOutput:
        name = (answer.model_name if answer else None) or self._model.model_name
        return raw._replace(usage=usage, model=name, response=account_of(account))

    def _usage(self, answer: ModelResponse | None, requests: int, request_tokens: int) -> Usage:
        """Return the tokens of an answer: the provider's count, or an estimate without one."""
        counted = answer or bare_answer(self._model, 0, 0)
        used = counted.usage
        is_estimated = not used.input_tokens or not used.output_tokens
        if is_estimated:
            written = 0 if answer is None else tokens_of_answer(answer)
            used = replace(
                used,
                input_tokens=used.input_tokens or request_tokens,
                output_tokens=used.output_tokens or written,
            )
            counted = replace(counted, usage=used)
        pricing = self._pricing
        is_reported = pricing.prices is None and used.cost is not None
        return Usage(
            requests,
            used.input_tokens,
            used.output_tokens,
            cost_of(counted, pricing.prices),
            "reported by the server" if is_reported else pricing.source,
            is_estimated,
        )


def _named(name: str, base_url: str | None, api_key_env: str | None) -> Model:
    if name == "function":
        raise ValueError("give the function itself: Llm(function), or Llm(FunctionModel(...))")
    return find_model(name, base_url, api_key_env)


def _parameters(context: PlannerInput, is_searching: bool) -> ModelRequestParameters:
    offered = finding.TOOLS if is_searching else definitions(domain=context.catalogue)
    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.schema,
            kind="external",
            strict=False,  # as they are: a provider's strict form would rewrite the schemas
        )
        for tool in offered
    ]
    return ModelRequestParameters(function_tools=tools, allow_text_output=True)


def _searches(answer: ModelResponse) -> bool:
    return any(call.tool_name == finding.FIND for call in answer.tool_calls)


def _result(call: ToolCallPart, context: PlannerInput) -> ToolReturnPart:
    if call.tool_name == finding.FIND:
        matches = finding.found(context.catalogue, call_of(call).arguments)
        return ToolReturnPart(call.tool_name, matches, call.tool_call_id)
    return ToolReturnPart(call.tool_name, _SEARCH_FIRST, call.tool_call_id, outcome="interrupted")
