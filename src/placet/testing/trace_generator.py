"""Generates traces: agents join and leave, submit batches, wait, and effects settle."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from placet.kernel.registry import Registry
from placet.schemas.codec import Json
from placet.testing.payload_generator import ANY_JSON, SCALARS, Payloads, payloads
from placet.testing.trace import (
    AGENTS,
    Batch,
    Factory,
    Join,
    Leave,
    Proposal,
    Propose,
    Settle,
    Step,
    Trace,
    TraceRunner,
    Wait,
)

Attributes = Mapping[str, Json] | SearchStrategy[Any]

_STEPS_MAX: Final = 10
_BATCHES_MAX: Final = 3
_INTENTS_MAX: Final = 3
_NAMES_MAX: Final = 40
_SECONDS: Final = (0.0, 0.25, 1.0, 10.0, 700.0)
_BEHIND: Final = (0, 0, 0, 0, 0, 1, 5)
_WORDS: Final = ("a", "b")
_STRAYS: Final = 15
"""One payload in so many is not what the kind's schema allows."""


def traces(
    factory: Factory, intents: Mapping[str, SearchStrategy[Any]], attributes: Attributes
) -> SearchStrategy[Trace]:
    """Generate traces of a domain.

    Args:
        factory: Makes the domain.
        intents: Kind -> payloads, in place of those allowed by its JSON Schema.
        attributes: The keywords of registrations, or what draws them.

    Raises:
        ValueError: `intents` names a kind that the domain does not have.
    """
    first = TraceRunner(factory)
    registry = first.kernel.registry
    unknown = sorted(intents.keys() - registry.kinds.keys())
    if unknown:
        known = ", ".join(registry.kinds)
        raise ValueError(f"intents names the kind {unknown[0]!r}; the domain has {known}")
    attributes_strategy = (
        attributes if isinstance(attributes, SearchStrategy) else st.just(dict(attributes))
    )
    batches = _batches(registry, intents, _words(first))
    agents = st.sampled_from(AGENTS)
    proposing: SearchStrategy[Step] = st.builds(
        Propose,
        st.sampled_from(_SECONDS),
        st.lists(batches, min_size=1, max_size=_BATCHES_MAX).map(tuple),
    )
    others: list[SearchStrategy[Step]] = [
        st.builds(Wait, st.sampled_from(_SECONDS)),
        st.builds(Join, agents, attributes_strategy),
        st.builds(Leave, agents),
    ]
    if any(kind.effects for kind in registry):
        others += [st.builds(Settle, st.booleans(), ANY_JSON)]
    # Proposals are twice as likely as all else together.
    steps = st.lists(st.one_of([*[proposing] * (2 * len(others)), *others]), max_size=_STEPS_MAX)
    beginning = st.tuples(
        *(st.builds(Join, st.just(name), attributes_strategy) for name in AGENTS[:2])
    )
    return st.builds(_life, beginning, steps)


def _life(beginning: Sequence[Step], steps: Sequence[Step]) -> Trace:
    """Compose a trace whose proposals mostly come from registered agents."""
    life: list[Step] = []
    there: dict[str, None] = {}
    for step in (*beginning, *steps):
        spoken = step
        match step:
            case Join():
                there[step.agent_id] = None
            case Leave():
                there.pop(step.agent_id, None)
            case Propose() if there:
                spoken = step._replace(batches=tuple(_of_those(there, b) for b in step.batches))
        life.append(spoken)
    return tuple(life)


def _of_those(there: Iterable[str], batch: Batch) -> Batch:
    names = list(there)
    return tuple(
        proposal
        if proposal.agent_id in names
        else proposal._replace(agent_id=names[AGENTS.index(proposal.agent_id) % len(names)])
        for proposal in batch
    )


def _batches(
    registry: Registry, intents: Mapping[str, SearchStrategy[Any]], words: Sequence[str]
) -> SearchStrategy[Batch]:
    schemas = registry.json_schemas()
    stray = st.dictionaries(st.sampled_from(words), SCALARS, max_size=2)
    kinds = []
    for name in registry.kinds:
        payload = intents.get(name)
        if payload is None:
            payload = _mostly(payloads(schemas[name], words), stray)
        kinds.append(
            st.builds(
                Proposal, st.sampled_from(AGENTS), st.just(name), payload, st.sampled_from(_BEHIND)
            )
        )
    return st.lists(st.one_of(kinds), min_size=1, max_size=_INTENTS_MAX).map(tuple)


def _mostly(allowed: Payloads, stray: Payloads) -> Payloads:
    return st.integers(1, _STRAYS).flatmap(lambda n: stray if n == _STRAYS // 2 else allowed)


def _words(runner: TraceRunner) -> list[str]:
    """Names that mean something in a world as it begins, and two that mean nothing yet."""
    tree = runner.kernel.tree
    ids = [entity for name in sorted(tree.collections) for entity in tree.ids(name)]
    return list(dict.fromkeys([*AGENTS, *_WORDS, *ids[:_NAMES_MAX]]))
