"""The noninterference property: hidden changes alter no answer to an agent.

A trace is run in two worlds that differ only in state that one agent, the observer, may not see
(`paired_runs.py`). Compared after each step, byte by byte: its view, its observation, the verdicts
on its batches with their explanations, and dry runs of every intent of the trace at several
contexts.

A change of an entity that the observer sees is not hidden, even if the field is.

Answers of a kind that declares `discloses` may differ from the rules on: its author says what its
rule tells. Excepted are the channels that no domain can close (docs/reference/threat_model.md).
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry, hidden_collections
from placet.schemas.codec import Json, canonical, thaw, to_json
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.refusal import RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.schemas.view import View
from placet.testing.paired_runs import Answers, PairedRun, is_own, parts_of, proposals_of
from placet.testing.paired_world import OBSERVER, PairedWorld
from placet.testing.trace import AGENTS, Batch, Factory, Proposal, Trace, TraceRunner

_TRIED_MAX: Final = 12
"""Proposals that are tried after one step; of a longer trace the next ones after the next step."""

_OLDEST_EVERY: Final = 4
"""One proposal in this number is tried at seq 0 too; another one after each step."""

_RADIUS: Final = 3.0
"""Radius around the observer in which `View.near` is asked, in the unit of the world."""


class AnswerDifference(NamedTuple):
    """An answer that differs between two worlds with equal knowledge of the observer.

    Attributes:
        name: The answer's name, such as `its observation`.
        first: The answer in the first world, as text.
        second: The answer in the second world.
    """

    name: str
    first: str
    second: str


def hides_anything(domain: Domain) -> bool:
    """Return whether a domain may hide an entity or a field."""
    hidden = hidden_collections(domain)
    return hidden is None or bool(hidden)


def noninterference_breach(runner: TraceRunner, trace: Trace, factory: Factory) -> str | None:
    """Run a trace, and describe an answer that a hidden change alters; None if there is none."""
    return difference_of(PairedRun(runner, factory, trace), trace)


def difference_of(pair: PairedRun, trace: Trace) -> str | None:
    """Run a trace in two new worlds, and describe the first answer that differs; None without."""
    probes = _probes(trace)
    for step in parts_of(trace):
        seq = pair.first.kernel.seq
        hidden = list(pair.differences)
        found = _own_difference(pair, pair.run(step), is_explained=is_own(step))
        if found is None and pair.is_alike and pair.differences:
            hidden = pair.differences
            found = next(_differences(pair, probes, seq), None)
        if found is not None:
            return (
                f"{OBSERVER} has the same view of a second world, with "
                f"{'; '.join(hidden)}. But {found.name} is {found.first}; in the second world it "
                f"is {found.second}. Refuse what an agent may not see as what does not exist, or "
                "say in `Kind(discloses=...)` what the rule tells."
            )
    return None


def _own_difference(
    pair: PairedRun, answers: Answers, *, is_explained: bool
) -> AnswerDifference | None:
    """Return the first difference in the answers to batches that the observer submitted."""
    registry = pair.first.kernel.registry
    for number, (batch, first, second) in enumerate(answers):
        if (number or len(batch) > 1) and _has_run_rules(first) and _has_run_rules(second):
            continue  # earlier intents may have moved the observer: an excepted channel
        name = f"the answer to {' and '.join(map(str, batch))}"
        answered = [answer_of(registry, batch, verdict) for verdict in (first, second)]
        if answered[0] != answered[1] and not _is_claimed_once(first, second):
            return AnswerDifference(name, *map(_text, answered))
    if is_explained and len(answers) == 1 and pair.is_alike:
        batch, first, second = answers[0]
        if None in [answer_of(registry, batch, verdict) for verdict in (first, second)]:
            return None  # the rule discloses it, and so may its explanation
        explained = [to_json(world.explanation()).decode() for world in (pair.first, pair.second)]
        if explained[0] != explained[1]:
            return AnswerDifference(f"the explanation of {batch[0]}", *explained)
    return None


def _differences(
    pair: PairedRun, probes: Sequence[Proposal], seq_before: int
) -> Iterator[AnswerDifference]:
    """Yield the answers that differ between two worlds whose hidden state differs.

    Args:
        pair: The worlds.
        probes: Proposals of which some are tried, at `seq_before` and now.
        seq_before: Seq of the worlds before the latest step.
    """
    first, second = pair.first, pair.second
    seen = [_observed(world) for world in (first, second)]
    if seen[0] != seen[1]:
        yield AnswerDifference("its observation", *map(str, seen))
    names = sorted({name for world in (first, second) for name in world.kernel.tree.collections})
    views = [_listed(world.view(), names) for world in (first, second)]
    if views[0] != views[1]:
        yield AnswerDifference("its view", *map(str, views))
    registry, seq = first.kernel.registry, first.kernel.seq
    start = seq * _TRIED_MAX % max(1, len(probes))
    tried = [*probes[start:], *probes[:start]][:_TRIED_MAX]
    for number, proposal in enumerate(tried, start=seq):
        contexts = {seq_before, seq} if number % _OLDEST_EVERY else {0, seq_before, seq}
        for context_seq in sorted(contexts):
            verdicts = [_tried(world, proposal, context_seq) for world in (first, second)]
            answered = [answer_of(registry, (proposal,), verdict) for verdict in verdicts]
            if answered[0] != answered[1]:
                late = proposal._replace(behind=seq - context_seq)
                yield AnswerDifference(f"the answer, if {late},", *map(_text, answered))


def _observed(world: PairedWorld) -> Json:
    return None if world.observation is None else world.observation.encoded.decode()


def _listed(view: View, names_to_try: Sequence[str]) -> list[Json]:
    """Return the names in a view in its order, and the entities near the observer.

    Of `names_to_try` it returns whether the view has a collection of that name.
    """
    names: list[Json] = [[collection, list(rows)] for collection, rows in view.state.items()]
    names += [[name, name in view.state] for name in names_to_try]
    try:
        own = view.near([0.0], 0.0)  # raises where the world has no positions
    except ValueError:
        return names
    return [*names, own, view.near([0.0], _RADIUS), view.at([0.0])]


def _probes(trace: Trace) -> list[Proposal]:
    """Return the distinct intents of a trace, as the observer's, and one of each other agent."""
    proposals = {
        canonical([proposal.kind, proposal.payload]): proposal._replace(agent_id=OBSERVER, behind=0)
        for proposal in proposals_of(trace)
    }
    probes = list(proposals.values())
    return [*probes, *(probe._replace(agent_id=name) for probe in probes[:1] for name in AGENTS)]


