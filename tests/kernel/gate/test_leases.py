"""Leases in the gate: requests, refused changes, and their place in log, snapshot and fork."""

from typing import Any

import pytest

from placet.domains.world import World
from placet.errors import DomainError
from placet.kernel import Domain, Kernel, KernelConfig, Kind
from placet.kernel.log import explain_stages, snapshot
from placet.kernel.log.explain_record import explain_batch
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.schemas.config import Leases
from placet.schemas.effect import Effect, EffectKey, Settlement
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.log.record import Configured, ConfiguredWithLeases, Refused, decode_record
from placet.schemas.refusal import Stage

LAMP, WELL = ["world.objects", "lamp"], ["world.objects", "well"]


class Room:
    """A world with a lamp and a well, and methods that decide one batch."""

    def __init__(self, *, leases: Leases | None = None, observation: Any = None, **config: Any):
        self.world = lambda: World(
            objects={"lamp": {"position": [1, 0]}, "well": {"position": [1, 1]}},
            observation=observation,
        )
        self.log: list[bytes] = []
        config.setdefault("seed", 1)
        self.config = KernelConfig(leases=leases or Leases(), **config)
        self.kernel = Kernel(self.world(), self.config, sink=self.log.append)
        for agent_id, place in (
            ("ann", [0, 0]),
            ("bob", [0, 0]),
            ("cyd", [50, 0]),
            ("eve", [0, 0]),
        ):
            self.kernel.register_agent(agent_id, position=place)

    def use(self, who: str, target: str = "lamp") -> Any:
        return self.kernel.intent("Interact", agent=who, target_id=target, interaction_type="use")

    def ask(self, who: str, *refs: Any, seconds: float = 2.0, **more: Any) -> Any:
        payload = {"refs": list(refs or (LAMP,)), "seconds": seconds, **more}
        return self.kernel.intent("placet.lease", payload, agent=who)

    def release(self, who: str) -> Any:
        return self.kernel.intent("placet.release", agent=who)

    def decide(self, *intents: Any, now: float = 0.0, **options: Any) -> Any:
        return self.kernel.decide({"intents": list(intents), **options}, now)

    def lease(self, who: str, *refs: Any, now: float = 0.0, **more: Any) -> Any:
        verdict = self.decide(self.ask(who, *refs, **more), now=now)
        assert verdict.admitted, verdict.refusals
        return verdict.results[0].output

    def check(self) -> None:
        """Fold, snapshot and verify the log."""
        past, digest = folded(self.log), self.kernel.world_digest()
        assert snapshot.world_digest(past.state, past.ledger).hex() == digest
        again = snapshot.resume(snapshot.take(past))
        assert snapshot.world_digest(again.state, again.ledger).hex() == digest
        verifier = Verifier([self.world()])
        for data in self.log:
            verifier.apply(data)
        assert verifier.unverified == []


def early(intent: Any) -> Any:
    """Return an intent of another world, from the view of its beginning."""
    return {**intent, "context_seq": 0}


def test_a_change_of_a_leased_entity_waits_for_its_holder():
    room = Room()
    assert room.lease("ann") == {"granted": True, "until": 2.0, "ahead": 0}
    records = len(room.log)
    (refusal,) = room.decide(room.use("bob"), now=0.5).refusals
    assert (refusal.code, refusal.stage, refusal.index) == ("leased", "domain", None)
    assert refusal.message == (
        "world.objects/lamp is leased by 'ann' for at most 1.5 s more; send the batch again then, "
        "or lease it first"
    )
    assert refusal.retry_after == 1.5
    assert refusal.details == {"agent_id": "bob", "entity": "world.objects/lamp", "holder": "ann"}
    assert len(room.log) == records  # no record, and the same req_id may come again
    assert room.decide(room.use("bob", "well"), now=0.5).admitted
    assert room.decide(room.use("ann"), now=0.6).admitted
    # All agents of a batch are the holder, or it waits.
    assert room.decide(room.use("ann"), room.use("bob", "well"), now=0.7).codes == ("leased",)
    again = room.use("bob")
    assert room.decide(again, now=1.9).codes == ("leased",)
    assert room.decide(again, now=2.0).admitted
    room.check()


