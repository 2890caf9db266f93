"""The variables in the frames of an exception, which a logger may print.

A renderer of tracebacks may print the variables of each frame: rich and better-exceptions, which
structlog takes where they are installed, `traceback.TracebackException(capture_locals=True)`, and
services that collect exceptions. So an exception that leaves a place where values must stay has
other frames: of the same files, functions and lines, and without variables.
"""

from types import CodeType, FrameType, TracebackType
from typing import Final

_CODE: Final = compile("1 / 0", "", "exec")
_NO_POSITION: Final = -1


def hide_variables(error: BaseException) -> None:
    """Replace the frames of an exception by frames that have no variables.

    So are those of its causes, its contexts, and the members of a group. The old frames are not
    cleared: one may be of a coroutine that continues.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        BaseException.with_traceback(one, _without_variables(one.__traceback__))
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions


def _without_variables(trace: TracebackType | None) -> TracebackType | None:
    steps: list[tuple[CodeType, str, int]] = []
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        steps.append((trace.tb_frame.f_code, module, trace.tb_lineno))
        trace = trace.tb_next  # at the end no variable here has an old frame, which others refer to
    emptied: TracebackType | None = None
    for code, module, line in reversed(steps):
        emptied = TracebackType(emptied, _empty(code, module), _NO_POSITION, line)
    return emptied


def _empty(code: CodeType, module: str) -> FrameType:
    """Return a frame of the same file and function, in which an empty program was run."""
    named = _CODE.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname
    )
    trace: TracebackType | None = None
    try:
        exec(named, {"__name__": module}, {})
    except ZeroDivisionError as error:
        trace = error.__traceback__
    assert trace is not None, "the program divides by zero"
    assert trace.tb_next is not None, "the error was raised in the program"
    return trace.tb_next.tb_frame
