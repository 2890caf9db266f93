"""`Gate(inbox=True)`: the calls of a gate that need a person are decided from a terminal."""

import asyncio
import json
import socket
import stat
from contextlib import nullcontext
from typing import Annotated, Any

import pytest
from tests.tools.shop import notes_of

from placet.cli.terminal import CommandError
from placet.schemas.errors import StoreError
from placet_tools import Gate, Personal, Secret, Tools
from placet_tools.frontend.inbox import command, control
from placet_tools.frontend.inbox.control import (
    LINE_BYTES_MAX,
    ControlError,
    ask_gate,
    control_socket,
)
from tests.actors.real_time import until
from tests.cli.command_line import run_process


def desk(ran: list[tuple[str, int]]) -> Tools:
    tools = Tools("desk")

    @tools.tool(risk="high")
    def refund(
        order: str,
        euro: int,
        card: Annotated[str, Secret],
        name: Annotated[str, Personal(subject="order")] = "",
    ) -> str:
        """Pay money back."""
        ran.append((order, euro))
        if order == "lost":
            raise OSError("the line is dead")
        return f"{euro} euro to {name}"

    return tools


async def typed(folder, *words):
    """Type `placet inbox` in another process, while the gate's event loop goes on."""
    return await asyncio.to_thread(run_process, "inbox", "desk.db", *words, folder=folder)


async def test_a_person_at_a_terminal_sees_all_and_decides(tmp_path):
    ran: list[tuple[str, int]] = []
    store = f"sqlite:///{tmp_path / 'desk.db'}"
    async with Gate(desk(ran), store=store, inbox=True) as gate:
        held = await gate.call("refund", order="A7", euro=42, card="4111-1111", name="Ada")
        listed = await typed(tmp_path)
        assert f"{held.approval} agent asks operator to call (risk high" in listed.out
        assert '"name":"Ada"' in listed.out
        assert "4111" not in listed.out
        assert held.approval in (await typed(tmp_path, held.approval)).out
        wrong = await typed(tmp_path, "approve")  # the id is left out
        assert (wrong.code, "has the id or the key 'approve'" in wrong.err) == (1, True)
        decided = await typed(tmp_path, held.approval, "approve", "--by", "ann")
        assert (decided.code, decided.out) == (0, "approved: done\n")
        assert (await gate.outcome(held.key)).output == "42 euro to Ada"
        other = await gate.call("refund", order="A8", euro=7, card="5500")
        denied = await typed(tmp_path, other.approval, "deny", "--by", "ann", "--reason", "twice")
        assert denied.out == "denied: denied: twice\n"
        assert ran == [("A7", 42)]
        assert (await typed(tmp_path)).out == "no call waits\n"


async def test_a_call_in_doubt_is_settled_from_a_terminal_with_what_a_person_may_see(tmp_path):
    ran: list[tuple[str, int]] = []
    store = f"sqlite:///{tmp_path / 'desk.db'}"
    async with Gate(desk(ran), store=store, approve_from="never", inbox=True) as gate:
        lost = await gate.call("refund", order="lost", euro=1, card="4111-1111", name="Ada")
        assert lost.status == "doubt"
        (doubt,) = json.loads((await typed(tmp_path, "--json")).out)["doubts"]
        assert (doubt["key"], doubt["tool"], doubt["arguments"]["name"]) == (
            lost.key,
            "refund",
            "Ada",
        )
        assert "4111" not in json.dumps(doubt)
        said = ["--by", "ann", "--reason", "Ada and the bank (4111-1111) say so"]
        settled = await typed(tmp_path, lost.key, "done", *said)
        assert (settled.code, settled.out) == (0, "done\n")
        assert (await gate.outcome(lost.key)).status == "done"
        (note,) = await notes_of(gate.world)
        assert (note["call"], note["outcome"], note["by"]) == (lost.key, "done", "ann")
        assert note["reason"].startswith("part:")  # it may have personal data, and has the secret


async def test_without_inbox_or_after_the_end_there_is_nothing_to_ask(tmp_path):
    store = f"sqlite:///{tmp_path / 'desk.db'}"
    for inbox in (False, True):
        async with Gate(desk([]), store=store, inbox=inbox) as gate:
            await gate.call("refund", order="A7", euro=42, card="4111-1111")
            assert ((await typed(tmp_path)).code == 0) is inbox
        gone = await typed(tmp_path)
        assert gone.code != 0
        assert "no gate answers at" in gone.err
        assert not list(tmp_path.glob("*.inbox"))


