"""The simulation can fail: each bug planted in the real system is found within some seeds."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest

from placet.actors.admission.queue import BatchQueue
from placet.actors.committer import Committer, CycleOutput, resolve
from placet.actors.observation.viewer import Viewer
from placet.actors.orchestrator_actor import OrchestratorActor
from placet.kernel.control.outbox import Outbox
from placet.kernel.gate import quota
from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.state.draft import Draft
from placet.kernel.state.transaction import START, Transaction
from placet.schemas.errors import StoreError
from placet.schemas.view import View
from placet.stores.append_rules import require_writer
from tests.kernel.reference.fairground import CLOCK, Fairground
from tests.simulation.run import simulate

SEEDS_MAX = 120

Bug = Callable[[], AbstractContextManager[object]]


def an_answer_before_its_commit() -> AbstractContextManager[object]:
    offer = Committer.offer

    def planted(self: Committer, output: CycleOutput) -> None:
        for reply, result in output.answers:
            resolve(reply, result)
        offer(self, output)

    return patch.object(Committer, "offer", planted)


def an_effect_before_its_commit() -> AbstractContextManager[object]:
    offer = Committer.offer

    def planted(self: Committer, output: CycleOutput) -> None:
        self._on_durable(CycleOutput(None, [], output.effects))
        offer(self, output)

    return patch.object(Committer, "offer", planted)


def a_failed_write_that_is_reported_as_done() -> AbstractContextManager[object]:
    make = Committer.__init__

    class Forgiving:
        def __init__(self, log: Any) -> None:
            self._log = log

        def __getattr__(self, name: str) -> Any:
            return getattr(self._log, name)

        def append(self, group: Any, epoch: int) -> None:
            try:
                self._log.append(group, epoch)
            except StoreError:
                return

    def planted(self: Committer, log: Any, *rest: Any, **options: Any) -> None:
        make(self, Forgiving(log), *rest, **options)

    return patch.object(Committer, "__init__", planted)


def windows_that_are_not_restored() -> AbstractContextManager[object]:
    make = Kernel.__init__

    def planted(self: Kernel, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        for agent in self.ledger.agents.values():
            agent.window = None
        self.ledger.dedup.recency.clear()
        self.ledger.dedup.count = 0

    return patch.object(Kernel, "__init__", planted)


def quotas_that_are_not_restored() -> AbstractContextManager[object]:
    make = Kernel.__init__

    def planted(self: Kernel, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        for agent in self.ledger.agents.values():
            agent.tats = None

    return patch.object(Kernel, "__init__", planted)


def a_quota_that_is_charged_by_a_refusal() -> AbstractContextManager[object]:
    refusals_of = quota._refusals

    def planted(batch: Any, charges: Any, *rest: Any) -> Any:
        for agent, bucket, *_ in charges:
            if agent is not None and agent.tats and bucket in agent.tats:
                agent.tats[bucket] += 10**8
        return refusals_of(batch, charges, *rest)

    return patch.object(quota, "_refusals", planted)


def a_batch_that_is_undone_in_part() -> AbstractContextManager[object]:
    undo = Transaction.undo

    def planted(self: Transaction, mark: Any = START) -> None:
        if self._undo:
            self._undo.pop(0)
        undo(self, mark)

    return patch.object(Transaction, "undo", planted)


def an_effect_that_is_settled_and_kept() -> AbstractContextManager[object]:
    def planted(self: Ledger, seq: int, k: int) -> None:
        assert (seq, k) in self.outbox

    return patch.object(Ledger, "settle_effect", planted)


def batches_that_overtake() -> AbstractContextManager[object]:
    def planted(batches: Any, *_: Any) -> Any:
        return list(reversed(range(len(batches))))

    return patch("placet.kernel.kernel.execution_order", planted)


def a_fence_that_is_not_checked() -> AbstractContextManager[object]:
    def planted(epoch: int, *, held: int | None, **rest: Any) -> None:
        require_writer(epoch, held=epoch, **rest)

    return patch("placet.stores.memory.require_writer", planted)


def a_refusal_that_is_not_recorded() -> AbstractContextManager[object]:
    return patch("placet.kernel.gate.FINAL_STAGES", frozenset({"domain"}))


def a_deadline_that_passes_unanswered() -> AbstractContextManager[object]:
    return patch("placet.actors.orchestrator_actor.resolve", lambda reply, result: None)


def commands_that_wait_behind_batches() -> AbstractContextManager[object]:
    take_control = BatchQueue.take_control

    def planted(self: BatchQueue) -> Any:
        return None if len(self) and not self.is_paused else take_control(self)

    stack = ExitStack()
    stack.enter_context(patch.object(BatchQueue, "take_control", planted))
    stack.enter_context(patch.object(OrchestratorActor, "operate", OrchestratorActor.command))
    return stack


def a_view_that_is_kept_too_long() -> AbstractContextManager[object]:
    look = Viewer.view

    def planted(self: Viewer, kernel: Kernel, agent_id: str) -> View:
        shown = look(self, kernel, agent_id)
        seen = self.__dict__.setdefault("seen", shown.state)
        return View(shown.view_seq, shown.sim_time, agent_id, seen)

    return patch.object(Viewer, "view", planted)


def a_rule_that_counts_for_itself() -> AbstractContextManager[object]:
    counter = count()

    def planted(self: Fairground, draft: Draft, sim_time: float) -> None:
        draft.put(CLOCK, "clock", "ticks", next(counter))

    return patch.object(Fairground, "on_tick", planted)


def an_at_most_once_effect_that_is_started_again() -> AbstractContextManager[object]:
    return patch.object(Outbox, "mark", lambda *_: True)


BUGS = [
    (an_answer_before_its_commit, "G2"),
    (an_effect_before_its_commit, "G2"),
    (a_failed_write_that_is_reported_as_done, "G2"),
    (windows_that_are_not_restored, "G5"),
    (quotas_that_are_not_restored, "G11"),
    (a_quota_that_is_charged_by_a_refusal, "G11"),
    (a_batch_that_is_undone_in_part, "G3"),
    (an_effect_that_is_settled_and_kept, "G17"),
    (an_at_most_once_effect_that_is_started_again, "G17"),
    (batches_that_overtake, "G4"),
    pytest.param(a_fence_that_is_not_checked, "G18", marks=pytest.mark.slow),
    (a_refusal_that_is_not_recorded, "G2"),
    (a_deadline_that_passes_unanswered, "G1"),
    pytest.param(commands_that_wait_behind_batches, "G24", marks=pytest.mark.slow),
    (a_view_that_is_kept_too_long, "G20"),
    (a_rule_that_counts_for_itself, "G16"),
]


def test_a_failing_seed_prints_its_command_and_is_reproducible():
    with batches_that_overtake():
        failed = next(outcome for outcome in map(simulate, range(SEEDS_MAX)) if outcome.findings)
        assert simulate(failed.seed) == failed
    assert f"./dev python -m tests.simulation.run {failed.seed}\n" in failed.report()
    assert failed.findings[0] in failed.report()
    assert simulate(failed.seed).findings == []


@pytest.mark.parametrize(
    ("bug", "guarantee"), BUGS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_planted_bug_is_found(bug, guarantee):
    all_findings: list[str] = []
    with bug():
        for seed in range(SEEDS_MAX):
            all_findings += simulate(seed).findings
            if any(finding.startswith(guarantee) for finding in all_findings):
                return
    pytest.fail(
        f"{bug.__name__} was not found as {guarantee} in {SEEDS_MAX} seeds: {all_findings[:9]}"
    )
