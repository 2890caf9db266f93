"""Turn a program's handler into the function that an executor calls."""

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
"""An async function, a plain one, one for another process, or a workflow of many steps."""
AnyInDoubt: TypeAlias = (
    Callable[[Effect], Awaitable[Settlement | None]] | Callable[[Effect], Settlement | None]
)


def as_handler(given: AnyHandler, concurrency: int) -> AsyncEffectHandler:
    """Return the function that an executor calls.

    Raises:
        ValueError: It cannot be called.
    """
    if isinstance(given, InProcess | DbosWorkflow):
        return given.handler(concurrency)
    return awaitable(given, concurrency)


def awaitable(
    given: Callable[[Effect], Awaitable[T]] | Callable[[Effect], T], concurrency: int
) -> Callable[[Effect], Awaitable[T]]:
    """Return an async function as it is; a plain one runs in a thread.

    Raises:
        ValueError: It cannot be called.
    """
    if not callable(given):
        raise ValueError(
            f"a handler is a function, an InProcess or a DbosWorkflow of one; got {given!r}"
        )
    if iscoroutinefunction(given) or iscoroutinefunction(type(given).__call__):
        return cast("Callable[[Effect], Awaitable[T]]", given)
    return ThreadHandler(given, concurrency)
