"""`placet bench`: what it prints, and its progress bar."""

import json

import pytest

import placet_bench
from placet.cli import progress
from placet.cli.app import run_command
from placet.scenarios import load
from tests.cli.pty_terminal import terminal


def test_bench_prints_the_results_of_the_benchmarks(placet, monkeypatch):
    result = {
        "workload": "w1",
        "intents_per_second": 1000.0,
        "ratio_to_reference": 0.5,
        "verdict_ms": {"p50": 1.0, "p99": 2.0},
        "python": "CPython 3.11.0",
        "machine": "a test",
        "load": 0.5,
    }
    asked = []

    def run(names, seconds, scale, on_progress):
        asked.append((names, seconds, scale.column_agents))
        return [result]

    monkeypatch.setattr(placet_bench, "run", run)
    assert placet("bench", "W1", "--seconds", "2", "--json").json() == [result]
    assert asked == [(["w1"], 2.0, (1_000, 10_000, 100_000))]
    assert placet("bench", "columns", "--column-agents", "1000000").code == 0
    assert asked[-1] == (["columns"], 5.0, (1_000, 10_000, 100_000, 1_000_000))
    assert "CPython 3.11.0; a test; load 0.5; 5 s each" in placet("bench").out
    outcome = placet("bench", "w99")
    assert outcome.code == 1
    assert "unknown workload 'w99'; the workloads are w1" in outcome.err


def test_bench_shows_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(progress, "_QUICK_S", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    with terminal() as shown:
        code = run_command(["bench", "w4", "--seconds", "0.01"])
    text = b"".join(shown).decode()
    assert code == 0, text
    assert "━" in text


def test_a_scenario_is_measured_beside_a_yardstick_and_kept_with_date_and_load(placet, tmp_path):
    kept = tmp_path / "town.json"
    command = ["bench", "--scenario", "town", "--agents", "20", "--seconds", "0.01"]
    (result,) = placet(*command, "--to", str(kept), "--json").json()
    own, yardstick = result["rows"]
    assert (result["workload"], own["name"], own["agents"]) == ("scenario town", "town: a tick", 20)
    assert own["compared_with"].startswith(yardstick["name"])
    assert own["ratio"]["median"] > 0
    assert 0 < result["admitted_share"] <= 1
    assert result["intents_per_second"] > 0
    assert result["date"].startswith("20")
    assert result["load"] >= 0
    assert json.loads(kept.read_text()) == [result]
    out = placet(*command, "--compare", str(kept)).out
    assert "new ÷ old" in out
    assert "scenario town, town: a tick, 20" in out
    assert "the policies of agents and their views take" in out


def test_a_run_that_has_ended_is_begun_anew(placet):
    command = ["bench", "--scenario", "rush", "--agents", "20", "--seconds", "0.01", "--json"]
    (result,) = placet(*command).json()
    assert result["rows"][0]["rounds"] * 1_000 / 20 > load("rush").ticks


def test_batches_of_a_domain_are_measured_and_their_refusals_printed(placet):
    command = ["bench", "--domain", "world", "--agents", "3", "--seconds", "0.01"]
    moves = [*command, "--intent", 'Move={"to": [1, 2]}', "--attributes", '{"position": [0, 0]}']
    (result,) = placet(*moves, "--batch", "4", "--json").json()
    assert result["rows"][0]["name"] == "world: batches of 4"
    assert (result["rows"][0]["agents"], result["admitted_share"]) == (12, 1)
    out = placet(*command, "--intent", "Move={}").out
    assert "intents were refused" in out
    assert "refused, structure/payload_invalid: payload of Move/to: field required" in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--domain", "world"], "--domain needs an intent to measure"),
        (["--domain", "world", "--intent", "Move"], "--intent must be KIND=JSON, got 'Move'"),
        (["--domain", "world", "--intent", "Mov={}"], "no kind 'Mov'; there are Move, Speak"),
        (["--domain", "world", "--intent", "Move={"], "--intent Move: no JSON"),
        (
            ["--domain", "world", "--intent", "Move={}", "--attributes", "[]"],
            "--attributes must be a JSON object",
        ),
        (["--agents", "3"], "need --scenario or --domain"),
        (["--attributes", '{"position": [0, 0]}'], "need --scenario or --domain"),
        (["--scenario", "town", "--column-agents", "9"], "belongs to the workload columns"),
        (["w1", "--scenario", "town"], "one of the three"),
        (["--scenario", "town", "--batch", "2"], "belong to --domain"),
        (["--scenario", "market"], "needs an event loop"),
        (["--scenario", "town", "--compare", "nowhere.json"], "cannot read nowhere.json"),
        (["--scenario", "town", "--to", "nowhere/a.json"], "there is no folder nowhere"),
    ],
)
def test_a_model_that_cannot_be_measured_is_an_error(placet, arguments, problem):
    outcome = placet("bench", *arguments)
    assert outcome.code == 1
    assert problem in outcome.err


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '[{"a": 1}]', "no"])
def test_a_file_without_results_is_not_compared(placet, tmp_path, text):
    (tmp_path / "old.json").write_text(text)
    outcome = placet("bench", "--scenario", "town", "--compare", str(tmp_path / "old.json"))
    assert outcome.code == 1
    assert "has no results of `placet bench`" in outcome.err
