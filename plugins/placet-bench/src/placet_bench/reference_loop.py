"""The same work by hand, with no runtime around it: the practical limit in this language.

Code that a competent author would write for one world with one kind of intent and only speed in
mind. It is called in a straight loop, and every figure of the report is a ratio to it.

It does, for each batch:
    structure     one compiled pydantic call over the list of TypedDicts, with the same bounds on
                  every field; one canonical encoding per intent; 64-bit fingerprint over the sorted
                  parts; size of the batch and of its largest part; no req_id twice
    agent         registered, the submitter's own, permitted the kind
    dedup         known ids answered again or refused as reused; block eviction; high-water mark of
                  the sequence, so that an evicted id is too old and not new
    staleness     not from the future; threshold on the oldest context; the agent's entity not
                  changed by others since
    quota         GCRA per agent and kind in integer nanoseconds, charged at admission only
    back-pressure depth of the kind's outbox against its bound
    domain        each position within the bounds; written to a dict state with stamps and an undo
                  list, taken back as a whole if one is refused
    record        the record that placet writes, field for field, but for where its seqs begin (a
                  test compares them); blake2b-128 chain; kept in a list
    counters      admitted and refused intents in a dict

It lacks: other kinds (there is only `Move`, no union, and rules are inlined) · messages (a refusal
    is one code, without place, suggestion or retry time) · memory of refusals (neither remembered
    nor recorded) · options (no dry run, simulated time, `valid_until`, priorities within a batch,
    aliases) · fairness (batches are decided in order of arrival) · concurrency (no mailbox, future,
    task, group, committer, publisher, deadline or latency metric) · digests and checkpoints.

So it is a limit that placet is not expected to reach.
"""

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

Answer: TypeAlias = tuple[bool, int | str]
"""Admitted at this seq, or refused with this code."""

_Block: TypeAlias = tuple[int | str, ...]
"""`(fingerprint, now_ns, first seq, req_id, req_id, ...)`."""

_AGENTS: Final = "world.agents"
_OPERATOR: Final = "operator"
_BATCH_MAX: Final = 512
_PART_BYTES_MAX: Final = 64 * 1024
_AGE_NS_MAX: Final = 600 * 1_000_000_000
_IDS: Final = 3

_Id = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Payload(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]  # read by pydantic

    to: Annotated[list[_Number], Field(min_length=3, max_length=3)]


class _Intent(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]  # read by pydantic

    kind: Literal["Move"]
    payload: _Payload
    agent_id: _Id
    req_id: _Id
    context_seq: Annotated[int, Field(ge=0, lt=2**63)]
    priority: Annotated[int, Field(ge=0, le=100)]
    schema_version: Literal["1.0.0"]


_validate: Final = TypeAdapter(
    list[_Intent], config=ConfigDict(strict=True)
).validator.validate_python
_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class _Agent:
    __slots__ = ("blocks", "by", "count", "foreign_seq", "high", "ids", "permissions", "seq", "tat")

    def __init__(self, permissions: frozenset[str], seq: int) -> None:
        self.permissions = permissions
        self.tat = 0
        self.ids: dict[str, _Block] = {}
        self.blocks: deque[_Block] = deque()
        self.count = 0
        self.high: dict[str, int] = {}
        # the stamp of its entity
        self.seq, self.by, self.foreign_seq = seq, "", 0


class ReferenceWorld:
    """The ledger and the state of one world in a hand-written loop, as simple as possible.

    Attributes:
        positions: The domain state.
        log: The encoded records.
        counts: Intents by outcome.
        outbox_depth: Number of open effects of `Move`; always 0.
    """

    __slots__ = (
        "agents",
        "batches",
        "burst",
        "counts",
        "high",
        "interval_ns",
        "log",
        "low",
        "outbox_depth",
        "outbox_max",
        "positions",
        "prev",
        "seq",
        "threshold",
        "window_ids",
    )

    def __init__(
        self,
        agent_ids: Iterable[str],
        permissions: frozenset[str],
        *,
        side: float,
        interval_ns: int,
        burst: int,
        threshold: int,
        window_ids: int,
    ) -> None:
        self.agents: dict[str, _Agent] = {}
        self.positions: dict[str, tuple[float, float, float]] = {}
        self.seq = 1
        for agent_id in agent_ids:
            self.seq += 1
            self.agents[agent_id] = _Agent(permissions, self.seq)
            self.agents[agent_id].by = agent_id
            self.positions[agent_id] = (0.0, 0.0, 0.0)
        self.low, self.high = 0.0, side
        self.interval_ns, self.burst = interval_ns, burst
        self.threshold = threshold
        self.window_ids = window_ids
        self.outbox_depth, self.outbox_max = 0, 1_024
        self.prev = bytes(16)
        self.batches = 0
        self.log: list[bytes] = []
        self.counts = {"admitted": 0, "refused": 0}


