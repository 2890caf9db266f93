"""Effect handlers that a domain names itself (`Domain.executors`), imported when a world opens."""

from collections.abc import Mapping

from placet.kernel.plugin.domain import Domain, EffectHandler
from placet.plugins.entry_points import EXECUTORS, load_named
from placet.schemas.errors import PlacetError, describe_error
from placet.schemas.json_value import format_value


class ExecutorNotFound(PlacetError, LookupError):  # noqa: N818  # reads as the failure
    """The error of a domain whose effect handlers cannot be loaded."""


def load_handlers(domain: Domain, *, is_fork: bool) -> Mapping[str, EffectHandler | None]:
    """Import and return the effect handlers that a domain names, by kind of effect.

    None for a kind without a handler.

    In a fork only handlers with `delivery="pure"` are returned, the others as None: the host
    decides whether a fork acts on the outside world, with `SimulatedHandler` or `LiveHandler`.

    Args:
        domain: Names the function that makes the handlers: by an entry point of
            `placet.executors`, or as `module:function`.
        is_fork: The world was forked from another.

    Raises:
        ExecutorNotFound: The function cannot be imported, raises, or does not return a mapping.
        PlacetError: Raised by the function itself if it cannot run on this machine.
    """
    where = f"the executors of {domain.name!r}"
    try:
        make = load_named(EXECUTORS, domain.executors, "function of executors")
    except LookupError as error:
        raise ExecutorNotFound(f"{where}: {error.args[0]}") from error
    try:
        handlers = make(domain)
    except PlacetError:
        raise
    except Exception as error:
        raise ExecutorNotFound(
            f"{where}: {domain.executors} raised {describe_error(error)}"
        ) from error
    if not isinstance(handlers, Mapping):
        raise ExecutorNotFound(
            f"{where} must be a function that returns an EffectHandler for each kind of effect, "
            f"got {domain.executors!r}, which returned {format_value(handlers)}"
        )
    for kind, handler in handlers.items():
        if not isinstance(handler, EffectHandler | None):
            raise ExecutorNotFound(
                f"{where}: the value of {kind!r} must be EffectHandler(handler=..., delivery=...) "
                f"or None, got {format_value(handler)}"
            )
    return {
        kind: None if is_fork and handler is not None and handler.delivery != "pure" else handler
        for kind, handler in handlers.items()
    }
