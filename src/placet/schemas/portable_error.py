"""The base of exceptions that pickle and copy reproduce: a pool of processes sends them so."""

from collections.abc import Callable
from typing import Any


class PortableError(Exception):
    """An exception that is copied with its attributes, whatever arguments its `__init__` takes.

    Python's own exceptions are copied by `type(error)(*error.args)`. An `__init__` with other
    parameters than the text then fails in the process that reads the error, which breaks its pool.
    """

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...], dict[str, object]]:
        """Return how to make a copy without `__init__`, and the attributes."""
        return _made, (type(self), *self.args), vars(self)


def _made(error: type[PortableError], *args: object) -> PortableError:
    return error.__new__(error, *args)