def test_single_batches_of_a_group_wait_too_from_the_lease_on():
    room = Room()
    group = [[room.use("bob")], [room.ask("ann")], [room.use("bob")], [room.use("ann")]]
    verdicts = room.kernel.decide_group(group, 0.0)
    codes = sorted(verdict.codes for verdict in verdicts)
    assert codes.count(("leased",)) == sum(not verdict.admitted for verdict in verdicts) <= 2
    room.check()


def test_the_usual_end_is_an_act_with_a_release():
    room = Room()
    room.lease("ann")
    verdict = room.decide(room.use("ann"), room.release("ann"), now=0.5)
    assert verdict.results[1].output == {"released": True}
    assert room.decide(room.use("bob"), now=0.5).admitted
    assert room.decide(room.release("ann"), now=0.6).results[0].output == {"released": False}
    room.check()


def test_a_dry_run_answers_and_takes_nothing():
    room = Room()
    verdict = room.decide(room.ask("ann"), dry_run=True)
    assert verdict.results[0].output["granted"]
    assert not room.kernel.ledger.leases.tickets  # type: ignore[union-attr]
    room.lease("ann")
    assert room.decide(room.use("bob"), dry_run=True, now=0.1).codes == ("leased",)


@pytest.mark.parametrize(
    ("refs", "fields", "code", "message"),
    [
        ([LAMP], {"seconds": 11}, "lease_refused", "a lease is at most 10 s long"),
        ([LAMP, WELL, ["world.agents", "ann"]], {}, "lease_refused", "at most 2 entities"),
        ([["world.objects", "ghost"]], {}, "lease_unknown", "no entity world.objects/ghost"),
        ([["nowhere", "lamp"]], {}, "lease_unknown", "no entity nowhere/lamp"),
        ([["world.agents", "cyd"]], {}, "lease_unknown", "no entity world.agents/cyd"),
        ([], {}, "payload_invalid", ""),
        ([["lamp"]], {}, "payload_invalid", ""),
        ([LAMP], {"seconds": 0}, "payload_invalid", ""),
        ([LAMP], {"seconds": float("inf")}, "payload_invalid", ""),
        ([LAMP], {"begin": "yes"}, "payload_invalid", ""),
        ([LAMP], {"until": 5}, "payload_invalid", ""),
    ],
)
def test_a_request_that_is_not_granted_a_ticket_says_why(refs, fields, code, message):
    room = Room(leases=Leases(refs_max=2), observation={"distance": 5})
    payload = {"refs": refs, "seconds": 1.0, **fields}
    (refusal,) = room.decide(room.kernel.intent("placet.lease", payload, agent="ann")).refusals
    assert refusal.code == code
    assert message in refusal.message


def test_one_ticket_an_agent_and_one_lease_intent_a_batch():
    room = Room(leases=Leases(tickets_max=2))
    room.lease("ann")
    (refusal,) = room.decide(room.ask("ann", WELL)).refusals
    assert (refusal.code, refusal.at) == ("lease_refused", "/intents/0/payload/refs")
    assert "release it first" in refusal.message
    assert room.decide(room.ask("bob"), room.release("bob")).codes == ("lease_refused",)
    room.lease("bob")
    (refusal,) = room.decide(room.ask("cyd", ["world.agents", "cyd"])).refusals
    assert "2 tickets are taken" in refusal.message
    room.check()


def test_a_refusal_names_neither_entity_nor_holder_that_the_agent_does_not_see():
    class Vault(Domain):
        name, version = "vault", "1"
        hides = ("vault.secrets",)
        kinds = (Kind("Turn", dict[str, int], lambda d, i: d.put("vault.secrets", "s", "n", 1)),)

        def on_open(self, draft):
            draft.create("vault.secrets", "s", {"n": 0})

        def may_see(self, state, agent_id, ref):
            return agent_id == "ann"

    kernel = Kernel(Vault(), KernelConfig(leases=Leases()))
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id)
    ask = {"refs": [["vault.secrets", "s"]], "seconds": 1.0}
    assert kernel.decide([kernel.intent("placet.lease", ask, agent="bob")]).codes == (
        "lease_unknown",
    )
    assert kernel.decide([kernel.intent("placet.lease", ask, agent="ann")]).admitted
    (refusal,) = kernel.decide([kernel.intent("Turn", agent="bob")]).refusals
    assert refusal.message.startswith("an entity that it would change is leased for at most 1 s")
    assert (refusal.details["entity"], refusal.details["holder"]) == (None, None)


