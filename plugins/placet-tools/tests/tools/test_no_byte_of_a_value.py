"""No byte of a secret, and none of erased personal data, is in anything that placet writes."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest
from tests.tools.mailroom import domain
from tests.tools.shop import QUIET

from placet.domains.approvals import Approvals
from placet.history.explain import explain
from placet.stores.reading import log_to_read
from placet_tools import Gate
from placet_tools.frontend.framework_calls import FrameworkCalls, ModelCall
from placet_tools.frontend.remote.world_gate import WorldGate
from tests.cli.command_line import PLACET
from tests.server.served import serving

ROOT = Path(__file__).parents[4]
PATH = f"{Path(__file__).parents[2]}:{ROOT}"
OF_TOOLS = ("--domain", "tests.tools.mailroom:domain")
COMMANDS = [
    ("log", "mail.db", "--json"),
    ("effects", "mail.db", "--json"),
    ("effects", "mail.db", "--state", "dead", "--json"),
    ("verify", "mail.db", *OF_TOOLS),
    ("replay", "mail.db", "--json"),
    ("fork", "mail.db", "fork.db"),
    ("verify", "fork.db", *OF_TOOLS),
    ("pack", "mail.db", "mail.pack"),
    ("export", "mail.db", "--to", "tables"),
    ("export", "mail.db", "--to", "intents.csv"),
    ("report", "mail.db", "--to", "report.html"),
]
PAGES = ("state", "events", "effects", "agents", "approvals", "metrics", "/metrics", "/", "history")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    environment = {"PYTHONPATH": PATH, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment)


async def test_no_byte_of_a_secret_or_of_erased_data_is_written(log):
    folder, values = log.parent, [token_hex(12), token_hex(12)]
    lived = run(folder, sys.executable, "-m", "tests.tools.mailroom", f"sqlite:///{log}", *values)
    assert lived.returncode == 0, lived.stderr.decode()
    assert lived.stdout
    written = {"stdout": lived.stdout, "stderr": lived.stderr}
    for command in COMMANDS:
        done = run(folder, *PLACET, *command)
        assert done.returncode == 0, (command, done.stderr.decode())
        written[" ".join(command)] = done.stdout + done.stderr
    req_ids = re.findall(rb'"req_id": ?"([^"]*)"', written["log mail.db --json"])
    assert len(req_ids) > 10
    for req_id in sorted(set(req_ids))[:12]:
        done = run(folder, *PLACET, "explain", "mail.db", "agent", req_id.decode(), *OF_TOOLS)
        written[f"explain {req_id!r}"] = done.stdout + done.stderr
    files = [file for file in folder.rglob("*") if file.is_file()]
    written |= {str(file.relative_to(folder)): file.read_bytes() for file in files}
    names = " ".join(written)
    for part in ("mail.db.keys.backup", "mail.db.parts", "mail.db.snapshots/", "fork.db", "tables"):
        assert part in names
    async with serving([domain, Approvals()], agents=(), store=f"sqlite:///{log}") as served:
        for page in PAGES:
            written[f"page {page}"] = (await served.get(page)).content
    assert b"erased" in written["page state"]
    assert [
        (name, which)
        for name, content in written.items()
        for which, value in zip(("secret", "person"), values, strict=True)
        if value.encode() in content or value.encode("utf-16-le") in content
    ] == []


WORD = "tulip-4711-" + "x" * 8


def mistakes(word):
    """Return calls that are refused, each with a value in a place where a model may write it."""
    login = {"user": "ann", "password": word}
    return [
        ("logn", login),
        ("LOGIN", login),
        ("login ", login),
        ("", login),
        ("mail.login", login),
        ("plan", {"keys": [word], **login}),  # a kind of the gate
        ("mial", {"order": "A7", "to": word}),
        (f"login(user='ann', password='{word}')", {}),
        ("logn", {f"password={word}": 1, "a" * 60 + word: 1}),
        ("logn", {"user": float("nan"), "word": word}),
        ("login", {"user": "ann", "pasword": word}),
        ("login", {"user": "ann", "password": "short", "word": word}),
        ("login", {"arguments": login}),
        ("login", {"user": login}),
        ("login", {"user": "ann", "password": [word]}),
        ("login", {f"password: {word}": ""}),
        ("letter", {"address": word, "text": "hello"}),
        ("report", {"password": word}),  # a tool without marks
    ]


async def refused_by_call(gate, tool, arguments, key):
    return [await gate.call(tool, key=key, **arguments)]


async def refused_by_plan(gate, tool, arguments, key):
    return await gate.plan([(tool, arguments), ("fail", {})], key=key)


async def refused_by_a_framework(gate, tool, arguments, key):
    calls = FrameworkCalls(gate, "agent", deferred=True)
    return [await calls.outcome([key], [ModelCall("c", tool, arguments)], "c")]


async def refused_for_a_worker(gate, tool, arguments, key):
    of_world = WorldGate(gate.world, gate._domain)
    answer = await of_world.submit(
        [(key, tool, arguments)], agent="agent", is_new=False, runs=True, wait_s=20.0
    )
    return answer.outcomes


@pytest.mark.parametrize(
    "way", [refused_by_call, refused_by_plan, refused_by_a_framework, refused_for_a_worker]
)
async def test_a_call_that_is_refused_leaves_no_value_that_may_be_marked(log, room, way):
    store, words, found = f"sqlite:///{log}", {}, {}
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        for number, (tool, _) in enumerate(mistakes("")):
            word = words[number, tool] = f"tulip{token_hex(12)}"
            _, arguments = mistakes(word)[number]
            outcomes = await way(gate, tool.replace("''", f"'{word}'"), arguments, f"k{number}")
            assert {one.status for one in outcomes} <= {"refused", "skipped"}
            (refused,) = [one for one in outcomes if one.status == "refused"]
            assert set((await gate.outcome(refused.key)).codes) == set(refused.codes)
            found[f"message {number}"] = refused.message.encode()
            explained = explain(log_to_read(store), "agent", refused.key, [domain])
            assert explained.answer == "refused"
            found[f"explain {number}"] = str(explained.as_dict()).encode()
    assert room.ran == []
    found |= {file.name: file.read_bytes() for file in log.parent.iterdir()}
    assert [
        (mistake, name)
        for mistake, word in words.items()
        for name, content in found.items()
        if word.encode() in content
    ] == []


async def test_an_amendment_that_does_not_fit_is_not_recorded(log, room):
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        held = await gate.call("rotate", user="ann", password="rose")
        for arguments in ({"user": 7, "password": WORD}, {"user": "ann", "pasword": WORD}):
            calls = [("rotate", arguments)]
            answer = await gate.decide(held.approval, "amend", by="bob", calls=calls)
            assert (answer.state, answer.codes) == ("open", ("payload_invalid",))
            assert WORD not in answer.message
    contents = [file.read_bytes() for file in log.parent.iterdir()]
    assert not any(WORD.encode() in content for content in contents)


async def test_a_refusal_names_what_is_wrong_without_the_value(room):
    async with Gate(room.tools, config=QUIET) as gate:
        outcome = await gate.call("login", user=7, password=8, pasword="x")
    assert outcome.message.split("; ") == [
        "payload of mail.login/user: invalid (string_type): Input should be a valid string",
        "payload of mail.login/password: invalid (string_type): Input should be a valid string",
        "payload of mail.login/pasword: no such argument",
        "did you mean 'password'?",
    ]


async def test_a_destroyed_key_is_in_no_file(log, room):
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        await gate.call("mail", order="A7", to="bob@example.org")
        with sqlite3.connect(f"{log}.keys") as keys:
            (key,) = keys.execute("SELECT key FROM subjects").fetchone()
        assert key in log.with_name(f"{log.name}.keys").read_bytes()
        await gate.erase("A7")
        pieces = [key[start : start + 8] for start in range(0, len(key), 8)]
        files = [file.read_bytes() for file in log.parent.iterdir()]
        assert [piece for piece in pieces for content in files if piece in content] == []
