"""Laws of the random draws of rules and hooks: which words they depend on, and on nothing else."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet.kernel import Domain, Draft, Kernel, KernelConfig, Kind, random_unit, refuse
from placet.kernel import kernel as kernel_module
from placet.kernel.commit import apply_record
from placet.kernel.commit.commit import DecisionRecorder
from placet.kernel.decide import order
from placet.kernel.ledger import ledger
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.ordinals import Ordinals
from placet.kernel.log.divergence import DecisionMismatch
from placet.kernel.log.replay import Divergence, folded
from placet.kernel.log.snapshot import resume, take, world_digest
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import RuleRefusal
from placet.kernel.prng import mix64
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.log.record import Admitted, Changes, ForkAdopted, decode_record, encode_record
from placet.schemas.log.snapshot import decode_snapshot, encode_snapshot
from tests.kernel.builders import restore

DRAWS = "dice.draws"
AGENTS = ("ann", "bob", "cyd", "ant:1", "ant:2")


class Throw(TypedDict):
    """Draw a number; refused if it `fails`."""

    fails: bool


class Dice(Domain):
    """Rules and hooks that store what they draw."""

    name = "dice"
    version = "1"

    def __init__(self) -> None:
        self.kinds = (
            Kind("Throw", Throw, self.throw),
            Kind("Send", dict[str, Json], self.send, effects=("mail",)),
        )

    @staticmethod
    def keep(draft: Draft, hook: str) -> None:
        collection = f"{DRAWS}.{hook}"
        place = f"{draft.agent_id}/{draft.seq}"
        draft.create(
            collection, place, {"value": draft.draw("x"), "die": draft.randint_below(6, "y")}
        )

    def throw(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        self.keep(draft, "throw")
        return refuse("failed", "it fails") if intent["payload"]["fails"] else None

    def send(self, draft: Draft, intent: Intent) -> None:
        draft.emit("mail", {})

    def on_open(self, draft: Draft) -> None:
        self.keep(draft, "open")

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]) -> None:
        self.keep(draft, "register")

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        self.keep(draft, "remove")

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        self.keep(draft, "tick")

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        self.keep(draft, "settle")


def opened(agents=AGENTS, **options: Any) -> tuple[Kernel, list[bytes]]:
    log: list[bytes] = []
    kernel = Kernel(Dice(), KernelConfig(seed=7), sink=log.append, **options)
    for agent_id in agents:
        kernel.register_agent(agent_id)
    return kernel, log


def throw(agent_id: str, req_id: str, *, fails: bool = False, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "Throw",
        "payload": {"fails": fails},
        "agent_id": agent_id,
        "req_id": req_id,
        "context_seq": 0,
        "priority": 10,
        "schema_version": "1.0.0",
        **fields,
    }


def drawn(kernel: Kernel, hook: str = "throw") -> list[tuple[str, float]]:
    """Return `(agent_id, number)` of each draw of a hook, in order of seq."""
    found = []
    for key, fields in kernel.state.get(f"{DRAWS}.{hook}", {}).items():
        agent_id, _, seq = key.rpartition("/")
        found.append((int(seq), agent_id, fields["value"]))
    return [(agent_id, value) for _, agent_id, value in sorted(found)]


def expected(tick: int, now: float, n: int, agent_id: str) -> tuple[str, float]:
    return agent_id, random_unit(7, tick, round(now * SECOND_NS), n, "x", agent_id)


# the words


def test_a_draw_depends_on_tick_time_ordinal_purpose_and_agent_alone():
    kernel, _ = opened()
    kernel.decide([throw("ann", "1")], 0.5)
    kernel.decide([throw("bob", "1")])
    kernel.decide([throw("ann", "2")])
    kernel.decide([throw("ann", "3")], 0.75)
    kernel.step(1.0, [[throw("ann", "4")], [throw("ant:1", "1")]])
    kernel.step(0.0, [[throw("ann", "5")]])
    assert sorted(drawn(kernel)) == sorted([
        expected(0, 0.5, 0, "ann"),
        expected(0, 0.5, 0, "bob"),
        expected(0, 0.5, 1, "ann"),
        expected(0, 0.75, 0, "ann"),
        expected(0, 1.75, 0, "ann"),
        expected(0, 1.75, 0, "ant:1"),
        expected(1, 1.75, 0, "ann"),
    ])  # fmt: skip


def test_only_admitted_intents_have_an_ordinal():
    kernel, _ = opened()
    kernel.decide([throw("ann", "1")], 1.0)
    again = kernel.decide([throw("ann", "1")])
    assert again.replayed
    assert not kernel.decide([throw("ann", "2", fails=True)]).admitted
    assert not kernel.decide([throw("ann", "3"), throw("ann", "4", fails=True)]).admitted
    assert kernel.decide({"intents": [throw("ann", "5")], "dry_run": True}).admitted
    later = kernel.decide({"intents": [throw("ann", "6")], "sim_time": 9.0})
    assert later.scheduled
    kernel.decide([throw("ann", "7")])
    assert drawn(kernel) == [expected(0, 1.0, 0, "ann"), expected(0, 1.0, 1, "ann")]
    kernel.decide([throw("ann", "8")], 9.0)
    assert sorted(drawn(kernel)[2:]) == sorted(expected(0, 9.0, n, "ann") for n in (0, 1))


def test_ordinals_go_on_inside_a_batch_in_order_of_execution():
    kernel, _ = opened()
    kernel.decide([throw("ann", "1")], 1.0)
    kernel.decide([throw("ann", "2"), throw("ann", "3")])
    assert drawn(kernel) == [expected(0, 1.0, n, "ann") for n in range(3)]
    kernel.decide(
        [throw("bob", "1"), throw("ann", "4"), throw("bob", "2", priority=90), throw("ann", "5")]
    )
    order = [("bob", 0), ("bob", 1), ("ann", 3), ("ann", 4)]
    assert drawn(kernel)[3:] == [expected(0, 1.0, n, agent_id) for agent_id, n in order]


def test_a_dry_run_draws_what_the_real_run_draws():
    kernel, _ = opened()
    kernel.decide([throw("ann", "1")], 1.0)
    dry = kernel.decide({"intents": [throw("ann", "2"), throw("ann", "3")], "dry_run": True})
    values = [change.new for change in dry.preview.changes if change.field == "value"]
    kernel.decide([throw("ann", "2"), throw("ann", "3")])
    assert values == [value for _, value in drawn(kernel)[1:]]
    assert {change.op for change in dry.diff if change.field == "value"} == {"undecided"}


def test_two_records_of_hooks_at_one_moment_do_not_draw_alike():
    kernel, _ = opened()
    kernel.change_executor("mail", 9)
    for number in range(3):
        kernel.decide([{**throw("ann", f"{number}"), "kind": "Send", "payload": {}}], 1.0)
    for effect in kernel.open_effects():
        kernel.settle(Settlement(effect.key, succeeded=True, output=None))
    assert drawn(kernel, "settle") == [expected(0, 1.0, n, "system") for n in range(3)]
    kernel.step(0.0)
    kernel.step(0.0)
    ticks = [expected(0, 1.0, 3, "system"), expected(1, 1.0, 0, "system")]
    assert drawn(kernel, "tick") == ticks
    for n in range(2):
        kernel.change_agent("bob", "removed")
        kernel.register_agent("bob")
        assert drawn(kernel, "remove")[-1] == expected(2, 1.0, n, "bob")
        assert drawn(kernel, "register")[-1] == expected(2, 1.0, n + 1, "bob")


@given(st.permutations(AGENTS), st.permutations(AGENTS))
def test_draws_do_not_depend_on_the_order_of_registration(agents, arrival):
    made = []
    for names in (agents, AGENTS):
        kernel, _ = opened(names)
        kernel.decide_group([[throw(agent_id, "1")] for agent_id in arrival], 1.0)
        kernel.step(1.0, [[throw(agent_id, "2")] for agent_id in arrival])
        order = [agent_id for agent_id, _ in drawn(kernel)]
        made.append((order, drawn(kernel), sorted(drawn(kernel, "register"))))
    assert made[0] == made[1]


def faults_of_order() -> set[str]:
    """Return the laws of the order of ties that are broken."""
    orders, found = set(), set()
    kernel, log = opened()
    for number in range(12):
        group = [[throw(agent_id, f"{number}")] for agent_id in AGENTS]
        before = len(drawn(kernel))
        kernel.decide_group(group, 1.0)
        order = [agent_id for agent_id, _ in drawn(kernel)[before:]]
        orders.add(tuple(order))
        # Neither the unknown agent nor the repeated batch leaves a record.
        kernel.decide_group([[throw("nobody", "x")], [throw("ann", f"{number}")]])
        if kernel.ledger.group != number + 1:
            found.add("groups without a record count")
        for names, seq in ((AGENTS[::-1], 1_000), (AGENTS, 2_000)):
            other, _ = opened(names)
            other.ledger.group, other.ledger.seq = number, seq
            other.decide_group(group, 1.0)
            if [agent_id for agent_id, _ in drawn(other)] != order:
                found.add("registration" if seq == 1_000 else "seq")
    if len(orders) < 7:  # of 120
        found.add("groups are ordered alike")
    records = [record for record in map(decode_record, log) if isinstance(record, Admitted)]
    numbers = [(record.tick, record.group) for record in records]
    if numbers != [(0, number // len(AGENTS)) for number in range(len(numbers))]:
        found.add("records")
    return found


def test_the_order_of_ties_depends_on_seed_tick_group_and_agent_alone():
    assert faults_of_order() == set()
    kernel, _ = opened()
    for number in range(3):
        kernel.decide([throw("ann", f"{number}")])
    assert (kernel.ledger.tick, kernel.ledger.group) == (0, 3)
    kernel.step(1.0)
    assert (kernel.ledger.tick, kernel.ledger.group) == (1, 0)


def by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    register = ledger.Ledger.add_agent

    def add_agent(self: ledger.Ledger, agent_id: str, owner: str) -> Agent:
        agent = register(self, agent_id, owner)
        agent.order_key = mix64(len(self.agents)).to_bytes(16, "little")
        return agent

    monkeypatch.setattr(ledger.Ledger, "add_agent", add_agent)


def by_seq(monkeypatch: pytest.MonkeyPatch) -> None:
    sort = order.execution_order

    def execution_order(batches, ledger, seed, now_ns):
        return sort(batches, ledger, seed + ledger.seq, now_ns)

    monkeypatch.setattr(kernel_module, "execution_order", execution_order)


def refused_groups_count(monkeypatch: pytest.MonkeyPatch) -> None:
    open_group = DecisionRecorder.open_group

    def count_group(self: DecisionRecorder) -> None:
        open_group(self)
        self.context.ledger.group += 1

    monkeypatch.setattr(DecisionRecorder, "open_group", count_group)


def one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "mix64", lambda *words: words[0])


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (by_index, "registration"),
        (by_seq, "seq"),
        (refused_groups_count, "groups without a record count"),
        (one_order, "groups are ordered alike"),
    ],
)
def test_a_planted_fault_of_the_order_is_found(plant, found, monkeypatch):
    plant(monkeypatch)
    assert found in faults_of_order()


# the same ordinals from a log, a snapshot, a fork, and in a verification


def lived(seed: int, steps: int = 40) -> list[bytes]:
    """Return the log of a world with batches of all forms at few moments."""
    kernel, log = opened()
    kernel.change_executor("mail", 99)
    chance = Random(seed)
    for number in range(steps):
        who = chance.choice(AGENTS)
        match chance.randrange(7):
            case 0:
                kernel.step(chance.choice([0.0, 1.0]), [[throw(a, f"s{number}")] for a in AGENTS])
            case 1:
                kernel.decide([throw(who, f"f{number}", fails=True)])
            case 2:
                kernel.change_agent(who, "removed")
                kernel.register_agent(who)
            case 3:
                kernel.decide(
                    {"intents": [throw(who, f"l{number}")], "sim_time": kernel.sim_time + 1}
                )
            case 4:
                kernel.decide([{**throw(who, f"m{number}"), "kind": "Send", "payload": {}}])
                kernel.settle(Settlement(kernel.open_effects()[0].key, succeeded=True, output=None))
            case 5:
                kernel.decide_group([[throw(a, f"g{number}")] for a in chance.sample(AGENTS, 3)])
            case _:
                kernel.decide([throw(a, f"b{number}.{i}") for i, a in enumerate((who, "ann", who))])
    return log


def verified(log: list[bytes]) -> Verifier:
    verifier = Verifier([Dice()])
    for data in log:
        verifier.apply(data)
    return verifier


def go_on(kernel: Kernel) -> Iterator[object]:
    """Continue a world, and return what it draws."""
    kernel.decide([throw(agent_id, "z1") for agent_id in AGENTS])
    kernel.step(0.0, [[throw(agent_id, "z2")] for agent_id in AGENTS])
    yield drawn(kernel)[-10:]
    yield kernel.world_digest()


@pytest.mark.parametrize("seed", range(4))
def test_a_world_draws_the_same_from_its_log_a_snapshot_and_a_restored_kernel(seed):
    log = lived(seed)
    for cut in (len(log), len(log) // 2, len(log) // 3):
        part = log[:cut]
        expected_draws = list(go_on(Kernel(Dice(), KernelConfig(seed=7), history=part)))
        past = resume(decode_snapshot(encode_snapshot(take(folded(part)))))
        assert list(go_on(Kernel(Dice(), KernelConfig(seed=7), history=past))) == expected_draws
        other, _ = opened()
        restore(other, Kernel(Dice(), KernelConfig(seed=7), history=part).snapshot())
        assert list(go_on(other)) == expected_draws


@pytest.mark.parametrize("seed", range(4))
def test_a_live_world_has_the_ledger_of_its_log_and_the_log_verifies(seed):
    log = lived(seed)
    past = folded(log)
    live = Kernel(Dice(), KernelConfig(seed=7), history=log)
    assert live.world_digest() == world_digest(past.state, past.ledger).hex()
    verifier = verified(log)
    assert not verifier.unverified
    assert world_digest(verifier.state, verifier.ledger) == world_digest(past.state, past.ledger)


def test_a_fork_draws_as_its_parent_and_a_fork_inside_a_group_begins_the_next_group():
    kernel, log = opened()
    kernel.joins_batches = False
    kernel.decide_group([[throw(agent_id, "1")] for agent_id in AGENTS], 1.0)
    inside = log[: len(log) - 2]
    for part, group in ((log, 1), (inside, 1)):
        past = folded(part)
        assert past.ledger.group == group
        first = ForkAdopted(
            prev=past.journal.prev,
            seq=past.ledger.seq,
            now_ns=past.ledger.now_ns,
            world="branch",
            parent="world",
            effects="refuse",
            given=[],
            dropped=[],
            changes=Changes(),
        )
        config = KernelConfig(seed=7, world="branch")
        child = Kernel(Dice(), config, history=[*part, encode_record(first)])
        parent = Kernel(Dice(), KernelConfig(seed=7), history=part)
        assert list(go_on(child)) == list(go_on(parent))


def test_a_record_of_a_wrong_group_does_not_fit():
    kernel, log = opened()
    kernel.decide([throw("ann", "1")], 1.0)
    for tick, group in ((0, 1), (1, 0), (0, 5)):
        record = decode_record(log[-1])
        wrong = encode_record(msgspec.structs.replace(record, tick=tick, group=group))
        with pytest.raises(
            Divergence, match=f"group {group} of tick {tick}, expected group 0 of tick 0"
        ):
            folded([*log[:-1], wrong])


def test_a_missing_ordinal_is_found_by_a_verification(monkeypatch):
    log = lived(0)
    monkeypatch.setattr(Ordinals, "of", lambda self, agent_id, now_ns: 0)
    with pytest.raises(DecisionMismatch, match="re-executed, dice"):
        verified(log)


@pytest.mark.parametrize("forgotten", ["of", "dump"])
def test_a_missing_ordinal_is_found_by_a_continuation(forgotten, monkeypatch):
    log = lived(1)
    expected_draws = list(go_on(Kernel(Dice(), KernelConfig(seed=7), history=log)))
    monkeypatch.setattr(Ordinals, forgotten, lambda *_: 0 if forgotten == "of" else {})
    past = resume(take(folded(log)))
    assert list(go_on(Kernel(Dice(), KernelConfig(seed=7), history=past))) != expected_draws


def test_the_counts_that_wait_to_be_summed_are_bounded(monkeypatch):
    monkeypatch.setattr(apply_record, "PENDING_MAX", 3)
    kernel, _ = opened()
    kernel.change_executor("mail", 99)
    waiting = []
    for number in range(10):
        kernel.decide([{**throw("ann", f"{number}"), "kind": "Send", "payload": {}}], 5.0)
        waiting.append(len(kernel.ledger.ordinals.pending))
    assert max(waiting) == 3
    assert kernel.ledger.ordinals.of("ann", 5 * SECOND_NS) == 10


def test_ordinals_are_those_of_one_time():
    counted = Ordinals()
    counted.now_ns = 5
    counted.pending.append((("ann", "Throw", 2), ("ann", "Send", 1)))
    assert counted.of("ann", 5) == 3
    assert counted.of("ann", 6) == 0
    assert counted.dump(6) == {}
    counted.add_hook("bob", 6)
    assert counted.dump(6) == {"bob": 1}
    assert counted.of("ann", 6) == 0


def test_ordinals_of_removed_names_are_forgotten_with_the_names():
    config = KernelConfig(seed=7, limits=Limits(removed_agents_max=3))
    kernel = Kernel(Dice(), config)
    kernel.register_agent("ann")
    kernel.decide([throw("ann", "1")])
    for number in range(20):
        kernel.register_agent(f"x{number}")
        kernel.change_agent(f"x{number}", "removed")
        assert len(kernel.ledger.ordinals.dump(0)) <= 3 + 3
    assert kernel.ledger.ordinals.of("ann", 0) == 1
