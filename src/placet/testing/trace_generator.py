"""Generates traces: agents join and leave, submit batches, wait, and effects settle."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from placet.kernel.plugin.registry import Registry
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
_INVALID_SHARE: Final = 15
"""One payload in this number is drawn without regard to the schema of the kind."""


def traces(
    factory: Factory, intents: Mapping[str, SearchStrategy[Any]], attributes: Attributes
) -> SearchStrategy[Trace]:
    """Generate traces of a domain.

    Args:
        factory: Makes the domain.
        intents: Kind -> strategy of payloads, which replaces the one from its JSON Schema.
        attributes: Keywords of every registration, or a strategy of them.

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
    # Proposals are twice as likely as all other steps together.
    steps = st.lists(st.one_of([*[proposing] * (2 * len(others)), *others]), max_size=_STEPS_MAX)
    beginning = st.tuples(
        *(st.builds(Join, st.just(name), attributes_strategy) for name in AGENTS[:2])
    )
    return st.builds(_compose, beginning, steps)


def _compose(beginning: Sequence[Step], steps: Sequence[Step]) -> Trace:
    """Compose a trace whose proposals mostly come from registered agents."""
    trace: list[Step] = []
    registered: dict[str, None] = {}
    for step in (*beginning, *steps):
        adapted = step
        match step:
            case Join():
                registered[step.agent_id] = None
            case Leave():
                registered.pop(step.agent_id, None)
            case Propose() if registered:
                adapted = step._replace(
                    batches=tuple(_by_registered(registered, b) for b in step.batches)
                )
        trace.append(adapted)
    return tuple(trace)


def _by_registered(registered: Iterable[str], batch: Batch) -> Batch:
    names = list(registered)
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
    invalid = st.dictionaries(st.sampled_from(words), SCALARS, max_size=2)
    kinds = []
    for name in registry.kinds:
        payload = intents.get(name)
        if payload is None:
            payload = _mostly(payloads(schemas[name], words), invalid)
        kinds.append(
            st.builds(
                *(Proposal, st.sampled_from(AGENTS), st.just(name), payload),
                *(st.sampled_from(_BEHIND), st.just(())),
            )
        )
    return st.lists(st.one_of(kinds), min_size=1, max_size=_INTENTS_MAX).map(tuple)


def _mostly(allowed: Payloads, invalid: Payloads) -> Payloads:
    return st.integers(1, _INVALID_SHARE).flatmap(
        lambda n: invalid if n == _INVALID_SHARE // 2 else allowed
    )


def _words(runner: TraceRunner) -> list[str]:
    """Return the ids of the initial state, the agents, and two unknown words."""
    tree = runner.kernel.tree
    ids = [entity for name in sorted(tree.collections) for entity in tree.ids(name)]
    return list(dict.fromkeys([*AGENTS, *_WORDS, *ids[:_NAMES_MAX]]))
