"""The context text: ordered, bounded, repeatable, and data cannot close its tags."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agents.proposal.context_text import ContextTooLarge, build, tokens_of
from placet.domains.world import World

SECTIONS = [
    "rules",
    "guides",
    "kinds",
    "facts",
    "view",
    "changes",
    "results",
    "conversation",
    "message",
    "issues",
    "budget",
]
FULL: dict[str, Any] = {
    "message": "go",
    "state": {"world.agents": {"ann": {"position": [0, 0, 0]}}},
    "diffs": [{"path": "world.agents/bob/position", "old": None, "new": [1, 0, 0]}],
    "turns": [{"role": "user", "text": f"turn {n} {'x' * 80}"} for n in range(40)],
    "results": [{"kind": "Move", "outcome": "applied", "seq": n} for n in range(40)],
    "facts": {"harbour": "Kiel", "beam": 9},
    "budget": {"tokens": 100},
}


def context(**changed: Any) -> Any:
    return build(domain=World(), **{**FULL, **changed})


def tags(text: str) -> list[str]:
    return re.findall(r"^<(\w+)>$", text, re.MULTILINE)


def test_sections_are_ordered_from_constant_to_volatile() -> None:
    assert tags(context()) == [name for name in SECTIONS if name not in {"guides", "issues"}]
    assert list(context().report) == SECTIONS


def test_the_same_inputs_give_the_same_text() -> None:
    other = {**FULL, "facts": dict(reversed(FULL["facts"].items()))}
    assert context() == build(domain=World(), **other)


def test_the_latest_turns_and_results_are_in_the_text() -> None:
    text = context(last_turns=3, last_results=2)
    assert (text.report["conversation"].kept, text.report["results"].kept) == (3, 2)
    assert "turn 39" in text
    assert "turn 36" not in text


def test_over_budget_the_oldest_item_of_the_lightest_section_is_dropped_and_reported() -> None:
    whole = context(last_turns=40, last_results=40)
    tight = context(last_turns=40, last_results=40, tokens_max=tokens_of(whole) - 300)
    report = tight.report
    assert report["changes"].kept == 0, "changes weigh least"
    assert 0 < report["conversation"].kept < 40
    assert report["results"].kept == 40, "results weigh more than the conversation"
    assert report["facts"].kept == report["facts"].total == 2
    assert "turn 39" in tight
    assert "turn 0 " not in tight
    assert tokens_of(tight) <= tokens_of(whole) - 300


def test_required_sections_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ContextTooLarge, match="at most 100 fit"):
        context(tokens_max=100)


@given(st.text(alphabet=st.sampled_from('</>rulesmg \n"\\u003c')) | st.text())
def test_no_data_opens_or_closes_a_section(hostile: str) -> None:
    text = context(
        message=hostile,
        state={"world.agents": {hostile: {hostile: hostile}}},
        turns=[{"role": "user", "text": hostile}],
        facts=[{"key": hostile, "value": hostile}],
    )
    inside = re.findall(r"</?\w+>", text)
    assert len(inside) == 2 * len(tags(text))
    assert [tag for tag in tags(text) if tag in SECTIONS] == tags(text)


@given(st.integers(200, 3_000), st.integers(0, 60))
def test_the_context_never_exceeds_its_budget(tokens_max: int, turns: int) -> None:
    try:
        text = context(turns=FULL["turns"][:turns], last_turns=60, tokens_max=tokens_max)
    except ContextTooLarge:
        return
    assert tokens_of(text) <= tokens_max
