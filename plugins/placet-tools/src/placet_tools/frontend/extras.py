"""Names the extra of the distribution to which a missing package belongs."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Add the name of an extra to the error of an import that fails in the block.

    Args:
        name: Name of the extra.

    Raises:
        ImportError: A package of the extra is not installed.
    """
    try:
        yield
    except ImportError as error:
        install = f"pip install './plugins/placet-tools[{name}]'"
        raise ImportError(f"{error}; it belongs to the extra {name!r}: {install}") from error
