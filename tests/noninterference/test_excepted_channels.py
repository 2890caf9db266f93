"""The channels that docs/reference/threat_model.md excepts: each exists, and discloses no more.

In each test bob is out of ann's sight.
"""

from dataclasses import replace
from typing import Any

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig, conflict
from placet.schemas.batch import CheckedBatch
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.limits import Limits
from placet.schemas.refusal import Stage

FAR = [16, 0]


def grab(draft, intent):
    winner = draft.claim(intent["payload"]["target_id"])
    return None if winner is None else conflict(intent["payload"]["target_id"], winner)


class Sending(World):
    """A world in which `Custom` sends something outside."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        *others, custom = self.kinds
        self.kinds = (*others, replace(custom, rule=send, effects=("send",)))


def send(draft, _intent):
    draft.charge(100)
    draft.emit("send", {})


def world_of(domain: World | None = None, **config: Any) -> Kernel:
    """Return a world in which ann and bob see the lamp between them, and not each other."""
    settings: dict[str, Any] = {
        "objects": {"lamp": {"position": [8, 0]}},
        "observation": {"distance": 10},
        "interactions": {"grab": grab},
    }
    kernel = Kernel(domain or World(**settings), KernelConfig(seed=1, **config))
    kernel.register_agent("ann", position=[0, 0])
    kernel.register_agent("bob", position=FAR)
    return kernel


def intent(kernel: Kernel, agent_id: str, kind: str, req_id: str, **payload: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "payload": payload,
        "agent_id": agent_id,
        "req_id": req_id,
        "context_seq": kernel.seq,
        "priority": 10,
        "schema_version": SCHEMA_VERSION,
    }


def test_seqs_and_batch_numbers_count_hidden_changes():
    kernel = world_of()
    seq = kernel.seq
    assert kernel.decide([intent(kernel, "bob", "Move", "b", to=FAR)]).admitted
    verdict = kernel.decide([intent(kernel, "ann", "Move", "a", to=[1, 0])])
    assert (verdict.seq, verdict.batch_id) == (seq + 2, "b2")


def test_a_threshold_counts_hidden_changes_and_names_none():
    kernel = world_of(staleness_threshold=0)
    mine = intent(kernel, "ann", "Move", "a", to=[1, 0])
    assert kernel.decide([intent(kernel, "bob", "Move", "b", to=FAR)]).admitted
    [refusal] = kernel.decide([mine]).refusals
    assert (refusal.code, refusal.changed) == ("stale_context", ())
    assert "bob" not in refusal.message


def test_the_depth_of_an_executor_counts_hidden_effects():
    kernel = world_of(Sending(observation={"distance": 10}))
    kernel.change_executor("send", 1)
    assert kernel.decide([intent(kernel, "bob", "Custom", "b", action="x")]).admitted
    [refusal] = kernel.decide([intent(kernel, "ann", "Custom", "a", action="x")]).refusals
    assert (refusal.code, refusal.stage) == ("executor_busy", Stage.BACKPRESSURE)
    assert {name: refusal.details[name] for name in ("signal", "value", "limit")} == {
        "signal": "outbox_depth", "value": 1, "limit": 1,
    }  # fmt: skip


def test_a_full_schedule_counts_hidden_batches_and_discloses_when_one_is_due():
    kernel = world_of(limits=Limits(schedule_batches_max=1))
    hidden = {"intents": [intent(kernel, "bob", "Move", "b", to=FAR)], "sim_time": 7.0}
    assert kernel.decide(hidden, submitter="bob").scheduled
    mine = {"intents": [intent(kernel, "ann", "Move", "a", to=[1, 0])], "sim_time": 9.0}
    [refusal] = kernel.decide(mine, submitter="ann").refusals
    assert (refusal.code, refusal.retry_after) == ("schedule_full", 7.0)
    assert "bob" not in refusal.message


def test_a_world_wide_quota_is_used_up_by_hidden_agents():
    kernel = world_of(world_quota={"rate": 1, "burst": 1})
    assert kernel.decide([intent(kernel, "bob", "Move", "b", to=FAR)]).admitted
    [refusal] = kernel.decide([intent(kernel, "ann", "Move", "a", to=[1, 0])]).refusals
    assert refusal.code == "quota_exceeded"
    assert (
        refusal.message == "all agents together may propose once in 1 s, 1 at once; retry in 1.00 s"
    )


def test_a_quota_of_an_agent_is_not_used_up_by_hidden_agents():
    kernel = world_of(quotas={"Move": {"rate": 1, "burst": 1}})
    assert kernel.decide([intent(kernel, "bob", "Move", "b", to=FAR)]).admitted
    assert kernel.decide([intent(kernel, "ann", "Move", "a", to=[1, 0])]).admitted


def test_work_of_hidden_agents_delays_a_batch_to_a_later_group():
    kernel = world_of(Sending(observation={"distance": 10}))
    kernel.change_executor("send", 8)
    batches = []
    for name, priority in (("ann", 10), ("bob", 90)):
        sent = {**intent(kernel, name, "Custom", name, action="x"), "priority": priority}
        checked = kernel.check([sent])
        assert isinstance(checked, CheckedBatch)
        batches.append(checked)
    decision = kernel.decide_checked(batches, 0, work_max=50)
    assert [verdict.admitted for _, verdict in decision.answers] == [True]
    assert [batch.agents for batch in decision.undecided] == [batches[0].agents]
    [(_, late)] = kernel.decide_checked(decision.undecided, 0).answers
    assert late.admitted


def test_a_claim_of_a_hidden_agent_refuses_and_does_not_name_it():
    kernel = world_of()
    grabs = {"target_id": "lamp", "interaction_type": "grab"}
    verdicts = kernel.decide_group(
        [
            [{**intent(kernel, "bob", "Interact", "b", **grabs), "priority": 90}],
            [intent(kernel, "ann", "Interact", "a", **grabs)],
        ]
    )
    assert verdicts[0].admitted
    [refusal] = verdicts[1].refusals
    assert (refusal.code, refusal.details["winner"]) == ("conflict", None)
    assert refusal.message == (
        "lamp was taken by another agent at the same moment; look again and choose another"
    )


def test_a_hidden_field_of_an_entity_that_is_seen_makes_stale_and_is_not_shown():
    sight = {"hidden_fields": ["inventory"]}
    greets = {"greet": lambda draft, intent: None}  # it depends on its target
    objects = {"ring": {"position": FAR}}
    kernel = world_of(World(objects=objects, observation=sight, interactions=greets))
    greet = {"target_id": "bob", "interaction_type": "greet"}
    mine = intent(kernel, "ann", "Interact", "a", **greet)
    take = {"target_id": "ring", "interaction_type": "pickup"}
    assert kernel.decide([intent(kernel, "bob", "Interact", "b", **take)]).admitted
    [refusal] = kernel.decide([mine]).refusals
    [change] = refusal.changed
    assert (refusal.code, change["entity"]) == ("stale_context", "world.agents/bob")
    assert "inventory" not in change["now"]


def test_a_batch_that_moves_its_agent_first_is_judged_by_what_it_sees_there():
    kernel = world_of()
    look = {"target_id": "bob", "interaction_type": "examine"}
    for place, codes in (([8, 0], ()), ([0, 8], ("world.target_unknown",))):
        batch = [
            intent(kernel, "ann", "Move", "a", to=place),
            intent(kernel, "ann", "Interact", "b", **look),
        ]
        assert kernel.decide({"intents": batch, "dry_run": True}).codes == codes
