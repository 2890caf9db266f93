"""Random groups with leases, conditions, kills, suspensions and schedules, held to an oracle.

The oracle reads the log alone: which leases the outputs granted, and which entities each admitted
batch changed.
"""

from collections import Counter
from random import Random
from typing import Any

import pytest

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet.kernel.log import snapshot
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.kernel.recorded_batch import recorded_batch
from placet.schemas.condition import if_unchanged
from placet.schemas.config import Leases
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, decode_record

OBJECTS = [f"o{number}" for number in range(4)]
AGENTS = [f"a{number}" for number in range(6)]
LEASES = Leases(seconds_max=2, share=0.4, refs_max=3, tickets_max=6, begin_within=0.3)


def world() -> World:
    return World(objects={name: {"position": [0, 0]} for name in OBJECTS})


class Run:
    """One world of a seed, its log, and the leases that the log granted.

    Attributes:
        held: Agent -> the entities of its running lease, and its end.
        seen: How often each thing happened.
    """

    def __init__(self, seed: int, *, joins: bool = True) -> None:
        self.random, self.log = Random(seed), list[bytes]()
        self.config = KernelConfig(seed=seed, leases=LEASES, limits=Limits(checkpoint_groups=50))
        self.kernel = Kernel(world(), self.config, sink=self.log.append)
        self.kernel.joins_batches = joins
        for name in AGENTS:
            self.kernel.register_agent(name, position=[0, 0])
        self.now, self.held = 0.0, dict[str, tuple[set[tuple[str, str]], float]]()
        self.seen: Counter[str] = Counter()

    @property
    def tickets(self) -> dict[str, Any]:
        leases = self.kernel.ledger.leases
        assert leases is not None
        return leases.at(round(self.now * SECOND_NS)).tickets

    def step(self) -> None:
        """Decide a group, hold its records to the oracle, and disturb the world."""
        random = self.random
        self.now += random.choice([0.0, 0.01, 0.05, 0.2, 1.0])
        batches = [self._batch() for _ in range(random.randint(1, 4))]
        known = self.kernel.ledger.agents
        batches = [b for b in batches if all(i["agent_id"] in known for i in b["intents"])]
        records = len(self.log)
        plain = [b["intents"] if len(b) == 1 else b for b in batches]
        for verdict in self.kernel.decide_group(plain, self.now):
            self.seen.update(verdict.codes)
        for data in self.log[records:]:
            for record in expanded(decode_record(data)):
                if isinstance(record, Admitted):
                    self._judge(record)
        called = [r for t in self.tickets.values() if t.called_ns is not None for r in t.refs]
        assert len(called) == len(set(called)), "two are called for one entity"
        self._disturb()

    def _batch(self) -> dict[str, Any]:
        random, who = self.random, self.random.choice(AGENTS)
        target, chance = random.choice(OBJECTS), random.random()
        what = random.choice(["use", "pickup", "drop", "examine"])
        act: Any = self._intent(who, "Interact", target_id=target, interaction_type=what)
        if random.random() < 0.3:
            paths = [["world.objects", target, "holder"], ["world.objects", target, "uses"]]
            act["expect"] = if_unchanged(self.kernel.state, paths)
        intents = [act]
        if chance < 0.25:
            own, refs = self.tickets.get(who), random.sample(OBJECTS, random.randint(1, 3))
            if own is not None and random.random() < 0.7:
                refs = [ref.entity for ref in own.refs]
            pairs = [["world.objects", ref] for ref in refs]
            seconds = random.choice([0.1, 0.5, 1.5, 3.0])
            intents = [self._intent(who, "placet.lease", refs=pairs, seconds=seconds)]
        elif chance < 0.35:
            intents = [
                *([act] if random.random() < 0.5 else []),
                self._intent(who, "placet.release"),
            ]
        elif chance < 0.45:
            other = random.choice(AGENTS)
            intents.append(
                self._intent(other, "Interact", target_id=target, interaction_type="use")
            )
        batch: dict[str, Any] = {"intents": intents}
        if random.random() < 0.1:
            batch["dry_run"] = True
        elif random.random() < 0.05:
            batch["sim_time"] = self.now + random.choice([0.1, 0.7])
        return batch

    def _intent(self, who: str, kind: str, **payload: Any) -> Any:
        return self.kernel.intent(kind, payload, agent=who)

    def _judge(self, record: Admitted) -> None:
        """Hold an admitted batch to the leases that were granted before it."""
        now = record.now_ns / SECOND_NS
        self.held = {who: lease for who, lease in self.held.items() if lease[1] > now + 1e-9}
        batch = recorded_batch(record)
        changed = {(change.collection, change.entity) for change in record.changes.entities}
        for who, (refs, _) in self.held.items():
            assert not changed & refs or set(batch.agents) == {who}, "a leased entity was changed"
        outputs: dict[int, Any] = dict(getattr(record, "answers", []))
        for position, intent in enumerate(batch.intents):
            who, output = intent["agent_id"], outputs.get(position, {})
            if intent["kind"] == "placet.release":
                self.held.pop(who, None)
            elif intent["kind"] == "placet.lease" and output["granted"] and who not in self.held:
                refs = {(collection, name) for collection, name in intent["payload"]["refs"]}
                assert not any(refs & theirs for theirs, _ in self.held.values()), "two holders"
                self.held[who] = refs, output["until"]
                self.seen["granted"] += 1

    def _disturb(self) -> None:
        random, who, kernel = self.random, self.random.choice(AGENTS), self.kernel
        chance, agent = random.random(), kernel.ledger.agents.get(who)
        if chance < 0.03 and agent is not None:
            kernel.change_agent(who, random.choice(["suspended", "removed"]))
            self.held.pop(who, None)
        elif chance < 0.1 and agent is None:
            kernel.register_agent(who, position=[0, 0])
        elif chance < 0.1 and agent is not None and agent.is_suspended:
            kernel.change_agent(who, "resumed")
        if random.random() < 0.05:
            self.restart()

    def restart(self) -> None:
        """Continue the world from a snapshot of its log, as after a kill."""
        past, digest = folded(self.log), self.kernel.world_digest()
        assert snapshot.world_digest(past.state, past.ledger).hex() == digest
        again = snapshot.resume(snapshot.take(past))
        joins = self.kernel.joins_batches
        self.kernel = Kernel(world(), self.config, history=again, sink=self.log.append)
        self.kernel.joins_batches = joins
        assert self.kernel.world_digest() == digest
        self.seen["restart"] += 1

    def drain(self) -> None:
        """Start each called lease until no ticket is left: nobody waits for ever."""
        for who, agent in list(self.kernel.ledger.agents.items()):
            if agent.is_suspended:
                self.kernel.change_agent(who, "resumed")
        self.now += 1.0
        self.kernel.tick(self.now)
        waits = [ticket.length_ns / SECOND_NS for ticket in self.tickets.values()]
        end = self.now + 2 * (sum(waits) + LEASES.seconds_max) / LEASES.share + 1.0
        while self.tickets:
            assert self.now < end, "a ticket waits for ever"
            self.now += 0.05
            for who, ticket in list(self.tickets.items()):
                if ticket.called_ns is not None and ticket.until_ns is None:
                    refs = [list(ref) for ref in ticket.refs]
                    again = self._intent(who, "placet.lease", refs=refs, seconds=0.1)
                    assert self.kernel.decide([again], self.now).results[0].output["granted"]

    def verify(self) -> None:
        verifier = Verifier([world()])
        for data in self.log:
            verifier.apply(data)
        assert verifier.unverified == []


def run(seed: int, groups: int) -> Counter[str]:
    tried = Run(seed)
    for _ in range(groups):
        tried.step()
    tried.restart()
    tried.drain()
    tried.verify()
    return tried.seen


def test_leases_hold_over_random_groups_kills_and_schedules():
    seen: Counter[str] = Counter()
    for seed in range(12):
        seen += run(seed, 40)
    for what in ("granted", "leased", "condition_failed", "lease_refused", "restart"):
        assert seen[what] > 5, seen


def test_batches_of_one_intent_are_decided_alike_together_and_alone():
    for seed in range(6):
        together, alone = Run(seed), Run(seed, joins=False)
        for _ in range(25):
            together.step()
            alone.step()
            # Not the ledger: their logs have other numbers of records, and so other req_ids.
            assert together.kernel.digest() == alone.kernel.digest(), seed
            assert together.seen == alone.seen, seed
            tables = [run.kernel.ledger.leases for run in (together, alone)]
            assert tables[0].dump() == tables[1].dump(), seed  # type: ignore[union-attr]


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 700, 100))
def test_leases_hold_over_many_random_groups(first):
    for seed in range(first, first + 100):
        run(seed, 120)
