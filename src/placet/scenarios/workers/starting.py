"""How worker processes are started: without the calling script, and without the current folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

_SAFE_PATH: Final = "PYTHONSAFEPATH"


@contextmanager
def without_main() -> Iterator[None]:
    """Have processes that are started in a `with` block not import the calling script.

    So a script needs no `if __name__ == "__main__":`, and may be typed in or come from a pipe.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")  # no file: nothing to import
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def safe_path() -> Iterator[None]:
    """Keep the current folder off the path of the processes that are started, until they have ours.

    It may be a downloaded one with a `socket.py` in it. The variable is the only option that
    `multiprocessing` hands on.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
