"""Forks, differences and selections of logs with tables, populations and column batches."""

from collections.abc import Sequence
from pathlib import Path
from re import compile as pattern
from typing import Any

import msgspec
import numpy as np
import pytest

from placet.history.bisect import bisect
from placet.history.diff import diff
from placet.history.fork import Fork, ForkOptions, fork
from placet.history.position import Position, cut_at
from placet.history.selection import Selection, require_named, selected_records
from placet.history.verify_log import verify_log
from placet.kernel import ColumnBatch, Kernel, KernelConfig
from placet.kernel.log.replay import folded
from placet.schemas.errors import PlacetError, ValidationError
from placet.schemas.log.record import Columns, Header, TableMade, decode_record, encode_record
from placet.stores.url import open_event_log
from tests.golden.make import square
from tests.golden.square import Square
from tests.history.forks import log_of, records_in
from tests.kernel.columns.test_verify_columns import flipped, rechained

LOG: list[bytes] = []
square(LOG)
COLUMNS = [
    (n, record) for n, record in enumerate(map(decode_record, LOG)) if isinstance(record, Columns)
]


def forked(
    folder: Path, at: Any, name: str = "f.db", log: Sequence[bytes] = LOG, **options: Any
) -> Fork:
    to = f"sqlite:///{folder / name}?synchronous=off"
    return fork(log_of(log), to, ForkOptions(**options), at=at, domains=[Square()])


def verified(made: Fork) -> list[bytes]:
    """Verify a fork, and return its records."""
    again = verify_log(open_event_log(made.store), [Square()])
    assert again.integrity.first_divergence is None, again.integrity
    assert again.unverified == ()
    return records_in(made.store)


def continued(made: Fork, records: Sequence[bytes]) -> Kernel:
    config = KernelConfig(world=made.world, seed=made.seed)
    return Kernel(Square(), config, history=folded(records))


# forks


def test_a_fork_begins_before_and_after_a_column_batch(tmp_path):
    for place, (number, record) in enumerate(COLUMNS):
        before = forked(tmp_path, Position(record=number - 1), f"b{place}.db")
        after = forked(tmp_path, Position(record=number), f"a{place}.db")
        assert before.digest == folded(LOG[:number]).state.digest().hex()
        assert after.digest == folded(LOG[: number + 1]).state.digest().hex()
        if record.seq > record.group_seq:
            assert forked(tmp_path, record.seq, f"s{place}.db").digest == after.digest
            cut = cut_at(log_of(LOG), Position(seq=record.seq)).records
            assert number + 1 <= cut <= number + 2  # with a checkpoint of the same seq
        records = verified(after)
        kernel = continued(after, records)
        again = kernel.decide_columns(
            ColumnBatch("Sing", "sellers", {"loud": np.zeros(12, np.bool_)}, f"new:{place}")
        )
        assert len(again) == 12


def test_a_batch_without_an_admitted_row_lies_after_the_seq_at_which_it_was_decided():
    number, record = next((n, r) for n, r in COLUMNS if r.seq == r.group_seq)
    cut = cut_at(log_of(LOG), Position(seq=record.seq))
    assert cut.records <= number


def test_ticks_of_column_batches_are_positions():
    log = log_of(LOG)
    assert cut_at(log, Position(tick=0)).records == COLUMNS[0][0]
    inside = COLUMNS[1][0] + 1
    whole = Position(record=inside - 1, whole_ticks_ns=1_000_000_000)
    assert cut_at(log, whole).records == COLUMNS[0][0]


def test_a_member_that_a_fork_drops_is_suspended(tmp_path):
    made = forked(tmp_path, None, dropped=("sellers:2", "ann", "sellers:5"))
    records = verified(made)
    past = folded(records)
    members = past.ledger.populations["sellers"]
    assert members.suspended_mask().nonzero()[0].tolist() == [2, 5]
    assert "ann" not in past.ledger.agents
    assert past.ledger.agents["sellers:2"].is_suspended
    assert past.ledger.gone == {"ann": 1}
    kernel = continued(made, records)
    loud = {"loud": np.zeros(12, np.bool_)}
    verdict = kernel.decide_columns(ColumnBatch("Sing", "sellers", loud, "new"))
    assert verdict.code_of(int(verdict.codes[2])) == "agent_suspended"
    assert verdict.codes.tolist().count(2) == 2


def test_a_fork_sets_values_of_rows(tmp_path):
    put = {"square.people/sellers:2/coins": 5}
    made = forked(tmp_path, None, put=put)
    state = folded(verified(made)).state
    assert state.get("square.people", "sellers:2", "coins") == 5


# counterfactual replay


