"""What the tests of sweeps share: short scenarios, an executor without processes, outcomes."""

import os
from concurrent.futures import Executor, Future
from pathlib import Path

from placet.lab import Results, Scenario


class InlineExecutor(Executor):
    """Runs every call at once, in this thread."""

    def submit(self, function, /, *args, **kwargs):
        future: Future[object] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # it is the future's
            future.set_exception(error)
        return future


def short_town(agents=4, ticks=2):
    return Scenario.load("town").with_agents(agents).with_values(ticks=ticks)


def agents_left(state):
    return len(state["world.agents"])


def mark_execution(state):
    """Append a line to the file in MARKS: this run was executed."""
    x = sum(agent["position"][0] for agent in state["world.agents"].values())
    with Path(os.environ["MARKS"]).open("a") as marks:
        marks.write(f"{x}\n")
    return x


def fail_where_marked(state):
    """Raise where the file in FAILS exists."""
    if Path(os.environ["FAILS"]).exists():
        raise RuntimeError("the outcome cannot be computed")
    return True


def without_times(results: Results) -> list[dict[str, object]]:
    """Return the rows without what depends on the machine."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in results.rows]
