"""Operator patches and forks: changes, refusals, and their verification."""

from typing import Any

import msgspec
import pytest

from placet.kernel import KernelConfig
from placet.kernel.control.operator_patch import require_fork, with_origin
from placet.kernel.gate.structure import Structure
from placet.kernel.log.divergence import DecisionMismatch
from placet.kernel.log.replay import Replayer, folded, forked_header
from placet.kernel.log.sandbox import Sandbox
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.schemas.errors import AgentError, ValidationError
from placet.schemas.log.record import (
    Changes,
    ForkAdopted,
    Forked,
    Patched,
    decode_record,
    encode_record,
    record_hash,
)
from tests.kernel.builders import add, intent, kernel_of, trace
from tests.kernel.domains import COUNTS, MAIL, THINGS, Lab


def decided(log: list[bytes], domain: Domain) -> Verifier:
    again = Verifier([domain])
    for data in log:
        again.apply(data)
    return again


def test_an_operator_patch_changes_values_and_is_recorded():
    log: list[bytes] = []
    lab = Lab(things=("a", "b"))
    kernel = kernel_of(lab, sink=log)
    before = kernel.seq
    given: list[Any] = [
        (COUNTS, "alice", {"count": 7}, False),
        (THINGS, "a", None, True),
        (THINGS, "b", {"value": 1, "more": [1, {"x": None}]}, True),
        (THINGS, "new", {}, True),
    ]
    kernel.patch(given, "because")
    assert kernel.seq == before + 1
    assert kernel.tree.get(COUNTS, "alice", "count") == 7
    assert not kernel.tree.exists(THINGS, "a")
    assert kernel.tree.entity(THINGS, "b") == {"value": 1, "more": (1, {"x": None})}
    assert kernel.tree.exists(THINGS, "new")
    record = decode_record(log[-1])
    assert isinstance(record, Patched)
    assert (record.cause, len(record.given), len(record.changes.entities)) == ("because", 4, 4)
    for past in (folded(log), decided(log, lab)):
        assert past.state.digest().hex() == kernel.digest()
    changed = {one.entity: (one.by, one.is_whole) for one in record.changes.entities}
    assert changed["b"] == ("operator", False)  # it was not made anew


def test_a_patch_that_drops_fields_creates_the_entity_anew():
    log: list[bytes] = []
    kernel = kernel_of(Lab(things=("a",)), sink=log)
    kernel.patch([(THINGS, "a", {"other": 1}, True)], "less")
    assert kernel.tree.entity(THINGS, "a") == {"other": 1}
    assert folded(log).state.digest().hex() == kernel.digest()


def test_a_context_before_an_operator_patch_is_stale():
    kernel = kernel_of(Lab(things=("a",)))
    seen = kernel.seq
    kernel.patch([(THINGS, "a", {"value": 9}, False)], "set right")
    stale = kernel.decide([intent("Look", {"thing": "a"}, "l", context_seq=seen)])
    assert stale.codes == ("stale_context",)
    assert stale.refusals[0].changed[0]["by"] == "operator"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([(COUNTS, "nobody", {"count": 1}, False)], "no entity lab.counts/nobody"),
        ([(COUNTS, "nobody", None, True)], "no entity lab.counts/nobody"),
        ([(COUNTS, "alice", {"count": 99}, False)], "more than 60"),
        ([(COUNTS, "alice", {"count": 13}, False)], "alice must not have 13"),
        ([(COUNTS, "alice", {"count": {1, 2}}, False)], "must be plain JSON"),
        ([(COUNTS, "bob", {"count": 1}, False), (COUNTS, "x", None, True)], "no entity"),
    ],
)
def test_an_invalid_patch_changes_nothing(given, said):
    kernel = kernel_of(Lab(ceiling=60))
    before = trace(kernel)
    with pytest.raises(ValidationError, match=said):
        kernel.patch(given, "in vain")
    assert trace(kernel) == before
    assert kernel.decide([add("a:0")]).admitted


@pytest.mark.parametrize("hook", ["on_patch", "invariants"])
def test_a_hook_that_raises_is_named(hook):
    kernel = kernel_of(Lab())
    kernel.registry.domains[0].faults.add(hook)  # type: ignore[attr-defined]  # the lab's
    before = trace(kernel)
    with pytest.raises(ValidationError, match=rf"{hook} of lab raised RuntimeError"):
        kernel.patch([(COUNTS, "alice", {"count": 1}, False)], "in vain")
    assert trace(kernel) == before


