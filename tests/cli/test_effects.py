"""`placet effects`: lists from the log alone, and settlements by an operator."""

import asyncio
import shutil

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.history.effects import open_effects
from placet.kernel import Domain, Kind
from placet.runtime.executors import DoNotRetry, Effect, OutcomeUnknown
from placet.schemas.effect import EffectKey
from placet.schemas.log.record import Settled, decode_record
from placet.stores.url import open_event_log
from tests.cli.command_line import run_process
from tests.kernel.builders import intent
from tests.kernel.domains import MAIL, Lab

LAB = ("--domain", "tests.kernel.domains:Lab")


@pytest.fixture
def store(placet):
    """One effect in doubt, one given up, one done, one open."""
    path = placet.folder / "mail.db"
    outcomes = [OutcomeUnknown("connection lost"), DoNotRetry("no such address")]

    async def post(effect: Effect) -> str:
        if outcomes:
            raise outcomes.pop(0)
        return "sent"

    async def live() -> None:
        config = OrchestratorConfig(store=f"sqlite:///{path}", log_level="critical")
        async with Orchestrator(Lab(), config) as world:
            alice = await world.register_agent("alice")
            await world.register_executor(MAIL, post, delivery="at_most_once")
            for _ in range(3):
                await alice.submit([alice.intent("Mail", count=1)])
                await world.wait_effects()
            world._open.executors.by_kind.clear()
            await alice.submit([alice.intent("Mail", count=1)])

    asyncio.run(live())
    return "mail.db"


def key_of(placet, store: str, state: str) -> str:
    (one,) = placet("effects", store, "--state", state, "--json").json()
    return str(one["key"])


def test_effects_are_listed_by_state_and_kind(placet, store):
    listed = placet("effects", store, "--json").json()
    assert [one["state"] for one in listed] == ["in_doubt", "open", "dead"]
    assert {(one["kind"], one["agent_id"]) for one in listed} == {(MAIL, "alice")}
    assert listed[0]["why"] == "OutcomeUnknown: connection lost"
    assert listed[2]["why"] == "DoNotRetry: no such address"
    assert placet("effects", store, "--kind", "other", "--json").json() == []
    for state in ("open", "in_doubt", "dead"):
        (one,) = placet("effects", store, "--state", state, "--json").json()
        assert one["state"] == state
    assert placet("effects", store, "--state", "started", "--json").json() == []


def test_effects_are_shown_as_a_table(placet, store):
    out = placet("effects", store).out
    assert "in_doubt" in out
    assert "connection lost" in out
    assert "3 effects" in out
    assert placet("effects", store, "--state", "started").out == "no such effects\n"
    assert "in_doubt: OutcomeUnknown: connection lost" in placet("log", store).out


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_an_operator_settles_an_effect_in_doubt_once(placet, store, outcome):
    key = key_of(placet, store, "in_doubt")
    resolve = ("effects", store, "--resolve", key, outcome, "--output", '{"seen": 1}', *LAB)
    done = placet(*resolve)
    assert (done.code, done.out) == (0, f"effect {key} is settled: {outcome}\n")
    again = placet(*resolve)
    assert again.code == 1
    assert "settled already, or was never declared" in again.err
    assert placet("effects", store, "--state", "in_doubt", "--json").json() == []
    records = [decode_record(data) for _, data in open_event_log(store).read()]
    *_, last = (record for record in records if isinstance(record, Settled))
    assert (last.succeeded, last.output) == (outcome == "done", {"seen": 1})
    assert last.changes.entities  # the domain took it in
    assert placet("verify", store, *LAB).code == 0


def test_an_output_that_cannot_be_logged_settles_nothing(placet, store):
    key = key_of(placet, store, "in_doubt")
    large = f'"{70_000 * "x"}"'
    done = placet("effects", store, "--resolve", key, "done", "--output", large, *LAB)
    assert (done.code, done.out) == (1, "")
    assert "nothing was written: output is larger than 65536 bytes" in done.err
    assert key_of(placet, store, "in_doubt") == key


def test_a_store_in_use_is_neither_written_nor_fenced(placet, store):
    key = key_of(placet, store, "open")

    async def serve() -> None:
        config = OrchestratorConfig(store=f"sqlite:///{placet.folder / store}")
        async with Orchestrator(Lab(), config) as world:
            resolve = ("--resolve", key, "failed", "--json", *LAB)
            outcome = run_process("effects", store, *resolve, folder=placet.folder)
            assert outcome.code == 1
            assert "another process has it open" in outcome.err
            assert await world.resolve_effect(EffectKey.parse(key), succeeded=True)

    asyncio.run(serve())
    assert placet("effects", store, "--state", "open", "--json").json() == []


