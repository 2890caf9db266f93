"""Traces: the steps of a world as plain values, and their runner.

A step prints as a sentence, so a violating trace can be reported. Nothing here is random: running a
trace twice gives the same log.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from placet.kernel import Domain, Kernel, KernelConfig, RecordList
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, thaw
from placet.schemas.condition import Condition
from placet.schemas.effect import Settlement
from placet.schemas.errors import PlacetError
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.verdict import Verdict

Factory: TypeAlias = Callable[[], Domain]

AGENTS: Final = ("ann", "bob", "cyd")
"""The agents of a trace; the first two are registered at the start."""

_CONFIG: Final = KernelConfig(seed=7)
_OUTBOX: Final = 1_000


class Proposal(NamedTuple):
    """An intent without the fields that are set when it is submitted.

    Attributes:
        behind: Difference between the seq of the world and `context_seq`.
        expect: Conditions; empty for an intent without.
    """

    agent_id: str
    kind: str
    payload: Json
    behind: int = 0
    expect: Sequence[Condition] = ()

    def __str__(self) -> str:
        late = f", having looked {self.behind} seqs ago" if self.behind else ""
        if_so = f", expecting {_shown(list(self.expect))}" if self.expect else ""
        return f"{self.agent_id} proposes {self.kind} {_shown(self.payload)}{late}{if_so}"


Batch: TypeAlias = tuple[Proposal, ...]


class Join(NamedTuple):
    """A step of a trace: register an agent with these attributes."""

    agent_id: str
    attributes: dict[str, Json]

    def __str__(self) -> str:
        return f"{self.agent_id} joins" + (
            f" with {_shown(self.attributes)}" if self.attributes else ""
        )


class Leave(NamedTuple):
    """A step of a trace: remove an agent."""

    agent_id: str

    def __str__(self) -> str:
        return f"{self.agent_id} leaves"


class Propose(NamedTuple):
    """A step of a trace: advance time by `seconds`, and decide batches as one group."""

    seconds: float
    batches: tuple[Batch, ...]

    def __str__(self) -> str:
        text = "; ".join(" and ".join(map(str, batch)) for batch in self.batches)
        return f"after {self.seconds:g} s {text}" if self.seconds else text


class Wait(NamedTuple):
    """A step of a trace: advance time by `seconds`, and run the domain's `on_tick`."""

    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:g} s pass"


class Settle(NamedTuple):
    """A step of a trace: settle the oldest open effect with an outcome."""

    succeeded: bool
    output: Json

    def __str__(self) -> str:
        how = "succeeds" if self.succeeded else "fails"
        return f"the oldest open effect {how} with {_shown(self.output)}"


Step: TypeAlias = Join | Leave | Propose | Wait | Settle
Trace: TypeAlias = Sequence[Step]


class DomainFault(NamedTuple):
    """An exception that a domain raised, and the rule or hook that raised it."""

    where: str
    error: BaseException


