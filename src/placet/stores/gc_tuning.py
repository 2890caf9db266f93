"""Garbage collector settings of placet's own processes.

A decided batch is freed by reference counting (bytes, ints, tuples); cycles are rare. By default a
collection runs every 700 containers and a full one walks everything in flight, so each intent costs
more in a world with many agents. placet's commands therefore collect less often; a program that
embeds placet keeps its own settings and may call `tune_gc`.

Source: measured in `docs/decisions/0007`; the thresholds are those of `gc.set_threshold`.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)


def tune_gc() -> None:
    """Make the garbage collector run less often until the process ends; skip objects loaded so far.

    Runs one full collection first, because garbage that is frozen is never freed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


@contextmanager
def tuned_gc() -> Iterator[None]:
    """Make the garbage collector run less often inside a `with` block, then restore its settings.

    Objects that the host program froze stay frozen. Costs no collection.
    """
    before = gc.get_threshold()
    # `gc.unfreeze` thaws every frozen object of the process, so this freezes only where no
    # other code did. Garbage frozen here is collectable after the block: no collection is needed.
    is_frozen_here = gc.get_freeze_count() == 0
    if is_frozen_here:
        gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_frozen_here:
            gc.unfreeze()
