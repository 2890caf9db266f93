"""Each property finds the domain that is made to violate it, and the message names the fault."""

import re
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from placet.kernel.plugin.registry import Registry
from placet.testing import PropertyViolation, domain_property_tests
from placet.testing import hash_order_property as hash_order
from placet.testing.hash_order_property import NAME as ORDER_OF_SETS
from placet.testing.properties import PROPERTIES
from placet.testing.trace import (
    Join,
    Leave,
    Proposal,
    Propose,
    Settle,
    Trace,
    TraceRunner,
    Wait,
    smaller,
)
from placet.testing.trace_generator import traces
from tests.kernel.domains import Lab
from tests.testing.faulty_domains import (
    CONTROLS,
    Candid,
    Clumsy,
    Dated,
    Frank,
    Lucky,
    Purses,
    Unwary,
)

_EXAMPLES = {ORDER_OF_SETS: 40}
"""The other properties stop at the first violating trace; this one runs all traces."""

TestPurses = domain_property_tests(Purses, examples=15)
NAMES = [*(law.name for law in PROPERTIES), ORDER_OF_SETS]


@pytest.fixture(autouse=True)
def same_traces_each_time():
    """Draw the same traces in every run, so that the smallest failing trace is the same."""
    before = settings.get_current_profile_name()
    settings.register_profile("same traces", derandomize=True, database=None)
    settings.load_profile("same traces")
    yield
    settings.load_profile(before)


def broken(laws, name) -> PropertyViolation:
    with pytest.raises(PropertyViolation) as raised:
        getattr(laws(), f"test_{name}")()
    return raised.value


LATE = {
    "Envious": pytest.mark.slow,
    "Indiscreet": pytest.mark.slow,
    "Sly": pytest.mark.soak,  # it violates the property of Envious
}
"""Controls that some hundred traces precede."""


@pytest.mark.parametrize(
    ("factory", "law", "seen"),
    [
        pytest.param(
            *control,
            marks=LATE.get(control[0].__name__, ()),
            id=f"{control[0].__name__}-{control[1]}",
        )
        for control in CONTROLS
    ],
)
def test_each_faulty_domain_violates_its_property(factory, law, seen):
    error = broken(domain_property_tests(factory, examples=_EXAMPLES.get(law, 400)), law)
    assert str(error).startswith(f"the domain 'odd' violates a property: {error.sentence}\n")
    assert re.search(seen, error.finding), error.finding


def test_every_property_has_a_faulty_domain():
    assert {law for _, law, _ in CONTROLS} == set(NAMES)


def test_the_message_shows_the_smallest_trace():
    error = broken(domain_property_tests(Unwary, examples=400), "rules_never_raise")
    who = error.story[0].split()[0]
    assert error.story == (
        f"{who} joins",
        f'{who} proposes Put {{"coins": 3}}: refused, rule_error',
    )
    assert str(error) == (
        "the domain 'odd' violates a property: "
        "Rules and hooks return a refusal; they never raise.\n"
        "The smallest trace that violates it:\n"
        f"  1. {who} joins\n"
        f'  2. {who} proposes Put {{"coins": 3}}: refused, rule_error\n'
        "rule of Put raised ZeroDivisionError: integer division or modulo by zero. The kernel "
        "contains it; return a refusal instead, which tells the agent what to change."
    )


def test_a_property_that_does_not_apply_makes_no_test():
    names = {name for name in vars(domain_property_tests(Purses)) if name.startswith("test_")}
    silent = {"invariants_hold_after_every_step", "visibility_is_pure"}
    silent |= {"settings_recreate_the_domain", "interest_index_is_complete"}
    silent |= {"hidden_collections_are_named", "hidden_changes_alter_no_answer"}
    assert names == {f"test_{name}" for name in NAMES} - {f"test_{name}" for name in silent}


@pytest.mark.slow
def test_revalidated_entities_may_change_the_outcome():
    # Envious, which says nothing of it, is caught in its 134th trace.
    domain_property_tests(Candid, examples=200)().test_read_sets_are_complete()


LAWS = {law.name: law for law in PROPERTIES}


@pytest.mark.parametrize(
    ("law", "factory", "steps"),
    [
        (
            "a_dry_run_matches_the_real_run",
            Dated,
            (Join("ann", {}), Propose(0.0, ((Proposal("ann", "Put", {"coins": 1}, 0),),))),
        ),
        (
            "crashes_change_nothing",
            Purses,
            (Propose(0.25, ((Proposal("ann", "Put", {"coins": 1}, 0),),)), Join("ann", {})),
        ),
    ],
    ids=["undecided output", "time of an unlogged refusal"],
)
def test_a_correct_domain_has_the_property_in_this_trace(law, factory, steps):
    LAWS[law].check(factory, steps)


def test_later_draws_of_a_registration_may_depend_on_the_other_agents():
    laws = domain_property_tests(Lucky, examples=25)
    laws().test_draws_do_not_depend_on_the_order_of_registration()


@pytest.mark.slow
def test_a_kind_may_tell_what_it_says_that_it_discloses():
    laws = domain_property_tests(Frank, examples=100)
    laws().test_hidden_changes_alter_no_answer()