def test_a_lone_release_is_spared_from_quotas():
    room = Room(quotas={"*": {"rate": 0.1, "burst": 1}})
    room.lease("ann")
    assert room.decide(room.use("ann")).codes == ("quota_exceeded",)
    assert room.decide(room.release("ann")).results[0].output == {"released": True}
    assert room.decide(room.release("ann")).codes == ("quota_exceeded",)  # it has nothing
    both = room.decide(room.use("bob"), room.release("bob"))
    assert set(both.codes) == {"batch_exceeds_burst"}
    room.check()


@pytest.mark.parametrize("change", ["suspended", "removed"])
def test_a_lease_ends_with_the_suspension_or_the_removal_of_its_holder(change):
    room = Room()
    room.lease("ann")
    room.kernel.change_agent("ann", change)
    assert room.decide(room.use("bob"), now=0.1).admitted
    room.check()


def test_patches_and_ticks_are_not_held_up():
    room = Room()
    room.lease("ann")
    room.kernel.patch([("world.objects", "lamp", {"price": 3}, False)], "a test")
    room.kernel.tick(1.0)
    room.check()


def test_a_batch_that_is_due_during_a_lease_is_refused_for_good():
    room = Room()
    later = room.use("bob")
    assert room.decide(later, sim_time=1.0).scheduled
    room.lease("ann", now=0.5)
    room.kernel.step(1.0)
    assert room.kernel.verdict_of("bob", later["req_id"]).codes == ("leased",)  # type: ignore[union-attr]
    (record,) = [r for r in map(decode_record, room.log) if isinstance(r, Refused)]
    ((_, _, code, message),) = record.refusals
    assert code == "leased"
    assert "for at most 1 s more; send a new batch then, or lease it first" in message
    room.check()


def test_a_lease_outlives_a_restart_and_ends_in_time():
    room = Room()
    room.lease("ann", seconds=2)
    room.kernel = Kernel(room.world(), room.config, history=list(room.log), sink=room.log.append)
    assert room.decide(room.use("bob"), now=1.0).codes == ("leased",)
    assert room.decide(room.use("bob"), now=2.0).admitted
    room.check()


def test_a_rollback_takes_a_lease_back():
    room = Room()
    log_at = room.kernel.world_digest()
    kernel = Kernel(room.world(), room.config)
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id, position=[0, 0])
    mark, before = kernel.mark(), kernel.world_digest()
    assert kernel.decide([early(room.ask("ann"))], 0.0).admitted
    second = kernel.mark()
    held = kernel.world_digest()
    assert kernel.decide([early(room.release("ann"))], 0.5).admitted
    kernel.rollback(second)
    assert kernel.world_digest() == held
    assert kernel.decide([early(room.use("bob"))], 0.5).codes == ("leased",)
    kernel.rollback(mark)
    assert kernel.world_digest() == before
    assert kernel.decide([early(room.use("bob"))], 0.5).admitted
    assert log_at == room.kernel.world_digest()


def test_leases_may_be_turned_on_and_off_in_a_world_that_exists():
    room = Room()
    plain = KernelConfig(seed=1)
    log: list[bytes] = []
    kernel = Kernel(room.world(), plain, sink=log.append)
    kernel.register_agent("ann", position=[0, 0])
    ask = early(room.ask("ann"))
    assert kernel.decide([ask]).codes == ("kind_unknown",)
    kernel = Kernel(room.world(), room.config, history=list(log), sink=log.append)
    assert kernel.decide([ask]).admitted
    kernel = Kernel(room.world(), room.config, history=list(log), sink=log.append)
    assert len(kernel.ledger.leases.tickets) == 1  # type: ignore[union-attr]
    kernel = Kernel(room.world(), plain, history=list(log), sink=log.append)
    assert kernel.ledger.leases is None
    kinds = [type(r) for r in map(decode_record, log) if isinstance(r, Configured)]
    assert kinds == [Configured, ConfiguredWithLeases, Configured]
    room.log, room.kernel = log, kernel
    room.check()


