"""The table of the stages: enum, decision, single batches and documentation agree with it."""

from pathlib import Path

import pytest

from placet.kernel.decide import batches
from placet.kernel.decide.single import decide
from placet.kernel.gate import FINAL_STAGES, GATE, ON_ARRIVAL, STAGES, WHEN_DUE, RunsAt
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode, Stage
from tests.kernel.builders import add, kernel_of

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "path_of_a_batch.md"
SOURCE = Path(batches.__file__).parents[2]


def test_admission_and_the_seven_stages_have_the_codes_of_the_enum():
    assert [row.stage for row in STAGES] == list(Stage)
    assert [code for row in STAGES for code in row.codes] == list(RefusalCode)
    assert all(STAGE_OF[code] is row.stage for row in STAGES for code in row.codes)
    assert [row.stage for row in GATE] == list(Stage)[1:]
    assert len(GATE) == 7


def test_each_stage_has_its_code_at_its_place():
    assert all((SOURCE / row.place).exists() for row in STAGES)


def test_the_gate_runs_its_stages_in_the_order_of_the_table():
    first = [row.stage for row in GATE if row.check in ON_ARRIVAL]
    assert first == [Stage.AGENT, Stage.DEDUP, Stage.STALENESS, Stage.QUOTA, Stage.BACKPRESSURE]
    again = [row.stage for row in GATE if row.check in WHEN_DUE]
    assert again == [row.stage for row in GATE if row.runs_at is RunsAt.BOTH]
    assert {Stage.STALENESS, Stage.DOMAIN} == FINAL_STAGES


def test_the_page_has_a_line_of_each_stage():
    page = PAGE.read_text(encoding="utf-8")
    for row in STAGES:
        final = "final" if row.is_final else "not final"
        assert f"| {row.stage.value} | {row.runs_at.value} | {row.reads} | {final} |" in page


@pytest.mark.parametrize("count", [1, 2])
def test_a_new_stage_checks_every_batch_also_the_single_ones(monkeypatch, count):
    def refuse_seven(batch, _context):
        amounts = [intent["payload"]["amount"] for intent in batch.intents]
        return [Refusal("seven", "7 is refused", Stage.AGENT)] if 7 in amounts else None

    monkeypatch.setattr(batches, "ON_ARRIVAL", (*ON_ARRIVAL, refuse_seven))
    monkeypatch.setattr(decide, "INLINES_GATE", False)
    verdicts = kernel_of().decide_group([add("a", 7), add("b", 3)][:count])
    assert [verdict.codes for verdict in verdicts] == [("seven",), ()][:count]


def test_the_loop_of_single_batches_inlines_the_stages_after_structure():
    assert decide.INLINES_GATE
    assert {row.stage for row in GATE[1:]} == decide.INLINED
