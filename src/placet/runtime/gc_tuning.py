"""How placet's own processes set the garbage collector.

What a batch leaves behind is plain bytes, ints and tuples, which are freed by reference counting;
cycles are rare. With the defaults a collection comes every 700 containers and a full one walks
everything that is in flight, so that a world with many agents pays more for each intent. A process
that is placet's own therefore collects less often; a program that embeds placet decides for itself
and may call this.

Source: measured in `docs/decisions/0007`; the thresholds are CPython's own knobs.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)


def tune_gc() -> None:
    """Collect less often from here on, and leave what is loaded now out of it."""
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
