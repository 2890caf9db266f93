"""Logs to play: what a kernel of the world domain wrote, some of it as groups."""

from typing import Any

import msgspec

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet.runtime.stores.memory import MemoryEventLog
from placet.schemas.codec import array_header
from placet.schemas.log.record import (
    Admitted,
    Group,
    LogGroup,
    Refused,
    decode_record,
    encode_record,
    record_hash,
)

AGENTS = ("ann", "bob", "cyd")
_HEADER = len(array_header(1))


def move(agent: str, req: str, to: list[float], **fields: Any) -> dict[str, Any]:
    return {
        "kind": "Move",
        "payload": {"to": to},
        "agent_id": agent,
        "req_id": req,
        "context_seq": 0,
        "priority": 10,
        "schema_version": "1.0.0",
        **fields,
    }


def world_records(
    ticks: int = 6, agents: tuple[str, ...] = AGENTS, *, y: float = 10.0
) -> list[bytes]:
    """Return the records of a run: every agent moves each tick, the last one always too far."""
    records: list[bytes] = []
    kernel = Kernel(
        World(max_step=5.0, bounds=[[0, 0], [100, 100]]), KernelConfig(), sink=records.append
    )
    for number, agent in enumerate(agents):
        kernel.register_agent(agent, position=[10.0 * number, y])
    for tick in range(ticks):
        kernel.step(
            1.0,
            [
                [
                    move(
                        agent,
                        f"{tick}",
                        [10.0 * number + (90 if agent == agents[-1] else 0), y + tick % 5],
                    )
                ]
                for number, agent in enumerate(agents)
            ],
        )
    kernel.change_agent(agents[0], "suspended")
    kernel.change_agent(agents[1], "removed")
    return records


def grouped(records: list[bytes]) -> list[bytes]:
    """Return the records with the batches of each tick in one `Group`, in a chain of its own."""
    out: list[bytes] = []
    waiting: list[Admitted | Refused] = []

    def append(record: Any) -> None:
        prev = record_hash(out[-1]) if out else record.prev
        out.append(encode_record(msgspec.structs.replace(record, prev=prev)))

    for record in map(decode_record, records):
        if isinstance(record, Group):
            append(record)
        elif isinstance(record, Admitted | Refused):
            waiting.append(record)
        else:
            if waiting:
                append(_group(waiting))
                waiting = []
            append(record)
    return out


def _group(batches: list[Admitted | Refused]) -> Group:
    admitted = [(at, one) for at, one in enumerate(batches) if isinstance(one, Admitted)]
    return Group(
        prev=b"",
        seq=batches[-1].seq,
        now_ns=batches[-1].now_ns,
        group_seq=batches[0].group_seq,
        tick=batches[0].tick,
        group=batches[0].group,
        numbers=[int(one.batch_id[1:]) for one in batches],
        submitters=[one.submitter for one in batches],
        encoded=array_header(len(batches)) + b"".join(one.encoded[_HEADER:] for one in batches),
        contexts=[one.contexts[0] for one in batches],
        keys=[],
        puts=[None for _ in admitted],
        refused=[
            (at, *refusal)
            for at, one in enumerate(batches)
            if isinstance(one, Refused)
            for refusal in one.refusals
        ],
        other_changes=[(at, one.changes) for at, one in admitted],
    )


def log_of(records: list[bytes], group_records: int = 4) -> MemoryEventLog:
    """Return a log in memory with these records, some at a time."""
    log = MemoryEventLog()
    epoch, seq = log.open(), 0
    for first in range(0, len(records), group_records):
        part = records[first : first + group_records]
        after = decode_record(part[-1]).seq
        log.append(LogGroup(first, seq, after, tuple(part)), epoch)
        seq = after
    return log
