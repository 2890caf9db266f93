"""The fixed scenario gives the same log, byte for byte, in any process and Python version (G15)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.process_forker import ROOT

INTERPRETERS = [sys.executable] + [
    str(path)
    for version in ("3.12", "3.13")  # where `.ci/pythons` has made them
    if (path := Path(ROOT) / f".venv-{version}" / "bin" / "python").exists()
]


def chain_of(folder: Path, hash_seed: str, *plant: str, interpreter: str = sys.executable) -> str:
    """Run the scenario in a separate process and return the hash of its last record."""
    store = f"sqlite:///{folder}/{hash_seed}.{Path(interpreter).parts[-3]}.db"
    messages = subprocess.run(
        [interpreter, "-m", "tests.crash.fixed_scenario", store, *plant],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        text=True,
    )
    chain: str = json.loads(messages.stdout.splitlines()[-1])["chain"]
    return chain


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", INTERPRETERS, ids=lambda path: Path(path).parts[-3])
def test_the_chain_does_not_depend_on_the_seed_of_hashes(folder, interpreter):
    chains = {chain_of(folder, seed, interpreter=interpreter) for seed in ("1", "2", "3")}
    assert chains == {chain_of(folder, "0")}


@pytest.mark.slow
def test_a_world_that_depends_on_hashes_is_found(folder):
    """The control."""
    chains = {chain_of(folder, str(seed), "order_by_hash") for seed in range(1, 6)}
    assert len(chains) > 1