def test_other_settings_of_leases_hold_from_the_next_request_on():
    room = Room()
    room.lease("ann", seconds=2)
    config = KernelConfig(seed=1, leases=Leases(seconds_max=1))
    room.kernel = Kernel(room.world(), config, history=list(room.log), sink=room.log.append)
    assert room.decide(room.use("bob"), now=1.5).codes == ("leased",)  # as it was granted
    assert room.decide(room.ask("bob", WELL, seconds=1.5)).codes == ("lease_refused",)
    room.check()


def test_a_world_without_leases_has_the_bytes_of_before():
    logs = []
    for config in (KernelConfig(seed=1), KernelConfig(seed=1, leases=None)):
        log: list[bytes] = []
        kernel = Kernel(World(), config, sink=log.append)
        kernel.register_agent("ann")
        logs.append(log)
    assert logs[0] == logs[1]
    assert b"leases" not in snapshot.take(folded(logs[0])).world


def test_the_quota_of_a_lease_is_a_setting_like_others():
    room = Room(quotas={"placet.lease": {"rate": 1, "burst": 1}})
    room.lease("ann")
    room.decide(room.release("ann"))
    assert room.decide(room.ask("ann")).codes == ("quota_exceeded",)
    with pytest.raises(ValueError, match=r"there is no kind 'placet\.lease'"):
        Kernel(World(), KernelConfig(quotas={"placet.lease": {"rate": 1, "burst": 1}}))


def test_no_domain_may_be_called_placet():
    class Placet(Domain):
        name, version = "placet", "1"
        kinds = (Kind("Go", dict[str, int], lambda draft, intent: None),)

    with pytest.raises(DomainError, match="cannot be called 'placet'"):
        Kernel(Placet())


def test_settings_of_leases_are_leases():
    with pytest.raises(TypeError, match="leases must be"):
        KernelConfig(leases={"seconds_max": 3})  # type: ignore[arg-type]


def test_the_lease_of_an_agent_that_a_rule_removes_ends():
    class Reaper(Domain):
        name, version = "reap", "1"
        kinds = (
            Kind("Reap", dict[str, str], lambda d, i: d.remove(i["payload"]["who"])),
            Kind("Touch", dict[str, int], lambda d, i: d.put("reap.things", "t", "n", 1)),
        )

        def on_open(self, draft):
            draft.create("reap.things", "t", {"n": 0})

    log: list[bytes] = []
    kernel = Kernel(Reaper(), KernelConfig(leases=Leases()), sink=log.append)
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id)
    ask = {"refs": [["reap.things", "t"]], "seconds": 5}
    assert kernel.decide([kernel.intent("placet.lease", ask, agent="ann")], 0.0).admitted
    assert kernel.decide([kernel.intent("Touch", agent="bob")], 0.1).codes == ("leased",)
    assert kernel.decide([kernel.intent("Reap", agent="bob", who="ann")], 0.2).admitted
    assert kernel.decide([kernel.intent("Touch", agent="bob")], 0.3).admitted
    past = folded(log)
    assert snapshot.world_digest(past.state, past.ledger).hex() == kernel.world_digest()


def test_limits_and_settlements_are_not_held_up():
    class Post(Domain):
        name, version = "post", "1"
        kinds = (Kind("Send", dict[str, int], lambda d, i: d.emit("mail", {}), effects=("mail",)),)

        def on_open(self, draft):
            draft.create("post.box", "b", {"n": 0})

        def on_settle(self, draft, effect: Effect, settlement: Settlement):
            draft.put("post.box", "b", "n", 1)

    kernel = Kernel(Post(), KernelConfig(leases=Leases(), limits=Limits()))
    for agent_id in ("ann", "bob"):
        kernel.register_agent(agent_id)
    kernel.change_executor("mail", 10)
    sent = kernel.decide([kernel.intent("Send", agent="bob")], 0.0)
    ask = {"refs": [["post.box", "b"]], "seconds": 5}
    assert kernel.decide([kernel.intent("placet.lease", ask, agent="ann")], 0.0).admitted
    kernel.settle(Settlement(EffectKey("world", sent.seq or 0, 0), True, None))
    assert kernel.state["post.box"]["b"]["n"] == 1


