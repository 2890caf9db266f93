"""Groups of batches of one intent: decided together, they come to what each comes to alone."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from placet.kernel import Kernel
from placet.kernel.decide.single import record
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.plugin.domain import Domain, Kind
from placet.kernel.state.draft import Draft
from placet.kernel.state.transaction import Transaction
from placet.schemas.codec import canonical
from placet.schemas.intent import Intent
from tests.kernel.decide.single.lives import Life


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_a_group_and_its_batches_one_by_one_give_the_same(seed):
    assert Life(seed).compare(6) is None


def test_lives_meet_every_stage():
    codes: Counter[str] = Counter()
    for seed in range(30):
        life = Life(seed)
        assert life.compare(8) is None
        codes += life.codes
    expected = {"admitted", "replayed", "scheduled", "conflict", "rule_error", "stale_context"}
    expected |= {"quota_exceeded", "executor_busy", "req_id_reused", "req_id_too_old"}
    expected |= {"invariant_violated", "agent_unknown", "agent_suspended", "permission_denied"}
    expected |= {"agent_not_yours", "kind_unknown", "payload_invalid", "field_missing"}
    expected |= {"context_from_future", "expired", "tool_unregistered", "odd.unlucky"}
    expected |= {"work_exceeded", "world.out_of_bounds", "field_invalid", "odd.refused"}
    assert expected <= set(codes), expected - set(codes)


def test_an_interrupt_ends_the_group_and_keeps_the_batches_before_it():
    log: list[bytes] = []
    kernel = Kernel(Interrupted(), sink=log.append)
    for name in "abc":
        kernel.register_agent(name)
    with pytest.raises(KeyboardInterrupt):
        kernel.decide_group([[step(name)] for name in "abc"])
    past = folded(log)
    assert past.state.digest().hex() == kernel.digest()
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()
    steps = [kernel.tree.get("halt.agents", name, "step") for name in "abc"]
    assert steps.count(True) == kernel.tree.get("halt.agents", "a", "limit") == 2


class Interrupted(Domain):
    """A domain whose third rule meets Ctrl-C."""

    name, version = "halt", "1"

    def __init__(self) -> None:
        self.steps = 0
        self.kinds = (Kind("Step", dict[str, JsonValue], self.step),)

    def on_register(self, draft: Draft, agent_id: str, attributes: object) -> None:
        draft.create("halt.agents", agent_id, {"limit": 2})

    def step(self, draft: Draft, intent: Intent) -> None:
        self.steps += 1
        draft.put("halt.agents", draft.agent_id, "step", value=True)
        if self.steps > 2:
            raise KeyboardInterrupt


def step(name):
    return {
        "kind": "Step",
        "payload": {},
        "agent_id": name,
        "req_id": f"{name}:0",
        "context_seq": 0,
        "priority": 10,
        "schema_version": "1.0.0",
    }


class Waits(Domain):
    """A domain whose kind changes nothing."""

    name, version = "waits", "1"
    kinds = (Kind("Wait", dict[str, JsonValue], lambda *_: None),)


def test_a_group_is_folded_in_any_order_of_the_req_ids_and_without_a_change():
    log: list[bytes] = []
    kernel = Kernel(Waits(), sink=log.append)
    for name in "ab":
        kernel.register_agent(name)
    waits = [
        [{**step(name), "kind": "Wait", "req_id": f"{name}:{number}"}]
        for number in (5, 3)
        for name in "ab"
    ]
    assert all(verdict.admitted for verdict in kernel.decide_group(waits))
    past = folded(log)
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()


def _names_are_not_encoded(monkeypatch):
    def plant(value):
        is_key = isinstance(value, tuple) and len(value) == 2
        return b"" if is_key else canonical(value)

    monkeypatch.setattr(record, "canonical", plant)


def _a_position_stays(monkeypatch):
    def open_single(draft, size, seq, agent_id):
        draft.open_batch(size)
        draft.seq, draft.agent_id = seq, agent_id

    monkeypatch.setattr(Transaction, "open_single", open_single)


def _a_sum_of_changes_stays(monkeypatch):
    def open_single(draft, size, seq, agent_id):
        summed = draft._summed
        open_before(draft, size, seq, agent_id)
        draft._summed = summed

    open_before = Transaction.open_single
    monkeypatch.setattr(Transaction, "open_single", open_single)


@pytest.mark.parametrize(
    "plant", [_names_are_not_encoded, _a_position_stays, _a_sum_of_changes_stays]
)
def test_a_planted_fault_breaks_the_law(plant, monkeypatch):
    plant(monkeypatch)
    for seed in range(100):
        try:
            if Life(seed).compare(8) is not None:
                return
        except Exception:  # noqa: BLE001  # the fault may break the world itself
            return
    pytest.fail("the law held")
