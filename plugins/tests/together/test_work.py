"""The worst batch of each built-in kind holds the loop within a bound (G12)."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from placet.cli.domains import open_plain
from placet.plugins.domains import domain_names

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_work.py"

BAR = 10
"""A batch may hold the loop as long as the reference loop takes for ten batches of 512 moves."""

NOISE = 3
"""A test beside other programs may measure so many times more."""


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_work", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_work"] = module
    spec.loader.exec_module(module)
    return module


def test_every_built_in_kind_has_a_worst_case(bench):
    kinds = {kind.name for name in domain_names() for kind in open_plain(name).kinds}
    assert {case.kind for case in bench.all_cases()} == kinds


def beyond_the_bar(bench, cases, intents_max):
    """Return the cases that hold the loop too long, compared with the reference in this run."""
    holds = [(case, bench.measure(case, intents_max, 2)) for case in cases]
    return [
        (case.kind, case.name, hold)
        for case, hold in holds
        if max(hold.check, hold.decide) > BAR * NOISE
    ]


@pytest.mark.slow
def test_no_kind_of_a_world_holds_the_loop_longer_than_the_bar(bench):
    assert beyond_the_bar(bench, bench.world_cases(), 1) == []


@pytest.mark.soak
def test_no_kind_holds_the_loop_longer_than_the_bar(bench):
    """Each at its worst, and 512 of it in one batch."""
    for intents_max in (1, bench.MANY):
        assert beyond_the_bar(bench, bench.all_cases(), intents_max) == []
