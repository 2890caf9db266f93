"""The area benchmark runs. It creates its own observers, which no other test covers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "bench_area.py"


@pytest.mark.slow
def test_area_benchmark_measures_each_size_and_a_slow_observer():
    command = [sys.executable, str(SCRIPT), "--seconds", "0", "--agents", "200", "400", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["us_per_move"].keys() == {"200", "400"}
    assert result["largest_to_smallest"] > 0
    assert result["slow_observer_costs"] > -1
