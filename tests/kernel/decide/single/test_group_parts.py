"""The parts of the decision of a group: what is rare, and what must not pass."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BeforeValidator
from typing_extensions import TypedDict

from placet.kernel import Kernel, KernelConfig
from placet.kernel.decide.single import record as group_record
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.dedup_window import DedupWindows, RangeEntry
from placet.kernel.log.replay import Replayer, folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.plugin.domain import Domain, Kind, RuleRefusal
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import array_header, from_canonical
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.limits import Limits
from placet.schemas.log.expand import batches_of
from placet.schemas.log.record import SingleBlock, decode_record

NAMES = [f"n:{number}" for number in range(8)]
DESKS = "desk.agents"


def _unreadable(value: object) -> object:
    if value == "interrupt":
        raise KeyboardInterrupt
    if value == "raise":
        raise RuntimeError("a validator")
    return value


class Note(TypedDict):
    how: Annotated[str, BeforeValidator(_unreadable)]


class Interrupting(dict[str, object]):
    """Details of a refusal that are interrupted while they are read."""

    def __iter__(self) -> Iterator[str]:
        raise KeyboardInterrupt

    items = keys = __iter__  # type: ignore[assignment]


def write(draft: Draft, intent: Intent) -> RuleRefusal | None:
    how = intent["payload"]["how"]
    if how == "refuse":
        return RuleRefusal("no", "no", details=Interrupting(a=1))
    if how == "no refusal":
        return "refused"  # type: ignore[return-value]  # a mistake of its author
    if how == "work":
        draft.charge(10**6)
    draft.put(DESKS, draft.agent_id, "note", 2**70 if how == "huge" else how)
    return None


class Desk(Domain):
    name, version, kinds = "desk", "1", (Kind("Write", Note, write),)

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Any]) -> None:
        draft.create(DESKS, agent_id, {"note": ""})


class Strict(Desk):
    """The same with an invariant and a hook that raise for one note."""

    def on_batch(self, draft: Draft) -> None:
        if draft.get(DESKS, draft.agent_id, "note") == "hook":
            raise RuntimeError("a hook")

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        for collection, entity in changed:
            if state.get(collection, entity or "", "note") == "bad":
                yield RuleRefusal("bad", "a bad note")


def opened(domain: type[Domain] = Desk) -> tuple[Kernel, list[bytes]]:
    log: list[bytes] = []
    kernel = Kernel(domain(), KernelConfig(seed=3), sink=log.append)
    for name in NAMES:
        kernel.register_agent(name)
    return kernel, log


def batches(*hows: str, n: int = 0) -> list[list[dict[str, Any]]]:
    return [
        [
            {
                "kind": "Write", "payload": {"how": how}, "agent_id": agent, "priority": 10,
                "req_id": f"{agent}:{n}", "context_seq": 0, "schema_version": "1.0.0",
            }
        ]
        for agent, how in zip(NAMES, hows, strict=False)
    ]  # fmt: skip


def test_a_validator_that_raises_refuses_its_batch_alone():
    kernel, _ = opened()
    verdicts = kernel.decide_group(batches("a", "raise", "b"))
    assert [verdict.codes for verdict in verdicts] == [(), ("payload_invalid",), ()]


def test_an_interrupt_in_a_validator_ends_the_group():
    kernel, _ = opened()
    with pytest.raises(KeyboardInterrupt):
        kernel.decide_group(batches("a", "interrupt"))


def test_an_interrupt_while_a_refusal_is_read_ends_the_group():
    kernel, _ = opened()
    with pytest.raises(KeyboardInterrupt):
        kernel.decide_group(batches("refuse", "refuse"))


def test_a_rule_that_returns_no_refusal_is_an_error_of_the_rule():
    kernel, _ = opened()
    verdicts = kernel.decide_group(batches("a", "no refusal", "b"))
    assert [verdict.codes for verdict in verdicts] == [(), ("rule_error",), ()]


def test_a_rule_that_exceeds_its_work_is_refused():
    kernel, _ = opened()
    verdicts = kernel.decide_group(batches("a", "work", "b"))
    assert [verdict.codes for verdict in verdicts] == [(), ("work_exceeded",), ()]
    assert kernel.tree.get(DESKS, NAMES[1], "note") == ""


def test_a_value_that_no_record_can_hold_refuses_its_batch_alone():
    kernel, log = opened()
    verdicts = kernel.decide_group(batches("a", "huge", "b"))
    assert [verdict.codes for verdict in verdicts] == [(), ("rule_error",), ()]
    assert [kernel.tree.get(DESKS, name, "note") for name in NAMES[:3]] == ["a", "", "b"]
    assert folded(log).state.digest().hex() == kernel.digest()


def test_a_hook_that_raises_refuses_its_batch_and_undoes_it():
    kernel, _ = opened(Strict)
    verdicts = kernel.decide_group(batches("a", "hook", "b"))
    assert [verdict.codes for verdict in verdicts] == [(), ("rule_error",), ()]
    assert [kernel.tree.get(DESKS, name, "note") for name in NAMES[:3]] == ["a", "", "b"]


def test_a_violated_invariant_refuses_its_batch_and_undoes_it():
    kernel, _ = opened(Strict)
    verdicts = kernel.decide_group(batches("a", "bad", "b"))
    assert [verdict.codes for verdict in verdicts] == [(), ("invariant_violated",), ()]
    assert [kernel.tree.get(DESKS, name, "note") for name in NAMES[:3]] == ["a", "", "b"]


def test_a_large_intent_is_checked_by_itself():
    kernel, _ = opened()
    verdicts = kernel.decide_group(batches("a", "x" * 20_000, "y" * 70_000))
    assert [verdict.codes for verdict in verdicts] == [(), (), ("payload_too_large",)]


def test_a_record_is_bounded(monkeypatch):
    monkeypatch.setattr(group_record, "_RECORD_BYTES_MAX", 60)
    monkeypatch.setattr(group_record, "_NAMES_MAX", 1)
    kernel, log = opened()
    kernel.decide_group(batches(*"abcdefgh"))
    groups = [record for record in map(decode_record, log) if isinstance(record, SingleBlock)]
    assert len(groups) > 2
    assert sum(len(group.numbers) for group in groups) == len(NAMES)
    past = folded(log)
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()


def test_a_fold_of_a_group_leaves_earlier_cuts_as_they_are():
    kernel, log = opened()
    kernel.decide_group(batches(*"abcdefgh"))
    past = Replayer()
    for data in log[:-1]:
        past.apply(data)
    cut = past.state.cut()
    past.apply(log[-1])
    assert cut.get(DESKS, NAMES[0], "note") == ""
    assert past.state.digest().hex() == kernel.digest()


@pytest.mark.parametrize("change", [{"numbers": [1]}, {"puts": [None] * 9}, {"keys": []}])
def test_an_inconsistent_group_is_an_error(change):
    kernel, log = opened()
    kernel.decide_group(batches(*"abcdefgh"))
    record = decode_record(log[-1])
    assert isinstance(record, SingleBlock)
    with pytest.raises(ValueError, match="an inconsistent block of batches"):
        batches_of(msgspec.structs.replace(record, **change))


def test_many_ids_of_one_sequence_are_remembered_in_a_deque():
    windows, agent = DedupWindows(), Agent("ann", "ann")
    remember_above = windows.remembering(0, Limits(window_ids_max=5_000))
    for number in range(2_000):
        entry = RangeEntry(number, 0, number, "s", number, number)
        remember_above(agent, agent.window, entry)
    assert agent.window is not None
    assert [agent.window.find(f"s:{n}").seq for n in (0, 1_500)] == [0, 1_500]  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [3, 15, 16, 65_535, 65_536])
def test_the_header_of_an_array_is_that_of_msgpack(count):
    assert from_canonical(array_header(count) + b"\xc0" * count) == [None] * count
