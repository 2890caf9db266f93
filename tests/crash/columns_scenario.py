"""A world of column batches, which resumes where an earlier child was killed.

The batches of a tick are a function of the seed and the tick. A child reads the tick from its log,
and submits the batches of that tick again, whether the log has them or not.
"""

import signal
from typing import Any, Final

import numpy as np

from placet.kernel import ColumnBatch, Kernel, KernelConfig
from placet.kernel.columns.verdict import ColumnVerdict
from placet.schemas.limits import Limits
from placet.schemas.log.record import LogAppend
from placet.stores.snapshots.recovery import recover
from placet.stores.url import open_event_log
from tests.crash.process_forker import Report
from tests.kernel.columns.lab import Lab

AGENTS: Final = 40
CELLS: Final = 60
KINDS: Final = ("Settle", "Give")
"""Kinds of the batches of a tick, in order: claims, and additions. Each `Settle` may be refused."""


def domain() -> Lab:
    return Lab(AGENTS, CELLS)


def config_of(seed: int) -> KernelConfig:
    quotas = {"Give": {"rate": 0.7, "burst": 1}}
    return KernelConfig(seed=seed, quotas=quotas, limits=Limits(checkpoint_groups=3))


def populate(kernel: Kernel) -> None:
    if "birds" not in kernel.ledger.populations:
        kernel.register_population("birds", AGENTS, table="lab.agents", cell=np.arange(AGENTS))


def batches_of(seed: int, tick: int) -> list[ColumnBatch]:
    """Make the batches of a tick."""
    rng = np.random.default_rng([seed, tick])
    cells = {"cell": rng.integers(0, CELLS, AGENTS)}
    gifts = {"to": rng.integers(0, AGENTS, AGENTS), "amount": rng.integers(-2, 4, AGENTS)}
    return [
        ColumnBatch(kind, "birds", payload, f"{kind}:{tick}", context_seq=0)
        for kind, payload in zip(KINDS, (cells, gifts), strict=True)
    ]


def answer_of(verdict: ColumnVerdict) -> dict[str, Any]:
    """Return a verdict as a message has it."""
    return {
        "req_id": verdict.req_id,
        "codes": verdict.codes.tolist(),
        "winners": verdict.winners.tolist(),
        "seq": verdict.seq,
    }


def run(report: Report, *, store: str, seed: int, ticks: int, is_killed: bool = True) -> None:
    """Run the world up to a tick, each batch appended to the log before it is answered.

    A child that is to be killed waits for that at the end.
    """
    log = open_event_log(store)
    epoch, pending = log.open(), list[bytes]()
    past = recover(log).past
    history = past if past.header is not None else ()
    count, seq = log.count(), past.ledger.seq
    kernel = Kernel(domain(), config_of(seed), sink=pending.append, history=history)

    def write() -> None:
        nonlocal count, seq
        if pending:
            log.append(LogAppend(count, seq, kernel.seq, tuple(pending)), epoch)
            count, seq = count + len(pending), kernel.seq
            pending.clear()

    populate(kernel)
    write()
    while kernel.ledger.tick < ticks:
        for batch in batches_of(seed, kernel.ledger.tick):
            verdict = kernel.decide_columns(batch)
            write()
            report.send("answer", replayed=verdict.replayed, **answer_of(verdict))
        kernel.tick(kernel.ledger.tick + 1.0)
        write()
        report.send("tick", tick=kernel.ledger.tick)
    if is_killed:
        signal.pause()
    log.close()
