"""Exceptions of tools with marks: no frame of theirs has a value, and no cause has its text.

They pass two doors. By the executor an exception of a function goes to the log lines of the world;
by the gate an error of the store goes to the program, whose hooks and loggers may print variables.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar, cast

from placet.schemas.codec import Json
from placet.schemas.effect import Effect
from placet.schemas.error_frames import hide_variables
from placet_tools.tool import DeclaredTool

_Method = TypeVar("_Method", bound=Callable[..., Awaitable[object]])
_Plain = TypeVar("_Plain", bound=Callable[..., object])


class GateOfTools(Protocol):
    """A gate, whose tools may have marks."""

    @property
    def tools(self) -> Mapping[str, DeclaredTool]:
        """The tools by name."""


class GateInThread(Protocol):
    """A gate whose event loop runs in a thread."""

    @property
    def gate(self) -> GateOfTools:
        """The gate."""


def without_variables(handler: Callable[[Effect], Any]) -> Json:
    """Return a handler of effects whose exceptions have no variables, no cause and no context."""

    async def run(effect: Effect) -> Json:
        try:
            return await handler(effect)
        except BaseException as error:
            _forget(error)
            raise

    def run_in_thread(effect: Effect) -> Json:
        try:
            return handler(effect)
        except BaseException as error:
            _forget(error)
            raise

    return run if iscoroutinefunction(handler) else run_in_thread


def _forget(error: BaseException) -> None:
    hide_variables(error)
    error.__cause__ = error.__context__ = None


def hides_arguments(method: _Method) -> _Method:
    """Decorate an async method of a gate: with marks, its exceptions have no variables."""

    @wraps(method)
    async def hidden(gate: GateOfTools, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # its
        try:
            return await method(gate, *args, **kwargs)
        except BaseException as error:
            if _has_marks(gate):
                hide_variables(error)
                del args, kwargs
            raise

    return cast("_Method", hidden)


def hides_arguments_sync(method: _Plain) -> _Plain:
    """Decorate a plain method of a gate: with marks, its exceptions have no variables."""

    @wraps(method)
    def hidden(gate: GateInThread, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # its
        try:
            return method(gate, *args, **kwargs)
        except BaseException as error:
            if _has_marks(gate.gate):
                hide_variables(error)
                del args, kwargs
            raise

    return cast("_Plain", hidden)


def _has_marks(gate: GateOfTools) -> bool:
    return any(tool.marks for tool in gate.tools.values())
