"""The examples of sweeps run, as a user starts them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(program, folder):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_sobol_indices_of_a_town(tmp_path):
    printed = run("sensitivity.py", tmp_path)
    assert "nan" not in printed
    assert "people is 20 in every run: no setting changes it" in printed
    lines = printed.splitlines()
    refused = lines.index("refused: share of the variance, alone and with others")
    shares = {line.split()[0]: float(line.split()[2]) for line in lines[refused + 1 : refused + 4]}
    assert shares["quotas.Speak.rate"] > 0.1


@pytest.mark.slow
def test_optuna_asks_and_is_answered(tmp_path):
    assert "refusals for each admitted intent, with {'settings.max_step'" in run(
        "search.py", tmp_path
    )
