"""A row of a column batch is explained as an intent of its agent is."""

from typing import Any

import numpy as np
import pytest

from placet.history.explain import _find_request, _summary, explain, explain_seq
from placet.kernel import ColumnBatch, Kernel, KernelConfig
from placet.kernel.arrays.row_codes import OK, ROW_CODES, RULE
from placet.kernel.log.explain_row import explain_row
from placet.kernel.log.explain_stages import EXPLAINED_STAGES
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.schemas.codec import thaw
from placet.schemas.errors import PositionError
from placet.schemas.explanation import Explanation
from placet.schemas.log.record import Columns, decode_record
from placet.schemas.refusal import Stage
from tests.golden.square import Square
from tests.history.forks import log_of
from tests.history.test_column_history import COLUMNS, LOG
from tests.kernel.columns import test_verify_columns as lived
from tests.kernel.columns.lab import Lab

WORLDS: dict[str, tuple[list[bytes], Any]] = {
    "square": (LOG, [Square()]),
    "lab": (list(lived.LOG), [Lab(lived.N, lived.CELLS)]),
}


def described(explained: Explanation) -> str:
    """Return the lines of all stages, as `placet explain` prints them."""
    return "\n".join(
        line
        for stage in explained.stages
        for compared in stage.compared
        for line in EXPLAINED_STAGES[Stage(stage.stage)].describe(compared)
    )


