"""The executors that a domain brings, found by the name that it gives, as a world is opened."""

from collections.abc import Mapping

from placet.kernel.domain import Domain, EffectHandler
from placet.runtime.plugins import import_from_here
from placet.schemas.errors import PlacetError


class ExecutorNotFound(PlacetError, LookupError):  # noqa: N818  # what it says
    """A domain names executors that are not there."""


def load_handlers(domain: Domain, *, is_fork: bool) -> Mapping[str, EffectHandler | None]:
    """Return what handles the effects of a domain, by their kind; None where nothing does.

    In a fork only what changes nothing outside is given: whether the fork may act there at all is
    for its host to say, by `SimulatedHandler` or `LiveHandler`.

    Raises:
        ExecutorNotFound: The function cannot be imported, or gives something else.
        PlacetError: It says why it cannot serve here.
    """
    module_name, _, name = domain.executors.partition(":")
    try:
        make = getattr(import_from_here(module_name), name, None)
    except ImportError as error:
        raise ExecutorNotFound(f"the executors of {domain.name!r}: {error}") from error
    found = make(domain) if callable(make) else None
    if not isinstance(found, Mapping):
        raise ExecutorNotFound(
            f"the executors of {domain.name!r} must be a function that gives a Handling for each "
            f"kind of effect, got {domain.executors!r}"
        )
    return {
        kind: None if is_fork and handling is not None and handling.delivery != "pure" else handling
        for kind, handling in found.items()
    }
