"""Numbers and arrays of numpy are taken wherever a user passes numbers."""

from typing import Any

import numpy as np
import pytest
from typing_extensions import TypedDict

from placet import Orchestrator, OrchestratorConfig, Simulation
from placet.domains.world import World
from placet.kernel import Domain, Kernel, Kind
from placet.lab import Collector, Scenario, run_scenarios
from placet.schemas.config import KernelConfig
from placet.schemas.limits import Limits
from tests.scenarios.test_simulation import walk

I8: Any = np.int8
I32: Any = np.int32
I64: Any = np.int64
F64: Any = np.float64
array: Any = np.array


class Note(TypedDict):
    count: int
    share: float
    places: list[float]


def note(draft, intent):
    draft.charge(I64(2))
    n = draft.randint_below(I32(5), "x")
    for name, value in intent["payload"].items():
        draft.put("notes.all", "own", name, value)
    made = {"flag": np.bool_(n < 5), "points": array([[1.5, 2], [3, 4]]), "n": I64(n)}
    draft.create("notes.all", "made", made)
    draft.answer({"n": np.float32(0.5)})


class Notes(Domain):
    name, version, kinds = "notes", "1", (Kind("Note", Note, note),)

    def on_open(self, draft):
        draft.create("notes.all", "own", {"start": np.uint8(7)})


def test_payloads_and_what_rules_put_become_plain_values():
    kernel = Kernel(Notes(), KernelConfig(seed=I64(3)))
    kernel.register_agent("ann")
    payload = {"count": I64(3), "share": F64(0.25), "places": array([1.0, 2.0])}
    intent = {**kernel.intent("Note", payload, agent="ann"), "priority": I8(1)}
    batch = {"intents": [intent], "sim_time": F64(0), "dry_run": np.bool_(False)}
    assert kernel.decide(batch, F64(1)).admitted
    kernel.step(I64(2))
    own, made = (dict(kernel.state["notes.all"][name]) for name in ("own", "made"))
    assert repr(own) == "{'count': 3, 'places': (1.0, 2.0), 'share': 0.25, 'start': 7}"
    assert (made["flag"], made["points"]) == (True, ((1.5, 2.0), (3.0, 4.0)))
    assert {type(made["flag"]), type(made["n"]), type(kernel.sim_time)} == {bool, int, float}
    assert type(kernel.ledger.now_ns) is int


TOWN = Scenario.load("town").with_agents(4).with_values(ticks=1)
FOLK = {
    "count": I64(2),
    "policy": walk,
    "area": array([[0.0, 0], [1, 1]]),
    "attributes": {"team": None},
}

USES = {
    "Simulation": lambda n: (
        Simulation(
            World(
                bounds=array([[0, 0], [9, 9]]),
                max_step=n(1),
                objects={"o": {"position": [n(1), 2]}},
            ),
            agents={"a": (n(2), walk), "b": FOLK},
            seed=n(5),
            tick_s=n(2),
            quotas={"Move": {"rate": n(1), "burst": n(2)}},
            staleness_threshold=n(9),
            snapshot_every_seqs=n(100),
            collector=Collector(every=n(1), agents=["position"]),
        )
        .run(ticks=n(2))
        .digest
    ),
    "scenario": lambda n: Simulation(TOWN, seed=n(5)).run(ticks=n(1)).digest,
    "with_agents": lambda n: TOWN.with_agents(n(7)),
    "with_values": lambda n: TOWN.with_values(
        {"agents.folk.attributes": {"x": [n(1)]}}, seed=n(2), ticks=n(3), max_step=n(1)
    ),
    "product": lambda n: TOWN.product(max_step=array([1, 2]) * n(1)),
    "dataframe": lambda n: Scenario.from_dataframe([{"seed": n(3), "max_step": n(2)}], base=TOWN),
    "run_scenarios": lambda n: [
        row["digest"]
        for row in run_scenarios(
            TOWN.with_values(ticks=0), seeds=array([1, 2]) * n(1), jobs=n(1), timeout_s=n(60)
        )
    ],
    "replications": lambda n: run_scenarios(TOWN.with_values(ticks=0), replications=n(2)).column(
        "seed"
    ),
    "config": lambda n: OrchestratorConfig(
        seed=n(1), staleness_threshold=n(2), limits=Limits(batch_intents_max=n(8))
    ),
}
"""What is done with a number -> a value that is the same for numbers of Python."""


@pytest.mark.parametrize("of", [np.int64, np.int8, np.uint32], ids=lambda of: of.__name__)
@pytest.mark.parametrize("use", USES)
def test_a_number_of_numpy_is_as_that_of_python(use, of):
    assert repr(USES[use](of)) == repr(USES[use](int))


async def test_an_orchestrator_takes_numbers_of_numpy():
    config = OrchestratorConfig(seed=I64(1), clock="stepped")
    async with Orchestrator(World(), config) as world:
        ann = await world.register_agent("ann", position=array([1.0, 2, 3]))
        pending = ann.submit_nowait([ann.intent("Move", to=array([1.5, 2, 3]))])
        await world.step(F64(1))
        assert (await pending).admitted
        assert await world.state("world.agents/ann/position") == [1.5, 2.0, 3.0]
