"""The forks that a log comes from: of which run, at which tick, with which changes.

A fork copies the records of its parent, with the forks that these come from, so a log has its whole
lineage. The parent is a world; the list finds the log of it in the folder by world, seed and
settings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from placet.kernel.log.replay import forked_header
from placet.scenarios.setup import ORIGIN
from placet.schemas.codec import Json
from placet.schemas.documents import parse_json
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import ForkAdopted, Header

EDITS_MAX: Final = 8
"""Edited entities and dropped agents of a fork that are named."""

_NOT_LISTED: Final = frozenset({"name", "title", "domain", "seed", "ticks", "portrayal"})
"""Keys of a scenario that the list shows elsewhere, or that change no decision."""


class Adopted(NamedTuple):
    """A record that made a log a fork, and the ticks before it."""

    record: ForkAdopted
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestor:
    """The run that a log, or a later ancestor of it, was forked from.

    Attributes:
        parent: Name of its world.
        tick: Completed ticks at the fork; None of a log without ticks.
        seq: Seq of the fork.
        sim_time: Simulated time of the fork, seconds.
        seed: Seed of the parent.
        settings: Settings of the parent by dotted key, as the list has them.
        changes: Key of a setting -> its value in the parent and in the fork; None is no value.
        edits: Edited entities, `collection/entity`, and `-name` of dropped agents.
    """

    parent: str
    tick: int | None
    seq: int
    sim_time: float
    seed: int
    settings: Mapping[str, Json]
    changes: Mapping[str, tuple[Json, Json]]
    edits: Sequence[str]


def settings_in(header: Header) -> dict[str, Json]:
    """Return the settings of a log by dotted key: of its scenario, else of its domains."""
    scenario = scenario_in(header)
    if scenario is None:
        tables: Iterable[Json] = [{"settings": one} for one in header.settings.values()]
    else:
        tables = [{key: value for key, value in scenario.items() if key not in _NOT_LISTED}]
    return dict(_flat(tables))


def scenario_in(header: Header) -> dict[str, Json] | None:
    """Return the scenario in a header as plain values; None if there is none.

    It is not validated, so that a scenario of another release is listed too.
    """
    text = header.origin.get(ORIGIN)
    scenario = parse_json(text) if isinstance(text, str) else None
    return scenario if isinstance(scenario, dict) else None


def lineage_of(header: Header, forks: Iterable[Adopted]) -> tuple[list[Ancestor], Header]:
    """Return the ancestors of a log, the oldest first, and its header after all its forks."""
    ancestors = []
    for record, ticks in forks:
        after = forked_header(header, record)
        ancestors.append(_ancestor(header, after, record, ticks))
        header = after
    return ancestors, header


def _ancestor(before: Header, after: Header, record: ForkAdopted, ticks: int) -> Ancestor:
    was, now = settings_in(before), settings_in(after)
    keys = dict.fromkeys([*was, *now])
    changes = {key: (was.get(key), now.get(key)) for key in keys if was.get(key) != now.get(key)}
    if after.seed != before.seed:
        changes["seed"] = before.seed, after.seed
    scenario = scenario_in(before)
    is_stepped = scenario is None or scenario.get("clock", "stepped") == "stepped"
    edits = [f"{collection}/{entity}" for collection, entity, *_ in record.given]
    return Ancestor(
        parent=record.parent,
        tick=ticks if is_stepped else None,
        seq=record.seq,
        sim_time=record.now_ns / SECOND_NS,
        seed=before.seed,
        settings=was,
        changes=changes,
        edits=[*edits, *(f"-{agent}" for agent in record.dropped)],
    )


def _flat(tables: Iterable[Json], prefix: str = "") -> Iterable[tuple[str, Json]]:
    """Yield the values of tables by dotted key; empty tables and None have no value."""
    for table in tables:
        for key, value in table.items():
            if isinstance(value, dict):
                yield from _flat([value], f"{prefix}{key}.")
            elif value is not None:
                yield f"{prefix}{key}", value
