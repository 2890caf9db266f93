"""Encode a world as one value, for snapshots and for the world digest.

A snapshot is taken of a replay, not of a running world, so any process that can read the log can
take it (`docs/decisions/0008`).
"""

from collections.abc import Sequence
from hashlib import blake2b

from placet.kernel.arrays.extra import require_numpy
from placet.kernel.commit.apply_record import apply_configured
from placet.kernel.ledger.dedup_window import Window
from placet.kernel.ledger.ledger import Ledger, Mark, Pending
from placet.kernel.log.replay import MISFITS, Replayer
from placet.kernel.state.tree import DIGEST_BYTES, State
from placet.schemas.codec import Json, canonical, freeze, from_canonical
from placet.schemas.config import Quota
from placet.schemas.log.record import (
    Configured,
    Header,
    Scheduled,
    decode_record,
    encode_record,
)
from placet.schemas.log.snapshot import SNAPSHOT_VERSION, Snapshot


def take(past: Replayer) -> Snapshot:
    """Return a snapshot of a replay that has read its header. O(world)."""
    assert past.header_data is not None, "a log begins with its header"
    ledger, journal = past.ledger, past.journal
    return Snapshot(
        version=SNAPSHOT_VERSION,
        header=past.header_data,
        configured=past.configured_data,
        records=journal.count,
        seq=ledger.seq,
        now_ns=ledger.now_ns,
        chain=journal.prev,
        batches_seen=past.batches_seen,
        groups=past.groups,
        state_digest=past.state.digest(),
        world=dump(past.state, ledger),
    )


def resume(snapshot: Snapshot) -> Replayer:
    """Return a replay at the position of a snapshot. O(world).

    Raises:
        ValueError: The snapshot contradicts itself.
    """
    past = Replayer()
    try:
        _resume(past, snapshot)
    except MISFITS as error:
        raise ValueError(f"it is no world of a known form: {error!r}") from error
    ledger = past.ledger
    expected = (snapshot.seq, snapshot.now_ns, snapshot.state_digest)
    if expected != (ledger.seq, ledger.now_ns, past.state.digest()):
        raise ValueError("the world in it is not the one that it tells of")
    return past


def _resume(past: Replayer, snapshot: Snapshot) -> None:
    header = decode_record(snapshot.header)
    assert isinstance(header, Header), "it names another record as its header"
    past.header, past.header_data = header, snapshot.header
    if snapshot.configured is not None:
        configured = decode_record(snapshot.configured)
        assert isinstance(configured, Configured), "it names another record as its policy"
        past.configured_data = snapshot.configured
        apply_configured(past.ledger, configured)
    past.state = load(snapshot.world, past.ledger, past.ledger.policy.limits.tombstones_max)
    past.journal.prev, past.journal.count = snapshot.chain, snapshot.records
    past.batches_seen = snapshot.batches_seen
    past.groups = snapshot.groups


def dump(state: State, ledger: Ledger) -> bytes:
    """Encode state and ledger canonically, without the settings of the gate. O(world)."""
    return canonical([SNAPSHOT_VERSION, state.dump(), _dump_ledger(ledger)])


def load(data: bytes, ledger: Ledger, tombstones_max: int) -> State:
    """Fill an empty ledger from a dump, and return the state.

    Raises:
        ValueError: The version of the dump is unknown.
    """
    version, dumped_state, dumped_ledger = from_canonical(data)
    if version != SNAPSHOT_VERSION:
        raise ValueError(f"snapshot version {version} is unknown, expected {SNAPSHOT_VERSION}")
    _load_ledger(ledger, dumped_ledger)
    state = State.load(dumped_state, tombstones_max)
    for members in ledger.populations.values():
        state.authors.add(members.name, members.count)
    return state


def world_digest(state: State, ledger: Ledger) -> bytes:
    """Return the hash of state and ledger, 16 bytes. O(world)."""
    return blake2b(dump(state, ledger), digest_size=DIGEST_BYTES).digest()


