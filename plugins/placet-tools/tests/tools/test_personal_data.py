"""Personal data are beside the log, and can be erased; the log stays as it is."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pytest
from tests.tools.killed_shop import config
from tests.tools.shop import QUIET

from placet.errors import StoreError
from placet_tools import Gate, Personal
from placet_tools.frontend.parts.part_store import PartStore
from tests.cli.command_line import run_process
from tests.lab.full_disk import full_disk

BOB = "bob@example.org"
ROOT = Path(__file__).parents[4]
PATH = f"{Path(__file__).parents[2]}:{ROOT}"


def parts_of(log, query="SELECT count(*) FROM parts"):
    with sqlite3.connect(f"{log}.parts") as parts:
        return parts.execute(query).fetchone()[0]


async def test_the_function_and_the_caller_get_the_values(room):
    async with Gate(room.tools, config=QUIET) as gate:
        first = await gate.call("mail", key="t1", order="A7", to=BOB)
        assert (first.status, first.output) == ("done", {"sent to": BOB})
        assert await gate.call("mail", key="t1", order="A7", to=BOB) == first
        other = await gate.call("mail", key="t1", order="A7", to="eve@example.org")
        assert other.codes == ("key_reused",)
        failed = await gate.call("mail", order="bounce", to=BOB)
        assert (failed.status, BOB in failed.message) == ("failed", True)
        doubt = await gate.call("mail", key="t2", order="break", to=BOB)
        assert (doubt.status, BOB in doubt.message) == ("doubt", True)
        settled = await gate.settle("t2", done=True, output={"sent to": BOB})
        assert settled.output == {"sent to": BOB}
    assert room.ran[0] == ("mail", "A7", BOB)


async def test_a_value_is_stored_once_and_that_of_a_refused_call_not_at_all(room, log):
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        for key in ("t1", "t2", "t1"):
            await gate.call("mail", key=key, order="A7", to=BOB)
        assert parts_of(log) == 2  # the address, and the output
        await gate.call("mail", key="t1", order="A7", to="eve@example.org")
        assert parts_of(log) == 2
        await gate.call("report")
        await gate.call("report")
        assert parts_of(log) == 3


async def test_a_person_is_shown_the_values_and_decides_on_their_forms(room):
    address = {"name": "Bob", "street": "Main Street 1"}
    async with Gate(room.tools, config=QUIET) as gate:
        await gate.call("letter", address=address, text="hello")
        (request,) = await gate.approvals()
        assert request.calls[0][1] == {"address": address, "text": "hello"}
        decision = await gate.decide(request, "approve", by="ann")
        assert decision.outcomes[0].output == "sent to Main Street 1"


async def test_a_form_in_another_argument_is_shown_as_it_is(room):
    async with Gate(room.tools, config=QUIET) as gate:
        await gate.call("letter", address={"street": "Main Street 1"}, text="hello")
        (fields,) = (await gate.world.state("approvals.requests")).values()
        form = fields["intents"][0]["payload"]["address"]
        await gate.call("letter", address={"street": "Main Street 1"}, text=form)
        assert {one.calls[0][1]["text"] for one in await gate.approvals()} == {"hello", form}


async def test_an_amendment_has_values_of_its_own(room, log):
    store = f"sqlite:///{log}"
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        await gate.call("letter", address={"street": "Main Street 1"}, text="hello")
        (request,) = await gate.approvals()
        calls = [("letter", {"address": {"street": "Side Street 2"}, "text": "hello"})]
        refused = await gate.decide(request, "amend", by="agent", calls=calls)
        assert (refused.state, parts_of(log)) == ("open", 1)
        decision = await gate.decide(request, "amend", by="ann", calls=calls)
        assert decision.outcomes[0].output == "sent to Side Street 2"
        assert parts_of(log, "SELECT count(*) FROM uses WHERE batch = ''") == 2
    assert room.ran == [("letter", {"street": "Side Street 2"}, "hello")]


async def test_a_dry_run_keeps_no_values(room, log):
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        plan = [("mail", {"order": "A7", "to": BOB})]
        assert not await gate.request_approval(plan, agent="agent", key="t1")
        assert parts_of(log) == 0
        (outcome,) = await gate.plan(plan, key="t1")
        assert outcome.status == "done"


async def test_a_failed_plan_is_undone_with_the_values(room):
    async with Gate(room.tools, config=QUIET) as gate:
        plan = [("mail", {"order": "A7", "to": BOB}), ("fail", {})]
        outcomes = await gate.plan(plan)
        assert [one.status for one in outcomes] == ["undone", "failed"]
    assert room.ran[1] == ("recall", "A7", BOB, {"sent to": BOB})


async def test_an_erased_value_is_gone_and_the_log_as_before(room, log):
    store = f"sqlite:///{log}"
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        await gate.call("mail", key="t1", order="A7", to=BOB)
        await gate.call("letter", key="t2", address={"street": "1"}, text="hello")
        calls = await gate.world.state("mail.calls")
        assert await gate.erase("A7")
        assert not await gate.erase("A7")
        assert await gate.world.state("mail.calls") == calls
        assert len(await gate.world.state("mail.erased")) == 1
        outcome = await gate.outcome("t1")
        assert (outcome.output, outcome.message) == (None, "its output is erased")
        assert outcome.for_model == {"status": "done", "message": "its output is erased"}
        again = await gate.call("mail", key="t1", order="A7", to=BOB)
        assert again.codes == ("key_reused",)
        assert "erased" in again.message
        assert (await gate.call("mail", order="A7", to=BOB)).status == "done"  # begins anew
        await gate.erase("letters")
        (request,) = await gate.approvals()
        assert request.calls[0][1] == {"address": "erased", "text": "hello"}
        decision = await gate.decide(request, "approve", by="ann")
        assert (decision.state, decision.codes) == ("open", ("value_missing",))
        assert "erased" in decision.message
    assert "letter" not in [name for name, *_ in room.ran]


async def test_the_command_erases_and_the_log_verifies(room, log):
    store = f"sqlite:///{log}"
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        await gate.call("mail", key="t1", order="A7", to=BOB)
        digest = await gate.world.digest()
        command = ("erase", str(log), "--subject", "A7", "--domain", "tests.tools.mailroom:domain")
        refused = run_process(*command, folder=".", PYTHONPATH=PATH)
        assert (refused.code, "another process has it open" in refused.err) == (1, True)
    assert parts_of(log) == 2
    done = run_process(*command, folder=".", PYTHONPATH=PATH)
    assert (done.code, done.err) == (0, "")
    assert parts_of(log) == 0
    unknown = run_process(*command, folder=".", PYTHONPATH=PATH)
    assert (unknown.code, "no personal data of 'A7'" in unknown.err) == (1, True)
    verified = run_process("verify", str(log), *command[-2:], folder=".", PYTHONPATH=PATH)
    assert verified.code == 0, verified
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        assert await gate.world.digest() != digest  # by the record of the erasure alone
        assert len(await gate.world.state("mail.erased")) == 1
        assert (await gate.outcome("t1")).message == "its output is erased"


@pytest.mark.parametrize(("point", "parts"), [("parts", 0), ("held", 1), ("done", 2)])
async def test_a_part_without_a_call_is_swept_after_a_kill(mail_forker, log, room, point, parts):
    store = f"sqlite:///{log}"
    mail_forker.fork("tests.tools.mailroom:mail_and_die", store=store, point=point).wait()
    assert parts_of(log) == max(parts, 1)
    pending = "SELECT count(*) FROM uses WHERE batch != ''"
    assert parts_of(log, pending) == max(parts, 1)
    async with Gate(room.tools, store=store, config=config()) as gate:
        assert (parts_of(log), parts_of(log, pending)) == (parts, 0)
        if point == "held":
            (request,) = await gate.approvals()
            assert request.calls[0][1]["address"] == {"street": BOB}
        else:
            outcome = await gate.call("mail", key="t1", order="A7", to=BOB)
            assert (outcome.status, outcome.output) == ("done", {"sent to": BOB})
    assert len(room.ran) == (point == "parts")


async def test_an_erasure_that_was_killed_is_finished_at_the_next_opening(mail_forker, log, room):
    store = f"sqlite:///{log}"
    mail_forker.fork("tests.tools.mailroom:mail_and_die", store=store, point="erased").wait()
    assert parts_of(log) == 2
    async with Gate(room.tools, store=store, config=config()) as gate:
        assert parts_of(log) == 0
        assert len(await gate.world.state("mail.erased")) == 1
        assert (await gate.outcome("k")).message == "its output is erased"
    async with Gate(room.tools, store=store, config=config()) as gate:
        assert len(await gate.world.state("mail.erased")) == 1


async def test_a_full_disk_refuses_the_call(room, log):
    store = f"sqlite:///{log}"
    async with Gate(room.tools, store=store, config=config()) as gate:
        await gate.call("mail", key="t1", order="A7", to=BOB)
        with full_disk(), pytest.raises(StoreError, match="parts of the log cannot be"):
            await gate.call("mail", key="t2", order="B2", to="eve@example.org")
        assert len(room.ran) == 1
        assert (await gate.call("mail", key="t2", order="B2", to=BOB)).status == "done"


async def test_a_gate_that_cannot_open_its_parts_lets_go_of_the_log(room, log):
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        await gate.call("mail", order="A7", to="bob@example.org")
    keys = log.with_name("mail.db.keys")
    saved = keys.read_bytes()
    keys.write_bytes(b"no database")
    with pytest.raises(StoreError, match="not a database"):
        await Gate(room.tools, store=f"sqlite:///{log}", config=QUIET).__aenter__()
    keys.write_bytes(saved)
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        assert await gate.erase("A7")


@pytest.mark.parametrize(("number", "subject"), [(7, "7"), (None, "null")])
async def test_a_subject_is_named_by_its_text(room, number, subject):
    tools = type(room.tools)("shop")

    @tools.tool()
    def note(number: int | None, text: Annotated[str, Personal(subject="number")]) -> None: ...

    async with Gate(tools, config=QUIET) as gate:
        await gate.call("note", key="t1", number=number, text="tall")
        assert await gate.erase(subject)


async def test_a_value_that_is_no_json_is_refused(room):
    async with Gate(room.tools, config=QUIET) as gate:
        outcome = await gate.call("mail", order="A7", to="\ud800")
        assert outcome.status == "refused"
        outcome = await gate.call("mail", order="A7", to="x" * 3_000_000)
        assert (outcome.status, "invalid (too_large)" in outcome.message) == ("refused", True)
    assert room.ran == []


async def test_a_reader_of_a_log_deletes_no_parts(room, log):
    store = f"sqlite:///{log}"
    async with Gate(room.tools, store=store, config=QUIET) as gate:
        await gate.call("mail", order="A7", to=BOB)
        parts = PartStore(log)
        parts.put_of("B2", [b"of a call that is not in the log yet"], "t9", "submission")
        before = parts_of(log)
        async with Gate(room.tools, store=store, config=replace(QUIET, read_only=True)):
            assert parts_of(log) == before
        parts.close()


async def test_a_fork_has_no_values(room, log, tmp_path):
    async with Gate(room.tools, store=f"sqlite:///{log}", config=QUIET) as gate:
        await gate.call("mail", key="t1", order="A7", to=BOB)
    fork = tmp_path / "fork.db"
    run_process("fork", str(log), str(fork), "--world", "fork", folder=".")
    config = replace(QUIET, world="fork")
    async with Gate(room.tools, store=f"sqlite:///{fork}", config=config) as gate:
        assert (await gate.outcome("t1")).message == "its output is not here"


async def test_a_call_opens_no_part_of_another_call():
    store = PartStore(None)
    subject, (digest,) = store.put_of("A7", [b"value"], "t1", "b")
    assert store.get(subject, digest, ["t1"]) == b"value"
    with pytest.raises(LookupError, match="not here"):
        store.get(subject, digest, ["t2"])


async def test_outputs_are_cut_where_the_library_is_not_installed(room, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    tools = type(room.tools)("plain")
    tools.tool(risk="read")(room.tools.by_name["report"].function)
    async with Gate(tools, config=QUIET) as gate:
        await gate.call("report", key="t1")
        assert "in the log" in (await gate.outcome("t1")).message
    with pytest.raises(ValueError, match=r"placet-tools\[parts\]"):
        Gate(room.tools, config=QUIET)


@pytest.mark.parametrize("subject", [7, None, b"A7", ["A7"]])
async def test_a_subject_is_a_text(room, subject):
    async with Gate(room.tools, config=QUIET) as gate:
        with pytest.raises(ValueError, match="a data subject is a text"):
            await gate.erase(subject)
