"""Batches: the submitted form on the wire, and the checked form that the gate works on.

The structure stage turns a submitted batch into a `CheckedBatch`, encodes it once and computes its
fingerprint. Later stages and the log use that form. `kernel/checked_batch.py` fills in the rest and
rebuilds it from a record.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.identity import Span
from placet.schemas.intent import Intent
from placet.schemas.log.intents import checked_intents, decode_intents
from placet.schemas.refusal import Notice

Part: TypeAlias = tuple[str, str, str, Json, int]
"""`(agent_id, req_id, kind, payload, priority)`: the encoded fields of an intent."""

part_of: Final[Callable[[Intent], Part]] = itemgetter(
    "agent_id", "req_id", "kind", "payload", "priority"
)
"""Return the `Part` of an intent."""

RELEASED: Final = cast("Intent", MappingProxyType({}))
"""Placeholder for an intent that the kernel released after its last use."""


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

    `kernel/gate/structure.py` builds it, and `kernel/checked_batch.py` rebuilds it from a record;
    later stages trust it. Sequences are parallel and in the submitted order.

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

    def agent_ids(self) -> list[str]:
        """Return the agent of each intent, read from the encoded bytes. O(batch)."""
        if len(self.agents) == 1:
            return [self.agents[0]] * len(self.req_ids)
        return [agent_id for agent_id, *_ in decode_intents(self.encoded)]

    def reparse(self) -> None:
        """Restore the intents from their encoded bytes.

        Used after plug-in code received and changed them.

        A rule receives a plain dict and may change it; refusals and the ledger need the original
        agent and req_id.
        """
        self.intents = checked_intents(self.encoded, self.contexts, self.valid_until_ns)
