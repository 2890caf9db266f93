"""Runs on 4 workers of a Ray that the run starts, kills one in mid-tick, and prints the outcome."""

import json
import sys

import ray

from placet.scenarios.thinking import Workers
from tests.scenarios.ray_workers import kill_in_mid_tick, outcome, town


def strike(tick, simulation):
    if tick == 2:
        kill_in_mid_tick(simulation, 1)


if __name__ == "__main__":
    found = outcome(town(), Workers(4, "ray"), strike)
    sys.stdout.write(json.dumps({"found": found, "is_ray_open": ray.is_initialized()}) + "\n")
