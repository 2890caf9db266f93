"""A log whose last appends were cut off: its chain holds, and only a head from outside finds it."""

import json
import shutil
import signal
import sqlite3
from contextlib import closing
from functools import partial

import msgspec
import pytest

from placet.schemas.errors import StoreError
from placet.schemas.log.record import record_hash
from placet.stores.anchors import AnchorWriter, read_anchors
from placet.stores.url import open_event_log
from tests.cli.command_line import TOWN, move, run_process
from tests.server.process import running


def heads_of(path):
    with closing(open_event_log(str(path))) as log:
        return [record_hash(data).hex() for _, data in log.read()]


def cut_off(path, groups):
    """Remove the last appends of a log in SQLite, as a forger would."""
    with closing(sqlite3.connect(path)) as base, base:
        firsts = [row[0] for row in base.execute("SELECT first_record FROM groups ORDER BY 1")]
        base.execute("DELETE FROM groups WHERE first_record >= ?", (firsts[-groups],))
    shutil.rmtree(f"{path}.snapshots", ignore_errors=True)


@pytest.fixture
def run_head(placet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = placet("run", *TOWN, "--store", "town.db", "--json").json()
    return report["head"]


def test_run_and_verify_print_the_head_of_the_chain(run_head, placet, tmp_path):
    assert run_head == heads_of(tmp_path / "town.db")[-1]
    assert placet("verify", "town.db", "--json").json()["head"] == run_head
    assert f"head {run_head}" in placet("verify", "town.db", "--replay-only").out
    assert f"{run_head} of the log's chain" in placet("run", *TOWN, "--store", "b.db").out
    in_memory = placet("run", *TOWN, "--store", "memory://", "--json").json()
    assert in_memory["head"] == run_head


def test_a_log_cut_off_at_its_end_is_valid_but_does_not_contain_the_head(
    run_head, placet, tmp_path
):
    heads = heads_of(tmp_path / "town.db")
    whole = placet("verify", "town.db", "--expect", run_head)
    assert (whole.code, "It ends at the expected head." in whole.out) == (0, True)
    early = placet("verify", "town.db", "--expect", heads[3], "--json").json()
    assert (early["ok"], early["expected"]) == (True, {"head": heads[3], "record": 3})
    cut_off(tmp_path / "town.db", 1)
    assert placet("verify", "town.db").code == 0  # nothing in the log tells of its end
    failed = placet("verify", "town.db", "--replay-only", "--expect", run_head)
    assert failed.code == 1
    left = heads_of(tmp_path / "town.db")
    assert left == heads[: len(left)]
    assert f"does NOT contain the expected head {run_head}" in failed.out
    assert f"It ends at record {len(left) - 1}" in failed.out
    told = placet("verify", "town.db", "--expect", run_head, "--json")
    assert (told.code, told.json()["ok"]) == (1, False)


def test_an_invalid_head_is_a_usage_error(run_head, placet):
    failed = placet("verify", "town.db", "--expect", "ff")
    assert (failed.code, "32 hexadecimal digits" in failed.err) == (2, True)


@pytest.mark.slow
def test_anchors_of_a_server_find_a_log_that_was_cut_off(tmp_path, placet, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        with running(tmp_path, "--store", "w.db", "--anchors", "anchors.jsonl") as server:
            server.post("agents", {"agent_id": "ann"})
            assert server.post("batches", [move("ann", number)]).json()["admitted"]
            ready = server.client.get("/readyz", headers={"authorization": ""}).json()
            assert ready["head"] in heads_of(tmp_path / "w.db")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait() == 143
    anchors = read_anchors(tmp_path / "anchors.jsonl", "world")
    heads = heads_of(tmp_path / "w.db")
    assert [anchor.head for anchor in anchors] == [heads[anchor.record] for anchor in anchors]
    assert anchors[-1].head == heads[-1]
    assert len(anchors) >= 4  # of each opening, and of each closing
    whole = placet("verify", "w.db", "--anchors", "anchors.jsonl")
    assert whole.code == 0
    assert f"contains the {len(anchors)} anchors of world 'world'" in whole.out
    cut_off(tmp_path / "w.db", 1)
    assert placet("verify", "w.db").code == 0
    failed = placet("verify", "w.db", "--anchors", "anchors.jsonl")
    assert failed.code == 1
    assert failed.out.startswith(f"w.db does NOT contain the anchor of {anchors[-1].time}")
    assert "w.db is valid" not in failed.out
    assert "Its last records were cut off." in failed.out
    refused = run_process(
        *("serve", "--port", "0", "--store", "w.db", "--anchors", "anchors.jsonl"), folder=tmp_path
    )
    assert (refused.code, f"expects record {anchors[-1].record}" in refused.err) == (1, True)
    assert len(read_anchors(tmp_path / "anchors.jsonl", "world")) == len(anchors)
    with (tmp_path / "anchors.jsonl").open("ab") as file:  # as a server would have continued it
        file.write(msgspec.json.encode(anchors[-2]) + b"\n")
    continued = placet("verify", "w.db", "--anchors", "anchors.jsonl")
    assert "The log was cut off and then continued" in continued.out
    line = json.dumps(move("ann", 9)).encode() + b"\n"
    run_process("gate", "--store", "w.db", folder=tmp_path, stdin=line)
    replaced = placet("verify", "w.db", "--anchors", "anchors.jsonl", "--json")
    assert (replaced.code, replaced.json()["anchors"]["missing"]["head"]) == (1, heads[-1])
    assert "has another hash" in placet("verify", "w.db", "--anchors", "anchors.jsonl").out


def test_anchors_that_cannot_be_written_stop_the_opening(tmp_path):
    failed = run_process(
        *("serve", "--port", "0", "--store", "w.db", "--anchors", "no/such/file"), folder=tmp_path
    )
    assert failed.code == 1
    assert "cannot append an anchor to no/such/file" in failed.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no anchor of the world 'w'; it has those of: none"),
        ('{"world":"v","seq":1,"record":1,"head":"%s","time":"t"}\n' % ("0" * 32), "of: 'v'"),
        ('{"world":"w","seq":1,"record":1,"head":"xx","time":"t"}\n', "line 1, .*no hash"),
        ("\n{}\n", "line 2, is no anchor"),
        ("{}\n\n", "line 1, is no anchor"),
        ("no JSON\n", "line 1, is no anchor"),
    ],
)
def test_a_file_without_anchors_of_the_world_is_refused(tmp_path, text, said):
    path = tmp_path / "a"
    path.write_text(text, "utf-8")
    with pytest.raises(StoreError, match=said):
        read_anchors(path, "w")


def test_the_torn_last_line_of_a_crash_is_ignored(tmp_path):
    path = tmp_path / "a"
    line = '{"world":"w","seq":1,"record":1,"head":"%s","time":"t"}\n' % ("0" * 32)
    path.write_text(line + line[:30], "utf-8")
    assert len(read_anchors(path, "w")) == 1


def position_of(number: int) -> tuple[int, int, bytes]:
    return 2 + number, 3 + number, bytes([number] * 16)


async def test_anchors_after_a_torn_line_are_read(tmp_path):
    path = tmp_path / "a"
    line = '{"world":"w","seq":1,"record":1,"head":"%s","time":"t"}\n' % ("0" * 32)
    for kept in (30, len(line) - 1):  # the second lost its end only
        path.write_text(line + line[:kept], "utf-8")
        for number in range(2):
            await AnchorWriter(path, "w", partial(position_of, number), print).append()
        expected = [1, 1, 2, 3] if kept > 30 else [1, 2, 3]
        assert [anchor.seq for anchor in read_anchors(path, "w")] == expected
