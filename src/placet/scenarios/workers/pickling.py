"""Pickles messages between a run and its workers: equal versions of Python and placet read them.

A policy may put a part of its view into a payload. Such a read-only mapping becomes a dict.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Final

PROTOCOL: Final = 5


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # noqa: ANN401  # as its base
        """Reduce mappings that are no dict; leave other values to Python."""
        if isinstance(value, Mapping) and not isinstance(value, dict):
            return dict, (dict(value),)
        return NotImplemented


def dumps(value: object) -> bytes:
    """Return a message as bytes.

    Raises:
        TypeError, AttributeError, PicklingError: A part of it cannot be pickled, such as a lambda.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, PROTOCOL).dump(value)
    return buffer.getvalue()


loads: Final[Callable[[bytes], Any]] = pickle.loads
