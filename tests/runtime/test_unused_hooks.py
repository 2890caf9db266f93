"""A domain's `on_tick` that the world's clock never runs is reported when the world is opened."""

import pytest

from placet import Orchestrator, OrchestratorConfig
from tests.kernel.domains import Annex, Lab


@pytest.mark.parametrize(("clock", "count"), [("realtime", 1), ("stepped", 0)])
async def test_an_on_tick_that_never_runs_is_reported_once(capsys, clock, count):
    async with Orchestrator([Lab(), Annex()], OrchestratorConfig(clock=clock)):
        pass
    assert capsys.readouterr().err.count("on_tick of lab never runs with clock='realtime'") == count
