"""A secret reaches the function of its call, and nothing else."""

import json
from typing import Annotated
from urllib.parse import quote, urlencode

import pytest
from tests.tools.killed_shop import config
from tests.tools.shop import QUIET

from placet import Inbox
from placet.schemas.errors import TEXT_CHARS_MAX
from placet_tools import Gate, NotDone, Secret, Tools
from placet_tools.frontend import executors
from placet_tools.frontend.framework_calls import FrameworkCalls, ModelCall

WORD = "tulip-4711"


async def test_the_function_gets_the_value_and_the_record_a_keyed_digest(room):
    async with Gate(room.tools, config=QUIET) as gate:
        outcome = await gate.call("login", user="ann", password=WORD)
        other = Gate(room.tools, config=QUIET)
        async with other:
            await other.call("login", user="ann", password=WORD)
            assert await other.world.state("mail.once") != await gate.world.state("mail.once")
    assert outcome.output == "logged in"
    assert room.ran == [("login", "ann", WORD)] * 2


@pytest.mark.parametrize(
    ("user", "status", "text"),
    [
        ("echo", "done", "the password is [secret]"),
        ("wrong", "failed", "wrong password [secret]"),
        ("broken", "doubt", "broken by [secret]"),
    ],
)
async def test_a_result_does_not_repeat_the_secret(room, user, status, text):
    async with Gate(room.tools, config=QUIET) as gate:
        outcome = await gate.call("login", user=user, password=WORD)
        assert outcome.status == status
        assert text in f"{outcome.output} {outcome.message}"
        assert WORD not in f"{outcome}"


LINES = "-----BEGIN KEY-----\nab'cd\"ef\\é+/==\n-----END KEY-----"
LONG = "".join(f"{number:04}" for number in range(500))
SPELLED = [
    (WORD, KeyError),
    (LINES, KeyError),
    (LINES, lambda word: ValueError(f"no key: {word!r}")),
    (LINES, lambda word: ValueError(json.dumps({"key": word}))),
    (LINES, lambda word: ValueError(json.dumps({"key": word}, ensure_ascii=False))),
    (LINES, lambda word: ConnectionError(f"GET https://a.example/?{urlencode({'key': word})}")),
    (LINES, lambda word: ConnectionError(f"GET https://a.example/{quote(word, safe='')}")),
    (LONG, lambda word: ValueError(f"no token: {word}")),
    (WORD * 9, lambda word: ValueError("x" * (TEXT_CHARS_MAX - 60) + word)),
]


@pytest.mark.parametrize("kind", [NotDone, OSError])
@pytest.mark.parametrize(("value", "error_of"), SPELLED)
async def test_the_text_of_an_exception_has_no_spelling_of_the_secret(value, error_of, kind):
    """Nor a part of one, where the text is cut."""
    tools = Tools("shop")

    @tools.tool()
    def login(password: Annotated[str, Secret]) -> None:
        raise kind(f"{error_of(password)!s}")

    async with Gate(tools, config=QUIET) as gate:
        outcome = await gate.call("login", password=value)
    assert outcome.status == ("failed" if kind is NotDone else "doubt")
    parts = [value[start : start + 5] for start in range(len(value) - 5)]
    assert [part for part in parts if part.isalnum() and part in outcome.message] == []


async def test_the_longer_of_two_secrets_and_a_number_are_removed():
    tools = Tools("shop")

    @tools.tool()
    def login(pin: Annotated[str, Secret], password: Annotated[str, Secret]) -> object:
        return {"sent": f"{password} {pin}", "pin": int(pin), "is_new": True}

    async with Gate(tools, config=QUIET) as gate:
        outcome = await gate.call("login", pin="4711", password="4711-tulip")
    assert outcome.output == {"sent": "[secret] [secret]", "pin": "[secret]", "is_new": True}


async def test_the_same_value_is_the_same_call(room):
    async with Gate(room.tools, config=QUIET) as gate:
        first = await gate.call("login", key="t1", user="ann", password=WORD)
        assert await gate.call("login", key="t1", user="ann", password=WORD) == first
        other = await gate.call("login", key="t1", user="ann", password="another")
        assert other.codes == ("key_reused",)
        assert len(room.ran) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"user": "ann", "password": "abc"}, "invalid (string_too_short)"),
        ({"user": 7, "password": WORD}, "/user"),
        ({"user": "ann", "pasword": WORD}, "pasword"),
    ],
)
async def test_a_refusal_does_not_show_the_secret(room, arguments, message):
    async with Gate(room.tools, config=QUIET) as gate:
        outcome = await gate.call("login", **arguments)
        assert outcome.status == "refused"
        assert message in outcome.message
        assert WORD not in outcome.message
        assert "abc" not in outcome.message
    assert room.ran == []