def submit(world: ReferenceWorld, raw: object, submitter: str, now_ns: int) -> Answer:
    """Decide one batch in the hand-written loop.

    Return `(True, seq)` or `(False, refusal code)`.
    """
    world.batches += 1
    if type(raw) is not list or not 0 < len(raw) <= _BATCH_MAX:
        return _refused(world, 1, "batch_empty" if raw == [] else "batch_too_large")
    try:
        intents = _validate(raw)
    except ValidationError:
        return _refused(world, len(raw), "payload_invalid")
    parts = [
        _encode((i["agent_id"], i["req_id"], i["kind"], i["payload"], i["priority"]))
        for i in intents
    ]
    count = len(parts)
    if max(map(len, parts)) > _PART_BYTES_MAX:
        return _refused(world, count, "payload_too_large")
    head = bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")  # noqa: PLR2004  # msgpack
    encoded = head + b"".join(parts)
    if count > 1:
        parts.sort()
    fingerprint = int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "big")
    contexts = [i["context_seq"] for i in intents]
    if count > 1 and len({(i["agent_id"], i["req_id"]) for i in intents}) != count:
        return _refused(world, count, "field_invalid")
    answer = _gate(world, intents, contexts, fingerprint, submitter, now_ns)
    if isinstance(answer, str):
        return _refused(world, count, answer)
    if answer is not None:
        return answer
    return _apply(world, intents, encoded, contexts, fingerprint, submitter, now_ns)


def _gate(  # noqa: C901  # five of the seven stages in one loop
    world: ReferenceWorld,
    intents: list[Any],
    contexts: list[int],
    fingerprint: int,
    submitter: str,
    now_ns: int,
) -> Answer | str | None:
    """Ask stages 2 to 6 in one loop: a later stage's refusal waits for the end of it."""
    agents = world.agents
    fresh_ns = now_ns - _AGE_NS_MAX
    counts: dict[str, int] = {}
    known: list[_Block] = []
    too_old = stale = False
    for intent, context_seq in zip(intents, contexts, strict=True):
        agent_id, req_id = intent["agent_id"], intent["req_id"]
        agent = agents.get(agent_id)
        if submitter not in (agent_id, _OPERATOR):
            return "agent_not_yours"
        if agent is None:
            return "agent_unknown"
        if intent["kind"] not in agent.permissions:
            return "permission_denied"
        counts[agent_id] = counts.get(agent_id, 0) + 1
        block = agent.ids.get(req_id)
        if block is not None and block[1] >= fresh_ns:  # type: ignore[operator]  # an int
            known.append(block)
        elif agent.high:
            name, _, digits = req_id.rpartition(":")
            too_old = too_old or (digits.isdecimal() and int(digits) <= agent.high.get(name, -1))
        if (agent.foreign_seq if agent.by == agent_id else agent.seq) > context_seq:
            stale = True
    if known:
        if len(known) == len(intents) and all(block[0] == fingerprint for block in known):
            return True, known[0][2] + len(intents) - 1  # type: ignore[operator]  # an int
        return "req_id_reused"
    if too_old:
        return "req_id_too_old"
    if max(contexts) > world.seq:
        return "context_from_future"
    if stale or world.seq - min(contexts) > world.threshold:
        return "stale_context"
    return _over_quota(world, counts, now_ns)


