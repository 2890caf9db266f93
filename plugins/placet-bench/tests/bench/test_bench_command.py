"""`placet bench`: what it prints, and its progress bar."""

import json

import pytest

import placet_bench
from placet.cli import progress
from placet.cli.app import run_command
from placet.scenarios import load
from placet_bench.comparing import FigureChange, FigureSpread
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


def bench_result(*, load, rate, ratio):
    return {
        "workload": "w1",
        "intents_per_second": rate[1],
        "ratio_to_reference": ratio[1],
        "verdict_ms": {"p50": 1.0, "p99": 2.0},
        "spread": {
            "intents_per_second": dict(zip(("min", "median", "max"), rate, strict=True)),
            "ratio_to_reference": dict(zip(("min", "median", "max"), ratio, strict=True)),
        },
        "python": "CPython 3.11.0",
        "machine": "a <test>",
        "date": "2026-11-28T00:00:00+00:00",
        "load": load,
    }


@pytest.mark.parametrize(("load", "is_warned"), [(0.9, False), (7.5, True)])
def test_a_comparison_is_drawn_with_ranges_loads_and_a_warning(
    placet, tmp_path, monkeypatch, load, is_warned
):
    old = bench_result(load=0.5, rate=(90.0, 100.0, 110.0), ratio=(0.4, 0.5, 0.6))
    other = {**old, "workload": "w4", "load": 99.0}  # not in the new run
    new = bench_result(load=load, rate=(40.0, 50.0, 60.0), ratio=(0.5, 0.55, 0.65))
    monkeypatch.setattr(placet_bench, "run", lambda *_a, **_k: [new])
    kept, page = tmp_path / "old.json", tmp_path / "page.html"
    kept.write_text(json.dumps([old, other]))
    out = placet("bench", "w1", "--compare", str(kept), "--plot", str(page)).out
    assert "0.50       0.36-0.67" in out
    assert "1.10       0.83-1.62" in out
    assert "load 0.5;" in out
    assert ("warning: The load of the machine was 0.5 and is 7.5" in out) is is_warned
    text = page.read_text()
    assert 'class="quotient worse"' in text  # half of the intents: the spreads are apart
    assert 'class="quotient unclear"' in text  # the ratios overlap
    assert "a &lt;test&gt;" in text
    assert ("The load of the machine" in text) is is_warned
    assert placet("bench", "w1", "--compare", str(kept), "--plot", str(page)).code == 0


@pytest.mark.parametrize(
    ("figure", "old", "new", "judgment"),
    [
        ("cpu_us", (9, 10, 11), (19, 20, 21), "worse"),
        ("cpu_us", (19, 20, 21), (9, 10, 11), "better"),
        ("intents_per_second", (9, 10, 11), (19, 20, 21), "better"),
        ("ratio", (9, 10, 11), (10, 11, 12), "unclear"),
        ("ratio", (0, 0, 0), (1, 1, 1), "unclear"),
    ],
)
def test_a_change_is_clear_if_the_spreads_are_apart(figure, old, new, judgment):
    change = FigureChange("w1", figure, FigureSpread(*old), FigureSpread(*new))
    assert change.judgment == judgment


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--plot", "a.html"], "add --compare FILE of earlier results"),
        (["--compare", "old.json", "--plot", "a.png"], "expected a name that ends in .html"),
        (["--compare", "old.json", "--plot", "no/a.html"], "there is no folder no"),
        (["--compare", "old.json", "--plot", "mine.html"], "exists and is no report of placet"),
    ],
)
def test_a_plot_that_cannot_be_written_is_an_error_before_anything_is_measured(
    placet, tmp_path, monkeypatch, arguments, problem
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    monkeypatch.setattr(placet_bench, "run", None)
    outcome = placet("bench", "w1", *arguments)
    assert outcome.code == 1
    assert problem in outcome.err


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
