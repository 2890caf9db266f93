"""Log lines about a world, for people and for machines, on stderr.

A library does not reconfigure its host: nothing here touches structlog's global configuration.
`configure_logging` returns a logger with its own pipeline, which the program passes to the actors.
The lines: one per group at debug, one per refusal at info with its code, one per fault at error.
Payloads are never in a line at info or above.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

LOG_FORMATS: Final = ("console", "json", "host")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
PRIVATE_KEYS: Final = frozenset({"payload", "payloads", "intent", "intents", "batch", "normalized"})
"""What an agent proposed: dropped from every line but those at debug."""


def configure_logging(
    log_format: str = "console", level: str = "warning", stream: TextIO | None = None
) -> FilteringBoundLogger:
    """Make the logger of a world. Bind what names it: `.bind(world=..., agent_id=...)`.

    Args:
        log_format: `console` for people, `json` for machines with one object per line, or `host`
            for the pipeline that the host program has given to structlog.
        level: The least level that is written: one of `LOG_LEVELS`. `host` decides for itself.
        stream: Where lines go; stderr if None. `host` decides for itself.

    Raises:
        ValueError: There is no such format or level.
    """
    if log_format not in LOG_FORMATS:
        raise ValueError(f"log format must be one of {', '.join(LOG_FORMATS)}, got {log_format!r}")
    if level not in LOG_LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LOG_LEVELS)}, got {level!r}")
    # Here, because structlog loads a terminal library where it finds one, a quarter of a second
    # that a program which only decides batches should not pay.
    import structlog  # noqa: PLC0415  # see above

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
    """Return the processors of a format, in order: plain functions, the last one renders."""
    import structlog  # noqa: PLC0415  # see configure_logging

    shared: list[Processor] = [
        drop_payloads,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        return [
            *shared,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(sort_keys=True),
        ]
    # Strings are quoted, so that a name with a line break in it cannot forge a line.
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors,
        exception_formatter=structlog.dev.plain_traceback,
        repr_native_str=True,
    )
    return [*shared, renderer]


def drop_payloads(_logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
    """Remove payloads from every line except those at debug."""
    if method != "debug":
        for key in PRIVATE_KEYS & event_dict.keys():
            del event_dict[key]
    return event_dict