def _over_quota(world: ReferenceWorld, counts: dict[str, int], now_ns: int) -> str | None:
    interval_ns, burst = world.interval_ns, world.burst
    for agent_id, count in counts.items():
        if count > burst:
            return "batch_exceeds_burst"
        tat = max(world.agents[agent_id].tat, now_ns)
        if tat + count * interval_ns - now_ns > burst * interval_ns:
            return "quota_exceeded"
    return "executor_busy" if world.outbox_depth >= world.outbox_max else None


def _apply(  # noqa: PLR0917  # an object to hold them would distort the measurement
    world: ReferenceWorld,
    intents: list[Any],
    encoded: bytes,
    contexts: list[int],
    fingerprint: int,
    submitter: str,
    now_ns: int,
) -> Answer:
    """Apply stage 7 and the commit."""
    agents, positions, low, high = world.agents, world.positions, world.low, world.high
    first_seq = seq = world.seq + 1
    undo: list[Any] = []
    ids: dict[str, list[str]] = {}
    for intent in intents:
        agent_id = intent["agent_id"]
        x, y, z = to = tuple(intent["payload"]["to"])
        if not (low <= x <= high and low <= y <= high and low <= z <= high):
            while undo:
                agent_id, positions[agent_id], agent, agent.seq, agent.by, agent.foreign_seq = (
                    undo.pop()
                )
            return _refused(world, len(intents), "world.out_of_bounds")
        agent = agents[agent_id]
        undo.append((agent_id, positions[agent_id], agent, agent.seq, agent.by, agent.foreign_seq))
        positions[agent_id] = to
        if agent.by != agent_id:
            agent.foreign_seq, agent.by = agent.seq, agent_id
        agent.seq = seq
        seq += 1
        if agent_id in ids:
            ids[agent_id].append(intent["req_id"])
        else:
            ids[agent_id] = [intent["req_id"]]
    world.seq = seq - 1
    entities = []
    for agent_id, req_ids in ids.items():
        agent = agents[agent_id]
        agent.tat = max(agent.tat, now_ns) + len(req_ids) * world.interval_ns
        _remember(agent, (fingerprint, now_ns, first_seq, *req_ids), world.window_ids)
        fields = {"position": positions[agent_id]}
        entities.append((_AGENTS, agent_id, fields, False, agent.seq, agent.by, agent.foreign_seq))
    body = (
        f"b{world.batches}",
        submitter,
        fingerprint,
        encoded,
        contexts,
        None,
        None,
        first_seq - 1,
        0,  # no tick has passed
        len(world.log),  # a batch is a group
    )
    outcome = (None, (entities, ()), (), None, None)
    record = _encode((5, world.prev, world.seq, now_ns, *body, *outcome))
    world.prev = blake2b(record, digest_size=16).digest()
    world.log.append(record)
    world.counts["admitted"] += len(intents)
    return True, world.seq


def _remember(agent: _Agent, block: _Block, window_ids: int) -> None:
    """Keep a block of answered ids, and evict the oldest while the window is too large."""
    ids, blocks = agent.ids, agent.blocks
    ids.update(dict.fromkeys(block[_IDS:], block))  # type: ignore[arg-type]  # the tail is str
    blocks.append(block)
    agent.count += len(block) - _IDS
    fresh_ns = block[1] - _AGE_NS_MAX  # type: ignore[operator]  # an int
    while True:
        oldest = blocks[0]
        size = len(oldest) - _IDS
        if oldest is block or (agent.count - size < window_ids and oldest[1] >= fresh_ns):  # type: ignore[operator]  # an int
            return
        blocks.popleft()
        agent.count -= size
        for req_id in oldest[_IDS:]:
            if ids.get(req_id) is oldest:  # type: ignore[arg-type]  # a str
                del ids[req_id]  # type: ignore[arg-type]  # likewise
            name, _, digits = req_id.rpartition(":")  # type: ignore[union-attr]  # likewise
            if digits.isdecimal() and int(digits) > agent.high.get(name, -1):
                agent.high[name] = int(digits)


def _refused(world: ReferenceWorld, count: int, code: str) -> Answer:
    world.counts["refused"] += count
    return False, code
