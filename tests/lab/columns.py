"""Logs with tables, a population, column batches and ordinary intents, for tests of readers."""

from pathlib import Path

import numpy as np

from placet.kernel import ColumnBatch, Kernel, KernelConfig, RecordList
from placet.schemas.intent import new_intent
from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.url import open_event_log
from tests.kernel.columns.lab import lab_kernel, payload_of

N, CELLS = 7, 9
KINDS = ("Move", "Settle", "Take", "Give", "Trade", "Roll", "Fragile", "Stray")


def columns_kernel(sink: RecordList | None = None, *, n: int = N, seed: int = 3) -> Kernel:
    """Return a kernel of a lab with the population `birds` and the agent `ann`."""
    config = KernelConfig(seed=seed, quotas={"Roll": {"rate": 0.5, "burst": 1}})
    kernel = lab_kernel(n, CELLS, config, sink=RecordList() if sink is None else sink)
    kernel.register_agent("ann")
    kernel.register_population(
        "birds",
        n,
        table="lab.agents",
        position=np.full((n, 2), 500.0),
        cell=np.arange(n) % CELLS,
    )
    return kernel


def run_columns(kernel: Kernel, *, ticks: int = 6, seed: int = 5) -> None:
    """Send a column batch of each kind in turn, of all members and of some, and a few intents."""
    rng = np.random.default_rng(seed)
    birds = kernel.population("birds")
    count = len(birds["position"])
    for tick in range(ticks):
        batches = []
        for place in range(2):
            kind = KINDS[(2 * tick + place) % len(KINDS)]
            some = rng.permutation(count)[: max(1, count // 2)]
            agents = None if place else some
            who = np.arange(count) if agents is None else agents
            payload = payload_of(rng, kind, who, count, CELLS, birds["position"])
            contexts = None if tick % 2 else np.full(len(who), max(0, kernel.seq - 1))
            req_id = f"{kind}:{tick}"
            batches.append(
                ColumnBatch(kind, "birds", payload, req_id, agents=agents, context_seq=contexts)
            )
        kernel.step(1.0, batches)
        if tick == 1:
            kernel.change_agent("birds:2", "suspended")
        to = [float(value) for value in birds["position"][1] + 0.5]
        kernel.step(1.0, [[new_intent("Move", {"to": to}, "birds:1", f"own:{tick}", kernel.seq)]])


def write_columns(path: Path, *, ticks: int = 6, n: int = N) -> Kernel:
    """Write the log of a lab into a SQLite store, and return its kernel."""
    sink = RecordList()
    kernel = columns_kernel(sink, n=n)
    run_columns(kernel, ticks=ticks)
    write_log(path, sink)
    return kernel


def write_log(path: Path, records: RecordList) -> None:
    """Write encoded records into a new SQLite store."""
    log = open_event_log(f"sqlite:///{path}")
    epoch = log.open()
    data = list(records)
    log.append(LogAppend(0, 0, decode_record(data[-1]).seq, data), epoch)
    log.close()
