"""A notebook shows a world, a kernel, a view and a verdict: small, and every text escaped."""

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.domains.world import World
from placet.schemas.html_table import ROWS_MAX, html_table
from placet.schemas.view import View
from tests.kernel.builders import add, intent, kernel_of

HOSTILE = "<img src=x onerror=alert(1)>"
ESCAPED = "&lt;img src=x onerror=alert(1)&gt;"


def test_a_table_is_short_and_escaped():
    text = html_table(HOSTILE, [HOSTILE], [[HOSTILE], ["x" * 10_000]])
    assert HOSTILE not in text
    assert text.count(ESCAPED) == 3
    assert len(text) < 1_000
    many = html_table("c", ["n"], ([n] for n in range(10**9)))
    assert many.count("<tr>") == 1 + ROWS_MAX + 1
    assert "…" in many


def test_a_verdict_shows_its_results_or_its_refusals():
    kernel = kernel_of()
    admitted = kernel.decide([add("r1"), add("r2")], 0.0)
    assert "<td>r1</td>" in admitted._repr_html_()
    refused = kernel.decide([intent(HOSTILE, {})], 0.0)
    assert not refused.admitted
    assert refused.refusals[0].code in refused._repr_html_()
    assert HOSTILE not in refused._repr_html_()


def test_a_kernel_and_a_view_show_their_collections():
    kernel = kernel_of(World(), agents=())
    kernel.register_agent(HOSTILE, position=[0, 0])
    assert "<td>world.agents</td><td>1</td>" in kernel._repr_html_()
    view = View(3, 1.5, HOSTILE, {"world.agents": {HOSTILE: {}}})
    assert ESCAPED in view._repr_html_()
    assert "<td>world.agents</td><td>1</td>" in view._repr_html_()
    assert HOSTILE not in view._repr_html_()


async def test_an_orchestrator_shows_its_world():
    world = Orchestrator(World(), OrchestratorConfig(world="<town>"))
    assert "not open" in world._repr_html_()
    async with world:
        text = world._repr_html_()
        assert "&lt;town&gt;" in text
        assert "<town>" not in text
        assert "<td>seq</td>" in text


@pytest.mark.parametrize("value", [None, 3, 1.5, ["a"]])
def test_any_value_is_a_cell(value):
    assert str(value)[:1] in html_table("c", ["x"], [[value]])
