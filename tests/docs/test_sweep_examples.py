"""The examples of sweeps run, as a user starts them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments, folder):
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "examples")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("call", "share_min"),
    [
        pytest.param("analyze(2)", 0.0, marks=pytest.mark.slow),  # 16 runs
        pytest.param("analyze()", 0.1, marks=pytest.mark.soak),  # 128, as a user starts it
    ],
)
def test_sobol_indices_of_a_town(tmp_path, call, share_min):
    printed = run("-c", f"from sensitivity import analyze; {call}", folder=tmp_path)
    assert "nan" not in printed
    assert "people is 20 in every run: no setting changes it" in printed
    lines = printed.splitlines()
    refused = lines.index("refused: share of the variance, alone and with others")
    shares = {line.split()[0]: float(line.split()[2]) for line in lines[refused + 1 : refused + 4]}
    assert shares["quotas.Speak.rate"] >= share_min


@pytest.mark.slow
def test_optuna_asks_and_is_answered(tmp_path):
    printed = run(ROOT / "examples" / "search.py", folder=tmp_path)
    assert "refusals for each admitted intent, with {'settings.max_step'" in printed
