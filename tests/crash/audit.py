"""The invariants of a store after any crash, whatever was answered before it.

The checker of all crash tests. It reads the log alone and returns complaints as text; an intact log
has none. Each complaint is seen at least once: a test plants its bug (`planted_bugs.py`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.replay import Replayer, folded
from placet.kernel.log.snapshot import world_digest
from placet.schemas.errors import StoreError
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Record, Settled, decode_record, intents_of
from placet.stores.snapshots.recovery import recover
from placet.stores.url import open_event_log
from tests.crash.fixed_scenario import answer_of
from tests.crash.process_forker import Message
from tests.kernel.domains import COUNTS, Lab

UNSENT: Final = "an answer that a client got is not in the log"
CHANGED: Final = "an answer is another one than the client got"
TWICE: Final = "an intent is in the log twice"
SUM: Final = "the state is not the sum of what was admitted"
DISORDER: Final = "an agent's batches are not in the order in which it sent them"
EARLY: Final = "an effect was begun that is not in the log"
RESETTLED: Final = "an effect was settled twice"
BROKEN: Final = "the log does not hold together"
GHOST: Final = "a batch whose writer was fenced is in the log"
LOST_EFFECT: Final = "an effect was settled that no handler ran"
ENDED_OTHERWISE: Final = "the child that went on did not end as the one without a crash"


def audit(store: str, config: KernelConfig, messages: Sequence[Message]) -> list[str]:
    """Check a log, without opening it for writing, against all messages sent so far.

    Of a log that was compacted, the front can no longer be checked by itself.

    Args:
        store: Of a world of the `Lab`, where `Add` is the only kind that adds to a count.
        config: By which the world was decided.
        messages: By all children on this store, in order.
    """
    log = open_event_log(store)
    try:
        encoded = [data for _, data in log.read()]
        is_whole = log.start().record == 0
    except StoreError as error:
        # Before the first open was done there is no log yet, and nothing can have been messages.
        is_unborn = not any(line["what"] == "answer" for line in messages)
        return [] if is_unborn else [f"{BROKEN}: {error}"]
    records = [record for data in encoded for record in expanded(decode_record(data))]
    complaints = [*_once(records), *_order(records)]
    complaints += _effects(records, messages) if is_whole else []
    if not records:  # opened, and nothing yet decided
        return [f"{UNSENT}: {line['ids']}" for line in messages if line["what"] == "answer"]
    try:
        kernel = _kernel_of(config, recover(log).past)
    except StoreError as error:
        return [*complaints, f"{BROKEN}: {error}"]
    complaints += _answers(kernel, messages)
    if is_whole:
        complaints += [*_sums(kernel, records), *_fold(kernel, encoded)]
    return complaints


_KERNELS: Final[dict[str, Kernel]] = {}


def _kernel_of(config: KernelConfig, past: Replayer) -> Kernel:
    """Return a kernel opened from a log, cached because compiling its rules takes longest."""
    key = repr(config)
    if key not in _KERNELS:
        _KERNELS[key] = Kernel(Lab(), config)
    _KERNELS[key]._adopt(past.state, past.ledger, past.journal)
    return _KERNELS[key]


def _fold(kernel: Kernel, encoded: Sequence[bytes]) -> Iterable[str]:
    """A world opened from a snapshot equals the fold of its whole log."""
    alone = folded(encoded)
    if world_digest(alone.state, alone.ledger).hex() != kernel.world_digest():
        yield f"{BROKEN}: from its snapshot the world is another one"


def _answers(kernel: Kernel, messages: Sequence[Message]) -> Iterable[str]:
    for line in messages:
        if line["what"] != "answer" or not line["is_kept"]:
            continue
        for agent_id, req_id in line["ids"]:
            found = kernel.verdict_of(agent_id, req_id)
            if found is None:
                yield f"{UNSENT}: {req_id}"
            elif not line["answer"]["scheduled"] and answer_of(found) != line["answer"]:
                yield f"{CHANGED}: {req_id}"


def _admitted(records: Iterable[Record]) -> Iterable[tuple[Admitted, dict[str, Any]]]:
    for record in records:
        if isinstance(record, Admitted):
            for one in intents_of(record):
                yield record, one


def _once(records: Sequence[Record]) -> Iterable[str]:
    times = Counter((one["agent_id"], one["req_id"]) for _, one in _admitted(records))
    yield from (f"{TWICE}: {req_id}" for (_, req_id), count in times.items() if count > 1)


def _sums(kernel: Kernel, records: Sequence[Record]) -> Iterable[str]:
    """Recompute sums from ids, counting duplicates once."""
    amounts: dict[tuple[str, str], int] = {
        (one["agent_id"], one["req_id"]): one["payload"]["amount"]
        for _, one in _admitted(records)
        if one["kind"] == "Add"
    }
    for agent_id in kernel.ledger.agents:
        expected = sum(amount for (owner, _), amount in amounts.items() if owner == agent_id)
        if (count := kernel.tree.get(COUNTS, agent_id, "count")) != expected:
            yield f"{SUM}: {agent_id} has {count}, not {expected}"


def _order(records: Sequence[Record]) -> Iterable[str]:
    """Check that the ids of a sequence rise, except in scheduled batches."""
    latest: dict[str, int] = {}
    for record, one in _admitted(records):
        sequence, _, number = one["req_id"].partition(":")
        if record.due_of is None:
            if int(number) < latest.get(sequence, 0):
                yield f"{DISORDER}: {one['req_id']}"
            latest[sequence] = int(number)


def _effects(records: Sequence[Record], messages: Sequence[Message]) -> Iterable[str]:
    """At least once run, exactly once settled, and only after its batch was durable."""
    declared = {
        (seq, k)
        for record in records
        if isinstance(record, Admitted)
        for k, (seq, *_) in enumerate(record.effects)
    }
    settled = [
        (record.effect_seq, record.effect_index)
        for record in records
        if isinstance(record, Settled)
    ]
    run = {tuple(line["key"]) for line in messages if line["what"] == "effect"}
    yield from (f"{EARLY}: {key}" for key in sorted(run - declared))
    yield from (f"{LOST_EFFECT}: {key}" for key in sorted(set(settled) - run))
    yield from (f"{RESETTLED}: {key}" for key, count in Counter(settled).items() if count > 1)


def ghosts(store: str, messages: Sequence[Message]) -> list[str]:
    """Find the batches in the log whose client got a store error.

    That it is not there is promised to a writer that was fenced; a disk that fails may have kept
    what it could not acknowledge.
    """
    there = {
        one["req_id"]
        for _, data in open_event_log(store).read()
        for record in expanded(decode_record(data))
        if isinstance(record, Admitted)
        for one in intents_of(record)
    }
    failed = {
        req_id for line in messages if line["what"] == "unanswered" for _, req_id in line["ids"]
    }
    return [f"{GHOST}: {req_id}" for req_id in sorted(there & failed)]
