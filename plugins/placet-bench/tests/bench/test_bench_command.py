"""`placet bench`: what it prints, and its progress bar."""

import placet_bench
from placet.cli import progress
from placet.cli.app import run_command
from tests.cli.pty_terminal import terminal


def test_bench_prints_the_results_of_the_benchmarks(placet, monkeypatch):
    result = {
        "workload": "w1",
        "intents_per_second": 1000.0,
        "ratio_to_reference": 0.5,
        "verdict_ms": {"p50": 1.0, "p99": 2.0},
        "python": "CPython 3.11.0",
        "machine": "a test",
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
    assert "CPython 3.11.0; a test; 5 s each" in placet("bench").out
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
