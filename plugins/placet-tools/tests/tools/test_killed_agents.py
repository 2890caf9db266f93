"""A killed agent that runs again repeats no call that may have been done."""

import json
import tempfile
from pathlib import Path

import pytest
from tests.tools.killed_shop import POINTS, executions

from tests.crash.process_forker import ProcessForker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def forker():
    with pytest.MonkeyPatch.context() as patch:  # `tests.tools` is in the folder of the plug-in
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        modules = ["tests.tools.killed_agents", "anyio._backends._asyncio"]
        with ProcessForker(modules) as forker:
            yield forker


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("framework", ["agent", "node", "openai"])
def test_an_agent_that_was_killed_in_a_tool_repeats_no_call(forker, framework, point):
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="placet-") as folder:
        places = {
            "store": f"sqlite:///{folder}/shop.db",
            "threads": f"{folder}/threads.db",
            "outside": f"{folder}/outside",
            "framework": framework,
        }
        run = "tests.tools.killed_agents:run_once"
        assert forker.fork(run, point=point, **places).wait()[-1]["what"] != "ended"
        before = executions(places["outside"])
        charge, send = forker.fork(run, point="", **places).wait()[-1]["received"]
        ran = executions(places["outside"])
    charged = {line: times for line, times in ran.items() if line.startswith("charge")}
    assert charge == "A"
    assert len(charged) == 1  # again with the same key, if it was under way
    assert ran["send A"] <= 1
    if send == "A":
        assert ran["send A"] == 1
    else:
        assert json.loads(send)["status"] == "doubt"
        assert ran["send A"] == before["send A"]
