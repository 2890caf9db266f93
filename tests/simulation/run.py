"""One run: a seed makes a machine, a world, clients and faults, and the findings are reported.

    ./dev python -m tests.simulation.run 42

runs seed 42 again, exactly, and prints the findings and the hash of the trace.
"""

import argparse
import asyncio
import gc
import sys
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple

from placet.kernel import Kernel
from placet.kernel.log.replay import Divergence
from placet.kernel.log.verify import Verifier
from tests.kernel.reference.fairground import Fairground
from tests.simulation.client_history import ClientAnswer, Memory
from tests.simulation.clients import Client, ClientPool
from tests.simulation.durable_log import Archive, Findings
from tests.simulation.machine import Disk, Stuck, VirtualLoop, running_on
from tests.simulation.operator import Operator
from tests.simulation.server import ProcessGone, Server
from tests.simulation.swarm import Swarm, swarm_of

SECONDS_MAX = 300.0
"""Simulated; a run takes some ten of them."""


class Outcome(NamedTuple):
    """The result of a seed.

    Attributes:
        findings: What is wrong; empty is well.
        trace: Hash of all answers, records, effects and processes, in order.
        outcomes: How often each code was answered.
        reopened: How often a process reopened its world after a failure of the store.
    """

    seed: int
    findings: list[str]
    trace: str
    outcomes: dict[str, int]
    processes: int
    records: int
    reopened: int

    def report(self) -> str:
        command = f"./dev python -m tests.simulation.run {self.seed}"
        return "\n".join([f"seed {self.seed}; again: {command}", *self.findings])


def simulate(seed: int) -> Outcome:
    """Run one seed to its end. A seed has the same result on any machine."""
    swarm, findings = swarm_of(seed), Findings()
    disk = Disk(Random(f"disk {seed}"), swarm.append_seconds_max, swarm.is_blocking)
    disk.faults = dict(swarm.store_faults)
    archive = Archive(findings)
    disk.on_group = archive.take
    memory = Memory(archive, findings, swarm)
    server = Server(swarm, disk, archive, findings, seed)
    client_pool = ClientPool(swarm, server, memory, findings, seed)
    loop = VirtualLoop()
    loop.set_exception_handler(partial(_note_unseen, findings))
    try:
        with running_on(disk, server.next_handle):
            loop.run_until_complete(_run(swarm, server, client_pool))
    except Exception as error:  # noqa: BLE001  # found, and to be run again by its seed
        fault = _innermost(error)
        guarantee = "G1" if isinstance(fault, Stuck) else "G23"
        findings.expect(False, guarantee, f"the run ended with {fault!r}")
    finally:
        _end(loop)
    memory.check_all()
    trace = [*memory.trace, *server.trace, *archive.trace]
    hashed = blake2b("\n".join(trace).encode(), digest_size=8).hexdigest()
    outcomes, records = memory.outcomes, archive.count
    return Outcome(
        seed, findings.violations, hashed, outcomes, server.processes, records, server.reopened
    )


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _note_unseen(findings: Findings, loop: object, context: dict[str, Any]) -> None:
    """Record the unhandled failure of a task; futures of removed clients are allowed."""
    if context["message"].startswith("Task exception"):
        findings.expect(False, "G1", f"a task failed unseen: {context.get('exception')!r}")


async def _run(swarm: Swarm, server: Server, client_pool: ClientPool) -> None:
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.run(tasks))
        fault_injection = tasks.create_task(server.inject_faults())
        operator = Operator(client_pool)
        tending = [tasks.create_task(operator.run()), tasks.create_task(operator.probe())]
        if swarm.is_stepped:
            tending.append(tasks.create_task(operator.step()))
        clients = [Client(client_pool, number).run() for number in range(len(client_pool.agents))]
        try:
            async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as group:
                for client in clients:
                    group.create_task(client)
        except TimeoutError:
            client_pool.findings.expect(False, "G1", "a client still waits")
        for task in (fault_injection, *tending):
            task.cancel()
        await _ask_for_all(server, client_pool)
        serving.cancel()
        await _close(server, client_pool)


