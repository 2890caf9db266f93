"""Counts the ticks of a run that its log contains, to resume it with the next."""

from placet.actors.ports import EventLog
from placet.kernel.ledger.ledger import Ledger
from placet.runtime.history.position import divided_tick
from placet.runtime.snapshots.recovery import decode
from placet.scenarios.scenario import Scenario, ScenarioError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import Tick

REQ_IDS: int = 4_096
"""Room for the req_ids of one agent in one tick; a batch has 512 intents at most."""


def tick_ns_of(scenario: Scenario) -> int:
    """Return the length of a tick, nanoseconds."""
    return round(scenario.tick_s * SECOND_NS)


def ticks_at(scenario: Scenario, sim_time: float) -> int:
    """Return how many ticks of a scenario have passed at a simulated time."""
    return round(sim_time * SECOND_NS / tick_ns_of(scenario))


def req_id_of(number: int) -> str:
    """Return the req_id of the intent with this number; each tick reserves `REQ_IDS` numbers."""
    return f"run:{number}"


def stepped_ticks(scenario: Scenario, log: EventLog, now_ns: int) -> int:
    """Return the number of completed ticks of a stepped run in its log. O(the last tick).

    If simulated time also passed outside of ticks, because the log was served between two
    resumptions, the tick records are counted instead. O(log).

    Args:
        scenario: The scenario of the run.
        log: Its log.
        now_ns: Simulated time of the latest record, nanoseconds.

    Raises:
        ScenarioError: Time passed outside of ticks, and the log was compacted.
        StoreError: The log cannot be read.
    """
    tick_ns = tick_ns_of(scenario)
    if now_ns % tick_ns == 0:
        is_divided = divided_tick(log, log.count(), tick_ns) is not None
        return now_ns // tick_ns - is_divided
    if log.start().record:
        raise ScenarioError(
            scenario.name,
            "",
            f"{log.url} was served in real time and compacted, so the number of its ticks is "
            "unknown: it cannot be resumed",
        )
    return sum(isinstance(decode(data, ordinal), Tick) for ordinal, data in log.read())


def unstepped_ticks(scenario: Scenario, ledger: Ledger) -> int:
    """Return the number of completed ticks in the log of a run that is not stepped. O(agents).

    The log ends at the start of the last tick: it counts as completed if an agent has a verdict in
    it.
    """
    passed = ticks_at(scenario, ledger.now_ns / SECOND_NS)
    req_id = req_id_of(passed * REQ_IDS)
    windows = (agent.window for agent in ledger.agents.values())
    return passed + any(window is not None and window.find(req_id) for window in windows)
