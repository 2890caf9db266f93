"""On what a thought depends: the settings of a fresh context (`context.py`)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from placet.actors.policies.subscriptions import ExternalChange
from placet.kernel.gate.staleness import reads_of
from placet.kernel.kernel import Kernel
from placet.schemas.errors import error_of
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.verdict import Verdict

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