@pytest.mark.parametrize("has_domain", [True, False])
@pytest.mark.parametrize("name", WORLDS)
def test_each_row_is_explained_by_its_record(name, has_domain):
    records, domains = WORLDS[name]
    past = Verifier(domains if has_domain else ())
    for data in records:
        record: Any = decode_record(data)
        if isinstance(record, Columns):
            before = past.state.digest()
            after = folded(records[: past.journal.count + 1]).state
            count = len(past.ledger.populations[record.population].all)
            codes = record.codes or bytes(len(record.agents) // 4 or count)
            for row, code in enumerate(codes):
                check(past, after, record, row, code)
            assert past.state.digest() == before
        past.apply(data)


def check(past: Verifier, after: Any, record: Columns, row: int, code: int) -> None:
    explained = explain_row(past, record, row)
    assert described(explained)
    refused = [stage for stage in explained.stages if stage.result == "refused"]
    if code == OK:
        assert (explained.answer, explained.seq, refused) == ("admitted", record.seq, [])
        assert [stage.result for stage in explained.stages] == ["passed"] * 7
    else:
        (stage,) = refused
        assert (explained.answer, explained.seq, explained.changes) == ("refused", None, ())
        (refusal,) = stage.refusals
        names = {number: name for number, name, _ in record.reasons}
        known = ROW_CODES.get(code)
        assert refusal["code"] == names.get(code, known and known.code)
        assert stage.stage == ("domain" if code >= RULE or known is None else known.stage.value)
    for change in explained.changes:
        collection, entity = change["entity"].split("/")
        for field, values in change["fields"].items():
            assert values["before"] == thaw(past.state.get(collection, entity, field))
            assert values["after"] == thaw(after.get(collection, entity, field))


def explained_row(number: int, row: int) -> Explanation:
    past = Verifier([Square()], past=folded(LOG[:number]))
    record: Any = decode_record(LOG[number])
    return explain_row(past, record, row)


def row_with(code: int) -> tuple[int, int]:
    return next((n, r.codes.index(code)) for n, r in COLUMNS if code in r.codes)


def stage(explained: Explanation, name: str) -> Any:
    return next(each for each in explained.stages if each.stage == name)


def test_the_stages_show_what_they_compared():
    explained = explained_row(*row_with(5))  # another agent changed the row
    (compared,) = stage(explained, "staleness").compared
    (read,) = compared["reads"]
    assert (read["entity"], read["by"]) == ("square.people/sellers:9", None)
    assert read["changed"] > compared["context_seq"]
    assert "changed by another agent at seq" in described(explained)
    explained = explained_row(*row_with(2))
    (compared,) = stage(explained, "agent").compared
    assert compared["suspended"]
    explained = explained_row(*row_with(6))
    (compared,) = stage(explained, "quota").compared
    assert (compared["charged"], compared["kind"], compared["before"]) == (1, "Sing", 0.25)
    explained = explained_row(*row_with(1))
    assert "to [nan, 1.75], within" in described(explained)
    assert stage(explained, "agent").result == "not reached"
    explained = explained_row(*row_with(7))
    (refusal,) = stage(explained, "domain").refusals
    assert refusal["message"].endswith(f", by {refusal['details']['winner']}")
    explained = explained_row(*row_with(10))
    (compared,) = stage(explained, "agent").compared
    assert (compared["may_submit"], compared["submitter"]) == (False, "bob")


def test_the_quota_of_the_world_counts_the_rows_that_reach_it():
    log: list[bytes] = []
    config = KernelConfig(
        world_quota={"rate": 1, "burst": 14}, quotas={"*": {"rate": 1, "burst": 1}}
    )
    kernel = Kernel(Square(), config, sink=log.append)
    sellers = kernel.register_population(
        "sellers", 6, table="square.people", quotas={"Sing": {"rate": 1, "burst": 1}}
    )
    loud = {"loud": np.zeros(6, np.bool_)}
    for number in range(2):
        kernel.decide_columns(ColumnBatch("Sing", sellers, loud, f"s:{number}"))
    past = Verifier([Square()], past=folded(log[:-1]))
    record: Any = decode_record(log[-1])
    quotas = stage(explain_row(past, record, 0), "quota").compared
    assert [(each["agent_id"], each["kind"], each["before"]) for each in quotas] == [
        ("sellers:0", None, quotas[0]["before"]),
        ("sellers:0", "Sing", quotas[1]["before"]),
        (None, None, quotas[2]["before"]),
    ]
    admitted = decode_record(log[-2])
    assert isinstance(admitted, Columns)
    passed = len(admitted.codes or bytes(6)) - admitted.codes.count(16) - admitted.codes.count(8)
    assert quotas[2]["before"] == 14 - passed
    assert quotas[2]["charged"] == sum(code != 6 for code in record.codes or bytes(6))


def test_a_request_of_a_member_is_found_in_its_column_batch():
    log = log_of(LOG)
    explained = explain(log, "sellers:7", "Settle:1", [Square()])
    assert (explained.agent_id, explained.req_id) == ("sellers:7", "Settle:1")
    assert explained.record == COLUMNS[0][0]
    assert explained.conflict is not None
    assert explained.conflict["winner"].startswith("sellers:")
    same = explain_seq(log, COLUMNS[0][1].seq, [Square()], agent_id="sellers:7")
    assert same == explained
    ordinary = explain(log, "sellers:7", "sellers:7:1", [Square()])
    assert (ordinary.answer, ordinary.batch and ordinary.batch["intents"][0]["kind"]) == (
        "admitted",
        "Walk",
    )
    some = explain(log, "sellers:11", "Walk:2", [Square()])
    assert some.batch is not None
    assert (some.batch["row"], some.batch["rows"]) == (3, 6)
    assert not explain(log, "sellers:2", "Walk:2", [Square()]).is_known
    assert not explain(log, "buyers:2", "Walk:2", [Square()]).is_known


def test_a_column_batch_as_a_whole_is_summarized():
    number, record = COLUMNS[0]
    explained = explain_seq(log_of(LOG), record.seq, [Square()])
    assert (explained.answer, explained.record, explained.changes) == ("columns", number, ())
    assert explained.batch is not None
    assert explained.batch["rows"] == 12


@pytest.mark.parametrize("agent_id", ["sellers:12", "ann", "buyers:1"])
def test_an_agent_without_a_row_at_a_seq_is_an_error(agent_id):
    with pytest.raises(PositionError, match="has no row in the record of seq"):
        explain_seq(log_of(LOG), COLUMNS[0][1].seq, [Square()], agent_id=agent_id)
    with pytest.raises(PositionError, match="which is a tick"):
        explain_seq(log_of(LOG), COLUMNS[1][1].seq + 1, [Square()], agent_id="sellers:1")


def test_an_answer_is_summarized_with_the_code_of_its_row():
    number, record = COLUMNS[0]
    explained = explain(log_of(LOG), "sellers:2", "Settle:1", [Square()])
    assert explained.earlier == ()
    assert record.codes[2]
    assert explained.record == number
    (request,) = _find_request(log_of(LOG), "sellers:2", "Settle:1")
    assert _summary(request)["codes"] == ["conflict"]