async def test_an_output_that_is_no_json_does_not_show_the_secret(room):
    class Answer:
        def __init__(self, word):
            self.word = word

        def __repr__(self):
            return f"<Answer {self.word}>"

    tools = Tools("shop")

    @tools.tool()
    def login(password: Annotated[str, Secret]) -> object:
        return Answer(password)

    async with Gate(tools, config=QUIET) as gate:
        outcome = await gate.call("login", password=WORD)
    assert outcome.status == "done"
    assert "is JSON of at most" in outcome.output["not_recorded"]


async def test_the_key_of_a_call_in_a_framework_has_no_secret(room):
    """A hash that can be computed without a key would confirm a guess."""
    calls = FrameworkCalls(Gate(room.tools, config=QUIET), "agent", deferred=True)

    def key(**arguments):
        return calls._key(["conversation"], [ModelCall("c1", "login", arguments)])

    assert key(user="ann", password=WORD) == key(user="ann", password="another")
    assert key(user="ann", pasword=WORD) == key(user="ann")
    assert key(user="ann", password=WORD) != key(user="eve", password=WORD)


async def test_a_person_is_shown_that_there_is_a_secret(room):
    async with Gate(room.tools, config=QUIET) as gate:
        held = await gate.call("rotate", user="ann", password=WORD)
        (request,) = await gate.approvals()
        assert request.calls == (("mail.rotate", {"user": "ann", "password": "secret"}),)
        decision = await gate.decide(request, "approve", by="bob")
        assert (decision.outcomes[0].key, decision.outcomes[0].status) == (held.key, "done")
    assert room.ran == [("rotate", "ann", WORD)]


@pytest.mark.parametrize("key", ["t1", "t2"])
async def test_an_approval_waits_until_the_secret_is_here_again(room, log, key):
    """The same call, or an equal one that joins its request, brings the secret again."""
    store = f"sqlite:///{log}"
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        await gate.call("rotate", key="t1", user="ann", password=WORD)
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        (request,) = await gate.approvals()
        decision = await gate.decide(request, "approve", by="bob")
        assert (decision.state, decision.codes) == ("open", ("value_missing",))
        assert "call again with key and value" in decision.message
        again = await gate.call("rotate", key=key, user="ann", password=WORD)
        assert (again.status, again.key) == ("held", "t1")
        await gate.call("rotate", key="t1", user="ann", password="another")  # is refused
        decision = await gate.decide(request, "approve", by="bob")
        assert [one.status for one in decision.outcomes] == ["done"]
        assert repr(gate._values._secrets) == "<secrets of 0 calls>"
    assert room.ran == [("rotate", "ann", WORD)]


async def test_a_call_that_was_killed_is_in_doubt_as_any_other(mail_forker, log, room):
    store = f"sqlite:///{log}"
    mail_forker.fork("tests.tools.mailroom:login_and_die", store=store, tool="login").wait()
    async with Gate(room.tools, store=store, config=config()) as gate:
        assert (await gate.outcome("t1")).status == "doubt"
        assert (await gate.settle("t1", done=False)).status == "failed"
        assert (await gate.call("login", user="ann", password=WORD)).status == "done"
    assert room.ran == [("login", "ann", WORD)]


async def test_a_call_that_another_program_approves_fails_without_its_secret(room, log):
    store = f"sqlite:///{log}"
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        await gate.call("rotate", key="t1", user="ann", password=WORD)
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        inbox = Inbox(gate.world)
        (request,) = await inbox.open()
        await inbox.decide(request.id, "approve", by="bob", role="operator")
        outcome = await gate.outcome("t1")
        assert outcome.status == "failed"
        assert "call again with a new key and the value" in outcome.message
    assert room.ran == []


async def test_a_call_that_may_be_repeated_waits_for_its_secret(
    mail_forker, log, room, monkeypatch
):
    store = f"sqlite:///{log}"
    monkeypatch.setattr(executors, "SECRET_WAIT_S", 0.05)
    mail_forker.fork("tests.tools.mailroom:login_and_die", store=store, tool="poll").wait()
    async with Gate(room.tools, store=store, config=config()) as gate:
        outcome = await gate.call("poll", key="t1", password=WORD)
        assert outcome.status == "done"
    assert room.ran == [("poll", WORD, "t1")]


async def test_a_call_in_doubt_is_settled_by_its_key_in_a_log_that_no_program_has_open(
    room, placet
):
    store = f"sqlite:///{placet.folder}/mail.db"
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        await gate.call("login", key="t1", user="broken", password=WORD)
    of_tools = ("--domain", "tests.tools.mailroom:domain")
    unknown = placet("effects", "mail.db", "--resolve", "t2", "done", *of_tools)
    assert "no open call has this key" in unknown.err
    settled = placet("effects", "mail.db", "--resolve", "t1", "done", *of_tools)
    assert (settled.code, settled.out.endswith("is settled: done\n")) == (0, True)
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        assert (await gate.outcome("t1")).status == "done"
