"""The two laws of column batches, over random worlds and random calls.

Law A: a batch decided as arrays or row by row gives the same record, byte for byte.

Law B: for a rule that reads its own row, and there no field that it adds to, a column batch and
ordinary batches give the same codes and the same state digest, also when both are mixed in a tick.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count as numbers_from
from typing import Any

import numpy as np

from placet.kernel import ColumnBatch, Kernel, KernelConfig, RecordList
from placet.kernel.arrays import row_codes
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.schemas.config import Leases
from placet.schemas.log.record import decode_record
from tests.kernel.columns.lab import KINDS, OWN_ROW_KINDS, lab, lab_kernel, payload_of, stamps

QUOTA = {"rate": 0.7, "burst": 1}
QUOTAS = ("kind", "all", "own", "own_all", "world", "several", "")
KEPT = 2

CODES = {
    getattr(row_codes, name): name.lower()
    for name in (
        *("PAYLOAD", "SUSPENDED", "FUTURE", "TOO_FAR", "STALE", "CONFLICT", "BOUNDS"),
        *("RULE_ERROR", "OWNER", "DENIED", "REUSED", "TOO_OLD", "WORLD_QUOTA", "LEASED"),
    )
}
REFUSALS = {
    *CODES.values(),
    *(f"quota of {name}" for name in ("kind", "all", "own", "own_all", "several")),
    *("rule", "half at fault", "no row", "not claimed", "no key", "replayed", "admitted"),
}
"""Each way in which a row is answered, which law A must meet."""


class Pair:
    """Two kernels of one world, which decide the same calls in two ways."""

    def __init__(self, seed: int, *, has_gate: bool = True, size: int = 10) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.n = n = int(rng.integers(2, size))
        self.cells = cells = n + 3
        self.quota = QUOTAS[int(rng.integers(len(QUOTAS)))] if rng.random() < 0.7 else ""
        if self.quota == "world" and not has_gate:
            self.quota = "own"
        several = self.quota == "several"
        quotas = {"Take": QUOTA, "Roll": QUOTA} if several or self.quota == "kind" else {}
        if several or self.quota == "all":
            quotas["*"] = {"rate": 2.0, "burst": 3}
        own = {"Give": QUOTA, "Swap": QUOTA} if several or self.quota == "own" else {}
        if self.quota == "own_all":
            own["*"] = {"rate": 1.5, "burst": 2}
        self.lease_rng = np.random.default_rng([seed, 1])  # the other draws are as without leases
        self.has_leases = has_gate and self.lease_rng.random() < 0.4
        config = KernelConfig(
            seed=seed,
            leases=Leases(share=1.0) if self.has_leases else None,
            quotas=quotas,
            world_quota={"rate": float(n), "burst": 3 * n} if self.quota == "world" else None,
            staleness_threshold=int(rng.integers(1, 9))
            if has_gate and rng.random() < 0.3
            else None,
        )
        self.logs = (RecordList(), RecordList())
        self.kernels = [lab_kernel(n, cells, config, sink=log) for log in self.logs]
        permissions = frozenset({*KINDS} - {"Take"}) if rng.random() < 0.1 else None
        cell = rng.permutation(cells)[:n]
        for kernel in self.kernels:
            kernel.register_population(
                "birds", n, table="lab.agents", quotas=own, owner="keeper",
                permissions=permissions, position=np.full((n, 2), 500.0), cell=cell,
            )  # fmt: skip
            kernel.register_agent("painter")

    @property
    def position(self) -> Any:
        return self.kernels[0].population("birds")["position"]

    def agents(self) -> Any:
        r = self.rng.random()
        if r < 0.4:
            return None
        order = self.rng.permutation(self.n)
        return order if r < 0.6 else order[: int(self.rng.integers(0, self.n + 1))]

    def payload(self, kind: str, who: Any) -> dict[str, Any]:
        return payload_of(self.rng, kind, who, self.n, self.cells, self.position)

    def suspend(self) -> None:
        """Suspend or resume a member in both worlds, now and then."""
        if self.rng.random() < 0.2:
            number = int(self.rng.integers(self.n))
            change = "suspended" if self.rng.random() < 0.7 else "resumed"
            for kernel in self.kernels:
                kernel.change_agent(f"birds:{number}", change)

    def lease(self, req: str) -> None:
        """Lease rows in both worlds for an agent, a member or another, now and then."""
        rng = self.lease_rng
        if not self.has_leases or rng.random() < 0.5:
            return
        who = "painter" if rng.random() < 0.5 else f"birds:{int(rng.integers(self.n))}"
        rows = rng.integers(self.n, size=2).tolist()
        refs = [["lab.agents", f"birds:{rows[0]}"], ["lab.cells", f"cells:{rows[1]}"]]
        intent = {
            "kind": "placet.lease", "payload": {"refs": refs, "seconds": 1.5}, "agent_id": who,
            "req_id": req, "context_seq": self.kernels[0].seq, "priority": 10,
            "schema_version": "1.0.0",
        }  # fmt: skip
        one, two = (code(kernel.decide([intent])) for kernel in self.kernels)
        assert one == two

    def resume(self, place: int) -> None:
        """Continue a world from its log."""
        log, old = self.logs[place], self.kernels[place]
        kernel = Kernel(lab(self.n, self.cells), old.config, history=list(log), sink=log)
        kernel.uses_arrays = old.uses_arrays
        assert kernel.world_digest() == old.world_digest()
        assert stamps(kernel) == stamps(old)
        self.kernels[place] = kernel

    def check_log(self) -> None:
        """Fold and verify the log of the first world."""
        log, kernel = self.logs[0], self.kernels[0]
        assert folded(log).state.digest().hex() == kernel.digest()
        verifier = Verifier([lab(self.n, self.cells)])
        for data in log:
            verifier.apply(data)
        assert verifier.state.digest().hex() == kernel.digest()


def ordinary(
    kind: str, payload: Any, agents: Any, req: str, context: int
) -> list[dict[str, object]]:
    """Return an ordinary batch of one intent for each row."""
    return [
        {
            "kind": kind, "payload": {k: v[i].tolist() for k, v in payload.items()},
            "agent_id": f"birds:{w}", "req_id": req, "context_seq": context, "priority": 10,
            "schema_version": "1.0.0",
        }
        for i, w in enumerate(agents.tolist())
    ]  # fmt: skip


def paintings(pair: Pair, req: str) -> list[dict[str, object]]:
    """Return a batch of an agent that is no member, which changes the row of one."""
    who, hue = f"birds:{int(pair.rng.integers(pair.n))}", int(pair.rng.integers(6))
    return [
        {
            "kind": "Paint", "payload": {"who": who, "hue": hue}, "agent_id": "painter",
            "req_id": req, "context_seq": pair.kernels[0].seq, "priority": 10,
            "schema_version": "1.0.0",
        }
    ]  # fmt: skip


def code(verdict: Any) -> str:
    return "admitted" if verdict.admitted else verdict.refusals[0].code


def answer(verdict: Any) -> object:
    """Return what an ordinary verdict and that of a row have in common."""
    if verdict.admitted:
        return "admitted"
    refusal = verdict.refusals[0]  # each quota has one, with the same time
    changed = [change["entity"] for change in refusal.changed]
    if refusal.code == "conflict":  # the lanes claim under different names of rows
        changed = []
    agent_id = refusal.details.get("agent_id")
    return refusal.code, refusal.stage, refusal.retry_after, agent_id, changed


class Requests:
    """The column batches that a population remembers: a model of dedup.

    Attributes:
        kept: Contents by req_id, oldest first.
        forgotten: Highest number that was forgotten.
    """

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}
        self.forgotten = -1

    def expect(self, req_id: str, content: object) -> str:
        """Return the answer to a request: `replayed`, a code of all rows, or empty if it is new."""
        if req_id in self.kept:
            return "replayed" if self.kept[req_id] == content else "reused"
        number = int(req_id.partition(":")[2])
        if number <= self.forgotten:
            return "too_old"
        self.kept[req_id] = content
        if len(self.kept) > KEPT:
            oldest = next(iter(self.kept))
            del self.kept[oldest]
            self.forgotten = max(self.forgotten, int(oldest.partition(":")[2]))
        return ""


def _content(call: dict[str, Any]) -> object:
    payload = sorted((name, values.tobytes()) for name, values in call["payload"].items())
    agents = call["agents"]
    who = None if agents is None else agents.tolist()
    return call["kind"], who, call.get("submitter"), payload


def _calls(pair: Pair, numbers: Iterator[int], sent: list[dict[str, Any]]) -> Iterator[Any]:
    """Yield the keywords of random column batches, some of which were sent before."""
    rng, seq = pair.rng, pair.kernels[0].seq
    for _ in range(int(rng.integers(1, 4))):
        if sent and rng.random() < 0.15:
            call = sent[int(rng.integers(max(0, len(sent) - 4), len(sent)))]
            if rng.random() < 0.4:
                who = np.arange(pair.n) if call["agents"] is None else call["agents"]
                call = {**call, "payload": pair.payload(call["kind"], who)}
            yield call
            continue
        kind, agents = KINDS[int(rng.integers(len(KINDS)))], pair.agents()
        who = np.arange(pair.n) if agents is None else agents
        context: Any = seq
        if rng.random() < 0.2:
            context = int(rng.integers(0, seq + 2))
        elif rng.random() < 0.3:
            context = rng.integers(max(0, seq - 5), seq + 2, len(who))
        call = {
            "kind": kind, "agents": agents, "payload": pair.payload(kind, who),
            "req_id": f"s:{next(numbers)}", "context_seq": context,
        }  # fmt: skip
        if rng.random() < 0.1:
            call["submitter"] = "keeper" if rng.random() < 0.5 else "stranger"
        sent.append(call)
        yield call


def run_law_a(seed: int, seen: Counter[str], *, size: int = 10, ticks: int = 10) -> int:
    """Hold two executions of one world against each other; return the number of batches."""
    pair = Pair(seed, size=size)
    rng = pair.rng
    pair.kernels[1].uses_arrays = False
    sent: list[dict[str, Any]] = []
    numbers, requests, count = numbers_from(), Requests(), 0
    for tick in range(ticks):
        calls = list(_calls(pair, numbers, sent))
        if rng.random() < 0.3:  # ordinary intents between the column batches
            kind, who = "Roll", pair.rng.permutation(pair.n)[:2]
            batch = ordinary(kind, pair.payload(kind, who), who, f"o:{tick}", pair.kernels[0].seq)
            batch += paintings(pair, f"p:{tick}")
            x, y = (list(map(code, kernel.decide_group(batch))) for kernel in pair.kernels)
            assert x == y, seed
        pair.suspend()
        pair.lease(f"l:{tick}")
        dt = float(rng.integers(0, 2))
        batches = [ColumnBatch(population="birds", **call) for call in calls]
        answers: Any = zip(*(kernel.step(dt, batches) for kernel in pair.kernels), strict=True)
        for call, (x, y) in zip(calls, answers, strict=True):
            expected = requests.expect(call["req_id"], _content(call))
            _compare(x, y, (seed, call["kind"]), expected)
            _note(seen, pair, call, x)
            count += 1
        a, b = pair.kernels
        assert a.digest() == b.digest(), seed
        assert stamps(a) == stamps(b), seed
        if rng.random() < 0.1:
            pair.resume(0)  # both, because a replayed batch leaves no record and yet takes a number
            pair.resume(1)
            pair.check_log()
    _require_same_logs(pair, seed)
    assert pair.kernels[0].world_digest() == pair.kernels[1].world_digest()
    pair.check_log()
    pair.resume(0)
    return count


def _compare(x: Any, y: Any, where: object, expected: str) -> None:
    assert x.codes.tolist() == y.codes.tolist(), (where, x, y)
    assert (x.seq, x.replayed, x.current_seq) == (y.seq, y.replayed, y.current_seq), where
    assert x.winners.tolist() == y.winners.tolist(), where
    assert x.counts() == y.counts(), where
    assert x.replayed == (expected == "replayed"), where
    if expected in {"reused", "too_old"}:
        wanted = row_codes.REUSED if expected == "reused" else row_codes.TOO_OLD
        assert set(x.codes.tolist()) <= {wanted}, where
    else:
        assert not set(x.codes.tolist()) & {row_codes.REUSED, row_codes.TOO_OLD}, where


def _note(seen: Counter[str], pair: Pair, call: dict[str, Any], verdict: Any) -> None:
    """Count how the rows of a batch were answered."""
    if verdict.replayed:
        seen["replayed"] += 1
        return
    for number in set(verdict.codes.tolist()):
        name = CODES.get(number, "rule")
        if number == row_codes.QUOTA:
            name = f"quota of {pair.quota}"
        seen["admitted" if number == row_codes.OK else name] += 1
    faults, kind = verdict.codes == row_codes.RULE_ERROR, call["kind"]
    x = call["payload"].get("x")
    if kind == "Fragile" and faults.any() and not faults.all():
        seen["half at fault"] += 1
    if kind == "Stray":
        seen["no row"] += int((faults & (x == 1)).sum())
        seen["not claimed"] += int((faults & (x == 2)).sum())
    if kind == "Take":
        seen["no key"] += int((verdict.admitted & (call["payload"]["cell"] % 5 == 0)).sum())


def _require_same_logs(pair: Pair, seed: int) -> None:
    """Check that the logs are equal; name the parts of the first record that are not."""
    for x, y in zip(*pair.logs, strict=True):
        if x != y:
            p, q = decode_record(x), decode_record(y)
            names = [f for f in p.__struct_fields__ if getattr(p, f) != getattr(q, f)]
            raise AssertionError((seed, [(f, getattr(p, f), getattr(q, f)) for f in names]))


def run_law_b(seed: int, *, size: int = 8, ticks: int = 6) -> int:
    """Hold column batches against ordinary batches of one group; return the number of batches."""
    pair = Pair(seed, has_gate=False, size=size)
    rng, count = pair.rng, 0
    seqs = [tuple(kernel.seq for kernel in pair.kernels)]
    for tick in range(ticks):
        pair.suspend()
        for part in range(3):
            a, b = pair.kernels
            kind = OWN_ROW_KINDS[int(rng.integers(len(OWN_ROW_KINDS)))]
            is_whole = rng.random() < 0.3
            agents = np.arange(pair.n)
            if not is_whole:
                agents = rng.permutation(pair.n)[: int(rng.integers(1, pair.n + 1))]
            payload = pair.payload(kind, agents)
            own, other = seqs[int(rng.integers(max(0, len(seqs) - 3), len(seqs)))]
            req = f"s{part}:{tick}"
            if rng.random() < 0.6:
                verdict = a.decide_columns(
                    ColumnBatch(
                        kind, "birds", payload, req,
                        agents=None if is_whole else agents, context_seq=own,
                    )
                )  # fmt: skip
                mine = list(map(answer, verdict))
            else:
                mine = list(map(answer, a.decide_group(ordinary(kind, payload, agents, req, own))))
            theirs = list(map(answer, b.decide_group(ordinary(kind, payload, agents, req, other))))
            assert mine == theirs, (seed, tick, part, kind)
            assert a.digest() == b.digest(), (seed, tick, part, kind)
            # A group of refusals that leave no record is not counted, and would draw another order.
            b.ledger.group = a.ledger.group
            seqs.append((a.seq, b.seq))
            count += 1
        for kernel in pair.kernels:
            kernel.tick(kernel.sim_time + 1)
        if rng.random() < 0.2:
            pair.resume(0)
            pair.check_log()
    return count
