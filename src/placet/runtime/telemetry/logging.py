"""Structured log lines about a world, on stderr.

structlog's global configuration belongs to the host program and is not touched: `configure_logging`
returns a logger with its own pipeline. A world logs one line per group at debug, one per refusal at
info with its code, and one per fault at error. Lines at info and above contain no payloads.
"""

from __future__ import annotations

import sys
from io import StringIO
from typing import TYPE_CHECKING, Final, TextIO

from placet.schemas.printable import escaped_json, printable

if TYPE_CHECKING:
    from structlog.typing import EventDict, ExcInfo, FilteringBoundLogger, Processor, WrappedLogger

LOG_FORMATS: Final = ("console", "json", "host")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
PRIVATE_KEYS: Final = frozenset({"payload", "payloads", "intent", "intents", "batch", "normalized"})
"""Keys that hold what an agent proposed; removed from every line above debug."""


def configure_logging(
    log_format: str = "console", level: str = "warning", stream: TextIO | None = None
) -> FilteringBoundLogger:
    """Return a logger for a world, in a format and at a level.

    Bind context with `.bind(world=..., agent_id=...)`.

    Args:
        log_format: `console` for people, `json` for one object per line, or `host` for the
            pipeline that the host program configured in structlog.
        level: Lowest level that is written, one of `LOG_LEVELS`. Ignored for `host`.
        stream: Where lines are written; stderr if None. Ignored for `host`.

    Raises:
        ValueError: The format or the level is unknown.
    """
    if log_format not in LOG_FORMATS:
        raise ValueError(f"log format must be one of {', '.join(LOG_FORMATS)}, got {log_format!r}")
    if level not in LOG_LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LOG_LEVELS)}, got {level!r}")
    # Imported here because structlog loads a terminal library if one is installed, which takes a
    # quarter of a second: a program that only decides batches must not pay for it.
    import structlog  # noqa: PLC0415  # slow

    if log_format == "host":
        host_logger: FilteringBoundLogger = structlog.get_logger("placet")
        return host_logger
    target = stream or sys.stderr
    processors = pipeline(log_format, colors=target.isatty())
    wrapper = structlog.make_filtering_bound_logger(level)
    logger = structlog.WriteLogger(target)
    bound: FilteringBoundLogger = structlog.wrap_logger(logger, processors, wrapper)
    return bound


def pipeline(log_format: str, *, colors: bool = False) -> list[Processor]:
    """Return the processors of `console` or `json`, in order; the last one renders the line."""
    import structlog  # noqa: PLC0415  # slow, as in configure_logging

    shared: list[Processor] = [
        drop_payloads,
        escape_event,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        return [
            *shared,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(sort_keys=True),
            lambda _logger, _method, line: escaped_json(str(line)),
        ]
    # Strings are quoted: otherwise a name that contains a line break could forge a line.
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors,
        exception_formatter=_printable_traceback,
        repr_native_str=True,
    )
    return [*shared, renderer]


def _printable_traceback(target: TextIO, exc_info: ExcInfo) -> None:
    """Write a traceback in which the texts of exceptions are printable, line by line."""
    import structlog  # noqa: PLC0415  # slow, as in configure_logging

    plain = StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    target.write("\n".join(map(printable, plain.getvalue().split("\n"))))


def escape_event(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    """Escape the unseen characters of a line's text (a structlog processor)."""
    event_dict["event"] = printable(str(event_dict["event"]))
    return event_dict


def drop_payloads(_logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
    """Remove payloads from a line above debug (a structlog processor)."""
    if method != "debug":
        for key in PRIVATE_KEYS & event_dict.keys():
            del event_dict[key]
    return event_dict
