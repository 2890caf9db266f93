"""Number formats of the dashboard's script, run by Node if it is installed."""

import json
import re
import shutil
import subprocess
from importlib.resources import files

import pytest

from placet.history.timeline import moments
from placet.schemas.printable import UNSEEN
from placet.server import dashboard

NODE = shutil.which("node")

SPANS = {
    0: "0 µs",
    0.0004: "400 µs",
    0.00099996: "1 ms",
    0.05: "50 ms",
    0.0999: "100 ms",
    0.9999: "1.0 s",
    119.94: "119.9 s",
    119.97: "2 min 0 s",
    179.7: "3 min 0 s",
    7199.7: "2 h 0 min",
    9000: "2 h 30 min",
    86399: "24 h 0 min",
}


def test_the_page_shows_no_character_that_a_command_escapes():
    words = files(dashboard).joinpath("format.js").read_text("utf-8")
    assert f"const UNSEEN = /[{UNSEEN}\\u{{1bca0}}-" in words


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_a_duration_is_rounded_before_its_unit_is_chosen(tmp_path):
    words = files(dashboard).joinpath("format.js").read_text("utf-8")
    asked = f"{json.dumps(list(SPANS))}.map(span)"
    script = tmp_path / "asked.mjs"
    script.write_text(f"{words}\nconsole.log(JSON.stringify({asked}));", "utf-8")
    told = subprocess.run([str(NODE), script], capture_output=True, check=True, timeout=60)
    assert dict(zip(SPANS, json.loads(told.stdout), strict=True)) == SPANS


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_a_held_call_waits_and_a_noted_refusal_is_of_its_agent(tmp_path):
    def batch(type_, kind, payload, **more):
        one = {"agent_id": "shop.recorder", "kind": kind, "payload": payload}
        return {"type": type_, "seq": 1, "intents": [one], **more}

    no = [[0, "domain", "shop.approval_required", "ask"]]
    call = {"tool": "pay", "codes": ["payload_invalid"], "message": "got 900"}
    noted = {"agent": "bob", "tool": "pay", "refusal": [None, "structure", "payload_invalid", ""]}
    settled = {"by": "ann", "kind": "bank.send", "outcome": "done", "reason": "it is paid"}
    events = [
        batch("refused", "shop.pay", {}, refusals=no, is_held=True),
        batch("refused", "shop.pay", {}, refusals=no),  # as the stream of a world has it
        batch("refused", "shop.pay", {}, refusals=[[0, "quota", "quota_exceeded", ""]]),
        batch("refused", "shop.pay", {}),  # to a token that may not see why
        batch("batch", "shop.refuse_calls", {"calls": "[…"}, noted=[noted]),
        batch("batch", "shop.refuse_calls", {"agent": "bob", "calls": [call]}),
        batch("batch", "approvals.ask", {"id": "r", "agent": "bob"}, asks=["pay: euro > 40"]),
        batch("batch", "approvals.settle", settled),
    ]
    words = files(dashboard).joinpath("format.js").read_text("utf-8")
    script = tmp_path / "asked.mjs"
    script.write_text(f"{words}\nconsole.log(JSON.stringify({json.dumps(events)}.map(said)));")
    told = subprocess.run([str(NODE), script], capture_output=True, check=True, timeout=60)
    lines = json.loads(told.stdout)
    kinds = [line["kind"] for line in lines]
    assert kinds == ["waits"] * 2 + ["refused"] * 4 + ["waits", "admitted"]
    assert [(line["who"], line["what"]) for line in lines[4:6]] == [("bob", "pay")] * 2
    assert lines[4]["whys"][0]["code"] == "structure/payload_invalid"
    assert lines[5]["whys"] == [{"code": "payload_invalid", "message": "got 900"}]
    assert lines[6]["whys"] == [{"code": "asked because", "message": "pay: euro > 40"}]
    assert [lines[7][part] for part in ("who", "what", "detail")] == [
        "ann",
        "settled bank.send as done",
        "it is paid",
    ]


def test_a_player_is_given_what_a_line_says_of_a_record():
    words = files(dashboard).joinpath("format.js").read_text("utf-8")
    lines = words.partition("const OTHERS = {")[2].partition("};")[0]
    named = set(re.findall(r"event\.(\w+)", lines))
    assert len(named) > 5
    assert named <= moments._HEADS
