"""The log on the simulated disk: each group is folded when it is written, and checked.

It knows nothing of the processes. Coins are counted a second time from the intents alone, so that
a record's changes are checked against what its batch asked for.
"""

from collections import Counter
from typing import Any

from placet.kernel.log.replay import Divergence, Replayer
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    EffectChanged,
    LogAppend,
    Record,
    Refused,
    Registered,
    Scheduled,
    Settled,
    intents_of,
)
from tests.kernel.reference.fairground import BANK, COINS, EARNED_MAX, PURSES

Key = tuple[str, str]
"""Agent and req_id."""


class Findings:
    """A violation, named by its guarantee."""

    def __init__(self) -> None:
        self.violations: list[str] = []

    def expect(self, holds: object, guarantee: str, text: str) -> None:
        if not holds:
            self.violations.append(f"{guarantee}: {text}")


class LoggedRequest:
    """The recorded answer to one request.

    Attributes:
        seqs: Where it was admitted; more than once is once too often.
        refusals: The codes of each final refusal.
        scheduled: Where it was put into the schedule.
        records: Ordinals of its records.
    """

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.refusals: list[tuple[str, ...]] = []
        self.scheduled: list[int] = []
        self.records: list[int] = []


class Archive:
    """Reads and checks the groups on the simulated disk.

    Attributes:
        logged_requests: The recorded answers of each request.
        charges: `(agent, kind)` -> `(now_ns, seq before, count)` of what its quota paid for.
        effects: Effect -> the agent whose intent declared it.
        settled: Number of settlements of each effect.
        doubted: Effects that were in doubt.
        balances: The coins of each agent after each seq.
        digests: State digest after each record.
        batches: Number of records of batches.
        trace: Hash of each record.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.replayer = Replayer()
        self.logged_requests: dict[Key, LoggedRequest] = {}
        self.charges: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        self.effects: dict[tuple[int, int], str] = {}
        self.settled: Counter[tuple[int, int]] = Counter()
        self.doubted: set[tuple[int, int]] = set()
        self.coins = {BANK: COINS}
        self.balances: dict[int, dict[str, int]] = {}
        self.digests: list[str] = []
        self.batches = 0
        self.trace: list[str] = []

    @property
    def seq(self) -> int:
        return self.replayer.ledger.seq

    @property
    def count(self) -> int:
        return self.replayer.journal.count

    def take(self, append: LogAppend, epoch: int, latest: int) -> None:
        """Read a group that is kept now, written under an epoch where `latest` is given out."""
        expect = self.findings.expect
        expect(epoch == latest, "G18", f"epoch {epoch} wrote after epoch {latest} took the fence")
        for data in append.records:
            before = self.seq
            try:
                record = self.replayer.apply(data)
            except Divergence as error:
                expect(False, "G15", f"the log cannot be folded: {error}")
                return
            self.trace.append(self.replayer.journal.prev.hex())
            self.digests.append(self.replayer.state.digest().hex())
            for batch in expanded(record):
                self._read(batch, before)
                before = batch.seq
            self._check_coins()
        expect(append.seq == self.seq, "G15", f"group says seq {append.seq}, records {self.seq}")

    def _read(self, record: Record, before: int) -> None:
        match record:
            case Admitted():
                self._read_admitted(record, before)
            case Refused():
                codes = tuple(sorted(code for _, _, code, _ in record.refusals))
                for logged in self._logged_requests(record):
                    logged.refusals.append(codes)
            case Scheduled():
                for logged in self._logged_requests(record):
                    logged.scheduled.append(record.seq)
                self._charge(record, before)
            case Settled():
                self.settled[record.effect_seq, record.effect_index] += 1
            case EffectChanged(what="in_doubt"):
                self.doubted.add((record.effect_seq, record.effect_index))
            case Registered():
                self.coins[record.agent_id] = 0
            case AgentChanged(what="removed"):
                self.coins[BANK] += self.coins.pop(record.agent_id)
                for bucket in [key for key in self.charges if key[0] == record.agent_id]:
                    del self.charges[bucket]
            case _:
                pass

    def _read_admitted(self, record: Admitted, before: int) -> None:
        intents = intents_of(record)
        order = range(len(intents)) if record.order is None else record.order
        logged_requests = self._logged_requests(record)
        for rank, position in enumerate(order):
            logged_requests[position].seqs.append(before + 1 + rank)
            intent: dict[str, Any] = intents[position]
            amount = intent["payload"].get("amount", 0)
            if intent["kind"] == "Earn":
                self._move(BANK, intent["agent_id"], min(amount, EARNED_MAX))
            elif intent["kind"] == "Pay":
                self._move(intent["agent_id"], intent["payload"]["to"], amount)
        if record.due_of is None:
            self._charge(record, before)
        for k, (seq, _, _, agent_id) in enumerate(record.effects):
            self.effects[seq, k] = agent_id

    def _logged_requests(self, record: Admitted | Refused | Scheduled) -> list[LoggedRequest]:
        self.batches += 1
        keys = [(intent["agent_id"], intent["req_id"]) for intent in intents_of(record)]
        logged_requests = [self.logged_requests.setdefault(key, LoggedRequest()) for key in keys]
        for logged in logged_requests:
            logged.records.append(self.count - 1)
        return logged_requests

    def _charge(self, record: Admitted | Scheduled, before: int) -> None:
        kinds = Counter((intent["agent_id"], intent["kind"]) for intent in intents_of(record))
        for bucket, count in kinds.items():
            self.charges.setdefault(bucket, []).append((record.now_ns, before, count))

    def _move(self, giver: str, taker: str, amount: int) -> None:
        self.coins[giver] -= amount
        self.coins[taker] += amount

    def _check_coins(self) -> None:
        state = self.replayer.state
        coins = {agent: state.get(PURSES, agent, "coins") for agent in state.ids(PURSES)}
        expect = self.findings.expect
        expect(coins == self.coins, "G3", f"coins are {coins}, the intents make {self.coins}")
        self.balances[self.seq] = coins
