"""Each law catches the domain that is made to break it, in words that say which law and how."""

import re
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from placet.testing import PropertyViolation, domain_property_tests
from placet.testing import hash_order_property as hash_order
from placet.testing.hash_order_property import NAME as ORDER_OF_SETS
from placet.testing.properties import LAWS
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
from tests.testing.unlawful import CONTROLS, Candid, Clumsy, Purses, Unwary

_EXAMPLES = {ORDER_OF_SETS: 40}
"""The others stop at the first life that is not lawful; that one lives them all."""

TestPurses = domain_property_tests(Purses, examples=15)
NAMES = [*(law.name for law in LAWS), ORDER_OF_SETS]


@pytest.fixture(autouse=True)
def same_lives_each_time():
    """Draw the same lives in every run: what is said of the smallest is then the same too."""
    before = settings.get_current_profile_name()
    settings.register_profile("same lives", derandomize=True, database=None)
    settings.load_profile("same lives")
    yield
    settings.load_profile(before)


def broken(laws, name) -> PropertyViolation:
    with pytest.raises(PropertyViolation) as raised:
        getattr(laws(), f"test_{name}")()
    return raised.value


@pytest.mark.parametrize(
    ("factory", "law", "seen"), CONTROLS, ids=[f"{c.__name__}-{law}" for c, law, _ in CONTROLS]
)
def test_an_unlawful_domain_is_caught_by_the_law_that_is_meant_for_it(factory, law, seen):
    error = broken(domain_property_tests(factory, examples=_EXAMPLES.get(law, 400)), law)
    assert str(error).startswith(f"the domain 'odd' breaks a law: {error.law}\n")
    assert re.search(seen, error.seen), error.seen


def test_every_law_has_a_domain_that_breaks_it():
    assert {law for _, law, _ in CONTROLS} == set(NAMES)


def test_the_smallest_life_is_told():
    error = broken(domain_property_tests(Unwary, examples=400), "rules_never_raise")
    who = error.story[0].split()[0]
    assert error.story == (
        f"{who} joins",
        f'{who} proposes Put {{"coins": 3}}: refused, rule_error',
    )
    assert str(error) == (
        "the domain 'odd' breaks a law: Rules and hooks answer; they never raise.\n"
        "The smallest life found in which it does:\n"
        f"  1. {who} joins\n"
        f'  2. {who} proposes Put {{"coins": 3}}: refused, rule_error\n'
        "rule Put raised ZeroDivisionError: integer division or modulo by zero. The kernel "
        "contains it; answer a refusal instead, which says to the agent what it may do better."
    )


def test_a_law_that_says_nothing_about_a_domain_is_no_test_of_it():
    names = {name for name in vars(domain_property_tests(Purses)) if name.startswith("test_")}
    silent = {"invariants_hold_after_every_step", "looking_is_pure"}
    silent |= {"settings_make_the_domain_again", "sight_overlooks_nobody"}
    assert names == {f"test_{name}" for name in NAMES} - {f"test_{name}" for name in silent}


def test_what_a_rule_says_that_it_judges_at_its_turn_may_make_a_difference():
    # Envious, which says nothing of it, is caught in its 134th life.
    domain_property_tests(Candid, examples=200)().test_footprints_name_what_matters()


def test_an_author_may_leave_a_law_out():
    laws = domain_property_tests(Purses, without=["footprints_name_what_matters"])
    assert not hasattr(laws, "test_footprints_name_what_matters")
    with pytest.raises(ValueError, match=r"no law 'kindness'; there are rules_never_raise, "):
        domain_property_tests(Purses, without=["kindness"])


def test_payloads_of_a_kind_that_is_not_there_are_refused():
    with pytest.raises(ValueError, match=r"names the kind 'Pat'; the domain has Put, Give"):
        domain_property_tests(Purses, intents={"Pat": st.none()})


def test_an_author_may_say_what_is_proposed_and_how_agents_come():
    never_three = {"Put": st.fixed_dictionaries({"coins": st.sampled_from([1, 2])})}
    domain_property_tests(Unwary, intents=never_three, examples=25)().test_rules_never_raise()
    with_coins = {"coins": 1}
    domain_property_tests(Clumsy, attributes=with_coins, examples=25)().test_rules_never_raise()


def test_a_factory_without_a_name_is_not_asked_of_another_process():
    laws = domain_property_tests(lambda: Purses(), examples=1)  # noqa: PLW0108  # the point of it
    with pytest.raises(SkipTest, match="a class or a function of a module"):
        getattr(laws(), f"test_{ORDER_OF_SETS}")()


def test_another_process_that_fails_is_told_of():
    with pytest.raises(RuntimeError, match=r"(?s)failed:.*FileNotFoundError"):
        hash_order.check(Path("no such file").read_bytes, [()])  # type: ignore[arg-type]  # no factory


def test_without_hypothesis_the_extra_is_named():
    program = "import sys; sys.modules['hypothesis'] = None; import placet.testing"
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "install placet[testing]" in outcome.stderr


# a life, as it is told and lived


def test_a_life_reads_like_sentences():
    life: Trace = [
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
    runner = TraceRunner(Lab).live_all(life)
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


def test_a_life_lived_again_is_the_same_log():
    life: Trace = [Join("ann", {}), Propose(1.0, ((Proposal("ann", "Add", {"amount": 1}),),))]
    assert TraceRunner(Lab).live_all(life).log == TraceRunner(Lab).live_all(life).log


def test_the_same_proposal_a_step_later_is_another():
    again = Propose(0.0, ((Proposal("ann", "Add", {"amount": 1}),),))
    runner = TraceRunner(Lab).live_all([Join("ann", {}), again, again])
    assert runner.kernel.tree.get("lab.counts", "ann", "count") == 2


def test_those_propose_who_are_there():
    seen = []

    @settings(max_examples=40, database=None, phases=[Phase.generate])
    @given(traces(Purses, {}, {}))
    def gather(life):
        there = set()
        for step in life:
            if isinstance(step, Join):
                there.add(step.agent_id)
            elif isinstance(step, Leave):
                there.discard(step.agent_id)
            elif isinstance(step, Propose) and there:
                seen.append({p.agent_id for batch in step.batches for p in batch} <= there)

    gather()
    assert len(seen) > 20
    assert all(seen)


def test_of_each_life_those_that_lack_one_part_are_smaller():
    one, two = Proposal("ann", "Add", {"amount": 1}), Proposal("ann", "Add", {"amount": 2})
    life: Trace = (Wait(1.0), Propose(0.0, ((one, two), (two,))))
    assert list(smaller(life)) == [
        (Propose(0.0, ((one, two), (two,))),),
        (Wait(1.0),),
        (Wait(1.0), Propose(0.0, ((two,),))),
        (Wait(1.0), Propose(0.0, ((two,), (two,)))),
        (Wait(1.0), Propose(0.0, ((one,), (two,)))),
        (Wait(1.0), Propose(0.0, ((one, two),))),
    ]
