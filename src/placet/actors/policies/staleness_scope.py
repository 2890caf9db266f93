"""Stops a thought when what it rests on is no longer true.

A block that is open has one watch, which lies where it is found by what has changed; no task runs
for it. What others did is known here once it is durable, never before. Why the thought was stopped,
with the values that its agent may see, is looked up when it has been.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

import anyio

from placet.actors.policies.subscriptions import ExternalChange, SubscriptionTable
from placet.kernel.gate.staleness import reads_of
from placet.kernel.kernel import Kernel
from placet.schemas.codec import thaw
from placet.schemas.errors import StaleContextError, error_of
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

Read: TypeAlias = str | tuple[str, str | None]
"""A `Ref`, a pair, or a name such as `world.agents/bob`, or `world.agents` for the collection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessOptions:
    """On what a thought depends. With nothing set: on everything that its agent may see.

    Attributes:
        threshold: The thought is stale once others moved the world on by more seqs than this.
        reads: It depends on these; a collection changes when something in it comes or goes.
        kinds: It depends on what intents of these kinds read, where that is the agent's own.
        intents: It depends on what these intents read.
        relevant: Says of each change by another, among those above, whether it counts.
        debounce: Seconds to collect further changes from the first on, before it is stopped.
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
            given = getattr(self, name)
            if isinstance(given, str):
                raise ValueError(f"{name} must be a list, got the string {given!r}")
            if given is not None:  # it is asked once for each block, and an iterator gives once
                object.__setattr__(self, name, tuple(given))

    def footprint(self, kernel: Kernel, agent_id: str) -> frozenset[Ref] | None:
        """Name what the thought depends on; None is all that the agent may see.

        Raises:
            IntentError: The structure of the intents is unsound.
            ValueError: A kind is unknown, or what it reads depends on its payload.
        """
        if self.reads is None and self.kinds is None and self.intents is None:
            is_counted_alone = self.threshold is not None and self.relevant is None
            return frozenset() if is_counted_alone else None
        refs = {_ref(read) for read in self.reads or ()}
        for name in self.kinds or ():
            refs.update(_of_kind(name, kernel, agent_id))
        if self.intents:
            refs.update(_of_intents(list(self.intents), kernel, agent_id))
        return frozenset(refs)


def _ref(read: Read) -> Ref:
    if isinstance(read, str):
        collection, _, entity = read.partition("/")
        return Ref(collection, entity or None)
    return Ref(*read)


def _of_kind(name: str, kernel: Kernel, agent_id: str) -> Iterable[Ref]:
    kind = kernel.registry.kinds.get(name)
    if kind is None:
        raise ValueError(
            f"there is no kind {name!r}; the world has {sorted(kernel.registry.kinds)}"
        )
    if kind.when_stale == "revalidate":
        return ()
    if kind.reads is not None:
        raise ValueError(
            f"what {name} reads depends on its payload; give intents=[...], or reads=[...]"
        )
    return () if kind.reads_self is None else (Ref(kind.reads_self, agent_id),)


def _of_intents(intents: list[Intent], kernel: Kernel, agent_id: str) -> Iterable[Ref]:
    checked = kernel.check(intents, agent_id)
    if isinstance(checked, Verdict):
        raise error_of(checked)
    for intent in checked.intents:
        kind = kernel.registry.kinds[intent["kind"]]
        if kind.when_stale == "reject":
            yield from (Ref(*read) for read in reads_of(kind, intent))


Begin = Callable[[Kernel, View], None]
Look = Callable[[Begin | None], Awaitable[View]]


class StalenessScope:
    """A view, and a block that is stopped when the view is no longer true. Used once.

    Attributes:
        view: What the agent saw as the block began; the thought rests on it.
        changed: What others have changed since, of what counts, by what it is.

    Args:
        agent_id: Whose.
        freshness: On what the thought depends.
        look: Gives the agent's view; its argument, if there is one, is called with it in the same
            turn of the orchestrator's.
        subscriptions: Of the world.
        changes_max: How many changes the reason lists.
    """

    view: View

    def __init__(
        self,
        agent_id: str,
        freshness: StalenessOptions,
        look: Look,
        subscriptions: SubscriptionTable,
        changes_max: int,
    ) -> None:
        self.agent_id = agent_id
        self.freshness = freshness
        self.threshold = freshness.threshold
        self.footprint: frozenset[Ref] | None = None
        self.context_seq = 0
        self.foreign_seqs = 0
        self.changed: dict[Ref, ExternalChange] = {}
        self._look = look
        self._changes_max = changes_max
        self._subscriptions = subscriptions
        self._scope = anyio.CancelScope()
        self._is_stale = False
        self._error: BaseException | None = None
        self._is_over = False
        self._is_inside = False

    @property
    def is_stale(self) -> bool:
        """Something that counts has changed since the view, or the world has moved too far on."""
        return self._is_stale

    async def __aenter__(self) -> Self:
        try:
            await self._look(self._begin)
        except BaseException:
            self._subscriptions.discard(self)
            raise
        self._scope.__enter__()
        self._is_inside = True
        if self._is_over:
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

    # what the watches call

    def knows(self, ref: Ref) -> bool:
        """Return whether the agent saw a thing as the block began."""
        return ref.entity in self.view.state.get(ref.collection, {})

    def note(self, change: ExternalChange) -> None:
        """Take in a change by another, of something that the thought depends on."""
        relevant = self.freshness.relevant
        if relevant is not None and not relevant(change):
            return
        if change.ref in self.changed or len(self.changed) < self._changes_max:
            self.changed[change.ref] = change
        self._turn_stale()

    def move_on(self, seqs: int) -> None:
        """Take in that others moved the world on."""
        self.foreign_seqs += seqs
        if self.threshold is not None and self.foreign_seqs > self.threshold:
            self._turn_stale()

    def fail(self, error: BaseException) -> None:
        """Stop the body at once: what counts can no longer be told. The error is raised."""
        self._error = self._error or error
        self.end()

    def end(self) -> None:
        """Stop the body at once: its agent was removed, which looking for the reason will say."""
        self._is_stale = self._is_over = True
        if self._is_inside:
            self._scope.cancel()

    def _turn_stale(self) -> None:
        if not self._is_stale:
            self._is_stale = True
            if self._is_inside:
                self._stop()

    def _stop(self) -> None:
        if self.freshness.debounce:
            self._scope.deadline = anyio.current_time() + self.freshness.debounce
        else:
            self._scope.cancel()

    def _begin(self, kernel: Kernel, view: View) -> None:
        """Watch from the very seq of the view on."""
        self.view, self.context_seq = view, view.view_seq
        self.footprint = self.freshness.footprint(kernel, self.agent_id)
        self._subscriptions.add(self)

    async def _reason(self) -> StaleContextError:
        """Return what changed, with the values that the agent may see now."""
        view = await self._look(None)
        told, names = [], []
        for ref, change in self.changed.items():
            now = None if ref.entity is None else view.state.get(ref.collection, {}).get(ref.entity)
            if now is None and ref.entity is not None and not self.knows(ref):
                continue  # the agent may not see it, and did not
            names.append(change.entity)
            told.append(
                {
                    "entity": change.entity,
                    "seq": change.seq,
                    "by": change.by,
                    "now": None if now is None else thaw(now),
                }
            )
        if self.changed:
            what = f"{', '.join(names) or 'something it depends on'} changed"
        else:
            what = f"others moved the world on by {self.foreign_seqs}"
        refusal = Refusal(
            RefusalCode.STALE_CONTEXT,
            f"{what} after context_seq {self.context_seq}; the thought was stopped, refresh the "
            "view and think again",
            Stage.STALENESS,
            changed=tuple(told),
            details={"agent_id": self.agent_id, "context_seq": self.context_seq},
        )
        verdict = Verdict("", False, None, view.view_seq, view.sim_time, (refusal,))
        return StaleContextError(refusal.message, verdict=verdict)