def explained_lines(log: list[bytes], world: World | None) -> list[str]:
    """Return what the domain stage of the last record compared, as text."""
    past = Verifier([world]) if world is not None else Verifier()
    for data in log[:-1]:
        past.apply(data)
    explained: Any = explain_batch(past, decode_record(log[-1]), 0)  # type: ignore[arg-type]
    (stage,) = [stage for stage in explained.stages if stage.stage == "domain"]
    describe = explain_stages.EXPLAINED_STAGES[Stage.DOMAIN].describe
    return [line for compared in stage.compared for line in describe(compared)]


def test_an_explanation_names_the_leases_that_ran_and_that_the_agent_sees():
    room = Room(observation={"distance": 5})
    room.lease("ann", seconds=3.0)
    assert room.decide(room.use("ann"), now=0.5).admitted
    leased = "world.objects/lamp is leased by ann until 3 s"
    assert leased in explained_lines(room.log, room.world())
    assert leased not in explained_lines(room.log, None)  # nobody says what an agent sees
    far = room.kernel.intent("Speak", agent="cyd", text="Hello.", channel="public")
    assert room.decide(far, now=0.6).admitted
    assert leased not in explained_lines(room.log, room.world())


def test_a_turn_that_is_given_back_before_its_start_is_charged():
    """Else two agents that take turns with the call keep all others out, at no cost."""
    room = Room(leases=Leases(begin_within=1.0))
    room.lease("ann", seconds=0.1, begin=False)
    room.lease("eve", seconds=0.1, begin=False)
    assert not room.lease("bob", seconds=2.0)["granted"]
    now = 0.0
    for turn in range(6):
        now += 0.9
        called = ("ann", "eve")[turn % 2]
        if room.lease("bob", seconds=2.0, now=now)["granted"]:
            break
        assert room.decide(room.release(called), now=now).admitted
        room.lease(called, seconds=0.1, begin=False, now=now)
    else:
        raise AssertionError("the turn never comes to a third agent")
    room.check()


def test_other_settings_of_leases_hold_for_a_verifier_too():
    room = Room(leases=Leases(seconds_max=2))
    room.lease("ann", seconds=2.0)
    assert room.decide(room.use("bob", "well"), now=0.5).admitted
    log = list(room.log)
    config = KernelConfig(seed=1, leases=Leases(seconds_max=9))
    room.kernel = Kernel(room.world(), config, history=log, sink=room.log.append)
    assert room.lease("bob", WELL, seconds=8.0, now=1.0)["granted"]
    room.check()


def test_a_lease_is_requested_and_released_from_an_old_view():
    room = Room(staleness_threshold=3)
    for _ in range(6):
        assert room.decide(room.use("cyd", "well")).codes in {(), ("out_of_range",)}
        assert room.decide(
            room.kernel.intent("Speak", agent="bob", text="Hello.", channel="public")
        ).admitted
    assert room.decide(early(room.ask("ann"))).admitted
    assert room.decide(early(room.release("ann"))).admitted
    assert room.decide(early(room.use("ann"))).codes == ("stale_context",)
    room.check()


def test_owners_whose_turns_lapse_are_forgotten_in_time():
    room = Room(leases=Leases(begin_within=1.0))
    for number in range(200):
        name = f"a{number}"
        room.kernel.register_agent(name, position=[0, 0])
        room.lease(name, seconds=0.1, begin=False, now=0.9 * number)
    leases: Any = room.kernel.ledger.leases
    _, _, finish, _, tickets, _ = leases.at(180 * SECOND_NS).dump()
    assert len(tickets) <= 64
    assert len(finish) <= 64
    room.check()


def test_a_ticket_that_ran_out_neither_slows_nor_spares_a_batch():
    room = Room(quotas={"placet.release": {"rate": 0.001, "burst": 1}})
    room.lease("ann", seconds=1.0)
    assert room.decide(room.release("ann"), now=5.0).admitted  # charged: there is no ticket
    assert room.decide(room.release("ann"), now=5.1).codes == ("quota_exceeded",)
    assert room.decide(room.use("ann"), now=5.2).admitted
    room.check()