async def _ask_for_all(server: Server, client_pool: ClientPool) -> None:
    """Disable faults, wait for the effects, and ask for every verdict again."""
    server.disk.faults.clear()
    if server.executor != "none":
        server.executor = "sound"
    while True:
        served = await server.present()
        world = served.orchestrator
        try:
            await server.ask(served, world.resume)
            if server.executor != "none":
                await server.ask(served, world.wait_effects)
            await _ask_again(server, client_pool)
            digest = await server.ask(served, world.digest)
        except ProcessGone:
            continue
        break
    is_same = digest == server.archive.digests[-1]
    client_pool.findings.expect(is_same, "G15", "the world is not what its log folds to")


async def _close(server: Server, client_pool: ClientPool) -> None:
    """Close the world and check the log on the disk."""
    expect, archive = client_pool.findings.expect, server.archive
    server.close()
    await asyncio.sleep(server.swarm.config.limits.shutdown_seconds_max + 1)
    history = [data for _, data in server.disk.log.read()]
    kernel = Kernel(Fairground(), server.swarm.config.kernel_config(), history=history)
    expect(kernel.digest() == archive.digests[-1], "G15", "opened again, the world is another")
    verifier = Verifier([Fairground()])
    try:
        for data in history:
            verifier.apply(data)
    except Divergence as divergence:
        expect(False, "G16", str(divergence))
    expect(not verifier.unverified, "G16", f"not re-executed: {verifier.unverified}")
    if server.executor != "none":
        unsettled = set(archive.effects) - set(archive.settled) - archive.doubted
        expect(not unsettled, "G17", f"effects {sorted(unsettled)} were never settled")
    doubled = [key for key, count in archive.settled.items() if count != 1]
    expect(not doubled, "G17", f"effects {doubled} were settled more than once")
    unrun = [key for key in archive.settled if not server.attempts.get(key)]
    expect(not unrun, "G17", f"effects {unrun} were settled and never ran")


async def _ask_again(server: Server, client_pool: ClientPool) -> None:
    """Each request has exactly one final answer, and it can be asked for (G1)."""
    served = await server.present()
    for request in client_pool.memory.requests:
        if request.is_void or request.is_dry:
            continue
        agent, req_id = request.keys[0]
        verdict = await server.ask(served, partial(served.orchestrator.verdict_of, agent, req_id))
        logged = server.archive.logged_requests.get((agent, req_id))
        expect, text = client_pool.findings.expect, f"{request.keys} is answered {verdict}"
        is_forgotten = verdict is None and server.swarm.is_forgetful
        is_answered = (logged is None) == (verdict is None) or is_forgotten
        expect(is_answered, "G1", f"{text}, the log says {logged}")
        if logged is None or verdict is None:
            continue
        answer = ClientAnswer.by(verdict)
        if logged.seqs:
            expect(logged.seqs[0] in answer.seqs, "G5", f"{text}, admitted at {logged.seqs}")
        elif logged.refusals:
            expect(
                answer.codes == logged.refusals[-1], "G5", f"{text}, refused as {logged.refusals}"
            )
        else:
            expect(answer.scheduled, "G1", f"{text}, it waits in the schedule")


def _end(loop: VirtualLoop) -> None:
    """Stop the tasks that a failed run left behind."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        with_errors = asyncio.gather(*tasks, return_exceptions=True)
        loop.iterations = 0
        loop.run_until_complete(with_errors)
    loop.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    failed = 0
    for seed in parser.parse_args().seeds:
        outcome = simulate(seed)
        failed += bool(outcome.findings)
        sys.stdout.write(f"{outcome.report()}\n{outcome.trace} {outcome.outcomes}\n")
        gc.collect()
    sys.exit(bool(failed))
