"""The pure parts of the gateway: messages, declarations of tools, and lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from placet_tools.frontend import jsonrpc
from placet_tools.frontend.gateway import links, tool_gate
from placet_tools.frontend.gateway.declarations import (
    DEFINITION_CHARS_MAX,
    TOOLS_MAX,
    raised,
    text_of,
    texts_of,
)
from placet_tools.outcome import Outcome
from placet_tools.pinned import parts_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["id", "method", "params", "result"]), VALUES))
def test_a_message_that_is_written_anew_has_its_values_and_no_line_end(fields):
    line = json.dumps(fields, indent=1).replace("\n", "\r").encode()
    again = jsonrpc.written(jsonrpc.read(line))
    assert json.loads(again) == fields
    assert b"\r" not in again
    assert b"\n" not in again


@given(st.binary(max_size=40))
def test_any_line_is_a_message_or_an_error(line):
    try:
        message = jsonrpc.read(line)
    except jsonrpc.MessageInvalid:
        return
    assert message.keys() <= {"jsonrpc", "id", "method", "params", "result", "error"}


@given(st.lists(st.binary(max_size=6), max_size=8), st.integers(1, 5))
async def test_lines_are_those_of_the_stream_however_it_is_cut(parts, size):
    stream = b"\n".join(parts)
    chunks = iter([stream[at : at + size] for at in range(0, len(stream), size)] + [b""])

    async def read():
        return next(chunks)

    expected = stream.split(b"\n") if stream else []
    if expected and not expected[-1]:
        expected.pop()
    assert [line async for line in links.lines_of(read)] == expected


@pytest.mark.parametrize("cut", [1, 3, 4, 100])
async def test_a_line_that_is_too_long_is_dropped_and_the_next_one_is_not(monkeypatch, cut):
    monkeypatch.setattr(links, "LINE_BYTES_MAX", 5)
    stream = b"12345\n123456\nabc\n1234567890\nd"
    chunks = iter([stream[at : at + cut] for at in range(0, len(stream), cut)] + [b""])

    async def read():
        return next(chunks)

    lines = [line async for line in links.lines_of(read)]
    assert lines == [b"12345", None, b"abc", None, b"d"]


@pytest.mark.parametrize(
    ("risk", "annotations", "expected"),
    [
        ("low", {"destructiveHint": True}, "high"),
        ("read", {"destructiveHint": True, "readOnlyHint": True}, "high"),
        ("high", {"readOnlyHint": True, "destructiveHint": False}, "high"),
        ("medium", {"readOnlyHint": True}, "medium"),
        ("low", {"destructiveHint": "yes"}, "low"),
        ("low", [], "low"),
        ("low", None, "low"),
    ],
)
def test_annotations_raise_a_risk_and_never_lower_it(risk, annotations, expected):
    assert raised(risk, {"annotations": annotations}) == expected


@pytest.mark.parametrize(
    "field", ["title", "description", "inputSchema", "outputSchema", "annotations"]
)
def test_the_pinned_text_has_all_that_a_model_reads(field):
    tool = {"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}
    assert text_of({**tool, field: {"x": 1}}) != text_of(tool)
    assert text_of(dict(reversed(tool.items()))) == text_of(tool)
    assert {"name": "work", **parts_of(text_of(tool))} == tool


def test_declarations_that_cannot_be_pinned_are_left_out():
    listed = [{"name": f"t{n}"} for n in range(TOOLS_MAX + 1)]
    texts, faults = texts_of([*listed[:2], listed[0], 1, {}, {"name": 1}, {"name": ""}])
    assert (list(texts), len(faults)) == (["t0", "t1"], 5)
    texts, faults = texts_of([*listed, {"name": "long", "title": "x" * DEFINITION_CHARS_MAX}])
    assert (len(texts), len(faults)) == (TOOLS_MAX, 2)


def test_the_kept_results_of_repeated_attempts_count_once(monkeypatch):
    monkeypatch.setattr(tool_gate, "_RESULTS_BYTES_MAX", 10)
    gate = tool_gate.ToolGate(tool_gate.GatewayOptions(), lambda text: None)
    for _ in range(5):
        gate._keep("again", Raw(b"12345"))
    gate._keep("other", Raw(b"54321"))
    assert list(gate._results.values()) == [b"12345", b"54321"]
    gate._keep("third", Raw(b"1"))
    assert gate.result_of(Outcome("done", key="again")) is None
