"""The visibility properties: what spares a domain a question changes no answer.

An interest index only saves asking every agent. So every agent is asked here, before and after each
step of a trace, and if the answer changed, the index must have named the agent. Then an observer's
content equals its view, and nothing hidden stays in it. Likewise `hides` only saves asking about
collections that are shown whole: here the domain is asked about them, and must hide nothing.
"""

from typing import TypeAlias

from placet.actors.observation.interest import Affected, InterestManager
from placet.actors.observation.replica import ReadReplica
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import hidden_collections
from placet.schemas.codec import canonical
from placet.schemas.identity import Ref
from placet.testing.trace import AGENTS, Factory, Trace, TraceRunner

Shown: TypeAlias = dict[tuple[str, Ref], bytes]
"""(agent, entity) -> encoded fields that the agent may see."""


def has_sight(domain: Domain) -> bool:
    """Return whether a domain has a visibility policy."""
    return domain.sight is not None


def sight_breach(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    """Run a trace, and describe an agent that would still be shown a hidden entity.

    None if there is none.
    """
    kernel = runner.kernel
    interest = InterestManager(kernel.registry)
    published = ReadReplica(kernel)
    interest.build(published)
    shown, fields = _shown(kernel, published), _fields(published)
    for step in trace:
        for agent_id in AGENTS:
            interest.add_observer(published.state, agent_id)
        there = frozenset(kernel.ledger.agents)
        runner.run(step)
        there &= kernel.ledger.agents.keys()  # a new agent starts with a snapshot
        published = ReadReplica(kernel)
        shown_now, fields_now = _shown(kernel, published), _fields(published)
        changed = sorted(ref for ref, _ in fields.items() ^ fields_now.items())
        concerns = list(
            map(_copied, interest.affected(published.state, list(dict.fromkeys(changed))))
        )
        for agent_id, ref in sorted({pair for pair, _ in shown.items() ^ shown_now.items()}):
            if agent_id in there and not any(
                _names(concern, agent_id, ref) for concern in concerns
            ):
                return (
                    f"{agent_id} sees {ref.collection}/{ref.entity} otherwise after the last step, "
                    "and the domain's interest index named neither: an observer would continue to "
                    "see outdated content. An index may name too many agents, never too few; "
                    "`dependents_of` lists entities whose visibility follows another entity's, and "
                    "`depends_on` the fields that an agent's visibility depends on."
                )
        shown, fields = shown_now, fields_now
    return None


def has_shown_collections(domain: Domain) -> bool:
    """Return whether a domain decides visibility, and of some collections only."""
    hidden = hidden_collections(domain)
    return hidden is not None and (domain.sight is not None or domain.hides is not None)


def hides_breach(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    """Run a trace, and describe the entities hidden in a collection that `hides` omits.

    None if there is nothing.
    """
    kernel, domain = runner.kernel, runner.domain
    for step in trace:
        runner.run(step)
        refs = [ref for ref in ReadReplica(kernel).refs() if not kernel.registry.hiding(ref[0])]
        for agent_id in sorted(kernel.ledger.agents):
            for ref in refs:
                name = f"{ref.collection}/{ref.entity}"
                if not domain.may_see(kernel.tree, agent_id, ref):
                    hidden = name
                elif fields := sorted(domain.hidden_fields(kernel.tree, agent_id, ref)):
                    hidden = f"{fields[0]!r} of {name}"
                else:
                    continue
                return (
                    f"{hidden} is hidden from {agent_id}, but `hides` does not name "
                    f"{ref.collection!r}: the domain is not asked about it, and every agent is "
                    "shown it. Name the collection in `hides`, or leave `hides` None."
                )
    return None


def _shown(kernel: Kernel, published: ReadReplica) -> Shown:
    seen = kernel.registry.seen
    return {
        (agent_id, ref): canonical(dict(fields))
        for ref in published.refs()
        for agent_id in AGENTS
        if agent_id in kernel.ledger.agents
        and (fields := seen(published.state, agent_id, ref)) is not None
    }


def _fields(published: ReadReplica) -> dict[Ref, bytes]:
    rows = ((ref, published.row(ref)) for ref in published.refs())
    return {ref: canonical(row.fields) for ref, row in rows if row is not None}


def _copied(concern: Affected) -> Affected:
    """Return a copy of a concern, which is valid only until the next one."""
    agent_ids, refs = concern
    return Affected(
        None if agent_ids is None else frozenset(agent_ids),
        None if refs is None else frozenset(refs),
    )


def _names(concern: Affected, agent_id: str, ref: Ref) -> bool:
    agent_ids, refs = concern
    return (agent_ids is None or agent_id in agent_ids) and (refs is None or ref in refs)
