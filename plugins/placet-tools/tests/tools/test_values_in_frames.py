"""No value of a marked argument is in a frame of an exception that a logger or a hook may print."""

import sys
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Annotated

import pytest
import structlog

from placet import OrchestratorConfig
from placet.schemas.errors import StoreError
from placet_tools import Gate, Personal, Secret, Tools

WORD = "tulip-4711"
PERSON = "bob@example.org"
HOST = OrchestratorConfig(log_format="host")


def failing_tools() -> Tools:
    """Return tools that fail while their variables have values."""
    tools = Tools("mail")

    @tools.tool()
    def login(password: Annotated[str, Secret], to: Annotated[str, Personal(subject="to")]) -> str:
        copied = [password, to]
        raise OSError(f"broken by {copied}")

    @tools.tool(risk="read")
    async def mail(
        password: Annotated[str, Secret], to: Annotated[str, Personal(subject="to")]
    ) -> str:
        raise OSError(f"lost while sending to {to} by {password}")

    @tools.tool()
    def leave(password: Annotated[str, Secret], to: Annotated[str, Personal(subject="to")]) -> str:
        raise Panic(f"{password} {to}")

    return tools


class Panic(BaseException):
    """An exception such as that of an extension."""


@pytest.fixture
def errors() -> Iterator[list[BaseException]]:
    """Return the exceptions that a world hands to the program's logger."""
    taken: list[BaseException] = []

    def take(_logger: object, _method: str, event: Mapping[str, object]) -> Mapping[str, object]:
        if isinstance(error := event.get("exc_info"), BaseException):
            taken.append(error)
        raise structlog.DropEvent

    structlog.configure(processors=[take])
    yield taken
    structlog.reset_defaults()


def printed(error: BaseException) -> str:
    """Return all that renderers print of an exception."""
    captured = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "\n".join([*captured.format(), repr(frames(error.__traceback__))])


def frames(trace: TracebackType | None) -> list[object]:
    return [] if trace is None else [trace.tb_frame.f_locals, *frames(trace.tb_next)]


@pytest.mark.parametrize("tool", ["login", "mail", "leave"])
async def test_a_tool_that_raises_shows_no_value_to_the_logger_of_the_program(tool, errors):
    async with Gate(failing_tools(), config=HOST) as gate:
        outcome = await gate.call(tool, password=WORD, to=PERSON)
        shown = "\n".join(map(printed, errors))
        assert len(errors) == 1
        assert WORD not in shown
        assert PERSON not in shown
        assert "executors.py" in shown
        assert WORD not in f"{outcome}"
        (fault,) = gate.world.faults.latest()  # which the pages show
        assert "executors.py" in fault.traceback
        assert WORD not in f"{fault}"
        assert PERSON not in f"{fault}"
        assert errors[0].__cause__ is errors[0].__context__ is None


@pytest.mark.parametrize("log_format", ["host", "console", "json"])
async def test_no_line_of_a_failing_tool_has_a_value(log_format, capsys):
    """The default renderer of structlog prints variables: rich is installed."""
    assert structlog.dev.default_exception_formatter is not structlog.dev.plain_traceback
    async with Gate(failing_tools(), config=OrchestratorConfig(log_format=log_format)) as gate:
        await gate.call("login", password=WORD, to=PERSON)
    shown = "".join(capsys.readouterr())
    assert "executor mail.login" in shown
    assert WORD not in shown
    assert PERSON not in shown


async def test_the_payload_of_a_tool_without_marks_is_in_no_line(errors):
    tools = Tools("mail")

    @tools.tool()
    def send(text: str) -> str:
        raise OSError("broken")

    async with Gate(tools, config=HOST) as gate:
        await gate.call("send", text=WORD)
    (error,) = errors
    assert WORD not in printed(error)
    assert "in send" in printed(error)


async def test_a_gate_whose_store_fails_shows_no_value_to_a_hook(log, monkeypatch):
    async with Gate(failing_tools(), store=f"sqlite:///{log}", config=HOST) as gate:

        def fail(*_: object) -> None:
            raise StoreError("the disk is full", store="")

        monkeypatch.setattr(gate._values.store, "put_of", fail)
        calls = [("login", {"password": WORD, "to": PERSON})]
        attempts = [
            lambda: gate.call("login", password=WORD, to=PERSON),
            lambda: gate.plan(calls),
            lambda: gate.request_approval(calls, agent="a", key="k"),
            lambda: gate.decide("unknown", "amend", by="ann", calls=calls),
        ]
        for attempt in attempts:
            with pytest.raises(StoreError) as raised:
                await attempt()
            shown = printed(raised.value.with_traceback(below_this_file(raised.value)))
            assert WORD not in shown
            assert PERSON not in shown
            assert "gate.py" in shown


def test_a_gate_without_an_event_loop_shows_no_value_to_a_hook(log, monkeypatch):
    with Gate(failing_tools(), store=f"sqlite:///{log}", config=HOST) as gate:

        def fail(*_: object) -> None:
            raise StoreError("the disk is full", store="")

        monkeypatch.setattr(gate.gate._values.store, "put_of", fail)
        with pytest.raises(StoreError) as raised:
            gate.call("login", password=WORD, to=PERSON)
        shown = printed(raised.value.with_traceback(below_this_file(raised.value)))
    assert WORD not in shown
    assert PERSON not in shown


def below_this_file(error: BaseException) -> TracebackType | None:
    """Return the traceback without the frames of the caller, which are the program's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is sys.modules[__name__].__dict__:
        trace = trace.tb_next
    return trace
