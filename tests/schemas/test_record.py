"""Records: they can be read by anyone, and shown to people."""

import json
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from placet.schemas.codec import canonical
from placet.schemas.effect import EffectKey
from placet.schemas.errors import LogFormatError
from placet.schemas.event import Event
from placet.schemas.log import record as log_record
from placet.schemas.log.column_records import ColumnChange, ColumnWrite
from placet.schemas.log.record import (
    GENESIS,
    TYPES_WITH_CHANGES,
    Admitted,
    AgentChanged,
    Changes,
    Checkpoint,
    CollectionChange,
    Columns,
    EntityChange,
    Record,
    Refused,
    TableMade,
    Tick,
    decode_record,
    encode_record,
    intents_of,
    record_as_dict,
    record_hash,
    record_type,
)
from placet.schemas.refusal import Notice, Refusal, Stage
from placet.schemas.verdict import Verdict

HEAD: dict[str, Any] = {"prev": GENESIS, "seq": 7, "now_ns": 5}
BODY: dict[str, Any] = {
    **HEAD,
    "batch_id": "b1",
    "submitter": "operator",
    "fingerprint": 255,
    "encoded": canonical([["alice", "r", "Add", {"amount": 1}, 10], ["bob", "s", "Say", {}, 0]]),
    "contexts": [3, 4],
    "valid_until_ns": [None, 1_500_000_000],
    "due_of": None,
    "group_seq": 2,
    "tick": 3,
    "group": 1,
}
CHANGES = Changes(
    [EntityChange("c", "e", {"f": [1, {"g": None}]}, True, 7, "alice", 2),
     EntityChange("c", "x", None, True, 7, "alice", 0)],
    [CollectionChange("c", 7, "alice", 2)],
)  # fmt: skip
ADMITTED = Admitted(
    **BODY,
    order=[1, 0],
    changes=CHANGES,
    effects=[(7, "mail", {"to": "bob"}, "alice")],
    normalized=[(1, {"text": "hi"})],
    notices=[(0, [("clamped", "less", "/amount")])],
)
REFUSED = Refused(**BODY, refusals=[(None, "domain", "rule_error", "a bug")])


@pytest.mark.parametrize(
    "record",
    [
        ADMITTED,
        REFUSED,
        Tick(**HEAD, changes=CHANGES),
        Checkpoint(**HEAD, state_digest=b"\x01" * 16),
        AgentChanged(**HEAD, agent_id="a", what="removed", permissions=None, changes=Changes()),
    ],
    ids=record_type,
)
def test_a_record_round_trips_and_has_a_json_form(record: Record):
    data = encode_record(record)
    assert decode_record(data) == record
    assert encode_record(decode_record(data)) == data
    shown = record_as_dict(record)
    assert json.loads(json.dumps(shown)) == json.loads(msgspec.json.encode(shown))
    assert not {"prev", "seq", "now_ns", "encoded"} & set(shown)
    event = Event(7, 3, record_type(record), 5e-9, shown).as_dict()
    assert (event["seq"], event["record"], event["type"]) == (7, 3, record_type(record))


@pytest.mark.parametrize("kind", get_args(Record), ids=lambda kind: kind.__name__)
def test_every_record_with_changes_is_of_a_type_with_changes(kind: type[Record]):
    has_changes = Changes in get_type_hints(kind).values() or kind is Columns
    assert (log_record._TYPES[kind] in TYPES_WITH_CHANGES) == has_changes


def test_the_json_of_a_batch_has_its_submitted_intents():
    shown = record_as_dict(ADMITTED)
    assert shown["intents"] == intents_of(ADMITTED) == [
        {"kind": "Add", "payload": {"amount": 1}, "agent_id": "alice", "req_id": "r",
         "context_seq": 3, "priority": 10},
        {"kind": "Say", "payload": {}, "agent_id": "bob", "req_id": "s", "context_seq": 4,
         "priority": 0, "valid_until": 1.5},
    ]  # fmt: skip
    assert shown["fingerprint"] == "00000000000000ff"
    assert shown["changes"][0] == {
        "entity": "c/e", "fields": {"f": [1, {"g": None}]}, "whole": True, "seq": 7, "by": "alice"
    }  # fmt: skip
    assert shown["changes"][1]["fields"] is None
    assert record_as_dict(Checkpoint(**HEAD, state_digest=b"\xab"))["state_digest"] == "ab"


