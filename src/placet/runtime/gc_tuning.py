"""How placet's own processes set the garbage collector.

A batch leaves behind plain bytes, ints and tuples, which reference counting frees; cycles are rare.
By default a collection runs every 700 containers and a full one walks everything in flight, so a
world with many agents pays more for each intent. placet's own processes therefore collect less
often; a program that embeds placet decides for itself and may call this.

Source: measured in `docs/decisions/0007`; the thresholds are CPython's own knobs.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)


def tune_gc() -> None:
    """Collect less often from now on, and exclude the objects loaded so far."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


@contextmanager
def tuned_gc() -> Iterator[None]:
    """Collect less often for a while, as the benchmarks do; then as before."""
    before = gc.get_threshold()
    tune_gc()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
