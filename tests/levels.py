"""How long a run searches: the examples of each law, and the rows of long tables.

Fast tests run by default, tests marked `slow` in CI, tests marked `soak` in `.ci/nightly`. A law
states its full number of examples, which a night searches; another run searches a share of it.
"""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import settings

FULL: Final = 100
"""Examples of a law that states no number, in a run that searches all examples."""


def examples(full: int) -> int:
    """Return the share of `full` examples that the profile of this run searches."""
    return max(1, full * settings().max_examples // FULL)


def each(*, slow: int, soak: int = 1) -> list[Any]:
    """Return steps through a long table: CI tries each `slow`-th case, a night each `soak`-th."""
    return [
        pytest.param(slow, marks=pytest.mark.slow, id=f"every {slow}"),
        pytest.param(soak, marks=pytest.mark.soak, id=f"every {soak}"),
    ]


def soak_between(rows: Sequence[Any], every: int) -> list[Any]:
    """Return `rows` as parameters: each `every`-th from the first on, and the others as soak."""
    values = [row if isinstance(row, tuple) else (row,) for row in rows]
    soak = pytest.mark.soak
    return [pytest.param(*row, marks=soak if n % every else []) for n, row in enumerate(values)]
