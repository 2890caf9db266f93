"""The outcomes of effects, as the records after their batch have them."""

from collections.abc import Iterable, Mapping
from typing import Final

from placet.actors.ports import EventLog
from placet.history.wall_times import WallTimes
from placet.schemas.codec import Json, canonical
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import EffectChanged, Record, Settled, SettlementFailed
from placet.stores.snapshots.recovery import decode

OPEN: Final = "open"
"""Status of an effect of which the log has no further record."""


def with_outcomes(
    log: EventLog, from_record: int, effects: Iterable[Mapping[str, Json]]
) -> tuple[Mapping[str, Json], ...]:
    """Return effects of an explanation with their outcomes. O(the log after `from_record`).

    An outcome is `{status, output, record, sim_time, wall_time, was_in_doubt}`; `status` is `done`,
    `failed`, `in_doubt`, `started` or `open`.

    Raises:
        StoreError: The log cannot be read.
    """
    wanted = {_place_of(effect): dict(effect) for effect in effects}
    outcomes: dict[tuple[int, int], dict[str, Json]] = {place: _open() for place in wanted}
    times = WallTimes(log) if wanted else None
    names = {canonical(seq) for seq, _ in wanted}
    for ordinal, data in log.read(from_record) if wanted else ():
        if not any(name in data for name in names):
            continue
        for record in expanded(decode(data, ordinal)):
            if isinstance(record, Settled | EffectChanged):
                place = record.effect_seq, record.effect_index
                if place in outcomes:
                    _note(outcomes[place], ordinal, record)
                    at = None if times is None else times.of(ordinal, record)
                    outcomes[place]["wall_time"] = None if at is None else at.isoformat()
    return tuple({**effect, "outcome": outcomes[place]} for place, effect in wanted.items())


def _open() -> dict[str, Json]:
    names = ("output", "record", "sim_time", "wall_time")
    return {"status": OPEN, **dict.fromkeys(names), "was_in_doubt": False}


def _note(outcome: dict[str, Json], ordinal: int, record: Record) -> None:
    """Update an outcome with a later record of its effect."""
    outcome["record"], outcome["sim_time"] = ordinal, record.now_ns / 1e9
    if isinstance(record, EffectChanged):
        outcome["status"], outcome["output"] = record.what, record.why or None
        outcome["was_in_doubt"] |= record.what == "in_doubt"
    elif isinstance(record, Settled):
        outcome["status"] = "done" if record.succeeded else "failed"
        outcome["output"] = record.output
        if isinstance(record, SettlementFailed):
            outcome["output"] = f"its outcome could not be applied: {record.error}"


def _place_of(effect: Mapping[str, Json]) -> tuple[int, int]:
    """Return the seq and the index in the key of an effect, `<world>/<seq>/<index>`."""
    _, seq, index = effect["key"].rsplit("/", 2)
    return int(seq), int(index)
