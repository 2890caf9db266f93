"""Every code of the gate, produced by the kernel, with its stage, path and message.

The messages say what failed, what was expected, what came, and what to do.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from placet.domains.accounts import Accounts
from placet.kernel import Kernel
from placet.kernel.gate import STAGES
from placet.schemas.config import Leases
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.refusal import STAGE_OF, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import MAIL, Lab

# Codes of the actors, which the kernel does not return; tests/actors has their rows.
ADMISSION = set(STAGES[0].codes)


class Row(NamedTuple):
    """A batch for a kernel, and its expected first refusal."""

    code: str
    at: str
    message: str
    ask: Callable[[], Verdict]
    stage: Stage | None = None
    retry_after: float | None = None
    intent: int | None = 0
    details: Mapping[str, Any] = MappingProxyType({})


def decide(raw: Any, **settings: Any) -> Verdict:
    return kernel_of(**settings).decide(raw)


def without(field: str) -> dict[str, Any]:
    whole = add("r")
    del whole[field]
    return whole


def after(*earlier: Any, then: Any, now: float = 0.0, **settings: Any) -> Verdict:
    """Decide a batch once the earlier ones are admitted."""
    kernel = kernel_of(**settings)
    for batch in earlier:
        assert kernel.decide(batch).admitted
    return kernel.decide(then, now)


def suspended() -> Verdict:
    kernel = kernel_of()
    kernel.change_agent("alice", "suspended")
    return kernel.decide(add("r"))


PUT_LAMP = intent("Put", {"thing": "lamp", "field": "lit", "value": True})


def lease(who: str, thing: str, seconds: float = 2.0) -> dict[str, Any]:
    payload = {"refs": [["lab.things", thing]], "seconds": seconds}
    return intent("placet.lease", payload, f"{who} leases {thing}", agent_id=who)


def of_lamp(then: Any) -> Verdict:
    """Decide a batch while bob has leased the lamp."""
    made = intent("Put", {"thing": "lamp", "field": "f", "value": 1}, agent_id="bob")
    return after(made, lease("bob", "lamp"), then=then, leases=Leases())


def over_budget() -> Verdict:
    kernel = Kernel(Accounts(accounts={"team": {"give": {"calls": 1}}}))
    kernel.register_agent("alice")
    want = {"account": "team", "id": "a", "unit": "calls", "amount": 2}
    return kernel.decide([kernel.intent("account.reserve", want, agent="alice")])


EXPECTED = {"path": ["lab.things", "lamp", "f"], "op": "==", "value": 1}


def somebody_elses() -> Verdict:
    return kernel_of().decide(add("r"), submitter="bob")


def permitted_only_look() -> Verdict:
    kernel = kernel_of()
    kernel.set_agent_permissions("alice", {"Look", "Grab"})
    return kernel.decide(add("r"))


def permitted_nothing() -> Verdict:
    kernel = kernel_of()
    kernel.set_agent_permissions("alice", set())
    return kernel.decide(add("r"))


def forgotten() -> Verdict:
    return after(add("n:1"), add("n:2"), then=add("n:1"), limits={"window_ids_max": 1})


def changed_by_bob() -> Verdict:
    put = intent("Put", {"thing": "lamp", "field": "lit", "value": True}, agent_id="bob")
    return after(put, then=intent("Look", {"thing": "lamp"}, context_seq=1))


def changed_in_secret() -> Verdict:
    put = intent("Put", {"thing": "secret", "field": "lit", "value": True}, agent_id="bob")
    return after(put, then=intent("Look", {"thing": "secret"}, context_seq=1))


def graves_forgotten() -> Verdict:
    kernel = kernel_of(limits={"tombstones_max": 1})
    for thing in ("a", "b", "c"):
        kernel.decide(intent("Put", {"thing": thing, "field": "f"}, f"+{thing}", agent_id="bob"))
        kernel.decide(intent("Drop", {"thing": thing}, f"-{thing}", agent_id="bob"))
    return kernel.decide(intent("Look", {"thing": "a"}, context_seq=1))


def quota(*, burst: int = 4) -> dict[str, Any]:
    return {"Add": {"rate": 2, "burst": burst}}


def full_outbox() -> Verdict:
    kernel = kernel_of()
    kernel.change_executor(MAIL, 2)
    assert kernel.decide(intent("Mail", {"count": 2})).admitted
    return kernel.decide([add("a"), intent("Mail", {"count": 1}, "b")])


def outbox_of_one_agent() -> Verdict:
    kernel = kernel_of()
    kernel.change_executor(MAIL, 90)
    assert kernel.decide(intent("Mail", {"count": 50})).admitted
    return kernel.decide(intent("Mail", {"count": 1}, "b"), submitter="alice")


def full_schedule(limit: str, value: int, submitter: str = "operator") -> Verdict:
    kernel = kernel_of(limits={limit: value})
    assert kernel.decide({"intents": [add("a")], "sim_time": 5}, submitter=submitter).scheduled
    return kernel.decide({"intents": [add("b")], "sim_time": 9}, submitter=submitter)


def taken() -> Verdict:
    kernel = kernel_of()
    grabs = [
        intent("Grab", {"thing": "lamp"}, agent_id="bob", priority=20),
        intent("Grab", {"thing": "lamp"}, agent_id="alice"),
    ]
    return kernel.decide_group(grabs)[1]


def no_executor() -> Verdict:
    kernel = kernel_of()
    kernel.change_executor(MAIL, None)
    return kernel.decide(intent("Mail", {"count": 1}))


TABLE = [
    # structure
    Row("batch_empty", "", "the batch is empty; send 1 to 512 intents", lambda: decide([]),
        intent=None),
    Row("batch_too_large", "",
        "the batch has 3 intents, at most 2 may stand in one; split it",
        lambda: decide([add("a"), add("b"), add("c")], limits={"batch_intents_max": 2}),
        intent=None),
    Row("batch_too_large", "",
        "the batch has 47 bytes encoded, at most 40 may stand in one; split it",
        lambda: decide([add("a"), add("b")], limits={"batch_bytes_max": 40}), intent=None),
    Row("field_missing", "/intents/0/kind",
        "field 'kind' is missing; an intent has kind, payload, agent_id, req_id, context_seq, "
        "priority, schema_version", lambda: decide(without("kind"))),
    Row("field_missing", "/intents/0/priority",
        "field 'priority' is missing; an intent has kind, payload, agent_id, req_id, context_seq, "
        "priority, schema_version", lambda: decide([without("priority")])),
    Row("field_invalid", "/intents/0/priority",
        "field 'priority': input should be less than or equal to 100, got 101",
        lambda: decide(add("a", priority=101))),
    Row("field_invalid", "/intents/0/priority",
        "field 'priority': input should be a valid integer, got true",
        lambda: decide(add("a", priority=True))),
    Row("field_invalid", "/intents/0/kind", "field 'kind' must be a string, got 7",
        lambda: decide(intent(7))),
    Row("field_invalid", "/intents/0/schema_version",
        "schema_version must be a semantic version string, got '1'",
        lambda: decide(add("a", schema_version="1"))),
    Row("field_invalid", "/intents/1/req_id",
        "req_id 'a' is used twice, first at /intents/0; each intent of an agent needs its own",
        lambda: decide([add("a"), add("a")]), intent=1),
    Row("field_invalid", "/intents/0", "an intent must be an object, got 'Add'",
        lambda: decide(["Add"])),
    Row("field_invalid", "/intents/0/req_id",
        "a string must be valid Unicode, got '\\ud800'", lambda: decide(add("\ud800"))),
    Row("field_invalid", "",
        "a batch must be an array of intents, an object with 'intents', or one intent; got 'Add'",
        lambda: decide("Add"), intent=None),
    Row("field_invalid", "/intents",
        "a batch must be an array of intents, an object with 'intents', or one intent; got 7",
        lambda: decide({"intents": 7}), intent=None),
    Row("field_invalid", "/dry_run", "dry_run must be true or false, got 1",
        lambda: decide({"intents": [add("a")], "dry_run": 1}), intent=None),
    Row("field_invalid", "/sim_time",
        "sim_time must be 0 to 9223372036 seconds, got -1",
        lambda: decide({"intents": [add("a")], "sim_time": -1}), intent=None),
    Row("field_invalid", "/valid_for_s",
        "valid_for_s must be 0 to 9223372036 seconds, got nan",
        lambda: decide({"intents": [add("a")], "valid_for_s": float("nan")}), intent=None),
    Row("field_unknown", "/dry~1run",
        "a batch has no field 'dry/run'; it has dry_run, intents, sim_time, valid_for_s",
        lambda: decide({"intents": [add("a")], "dry/run": True}), intent=None),
    Row("field_unknown", "/intents/0/agentid",
        "field 'agentid' is unknown; did you mean 'agent_id'?",
        lambda: decide(add("a", agentid="alice"))),
    Row("field_unknown", "/intents/0/q",
        "field 'q' is unknown; an intent has kind, payload, agent_id, req_id, context_seq, "
        "priority, schema_version, valid_until, expect",
        lambda: decide(add("a", q=1))),
    Row("version_unsupported", "/intents/0/schema_version",
        "schema_version '2.0.0' has another major than '1.0.0', which this world reads; "
        "send '1.0.0'", lambda: decide(add("a", schema_version="2.0.0"))),
    Row("kind_unknown", "/intents/0/kind", "kind 'Addd' is not registered; did you mean Add?",
        lambda: decide(intent("Addd"))),
    Row("kind_unknown", "/intents/0/kind",
        "kind 'xyz' is not registered; the kinds are Add, Clamp, Custom, Drop, Fail, Give, Glance, "
        "Grab, Look, Mail, Place, Put and 4 more",
        lambda: decide(intent("xyz"))),
    Row("payload_invalid", "/intents/0/payload/amount",
        "payload of Add/amount: input should be a valid integer, got 'one'",
        lambda: decide(intent("Add", {"amount": "one"}))),
    Row("payload_invalid", "/intents/1/payload/amount", "payload of Add/amount: field required",
        lambda: decide([add("a"), intent("Add", {}, "b")]), intent=1),
    Row("payload_invalid", "/intents/0/payload/extra",
        "payload of Add/extra: extra inputs are not permitted, got 1",
        lambda: decide(intent("Add", {"amount": 1, "extra": 1}))),
    Row("payload_invalid", "/intents/0/payload/text",
        "payload of Say/text: input should be a valid string, got 7",
        lambda: decide(intent("Say", {"text": 7}))),
    Row("payload_invalid", "/intents/0/payload/value/0/x",
        "a number must be finite, got nan",
        lambda: decide(
            intent("Put", {"thing": "a", "field": "f", "value": [{"x": float("nan")}]})
        )),
    Row("payload_invalid", "/intents/0/payload/amount",
        "an int must fit 64 bits, got one of 65 bits", lambda: decide(add("a", 2**64))),
    Row("payload_too_large", "/intents/0/payload",
        "the payload has 107 bytes encoded, at most 100 are allowed; put large data elsewhere and "
        "send a reference",
        lambda: decide(
            intent("Put", {"thing": "a" * 90, "field": "f"}), limits={"payload_bytes_max": 100}
        )),
    Row("payload_too_large", "/intents/0/payload",
        "the payload has 107 bytes encoded, at most 100 are allowed; put large data elsewhere and "
        "send a reference",
        lambda: decide(intent("Drop", {"thing": "a" * 98}), limits={"payload_bytes_max": 100})),
    Row("payload_too_large", "/intents/0/payload",
        "the payload has more than 100 bytes encoded, at most 100 are allowed; put large data "
        "elsewhere and send a reference",
        lambda: decide(
            intent("Say", {"text": "a" * 9000}), limits={"payload_bytes_max": 100}
        )),
    # agent
    Row("agent_unknown", "/intents/0/agent_id",
        "agent 'carol' is not registered; register it before it proposes",
        lambda: decide(add("a", agent_id="carol"))),
    Row("agent_suspended", "/intents/0/agent_id",
        "agent 'alice' is suspended; it may propose again once it is resumed", suspended),
    Row("agent_not_yours", "/intents/0/agent_id",
        "submitter 'bob' may not speak for agent 'alice'; submit through that agent's own handle",
        somebody_elses),
    Row("permission_denied", "/intents/0/kind",
        "agent 'alice' may not propose Add; it may propose ['Grab', 'Look']", permitted_only_look),
    Row("permission_denied", "/intents/0/kind",
        "agent 'alice' may not propose Add; it may propose nothing", permitted_nothing),
    # dedup
    Row("req_id_reused", "/intents/0/req_id",
        "req_id 'a' was used before with other content or in another batch (admitted at seq 5); "
        "use a new req_id", lambda: after(add("a"), then=add("a", 2)),
        details={"earlier": "admitted at seq 5"}),
    Row("req_id_too_old", "/intents/0/req_id",
        "req_id 'n:1' is older than the remembered part of its sequence, so it may have been "
        "decided before; use a newer number", forgotten),
    # staleness
    Row("context_from_future", "/intents/0/context_seq",
        "context_seq 99 is ahead of the world, which is at seq 4; send the seq of a view you were "
        "given", lambda: decide(add("a", context_seq=99)), details={"context_seq": 99}),
    Row("expired", "/intents/0/valid_until",
        "the intent was valid until 1.5 s and it is 2 s; propose anew",
        lambda: after(then=add("a", valid_until=1.5), now=2.0)),
    Row("stale_context", "/intents/0/context_seq",
        "context_seq 1 is 3 behind the world at seq 4, at most 2 is allowed; refresh the view and "
        "propose again", lambda: decide(add("a", context_seq=1), staleness_threshold=2),
        details={"context_seq": 1}),
    Row("stale_context", "/intents/0/context_seq",
        "lab.things/lamp changed after context_seq 1; refresh the view and propose again",
        changed_by_bob, details={"context_seq": 1}),
    Row("condition_failed", "/intents/0/expect/0",
        "expected lab.things/lamp/f == 1, found nothing; refresh the view and propose again",
        lambda: decide(add("a", expect=[EXPECTED])),
        details={"path": EXPECTED["path"], "found": None}),
    Row("context_too_old", "/intents/0/context_seq",
        "context_seq 1 is older than the tracked changes of lab.things/a (from seq 8); refresh the "
        "view and propose again", graves_forgotten, details={"context_seq": 1}),
    # quota
    Row("quota_exceeded", "/intents/0",
        "agent 'alice' may propose Add 2 times a second, 4 at once; retry in 0.50 s",
        lambda: after([add(str(n)) for n in range(4)], then=add("a"), quotas=quota()),
        retry_after=0.5, details={"agent_id": "alice", "kind": "Add"}),
    Row("quota_exceeded", "/intents/0",
        "agent 'alice' may propose 2 times a second, 1 at once; retry in 0.50 s",
        lambda: after(add("a"), then=add("b"), quotas={"*": {"rate": 2, "burst": 1}}),
        retry_after=0.5),
    Row("quota_exceeded", "/intents/0",
        "all agents together may propose 2 times a second, 1 at once; retry in 0.50 s",
        lambda: after(
            add("a"), then=add("b", agent_id="bob"), world_quota={"rate": 2, "burst": 1}
        ), retry_after=0.5, details={"agent_id": "bob"}),
    Row("batch_exceeds_burst", "/intents/0",
        "agent 'alice' may propose Add 2 times a second, 4 at once; the batch asks for 5 at once "
        "and can never pass; split it",
        lambda: decide([add(str(n)) for n in range(5)], quotas=quota())),
    Row("work_exceeded", "",
        "the batch needs 10 units of work, at most 9 are allowed (batch_work_max); split it",
        lambda: decide([add("a"), add("b")], limits={"batch_work_max": 9}),
        intent=None, details={"value": 10, "limit": 9}),
    Row("work_exceeded", "",
        "agent 'alice' may use 10 units of work/s (burst 5); the batch needs 5; retry in 0.50 s",
        lambda: after(
            add("a"), then=add("b"), quotas={"work:agent": {"rate": 10, "burst": 5}}
        ), retry_after=0.5, intent=None, details={"agent_id": "alice", "value": 5, "limit": 5}),
    Row("work_exceeded", "",
        "all agents together may use 10 units of work/s (burst 4); the batch needs 5 at once and "
        "can never pass; split it",
        lambda: decide(add("a"), quotas={"work:world": {"rate": 10, "burst": 4}}), intent=None),
    # back-pressure
    Row("executor_busy", "/intents/1",
        "executor 'mail' has 2 effects waiting, its limit is 2; retry in 1.00 s", full_outbox,
        retry_after=1.0, intent=1,
        details={"signal": "outbox_depth", "value": 2, "limit": 2, "kind": "Mail"}),
    Row("executor_busy", "/intents/0",
        "executor 'mail' has 50 effects of agent 'alice' waiting, at most 40 are allowed while 50 "
        "of its 90 places are taken; retry in 1.00 s", outbox_of_one_agent, retry_after=1.0,
        details={"signal": "outbox_depth_of_agent", "value": 50, "limit": 40, "kind": "Mail"}),
    Row("schedule_full", "/sim_time",
        "the world has 1 batches scheduled for later, the limit is 1; retry in 5.00 s, when there "
        "is room, or submit the batch without sim_time",
        lambda: full_schedule("schedule_batches_max", 1), retry_after=5.0, intent=None,
        details={"signal": "schedule_batches", "value": 1, "limit": 1}),
    Row("schedule_full", "/sim_time",
        "the world has 1048 bytes scheduled for later, the limit is 2000; retry in 5.00 s, when "
        "there is room, or submit the batch without sim_time",
        lambda: full_schedule("schedule_bytes_max", 2_000), retry_after=5.0, intent=None,
        details={"signal": "schedule_bytes", "value": 1_048, "limit": 2_000}),
    Row("schedule_full", "/sim_time",
        "submitter 'alice' has 1 batches scheduled for later, the limit is 1; retry in 5.00 s, "
        "when there is room, or submit the batch without sim_time",
        lambda: full_schedule("schedule_batches_per_agent_max", 1, "alice"), retry_after=5.0,
        intent=None, details={"signal": "schedule_batches_of_agent", "value": 1, "limit": 1}),
    Row("schedule_full", "/sim_time",
        "submitter 'alice' has 1048 bytes scheduled for later, the limit is 2000; retry in 5.00 s, "
        "when there is room, or submit the batch without sim_time",
        lambda: full_schedule("schedule_bytes_per_agent_max", 2_000, "alice"), retry_after=5.0,
        intent=None, details={"signal": "schedule_bytes_of_agent", "value": 1_048, "limit": 2_000}),
    Row("sim_time_too_far", "/sim_time",
        "sim_time 3 is 3 s ahead of the world; a batch may be scheduled at most 2 s ahead: send an "
        "earlier sim_time",
        lambda: decide(
            {"intents": [add("a")], "sim_time": 3}, limits={"schedule_ahead_ns_max": 2 * 10**9}
        ), retry_after=1.0, intent=None, details={"signal": "sim_time", "value": 3, "limit": 2}),
    # domain
    Row("lab.too_few", "/intents/0/payload/amount", "-3 would be left, at least 0 must be",
        lambda: decide(intent("Take", {"amount": 3})), stage=Stage.DOMAIN, details={"left": -3}),
    Row("conflict", "/intents/0/payload/thing",
        "lab.things/lamp was taken by 'bob' at the same moment; look again and choose another",
        taken, details={"winner": "bob", "resource": "lab.things/lamp"}),
    Row("invariant_violated", "/alice", "alice has more than 5",
        lambda: decide(add("a", 6), domain=Lab(ceiling=5)), intent=None,
        details={"invariant": "lab.ceiling"}),
    Row("invariant_violated", "", "the batch asks for 3 effects, at most 2 are allowed; split it",
        lambda: decide(intent("Mail", {"count": 3}), limits={"effects_per_batch_max": 2}),
        intent=None, details={"value": 3, "limit": 2}),
    Row("rule_error", "/intents/0",
        "the rule of Fail raised ZeroDivisionError; the batch changed nothing and the world goes "
        "on; report it to the domain's author", lambda: decide(intent("Fail", {"how": "raise"})),
        details={"error": "ZeroDivisionError"}),
    Row("leased", "",
        "lab.things/lamp is leased by 'bob' for at most 2 s more; send the batch again then, or "
        "lease it first", lambda: of_lamp(PUT_LAMP), retry_after=2.0, intent=None,
        details={"agent_id": "alice", "entity": "lab.things/lamp", "holder": "bob"}),
    Row("lease_unknown", "/intents/0/payload/refs",
        "there is no entity lab.things/ghost; lease entities of the agent's view",
        lambda: of_lamp(lease("alice", "ghost"))),
    Row("lease_refused", "/intents/0/payload/seconds", "a lease is at most 10 s long",
        lambda: of_lamp(lease("alice", "lamp", 11.0))),
    Row("budget_exceeded", "/intents/0/payload/amount",
        "account 'team' has 1 calls left, 2 are needed; ask for less, or give it more", over_budget,
        details={"account": "team", "unit": "calls", "amount": 2, "left": 1, "overdrawn": 0}),
    Row("tool_unregistered", "/intents/0",
        "Mail needs an executor for 'mail' effects and none is registered; register one before "
        "proposing it", no_executor, details={"effect": "mail"}),
]  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.code}-{row.at}")
def test_each_code_has_its_stage_place_and_message(row):
    verdict = row.ask()
    assert not verdict.admitted
    found = verdict.refusals[0]
    assert (found.code, found.at, found.message) == (row.code, row.at, row.message)
    assert found.stage is (row.stage or STAGE_OF[row.code])
    assert found.index == row.intent
    assert found.retry_after == row.retry_after
    assert row.details.items() <= found.details.items()
    assert verdict.results == ()


def test_every_code_is_in_the_table_or_of_the_admission_stage():
    codes = {RefusalCode(row.code) for row in TABLE if row.code in STAGE_OF}
    assert codes | ADMISSION == {code for row in STAGES for code in row.codes}


def test_the_codes_are_in_order_of_the_stages():
    stages = [STAGE_OF[code] for code in RefusalCode]
    assert stages == sorted(stages, key=list(Stage).index)


def test_a_refused_verdict_has_the_keys_of_the_specification():
    kernel = kernel_of(quotas={"Add": {"rate": 2, "burst": 4}}, agents=("agent_1",))
    kernel.decide([add(str(n), agent_id="agent_1") for n in range(4)])
    verdict = kernel.decide(add("speak_456", agent_id="agent_1")).as_dict()
    assert verdict == {
        "batch_id": "b2",
        "admitted": False,
        "seq": None,
        "replayed": False,
        "dry_run": False,
        "scheduled": False,
        "results": [],
        "refusals": [
            {
                "index": 0,
                "req_id": "speak_456",
                "stage": "quota",
                "code": "quota_exceeded",
                "message": "agent 'agent_1' may propose Add 2 times a second, 4 at once; "
                "retry in 0.50 s",
                "at": "/intents/0",
                "retry_after": 0.5,
                "suggestions": [],
                "changed": [],
                "details": {"agent_id": "agent_1", "kind": "Add"},
            }
        ],
        "current_seq": 7,
        "sim_time": 0.0,
        "durability": "none",
    }


def test_an_admitted_verdict_has_the_keys_of_the_specification():
    verdict = kernel_of().decide([intent("Clamp", {"amount": 50}, "a"), add("b")], 12.0).as_dict()
    assert verdict == {
        "batch_id": "b1",
        "admitted": True,
        "seq": 6,
        "replayed": False,
        "dry_run": False,
        "scheduled": False,
        "results": [
            {
                "req_id": "a",
                "admitted": True,
                "seq": 5,
                "normalized": {"amount": 10},
                "warnings": [
                    {"code": "clamped", "message": "amount 50 was clamped to 10", "at": "/amount"}
                ],
            },
            {
                "req_id": "b",
                "admitted": True,
                "seq": 6,
                "normalized": {"amount": 1},
                "warnings": [],
            },
        ],
        "refusals": [],
        "current_seq": 6,
        "sim_time": 12.0,
        "durability": "none",
    }


def test_a_stale_refusal_lists_changes_with_seq_author_and_values():
    changed = changed_by_bob().refusals[0].changed
    now = {"made_by": "bob", "lit": True}
    assert changed == ({"entity": "lab.things/lamp", "seq": 5, "by": "bob", "now": now},)


def test_a_change_that_the_agent_may_not_see_makes_nothing_stale():
    assert changed_in_secret().admitted


# Precedence: of several failures, the one whose stage comes first, and its code first, is told.


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"priority": 101, "agent_id": "carol"}, "field_invalid"),
        ({"agent_id": "dora", "context_seq": 99}, "agent_suspended"),
        ({"req_id": "old", "context_seq": 99}, "req_id_reused"),
        ({"context_seq": 99, "valid_until": 0.5}, "context_from_future"),
        ({"context_seq": 1, "valid_until": 0.5}, "expired"),
        ({"context_seq": 1, "expect": [EXPECTED]}, "stale_context"),
        ({"context_seq": 7, "expect": [EXPECTED]}, "condition_failed"),
        ({"context_seq": 7}, "quota_exceeded"),
    ],
)
def test_only_the_first_failing_stage_refuses(wrong, code):
    kernel = kernel_of(staleness_threshold=2, quotas={"Mail": {"rate": 1, "burst": 1}})
    kernel.register_agent("dora", owner="dora")
    kernel.change_agent("dora", "suspended")
    kernel.change_executor(MAIL, 1)
    assert kernel.decide(intent("Mail", {"count": 1}, "old", context_seq=6), 1.0).admitted
    asked = intent("Mail", {"count": 9}, **{"req_id": "new", **wrong})
    assert kernel.decide(asked, 1.0).codes == (code,)


def test_backpressure_refuses_before_the_domain():
    kernel = kernel_of()
    kernel.change_executor(MAIL, 1)
    kernel.decide(intent("Mail", {"count": 1}))
    both = [intent("Mail", {"count": 1}, "a"), intent("Fail", {"how": "raise"}, "b")]
    assert kernel.decide(both).codes == ("executor_busy",)
    kernel.settle(Settlement(EffectKey("world", 6, 0), succeeded=True))
    assert kernel.decide(both).codes == ("rule_error",)


def test_all_failures_of_a_stage_are_listed_in_order_of_index_and_capped():
    mixed = [add(str(n), agent_id="xy"[n % 2]) for n in range(6)]
    verdict = decide(mixed, limits={"refusals_listed_max": 4})
    assert [refusal.index for refusal in verdict.refusals] == [0, 1, 2, 3]


def test_all_failures_of_the_domain_are_listed_even_where_one_comes_first():
    batch = [
        intent("Take", {"amount": 1}, "a", priority=1),
        add("b", priority=5),
        intent("Drop", {"thing": "none"}, "c", priority=9),
    ]
    assert kernel_of().decide(batch[::2]).codes == ("lab.too_few", "lab.missing")
    assert kernel_of().decide(batch).codes == ("lab.missing",)  # what b added is there to take


def test_suggestions_name_the_nearest_values():
    assert decide(intent("Addd")).refusals[0].suggestions == ("Add",)
    assert decide(add("a", agentid="x")).refusals[0].suggestions == ("agent_id",)
    assert decide(intent("Drop", {"thing": "c"})).refusals[0].suggestions == ("a", "b")


def test_a_kernel_is_not_needed_to_know_a_codes_stage():
    assert STAGE_OF["quota_exceeded"] is Stage.QUOTA
    assert "lab.too_few" not in STAGE_OF
    assert isinstance(kernel_of(), Kernel)


@pytest.mark.parametrize("standing", ["unknown", "known", "suspended"])
def test_a_submitter_learns_nothing_of_an_agent_that_is_not_its_own(standing):
    kernel = kernel_of(agents=("alice",) if standing == "unknown" else ("alice", "bob"))
    if standing == "suspended":
        kernel.change_agent("bob", "suspended")
    refusal = kernel.decide(add("r", agent_id="bob"), submitter="alice").refusals[0]
    assert (refusal.code, refusal.message, refusal.at) == (
        "agent_not_yours",
        "submitter 'alice' may not speak for agent 'bob'; submit through that agent's own handle",
        "/intents/0/agent_id",
    )
    assert (
        kernel.decide(add("r", agent_id="bob"), submitter="bob").codes
        == {
            "unknown": ("agent_unknown",),
            "known": (),
            "suspended": ("agent_suspended",),
        }[standing]
    )
