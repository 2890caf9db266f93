"""The decisions in docs/decisions have numbers of their own."""

from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"


def test_each_decision_has_its_own_number():
    pages = sorted(DECISIONS.glob("*.md"))
    numbers = [page.name[:4] for page in pages]
    assert numbers == [f"{number:04}" for number in range(len(pages))]
    for page in pages[1:]:
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]}. ")