async def test_a_gate_that_cannot_be_asked_says_so_at_its_making_or_opening(tmp_path):
    with pytest.raises(ValueError, match=r"inbox=True needs a log in a file.*got memory://"):
        Gate(desk([]), inbox=True)
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    gate = Gate(desk([]), store=f"sqlite:///{deep / 'desk.db'}", inbox=True)
    with pytest.raises(StoreError, match=r"no terminal can decide the requests: .*too long"):
        await gate.__aenter__()
    async with Gate(desk([]), store=f"sqlite:///{deep / 'desk.db'}"):
        pass  # the failed opening has let go of the log


async def test_a_gate_is_found_by_each_name_of_its_log(tmp_path):
    (tmp_path / "shop.db").touch()
    (tmp_path / "desk.db").symlink_to(tmp_path / "shop.db")
    async with Gate(desk([]), store=f"sqlite:///{tmp_path / 'shop.db'}", inbox=True):
        assert (await typed(tmp_path)).out == "no call waits\n"


def test_a_user_without_a_name_names_the_person(monkeypatch, tmp_path):
    def unknown():
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(command, "getuser", unknown)
    with pytest.raises(CommandError, match="name yourself by --by"):
        command.inbox(str(tmp_path / "desk.db"), "k", "approve")


def no_gate() -> Any:
    """Stand for the gate of requests that are not read."""
    return nullcontext()


async def test_a_file_at_the_path_of_the_socket_is_left_alone(tmp_path):
    (tmp_path / "desk.db.inbox").write_text("letters")
    gate = Gate(desk([]), store=f"sqlite:///{tmp_path / 'desk.db'}", inbox=True)
    with pytest.raises(StoreError, match=r"no terminal can decide .* that is no socket; move it"):
        await gate.__aenter__()
    assert (tmp_path / "desk.db.inbox").read_text() == "letters"


async def test_the_socket_of_a_killed_process_is_replaced_and_that_of_another_gate_is_not(tmp_path):
    path = tmp_path / "desk.db.inbox"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    async with control_socket(path, no_gate):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(OSError, match="another gate has it"):
            async with control_socket(path, no_gate):
                pass
        assert path.is_socket()
    assert not path.exists()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b'{"method":"inbox"', "no whole line came in 0.1 s"),
        (b"x" * (LINE_BYTES_MAX + 1), "shorten the reason"),
        (b'{"method":"inbx"}\n', "no method 'inbx'"),
        (b'{"method":"inbox","params":[]}\n', "params must be an object"),
    ],
)
async def test_a_line_that_is_no_request_is_answered(tmp_path, monkeypatch, sent, answer):
    monkeypatch.setattr(control, "_LINE_SECONDS_MAX", 0.1)
    path = tmp_path / "desk.db.inbox"
    async with control_socket(path, no_gate):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(sent)
        assert answer in (await reader.readline()).decode()
        writer.close()


async def test_a_client_that_says_nothing_ends_with_the_gate(tmp_path):
    before = asyncio.all_tasks()
    async with control_socket(tmp_path / "desk.db.inbox", no_gate):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "desk.db.inbox")
        writer.write(b'{"method"')
        await until(lambda: any("answer" in repr(one) for one in asyncio.all_tasks()))
    assert await reader.read() == b""
    writer.close()
    assert asyncio.all_tasks() == before


async def test_an_answer_that_was_cut_off_is_no_answer(tmp_path):
    async def cut(reader, writer):
        await reader.readline()
        writer.write(b'{"jsonrpc":"2.0","id":0,"result":{"state":"appro')
        writer.close()

    path = tmp_path / "desk.db.inbox"
    async with await asyncio.start_unix_server(cut, path):
        with pytest.raises(ControlError, match="ended before it had answered"):
            await asyncio.to_thread(ask_gate, path, "inbox", {})


def test_a_gate_without_an_event_loop_is_asked_too(tmp_path):
    store = f"sqlite:///{tmp_path / 'desk.db'}"
    with Gate(desk([]), store=store, inbox=True) as gate:
        held = gate.call("refund", order="A7", euro=42, card="4111-1111")
        assert gate.request(held.approval).agent == "agent"
        assert gate.doubts() == []
        run = run_process("inbox", "desk.db", held.approval, "approve", folder=tmp_path)
        assert run.out == "approved: done\n"
    assert not list(tmp_path.glob("*.inbox"))