def test_changes_made_by_on_patch_are_in_the_record():
    log: list[bytes] = []
    lab = Lab()
    kernel = kernel_of(lab, sink=log)
    kernel.patch([(COUNTS, "alice", {"count": 12}, False)], "because")
    assert kernel.tree.get(COUNTS, "alice", "is_dozen") is True
    for past in (folded(log), decided(log, lab)):
        assert past.state.digest().hex() == kernel.digest()


def test_verify_finds_a_forged_patch():
    log: list[bytes] = []
    lab = Lab()
    kernel = kernel_of(lab, sink=log)
    kernel.patch([(COUNTS, "alice", {"count": 7}, False)], "because")
    record: Any = decode_record(log[-1])
    (change,) = record.changes.entities
    changes = Changes([msgspec.structs.replace(change, fields={"count": 8})])
    log[-1] = encode_record(msgspec.structs.replace(record, changes=changes))
    with pytest.raises(DecisionMismatch, match="invariants, for a patch, of lab 1"):
        decided(log, lab)


# forks


def fork_of(past: Replayer, lab: Lab, **fields: Any) -> bytes:
    """Make the record of a fork at the end of a fold, which it changes."""
    registry, header = Registry([lab]), past.header
    assert header is not None
    structure = Structure(registry, KernelConfig().limits)
    sandbox = Sandbox(registry, structure, past.state, past.ledger, header)
    template = ForkAdopted(
        prev=past.journal.prev,
        seq=past.ledger.seq,
        now_ns=past.ledger.now_ns,
        **{"world": "w2", "parent": "world", "effects": "refuse", "given": [], **fields},
        changes=Changes(),
    )
    sandbox.start(past.journal.prev, past.ledger.now_ns)
    sandbox.execute(template)
    made = sandbox.produced_record()
    assert made is not None
    return made


def test_a_fork_that_is_continued_with_other_settings_has_another_origin():
    log: list[bytes] = []
    kernel_of(sink=log)
    past = folded(log)
    plain = decode_record(fork_of(past, Lab(), dropped=[]))
    assert isinstance(plain, ForkAdopted)
    header = forked_header(past.known_header, with_origin(plain, {"scenario": "hot"}))
    assert header.origin == {"scenario": "hot"}
    assert past.header is not None
    assert forked_header(past.known_header, plain).origin == past.header.origin


def test_a_fork_takes_no_seq_and_renames_the_world():
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide({"intents": [add("late", agent_id="bob")], "sim_time": 9.0}, 1.0)
    kernel.decide({"intents": [add("soon")], "sim_time": 8.0}, 1.0)
    made = fork_of(
        folded(log), Lab(), dropped=["bob"], given=[(COUNTS, "alice", {"count": 3}, False)]
    )
    for past in (folded([*log, made]), decided([*log, made], Lab())):
        assert past.ledger.seq == kernel.seq
        assert isinstance(past.header, Forked)
        assert (past.header.world, past.header.forked_from) == ("w2", ("world", kernel.seq))
        assert past.header_data == encode_record(past.header)
        assert list(past.ledger.agents) == ["alice"]
        assert len(past.ledger.scheduled) == 1
        assert past.ledger.executors == {}
        assert past.state.get(COUNTS, "alice", "count") == 3
        assert past.journal.prev == record_hash(made)
    kept = folded([*log, fork_of(folded(log), Lab(), dropped=[], effects="simulate")])
    assert kept.ledger.executors == {MAIL: 1000}


def test_an_unknown_agent_cannot_be_dropped_and_a_raising_hook_is_named():
    log: list[bytes] = []
    kernel_of(sink=log)
    with pytest.raises(AgentError, match="cannot be dropped"):
        fork_of(folded(log), Lab(), dropped=["nobody"])
    with pytest.raises(ValidationError, match=r"on_remove of lab raised RuntimeError"):
        fork_of(folded(log), Lab("on_remove"), dropped=["bob"])


def test_an_agent_named_twice_is_dropped_once():
    log: list[bytes] = []
    kernel_of(sink=log)
    once = fork_of(folded(log), Lab(), dropped=["bob"])
    assert fork_of(folded(log), Lab(), dropped=["bob", "bob"]) == once


def test_a_fork_needs_another_name_than_its_parent():
    require_fork("w2", "world", "simulate")
    for world in ("world", "", "a/b", "..", "con", "x" * 129, "\n", "a\u202e"):
        with pytest.raises(ValueError, match="needs another name"):
            require_fork(world, "world", "refuse")
    with pytest.raises(ValueError, match="effects must be one of refuse, simulate"):
        require_fork("w2", "world", "live")