def _tried(world: PairedWorld, probe: Proposal, context_seq: int) -> Verdict:
    """Return the verdict on a dry run that the observer submits."""
    intent = {
        "kind": probe.kind,
        "payload": probe.payload,
        "agent_id": probe.agent_id,
        "req_id": "probe",
        "context_seq": context_seq,
        "priority": 10,
        "schema_version": SCHEMA_VERSION,
    }
    batch = {"intents": [intent], "dry_run": True}
    return world.kernel.decide(batch, world.runner.now, submitter=OBSERVER)


def answer_of(registry: Registry, batch: Batch, verdict: Verdict) -> Json:
    """Return a verdict as JSON; None if a kind discloses what its rule decides."""
    if _has_run_rules(verdict) and any(
        registry.kinds[proposal.kind].discloses for proposal in batch
    ):
        return None
    results = [result.as_dict() for result in verdict.results]
    refusals = [refusal.as_dict() for refusal in verdict.refusals]
    return thaw([verdict.admitted, refusals, results, verdict.sim_time])


def _has_run_rules(verdict: Verdict) -> bool:
    return verdict.admitted or verdict.refusals[0].stage is Stage.DOMAIN


def _is_claimed_once(first: Verdict, second: Verdict) -> bool:
    """Return whether one verdict only is a conflict: claims are an excepted channel."""
    return (RefusalCode.CONFLICT in first.codes) != (RefusalCode.CONFLICT in second.codes)


def _text(answered: Json) -> str:
    if answered is None:
        return "left to the rule"
    admitted, refusals, results, *_ = answered
    if admitted:
        result = results[0]
        return f"admitted as {result['normalized']} with output {result.get('output')}"
    refusal = refusals[0]
    changed = f", changed {refusal['changed']}" if refusal["changed"] else ""
    return f"{refusal['code']}: {refusal['message']}{changed}"
