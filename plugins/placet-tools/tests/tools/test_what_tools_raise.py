"""Whatever a function raises or returns, its call ends, and runs again only if it was not done."""

import asyncio
from typing import Annotated

import pytest
from tests.tools.shop import QUIET

from placet.schemas.effect import OutcomeUnknown, RetryAfter
from placet_tools import Gate, NotDone, Secret, Tools
from placet_tools.frontend import executors


class Panic(BaseException):
    """The panic of an extension in another language."""


class Unreadable(Exception):  # noqa: N818  # the name states the fault
    """An exception that has no text."""

    def __str__(self):
        raise SystemExit


ERRORS = [
    SystemExit(1), KeyboardInterrupt("stop"), GeneratorExit("stop"),
    asyncio.CancelledError("stop"), Panic("stop"), BaseExceptionGroup("all", [Panic("stop")]),
    OSError("stop"), TimeoutError("stop"), MemoryError(), RecursionError(), AssertionError("stop"),
    StopIteration(1), StopAsyncIteration(1), ExceptionGroup("all", [OSError("stop")]),
    OutcomeUnknown("stop"), RetryAfter(0.0, "stop"), Unreadable(),
]  # fmt: skip


def tools_that_raise(error, ran, *, is_async, is_marked, **options):
    """Return tools whose tool `pay(word)` raises an error."""

    def pay(word):
        ran.append("pay")
        raise error

    async def pay_later(word):
        await asyncio.sleep(0)
        pay(word)

    return tools_of(pay_later if is_async else pay, is_marked=is_marked, **options)


def tools_of(function, *, is_marked, **options):
    """Return tools whose tool `pay(word)` is a function."""
    function.__name__ = "pay"
    function.__annotations__ = {"word": Annotated[str, Secret] if is_marked else str}
    tools = Tools("shop")
    tools.tool(**options)(function)
    return tools


@pytest.mark.parametrize("is_marked", [False, True], ids=["plain", "marked"])
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "async"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_exception_leaves_a_doubt_and_the_gate_goes_on(error, is_async, is_marked):
    ran: list[str] = []
    tools = tools_that_raise(error, ran, is_async=is_async, is_marked=is_marked, once="pay")

    @tools.tool()
    def other() -> str:
        return "runs"

    async with asyncio.timeout(60), Gate(tools, config=QUIET, wait_s=20.0) as gate:
        outcome = await gate.call("pay", key="k", word="rose")
        assert outcome.status == "doubt"
        assert (await gate.call("pay", key="l", word="rose")).codes == ("shop.same_running",)
        assert (await gate.call("other")).output == "runs"
        assert (await gate.settle("k", done=True)).status == "done"
    assert ran == ["pay"]


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "async"])
@pytest.mark.parametrize("error", ERRORS[:6], ids=lambda error: type(error).__name__)
async def test_a_tool_that_changes_nothing_fails(error, is_async):
    ran: list[str] = []
    tools = tools_that_raise(error, ran, is_async=is_async, is_marked=False, risk="read")
    async with asyncio.timeout(60), Gate(tools, config=QUIET, wait_s=20.0) as gate:
        outcome = await gate.call("pay", word="rose")
        assert (outcome.status, ran) == ("failed", ["pay"])
        assert type(error).__name__ in outcome.message


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "async"])
@pytest.mark.parametrize("error", [NotDone("closed"), NotDone(), ConnectionRefusedError("no")])
async def test_an_exception_that_says_that_nothing_was_done_fails_the_call(error, is_async):
    ran: list[str] = []
    more = {"not_done": (ConnectionRefusedError,)}
    tools = tools_that_raise(error, ran, is_async=is_async, is_marked=False, once="pay", **more)
    async with Gate(tools, config=QUIET) as gate:
        assert [(await gate.call("pay", word="rose")).status for _ in range(2)] == ["failed"] * 2


@pytest.mark.parametrize(
    ("method", "is_async"),
    [
        ("_failure", False),
        ("_failure", True),
        ("output", False),
        ("output", True),
        ("is_plain", True),
    ],
)
async def test_a_fault_of_the_gate_after_the_function_has_begun_is_a_doubt(
    monkeypatch, method, is_async
):
    def fault(*_, **__):
        raise NotImplementedError("of the gate")

    ran: list[str] = []

    def pay(word):
        ran.append("pay")
        if method == "_failure":
            raise OSError("stop")

    async def pay_later(word):
        pay(word)

    tools = tools_of(pay_later if is_async else pay, is_marked=False)
    monkeypatch.setattr(executors._Call, method, fault)
    async with Gate(tools, config=QUIET) as gate:
        outcome = await gate.call("pay", word="rose")
        assert outcome.status == "doubt"
        assert "NotImplementedError" in outcome.message
    assert ran == ["pay"]


def circle():
    values: list[object] = []
    values.append(values)
    return values


def tower():
    value: object = None
    for _ in range(10_000):
        value = [value]
    return value


OUTPUTS = {
    "object": object(),
    "circle": circle(),
    "tower": tower(),
    "bytes": b"\xff",
    "bytes inside": {"file": b"\xff"},
    "half of a character": "\ud800",
    "a great number": 10**400,
}


@pytest.mark.parametrize("is_marked", [False, True], ids=["plain", "marked"])
@pytest.mark.parametrize("output", OUTPUTS)
async def test_an_output_that_is_no_json_does_not_undo_that_the_work_is_done(output, is_marked):
    tools = tools_of(lambda word: OUTPUTS[output], is_marked=is_marked)
    async with Gate(tools, config=QUIET) as gate:
        outcome = await gate.call("pay", word="rose")
    assert outcome.status == "done"
    assert "not_recorded" in outcome.output


async def test_the_body_of_a_generator_is_the_work():
    tools = Tools("shop")

    @tools.tool()
    def pay() -> object:
        def payments():
            yield 1
            raise UnicodeError("no")

        return payments()

    async with Gate(tools, config=QUIET) as gate:
        assert (await gate.call("pay")).status == "doubt"
