"""Marks of at-most-once effects: in the ledger, in the log, and in snapshots."""

from typing import Any

import pytest

from placet.kernel import Kernel
from placet.kernel.ledger.ledger import Ledger, Mark
from placet.kernel.log.replay import Divergence, folded
from placet.kernel.log.snapshot import dump, load, world_digest
from placet.schemas.effect import Effect, EffectKey, Settlement
from placet.schemas.log.record import EffectChanged, decode_record, record_as_dict, record_type
from tests.kernel.builders import intent, kernel_of, reused
from tests.kernel.domains import MAIL, Lab


def with_letters(count: int = 2) -> tuple[Kernel, list[bytes], list[Effect]]:
    kernel, log = reused()
    kernel.register_agent("alice")
    kernel.change_executor(MAIL, 9)
    assert kernel.decide([intent("Mail", {"count": count}, "r")]).admitted
    return kernel, log, kernel.open_effects()


def test_a_mark_is_a_record_with_a_seq_and_is_in_the_ledger():
    kernel, log, (first, _) = with_letters()
    seq, digest = kernel.seq, kernel.world_digest()
    assert kernel.mark_effect(first.key, "started", now=2.0)
    assert kernel.mark_effect(first.key, "in_doubt", "the line went dead")
    assert kernel.seq == seq + 2
    assert kernel.world_digest() != digest
    record = decode_record(log[-1])
    assert isinstance(record, EffectChanged)
    assert record_type(record) == "effect_changed"
    assert record_as_dict(record) == {
        "effect_seq": first.key.seq,
        "effect_index": 0,
        "what": "in_doubt",
        "why": "the line went dead",
    }
    assert kernel.ledger.marks == {(first.key.seq, 0): Mark("in_doubt", "the line went dead")}
    assert len(kernel.open_effects()) == 2  # it still counts against the bound of the outbox


def test_no_effect_starts_twice_and_only_a_started_one_is_in_doubt():
    kernel, log, (first, second) = with_letters()
    count = len(log)
    assert not kernel.mark_effect(first.key, "in_doubt")
    assert not kernel.mark_effect(EffectKey("other", *_place(first)), "started")
    assert not kernel.mark_effect(EffectKey("world", 10**6, 0), "started")
    assert len(log) == count
    assert kernel.mark_effect(first.key, "started")
    assert not kernel.mark_effect(first.key, "started")
    assert kernel.mark_effect(first.key, "in_doubt")
    assert not kernel.mark_effect(first.key, "in_doubt")
    assert not kernel.mark_effect(first.key, "started")
    assert kernel.settle(Settlement(second.key, True))
    assert not kernel.mark_effect(second.key, "started")
    assert len(log) == count + 3


def test_a_settlement_removes_the_mark():
    kernel, _, (first, second) = with_letters()
    kernel.mark_effect(first.key, "started")
    assert kernel.settle(Settlement(second.key, True))
    assert kernel.settle(Settlement(first.key, False, "lost"))
    assert not kernel.settle(Settlement(first.key, False, "lost"))
    assert kernel.ledger.marks == {}


@pytest.mark.parametrize("why", ["x" * 5_000, "a lone \ud800 surrogate"])
def test_a_reason_is_truncated_to_the_limit_of_a_record(why):
    kernel, log, (first, _) = with_letters()
    kernel.mark_effect(first.key, "started")
    assert kernel.mark_effect(first.key, "in_doubt", why)
    record = decode_record(log[-1])
    assert isinstance(record, EffectChanged)
    assert len(record.why) <= 1_000


def test_replay_and_snapshot_restore_the_marks():
    kernel, log, (first, second) = with_letters()
    without = dump(kernel.tree, kernel.ledger)
    assert b"marks" not in without  # a world that has none has the digest that it always had
    kernel.mark_effect(first.key, "started")
    kernel.mark_effect(second.key, "started")
    kernel.mark_effect(second.key, "in_doubt", "?")
    past = folded(log)
    assert past.ledger.marks == kernel.ledger.marks
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()
    ledger = Ledger(kernel.ledger.policy)
    load(dump(kernel.tree, kernel.ledger), ledger, 10)
    assert ledger.marks == kernel.ledger.marks


def test_a_recorded_mark_of_a_settled_effect_is_a_divergence():
    kernel, log, (first, _) = with_letters()
    kernel.mark_effect(first.key, "started")
    marking = log[-1]
    past = folded(log[:-1])
    past.ledger.settle_effect(*_place(first))
    with pytest.raises(Divergence, match="effect_changed does not fit"):
        past.apply(marking)


def _place(effect: Effect) -> tuple[int, int]:
    return effect.key.seq, effect.key.effect_index


def test_an_interrupt_of_on_settle_is_raised_and_settles_nothing():
    class Interrupted(Lab):
        def on_settle(self, *_: Any) -> None:
            raise KeyboardInterrupt

    kernel = kernel_of(Interrupted())
    kernel.decide(intent("Mail", {"count": 1}))
    (effect,) = kernel.open_effects()
    with pytest.raises(KeyboardInterrupt):
        kernel.settle(Settlement(effect.key, succeeded=True))
    assert kernel.open_effects() == [effect]
