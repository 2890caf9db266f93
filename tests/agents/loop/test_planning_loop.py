"""Ends of a turn, as a table: pure functions of an answer and of the counters."""

from decimal import Decimal
from typing import Any

import pytest

from placet.agents.loop.planning_loop import (
    PlanningLoop,
    TurnUsage,
    after_invalid,
    after_refused,
    over_budget,
)
from placet.agents.loop.turn_lease import TurnLease
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput, PlannerUnavailable, Usage
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.modes import MODES
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.view_json import changes_between, facts_in
from tests.agents.till import Till

MENDABLE = [Issue(code="json_invalid", message="m")]
FINAL = [Issue(code="json_invalid", message="m"), Issue(code="policy_denied", message="no")]


@pytest.mark.parametrize(
    ("issues", "is_new", "repairs", "stop"),
    [
        (MENDABLE, True, 1, None),
        (MENDABLE, True, 2, None),
        (MENDABLE, True, 3, "repair_exhausted"),
        (MENDABLE, False, 1, "repair_no_progress"),
        (MENDABLE, False, 3, "repair_no_progress"),
        (FINAL, True, 1, "policy_denied"),
        (FINAL, False, 3, "policy_denied"),
    ],
)
def test_the_end_after_an_invalid_answer(
    issues: list[Issue], is_new: bool, repairs: int, stop: str | None
) -> None:
    end = after_invalid(issues, is_new, TurnUsage(repairs=repairs), AgentLimits())
    assert (end and end.stop) == stop


@pytest.mark.parametrize(
    ("mode", "attempts_max", "attempts", "stop"),
    [
        ("interactive", 3, 1, "attempts_exhausted"),
        ("assisted", 3, 1, None),
        ("assisted", 3, 2, "attempts_exhausted"),
        ("autonomous", 3, 2, None),
        ("autonomous", 3, 3, "attempts_exhausted"),
        ("autonomous", 1, 1, "attempts_exhausted"),
        ("autonomous", 9, 3, "attempts_exhausted"),
    ],
)
def test_the_end_after_a_refused_plan(
    mode: str, attempts_max: int, attempts: int, stop: str | None
) -> None:
    limits = AgentLimits(attempts_max=attempts_max)
    end = after_refused(MENDABLE, True, TurnUsage(attempts=attempts), limits, MODES[mode])
    assert (end and end.stop) == stop


@pytest.mark.parametrize(
    ("usage", "limits", "seconds", "is_priced", "stop"),
    [
        (Usage(), {}, 1.0, True, None),
        (Usage(), {}, 0.0, True, "deadline_exceeded"),
        (Usage(1, 20, 20), {"tokens_max": 50}, 1.0, True, None),
        (Usage(1, 20, 21), {"tokens_max": 50}, 1.0, True, "tokens_exhausted"),
        (Usage(1, 0, 0, Decimal("0.99")), {}, 1.0, True, None),
        (Usage(1, 0, 0, Decimal("1.00")), {}, 1.0, True, "cost_exhausted"),
        (Usage(1, 0, 0, Decimal(9)), {"cost_usd_max": None}, 1.0, True, None),
        (Usage(), {"cost_usd_max": 0}, 1.0, True, None),
        (Usage(1, 20, 20), {"cost_usd_max": 0}, 1.0, True, None),
        (Usage(1, 0, 0, Decimal("0.01")), {"cost_usd_max": 0}, 1.0, True, "cost_exhausted"),
        (Usage(0, 0, 0, Decimal("1.00")), {}, 1.0, True, "cost_exhausted"),
        (Usage(1, 0, 0, None), {}, 1.0, True, "cost_unknown"),
        (Usage(), {}, 1.0, False, "cost_unknown"),
        (Usage(), {"cost_usd_max": None}, 1.0, False, None),
        (Usage(1, 0, 0, None), {"on_unknown_price": "tokens_only"}, 1.0, False, None),
        (Usage(1, 0, 0, None), {"on_unknown_price": "tokens_only"}, 1.0, True, None),
        (Usage(1, 0, 0, Decimal(9)), {"on_unknown_price": "tokens_only"}, 1.0, False, None),
        (
            Usage(1, 0, 0, Decimal(9)),
            {"on_unknown_price": "tokens_only"},
            1.0,
            True,
            "cost_exhausted",
        ),
    ],
)
def test_the_budget_of_the_next_request(
    usage: Usage, limits: dict[str, Any], seconds: float, is_priced: bool, stop: str | None
) -> None:
    counters = TurnUsage(usage=usage, seconds_left=seconds)
    end = over_budget(counters, AgentLimits(**limits), 10, is_priced)
    assert (end and end.stop) == stop


@pytest.mark.parametrize(("stopped_in", "requests"), [("look", 0), ("answer", 1), ("failure", 0)])
async def test_a_turn_that_is_stopped_takes_no_answer(stopped_in: str, requests: int) -> None:
    """At any point of the request; the cost of the answer counts all the same."""
    said: list[int] = []

    async def look(_counters: TurnUsage) -> PlannerInput:
        if stopped_in == "look":
            proposing.stop()
        return PlannerInput("go", "", 0, Catalogue(Till()))

    async def ask(number: int, _context: PlannerInput) -> PlannerOutput:
        said.append(number)
        proposing.stop()
        if stopped_in == "failure":
            raise PlannerUnavailable("gone")
        return PlannerOutput(text="too late", usage=Usage(1, 2, 3))

    proposing = PlanningLoop(
        None,  # type: ignore[arg-type]  # `ask` answers
        plan_executor=None,  # type: ignore[arg-type]  # nothing gets there
        mode=MODES["assisted"],
        limits=AgentLimits(cost_usd_max=None),
        look=look,
        ask=ask,
        lease=TurnLease(None, None),  # type: ignore[arg-type]  # takes none
        clock=lambda: 0.0,
    )
    end = await proposing.run()
    assert (end.outcome, end.stop) == ("refused", "operator_stopped")
    assert said == ([] if stopped_in == "look" else [1])
    assert proposing.counters.usage.requests == requests
    assert proposing.attempts == []


def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    known, unknown = Usage(1, 2, 3, Decimal("0.5")), Usage(1, 2, 3, None)
    assert known.plus(known) == Usage(2, 4, 6, Decimal("1.0"))
    assert known.plus(unknown).cost_usd is None


def test_changes_between_two_states_are_listed_by_field() -> None:
    old = {"a": {"x": {"n": 1, "m": [1]}, "gone": {"n": 0}}}
    new: dict[str, Any] = {"a": {"x": {"n": 2, "m": [1]}}, "b": {"y": {"n": 3}}}
    assert changes_between(old, new) == [
        {"path": "a/gone", "old": {"n": 0}, "new": None},
        {"path": "a/x/n", "old": 1, "new": 2},
        {"path": "b/y", "old": None, "new": {"n": 3}},
    ]
    assert changes_between({"a": {"x": {"n": [1]}}}, {"a": {"x": {"n": [True]}}}) == [
        {"path": "a/x/n", "old": [1], "new": [True]}
    ]
    assert changes_between(None, new) == [], "there is no earlier view to compare with"


def test_facts_of_the_memory_domain_are_listed_oldest_first() -> None:
    view = {
        "memory.facts": {
            "b": {"key": "b", "value": 2, "seq": 9},
            "a": {"key": "a", "value": [1], "seq": 12},
            "odd": {"key": "odd"},
        },
        "other.facts": {"x": {"key": "x", "value": 1, "seq": 1}},
    }
    assert [fact["key"] for fact in facts_in(view)] == ["b", "a"]
