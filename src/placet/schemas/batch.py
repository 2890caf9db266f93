"""Batches: the submitted form on the wire, and the checked form that the gate works on.

The structure stage turns a submitted batch into a `CheckedBatch`, encodes it once and computes its
fingerprint. Later stages and the log use that form; `kernel/recorded_batch.py` rebuilds it from a
record.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.condition import Condition
from placet.schemas.intent import Intent
from placet.schemas.limits import base_work
from placet.schemas.log.intents import checked_intents, decode_intents
from placet.schemas.refusal import Notice

T = TypeVar("T", bound=Hashable)

Part: TypeAlias = tuple[str, str, str, Json, int]
"""`(agent_id, req_id, kind, payload, priority)`: the encoded fields of an intent."""

part_of: Final[Callable[[Intent], Part]] = itemgetter(
    "agent_id", "req_id", "kind", "payload", "priority"
)
"""Return the `Part` of an intent."""


def encoded_part_of(intent: Intent) -> tuple[Json, ...]:
    """Return the fields of an intent that are encoded: its `Part`, and its conditions if any."""
    conditions = intent.get("expect")
    return part_of(intent) if conditions is None else (*part_of(intent), conditions)


RELEASED: Final = cast("Intent", MappingProxyType({}))
"""Placeholder for an intent that the kernel released after its last use."""


def conditions_of(intents: Iterable[Intent]) -> list[list[Condition] | None] | None:
    """Return the conditions of each intent, or None where it has none; None if none has any."""
    conditions = [intent.get("expect") for intent in intents]
    return conditions if any(conditions) else None


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


class Span(NamedTuple):
    """A summary of req_ids of one sequence.

    Attributes:
        name: Name of the sequence.
        lowest: Lowest number.
        highest: Highest number.
        is_run: The req_ids are known to be all numbers from lowest to highest, in this order.
    """

    name: str
    lowest: int
    highest: int
    is_run: bool


class CheckedBatch:
    """A batch that passed the structure stage: validated, encoded and measured once.

    `kernel/gate/structure.py` builds it, and `kernel/recorded_batch.py` rebuilds it from a record;
    later stages trust it. Sequences are parallel and in the submitted order.

    Attributes:
        intents: The validated intents.
        encoded: One msgpack array of each intent's `Part`, with its conditions if it has any.
        fingerprint: 64 bits over the set of those arrays; equal content, equal fingerprint.
        req_ids: `req_id` of each intent.
        span: Summary of the req_ids if all belong to one sequence; else None.
        contexts: `context_seq` of each intent: the seq of the view that it was decided on.
        valid_until_ns: Latest simulated time of each intent, or None when no intent names one.
        conditions: Conditions of each intent, or None where it has none; None if no intent has any.
        agents: Distinct agents, in order of first appearance.
        counts: `(agent, kind, count)`: number of intents of each agent and kind, each pair once.
        priority: Highest priority of its intents; an agent's cap is applied when they are ordered,
            in `kernel/decide/order.py`.
        order: Positions in order of execution, or None where that is the submitted order.
        sim_time_ns: Simulated time at which to run, nanoseconds; None is now.
        dry_run: Decide the batch, and change nothing.
        shows_changes: The verdict of the batch lists its changes.
        valid_for_ns: Maximum time in the queue, nanoseconds; None is no limit.
        submitter: The submitting agent, or `operator`.
        batch_id: Assigned by the kernel in the structure stage.
        notices: Position -> warnings about changes that the structure stage made to that intent;
            None if there are none.
        due_of: Number of the schedule entry that this batch comes from; None on arrival.
    """

    __slots__ = (
        "agents",
        "batch_id",
        "conditions",
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
        "shows_changes",
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
    conditions: list[list[Condition] | None] | None
    valid_until_ns: list[int | None] | None
    agents: tuple[str, ...]
    counts: tuple[tuple[str, str, int], ...]
    priority: int
    order: list[int] | None
    sim_time_ns: int | None
    dry_run: bool
    shows_changes: bool
    valid_for_ns: int | None
    submitter: str
    batch_id: str
    notices: dict[int, tuple[Notice, ...]] | None
    due_of: int | None

    def index(self, parts: Sequence[Part]) -> bool:
        """Set `req_ids`, `span`, `agents`, `counts`, `priority` and `order` of this batch.

        Args:
            parts: A `Part` of each intent, in the submitted order.

        Returns:
            False if an agent uses a req_id twice.
        """
        if len(parts) > 1:
            return self._index_many(parts)
        agent_id, req_id, kind, _, self.priority = parts[0]
        self.req_ids = [req_id]  # `span` is computed when it is asked for
        self.agents = (agent_id,)
        self.counts = ((agent_id, kind, 1),)
        self.order = None
        return True

    def __getattr__(self, name: str) -> Span | None:
        """Compute the span of a single req_id when it is first read: a group does without."""
        if name != "span":
            raise AttributeError(f"a checked batch has no {name!r} yet")
        sequence = sequence_form(self.req_ids[0])
        self.span = None if sequence is None else Span(*sequence, sequence[1], True)
        return self.span

    def _index_many(self, parts: Sequence[Part]) -> bool:
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

    def __len__(self) -> int:
        return len(self.intents)

    def __repr__(self) -> str:
        names = (getattr(self, name, "?") for name in ("batch_id", "submitter"))
        return "<CheckedBatch {} by {}>".format(*names)

    @property
    def base_work(self) -> int:
        """Units of work of the batch by its intents and bytes, without the work of its rules."""
        return base_work(len(self.intents), len(self.encoded))

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


def _counted(values: Iterable[T]) -> dict[T, int]:
    """Count the few values of a batch in a third of a Counter's time."""
    counts: dict[T, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


SEQUENCE_DIGITS_MAX: Final = 18
"""A sequence number fits 63 bits."""

_COUNTS_MAX: Final = 32
"""Number of cached sequences from 0, by length: at most 3 KB each."""


def sequence_form(req_id: str) -> tuple[str, int] | None:
    """Split `name:<n>` into name and number; None for a free-form id.

    Only the canonical spelling is accepted: at most `SEQUENCE_DIGITS_MAX` ASCII digits without a
    leading zero.
    """
    name, colon, digits = req_id.rpartition(":")
    if not digits.isdecimal() or not colon or not digits.isascii():
        return None
    if digits[0] == "0" and digits != "0":
        return None
    return None if len(digits) > SEQUENCE_DIGITS_MAX else (name, int(digits))


def sequences_of(req_ids: Sequence[str]) -> list[Span]:
    """Return the sequences among req_ids, each name once.

    The usual batch, all of one sequence, is recognized without parsing each id.
    """
    only = only_sequence(req_ids)
    if only is not None:
        return [only]
    spans: dict[str, tuple[int, int]] = {}
    for req_id in req_ids:
        sequence = sequence_form(req_id)
        if sequence is not None:
            name, number = sequence
            lowest, highest = spans.get(name, (number, number))
            spans[name] = (min(lowest, number), max(highest, number))
    return [Span(name, *bounds, False) for name, bounds in spans.items()]


def only_sequence(req_ids: Sequence[str]) -> Span | None:
    """Return the span of ids that are all of one sequence.

    None if the ids must be parsed one by one: several sequences, free-form ids, or an unusual
    spelling.
    """
    sequence = sequence_form(req_ids[0])
    if sequence is None:
        return None
    name, first = sequence
    last = first + len(req_ids) - 1
    if len(req_ids) == 1:
        return Span(name, first, last, True)
    joined = "\0".join(req_ids)  # an id holds neither NUL nor SOH
    if first == 0 and joined == _from_zero(len(req_ids)).replace("\1", name):
        return Span(name, first, last, True)  # the ids of one plan
    if (  # the ids of an agent handle: consecutive
        last < 10**SEQUENCE_DIGITS_MAX
        and req_ids == [f"{name}:{number}" for number in range(first, last + 1)]
    ):
        return Span(name, first, last, True)
    # Split all ids at once; an id of another name leaves a wrong number of parts.
    before, *digits = ("\0" + joined).split(f"\0{name}:")
    if before or len(digits) != len(req_ids):
        return None
    joined = "".join(digits)
    if not (joined.isdecimal() and joined.isascii()):
        return None
    if min(digits) < "1" or max(map(len, digits)) > SEQUENCE_DIGITS_MAX:
        return None
    numbers = list(map(int, digits))
    return Span(name, min(numbers), max(numbers), False)


@lru_cache(maxsize=_COUNTS_MAX)
def _from_zero(count: int) -> str:
    """Return the joined ids of a sequence from 0, with SOH in place of its name."""
    return "\0".join([f"\1:{number}" for number in range(count)])
