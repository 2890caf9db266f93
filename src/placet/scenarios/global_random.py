"""Notice policies and rules that draw from the global random numbers of Python or of numpy.

Such draws depend on what else the process did, so a run that is repeated or continued has another
outcome. Reading a state takes about 10 us, so only ticks 1, 2, 4, 8, ... are watched: a policy that
draws in most ticks is found early, at no cost to a long run.
"""

import random
import sys
from typing import Final

WARNING: Final = (
    "the global {} was used in tick {}, by a policy, a rule, or another thread: no seed of the run "
    "decides its numbers, so a repeated run may have another outcome. Draw by "
    "view.random(purpose) and view.randint_below(bound, purpose) in a policy, and by "
    "draft.draw(purpose) in a rule"
)


class GlobalRandom:
    """Watches the global generators during the ticks of a run, until one was used."""

    def __init__(self) -> None:
        self._before: dict[str, object] = {}
        self._has_warned = False

    def begin(self, tick: int) -> None:
        """Read the states before a tick, if it is watched.

        Args:
            tick: Number of completed ticks.
        """
        is_watched = not self._has_warned and not tick & (tick + 1)
        self._before = _states() if is_watched else {}

    def end(self, tick: int) -> str:
        """Return a warning after a tick in which a generator was used, once; else an empty text."""
        if not self._before:
            return ""
        after = _states()
        used = [name for name, state in self._before.items() if after[name] != state]
        self._before = {}
        if not used:
            return ""
        self._has_warned = True
        return WARNING.format(" and ".join(used), tick + 1)


def _states() -> dict[str, object]:
    """Return the states of the global generators of the modules that are imported."""
    states: dict[str, object] = {"module random": random.getstate()}
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        state = numpy_random.get_state(legacy=False)
        words = {k: v.tobytes() if hasattr(v, "tobytes") else v for k, v in state["state"].items()}
        states["numpy.random"] = (words, state.get("has_gauss"), state.get("gauss"))
    return states
