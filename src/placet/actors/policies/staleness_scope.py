"""Cancels an agent's computation when the state it depends on has changed.

An open block has one subscription, found by the refs that change; it needs no task. Changes of
other agents are seen here once they are durable. The reason of a cancellation, with the values
that the agent may see, is looked up only after the block was canceled.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias

import anyio

from placet.actors.policies.subscriptions import ExternalChange, SubscriptionTable
from placet.kernel.gate.staleness import reads_of
from placet.kernel.kernel import Kernel
from placet.schemas.codec import thaw
from placet.schemas.condition import Condition, holds, value_at
from placet.schemas.errors import StaleContextError, error_of
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.name_suggestions import nearest, require_known
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

_ALMOST: Final = 0.85
"""Similarity above which a collection without entities is taken for a misspelled one."""

Read: TypeAlias = str | tuple[str, str | None]
"""A `Ref`, a pair, or a name such as `world.agents/bob`, or `world.agents` for the collection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessOptions:
    """The changes that make an agent's computation stale; by default any that the agent may see.

    Attributes:
        threshold: Stale once other agents advanced the world by more seqs than this; None for no
            such limit.
        reads: Refs that the computation reads; a collection changes when an entity is created or
            deleted.
        kinds: Kinds of intents that the computation will propose: it depends on the fields of the
            agent's own entity that they read.
        intents: Intents that the computation will propose: it depends on the refs that they read.
            For an intent with conditions it is stale once one of the conditions does not hold.
        relevant: Decides for each change by another agent, among those selected, whether it counts.
        debounce: Seconds to collect further changes after the first, before the cancellation.
    """

    threshold: int | None = None
    reads: Iterable[Read] | None = None
    kinds: Iterable[str] | None = None
    intents: Iterable[Intent] | None = None
    relevant: Callable[[ExternalChange], bool] | None = None
    debounce: float = 0.0

    def __post_init__(self) -> None:
        if self.threshold is not None and self.threshold < 0:
            raise ValueError(f"threshold must be a number of seqs >= 0, got {self.threshold!r}")
        if not 0 <= self.debounce < float("inf"):
            raise ValueError(f"debounce must be a number of seconds >= 0, got {self.debounce!r}")
        for name in ("reads", "kinds", "intents"):
            refs = getattr(self, name)
            if isinstance(refs, str):
                raise ValueError(f"{name} must be a list, got the string {refs!r}")
            if refs is not None:  # read once per block; an iterator would be empty the second time
                object.__setattr__(self, name, tuple(refs))

    def footprint(self, kernel: Kernel, agent_id: str) -> frozenset[Ref] | None:
        """Return the refs that the computation depends on; None is all that the agent may see.

        Raises:
            IntentError: An intent has an invalid structure.
            ValueError: A kind is unknown, its reads depend on the payload, or a collection of a
                read is probably misspelled.
        """
        if self.reads is None and self.kinds is None and self.intents is None:
            is_counted_alone = self.threshold is not None and self.relevant is None
            return frozenset() if is_counted_alone else None
        refs = {_ref(read) for read in self.reads or ()}
        for ref in refs:
            _require_collection(ref.collection, kernel.tree.collections)
        for name in self.kinds or ():
            refs.update(_reads_of_kind(name, kernel, agent_id))
        if self.intents:
            refs.update(_reads_of_intents(list(self.intents), kernel, agent_id))
        return frozenset(refs)

    def conditions(self) -> dict[Ref, list[Condition]]:
        """Return the conditions of the intents by entity; none of an entity that is a read too."""
        plain = {_ref(read) for read in self.reads or ()}
        found: dict[Ref, list[Condition]] = {}
        for intent in self.intents or ():
            for condition in intent.get("expect") or ():
                ref = Ref(*condition["path"][:2])
                if ref not in plain:
                    found.setdefault(ref, []).append(condition)
        return found


def _require_collection(name: str, known: Iterable[str]) -> None:
    """Check that a collection, which may be made later, has not almost the name of another one.

    Raises:
        ValueError: It has.
    """
    names = sorted(known)
    near = () if name in names else nearest(name, names, 1, similar=_ALMOST)
    if near:
        raise ValueError(f"reads: there is no collection {name!r}; did you mean {near[0]!r}?")


def _ref(read: Read) -> Ref:
    if isinstance(read, str):
        collection, _, entity = read.partition("/")
        return Ref(collection, entity or None)
    return Ref(*read)


def _reads_of_kind(name: str, kernel: Kernel, agent_id: str) -> Iterable[Ref]:
    require_known(name, kernel.registry.kinds, "there is no kind")
    kind = kernel.registry.kinds[name]
    if kind.when_stale == "revalidate":
        return ()
    if kind.reads is not None:
        raise ValueError(
            f"the reads of {name} depend on its payload; pass intents=[...] or reads=[...]"
        )
    return () if kind.reads_self is None else (Ref(kind.reads_self, agent_id),)


def _reads_of_intents(intents: list[Intent], kernel: Kernel, agent_id: str) -> Iterable[Ref]:
    checked = kernel.check(intents, agent_id)
    if isinstance(checked, Verdict):
        raise error_of(checked)
    for intent in checked.intents:
        kind = kernel.registry.kinds[intent["kind"]]
        if "expect" in intent:
            yield from (Ref(*condition["path"][:2]) for condition in intent["expect"])
        elif kind.when_stale == "reject":
            yield from (Ref(*read) for read in reads_of(kind, intent))


