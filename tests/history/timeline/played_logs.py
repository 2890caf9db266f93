"""Logs to play: what a kernel of the world domain wrote, some of it as groups."""

from typing import Any

import msgspec

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet.schemas.limits import Limits
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import LogAppend, decode_record, encode_record, record_hash
from placet.stores.memory import MemoryEventLog

AGENTS = ("ann", "bob", "cyd")


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
    ticks: int = 6,
    agents: tuple[str, ...] = AGENTS,
    *,
    y: float = 10.0,
    checkpoint_groups: int = 2,
) -> list[bytes]:
    """Return the records of a run: every agent moves each tick, the last one always too far."""
    config = KernelConfig(limits=Limits(checkpoint_groups=checkpoint_groups))
    records: list[bytes] = []
    kernel = Kernel(World(max_step=5.0, bounds=[[0, 0], [100, 100]]), config, sink=records.append)
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


def ungrouped(records: list[bytes]) -> list[bytes]:
    """Return the records with each batch of a `SingleBlock` in a record, in a chain of its own."""
    out: list[bytes] = []
    for record in (each for data in records for each in expanded(decode_record(data))):
        prev = record_hash(out[-1]) if out else record.prev
        out.append(encode_record(msgspec.structs.replace(record, prev=prev)))
    return out


def log_of(records: list[bytes], group_records: int = 4) -> MemoryEventLog:
    """Return a log in memory with these records, some at a time."""
    log = MemoryEventLog()
    epoch, seq = log.open(), 0
    for first in range(0, len(records), group_records):
        part = records[first : first + group_records]
        after = decode_record(part[-1]).seq
        log.append(LogAppend(first, seq, after, tuple(part)), epoch)
        seq = after
    return log
