"""The kernel and the reference model agree on any sequence of steps."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from placet.kernel.commit.commit import DecisionRecorder
from placet.kernel.gate import dedup
from placet.kernel.ledger.dedup_window import Window
from placet.kernel.ledger.token_buckets import charge, charges_on
from placet.kernel.log import snapshot
from placet.kernel.state.collection import Stamp
from placet.kernel.state.transaction import START, Transaction
from placet.schemas.refusal import Stage
from tests.kernel.reference.gate_machine import GateMachine
from tests.levels import soak_between


def test_the_kernel_and_the_reference_model_agree():
    """Kernel = model, on every guarantee, after any steps."""
    run_state_machine_as_test(GateMachine, settings=settings(stateful_step_count=25))


# The test can fail: bugs planted in the kernel, each of which the model must notice.

Bug = Callable[[], AbstractContextManager[object]]


def own_changes_that_make_stale() -> AbstractContextManager[object]:
    return patch.object(Stamp, "changed_for", lambda self, agent_id: self.seq)


def claims_that_outlive_their_group() -> AbstractContextManager[object]:
    open_group = Transaction.open_group

    def planted(self: Transaction, *arguments: Any, **options: Any) -> None:
        claims = dict(self._claims)
        open_group(self, *arguments, **options)
        self._claims.update(claims)

    return patch.object(Transaction, "open_group", planted)


def an_order_of_arrival() -> AbstractContextManager[object]:
    return patch("placet.kernel.kernel.execution_order", lambda batches, *_: range(len(batches)))


def a_repetition_of_other_content() -> AbstractContextManager[object]:
    return patch.object(dedup, "_is_same", lambda batch, known: True)


def a_retry_that_is_no_new_try() -> AbstractContextManager[object]:
    return patch.object(dedup, "_is_new_try", lambda batch, pasts, code: False)


def a_quota_that_a_refusal_pays_for() -> AbstractContextManager[object]:
    refuse = DecisionRecorder.refuse

    def planted(self: DecisionRecorder, batch: Any, refusals: Any) -> Any:
        if refusals[0].stage is Stage.DOMAIN and batch.due_of is None:
            ledger = self.context.ledger
            charge(ledger, charges_on(batch, ledger, self.context.now_ns))
        return refuse(self, batch, refusals)

    return patch.object(DecisionRecorder, "refuse", planted)


def claims_that_a_refused_batch_keeps() -> AbstractContextManager[object]:
    undo = Transaction.undo

    def planted(self: Transaction, mark: Any = START) -> None:
        self._claims_undo.clear()
        undo(self, mark)

    return patch.object(Transaction, "undo", planted)


def a_snapshot_without_quotas() -> AbstractContextManager[object]:
    load = snapshot._load_ledger

    def planted(ledger: Any, dumped: Any) -> None:
        load(ledger, dumped)
        for agent in ledger.agents.values():
            agent.tats = None

    return patch.object(snapshot, "_load_ledger", planted)


def a_window_that_is_too_long_by_one() -> AbstractContextManager[object]:
    remember = Window.remember

    def planted(self: Window, block: Any, ids_max: int, *rest: Any) -> int:
        return remember(self, block, ids_max + 1, *rest)

    return patch.object(Window, "remember", planted)


def a_due_batch_that_is_not_judged_again() -> AbstractContextManager[object]:
    return patch("placet.kernel.decide.batches.WHEN_DUE", ())


QUICKLY_SEEN: list[Bug] = [
    own_changes_that_make_stale,
    an_order_of_arrival,
    a_repetition_of_other_content,
    a_window_that_is_too_long_by_one,
]
SLOWLY_SEEN: list[Bug] = [
    claims_that_outlive_their_group,
    claims_that_a_refused_batch_keeps,
    a_retry_that_is_no_new_try,
    a_quota_that_a_refusal_pays_for,
    a_snapshot_without_quotas,
    a_due_batch_that_is_not_judged_again,
]


@pytest.mark.parametrize("bug", QUICKLY_SEEN, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_noticed(bug):
    _notice(bug)


@pytest.mark.slow
@pytest.mark.parametrize("bug", soak_between(SLOWLY_SEEN, 3), ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_noticed_in_a_longer_search(bug):
    _notice(bug)


def _notice(bug: Bug) -> None:
    """Without shrinking: it is enough that the bug is found.

    The search ends there. Most take some hundred examples; which they are moves with the sources,
    for hypothesis tries the constants that it finds in them.
    """
    searching = settings(
        max_examples=6_000,
        stateful_step_count=25,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with bug(), pytest.raises(AssertionError):
        run_state_machine_as_test(GateMachine, settings=searching)
