"""Effect handlers that a domain names itself (`Domain.executors`), imported when a world opens."""

from collections.abc import Mapping

from placet.kernel.plugin.domain import Domain, EffectHandler
from placet.plugins.domains import import_from_here
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
        domain: Names the function that makes the handlers, as `module:function`.
        is_fork: The world was forked from another.

    Raises:
        ExecutorNotFound: The function cannot be imported, raises, or does not return a mapping.
        PlacetError: Raised by the function itself if it cannot run on this machine.
    """
    module_name, _, name = domain.executors.partition(":")
    try:
        make = getattr(import_from_here(module_name), name, None)
    except ImportError as error:
        raise ExecutorNotFound(f"the executors of {domain.name!r}: {error}") from error
    try:
        handlers = make(domain) if callable(make) else None
    except PlacetError:
        raise
    except Exception as error:
        raise ExecutorNotFound(
            f"the executors of {domain.name!r}: {name} raised {describe_error(error)}"
        ) from error
    if not isinstance(handlers, Mapping):
        raise ExecutorNotFound(
            f"the executors of {domain.name!r} must be a function that returns an EffectHandler "
            f"for each kind of effect, got {_found(domain.executors, make, handlers)}"
        )
    for kind, handler in handlers.items():
        if not isinstance(handler, EffectHandler | None):
            raise ExecutorNotFound(
                f"the executors of {domain.name!r}: the value of {kind!r} must be "
                f"EffectHandler(handler=..., delivery=...) or None, got {format_value(handler)}"
            )
    return {
        kind: None if is_fork and handler is not None and handler.delivery != "pure" else handler
        for kind, handler in handlers.items()
    }


def _found(spec: str, make: object, handlers: object) -> str:
    """Describe an `executors` of a domain that is no function which returns a mapping."""
    if make is None:
        return f"{spec!r}, which does not exist"
    if not callable(make):
        return f"{spec!r}, which is no function"
    return f"{spec!r}, which returned {format_value(handlers)}"
