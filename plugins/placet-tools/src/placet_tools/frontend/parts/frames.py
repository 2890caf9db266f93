"""Exceptions of tools with marks: no frame of theirs has a value, and no cause has its text.

They pass two doors. By the executor an exception of a function goes to the log lines of the world;
by the gate an error of the store goes to the program, whose hooks and loggers may print variables.
"""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from types import FunctionType
from typing import Any, TypeVar

from placet.runtime.telemetry.error_frames import hide_variables
from placet.schemas.codec import Json
from placet.schemas.effect import Effect

_Class = TypeVar("_Class", bound=type)


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
    for link in ("__cause__", "__context__"):  # also of a frozen dataclass
        BaseException.__setattr__(error, link, None)


def hides_arguments(cls: _Class) -> _Class:
    """Decorate a class of gates: with marks, exceptions of its public methods have no variables."""
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and isinstance(method, FunctionType):
            setattr(cls, name, _hidden(method))
    return cls


def _hidden(method: FunctionType) -> Callable[..., Any]:
    @wraps(method)
    def call(gate: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # those of the method
        try:
            return method(gate, *args, **kwargs)
        except BaseException as error:
            if _has_marks(gate):
                hide_variables(error)
                del args, kwargs
            raise

    @wraps(method)
    async def wait(gate: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as above
        try:
            return await method(gate, *args, **kwargs)
        except BaseException as error:
            if _has_marks(gate):
                hide_variables(error)
                del args, kwargs
            raise

    return wait if iscoroutinefunction(method) else call


def _has_marks(gate: Any) -> bool:  # noqa: ANN401  # a Gate, or the SyncGate of one
    tools = getattr(gate, "gate", gate).tools
    return any(tool.marks for tool in tools.values())
