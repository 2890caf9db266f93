"""Functions of the user that a file or an option names, as `module:function`."""

from collections.abc import Callable
from typing import Any

from placet.plugins.domains import import_from_here
from placet.schemas.name_suggestions import did_you_mean


def find_function(spec: str) -> Callable[..., Any]:
    """Return a function by `module:function`, also of a module in the current folder.

    Raises:
        LookupError: There is no such function, or its module cannot be imported; the text says why.
    """
    module_name, colon, name = spec.partition(":")
    if not (colon and module_name and name):
        raise LookupError(f"{spec!r} names no function; expected module:function")
    try:
        module = import_from_here(module_name)
    except ImportError as error:
        raise LookupError(f"the module of {spec!r} cannot be imported: {error}") from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        own = [
            key
            for key, value in vars(module).items()
            if callable(value) and not isinstance(value, type) and not key.startswith("_")
            if getattr(value, "__module__", "") == module_name
        ]
        hint = did_you_mean(name, own or [key for key in dir(module) if not key.startswith("_")])
        raise LookupError(f"the module {module_name!r} has no function {name!r}; {hint}")
    return found
