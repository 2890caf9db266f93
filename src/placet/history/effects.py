"""Lists open and dead effects from a log, without opening the world."""

import re
from typing import Final

from placet.actors.effects.dispatcher import outcome_of
from placet.actors.effects.executor import CUT_OFF
from placet.actors.ports import EventLog
from placet.schemas.effect import EffectKey, EffectState, EffectStatus
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, EffectChanged, Settled, SettlementFailed
from placet.stores.snapshots.recovery import decode, recover

_NOT_DONE: Final = re.compile(r"NotDone(: |$)")
"""Output of an effect whose handler reported that the work was not done, by an exception of that
name. A plain `DoNotRetry` says that further attempts are useless: it is given up."""

_Place = tuple[int, int]


def open_effects(log: EventLog, *, is_running: bool) -> list[EffectStatus]:
    """Return the effects that are not settled, oldest first. O(state + the log after a snapshot).

    Args:
        log: The log; it is only read.
        is_running: A process is writing the log: an effect marked as started may be in progress.
            If false, the effect was cut off, and is in doubt.

    Raises:
        StoreError: The log cannot be read.
    """
    past = recover(log).past
    if past.header is None:
        return []
    world, ledger = past.header.world, past.ledger
    statuses = []
    for place, pending in ledger.outbox.items():
        mark = ledger.marks.get(place)
        state: EffectState = "open" if mark is None else mark.what
        why = "" if mark is None else mark.why
        if state == "started" and not is_running:
            state, why = "in_doubt", CUT_OFF
        key = EffectKey(world, *place)
        statuses.append(
            EffectStatus(
                key, pending.kind, state, pending.agent_id, pending.payload, why, outcome_of(mark)
            )
        )
    return statuses


def dead_letters(log: EventLog, world: str) -> list[EffectStatus]:
    """Return the effects that were settled as failed, in the order of their settlement. O(log).

    The state is `dead` if the effect was given up, and `failed` if its handler reported that the
    work was not done (`NotDone`), or a person settled it after a doubt. Dead letters whose
    outcome can be settled again are in `open_effects`.

    In a compacted log, effects are listed whose settlement is left. The record that declared such
    an effect may be gone; then its kind and payload are empty.

    Args:
        log: The log; it is only read.
        world: Name of the log's world.

    Raises:
        StoreError: The log cannot be read.
    """
    declared: dict[_Place, tuple[str, dict[str, object], str]] = {}
    doubted: set[_Place] = set()
    dead = []
    for ordinal, data in log.read():
        for record in expanded(decode(data, ordinal)):
            if isinstance(record, Admitted):
                for k, (seq, kind, payload, agent_id) in enumerate(record.effects):
                    declared[seq, k] = (kind, payload, agent_id)
            elif isinstance(record, EffectChanged) and record.what == "in_doubt":
                doubted.add((record.effect_seq, record.effect_index))
            elif isinstance(record, Settled) and not isinstance(record, SettlementFailed):
                place = (record.effect_seq, record.effect_index)
                kind, payload, agent_id = declared.pop(place, ("", {}, ""))
                if not record.succeeded:
                    is_given_up = place not in doubted and not _NOT_DONE.match(f"{record.output}")
                    state: EffectState = "dead" if is_given_up else "failed"
                    key = EffectKey(world, *place)
                    dead.append(EffectStatus(key, kind, state, agent_id, payload, record.output))
                doubted.discard(place)
    return dead