@pytest.mark.parametrize("number", [1, *(n for n, _ in COLUMNS)])
def test_the_later_inputs_of_an_unchanged_fork_decide_alike(tmp_path, number):
    made = forked(tmp_path, Position(record=number), is_replayed=True)
    report = made.counterfactual
    assert report is not None
    assert (report.stopped, report.changed, report.notes) == ("", [], [])
    assert (report.seq, report.digest) == (report.parent_seq, report.parent_digest)
    assert report.batches == report.same
    assert report.batches == sum(n > number for n, _ in COLUMNS) + (number < 12)
    verified(made)


def test_column_batches_are_decided_again_in_a_changed_fork(tmp_path):
    number = COLUMNS[2][0]
    put = {"square.people/sellers:0/place": [9.0, 9.0], "square.people/sellers:7/coins": 0}
    made = forked(tmp_path, Position(record=number - 1), is_replayed=True, put=put)
    report = made.counterfactual
    assert report is not None
    assert report.stopped == ""
    assert report.digest != report.parent_digest
    assert report.other_differences + report.refused_instead + report.admitted_instead
    first = report.changed[0]
    assert first.record == number
    assert "square.out_of_bounds of 1 rows" in str(first.now)
    assert first.was.agent_ids == ("sellers",)
    verified(made)


def test_rows_of_dropped_members_are_left_out(tmp_path):
    dropped = ("sellers:3", "sellers:7")
    made = forked(tmp_path, Position(record=COLUMNS[0][0] - 1), is_replayed=True, dropped=dropped)
    records = verified(made)
    columns = [r for r in map(decode_record, records) if isinstance(r, Columns)]
    assert len(columns) == len(COLUMNS)
    for each in columns:
        numbers = np.frombuffer(each.agents, "<u4")
        assert len(numbers)
        assert not {3, 7} & set(numbers.tolist())
        assert 2 not in each.codes or 4 in numbers
    state, there = folded(records).state, folded(LOG).state
    assert state.get("square.people", "sellers:3", "place") == (1.5, 1.75)
    assert there.get("square.people", "sellers:3", "place") != (1.5, 1.75)


def test_a_batch_of_dropped_members_alone_is_not_proposed(tmp_path):
    number, record = COLUMNS[-1]
    names = tuple(f"sellers:{n}" for n in np.frombuffer(record.agents, "<u4"))
    made = forked(tmp_path, Position(record=number - 1), is_replayed=True, dropped=names)
    assert made.counterfactual is not None
    assert (made.counterfactual.not_proposed, made.counterfactual.batches) == (1, 0)


def test_a_batch_that_its_domain_can_not_read_stops_the_replay(tmp_path):
    number, _ = COLUMNS[0]
    log = rechained(LOG, number, kind="Jump")
    made = forked(tmp_path, Position(record=number - 1), log=log, is_replayed=True)
    assert made.counterfactual is not None
    assert "has no form: there is no kind 'Jump'" in made.counterfactual.stopped


def test_a_request_that_the_population_remembers_is_not_decided_again(tmp_path):
    number, record = COLUMNS[0]
    past = folded(LOG[: number + 1])
    fields: dict[str, Any] = {"seq": record.seq + 1, "group_seq": record.seq, "number": 99}
    again = msgspec.structs.replace(
        record, prev=past.journal.prev, group=record.group + 1, **fields
    )
    log = [*LOG[: number + 1], encode_record(again)]
    made = forked(tmp_path, Position(record=number), log=log, is_replayed=True)
    assert made.counterfactual is not None
    assert str(made.counterfactual.changed[0].why) == "the population remembers its request"


# differences


def other_world(tmp_path: Path) -> Fork:
    put = {"square.people/sellers:7/coins": 2, "square.stalls/stalls:3/open": False}
    number = COLUMNS[2][0]
    return forked(tmp_path, Position(record=number - 1), is_replayed=True, put=put)


def test_a_world_with_tables_does_not_differ_from_itself():
    found = diff(log_of(LOG), log_of(LOG, 3))
    assert found.is_empty


def test_two_states_are_compared_by_arrays_and_named_by_rows(tmp_path):
    made = other_world(tmp_path)
    second = open_event_log(made.store)
    found = diff(log_of(LOG), second)
    states = [thawed(folded(records)) for records in (LOG, records_in(made.store))]
    expected = {
        f"{name}/{key}/{field}"
        for name in ("square.people", "square.stalls")
        for key, fields in states[0][name].items()
        for field in fields
        if fields[field] != states[1][name][key][field]
    }
    assert {one.path for one in found.state} == expected
    assert "square.people/sellers:7/coins" in expected
    request = next(one for one in found.decisions if one.req_ids == ("Pay:2",))
    assert request.agent_id == "sellers"
    assert "square.out_of_bounds of 1 rows" in str(request.second)
    part = diff(log_of(LOG), second, path="square.people/sellers:7")
    assert {one.entity for one in part.state} == {"sellers:7"}
    same = diff(log_of(LOG), second, path="square.stalls/stalls:1/who")
    assert same.state == ()
    with pytest.raises(ValidationError, match="neither of the two"):
        diff(log_of(LOG), second, path="square.people/sellers:99")