class TraceRunner:
    """Runs the steps of one trace in a new world.

    Args:
        factory: Makes the domain; each instance is used once.

    Attributes:
        domain: The domain.
        kernel: Its kernel, with an executor for every effect that a kind declares.
        log: The records, as they are made.
        now: Simulated seconds.
        faults: Exceptions of the domain's rules and hooks.
        story: The steps run so far, one line each.
    """

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self.log = RecordList()
        self.faults: list[DomainFault] = []
        self.story: list[str] = []
        self.now = 0.0
        self.restart(0)
        for effect in sorted({effect for kind in self.domain.kinds for effect in kind.effects}):
            self.kernel.change_executor(effect, _OUTBOX)

    def restart(self, records: int) -> None:
        """Continue from the first records of the log with a new domain, as after a crash."""
        del self.log[records:]
        self.domain = self._factory()
        self.kernel = Kernel(self.domain, _CONFIG, sink=self.log, history=list(self.log))
        self.kernel.rules.on_fault = lambda where, error: self.faults.append(
            DomainFault(where, error)
        )

    def run(self, step: Step) -> list[Verdict]:
        """Run one step, and return the verdicts of its batches."""
        verdicts: list[Verdict] = []
        match step:
            case Propose():
                batches = [self.intents(batch, number) for number, batch in enumerate(step.batches)]
                self.now += step.seconds
                verdicts = self.kernel.decide_group(batches, self.now)
                self.story.append(f"{step}: {'; '.join(map(_answer_text, verdicts))}")
            case Wait():
                self.now += step.seconds
                self.kernel.tick(self.now)
                self.story.append(str(step))
            case Settle():
                for effect in self.kernel.open_effects()[:1]:
                    self.kernel.settle(Settlement(effect.key, step.succeeded, step.output))
                self.story.append(str(step))
            case _:
                self._register_or_remove(step)
        return verdicts

    def run_all(self, trace: Trace) -> "TraceRunner":
        """Run all steps of a trace and return this runner."""
        for step in trace:
            self.run(step)
        return self

    def try_out(self, step: Propose, payloads: Sequence[Json] | None = None) -> Verdict:
        """Return the verdict that the first batch of a step would get now; nothing changes.

        Args:
            step: The step to try.
            payloads: Payloads that replace those of its intents.
        """
        intents = self.intents(step.batches[0])
        for intent, payload in zip(intents, payloads or (), strict=False):
            intent["payload"] = payload
        batch = self.kernel.check({"intents": intents, "dry_run": True})
        if isinstance(batch, CheckedBatch):
            batch.shows_changes = False  # all outputs, also of other moments
            return self.kernel.decide(batch, self.now + step.seconds)
        return batch

    def intents(self, batch: Batch, number: int = 0) -> list[dict[str, Json]]:
        """Return the intents of a batch of proposals at the present seq."""
        seq = self.kernel.seq
        return [
            {
                "kind": proposal.kind,
                "payload": proposal.payload,
                "agent_id": proposal.agent_id,
                "req_id": f"{len(self.story)}.{number}.{index}",
                "context_seq": max(0, seq - proposal.behind),
                "priority": 10,
                "schema_version": SCHEMA_VERSION,
                **({"expect": list(proposal.expect)} if proposal.expect else {}),
            }
            for index, proposal in enumerate(batch)
        ]

    def _register_or_remove(self, step: Join | Leave) -> None:
        outcome = ""
        try:
            if isinstance(step, Join):
                self.kernel.register_agent(step.agent_id, **step.attributes)
            elif step.agent_id in self.kernel.ledger.agents:
                self.kernel.change_agent(step.agent_id, "removed")
        except PlacetError as error:
            outcome = f": refused, {error}"
            if error.__cause__ is not None:  # it is raised, and so not reported to `on_fault`
                self.faults.append(
                    DomainFault(f"on_register of {self.domain.name}", error.__cause__)
                )
        self.story.append(f"{step}{outcome}")


def one_by_one(trace: Trace) -> Iterator[Step]:
    """Yield the steps of a trace, with each batch in a separate step."""
    for step in trace:
        if isinstance(step, Propose):
            for number, batch in enumerate(step.batches):
                yield Propose(0.0 if number else step.seconds, (batch,))
        else:
            yield step


def smaller(trace: Trace) -> Iterator[Trace]:
    """Yield traces without one part of this trace: a step, a batch, or a proposal."""
    for at, step in enumerate(trace):
        before, after = trace[:at], trace[at + 1 :]
        yield (*before, *after)
        if isinstance(step, Propose):
            for batches in _less(step.batches):
                yield (*before, step._replace(batches=batches), *after)


def _less(batches: tuple[Batch, ...]) -> Iterator[tuple[Batch, ...]]:
    for at, batch in enumerate(batches):
        before, after = batches[:at], batches[at + 1 :]
        if before or after:
            yield (*before, *after)
        if len(batch) > 1:
            for place in range(len(batch)):
                yield (*before, (*batch[:place], *batch[place + 1 :]), *after)


def _answer_text(verdict: Verdict) -> str:
    return "admitted" if verdict.admitted else "refused, " + ", ".join(verdict.codes)


def _shown(value: Json) -> str:
    return json.dumps(thaw(value), ensure_ascii=False, default=repr)
