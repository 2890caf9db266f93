"""Batches: the submitted form on the wire, and the checked form that the gate works on.

The structure stage turns a submitted batch into a `CheckedBatch`, encodes it once and computes its
fingerprint. Later stages and the log use that form. `recorded_batch` rebuilds it from a record.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.identity import Span, only_sequence, sequence_form
from placet.schemas.intent import Intent
from placet.schemas.log.intents import batch_in, checked_intents
from placet.schemas.refusal import Notice

if TYPE_CHECKING:
    from placet.schemas.log.record import Admitted, Refused, Scheduled

Part: TypeAlias = tuple[str, str, str, Json, int]
"""`(agent_id, req_id, kind, payload, priority)`: the encoded fields of an intent."""

part_of: Final[Callable[[Intent], Part]] = itemgetter(
    "agent_id", "req_id", "kind", "payload", "priority"
)
"""Return the `Part` of an intent."""

_RELEASED: Final = cast("Intent", MappingProxyType({}))
"""Placeholder for each intent of a released batch."""

T = TypeVar("T", bound=Hashable)


class _BatchOptions(TypedDict, total=False):
    sim_time: float | None
    dry_run: bool
    valid_for_s: float | None


class Batch(_BatchOptions):
    """A batch object on the wire; a bare list of intents is a batch too.

    Attributes:
        intents: 1..512 intents; all of them pass or none does.
        sim_time: Simulated time in seconds at which to run; None or past means now.
        dry_run: Decide the batch, and change nothing.
        valid_for_s: Seconds the batch may wait in the queue before it is answered `timeout`.
    """

    intents: list[Intent]


class CheckedBatch:
    """A batch that passed the structure stage: validated, encoded and measured once.

    Only `kernel/gate/structure.py` and `recorded_batch` make one; later stages trust it. Sequences
    are parallel and in the submitted order.

    Attributes:
        intents: The validated intents.
        encoded: One msgpack array of each intent's `Part`.
        fingerprint: 64 bits over the set of those arrays; equal content, equal fingerprint.
        req_ids: `req_id` of each intent.
        span: Summary of the req_ids if all belong to one sequence; else None.
        contexts: `context_seq` of each intent.
        valid_until_ns: Latest simulated time of each intent, or None when no intent names one.
        agents: Distinct agents, in order of first appearance.
        counts: `(agent, kind, count)`, each pair once.
        order: Positions in order of execution, or None where that is the submitted order.
        sim_time_ns: Simulated time at which to run, nanoseconds; None is now.
        valid_for_ns: Maximum time in the queue, nanoseconds; None is no limit.
        submitter: The submitting agent, or `operator`.
        batch_id: Assigned by the kernel in the structure stage.
        due_of: Number of the schedule entry that this batch comes from; None on arrival.
    """

    __slots__ = (
        "agents",
        "batch_id",
        "contexts",
        "counts",
        "dry_run",
        "due_of",
        "encoded",
        "fingerprint",
        "intents",
        "notices",
        "order",
        "priority",
        "req_ids",
        "sim_time_ns",
        "span",
        "submitter",
        "valid_for_ns",
        "valid_until_ns",
    )

    intents: Sequence[Intent]
    encoded: bytes
    fingerprint: int
    req_ids: list[str]
    span: Span | None
    contexts: list[int]
    valid_until_ns: list[int | None] | None
    agents: tuple[str, ...]
    counts: tuple[tuple[str, str, int], ...]
    priority: int
    order: list[int] | None
    sim_time_ns: int | None
    dry_run: bool
    valid_for_ns: int | None
    submitter: str
    batch_id: str
    notices: dict[int, tuple[Notice, ...]] | None
    due_of: int | None

    def __len__(self) -> int:
        return len(self.intents)

    def __repr__(self) -> str:
        names = (getattr(self, name, "?") for name in ("batch_id", "submitter"))
        return "<CheckedBatch {} by {}>".format(*names)

    def release(self) -> None:
        """Release the intents after their last use; their number remains.

        A batch holds some hundred objects. Freed here, they are still in the processor's caches;
        freed with the rest of their group, a millisecond later, they cost 5 % of all time.
        """
        self.intents = (_RELEASED,) * len(self.intents)

    def agent_ids(self) -> list[str]:
        """Return the agent of each intent, read from the encoded bytes. O(batch)."""
        if len(self.agents) == 1:
            return [self.agents[0]] * len(self.req_ids)
        return [agent_id for agent_id, *_ in batch_in(self.encoded)]

    def reparse(self) -> None:
        """Restore the intents from their encoded bytes.

        Used after plug-in code received and changed them.

        A rule receives a plain dict and may change it; refusals and the ledger need the original
        agent and req_id.
        """
        self.intents = checked_intents(self.encoded, self.contexts, self.valid_until_ns)

    def group_metrics(self, parts: Sequence[Part] | None = None) -> bool:
        """Fill in `req_ids`, `span`, `agents`, `counts`, `priority` and `order`.

        Args:
            parts: The `Part` of each intent; None computes them.

        Returns:
            False if two intents have the same agent and req_id.
        """
        if parts is None:
            parts = list(map(part_of, self.intents))
        if len(parts) > 1:
            return self._measure_many(parts)
        agent_id, req_id, kind, _, self.priority = parts[0]
        self.req_ids = [req_id]
        sequence = sequence_form(req_id)
        if sequence is None:
            self.span = None
        else:
            name, number = sequence
            self.span = Span(name, number, number, True)
        self.agents = (agent_id,)
        self.counts = ((agent_id, kind, 1),)
        self.order = None
        return True

    def _measure_many(self, parts: Sequence[Part]) -> bool:
        count = len(parts)
        # Five columns at once: a list for each would take twice as long.
        agents, req_ids, kinds, _, priorities = zip(*parts, strict=True)
        self.req_ids = list(req_ids)
        self.span = only_sequence(self.req_ids)
        self.priority = priorities[0]
        self.order = None
        if priorities.count(self.priority) != count:
            self.priority = max(priorities)
            order = sorted(range(count), key=lambda position: -priorities[position])
            self.order = order if order != list(range(count)) else None
        if agents.count(agents[0]) == count:  # the usual batch: one agent, and often one kind
            self.agents = (agents[0],)
            if kinds.count(kinds[0]) == count:
                self.counts = ((agents[0], kinds[0], count),)
            else:
                self.counts = tuple([(agents[0], k, n) for k, n in _counted(kinds).items()])
            return len(set(req_ids)) == count
        self.agents = tuple(dict.fromkeys(agents))
        pairs = _counted(zip(agents, kinds, strict=True))
        self.counts = tuple([(agent, kind, n) for (agent, kind), n in pairs.items()])
        return len(set(zip(agents, req_ids, strict=True))) == count


def _counted(values: Iterable[T]) -> dict[T, int]:
    """Count equal values; for a batch this takes a third of the time of `Counter`."""
    counts: dict[T, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def recorded_batch(record: "Admitted | Refused | Scheduled") -> CheckedBatch:
    """Rebuild the checked batch that a record was made of."""
    batch = CheckedBatch()
    batch.intents = checked_intents(record.encoded, record.contexts, record.valid_until_ns)
    batch.encoded = record.encoded
    batch.fingerprint = record.fingerprint
    batch.submitter = record.submitter
    batch.batch_id = record.batch_id
    batch.contexts = record.contexts
    batch.valid_until_ns = record.valid_until_ns
    batch.due_of = record.due_of
    batch.sim_time_ns = batch.valid_for_ns = batch.notices = None
    batch.dry_run = False
    batch.group_metrics()
    return batch