COLUMNS = Columns(
    **HEAD, group_seq=6, tick=1, group=2, number=4, submitter="ann", req_id="walk:1", fingerprint=5,
    kind="Walk", version="1", population="birds", agents=b"", contexts=6,
    payload=[("to", "<f4", [2], bytes(24))], codes=b"\x00\x10\x02",
    reasons=[(16, "flock.too_far", "at most 1")], winners=b"",
    changes=[ColumnChange("flock.birds", "position", "put", b"", "to", "<f4", b"")],
)  # fmt: skip
TABLE = TableMade(
    **HEAD, table="flock.birds", stem="birds", count=3,
    fields=[("position", "f4", [2], 0, None, 9.5)], columns=[("position", bytes(24))],
    members=("ann", None, {"Walk": (500, 2)}, 9), changes=CHANGES,
    written=[ColumnWrite("flock.birds", "position", b"", bytes(24))],
)  # fmt: skip


def test_the_json_of_tables_and_column_batches_leaves_their_arrays_out():
    shown = record_as_dict(COLUMNS)
    assert (shown["rows"], shown["refused"], shown["refusals"]) == (
        3,
        2,
        {"agent_suspended": 1, "flock.too_far": 1},
    )
    assert (shown["batch_id"], shown["columns"]) == ("b4", ["flock.birds/position"])
    replace = msgspec.structs.replace
    assert record_as_dict(replace(COLUMNS, agents=bytes(8), codes=b""))["rows"] == 2
    assert record_as_dict(replace(COLUMNS, codes=b""))["rows"] == 3
    assert record_as_dict(replace(COLUMNS, codes=b"", payload=[]))["rows"] is None
    table = record_as_dict(TABLE)
    bounds = {"default": 0, "low": None, "high": 9.5}
    assert table["fields"] == {"position": {"dtype": "f4", "shape": [2], **bounds}}
    assert table["given"] == ["position"]
    assert table["columns"] == [{"field": "flock.birds/position", "rows": 3}]
    assert table["population"]["quotas"] == {"Walk": [500, 2]}
    assert [change["entity"] for change in table["changes"]] == [
        change["entity"] for change in record_as_dict(ADMITTED)["changes"]
    ]
    assert record_as_dict(replace(TABLE, members=None))["population"] is None
    assert json.loads(json.dumps([shown, table])) == [shown, table]


def test_the_json_of_a_batch_omits_missing_time_limits():
    record = msgspec.structs.replace(REFUSED, valid_until_ns=None)
    assert all("valid_until" not in one for one in intents_of(record))


@pytest.mark.parametrize("data", [b"", b"\x93\x01\x02\x03", b"\x91\x63", b"\xff" * 9])
def test_an_invalid_record_is_a_value_error(data):
    with pytest.raises(ValueError):  # noqa: PT011  # the message is msgspec's
        decode_record(data)


def test_the_hash_covers_every_byte():
    data = encode_record(ADMITTED)
    hashes = {
        record_hash(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]) for i in range(len(data))
    }
    assert len(hashes | {record_hash(data)}) == len(data) + 1


def test_a_verdict_has_a_one_line_repr():
    verdict = Verdict("b1", admitted=True, seq=7, current_seq=7, sim_time=0.0)
    assert repr(verdict) == "<Verdict b1 admitted at seq 7>"
    verdict.replayed = verdict.dry_run = True
    assert repr(verdict) == "<Verdict b1 admitted at seq 7, replayed, dry_run>"
    refused = Verdict("b2", False, None, 7, 0.0, (Refusal("lab.odd", "odd", Stage.DOMAIN),))
    assert repr(refused) == "<Verdict b2 refused: lab.odd>"
    refused.batch_id = ""
    assert repr(refused) == "<Verdict refused: lab.odd>"
    assert refused.codes == ("lab.odd",)
    assert refused.req_ids == []
    assert Notice("a", "b").as_dict() == {"code": "a", "message": "b", "at": ""}
    assert str(EffectKey("town", 7, 0)) == "town/7/0"


@pytest.mark.parametrize("items", [[6, "no bytes"], [0, 1], {"tag": 0}])
def test_bytes_that_are_no_record_are_an_error_of_the_decoder(items):
    with pytest.raises(msgspec.ValidationError):
        decode_record(msgspec.msgpack.encode(items))


@pytest.mark.parametrize("version", [1, 3, "two"])
def test_a_header_of_another_format_is_an_error_of_any_layout(version):
    header = msgspec.msgpack.encode([0, GENESIS, 0, 0, version, {"items": "of another form"}])
    with pytest.raises(LogFormatError, match=f"the log is of format {version!r}, and this release"):
        decode_record(header)