def test_effects_running_at_a_crash_are_in_doubt(placet):
    config = OrchestratorConfig(store="mail.db", log_level="critical")
    begun = asyncio.Event()

    async def post(effect: Effect) -> None:
        begun.set()
        await asyncio.sleep(3600)

    async def live() -> None:
        async with Orchestrator(Lab(), config) as world:
            await world.register_agent("alice")
            await world.register_executor(MAIL, post, delivery="at_most_once")
            await world.submit([intent("Mail", {"count": 1}, "r")])
            await begun.wait()
            log = open_event_log(str(placet.folder / "mail.db"))
            assert [one.state for one in open_effects(log, is_running=True)] == ["started"]
            (listed,) = run_process("effects", "mail.db", "--json", folder=placet.folder).json()
            assert listed["state"] == "started"
            for suffix in ("", "-wal", "-shm"):
                shutil.copy(f"mail.db{suffix}", f"killed.db{suffix}")
            world._open.executors.by_kind.clear()  # so that closing waits for none

    asyncio.run(live())
    kept = ("mail.db", "killed.db", "killed.db-wal")  # the -shm is SQLite's scratch paper
    before = [(placet.folder / name).read_bytes() for name in kept]
    for store in ("mail.db", "killed.db"):
        (listed,) = placet("effects", store, "--json").json()
        assert (listed["state"], listed["why"]) == ("in_doubt", "the world ended while it ran")
    assert [(placet.folder / name).read_bytes() for name in kept] == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--state", "lost"), "--state must be one of"),
        (("--resolve", "world/1", "failed"), "an effect's key is WORLD/SEQ/INDEX"),
        (("--resolve", "world/x/0", "failed"), "an effect's key is WORLD/SEQ/INDEX"),
        (("--resolve", "world/1/0", "succeeded"), "was done, or failed"),
        (("--resolve", "world/1/0", "failed", "--output", "{"), "JSON"),
        (("--output", "1"), "--output goes with --resolve"),
    ],
)
def test_invalid_arguments_are_usage_errors(placet, store, arguments, says):
    outcome = placet("effects", store, *arguments)
    assert outcome.code == 2
    assert says in outcome.err


def test_the_key_of_another_world_settles_nothing(placet, store):
    outcome = placet("effects", store, "--resolve", "other/3/0", "failed", *LAB)
    assert outcome.code == 1


def test_a_world_without_effects_has_an_empty_list(placet):
    assert placet("run", "town", "--agents", "2", "--ticks", "1", "--store", "town.db").code == 0
    assert placet("effects", "town.db", "--json").json() == []


class Post(Domain):
    """Intents that emit effects of any payload."""

    name, version = "post", "1"

    def __init__(self):
        self.kinds = (Kind("Send", dict, _send, effects=("send",)),)


def _send(draft, intent):
    draft.emit("send", dict(intent["payload"]))


def open_log(*payloads) -> None:
    """Write a log with an open effect of each payload."""

    async def never(_effect: Effect) -> None:
        raise AssertionError("no executor runs")

    async def live() -> None:
        config = OrchestratorConfig(store="post.db", log_level="critical")
        async with Orchestrator(Post(), config) as world:
            alice = await world.register_agent("alice")
            await world.register_executor("send", never)
            world._open.executors.by_kind.clear()  # so that the effects stay open
            for payload in payloads:
                assert (await alice.submit([alice.intent("Send", payload)])).admitted

    asyncio.run(live())


def call(key: str) -> dict[str, object]:
    """Return the payload of the effect of a call of a tool."""
    return {"key": key, "args": {}}


def resolved(placet, text: str):
    return placet("effects", "post.db", "--resolve", text, "done", "--domain", f"{__name__}:Post")


def test_the_key_of_an_effect_goes_before_that_of_a_call(placet):
    open_log(call("k1"))
    (effect,) = placet("effects", "post.db", "--json").json()
    placet.folder.joinpath("post.db").unlink()
    open_log(call("k1"), call(str(effect["key"])))
    assert resolved(placet, str(effect["key"])).code == 0
    (left,) = placet("effects", "post.db", "--json").json()
    assert left["payload"] == call(str(effect["key"]))
    assert "settled already" in resolved(placet, str(effect["key"])).err


def test_an_effect_with_a_key_of_its_own_is_no_call(placet):
    open_log({"key": "k1"}, {"key": "k1", "args": {}, "more": 1}, call("k1"), call("other/1/0"))
    assert resolved(placet, "k1").code == 0
    assert resolved(placet, "other/1/0").code == 0
    left = placet("effects", "post.db", "--json").json()
    assert [one["payload"].keys() for one in left] == [{"key"}, {"key", "args", "more"}]
    assert "no open call has this key" in resolved(placet, "k1").err


def test_a_key_of_several_calls_settles_none_of_them(placet):
    open_log(call("k1"), call("k1"), call("k2"))
    listed = placet("effects", "post.db", "--json").json()
    outcome = resolved(placet, "k1")
    assert outcome.code == 1
    first, second, third = (str(one["key"]) for one in listed)
    assert f"{first}, {second}" in " ".join(outcome.err.split())
    assert third not in outcome.err
    assert placet("effects", "post.db", "--json").json() == listed
