"""`placet run` of scenarios with populations: report, verify, a killed run and its resumption."""

import pytest

from tests.cli.command_line import run_process
from tests.scenarios.test_models import SMALL

DOMAINS = {name: f"placet.scenarios.builtin.{name}:{name.capitalize()}" for name in SMALL}

MODEL = """
import os, signal
import numpy as np
from placet.kernel import Domain, Field, Kind, Table

def step(rows):
    rows.write("x", rows.own["x"] + rows.payload["by"] * rows.random_unit("gust"))

class Line(Domain):
    name, version = "line", "1"
    tables = (Table("line.dots", {"x": Field("f8")}),)
    kinds = (Kind("Step", {"by": Field("f8")}, rows=step, table="line.dots"),)

def walk(view):
    if view.tick == 4 and os.path.exists("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"Step": {"by": view.random_unit("step")}}
"""

SCENARIO = """
domain = "dots:Line"
ticks = 9

[populations.dots]
count = 50
table = "line.dots"
policy = "dots:walk"
"""


@pytest.mark.parametrize("name", SMALL)
def test_bundled_model_runs_by_its_name_and_its_log_verifies(placet, name):
    settings = [word for override in SMALL[name] for word in ("--set", override)]
    ran = placet("run", name, *settings, "--store", f"{name}.db", "--json")
    assert ran.code == 0, ran.err
    report = ran.json()
    assert report["agents"] == sum(
        int(override.partition("=")[2]) for override in SMALL[name] if ".count=" in override
    )
    assert report["digest"] == placet("run", name, *settings, "--json").json()["digest"]
    verified = placet("verify", f"{name}.db", "--domain", DOMAINS[name])
    assert verified.code == 0, verified.err
    assert report["digest"] in verified.out
    assert "Not re-executed" not in verified.out


def test_report_has_the_command_that_verifies_its_log(placet):
    out = placet("run", "wealth", "--set", "ticks=2", "--store", "wealth.db").out
    assert "100 agents, 2 ticks" in out
    assert "    placet verify wealth.db\n" in out  # the domain of a bundled scenario is found
    verified = placet("verify", "wealth.db")
    assert (verified.code, "Not re-executed" in verified.out) == (0, False)


@pytest.mark.slow
def test_killed_run_resumes_to_the_digest_of_a_run_without_a_break(tmp_path):
    (tmp_path / "dots.py").write_text(MODEL)
    (tmp_path / "dots.toml").write_text(SCENARIO)
    whole = run_process("run", "dots.toml", "--store", "whole.db", "--json", folder=tmp_path)
    (tmp_path / "kill").touch()
    killed = run_process("run", "dots.toml", "--store", "part.db", folder=tmp_path)
    assert killed.code == -9
    (tmp_path / "kill").unlink()
    resumed = run_process("run", "--resume", "part.db", "--json", folder=tmp_path)
    assert resumed.code == 0, resumed.err
    assert resumed.json()["resumed_at"] == 4
    assert resumed.json()["digest"] == whole.json()["digest"]
