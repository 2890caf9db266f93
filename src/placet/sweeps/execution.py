"""Executes the run of a scenario to its end, or from where its log ends: one function."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from placet.kernel.state.tree import WorldState
from placet.scenarios.collecting import collector_of
from placet.scenarios.engine import OpenRun, run_scenario
from placet.scenarios.scenario import Scenario
from placet.stores.files import quoted
from placet.sweeps.collected import streams_of
from placet.sweeps.formats import Row
from placet.sweeps.half_run import Counts, HalfRun


def execute(
    scenario: Scenario, log: Path | None, *, on_state: Callable[[WorldState], None]
) -> tuple[Row, Mapping[str, bytes]]:
    """Run a scenario to its end.

    Args:
        scenario: The scenario, with its seed.
        log: File of the log, which is kept; None keeps no log. A half-done run in the file is
            resumed if it had run for some seconds, else it is started anew.
        on_state: Called with the final state, while the run is still open.

    Returns:
        The counts, the digest and the position of the run, as its row has them, and the collected
        rows of each table, as an Arrow stream.

    Raises:
        ScenarioError: The scenario cannot run, or a policy raised.
        CollectError: A function of the collected rows raised.
        StoreError: The log cannot be written.
    """
    half = None if log is None else HalfRun(log)
    before = Counts() if half is None else half.take_up(scenario)
    runs: list[OpenRun] = []

    def on_tick(ticks: int) -> None:
        if half is not None:
            half.advance(before.plus(ticks, runs[0].report))

    def on_end() -> None:
        on_state(runs[0].state())

    collector = collector_of(scenario, None)
    store = "memory://" if log is None else f"sqlite:///{quoted(str(log))}?synchronous=normal"
    with half or nullcontext():
        report = run_scenario(
            scenario,
            collector=collector,
            store=store,
            is_resumed=before.ticks > 0,
            snapshot_every_seqs=None,
            on_open=runs.append,
            on_tick=on_tick,
            on_end=on_end,
        )
    if half is not None:
        half.end()
    counts = before.plus(report.ticks, report)
    is_contained = scenario.on_rule_error == "refuse"
    ended_at = report.ticks if report.has_ended else None
    row: Row = {
        "ticks": report.ticks,
        "submitted": counts.submitted,
        "admitted": counts.admitted,
        "refused": counts.submitted - counts.admitted,
        "refusals": dict(sorted(counts.refusals.items())),
        **({"rule_errors": counts.rule_errors} if is_contained else {}),
        **({"ended_at": ended_at} if scenario.until is not None else {}),
        "seq": report.seq,
        "digest": report.digest,
        "resumed_at": report.resumed_at,
    }
    streams = {} if collector is None else streams_of(collector)
    return row, streams
