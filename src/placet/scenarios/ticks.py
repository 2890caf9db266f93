"""Counts the ticks of a run that its log contains, to resume it with the next."""

from placet.kernel.ledger.ledger import Ledger
from placet.scenarios.scenario import Scenario
from placet.schemas.limits import SECOND_NS, SIM_TIME_NS_MAX

REQ_IDS: int = 4_096
"""Room for the req_ids of one agent in one tick; a batch has 512 intents at most."""


def tick_ns_of(scenario: Scenario) -> int:
    """Return the length of a tick, nanoseconds."""
    return round(scenario.tick_s * SECOND_NS)


def ticks_at(scenario: Scenario, sim_time: float) -> int:
    """Return how many ticks of a scenario have passed at a simulated time."""
    return round(sim_time * SECOND_NS / tick_ns_of(scenario))


def require_time_for(ticks: int, tick_s: float, now_ns: int = 0) -> None:
    """Check that simulated time does not end before a number of ticks.

    Args:
        ticks: Number of ticks to come.
        tick_s: Length of a tick, seconds.
        now_ns: Simulated time now, nanoseconds.

    Raises:
        ValueError: It does.
    """
    tick_ns = round(tick_s * SECOND_NS)
    room = (SIM_TIME_NS_MAX - 1 - now_ns) // tick_ns if tick_ns > 0 else ticks
    if ticks > room:
        raise ValueError(
            f"simulated time has room for {room} ticks of {tick_s:g} s, got {ticks}: it ends at "
            f"{SIM_TIME_NS_MAX / SECOND_NS:g} s, which is 146 years; count in a larger unit, such "
            "as tick_s=1 for a year"
        )


def req_id_of(number: int) -> str:
    """Return the req_id of the intent with this number; each tick reserves `REQ_IDS` numbers."""
    return f"run:{number}"


def unstepped_ticks(scenario: Scenario, ledger: Ledger) -> int:
    """Return the number of completed ticks in the log of a run that is not stepped. O(agents).

    The log ends at the start of the last tick: it counts as completed if an agent has a verdict in
    it.
    """
    passed = ticks_at(scenario, ledger.now_ns / SECOND_NS)
    req_id = req_id_of(passed * REQ_IDS)
    windows = (agent.window for agent in ledger.agents.values())
    return passed + any(window is not None and window.find(req_id) for window in windows)