def _holds_after(change: ExternalChange, condition: Condition) -> bool:
    """Return whether a condition on an entity that changed is known to hold after the change."""
    if change.fields is None:  # deleted or hidden by now, or changed again
        return False
    steps, op = condition["path"][2:], condition["op"]
    if not steps:
        return op == "exists"
    if steps[0] not in change.fields:  # another field changed
        return True
    return holds(value_at(change.fields, steps), op, condition.get("value"))


Begin = Callable[[Kernel, View], None]
Look = Callable[[Begin | None], Awaitable[View]]


class StalenessScope:
    """An async context manager with a view; its block is canceled once the view is stale.

    It can be entered once.

    Attributes:
        view: The agent's view at the start of the block.
        changed: The relevant changes by other agents since then, by ref.

    Args:
        agent_id: The agent.
        options: The dependencies of the computation.
        look: Returns the agent's view; calls its argument with the view in the same turn of the
            orchestrator, so that no change is missed in between.
        subscriptions: Subscriptions of the world.
        changes_max: Maximum changes listed in the reason.
    """

    view: View

    def __init__(
        self,
        agent_id: str,
        options: StalenessOptions,
        look: Look,
        subscriptions: SubscriptionTable,
        changes_max: int,
    ) -> None:
        self.agent_id = agent_id
        self.options = options
        self.threshold = options.threshold
        self.footprint: frozenset[Ref] | None = None
        self._conditions: dict[Ref, list[Condition]] = {}
        self.context_seq = 0
        self.foreign_seqs = 0
        self.changed: dict[Ref, ExternalChange] = {}
        self._look = look
        self._changes_max = changes_max
        self._subscriptions = subscriptions
        self._scope = anyio.CancelScope()
        self._is_stale = False
        self._error: BaseException | None = None
        self._is_ended = False
        self._is_inside = False

    def __repr__(self) -> str:
        stale = f"stale, {len(self.changed)} changes" if self._is_stale else "not stale"
        return f"<StalenessScope of {self.agent_id!r} at seq {self.context_seq}: {stale}>"

    @property
    def is_stale(self) -> bool:
        """Whether a relevant change happened, or the threshold of seqs was exceeded."""
        return self._is_stale

    async def __aenter__(self) -> Self:
        try:
            await self._look(self._subscribe)
        except BaseException:
            self._subscriptions.discard(self)
            raise
        self._scope.__enter__()
        self._is_inside = True
        if self._is_ended:
            self._scope.cancel()
        elif self._is_stale:
            self._stop()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._subscriptions.discard(self)
        is_stopped = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            raise (self._error or await self._reason()) from None
        return is_stopped

    # called by the subscription table

    def saw(self, ref: Ref) -> bool:
        """Return whether the agent saw an entity at the start of the block."""
        return ref.entity in self.view.state.get(ref.collection, {})

    def note(self, change: ExternalChange) -> None:
        """Mark the block stale, because another agent changed something that it depends on.

        A change is ignored if `options.relevant` rejects it, or if all conditions on its entity
        hold after it.
        """
        relevant = self.options.relevant
        if relevant is not None and not relevant(change):
            return
        conditions = self._conditions.get(change.ref)
        if conditions is not None and all(_holds_after(change, each) for each in conditions):
            return
        if change.ref in self.changed or len(self.changed) < self._changes_max:
            self.changed[change.ref] = change
        self._mark_stale()

    def advance(self, seqs: int) -> None:
        """Add to the seqs by which other agents advanced the world; stale beyond the threshold."""
        self.foreign_seqs += seqs
        if self.threshold is not None and self.foreign_seqs > self.threshold:
            self._mark_stale()

    def fail(self, error: BaseException) -> None:
        """Cancel the block at once; it raises `error`, which a rule raised about a change."""
        self._error = self._error or error
        self.end()

    def end(self) -> None:
        """Cancel the block at once, because the agent was removed; it raises that reason."""
        self._is_stale = self._is_ended = True
        if self._is_inside:
            self._scope.cancel()

    def _mark_stale(self) -> None:
        if not self._is_stale:
            self._is_stale = True
            if self._is_inside:
                self._stop()

    def _stop(self) -> None:
        if self.options.debounce:
            self._scope.deadline = anyio.current_time() + self.options.debounce
        else:
            self._scope.cancel()

    def _subscribe(self, kernel: Kernel, view: View) -> None:
        """Subscribe from exactly the seq of the view."""
        self.view, self.context_seq = view, view.view_seq
        self.footprint = self.options.footprint(kernel, self.agent_id)
        self._conditions = self.options.conditions()
        self._subscriptions.add(self)

    async def _reason(self) -> StaleContextError:
        """Build the error that lists the changes, with the values that the agent may see now."""
        view = await self._look(None)
        changes, names = [], []
        for ref, change in self.changed.items():
            now = None if ref.entity is None else view.state.get(ref.collection, {}).get(ref.entity)
            if now is None and ref.entity is not None and not self.saw(ref):
                continue  # never visible to the agent: its name must not leak
            names.append(change.entity)
            changes.append(
                {
                    "entity": change.entity,
                    "seq": change.seq,
                    "by": change.by,
                    "now": None if now is None else thaw(now),
                }
            )
        if self.changed:
            cause = f"{', '.join(names) or 'something it depends on'} changed"
        else:
            cause = f"other agents advanced the world by {self.foreign_seqs}"
        refusal = Refusal(
            RefusalCode.STALE_CONTEXT,
            f"{cause} after context_seq {self.context_seq}; the block was canceled, refresh "
            "the view and try again",
            Stage.STALENESS,
            changed=tuple(changes),
            details={"agent_id": self.agent_id, "context_seq": self.context_seq},
        )
        verdict = Verdict("", False, None, view.view_seq, view.sim_time, (refusal,))
        return StaleContextError(refusal.message, verdict=verdict)
