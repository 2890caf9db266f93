"""Random steps of worlds of the lab: one step does the same in two worlds that are the same."""

from collections.abc import Callable

import numpy as np

from placet.kernel import ColumnBatch, Kernel, KernelConfig, RecordList
from tests.kernel.columns.lab import KINDS, OWN_ROW_KINDS, lab_kernel, payload_of

CELLS = 30

Step = Callable[[Kernel], None]


def opened(seed: int, *, with_birds: bool = True) -> tuple[Kernel, RecordList]:
    """Return a kernel with quotas and its log; half of the worlds have a population."""
    log = RecordList()
    quotas = {"Take": {"rate": 0.7, "burst": 1}, "*": {"rate": 3.0, "burst": 6}}
    kernel = lab_kernel(20, CELLS, KernelConfig(seed=seed, quotas=quotas), sink=log)
    kernel.register_agent("ann")
    if with_birds:
        populate(kernel)
    return kernel, log


def populate(kernel: Kernel) -> None:
    kernel.register_population(
        "birds", 20, table="lab.agents", quotas={"Give": {"rate": 0.5, "burst": 1}},
        position=np.full((20, 2), 500.0), cell=np.arange(20),
    )  # fmt: skip


def step_of(rng: np.random.Generator, number: int) -> Step:
    """Return a random change of a world, which does the same in two worlds that are the same."""
    kind, at = KINDS[int(rng.integers(len(KINDS)))], int(rng.integers(20))
    seed, chance = int(rng.integers(2**32)), float(rng.random())

    def act_alone(kernel: Kernel) -> None:
        if "birds" not in kernel.ledger.populations and chance < 0.5:
            populate(kernel)
        elif chance < 0.1:
            kernel.change_agent(f"birds:{at}", "suspended" if at % 3 else "resumed")
        elif chance < 0.2:
            kernel.patch([("lab.cells", f"cells:{at}", {"color": at}, False)], "a test")
        else:
            kernel.tick(kernel.sim_time + at % 2)

    def act(kernel: Kernel) -> None:
        draw = np.random.default_rng(seed)
        if "birds" not in kernel.ledger.populations:
            act_alone(kernel)
            return
        position = kernel.population("birds")["position"]
        if chance < 0.25:
            act_alone(kernel)
            return
        who = draw.permutation(20)[: 1 + int(draw.integers(20))] if chance < 0.8 else np.arange(20)
        own = kind if chance < 0.6 else OWN_ROW_KINDS[at % len(OWN_ROW_KINDS)]
        payload = payload_of(draw, own, who, 20, CELLS, position)
        if chance < 0.4:
            kernel.decide_group(
                [
                    {
                        "kind": own, "payload": {k: v[i].tolist() for k, v in payload.items()},
                        "agent_id": "ann" if w == at else f"birds:{w}", "req_id": f"o:{number}",
                        "context_seq": kernel.seq, "priority": 10, "schema_version": "1.0.0",
                    }
                    for i, w in enumerate(who.tolist())
                ]
            )  # fmt: skip
            return
        name = f"s:{number if chance < 0.9 else number - 1}"
        kernel.decide_columns(
            ColumnBatch(own, "birds", payload, name, agents=who, context_seq=kernel.seq)
        )

    return act
