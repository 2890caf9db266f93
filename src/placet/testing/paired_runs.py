"""Paired runs: two worlds that differ only in state that one agent, the observer, may not see.

The first world runs a trace. The second world runs the same steps, except the hidden steps of other
agents: it omits each, or runs another one of the same agent. A step is hidden if the observer's
knowledge of both worlds is equal afterwards. If it is not, both worlds run the step; if it still
is not, the second world continues as a copy of the first.

The seqs of both worlds are equal: records without effect replace the omitted ones.
"""

from collections.abc import Iterator
from typing import Final

from placet.schemas.verdict import Verdict
from placet.testing.paired_world import OBSERVER, Entry, Idle, PairedWorld
from placet.testing.trace import (
    Batch,
    Factory,
    Join,
    Leave,
    Proposal,
    Propose,
    Settle,
    Step,
    Trace,
    TraceRunner,
    one_by_one,
)

_FROM_FUTURE: Final = -1_000_000
"""`behind` of a proposal that is refused for its context: a record of its group, and no change."""

_OTHERS_MAX: Final = 2
"""Other batches of the same agents that may be run instead of a hidden one."""

Answers = list[tuple[Batch, Verdict, Verdict]]
"""Batches of the observer, each with its verdict in the first and in the second world."""


class PairedRun:
    """Two worlds in which one trace is run.

    Args:
        runner: Runs the trace in the first world.
        factory: Makes the domain; called for each world.
        trace: The trace, from which batches are taken that replace hidden ones.

    Attributes:
        first: The world that runs the whole trace.
        second: The world that differs in hidden steps.
        differences: Descriptions of the hidden steps that the second world omitted or replaced,
            since it was a copy of the first.
        hidden_count: Number of all such steps.
    """

    def __init__(self, runner: TraceRunner, factory: Factory, trace: Trace) -> None:
        self.first = PairedWorld(factory, runner)
        self.second = PairedWorld(factory)
        self.differences: list[str] = []
        self.hidden_count = 0
        self._proposed = [
            batch for step in trace if isinstance(step, Propose) for batch in step.batches
        ]

    @property
    def is_alike(self) -> bool:
        """Whether the observer is registered, and its knowledge of both worlds is equal."""
        first, second = self.first, self.second
        if not (first.is_observed and second.is_observed):
            return False
        # The order of a later group is drawn by its number, which is as excepted as a seq.
        groups = [(w.kernel.ledger.tick, w.kernel.ledger.group) for w in (first, second)]
        return groups[0] == groups[1] and first.knowledge() == second.knowledge()

    def run(self, step: Step) -> Answers:
        """Run one step in both worlds; return the answers to the observer's own batches.

        Afterwards `is_alike` is false only while the observer is not registered.
        """
        was_alike = self.is_alike
        if was_alike and _is_of_others(step):
            self._run_hidden(step)
            return []
        first, second = self.first.run(step), self.second.run(step)
        self._look()
        is_alike = was_alike and self.is_alike
        answers = _answers(step, first, second) if is_alike or is_own(step) else []
        # A change by another agent in one world only may be visible, or needed by the batch.
        if not is_alike or [v.codes for v in first] != [v.codes for v in second]:
            self._join()
        return answers if was_alike else []

    def _run_hidden(self, step: Step) -> None:
        """Run a step of others in the first world, and in the second none, another or the same."""
        records = self.first.kernel.record_count
        self.first.run(step)
        self.first.look()
        now = self.first.runner.now
        if self.first.kernel.record_count == records:
            self.second.run(Idle(0, 1, now))
            self.second.look()
            return
        for replacement in self._replacements(step):
            before = len(self.second.history)
            self.second.run(replacement)
            missing = self.first.kernel.seq - self.second.kernel.seq
            if missing >= 0:
                self.second.run(Idle(missing, 0, now))
                self.second.look()
                if self.is_alike:
                    if replacement is not step:
                        self.differences.append(_difference(step, replacement))
                        self.hidden_count += 1
                    return
            self.second = self.second.copy(len(self.second.history) - before)
        self._join()

    def _replacements(self, step: Step) -> Iterator[Entry]:
        """Yield the entries that the second world may run instead of a step; the step is last."""
        if not isinstance(step, Propose):
            yield Idle(0, 1, self.first.runner.now)
        else:
            batch = step.batches[0]
            there = [name for name in self.second.kernel.ledger.agents if name != OBSERVER]
            late = tuple(
                proposal._replace(
                    behind=_FROM_FUTURE,
                    agent_id=proposal.agent_id if proposal.agent_id in there else there[0],
                )
                for proposal in batch
                if there
            )
            if late:
                yield step._replace(batches=(late,))
            agents = _agents_of(batch)
            others = [b for b in self._proposed if _agents_of(b) == agents and b != batch]
            for other in others[:_OTHERS_MAX]:
                yield step._replace(batches=(other,))
        yield step

    def _look(self) -> None:
        self.first.look()
        self.second.look()

    def _join(self) -> None:
        """Replace the second world by a copy of the first."""
        self.second = self.first.copy()
        self.differences.clear()


def parts_of(trace: Trace) -> Iterator[Step]:
    """Yield the steps of a trace; batches of others alone are separate steps."""
    for step in trace:
        if isinstance(step, Propose) and _is_of_others(step):
            yield from one_by_one([step])
        else:
            yield step


def proposals_of(trace: Trace) -> Iterator[Proposal]:
    """Yield every proposal of a trace."""
    for step in trace:
        if isinstance(step, Propose):
            for batch in step.batches:
                yield from batch


def _is_of_others(step: Step) -> bool:
    """Return whether a step is a change by others at an unchanged time, or of an effect."""
    match step:
        case Propose():
            return all(proposal.agent_id != OBSERVER for proposal in proposals_of([step]))
        case Join() | Leave():
            return step.agent_id != OBSERVER
        case _:
            return isinstance(step, Settle)


def is_own(step: Step) -> bool:
    """Return whether a step is the observer's alone."""
    return isinstance(step, Propose) and all(
        proposal.agent_id == OBSERVER for proposal in proposals_of([step])
    )


def _answers(step: Step, first: list[Verdict], second: list[Verdict]) -> Answers:
    """Return the verdicts on the batches of a step that are the observer's alone."""
    batches = step.batches if isinstance(step, Propose) else ()
    pairs = zip(batches, first, second, strict=True)
    return [pair for pair in pairs if _agents_of(pair[0]) == [OBSERVER] * len(pair[0])]


def _agents_of(batch: Batch) -> list[str]:
    return [proposal.agent_id for proposal in batch]


def _difference(step: Step, replacement: Entry) -> str:
    is_other = isinstance(replacement, Propose) and replacement.batches[0][0].behind != _FROM_FUTURE
    return f"`{replacement}` instead of `{step}`" if is_other else f"no `{step}`"
