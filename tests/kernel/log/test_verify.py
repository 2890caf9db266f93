"""Verification reproduces a log, and names the rule of the first difference."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from hypothesis import example, given, settings
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from placet.kernel import Domain, Kind
from placet.kernel.log.divergence import DecisionMismatch, Difference, difference_of_records
from placet.kernel.log.replay import Divergence, folded
from placet.kernel.log.snapshot import resume, take, world_digest
from placet.kernel.log.verify import Verifier
from placet.kernel.state.draft import Draft
from placet.schemas.codec import canonical
from placet.schemas.effect import Settlement
from placet.schemas.errors import StoreError
from placet.schemas.intent import Intent
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Changes,
    Checkpoint,
    Configured,
    EntityChange,
    Header,
    Refused,
    Registered,
    Scheduled,
    Settled,
    Tick,
    decode_record,
    encode_record,
    record_body,
    record_hash,
)
from tests.kernel.builders import add, intent, kernel_of, reused
from tests.kernel.domains import COUNTS, MAIL, THINGS, Amount, Lab
from tests.kernel.traces import SETTINGS, TRACES, random_trace, run_trace

EACH_SETTING = pytest.mark.parametrize("setting", SETTINGS)


def decided(log: Sequence[bytes], domains: Any = None, **options: Any) -> Verifier:
    """Decide a whole log again, by the lab if nothing else is said."""
    again = Verifier([Lab()] if domains is None else domains, **options)
    for data in log:
        again.apply(data)
    return again


def difference(log: Sequence[bytes], domains: Any = None, **options: Any) -> Difference:
    """Verify a log that must have a divergence, and return it."""
    with pytest.raises(DecisionMismatch) as raised:
        decided(log, domains, **options)
    return raised.value.difference


def rechained(log: Sequence[bytes], place: int, alter: Callable[[Any], Any]) -> list[bytes]:
    """Alter one record, and hash all after it anew: what no chain can show."""
    forged: list[bytes] = list(log[:place])
    for ordinal in range(place, len(log)):
        record: Any = decode_record(log[ordinal])
        record = alter(record) if ordinal == place else record
        prev = record_hash(forged[-1]) if forged else record.prev
        forged.append(encode_record(msgspec.structs.replace(record, prev=prev)))
    return forged


def place_of(log: Sequence[bytes], kind: type) -> int:
    return next(n for n, data in enumerate(log) if isinstance(decode_record(data), kind))


def replaced(**fields: Any) -> Callable[[Any], Any]:
    return lambda record: msgspec.structs.replace(record, **fields)


# it comes out the same


@EACH_SETTING
@settings(max_examples=8)
@given(trace=TRACES)
@example(trace=random_trace(1))
@example(trace=random_trace(2))
@example(trace=random_trace(3))
def test_verification_gives_the_same_world(setting, trace):
    """decide(inputs of the log) = the log: records, state and books."""
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, trace)
    again = decided(log, SETTINGS[setting]["domain"])
    assert world_digest(again.state, again.ledger).hex() == kernel.world_digest()
    assert (again.journal.prev, again.journal.count) == (record_hash(log[-1]), len(log))
    plain = folded(log)
    for name in vars(plain):
        if name not in {"state", "ledger", "journal"}:
            assert getattr(again, name) == getattr(plain, name), name
    batches = [r for r in map(decode_record, log) if isinstance(r, Admitted | Refused | Scheduled)]
    assert again.batches == len(batches)
    assert again.intents == sum(len(batch.contexts) for batch in batches)
    assert again.unverified == []


class LetterModel(BaseModel, extra="forbid"):
    from_: str = Field(alias="from")


class LetterDict(TypedDict):
    from_: Annotated[str, Field(alias="from")]


@pytest.mark.parametrize("model", [LetterModel, LetterDict])
def test_a_field_with_an_alias_is_read_back_by_its_name(model):
    class Post(Domain):
        name, version = "post", "1"
        kinds = (Kind("Write", model, lambda *_: None),)

    log: list[bytes] = []
    kernel = kernel_of(Post(), sink=log)
    verdict = kernel.decide(intent("Write", {"from": "alice"}, "a"))
    (applied,) = [result.normalized for result in verdict.results]
    assert applied == {"from_": "alice"}
    assert kernel.decide(intent("Write", applied, "b")).results[0].normalized == applied
    later = {"intents": [intent("Write", {"from": "alice"}, "c")], "sim_time": 1}
    assert kernel.decide(later).scheduled
    kernel.step(2)
    due = kernel.verdict_of("alice", "c")
    assert due is not None
    assert (due.admitted, due.scheduled) == (True, False)
    assert decided(log, [Post()]).batches == 4


class Who(str, Enum):  # noqa: UP042  # formats as `Who.ANN`
    ANN = "ann"


def test_an_agent_id_is_read_back_unchanged():
    class Homes(Lab):
        def on_register(self, draft, agent_id, attributes):
            draft.create(THINGS, f"home of {agent_id}", {"draw": draft.draw("home")})

        def on_remove(self, draft, agent_id):
            draft.delete(THINGS, f"home of {agent_id}")

    log: list[bytes] = []
    kernel = kernel_of(Homes(), agents=(), sink=log)
    kernel.register_agent(Who.ANN)
    assert [*kernel.tree.ids(THINGS)] == ["home of ann"]
    kernel.change_agent(Who.ANN, "removed")
    assert [*kernel.tree.ids(THINGS)] == []
    assert decided(log, [Homes()]).hooks == 2


class Taker(Domain):
    """A domain that modifies the arguments of its hooks."""

    version = "1"

    def __init__(self, name: str) -> None:
        self.name, self.kinds = name, (Kind(f"{name}.Go", Amount, lambda *_: None),)

    def on_register(self, draft, agent_id, attributes):
        at = attributes.pop("at")
        draft.create(f"{self.name}.homes", agent_id, {"at": at.pop(), "others": len(at)})

    def on_settle(self, draft, effect, settlement):
        draft.create(f"{self.name}.letters", "one", {"last": settlement.output["lines"].pop()})


def test_a_hook_cannot_change_the_record_through_its_arguments():
    log: list[bytes] = []
    kernel = kernel_of(domains := [Lab(), Taker("inn"), Taker("mill")], agents=(), sink=log)
    kernel.register_agent("alice", at=[1, 2])
    assert kernel.decide(intent("Mail", {"count": 1})).admitted
    assert kernel.settle(Settlement(kernel.open_effects()[0].key, True, {"lines": ["a", "b"]}))
    for name in ("inn", "mill"):
        assert kernel.tree.entity(f"{name}.homes", "alice") == {"at": 2, "others": 1}
        assert kernel.tree.entity(f"{name}.letters", "one") == {"last": "b"}
    assert decided(log, domains).hooks == 2


@EACH_SETTING
def test_verification_can_start_at_a_snapshot_or_any_record(setting):
    kernel, log = reused(**SETTINGS[setting])
    run_trace(kernel, random_trace(7))
    domains = SETTINGS[setting]["domain"]
    for middle in (len(log) // 3, len(log) - 9):
        past = resume(take(folded(log[:middle])))
        begun_at = past.ledger.tick, past.ledger.group
        again = Verifier(domains, past=past)
        for data in log[middle:]:
            again.apply(data)
        assert world_digest(again.state, again.ledger).hex() == kernel.world_digest()
        switched = Verifier(domains)
        for ordinal, data in enumerate(log):
            switched.is_folding = ordinal < middle
            switched.apply(data)
        records = map(decode_record, log[middle:])
        batches = [r for r in records if isinstance(r, Admitted | Refused | Scheduled)]
        assert switched.batches == len(batches)
        assert again.batches == sum((one.tick, one.group) >= begun_at for one in batches)
        assert switched.state.digest().hex() == kernel.digest()


def test_batches_of_a_truncated_group_are_not_verified():
    """The claims of the truncated group are not known any more."""
    log: list[bytes] = []
    kernel = kernel_of(sink=log, agents=("alice", "bob", "carol"))
    kernel.joins_batches = False
    kernel.decide_group([
        [intent("Grab", {"thing": "cup"}, agent_id=agent_id)]
        for agent_id in ("alice", "bob", "carol")
    ])  # fmt: skip
    kernel.decide([intent("Grab", {"thing": "cup"}, "later")])
    cut = len(log) - 3
    assert isinstance(decode_record(log[cut]), Refused)
    again = Verifier([Lab()], past=resume(take(folded(log[:cut]))))
    for data in log[cut:]:
        again.apply(data)
    assert again.batches == 1
    assert [(part.first_record, part.last_record) for part in again.unverified] == [(cut, cut + 1)]
    assert again.ledger.seq == kernel.seq


def test_claims_of_a_group_are_restored():
    log: list[bytes] = []
    kernel = kernel_of(sink=log, agents=("alice", "bob", "carol"))
    kernel.joins_batches = False
    kernel.decide_group([
        [intent("Grab", {"thing": "cup"}, agent_id=agent_id)]
        for agent_id in ("alice", "bob", "carol")
    ])  # fmt: skip
    kernel.decide([intent("Grab", {"thing": "cup"}, "later")])
    again = decided(log)
    assert again.batches == 4
    assert sum(isinstance(decode_record(data), Refused) for data in log) == 2
    # Taken apart into groups of their own, nobody was there first.
    second = place_of(log, Refused)
    refused = decode_record(log[second])
    assert isinstance(refused, Refused)
    apart = rechained(log, second, replaced(group=refused.group + 1, group_seq=refused.seq))
    assert difference(apart).part == "the verdict"


# it does not come out the same


def tamper_changes(record: Admitted) -> Any:
    (first, *others) = record.changes.entities
    fields = {**(first.fields or {}), "count": 7}
    forged = msgspec.structs.replace(first, fields=fields)
    return msgspec.structs.replace(record, changes=Changes([forged, *others]))


def test_forged_changes_with_a_valid_chain_are_detected():
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide([add("p", 3), add("q", 4, agent_id="bob")])
    forged = rechained(log, place_of(log, Admitted), tamper_changes)
    folded(forged)  # holds, as far as a chain can tell
    found = difference(forged)
    assert found.record == place_of(log, Admitted)
    assert found.part == f"{COUNTS}/alice count"
    assert (found.recorded, found.decided) == (7, 3)
    assert (found.batch_id, found.agent_id, found.req_id) == ("b1", "alice", "p")
    assert found.rule == "Add of lab 1"
    assert found.seq == 4
    assert "re-executed, lab.counts/alice count is 3, recorded is 7" in found.why


class Moody(Domain):
    """A rule that reads a global variable."""

    name, version = "moody", "3"
    told: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.kinds = (Kind("Say", Amount, self.say), Kind("Roll", Amount, self.roll))

    def say(self, draft: Draft, given: Intent) -> None:
        if not draft.exists("moody.all", "it"):
            draft.create("moody.all", "it")
        self.told.append(len(self.told))
        draft.put("moody.all", "it", given["agent_id"], len(self.told))

    def roll(self, draft: Draft, given: Intent) -> None:
        self.say(draft, given)
        draft.put("moody.all", "it", "roll", [draft.draw("dice"), draft.randint_below(6, "die")])


def test_a_rule_that_reads_a_global_is_named_with_its_draws():
    log: list[bytes] = []
    kernel = kernel_of(Moody(), sink=log)
    kernel.decide([intent("Say", req_id="p", agent_id="bob")])
    kernel.decide([intent("Roll", req_id="q")])
    found = difference(log, [Moody()])
    assert found.rule == "Say of moody 3"
    assert (found.agent_id, found.req_id) == ("bob", "p")
    log.clear()
    Moody.told.clear()
    kernel = kernel_of(Moody(), sink=log)
    kernel.decide([intent("Roll", req_id="q")])
    found = difference(log, [Moody()])
    assert found.rule == "Roll of moody 3"
    assert [draw.purpose for draw in found.draws] == ["dice", "die"]
    assert all((draw.n, draw.agent_id) == (0, "alice") for draw in found.draws)
    assert "it drew 'dice' for alice at tick 0, 0 s, intent 0 gave" in found.why
    assert found.as_dict()["draws"][1]["value"] == found.draws[1].value


class Curious(Domain):
    """A rule that reads in every way."""

    name, version = "curious", "1"

    def __init__(self) -> None:
        self.kinds = (Kind("Read", Amount, self.read),)

    def read(self, draft: Draft, given: Intent) -> None:
        for _ in range(2):
            draft.get(COUNTS, "it", "count")
            draft.exists(COUNTS, "it")
        draft.entity(COUNTS, "it")
        draft.create(COUNTS, "it", {"count": 1})
        draft.entity(COUNTS, "other")
        draft.entity(COUNTS, "it")


@pytest.mark.parametrize("records_reads", [True, False])
def test_a_dry_run_has_each_read_of_a_rule_once(records_reads):
    log: list[bytes] = []
    kernel_of(Curious(), sink=log).decide([intent("Read", req_id="p")])
    past = Verifier([Curious()])
    past.records_reads = records_reads
    for data in log[:-1]:
        past.apply(data)
    record = decode_record(log[-1])
    assert isinstance(record, Admitted)
    assert past.dry_run(record) is not None
    reads = [("it", "count", None), ("it", None, None), ("other", None, None)]
    assert [read[2:] for read in past.reads] == (reads if records_reads else [])


def lived() -> list[bytes]:
    """A log with a record of every type."""
    log: list[bytes] = []
    kernel = kernel_of(Lab(things=("a",)), sink=log, limits={"checkpoint_groups": 3})
    kernel.decide([add("p"), intent("Clamp", {"amount": 99}, "q", priority=50)])
    kernel.decide([intent("Take", {"amount": 50}, "r")])
    kernel.decide([intent("Mail", {"count": 2}, "s")])
    kernel.settle(Settlement(kernel.open_effects()[0].key, succeeded=True, output=["ok"]))
    kernel.decide({"intents": [add("t")], "sim_time": 5})
    kernel.step(6)
    kernel.change_agent("bob", "suspended")
    kernel.change_agent("bob", "removed")
    kernel.register_agent("carol", quotas={"Add": {"rate": 3, "burst": 2}}, count=2)
    kernel.decide([intent("Remake", {"thing": "a"}, "u"), intent("Remake", {"thing": "c"}, "v")])
    return log


def effect_of_another_number(record: Admitted) -> Any:
    (seq, kind, payload, agent_id), *others = record.effects
    return msgspec.structs.replace(
        record, effects=[(seq, kind, {**payload, "number": 9}, agent_id), *others]
    )


def change(**fields: Any) -> Callable[[Any], Any]:
    """Alter the first change of a record."""

    def alter(record: Any) -> Any:
        first, *others = record.changes.entities
        forged = msgspec.structs.replace(first, **fields)
        return msgspec.structs.replace(
            record, changes=Changes([forged, *others], record.changes.collections)
        )

    return alter


def other_way_round(record: Any) -> Any:
    entities = record.changes.entities
    changes = Changes([*reversed(entities)], record.changes.collections)
    return msgspec.structs.replace(record, changes=changes)


def other_stamp(record: Any) -> Any:
    (stamp, *others) = record.changes.collections
    forged = msgspec.structs.replace(stamp, by="nobody")
    return msgspec.structs.replace(
        record, changes=Changes(record.changes.entities, [forged, *others])
    )


def one_more(record: Any) -> Any:
    more = EntityChange(THINGS, "new", {"x": 1}, True, record.seq, "alice", 0)
    return msgspec.structs.replace(
        record, changes=Changes([*record.changes.entities, more], record.changes.collections)
    )


def changed_twice(record: Any) -> Any:
    """Put before a change another one of the same entity, which a fold would make too."""
    (first, *_) = record.changes.entities
    before = msgspec.structs.replace(first, fields={**first.fields, "x": 1})
    changes = Changes([before, *record.changes.entities], record.changes.collections)
    return msgspec.structs.replace(record, changes=changes)


def refused_for_nothing(record: Any) -> Any:
    names = [name for name in Refused.__struct_fields__ if name != "refusals"]
    return Refused(**{name: getattr(record, name) for name in names}, refusals=[])


A_BATCH, MAILED, REMADE = (Admitted, 0), (Admitted, 1), (Admitted, 3)
FORGERIES: list[tuple[tuple[type, int], Callable[[Any], Any], str, str]] = [
    (A_BATCH, replaced(normalized=None), "the normalized payload", "Clamp of lab 1"),
    (A_BATCH, replaced(notices=None), "a warning", "Clamp of lab 1"),
    (A_BATCH, replaced(notices=[(1, [("odd", "", ""), ("clamped", "other words", "/amount")])]),
     "a warning", "Clamp of lab 1"),
    (A_BATCH, replaced(order=None), "the order of its intents", "the kernel's order"),
    (A_BATCH, change(foreign_seq=1), f"{COUNTS}/alice (foreign_seq)", "Add of lab 1"),
    (A_BATCH, change(fields={}), f"{COUNTS}/alice count", "Add of lab 1"),
    (A_BATCH, change(fields={"count": 10.0}), f"{COUNTS}/alice count", "Add of lab 1"),
    (A_BATCH, change(fields={"count": 11, "x": 1}), f"{COUNTS}/alice x", "Add of lab 1"),
    (A_BATCH, one_more, f"{THINGS}/new", "Add of lab 1"),
    (A_BATCH, changed_twice, "the order of changes", "Add of lab 1"),
    (A_BATCH, refused_for_nothing, "the verdict", "Add of lab 1"),
    ((Admitted, 2), replaced(fingerprint=7), "its fingerprint", "the kernel's schedule"),
    (MAILED, effect_of_another_number, "an effect", "Mail of lab 1"),
    (REMADE, change(fields=None), f"{THINGS}/a", "Remake of lab 1"),
    (REMADE, other_way_round, "the order of changes", "Remake of lab 1"),
    (REMADE, other_stamp, "the stamps of collections", "Remake of lab 1"),
    ((Refused, 0), replaced(refusals=[(0, "domain", "lab.other", "")]), "a refusal",
     "Take of lab 1"),
    ((Refused, 0), replaced(refusals=[(0, "staleness", "stale_context", "")]), "the verdict",
     "the stage staleness, for Take of lab 1"),
    ((Registered, 2), change(fields={"count": 3}), f"{COUNTS}/carol count", "on_register of lab 1"),
    ((AgentChanged, 1), replaced(changes=Changes()), f"{COUNTS}/bob", "on_remove of lab 1"),
    ((Tick, 0), change(fields={"time": 1.0}), f"{COUNTS}/clock draw", "on_tick of lab 1"),
    ((Settled, 0), replaced(changes=Changes()), "lab.letters/world/7/0", "on_settle of lab 1"),
    ((Settled, 0), replaced(effect_index=7), "the outcome", "on_settle of lab 1"),
    ((Header, 0), replaced(changes=Changes()), f"{THINGS}/a", "on_open of lab 1"),
    (A_BATCH, replaced(encoded=canonical([["alice", i, "Nope", {}, 1] for i in "pq"])),
     "the verdict", "Nope, which is not a kind of these domains"),
    ((Scheduled, 0), replaced(number=8), "its entry in the schedule", "the kernel's schedule"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "alter", "what", "rule"), FORGERIES)
def test_a_forged_record_is_named_with_its_field_and_rule(where, alter, what, rule):
    log = lived()
    kind, nth = where
    place = [n for n, d in enumerate(log) if isinstance(decode_record(d), kind)][nth]
    found = difference(rechained(log, place, alter), [Lab(things=("a",))])
    assert (found.record, found.part, found.rule) == (place, what, rule)
    assert found.as_dict()["why"] == found.why


def test_a_log_with_every_record_type_is_verified():
    log = lived()
    again = decided(log, [Lab(things=("a",))])
    assert {type(decode_record(data)).__name__ for data in log} == {
        "Header", "Configured", "ExecutorChanged", "Registered", "Admitted", "Refused", "Settled",
        "Scheduled", "Tick", "AgentChanged", "Checkpoint",
    }  # fmt: skip
    assert (again.batches, again.hooks) == (6, 7)


def test_a_recorded_refusal_of_a_stage_without_records_is_detected():
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide([intent("Take", {"amount": 50})])
    place = place_of(log, Refused)
    forged = rechained(log, place, replaced(submitter="carol"))
    found = difference(forged)
    assert found.part == "the verdict"
    assert found.decided == "refused at agent, agent_not_yours"
    same = replaced(submitter="carol", refusals=[(0, "agent", "agent_not_yours", "")])
    found = difference(rechained(log, place, same))
    assert (found.part, found.decided) == ("the outcome", "nothing is recorded")


def test_a_batch_admitted_twice_is_detected():
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide([add("p")])
    twice = [*log, b""]
    record: Any = decode_record(log[-1])
    record = msgspec.structs.replace(record, prev=record_hash(log[-1]), seq=record.seq + 1)
    twice[-1] = encode_record(record)
    found = difference(twice)
    assert (found.recorded, found.decided) == ("admitted", "answered before")


def test_messages_may_differ():
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide([intent("Take", {"amount": 50})])
    kernel.decide([intent("Clamp", {"amount": 50}, "q", schema_version="1.9.0")])

    def reworded(record: Any) -> Any:
        refusals = [(index, stage, code, "!") for index, stage, code, _ in record.refusals]
        return msgspec.structs.replace(record, refusals=refusals)

    assert decided(rechained(log, place_of(log, Refused), reworded)).batches == 2


def test_a_hook_that_now_refuses_is_detected():
    log: list[bytes] = []
    kernel_of(sink=log).register_agent("carol", count=2)
    forged = rechained(log, len(log) - 1, replaced(attributes={"count": -1}))
    found = difference(forged)
    assert found.part == "the outcome"
    assert "count must not be negative" in str(found.decided)
    assert found.agent_id == "carol"


def test_verification_detects_damage():
    log = lived()
    with pytest.raises(Divergence, match="the chain is broken"):
        decided([*log[:5], log[6]], [Lab(things=("a",))])
    place = place_of(log, Checkpoint)
    with pytest.raises(Divergence, match="state digest"):
        decided(rechained(log, place, replaced(state_digest=b"x" * 16)), [Lab(things=("a",))])


# other rules


def test_other_rules_verify_nothing_and_give_the_reason():
    log = lived()

    class Later(Lab):
        version = "2"

    again = decided(log, [Later(things=("a",))])
    assert (again.batches, again.hooks) == (0, 0)
    assert again.state.digest() == folded(log).state.digest()
    (unverified,) = again.unverified
    first, last = unverified.first_record, unverified.last_record
    decided_last = max(
        place for place, data in enumerate(log) if not isinstance(decode_record(data), Checkpoint)
    )
    assert (first, last) == (place_of(log, Registered), decided_last)
    assert "it was decided by lab 1 (" in unverified.why
    assert "lab 2 (" in unverified.why
    assert decided(log, ()).unverified[0].why == "no domain is given"


def test_a_domain_with_other_settings_verifies_nothing():
    class Set(Lab):
        def __init__(self, step: int = 1) -> None:
            super().__init__()
            self.step = step

        def settings(self) -> dict[str, Any]:
            return {"step": self.step}

    log: list[bytes] = []
    kernel_of(Set(2), sink=log).decide([add("p")])
    assert decided(log, [Set(2)]).batches == 1
    why = decided(log, [Set(3)]).unverified[0].why
    assert why == "the settings of lab were {'step': 2} and are {'step': 3}"
    made = decided(log, lambda rules: [Set(**rules.settings["lab"])])
    assert made.batches == 1


def test_payloads_that_changed_without_their_version_are_named():
    class WiderAmount(TypedDict):
        amount: float

    class Wider(Lab):
        kinds = (replace(Lab.kinds[0], payload=WiderAmount), *Lab.kinds[1:])

    log: list[bytes] = []
    kernel_of(sink=log).decide([add("p")])
    why = decided(log, [Wider()]).unverified[0].why
    assert "the payloads differ, though the versions are the same" in why


def test_a_domain_with_another_kind_re_executes_what_it_decided_without():
    class Wider(Lab):
        kinds = (*Lab.kinds, Kind("More", Amount, lambda draft, given: None))

    log: list[bytes] = []
    kernel_of(sink=log).decide([add("p")])
    assert not decided(log, [Wider()]).unverified


def test_domains_that_cannot_be_recreated_verify_nothing():
    def cannot(rules: Any) -> Any:
        raise StoreError("it is gone")

    assert decided(lived(), cannot).unverified[0].why == "it is gone"


# a host's own rule


class Guard:
    """A host validator that checks permissions and bounds amounts."""

    def __init__(self, most: int = 5) -> None:
        self.most = most
        self.told: dict[str, set[str]] = {}

    def set_agent_permissions(self, agent_id: str, kinds: set[str]) -> None:
        self.told[agent_id] = kinds

    def validate_intent(self, given: Any, world_state: Any) -> bool:
        return bool(given["kind"] in self.told[given["agent_id"]]) and (
            given["payload"].get("amount", 0) <= self.most
        )


def guarded() -> list[bytes]:
    log: list[bytes] = []
    kernel = kernel_of(sink=log, validator=Guard())
    kernel.decide([add("p", 9)])
    kernel.decide([add("q", 2)])
    kernel.decide([intent("Take", {"amount": 4}, "r")])
    kernel.set_agent_permissions("bob", {"Add"})
    kernel.decide([add("s", 9, agent_id="bob")])
    kernel.tick(1.0)
    kernel.change_agent("bob", "removed")
    return log


def test_refusals_of_a_missing_validator_are_no_divergence():
    again = decided(guarded())
    assert (again.batches, again.refused_by_host) == (4, 2)


def test_an_available_validator_is_called_again():
    again = decided(guarded(), validator=Guard())
    assert (again.batches, again.refused_by_host) == (4, 0)
    found = difference(guarded(), validator=Guard(10))
    assert (found.recorded, found.decided) == ("refused at domain, lab.refused", "admitted")


def test_another_validator_is_not_called():
    class Other(Guard):
        pass

    assert decided(guarded(), validator=Other()).refused_by_host == 2


# reading what a record is


def test_the_body_of_a_record_excludes_the_previous_hash():
    long, short = lived()[-1], lived()[-2]
    assert decode_record(long).__struct_fields__ != decode_record(short).__struct_fields__
    for data in lived():
        record: Any = decode_record(data)
        moved = encode_record(msgspec.structs.replace(record, prev=b"y" * 16))
        assert moved != data
        assert record_body(moved) == record_body(data)
        later = encode_record(msgspec.structs.replace(record, now_ns=record.now_ns + 1))
        assert record_body(later) != record_body(data)


def test_the_first_difference_of_two_records_is_reported():
    records: dict[type, Any] = {type(r): r for r in map(decode_record, lived())}
    admitted, refused = records[Admitted], records[Refused]
    replace = msgspec.structs.replace
    assert difference_of_records(admitted, records[Tick]).name == "type of the record"
    assert difference_of_records(admitted, refused).name == "proposed intents"
    failed = replace(
        refused, **{name: getattr(admitted, name) for name in ("encoded", "contexts", "submitter")}
    )
    part = difference_of_records(admitted, failed)
    assert (part.name, part.recorded) == ("the verdict", "admitted")
    assert (
        difference_of_records(admitted, other_stamp(admitted)).name == "the stamps of collections"
    )
    registered = records[Registered]
    other = replace(registered, agent_id="zoe")
    assert difference_of_records(registered, other).name == "its agent_id"
    scheduled = records[Scheduled]
    assert difference_of_records(scheduled, replace(scheduled, due_ns=9)).name == "its due_ns"
    configured = records[Configured]
    part = difference_of_records(configured, replace(configured, staleness_threshold=1))
    assert part.name == "its staleness_threshold"
    later = replace(configured, now_ns=5)
    assert difference_of_records(configured, later).name == "time of the decision"


def test_mail_is_a_kind_with_an_effect():
    assert next(kind for kind in Lab.kinds if kind.name == "Mail").effects == (MAIL,)


def test_a_log_with_a_name_that_may_not_be_registered_today_verifies(monkeypatch):
    kernel, log = reused()
    with monkeypatch.context() as before:
        before.setattr("placet.kernel.kernel.require_clear_name", lambda _: None)
        kernel.register_agent("ali\u202ece")
    assert "ali\u202ece" in folded(log).ledger.agents
    again = decided(log)
    assert world_digest(again.state, again.ledger).hex() == kernel.world_digest()
