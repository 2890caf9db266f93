"""How many worlds are simulated, and which: `-m soak tests/simulation --seeds 5000 --seed 42`."""

import os

import pytest

SEEDS_VARIABLE = "PLACET_SIMULATION_SEEDS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, help="how many seeds the long simulation runs")
    parser.addoption("--seed", type=int, help="the first of them")


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    """The seeds of the long run; where pytest began elsewhere, it does not know the options."""
    count = request.config.getoption("--seeds", default=None)
    count = int(os.environ.get(SEEDS_VARIABLE, "1000")) if count is None else count
    first = request.config.getoption("--seed", default=None) or 0
    return range(first, first + count)
