"""The noninterference property: things that an agent may not see change none of its answers.

A trace is run step by step. Each step of other agents that leaves the view of one agent, the
observer, as it was, is a hidden change. The world after it is compared with one in which as many
seqs passed without a change: every intent of the trace, proposed by the observer as a dry run at
several contexts, must have the same answer in both, to the last word.

A change of an entity that the observer sees is not hidden, even if the field is.

Answers of a kind that declares `discloses` may differ from the rules on: its author says what its
rule tells. Excepted are the channels that no domain can close: seqs, load and timing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from placet.actors.observation.viewer import Viewer
from placet.kernel.domain import Domain
from placet.kernel.kernel import Kernel
from placet.kernel.registry import hidden_collections
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict
from placet.testing.trace import (
    AGENTS,
    Factory,
    Join,
    Leave,
    Proposal,
    Propose,
    Settle,
    Step,
    Trace,
    TraceRunner,
    one_by_one,
)

OBSERVER: Final = AGENTS[0]


def hides_anything(domain: Domain) -> bool:
    """Return whether a domain may hide an entity or a field."""
    hidden = hidden_collections(domain)
    return hidden is None or bool(hidden)


def noninterference_breach(runner: TraceRunner, trace: Trace, factory: Factory) -> str | None:
    """Run a trace, and describe an answer that a hidden change alters; None if there is none."""
    steps, kernel = list(one_by_one(trace)), runner.kernel
    probes = _probes(steps)
    for number, step in enumerate(steps):
        before, seq = _view(kernel), kernel.seq
        runner.run(step)
        if not _is_of_others(step) or kernel.seq == seq or before is None:
            continue
        if _view(kernel) != before:
            continue
        other = TraceRunner(factory).run_all(steps[:number])
        while other.kernel.seq < kernel.seq:  # a record that changes nothing takes a seq
            other.kernel.set_agent_permissions(OBSERVER, None)
        other.now = runner.now
        for probe, context_seq in ((p, c) for p in probes for c in sorted({0, seq, kernel.seq})):
            first, second = (_answer(world, probe, context_seq) for world in (runner, other))
            if first != second:
                return (
                    f"{OBSERVER} may not see the last step, and its view is the same without it. "
                    f"But if {probe._replace(behind=kernel.seq - context_seq)}, the answer is "
                    f"{_text(first)}; without the step it is {_text(second)}. Refuse what an agent "
                    "may not see as what does not exist, or say in `Kind(discloses=...)` what the "
                    "rule tells."
                )
    return None


def _probes(steps: Sequence[Step]) -> list[Proposal]:
    """Return the distinct intents of a trace, as the observer's."""
    proposals = {
        canonical([proposal.kind, proposal.payload]): proposal._replace(agent_id=OBSERVER, behind=0)
        for proposal in _proposals(steps)
    }
    return list(proposals.values())


def _proposals(steps: Sequence[Step]) -> Iterator[Proposal]:
    for step in steps:
        if isinstance(step, Propose):
            for batch in step.batches:
                yield from batch


def _is_of_others(step: Step) -> bool:
    """Return whether a step is a change by others at an unchanged time."""
    match step:
        case Propose():
            return all(proposal.agent_id != OBSERVER for proposal in _proposals([step]))
        case Join() | Leave():
            return step.agent_id != OBSERVER
        case _:
            return isinstance(step, Settle)


def _view(kernel: Kernel) -> bytes | None:
    """Return everything that the observer sees; None if it is not registered.

    With each entity goes the seq of its latest change: an agent may know that an entity which it
    sees has changed, even in a hidden field.
    """
    if OBSERVER not in kernel.ledger.agents:
        return None
    seen: dict[str, Json] = {}
    for collection, entities in Viewer(kernel).view(kernel, OBSERVER).state.items():
        for entity, fields in entities.items():
            stamp = kernel.tree.stamp(collection, entity)
            assert stamp is not None, "an entity in a view is there"
            seen[f"{collection}/{entity}"] = [stamp.seq, dict(fields)]
    return canonical(seen)


def _answer(world: TraceRunner, probe: Proposal, context_seq: int) -> Json:
    """Return the answer to a dry run; None where a kind discloses what its rule decides."""
    intent = {
        "kind": probe.kind,
        "payload": probe.payload,
        "agent_id": OBSERVER,
        "req_id": "probe",
        "context_seq": context_seq,
        "priority": 10,
        "schema_version": SCHEMA_VERSION,
    }
    batch = {"intents": [intent], "dry_run": True}
    verdict = world.kernel.decide(batch, world.now, submitter=OBSERVER)
    kind = world.kernel.registry.kinds[probe.kind]
    if kind.discloses and _has_run_rules(verdict):
        return None
    results = [{**result.as_dict(), "seq": None} for result in verdict.results]
    return thaw([verdict.admitted, [refusal.as_dict() for refusal in verdict.refusals], results])


def _has_run_rules(verdict: Verdict) -> bool:
    return verdict.admitted or verdict.refusals[0].stage is Stage.DOMAIN


def _text(answer: Json) -> str:
    if answer is None:
        return "left to the rule"
    admitted, refusals, results = answer
    if admitted:
        return f"admitted as {results[0]['normalized']} with output {results[0].get('output')}"
    refusal = refusals[0]
    changed = f", changed {refusal['changed']}" if refusal["changed"] else ""
    return f"{refusal['code']}: {refusal['message']}{changed}"
