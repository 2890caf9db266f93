"""The properties: each a function of one world and one trace, which describes a violation.

A property compares two ways to the same result: refused and untouched, dry run and real run, live
and replayed, live and re-executed. None depends on the domain.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from placet.kernel.log.replay import Divergence, folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import Domain, Rule, RuleRefusal
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical, from_canonical, thaw
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.verdict import OUTPUT_UNDECIDED, Verdict
from placet.testing.errors import PropertyViolation
from placet.testing.faults.crash_property import crash_breach
from placet.testing.noninterference_property import hides_anything, noninterference_breach
from placet.testing.read_set_property import footprint_breach, has_footprints
from placet.testing.registration_order_property import registration_breach
from placet.testing.trace import AGENTS, Factory, Propose, Trace, TraceRunner, one_by_one, smaller
from placet.testing.tree_diff import difference, whole
from placet.testing.visibility_property import (
    has_shown_collections,
    has_sight,
    hides_breach,
    sight_breach,
)

_NOTICE: Final = OUTPUT_UNDECIDED.as_dict()

Breach = Callable[[TraceRunner, Trace, Factory], str | None]
"""Runs a trace in a new world; returns a description of a violation, or None."""


class Property(NamedTuple):
    """A law that every domain must obey, checked on traces.

    Attributes:
        name: Name of the property; its test is `test_<name>`.
        sentence: The property, as a sentence.
        breach: Function that runs a trace and describes a violation; None if there is none.
        applies: Function that returns whether the property applies to a domain.
    """

    name: str
    sentence: str
    breach: Breach
    applies: Callable[[Domain], bool] = lambda _: True

    def check(self, factory: Factory, trace: Trace) -> None:
        """Run a trace on a new domain of the factory and check the property.

        Raises:
            PropertyViolation: The domain violates it.
        """
        runner = TraceRunner(factory)
        finding = self.breach(runner, trace, factory)
        if finding is not None:
            raise PropertyViolation(self.sentence, trace, runner, finding)

    def check_smaller(self, factory: Factory, broken: PropertyViolation) -> None:
        """Remove the parts of a violating trace that are not needed for the violation.

        Raises:
            PropertyViolation: With the smallest violating trace that was found.
        """
        parts = smaller(broken.trace)
        while (trace := next(parts, None)) is not None:
            try:
                self.check(factory, trace)
            except PropertyViolation as again:
                broken, parts = again, smaller(trace)
        raise broken from None


def _check_never_raises(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    for step in trace:
        runner.run(step)
        for where, error in runner.faults:
            remedy = (
                " Delete in `on_remove` what `on_register` creates: an agent may come again."
                if where.startswith("on_register of ")
                else ""
            )
            return (
                f"{where} raised {type(error).__name__}: {error}. The kernel contains it; return a "
                f"refusal instead, which tells the agent what to change.{remedy}"
            )
    return None


def _check_refusal_leaves_state(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    for step in one_by_one(trace):
        before = whole(runner.kernel.tree)
        verdicts = runner.run(step)
        if not verdicts or verdicts[0].admitted:
            continue
        after = whole(runner.kernel.tree)
        if after != before:
            change = difference(before, after)
            return (
                f"{change} though the batch was refused. Write through the draft, and only there."
            )
    return None


def _check_dry_run_matches(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    for step in one_by_one(trace):
        if not isinstance(step, Propose):
            runner.run(step)
            continue
        before = whole(runner.kernel.tree)
        trial = _outcome(runner.try_out(step))
        after = whole(runner.kernel.tree)
        real = _outcome(runner.run(step)[0])
        if after != before:
            return f"{difference(before, after)} though the last batch was only tried."
        if not _agree(trial, real):
            return (
                f"Tried before, the last batch was {trial}; in earnest it is {real}. A rule may "
                "remember nothing but in the state, and know nothing but the state and the intent."
            )
    return None


def _check_replay(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    tree = runner.run_all(trace).kernel.tree
    advice = "Write through the draft, and only there: other writes are not in the log."
    try:
        past = folded(runner.log)
    except Divergence as error:
        return f"{error}. {advice}"
    live, again = whole(tree), whole(past.state)
    if live != again:
        return f"{difference(live, again)} after a replay. {advice}"
    if world_digest(past.state, past.ledger).hex() != runner.kernel.world_digest():
        return f"The values are the same, who changed them when is not. {advice}"
    return None


def _check_re_execution(runner: TraceRunner, trace: Trace, factory: Factory) -> str | None:
    runner.run_all(trace)
    advice = (
        "A rule may know nothing but the state and the intent: no global, no clock, no memory of "
        "its own, no order of a set; chance comes from `draft.draw`."
    )
    again = Verifier([factory()])
    try:
        for data in runner.log:
            again.apply(data)
    except Divergence as error:
        return f"{error}. {advice}"
    if again.unverified:
        return (
            f"A second domain of the same factory may not decide it again: "
            f"{again.unverified[0].why}. Name, version and kinds must be the same each time."
        )
    return None


def _check_group(runner: TraceRunner, trace: Trace, factory: Factory) -> str | None:
    alone = TraceRunner(factory)
    alone.kernel.joins_batches = False
    advice = "A rule may depend on nothing but the draft and its intent."
    for step in trace:
        together, apart = runner.run(step), alone.run(step)
        for first, second in zip(together, apart, strict=True):
            if first.as_dict() != second.as_dict():
                return (
                    f"Decided together, the last batches are {_texts(together)}; one by one, "
                    f"{_texts(apart)}. {advice}"
                )
        if runner.kernel.world_digest() != alone.kernel.world_digest():
            trees = whole(runner.kernel.tree), whole(alone.kernel.tree)
            change = difference(*trees) if trees[0] != trees[1] else "the ledger differs"
            return f"{change} where the last batches were decided one by one. {advice}"
        faults = [[(f.where, repr(f.error)) for f in r.faults] for r in (runner, alone)]
        if faults[0] != faults[1]:
            return f"The faults differ: {faults[0]}, and one by one {faults[1]}. {advice}"
    return None


def _check_intent_unchanged(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    rules, seen = runner.kernel.registry.rules, list[str]()
    for name, rule in rules.items():
        rules[name] = _watched(name, rule, seen)
    for step in trace:
        runner.run(step)
        if seen:
            return (
                f"{seen[0]} An intent is what was sent, and so the log shows it. What was applied "
                "in its place is said by `draft.normalize`."
            )
    return None


def _watched(kind: str, rule: Rule, seen: list[str]) -> Rule:
    """Return the rule of a kind, which records a change of its intent in `seen`."""

    def watched(draft: Draft, intent: Intent) -> RuleRefusal | None:
        sent = canonical(intent)
        answer = rule(draft, intent)
        left = canonical(intent)
        if left != sent:
            was, now = (from_canonical(data)["payload"] for data in (sent, left))
            change = f"a payload {was} into {now}" if was != now else "its intent"
            seen.append(f"The rule of {kind} rewrote {change}.")
        return answer

    return watched


def _check_normalization(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    for step in one_by_one(trace):
        if isinstance(step, Propose):
            once = _normalized(runner.try_out(step))
            if once is not None:
                again = runner.try_out(step, once)
                twice = _normalized(again)
                if canonical(twice) != canonical(once):
                    runner.run(step)
                    outcome = f"comes out as {twice}" if again.admitted else f"is {_outcome(again)}"
                    return (
                        f"The last batch is normalized to {once}; proposed in its place, that "
                        f"{outcome}. What the log shows must mean what was applied."
                    )
        runner.run(step)
    return None


def _check_invariants(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    tree = runner.kernel.tree
    for step in trace:
        runner.run(step)
        refs = [Ref(name, entity) for name in sorted(tree.collections) for entity in tree.ids(name)]
        for violation in runner.domain.invariants(tree, refs):
            return (
                f"Judged over all entities, {violation.code}: {violation.message}. No batch, and "
                "no hook, may leave a state in which an invariant does not hold."
            )
    return None


def _check_visibility(runner: TraceRunner, trace: Trace, factory: Factory) -> str | None:
    tree = runner.run_all(trace).kernel.tree
    before, dumped = whole(tree), tree.dump()
    other, same = factory(), State.load(thaw(dumped))
    for name in sorted(tree.collections):
        for ref in [Ref(name), *(Ref(name, entity) for entity in tree.ids(name))]:
            for agent_id in AGENTS:
                first = runner.domain.may_see(tree, agent_id, ref)
                answers = [first, runner.domain.may_see(tree, agent_id, ref)]
                answers.append(other.may_see(same, agent_id, ref))
                if any(answer is not first for answer in answers):
                    listed = ", ".join(map(repr, answers))
                    return (
                        f"May {agent_id} see {ref.collection}/{ref.entity or '*'}? Asked three "
                        f"times of the same state, the last time another domain of the factory, "
                        f"the answers are {listed}."
                    )
    after = whole(tree)
    return None if after == before else f"{difference(before, after)} by looking at it."


def _check_settings(runner: TraceRunner, trace: Trace, _: Factory) -> str | None:
    domain = runner.domain
    settings = runner.kernel.registry.settings[domain.name]
    maker = type(domain)
    try:
        again = TraceRunner(lambda: maker(**settings))
    except (TypeError, ValueError) as error:
        return f"{maker.__name__}(**{settings}), which its settings say, raised: {error}."
    said = again.kernel.registry.settings.get(domain.name)
    if said != settings:
        return f"Made of {settings}, it says that its settings are {said}."
    if again.kernel.registry.fingerprint != runner.kernel.registry.fingerprint:
        ours, theirs = domain.version, again.domain.version
        return f"Made of its settings, it is another: version {theirs!r}, not {ours!r}."
    for step in trace:
        first, second = runner.run(step), again.run(step)
        if list(map(_outcome, first)) != list(map(_outcome, second)):
            return (
                f"Recreated from its settings {settings}, it answers {_texts(second)}, not "
                f"{_texts(first)}: `settings` omits something."
            )
    if runner.kernel.digest() != again.kernel.digest():
        change = difference(whole(runner.kernel.tree), whole(again.kernel.tree))
        return f"Recreated from its settings {settings}, {change} in the first."
    return None


def _texts(verdicts: list[Verdict]) -> str:
    return "; ".join(str(_outcome(verdict)) for verdict in verdicts)


def _normalized(verdict: Verdict) -> list[Json] | None:
    if not verdict.admitted:
        return None
    return [thaw(result.normalized) for result in verdict.results]


class _Outcome(NamedTuple):
    """The guaranteed parts of a verdict, and its texts."""

    admitted: bool
    answers: list[Json]

    def __str__(self) -> str:
        if self.admitted:
            return "admitted" + "".join(
                f" as {answer['normalized']}"
                + (f" with {answer['warnings']}" if answer["warnings"] else "")
                for answer in self.answers
            )
        return "refused, " + "; ".join(f"{a['code']}: {a['message']}" for a in self.answers)


def _outcome(verdict: Verdict) -> _Outcome:
    answers = verdict.results if verdict.admitted else verdict.refusals
    return _Outcome(verdict.admitted, [answer.as_dict() for answer in answers])


def _agree(trial: _Outcome, real: _Outcome) -> bool:
    """Return whether a dry run and a real run have equal outcomes, except undecided outputs."""
    expected = [
        _without_output(answer) if _NOTICE in tried.get("warnings", ()) else answer
        for tried, answer in zip(trial.answers, real.answers, strict=False)
    ]
    return trial.admitted == real.admitted and trial.answers == expected


def _without_output(answer: Mapping[str, Json]) -> dict[str, Json]:
    """Return the answer of a dry run that leaves the output of the intent undecided."""
    rest = {name: value for name, value in answer.items() if name != "output"}
    return {**rest, "warnings": [*answer["warnings"], _NOTICE]}


def _has_own(hook: str) -> Callable[[Domain], bool]:
    return lambda domain: getattr(type(domain), hook) is not getattr(Domain, hook)


PROPERTIES: Final = (
    Property(
        "rules_never_raise",
        "Rules and hooks return a refusal; they never raise.",
        _check_never_raises,
    ),
    Property(
        "a_rule_changes_nothing_but_its_draft",
        "A rule does not change its intent.",
        _check_intent_unchanged,
    ),
    Property(
        "a_group_equals_its_batches",
        "Batches decided together get the verdicts that they get one by one.",
        _check_group,
    ),
    Property(
        "a_refused_batch_changes_nothing",
        "A refused batch changes nothing.",
        _check_refusal_leaves_state,
    ),
    Property(
        "a_dry_run_matches_the_real_run",
        "A dry run has the verdict of the real run and changes nothing.",
        _check_dry_run_matches,
    ),
    Property(
        "a_replay_gives_the_same_state",
        "A replay of the log, which runs no rule, gives the same state and digest.",
        _check_replay,
    ),
    Property(
        "re_execution_gives_the_same_log",
        "Re-execution of the same inputs gives the same log.",
        _check_re_execution,
    ),
    Property(
        "crashes_change_nothing",
        "A world that crashes between its steps, and is sent them again, ends as without crashes.",
        crash_breach,
    ),
    Property(
        "draws_do_not_depend_on_the_order_of_registration",
        "An agent first draws the same number in any order of registration.",
        registration_breach,
        _has_own("on_register"),
    ),
    Property(
        "normalization_is_idempotent",
        "A normalized payload, proposed again, is accepted and stays unchanged.",
        _check_normalization,
    ),
    Property(
        "invariants_hold_after_every_step",
        "All invariants hold for the whole state after every step.",
        _check_invariants,
        _has_own("invariants"),
    ),
    Property(
        "read_sets_are_complete",
        "An intent has another outcome only if something that its kind reads has changed.",
        footprint_breach,
        has_footprints,
    ),
    Property(
        "visibility_is_pure",
        "Visibility is a function of the state, and asking for it changes nothing.",
        _check_visibility,
        _has_own("may_see"),
    ),
    Property(
        "interest_index_is_complete",
        "The interest index names every agent whose visibility changes.",
        sight_breach,
        has_sight,
    ),
    Property(
        "hidden_collections_are_named",
        "A collection that `hides` does not name is shown whole to every agent.",
        hides_breach,
        has_shown_collections,
    ),
    Property(
        "hidden_changes_alter_no_answer",
        "Entities hidden from an agent change none of its answers.",
        noninterference_breach,
        hides_anything,
    ),
    Property(
        "settings_recreate_the_domain",
        "A domain recreated from its settings is the same domain.",
        _check_settings,
        lambda domain: domain.settings() is not None,
    ),
)
