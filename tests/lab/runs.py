"""Runs of the coin's scenario into a log, for tests of questions about runs."""

import asyncio
from pathlib import Path

from placet.actors.ports import EventLog
from placet.scenarios import load
from placet.scenarios.report import RunReport
from placet.scenarios.scenario import Scenario
from placet.stores.snapshots.writer import EVERY_SEQS
from placet.stores.url import open_event_log
from tests.lab.coin import TOML
from tests.scenarios.actors import by_actors


def run_coin(
    folder: Path, *overrides: str, stop_at: int | None = None, snapshot_every_seqs: int = EVERY_SEQS
) -> str:
    """Run the scenario of the coin, and return the path of its log."""
    scenario = folder / "coin.toml"
    scenario.write_text(TOML)
    store = folder / f"coin{len(list(folder.iterdir()))}.db"
    run_into(store, load(scenario, overrides=overrides), stop_at, snapshot_every_seqs)
    return str(store)


def run_into(
    store: Path,
    scenario: Scenario,
    stop_at: int | None = None,
    snapshot_every_seqs: int = EVERY_SEQS,
) -> RunReport:
    ticks = iter(range(10_000))
    runner = by_actors(
        scenario,
        store=f"sqlite:///{store}?synchronous=off",
        snapshot_every_seqs=snapshot_every_seqs,
        is_stopped=lambda: stop_at is not None and next(ticks) > stop_at,
    )
    return asyncio.run(runner.run())


def log_of(path: str) -> EventLog:
    return open_event_log(f"sqlite:///{path}")
