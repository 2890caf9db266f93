"""Two runs side by side: their settings, the place where they part, and their series by tick."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from placet.actors.ports import EventLog
from placet.lab.comparison import compare
from placet.lab.reporting.run_report import run_page
from placet.schemas.codec import Json
from placet.server.runs.listing import shown, text_of
from placet.server.runs.summary import RunHead
from placet.stores.snapshots.recovery import recover

_FIGURES_MAX: Final = 24
_ROWS_MAX: Final = 12
_SECTIONS: Final = 3
"""Sections of a report whose figures are compared: collected series, state and rates."""


def settings_of(heads: Sequence[RunHead | None]) -> list[dict[str, Json]]:
    """Return the settings in which two runs differ, the seed and the scenario first."""
    columns = [_all_settings(head) for head in heads]
    keys = dict.fromkeys(key for column in columns for key in column)
    return [
        {
            "key": key,
            "values": [shown(column[key]) if key in column else None for column in columns],
        }
        for key in keys
        if len({text_of(column.get(key)) for column in columns}) > 1
    ]


def _all_settings(head: RunHead | None) -> dict[str, Json]:
    if head is None:
        return {}
    own: dict[str, Json] = {"scenario": head.scenario or head.world, "seed": head.seed}
    return own | {"ticks": head.ticks_planned} | dict(head.settings)


def parting_of(logs: Sequence[EventLog], domains: Sequence[str]) -> dict[str, Json]:
    """Return where two logs part, and the agents, kinds and collections that differ. O(logs).

    `tick` is the first tick whose batches or state differ; None if the logs agree.

    Raises:
        StoreError: A log cannot be read, or was compacted beyond the first difference.
    """
    found = compare(logs[0], logs[1], domains=domains)
    parting = found.parting
    return {
        "is_equal": found.is_equal,
        "record": parting.record,
        "seq": parting.seq,
        "part": parting.part,
        "values": [shown(value) for value in parting.values],
        "rule": parting.rule,
        "tick": None
        if found.is_equal
        else recover(logs[0], to_record=parting.record).past.ledger.tick,
        "agent_count": len(found.agents),
        "kinds": [one.as_dict() for one in found.kinds[:_ROWS_MAX]],
        "state": [
            {**one.as_dict(), "first": shown(one.first), "second": shown(one.second)}
            for one in found.state[:_ROWS_MAX]
        ],
    }


def series_of_run(log: EventLog) -> list[dict[str, Json]]:
    """Return the line charts of a run's report, as columns over ticks or time. O(log).

    They are its collected series, the numbers of entities in all and by value, and its intents.

    Raises:
        StoreError: The log cannot be read, or is empty.
        ScenarioError: Its scenario is not valid in this release.
    """
    sections = run_page(log).sections[:_SECTIONS]
    figures = [figure for section in sections for figure in section.figures]
    drawn = ((figure, figure.x) for figure in figures if figure.x is not None)
    return [
        {
            "name": figure.title,
            "note": figure.note,
            "x_name": x.name,
            "x": x.values,
            "lines": [{"name": name, "values": values} for name, values in figure.data.items()],
        }
        for figure, x in islice(drawn, _FIGURES_MAX)
    ]