def _dump_ledger(ledger: Ledger) -> dict[str, Json]:
    # Omitted if empty, so that a world without them keeps the digest of earlier releases.
    marks = [
        [*key, *(mark if mark.what == "dead" else mark[:2])] for key, mark in ledger.marks.items()
    ]
    floor = {"generation_floor": ledger.generation_floor} if ledger.generation_floor else {}
    populations = [members.dump(ledger.now_ns) for members in ledger.populations.values()]
    work = {"world_work_tat": ledger.world_work_tat} if ledger.world_work_tat else {}
    has_leases = ledger.leases is not None and not ledger.leases.is_unused
    leases = {"leases": ledger.leases.dump()} if has_leases and ledger.leases is not None else {}
    return {
        **({"marks": marks} if marks else {}),
        **({"populations": populations} if populations else {}),
        **work,
        **floor,
        **leases,
        "seq": ledger.seq,
        "now_ns": ledger.now_ns,
        "tick": ledger.tick,
        "group": ledger.group,
        "ordinals": ledger.ordinals.dump(ledger.now_ns),
        "agents": [
            [
                agent.agent_id,
                agent.generation,
                agent.owner,
                None if agent.permissions is None else sorted(agent.permissions),
                agent.priority_max,
                agent.is_suspended,
                agent.quotas,
                agent.tats,
                None if agent.window is None else agent.window.dump(),
                *([] if agent.cohort is None else [agent.cohort]),  # as `marks` above
            ]
            for agent in ledger.agents.values()
        ],
        "gone": sorted(ledger.gone.items()),
        "recency": list(ledger.dedup.recency),
        "executors": ledger.executors,
        "outbox": [[*key, *effect] for key, effect in ledger.outbox.items()],
        "scheduled": [encode_record(record) for _, record in sorted(ledger.scheduled.items())],
        "scheduled_seen": ledger.scheduled_seen,
        "world_tat": ledger.world_tat,
    }


def _load_populations(ledger: Ledger, dumped: Sequence[Json]) -> None:
    if dumped:
        require_numpy("the snapshot")
        from placet.kernel.commit.table_made import load_members  # noqa: PLC0415  # numpy is an extra

        load_members(ledger, dumped)


def _load_ledger(ledger: Ledger, dumped: dict[str, Json]) -> None:
    ledger.seq, ledger.now_ns = dumped["seq"], dumped["now_ns"]
    ledger.tick, ledger.group = dumped["tick"], dumped["group"]
    ledger.ordinals.load(dumped["ordinals"], ledger.now_ns)
    _load_populations(ledger, dumped.get("populations", ()))
    for agent_id, generation, owner, permissions, *rest in dumped["agents"]:
        agent = ledger.add_agent(agent_id, owner)
        agent.generation = generation
        agent.permissions = None if permissions is None else frozenset(permissions)
        agent.priority_max, agent.is_suspended, quotas, agent.tats, window, *cohort = rest
        agent.cohort = cohort[0] if cohort else None
        if quotas is not None:
            ledger.set_quotas(agent, {kind: Quota(*quota) for kind, quota in quotas.items()})
        if window is not None:
            agent.window = Window.load(window)
            ledger.dedup.count += agent.window.count
    ledger.gone = dict(dumped["gone"])
    ledger.generation_floor = dumped.get("generation_floor", 0)
    for agent_id in dumped["recency"]:
        window = ledger.agents[agent_id].window
        assert window is not None, "an agent in `recency` has a window"
        ledger.dedup.load(agent_id, window)
    ledger.executors = dict(dumped["executors"])
    for seq, effect_index, kind, payload, agent_id in dumped["outbox"]:
        ledger.add_effect(seq, effect_index, Pending(kind, freeze(payload), agent_id))
    for seq, effect_index, mark, why, *outcome in dumped.get("marks", ()):
        ledger.mark_effect(seq, effect_index, Mark(mark, why, *map(freeze, outcome)))
    for data in dumped["scheduled"]:
        record = decode_record(data)
        assert isinstance(record, Scheduled), "only scheduled batches stand in the schedule"
        ledger.add_scheduled(record)
    if "leases" in dumped:
        assert ledger.leases is not None, "only a world with leases has tickets"
        ledger.leases.load(dumped["leases"])
    ledger.scheduled_seen = dumped["scheduled_seen"]
    ledger.world_tat = dumped["world_tat"]
    ledger.world_work_tat = dumped.get("world_work_tat", 0)
