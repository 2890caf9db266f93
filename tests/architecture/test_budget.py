"""No distribution has more code lines than `budget.toml` allows it, or many less."""

import tomllib

from tests.architecture.code_lines import BUDGET, COMMAND, code_lines, counted

SPARE_PERCENT_MAX = 2
"""Room that a budget may leave: above it, deleted lines could come back without a word."""


def breaches(counts: dict[str, int], budget: dict[str, int]) -> list[str]:
    """Return a line for each distribution that is over its budget, far under it, or has none."""
    return [
        f"{name}: {counts.get(name, 0)} code lines, budget {budget.get(name, 0)}"
        for name in sorted(counts | budget)
        if not counts.get(name, 0)
        <= budget.get(name, 0)
        <= counts.get(name, 0) * (100 + SPARE_PERCENT_MAX) // 100
    ]


def test_each_distribution_keeps_its_budget_of_code_lines():
    found = breaches(counted(), tomllib.loads(BUDGET.read_text("utf-8")))
    assert found == [], (
        "delete as many lines as were added, or set the budget anew by\n"
        f"    {COMMAND}\n"
        "and say in the commit what the lines buy and what they replace"
    )


def test_a_budget_that_is_exceeded_unused_or_missing_is_reported():
    counts = {"a": 1001, "b": 900, "c": 1000, "d": 1}
    assert breaches(counts, {"a": 1000, "b": 1000, "c": 1020}) == [
        "a: 1001 code lines, budget 1000",
        "b: 900 code lines, budget 1000",
        "d: 1 code lines, budget 0",
    ]


def test_blank_lines_comments_and_docstrings_are_no_code():
    text = '"""M.\n\nMore.\n"""\n\n# why\nx = """a\n\nb"""  # three lines\n\ndef f():\n    "D."\n'
    assert code_lines(text) == 4
