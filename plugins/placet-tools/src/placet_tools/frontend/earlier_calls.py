"""Counts the earlier calls in a log for new rules of a policy, when the gate is opened."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from placet.actors.ports import EventLog
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.world import in_thread_if
from placet.schemas.codec import Json, canonical
from placet.schemas.errors import StoreError
from placet.stores.snapshots.recovery import decode
from placet_tools.call_history import CallHistory
from placet_tools.domain import COUNT, ToolsDomain
from placet_tools.frontend.recorder import Recorder
from placet_tools.policy.marks import COUNTED, MemoryMarks
from placet_tools.policy.rules import Marking

_BYTES_MAX: Final = 32_768
"""Maximum bytes of the marks in one intent, as JSON."""

_MARKS_MAX: Final = 500
"""Maximum number of marks in one intent."""


async def count_earlier_calls(world: Orchestrator, domain: ToolsDomain, recorder: Recorder) -> None:
    """Make the marks in the state fit the rules of the policy in force.

    Marks of rules that no longer exist are dropped. For new rules the log is read, O(log); a
    compacted log has only the calls after its first record. If counting fails, the world is closed.

    Args:
        world: The open world, in which no agent submits yet.
        domain: The domain of the tools.
        recorder: Makes intents.

    Raises:
        ClosedError, StoreError: The world is closed, or its store has failed.
    """
    try:
        await _count(world, domain, recorder)
    except BaseException:
        await world.close()
        raise


async def _count(world: Orchestrator, domain: ToolsDomain, recorder: Recorder) -> None:
    policy = domain.enforced.policy
    wanted = {} if policy is None else dict(policy.each_marking())
    there = await world.gateway.entities(domain.records.markings)
    for name, fields in there.items():
        if name not in wanted or fields["state"] != COUNTED:
            await _drop(world, domain, recorder, name)
        else:
            del wanted[name]
    if not wanted:
        return
    submit = partial(_submit, world, recorder)
    for name in wanted:
        await submit(marking=name, step="begin", marks=[])
    read = partial(marks_in, world.store.log, domain, wanted, world.records)
    counted = await in_thread_if(world.store.log.is_blocking, read)
    for name in wanted:
        for marks in _parts(counted.by_marking.get(name, {})):
            await submit(marking=name, step="add", marks=marks)
        await submit(marking=name, step="end", marks=[])


def marks_in(
    log: EventLog, domain: ToolsDomain, markings: Mapping[str, Marking], end: int
) -> MemoryMarks:
    """Return the marks of the calls in a log. O(log).

    Args:
        log: The log.
        domain: The domain of the tools.
        markings: The markings, by their ids.
        end: Number of records to read.
    """
    by_tool: dict[str, tuple[Marking, ...]] = {}
    for marking in markings.values():
        by_tool[marking.tool] = (*by_tool.get(marking.tool, ()), marking)
    marks = MemoryMarks()
    history = CallHistory(domain, by_tool, marks)
    for ordinal, data in log.read():
        if ordinal >= end:
            break
        history.note(decode(data, ordinal))
    return marks


async def _drop(world: Orchestrator, domain: ToolsDomain, recorder: Recorder, name: str) -> None:
    while name in await world.gateway.entities(domain.records.markings, [name]):
        await _submit(world, recorder, marking=name, step="drop", marks=[])


async def _submit(world: Orchestrator, recorder: Recorder, **payload: Json) -> None:
    """Submit one step.

    Raises:
        StoreError: The intent was refused.
    """
    verdict = await world.submit([await recorder.own(COUNT, **payload)])
    if not verdict.admitted:
        why = "; ".join(one.message for one in verdict.refusals)
        raise StoreError(f"the earlier calls cannot be counted for the policy: {why}")


def _parts(marks: Mapping[str, Mapping[str, Json]]) -> Iterator[list[Json]]:
    """Yield the marks in parts that fit into one intent, the oldest first."""
    part: list[Json] = []
    size = 0
    for name, fields in marks.items():
        part.append({"name": name, "fields": dict(fields)})
        size += len(canonical(part[-1]))
        if size > _BYTES_MAX or len(part) == _MARKS_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part
