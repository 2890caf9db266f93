"""Verification decides column batches again, and names the first row that differs."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from placet.kernel import (
    ColumnBatch,
    Domain,
    Draft,
    Field,
    Kernel,
    KernelConfig,
    Kind,
    RecordList,
    Table,
)
from placet.kernel.arrays.row_codes import CONFLICT
from placet.kernel.columns import row_by_row
from placet.kernel.log.divergence import DecisionMismatch, Difference, difference_of_records
from placet.kernel.log.replay import Divergence, folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.schemas.log.column_records import ColumnWrite
from placet.schemas.log.record import (
    Columns,
    TableMade,
    decode_record,
    encode_record,
    record_hash,
)
from tests.kernel.columns import lab
from tests.kernel.columns.lab import Lab

N, CELLS = 12, 20


def lived(seed: int = 1, **options: Any) -> tuple[Kernel, RecordList]:
    """Return a world after a batch of each kind, with refusals, lost claims, additions, quotas."""
    log = RecordList()
    config = KernelConfig(seed=seed, quotas={"Take": {"rate": 0.5, "burst": 1}}, **options)
    kernel = Kernel(Lab(N, CELLS), config, sink=log)
    rng = np.random.default_rng(seed)
    position = np.full((N, 2), 500.0)
    kernel.register_population(
        "birds", N, table="lab.agents", cell=np.arange(N), position=position, owner="ann"
    )
    kernel.change_agent("birds:3", "suspended")
    for number, kind in enumerate([*lab.KINDS, *lab.KINDS]):
        who = rng.permutation(N)[: N - 2] if number % 3 else np.arange(N)
        payload = lab.payload_of(rng, kind, who, N, CELLS, kernel.population("birds")["position"])
        agents = who if number % 3 else None
        context: Any = kernel.seq if number % 2 else np.full(len(who), kernel.seq)
        kernel.step(1.0, [ColumnBatch(kind, "birds", payload, f"b:{number}", agents, context)])
    kernel.change_agent("birds:3", "resumed")
    free = {"to": (np.arange(N) + 1) % N, "amount": np.zeros(N, np.int32)}
    roll = {"x": np.zeros(N, np.int16)}
    kernel.step(
        1.0,
        [ColumnBatch("Give", "birds", free, "free"), ColumnBatch("Roll", "birds", roll, "roll")],
    )
    return kernel, log


LIVED, LOG = lived()


def verified(log: Sequence[bytes], domain: Domain | None = None, **attributes: Any) -> Verifier:
    again = Verifier([Lab(N, CELLS) if domain is None else domain])
    for name, value in attributes.items():
        setattr(again, name, value)
    for data in log:
        again.apply(data)
    return again


def difference(log: Sequence[bytes], domain: Domain | None = None) -> Difference:
    with pytest.raises(DecisionMismatch) as raised:
        verified(log, domain)
    return raised.value.difference


def rechained(log: Sequence[bytes], place: int, **fields: Any) -> list[bytes]:
    """Alter one record, and hash all after it again."""
    forged = list(log[:place])
    for ordinal in range(place, len(log)):
        record: Any = decode_record(log[ordinal])
        record = msgspec.structs.replace(record, **fields) if ordinal == place else record
        forged.append(encode_record(msgspec.structs.replace(record, prev=record_hash(forged[-1]))))
    return forged


def found(log: Sequence[bytes], wanted: Callable[[Columns], object]) -> tuple[int, Columns]:
    records = map(decode_record, log)
    return next((n, r) for n, r in enumerate(records) if isinstance(r, Columns) and wanted(r))


@pytest.mark.parametrize("uses_arrays", [True, False])
def test_tables_and_column_batches_are_re_executed(uses_arrays):
    again = verified(LOG, uses_arrays=uses_arrays)
    records = list(map(decode_record, LOG))
    batches = [record for record in records if isinstance(record, Columns)]
    assert again.batches == len(batches) == 2 * len(lab.KINDS) + 2
    assert again.intents == sum(len(each.agents) // 4 or N for each in batches)
    assert again.hooks == len([r for r in records if isinstance(r, TableMade)]) + 3 + 2 * len(
        lab.KINDS
    )
    assert again.unverified == []
    assert again.batches_seen == folded(LOG).batches_seen
    assert again.groups == folded(LOG).groups
    assert world_digest(again.state, again.ledger).hex() == LIVED.world_digest()


def test_the_other_execution_is_used_where_it_is_chosen(monkeypatch):
    used = []
    decide = row_by_row.decide

    def counted(*given: Any) -> Any:
        used.append(given)
        return decide(*given)

    monkeypatch.setattr(row_by_row, "decide", counted)
    verified(LOG)
    assert not used
    verified(LOG, uses_arrays=False)
    assert len(used) == 2 * len(lab.KINDS) + 2


def test_without_the_domain_column_batches_are_folded_and_counted():
    again = Verifier()
    for data in LOG:
        again.apply(data)
    assert again.batches == 0
    (range_,) = again.unverified
    assert (range_.first_record, range_.last_record) == (0, len(LOG) - 1) or range_.why
    assert world_digest(again.state, again.ledger).hex() == LIVED.world_digest()


def test_verification_can_start_behind_a_column_batch():
    for place in (5, 9, len(LOG) - 1):
        again = Verifier([Lab(N, CELLS)], past=folded(LOG[:place]))
        for data in LOG[place:]:
            again.apply(data)
        assert world_digest(again.state, again.ledger).hex() == LIVED.world_digest()


def test_a_column_batch_that_was_decided_before_is_no_second_record():
    place, record = found(LOG, lambda r: r.req_id == "b:0")
    past = folded(LOG[: place + 1])
    second = msgspec.structs.replace(
        record, prev=past.journal.prev, seq=record.seq + 1, group_seq=record.seq,
        group=record.group + 1, number=99,
    )  # fmt: skip
    again = difference([*LOG[: place + 1], encode_record(second)])
    assert (again.part, again.decided) == ("the outcome", "answered before")
    assert (again.batch_id, again.agent_id, again.req_id) == ("b99", "birds", "b:0")


# planted differences


class Other(Lab):
    """The lab with one rule replaced."""

    def __init__(self, name: str, rule: Callable[[Any], None]) -> None:
        super().__init__(N, CELLS)
        self.kinds = tuple(
            Kind(k.name, k.fields, rows=rule, table=k.table, reads_self=k.reads_self)
            if k.name == name
            else k
            for k in self.kinds
        )


def roll_one_more(rows: Any) -> None:
    rows.refuse(rows.random_unit("luck") < 0.2, "unlucky")
    rows.write("hue", (rows.randint_below(7, "hue") + (rows.numbers >= 5)) % 5)


def test_a_changed_rule_is_named_with_the_first_row():
    _, log = fresh = lived(5)
    del fresh
    place, record = found(log, lambda r: r.kind == "Roll" and r.seq > r.group_seq)
    before = folded(log[:place]).state
    again = difference(log, Other("Roll", roll_one_more))
    after = folded(log[: place + 1]).state
    assert (again.record, again.type, again.batch_id) == (place, "columns", f"b{record.number}")
    assert again.rule == "Roll of lab 1"
    assert again.agent_id is not None
    assert again.part == f"lab.agents/{again.agent_id} hue"
    assert again.recorded == after.get("lab.agents", again.agent_id, "hue") != again.decided
    assert before is not after
    assert again.why.startswith(f"columns b{record.number} of '{again.agent_id}' ({record.req_id})")
    assert again.why.endswith("the rule is Roll of lab 1")


def test_a_rule_that_raises_now_is_named():
    def broken(rows: Any) -> None:
        raise ZeroDivisionError

    again = difference(LOG, Other("Move", broken))
    assert again.rule == "Move of lab 1"
    assert (again.recorded, again.decided) == ("admitted", "refused: rule_error")


def test_a_rule_with_another_code_is_named():
    def longer(rows: Any) -> None:
        rows.refuse(rows.random_unit("luck") < 0.2, "out_of_luck")
        rows.write("hue", rows.randint_below(7, "hue"))

    again = difference(LOG, Other("Roll", longer))
    assert (again.recorded, again.decided) == ("refused: lab.unlucky", "refused: lab.out_of_luck")
    assert again.part == f"the verdict on {again.agent_id}"


def test_only_another_message_is_no_difference():
    def reworded(rows: Any) -> None:
        lab.settle(rows)
        rows.reasons[:] = [(code, "another text") for code, _ in rows.reasons]

    again = verified(LOG, Other("Settle", reworded))
    assert any("somebody" in r[2] for d in LOG for r in getattr(decode_record(d), "reasons", ()))
    assert world_digest(again.state, again.ledger).hex() == LIVED.world_digest()
    ends = found(LOG, lambda r: r.kind == "Settle" and r.reasons)[0] + 1
    part = verified(LOG[:ends], Other("Settle", reworded))
    whole = folded(LOG[:ends])
    assert world_digest(part.state, part.ledger) == world_digest(whole.state, whole.ledger)


def flipped(data: bytes, place: int, value: int) -> bytes:
    changed = bytearray(data)
    changed[place] = value
    return bytes(changed)


def test_a_changed_code_is_named_with_its_row():
    place, record = found(LOG, lambda r: r.kind == "Give" and r.codes and r.agents)
    row = next(n for n, code in enumerate(record.codes) if code)
    forged = rechained(LOG, place, codes=flipped(record.codes, row, 2))
    again = difference(forged)
    who = f"birds:{np.frombuffer(record.agents, '<u4')[row]}"
    assert (again.record, again.agent_id, again.part) == (place, who, f"the verdict on {who}")
    assert again.recorded == "refused: agent_suspended" != again.decided
    assert again.rule == "Give of lab 1"


def test_a_changed_value_is_named_with_its_row_and_field():
    place, record = found(LOG, lambda r: r.kind == "Roll" and r.changes)
    change = record.changes[0]
    assert change.data
    wrong = flipped(change.data, len(change.data) - 2, 3 if change.data[-2] != 3 else 4)
    forged = rechained(LOG, place, changes=[msgspec.structs.replace(change, data=wrong)])
    again = difference(forged)
    numbers = np.frombuffer(record.agents, "<u4") if record.agents else np.arange(N)
    codes = np.frombuffer(record.codes, np.uint8) if record.codes else np.zeros(N)
    who = f"birds:{numbers[codes == 0][-1]}"
    assert (again.agent_id, again.part) == (who, f"lab.agents/{who} hue")
    assert (again.recorded, again.decided) == (int(wrong[-2]), int(change.data[-2]))


def test_a_changed_target_is_named():
    place, record = found(LOG, lambda r: r.kind == "Give" and r.changes)
    first, *rest = record.changes
    at = np.frombuffer(first.at, "<i4").copy()
    true, at[1] = int(at[1]), (at[1] + 1) % N
    forged = rechained(LOG, place, changes=[msgspec.structs.replace(first, at=at.tobytes()), *rest])
    again = difference(forged)
    assert again.part.startswith("the row of the add of lab.agents/money by birds:")
    assert again.recorded == f"lab.agents/birds:{at[1]}"
    assert again.decided == f"lab.agents/birds:{true}"


def test_a_changed_amount_is_named():
    place, record = found(LOG, lambda r: r.kind == "Give" and r.changes)
    first, *rest = record.changes
    amounts = np.frombuffer(first.data, "<i4").copy()
    true, amounts[0] = int(amounts[0]), amounts[0] + 1
    forged = rechained(
        LOG, place, changes=[msgspec.structs.replace(first, data=amounts.tobytes()), *rest]
    )
    again = difference(forged)
    assert again.part.startswith("lab.agents/birds:")
    assert again.part.endswith(" money, the amount added,")
    assert (again.recorded, again.decided) == (true + 1, true)


def test_a_changed_winner_is_named():
    place, record = found(LOG, lambda r: len(r.winners) >= 4)
    winners = np.frombuffer(record.winners, "<i4").copy()
    true, winners[-1] = int(winners[-1]), (winners[-1] + 1) % N
    forged = rechained(LOG, place, winners=winners.tobytes())
    again = difference(forged)
    row = np.flatnonzero(np.frombuffer(record.codes, np.uint8) == CONFLICT)[-1]
    number = np.frombuffer(record.agents, "<u4")[row] if record.agents else row
    assert again.part == f"the winner over birds:{number}"
    assert (again.recorded, again.decided) == (f"birds:{winners[-1]}", f"birds:{true}")


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"fingerprint": 5}, "its fingerprint"),
        ({"group": 7}, None),
        ({"changes": []}, "a change"),
        ({"winners": b"1234"}, "the number of its winners"),
        ({"version": "9"}, "its version"),
        ({"kind": "Jump"}, "its form"),
        ({"codes": bytes(N)}, "its codes"),
    ],
)
def test_other_forged_fields_are_named(fields, part):
    place, _ = found(LOG, lambda r: not r.codes and not r.agents)
    forged = rechained(LOG, place, **fields)
    if part is None:
        with pytest.raises(Divergence, match="it is of group 7"):
            verified(forged)
    else:
        assert difference(forged).part == part


# tables


class Keeper(Lab):
    """The lab, with an entity for the population that is made by a hook."""

    def __init__(self, count: int = N) -> None:
        super().__init__(count, CELLS)

    def on_populate(self, draft: Draft, population: Any) -> None:
        draft.create("lab.flocks", population.name, {"count": population.count, "luck": 3})


def test_a_population_is_registered_again():
    log = RecordList()
    kernel = Kernel(Keeper(), KernelConfig(), sink=log)
    quotas = {"Move": {"rate": 2, "burst": 4}}
    kernel.register_population(
        "birds", N, table="lab.agents", permissions={"Move"}, owner="ann", quotas=quotas,
        priority_max=7, money=np.arange(N) % 4,
    )  # fmt: skip
    again = verified(log, Keeper())
    assert again.hooks == 2
    assert world_digest(again.state, again.ledger).hex() == kernel.world_digest()
    lost = difference(log, Lab(N, CELLS))
    assert (lost.type, lost.part) == ("table_made", "lab.flocks/birds")
    assert lost.rule == "on_populate of lab 1"
    place = len(log) - 1
    other = difference(rechained(log, place, stem="bats"), Keeper())
    assert other.part == "lab.flocks/bats"
    made: Any = decode_record(log[place])
    assert made.columns[0][0] == "money"


def test_a_column_that_hooks_did_not_write_is_named():
    log = RecordList()
    kernel = Kernel(Keeper(), KernelConfig(), sink=log)
    kernel.register_population("birds", N, table="lab.agents")
    place = len(log) - 1
    write = ColumnWrite("lab.agents", "hue", b"", bytes(2 * N))
    again = difference(rechained(log, place, written=[write]), Keeper())
    assert (again.part, again.recorded, again.decided) == (
        "the column lab.agents/hue",
        "lab.agents/hue",
        "none",
    )


def test_values_in_the_place_of_a_column_of_the_payload_are_named():
    place, record = found(LOG, lambda r: r.kind == "Move" and r.changes)
    (change,) = record.changes
    assert change.column == "to"
    _, dtype, _, data = record.payload[0]
    codes = np.frombuffer(record.codes or bytes(len(data) // 16), np.uint8)
    values = np.frombuffer(data, dtype).reshape(-1, 2)[codes == 0].tobytes()
    written = msgspec.structs.replace(change, column="", data=values)
    again = difference(rechained(LOG, place, changes=[written]))
    assert (again.part, again.recorded) == ("its changes", ["put of lab.agents/position"])
    assert again.decided == ["put of lab.agents/position = to"]


def test_a_table_that_the_domain_does_not_have_is_named():
    place = next(n for n, data in enumerate(LOG) if isinstance(decode_record(data), TableMade))
    again = difference(rechained(LOG, place, table="lab.huts"))
    assert (again.part, again.type) == ("the outcome", "table_made")
    assert again.decided == "ValueError: the domains have no table 'lab.huts'"


# comparing two records


def test_two_records_of_column_batches_are_compared():
    _, record = found(LOG, lambda r: r.kind == "Roll" and r.changes and not r.agents)
    name, dtype, shape, data = record.payload[0]
    replace = msgspec.structs.replace
    other = replace(record, payload=[(name, dtype, shape, flipped(data, 4, 77))])
    part = difference_of_records(record, other)
    assert (part.name, part.index, part.decided) == ("the payload's x of birds:2", None, 77)
    part = difference_of_records(record, replace(record, payload=[("y", dtype, shape, data)]))
    assert part.name == "the fields of its payload"
    part = difference_of_records(record, replace(record, contexts=record.group_seq + 5))
    assert part.name == "the context_seq of birds:0"
    numbers = np.arange(3, dtype="<u4").tobytes()
    assert difference_of_records(record, replace(record, agents=numbers)).name == "its agents"
    assert difference_of_records(record, replace(record, req_id="x")).name == "its req_id"
    assert difference_of_records(record, replace(record, now_ns=5)).name == "time of the decision"
    last = replace(record, group=77)
    assert difference_of_records(record, last).name == "its group"
    empty = replace(record, agents=b"", codes=b"", payload=[], changes=[])
    assert difference_of_records(empty, replace(empty, tick=77)).name == "its tick"


def test_a_row_is_named_by_number_where_its_table_is_not_known():
    _, record = found(LOG, lambda r: r.kind == "Take" and r.changes)
    change = next(c for c in record.changes if c.at)
    at = np.frombuffer(change.at, "<i4").copy()
    at[0] = -1 if at[0] >= 0 else 3
    other = msgspec.structs.replace(
        record,
        changes=[
            msgspec.structs.replace(c, at=at.tobytes()) if c is change else c
            for c in record.changes
        ],
    )
    part = difference_of_records(record, other)
    assert "none" in {part.recorded, part.decided}
    assert any(str(each).startswith("lab.cells/") for each in (part.recorded, part.decided))


# columns that hooks write


class Weather(Lab):
    """The lab, whose agents are moved and colored by the hook of a tick."""

    def __init__(self, hue: int = 2) -> None:
        super().__init__(N, CELLS)
        self.hue = hue

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        agents = draft.columns("lab.agents")
        agents.set("position", agents["position"] + 1.0)
        where = np.arange(0, N, 3)
        agents.set("hue", np.full(len(where), self.hue, np.int16), where=where)


def weathered() -> RecordList:
    log = RecordList()
    kernel = Kernel(Weather(), KernelConfig(), sink=log)
    kernel.register_population("birds", N, table="lab.agents")
    roll = {"x": np.zeros(N, np.int16)}
    for number in range(4):
        kernel.step(1.0, [ColumnBatch("Roll", "birds", roll, f"r:{number}")])
    return log


def test_columns_that_hooks_write_are_compared():
    log = weathered()
    again = verified(log, Weather())
    assert again.unverified == []
    assert again.hooks == 6
    other = difference(log, Weather(3))
    assert (other.type, other.part) == ("tick", "the column lab.agents/hue")
    assert other.rule == "on_tick of lab 1"
    lost = difference(log, Lab(N, CELLS))
    assert lost.part == "the column lab.agents/position"
    assert (lost.recorded, lost.decided) == ("lab.agents/position", "none")


@pytest.mark.parametrize("agents", [None, [2, 1]])
def test_a_changed_value_is_named_where_the_payload_is_empty(agents: Any) -> None:
    class Steps(Domain):
        name, version = "v", "1"
        tables = (Table("v.a", {"x": Field("i4"), "y": Field("f8", 2)}),)

        def __init__(self, step: int) -> None:
            def rule(rows: Any) -> None:
                rows.write("x", rows.own["x"] + step * (rows.numbers == 2))

            self.kinds = (Kind("Go", {}, rows=rule, table="v.a"),)

    log = RecordList()
    kernel = Kernel(Steps(1), sink=log)
    kernel.register_population("a", 4, table="v.a")
    kernel.step(1.0, [ColumnBatch("Go", "a", {}, "go:1", agents=agents)])
    verifier = Verifier([Steps(2)])
    *before, columns, _tick = log
    for data in before:
        verifier.apply(data)
    with pytest.raises(DecisionMismatch, match=r"v\.a/a:2 x"):
        verifier.apply(columns)


@pytest.mark.parametrize(
    ("payload", "field"), [({}, "x"), ({}, "y"), ({}, None), ({"z": Field("i4")}, "x")]
)
def test_records_of_all_members_are_compared_without_their_population(
    payload: dict[str, Field], field: str | None
) -> None:
    def record_of(step: int, fields: dict[str, Field]) -> Columns:
        def rule(rows: Any) -> None:
            if field is not None:
                rows.write(field, rows.own[field] + step)

        class Steps(Domain):
            name, version = "v", "1"
            tables = (Table("v.a", {"x": Field("i4"), "y": Field("f8", 2)}),)
            kinds = (Kind("Go", fields, rows=rule, table="v.a"),)

        log = RecordList()
        kernel = Kernel(Steps(), sink=log)
        kernel.register_population("a", 4, table="v.a")
        values = {name: np.arange(4) for name in fields}
        kernel.decide_columns(ColumnBatch("Go", "a", values, "go:1"))
        record = decode_record(log[-1])
        assert isinstance(record, Columns)
        return record

    first = record_of(1, payload)
    second = record_of(2, payload)
    part = difference_of_records(first, second)
    assert part.name == ("time of the decision" if field is None else f"v.a/0 {field}")