@pytest.mark.slow
def test_staleness_that_tells_of_hidden_changes_is_found(monkeypatch):
    """The fault is in the core: the gate asks nobody who may see what has changed."""
    may_see = Registry.may_see

    def planted(*arguments):
        return sys._getframe(1).f_code.co_name == "_footprints" or may_see(*arguments)

    monkeypatch.setattr(Registry, "may_see", planted)
    error = broken(domain_property_tests(Frank, examples=400), "hidden_changes_alter_no_answer")
    assert "is stale_context: odd.purses/" in error.finding


def test_a_property_can_be_omitted():
    laws = domain_property_tests(Purses, without=["read_sets_are_complete"])
    assert not hasattr(laws, "test_read_sets_are_complete")
    with pytest.raises(ValueError, match=r"no property 'kindness'; there are rules_never_raise, "):
        domain_property_tests(Purses, without=["kindness"])


def test_payloads_of_an_unknown_kind_are_refused():
    with pytest.raises(ValueError, match=r"names the kind 'Pat'; the domain has Put, Give"):
        domain_property_tests(Purses, intents={"Pat": st.none()})


def test_payloads_and_attributes_can_be_given():
    never_three = {"Put": st.fixed_dictionaries({"coins": st.sampled_from([1, 2])})}
    domain_property_tests(Unwary, intents=never_three, examples=25)().test_rules_never_raise()
    with_coins = {"coins": 1}
    domain_property_tests(Clumsy, attributes=with_coins, examples=25)().test_rules_never_raise()


def test_a_factory_that_cannot_be_pickled_skips_the_hash_order_property():
    laws = domain_property_tests(lambda: Purses(), examples=1)  # noqa: PLW0108  # the point of it
    with pytest.raises(SkipTest, match="a class or a function of a module"):
        getattr(laws(), f"test_{ORDER_OF_SETS}")()


def test_a_failed_process_is_reported():
    with pytest.raises(RuntimeError, match=r"(?s)failed:.*FileNotFoundError"):
        hash_order.check(Path("no such file").read_bytes, [()])  # type: ignore[arg-type]  # no factory


def test_without_hypothesis_the_extra_is_named():
    program = "import sys; sys.modules['hypothesis'] = None; import placet.testing"
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "pip install '.[testing]' in a clone of placet" in outcome.stderr


# a trace, as it is told and lived


def test_a_trace_prints_as_sentences():
    trace: Trace = [
        Join("ann", {"count": 3}),
        Join("ann", {"count": 4}),
        Propose(1.5, ((Proposal("ann", "Mail", {"count": 1}),), (Proposal("ann", "Nap", {}, 2),))),
        Settle(succeeded=False, output="lost"),
        Settle(succeeded=True, output=None),
        Wait(2.0),
        Join("cyd", {"count": -1}),
        Leave("ann"),
        Leave("ann"),
    ]
    runner = TraceRunner(Lab).run_all(trace)
    assert runner.story == [
        'ann joins with {"count": 3}',
        'ann joins with {"count": 4}',
        (
            'after 1.5 s ann proposes Mail {"count": 1}; '
            "ann proposes Nap {}, having looked 2 seqs ago: admitted; refused, kind_unknown"
        ),
        'the oldest open effect fails with "lost"',
        "the oldest open effect succeeds with null",
        "2 s pass",
        'cyd joins with {"count": -1}: refused, on_register: count must not be negative',
        "ann leaves",
        "ann leaves",
    ]
    assert runner.faults == []
    assert runner.kernel.open_effects() == []


def test_running_a_trace_twice_gives_the_same_log():
    trace: Trace = [Join("ann", {}), Propose(1.0, ((Proposal("ann", "Add", {"amount": 1}),),))]
    assert TraceRunner(Lab).run_all(trace).log == TraceRunner(Lab).run_all(trace).log


def test_equal_proposals_in_two_steps_have_different_req_ids():
    again = Propose(0.0, ((Proposal("ann", "Add", {"amount": 1}),),))
    runner = TraceRunner(Lab).run_all([Join("ann", {}), again, again])
    assert runner.kernel.tree.get("lab.counts", "ann", "count") == 2


def test_proposals_come_from_registered_agents():
    seen = []

    @settings(max_examples=40, database=None, phases=[Phase.generate])
    @given(traces(Purses, {}, {}))
    def gather(trace):
        there = set()
        for step in trace:
            if isinstance(step, Join):
                there.add(step.agent_id)
            elif isinstance(step, Leave):
                there.discard(step.agent_id)
            elif isinstance(step, Propose) and there:
                seen.append({p.agent_id for batch in step.batches for p in batch} <= there)

    gather()
    assert len(seen) > 20
    assert all(seen)


def test_smaller_traces_lack_one_part():
    one, two = Proposal("ann", "Add", {"amount": 1}), Proposal("ann", "Add", {"amount": 2})
    trace: Trace = (Wait(1.0), Propose(0.0, ((one, two), (two,))))
    assert list(smaller(trace)) == [
        (Propose(0.0, ((one, two), (two,))),),
        (Wait(1.0),),
        (Wait(1.0), Propose(0.0, ((two,),))),
        (Wait(1.0), Propose(0.0, ((two,), (two,)))),
        (Wait(1.0), Propose(0.0, ((one,), (two,)))),
        (Wait(1.0), Propose(0.0, ((one, two),))),
    ]
