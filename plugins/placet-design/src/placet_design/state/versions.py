"""Versions, undo and redo: the properties of a commit as a whole.

A commit that changed a parameter, or a lock on an agent's behalf, raises the version by one and
stores the previous values in a ring of entries. Undo is a new commit: it exchanges the values of an
entry with the present ones, so the same entry serves to redo it. O(change).
"""

from collections.abc import Callable
from itertools import chain
from typing import Final, TypeAlias

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet_design.payloads import (
    ABOUT,
    DESIGN,
    HISTORY,
    LOCKS,
    PARAMETERS,
    PLANS,
    VERSION_NOTICE,
)
from placet_design.state.parameters import is_operator, value_of, write, write_lock

Write: TypeAlias = Callable[[Draft, str, Json], RuleRefusal | None]

PLANS_COUNT: Final = 3
"""Place of the number of plans among the counts."""

_EXCHANGE_WORK: Final = 5
"""Units of work of exchanging one value or lock."""

_EMPTY: Final[tuple[Json, ...]] = ()


def finish(draft: Draft, undo_max: int) -> None:
    """Finish a batch: increment the design's version and store the previous values for an undo.

    Does so only if the batch changed the design.
    """
    values: dict[str, Json] = {}
    locks: dict[str, Json] = {}
    plan_slot = None
    is_travel = is_repeated = False
    for collection, entity, field, old in draft.previous_values():
        if collection == PARAMETERS:
            if entity not in values:
                values[entity] = old
            else:
                is_repeated = True
        elif collection == LOCKS:
            locks.setdefault(entity, old)
        elif collection == PLANS:
            plan_slot = entity
        elif field == "counts":
            is_travel = True
    about = draft.state.collections[ABOUT].entities[DESIGN].fields
    counts = before = about["counts"]
    if is_repeated or locks:
        _strike_unchanged(draft, values, locks)
    # An operator's hold from outside a plan must not make others' plans stale.
    if values or (locks and (is_travel or not _are_holds(draft, locks))):
        draft.put(ABOUT, DESIGN, "version", about["version"] + 1)
        if not is_travel:
            oldest, done, _, plans = counts
            _keep(draft, str(done % undo_max), values, locks)
            counts = (max(oldest, done + 1 - undo_max), done + 1, done + 1, plans)
    if plan_slot is not None:
        _note_plan(draft, plan_slot, about["version"])
        counts = (*counts[:PLANS_COUNT], counts[PLANS_COUNT] + 1)
    if counts is not before:
        draft.put(ABOUT, DESIGN, "counts", counts)


def _strike_unchanged(draft: Draft, values: dict[str, Json], locks: dict[str, Json]) -> None:
    """Drop the changes that the batch reverted; a second put is a different value."""
    for path in [path for path, old in values.items() if old == value_of(draft, path)]:
        del values[path]
    for path in [path for path, old in locks.items() if old == draft.get(LOCKS, path, "lock")]:
        del locks[path]


def _are_holds(draft: Draft, locks: dict[str, Json]) -> bool:
    """Return whether only operators touched these locks.

    Other agents may have intents in the batch.
    """
    rows = draft.state.collections[LOCKS].entities
    return all(is_operator(draft, rows[path].by) for path in locks)


def _keep(draft: Draft, slot: str, values: dict[str, Json], locks: dict[str, Json]) -> None:
    stored = draft.entity(HISTORY, slot)
    paths, before = tuple(values), tuple(values.values())
    if stored is None:
        entry: dict[str, Json] = {"paths": paths, "values": before}
        if locks:
            entry |= {"locked": tuple(locks), "locks": tuple(locks.values())}
        draft.create(HISTORY, slot, entry)
        return
    draft.put(HISTORY, slot, "paths", paths)
    draft.put(HISTORY, slot, "values", before)
    if locks or stored.get("locked"):
        draft.put(HISTORY, slot, "locked", tuple(locks))
        draft.put(HISTORY, slot, "locks", tuple(locks.values()))


def undo(draft: Draft, undo_max: int) -> RuleRefusal | None:
    """Apply `design.undo`: revert the latest commit, or return a refusal if there is none."""
    oldest, done, newest, plans = draft.get(ABOUT, DESIGN, "counts")
    if done == oldest:
        return refuse("nothing_to_undo", f"no commit is left to undo; {undo_max} are kept")
    draft.put(ABOUT, DESIGN, "counts", (oldest, done - 1, newest, plans))
    return _exchange(draft, (done - 1) % undo_max)


def redo(draft: Draft, undo_max: int) -> RuleRefusal | None:
    """Apply `design.redo`: restore the latest reverted commit, or return a refusal if none."""
    oldest, done, newest, plans = draft.get(ABOUT, DESIGN, "counts")
    if done == newest:
        return refuse("nothing_to_redo", "no undone commit is left to redo")
    draft.put(ABOUT, DESIGN, "counts", (oldest, done + 1, newest, plans))
    return _exchange(draft, done % undo_max)


def _exchange(draft: Draft, place: int) -> RuleRefusal | None:
    """Exchange the values of an entry with the current ones.

    Locks are removed first and set last: a lock that the commit set may be removed again, and a
    parameter that it unlocked is free while its values are restored.
    """
    slot = str(place)
    paths, values, locked, locks = (
        draft.get(HISTORY, slot, field, _EMPTY) for field in ("paths", "values", "locked", "locks")
    )
    draft.charge((len(paths) + len(locked)) * _EXCHANGE_WORK)
    before = tuple([value_of(draft, path) for path in paths])
    held = tuple([draft.get(LOCKS, path, "lock") for path in locked])
    steps: list[tuple[str, Json, Write]] = [(path, None, write_lock) for path in locked]
    steps += [(path, value, write) for path, value in zip(paths, values, strict=True)]
    steps += [(path, lock, write_lock) for path, lock in zip(locked, locks, strict=True)]
    for path, value, put in steps:
        refusal = put(draft, path, value)
        if refusal is not None:
            return refusal
    entry = {"paths": paths, "values": before, "locked": locked, "locks": held}
    for field, value in entry.items():  # names too, so that the record says all of it
        draft.put(HISTORY, slot, field, value)
    return None


def _note_plan(draft: Draft, slot: str, version: int) -> None:
    """Store the version that a plan led to, and its answer for a repeated request."""
    draft.put(PLANS, slot, "version", version)
    warnings = _EMPTY
    if draft.notices is not None:
        notices = chain.from_iterable(draft.notices.values())
        warnings = tuple([notice.message for notice in notices])
    draft.warn(VERSION_NOTICE, f"design_version is {version}")
    if warnings or draft.get(PLANS, slot, "warnings"):
        draft.put(PLANS, slot, "warnings", warnings)
