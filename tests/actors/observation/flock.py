"""A domain with a table of agents that see what is near, and ordinary agents among them."""

import numpy as np
from typing_extensions import TypedDict

from placet.kernel import Domain, Field, Kernel, KernelConfig, Kind, Table
from placet.kernel.visibility.distance import WithinDistance

SIDE = 100.0


def fly(rows):
    rows.write("position", rows.payload["to"])


class Walk(TypedDict):
    """The position that an ordinary agent walks to."""

    to: list[float]


def walk(draft, intent):
    draft.put("flock.walkers", intent["agent_id"], "position", intent["payload"]["to"])


class Flock(Domain):
    """Birds, which are rows, and walkers, which are ordinary entities."""

    name, version = "flock", "1"

    def __init__(self, dtype="f8", sight=None, axes=2):
        self.sight = sight
        self.tables = (
            Table("flock.birds", {"position": Field(dtype, axes), "energy": Field("i4")}),
            Table("flock.rocks", {"position": Field(dtype, axes), "size": Field("i2")}, rows=40),
        )
        self.kinds = (
            Kind("Fly", {"to": Field(dtype, axes)}, rows=fly, table="flock.birds"),
            Kind("Walk", Walk, walk),
        )

    def on_register(self, draft, agent_id, attributes):
        draft.create(
            "flock.walkers", agent_id, {"position": list(attributes.get("position", (0.0, 0.0)))}
        )


def near_birds(reach=12.0):
    return WithinDistance(reach, "flock.birds")


def near_walkers(reach=12.0):
    return WithinDistance(reach, "flock.walkers")


def flock_kernel(sight, *, n=60, dtype="f8", axes=2, seed=1, **options):
    """Return a kernel of birds and walkers at random places."""
    rng = np.random.default_rng(seed)
    kernel = Kernel(Flock(dtype, sight, axes), KernelConfig(seed=seed), **options)
    for number in range(4):
        kernel.register_agent(f"w{number}", position=rng.uniform(0, SIDE, axes).tolist())
    kernel.register_population(
        "birds", n, table="flock.birds", position=rng.uniform(0, SIDE, (n, axes)).astype(dtype)
    )
    return kernel
