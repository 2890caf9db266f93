"""Convert a program's handler to the async function that an executor calls."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import TypeAlias, TypeVar, cast

from placet.actors.ports import AsyncEffectHandler
from placet.runtime.executors.dbos import DbosWorkflow
from placet.runtime.executors.process import InProcess
from placet.runtime.executors.thread import ThreadHandler
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement

T = TypeVar("T")

AnyHandler: TypeAlias = AsyncEffectHandler | Callable[[Effect], Json] | InProcess | DbosWorkflow
"""An async function, a plain function, or one marked for a process or as a DBOS workflow."""
AnyInDoubt: TypeAlias = (
    Callable[[Effect], Awaitable[Settlement | None]] | Callable[[Effect], Settlement | None]
)
"""A function, async or plain, that settles an effect in doubt; None leaves it in doubt."""


def as_handler(handler: AnyHandler, concurrency: int) -> AsyncEffectHandler:
    """Convert a handler of any form to an async function that runs one attempt at an effect.

    `concurrency` is the number of attempts that run at a time.

    Raises:
        ValueError: The handler cannot be called.
    """
    if isinstance(handler, InProcess | DbosWorkflow):
        return handler.handler(concurrency)
    return awaitable(handler, concurrency)


def awaitable(
    function: Callable[[Effect], Awaitable[T]] | Callable[[Effect], T], concurrency: int
) -> Callable[[Effect], Awaitable[T]]:
    """Return an async function unchanged; wrap a plain one in an async function that uses a thread.

    Args:
        function: The function of an effect.
        concurrency: Number of calls that run at a time; unused for an async function.

    Raises:
        ValueError: The argument cannot be called.
    """
    if not callable(function):
        raise ValueError(
            "a handler must be a function, InProcess(function) or DbosWorkflow(function); "
            f"got {function!r}"
        )
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        return cast("Callable[[Effect], Awaitable[T]]", function)
    return ThreadHandler(function, concurrency)