def thawed(past: Any) -> Any:
    return past.state.as_dict()


def test_populations_and_their_suspended_members_are_compared():
    records = map(decode_record, LOG)
    number = next(n for n, r in enumerate(records) if getattr(r, "what", "") == "suspended")
    found = diff(log_of(LOG[:number]), log_of(LOG[: number + 1]))
    assert [(one.path, one.first, one.second) for one in found.ledger] == [
        ("populations/sellers/suspended", [], [4])
    ]
    tables = [n for n, d in enumerate(LOG) if isinstance(decode_record(d), TableMade)]
    found = diff(log_of(LOG[: tables[1]]), log_of(LOG[: tables[1] + 1]))
    assert "populations/sellers" in {one.path for one in found.ledger}
    assert "square.people/sellers:11" in {one.path for one in found.state}


def test_tables_of_other_sizes_are_compared_by_row():
    number, record = next(
        (n, r) for n, d in enumerate(LOG) if isinstance(r := decode_record(d), TableMade)
    )
    longer = msgspec.structs.replace(record, count=11)
    log = [*LOG[:number], encode_record(longer)]
    found = diff(log_of(LOG[: number + 1]), log_of(log))
    assert {one.path for one in found.state} == {
        "square.stalls/stalls:9",
        "square.stalls/stalls:10",
    }


def test_the_first_difference_of_two_column_batches_is_found():
    number, record = next((n, r) for n, r in COLUMNS if r.kind == "Sing" and r.changes)
    row = record.codes.index(0)
    changed = rechained(LOG, number, codes=flipped(record.codes, row, 6))
    found = bisect(log_of(LOG), log_of(changed), [Square()])
    assert (found.record, found.decided_as) == (number, "first")
    assert found.part == f"the verdict on sellers:{row}"
    assert found.values == ("admitted", "refused: quota_exceeded")
    assert found.rule == "Sing of square 1"
    assert found.first["type"] == "columns"
    name, dtype, shape, data = record.payload[0]
    payload = [(name, dtype, shape, flipped(data, 0, 1 - data[0]))]
    found = bisect(log_of(LOG), log_of(rechained(LOG, number, payload=payload)), [Square()])
    assert (found.part, found.rule) == ("the payload's loud of sellers:0", "")


def test_other_numbers_of_column_batches_are_no_difference():
    number, _ = COLUMNS[3]
    found = bisect(log_of(LOG), log_of(rechained(LOG, number, number=1234)), [Square()])
    assert (found.shared, found.renumbered) == (True, number)


# selections


def numbers_of(selection: Selection) -> list[int]:
    return [number for number, _ in selected_records(log_of(LOG), selection)]


def test_column_batches_are_selected_by_member_kind_refusal_and_text():
    walks = [n for n, r in COLUMNS if r.kind == "Walk"]
    by_kind = numbers_of(Selection(kinds=frozenset({"Walk"})))
    assert set(walks) < set(by_kind)
    assert len(by_kind) == len(walks) + 1  # the ordinary batch
    member = numbers_of(Selection(agents=frozenset({"sellers:1"})))
    has_one = [n for n, r in COLUMNS if not r.agents or 1 in np.frombuffer(r.agents, "<u4")]
    made = [
        n for n, data in log_of(LOG).read() if type(decode_record(data)).__name__ == "TableMade"
    ]
    assert sorted(set(member) - set(made)) == has_one
    assert len(member) == len(has_one) + 1  # the record by which it joined
    both = Selection(agents=frozenset({"sellers:1"}), kinds=frozenset({"Walk"}))
    assert set(numbers_of(both)) == set(walks) & set(has_one)
    assert numbers_of(Selection(refused=True)) == [n for n, r in COLUMNS if any(r.codes)]
    text = Selection(grep=pattern("columns .*too_far"))
    assert numbers_of(text) == [n for n, r in COLUMNS if any("too_far" in x[1] for x in r.reasons)]


def test_the_members_of_a_population_are_agents_of_its_log():
    require_named(log_of(LOG), Selection(agents=frozenset({"sellers:11", "ann"})))
    for name in ("sellers:12", "sellers", "buyers:1"):
        with pytest.raises(PlacetError, match="has no agent"):
            require_named(log_of(LOG), Selection(agents=frozenset({name})))
    assert isinstance(decode_record(LOG[0]), Header)
