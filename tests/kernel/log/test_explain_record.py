"""An explanation reports what each stage compared, at the state of the decision."""

from collections.abc import Sequence
from typing import Any

import pytest

from placet.kernel import Domain
from placet.kernel.log import explain_stages
from placet.kernel.log.explain_record import explain_batch, explain_other
from placet.kernel.log.verify import Verifier
from placet.schemas.effect import Settlement
from placet.schemas.explanation import Explanation, StageReport
from placet.schemas.log.record import Admitted, Refused, Scheduled, decode_record
from placet.schemas.refusal import Stage
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import COUNTS, MAIL, THINGS, Lab


def explain_record_at(
    log: Sequence[bytes],
    place: int = -1,
    domains: Sequence[Domain] | None = None,
    position: int = 0,
) -> Explanation:
    """Explain one record of a log: the last, if nothing else is said."""
    place %= len(log)
    past = Verifier([Lab(things=("cup",))] if domains is None else domains)
    for data in log[:place]:
        past.apply(data)
    digest = past.state.digest()
    record = decode_record(log[place])
    if isinstance(record, Admitted | Refused | Scheduled):
        explained = explain_batch(past, record, position)
    else:
        explained = explain_other(past, record)
    assert past.state.digest() == digest  # nobody was moved by it
    assert past.apply(log[place]) == record
    return explained


def stage(explained: Explanation, name: str) -> StageReport:
    return next(stage for stage in explained.stages if stage.stage == name)


def results(explained: Explanation) -> list[str]:
    return [stage.result for stage in explained.stages]


@pytest.fixture
def log() -> list[bytes]:
    return []


@pytest.fixture
def kernel(log):
    quotas = {"Add": {"rate": 2, "burst": 4}, "*": {"rate": 1, "burst": 9}}
    return kernel_of(
        Lab(things=("cup",)), sink=log, quotas=quotas, world_quota={"rate": 5, "burst": 5}
    )


def test_all_seven_stages_are_explained_in_order(kernel, log):
    kernel.decide([add("p", 2)], 1.0)
    explained = explain_record_at(log)
    assert [stage.stage for stage in explained.stages] == [
        stage.value for stage in Stage if stage is not Stage.ADMISSION
    ]
    assert results(explained) == ["passed"] * 7
    assert (explained.answer, explained.agent_id, explained.req_id) == ("admitted", "alice", "p")
    assert (explained.seq, explained.seq_before, explained.sim_time) == (5, 4, 1.0)
    assert explained.is_known
    assert explained.rules.startswith("lab 1 (")
    assert explained.changes == (
        {
            "entity": f"{COUNTS}/alice",
            "what": "changed",
            "fields": {"count": {"before": 0, "after": 2}},
            "seq": 5,
            "by": "alice",
        },
    )
    assert explained.as_dict()["stages"][0]["compared"][0]["intents"] == 1


def test_quota_reports_tokens_before_and_after(kernel, log):
    kernel.decide([add("p")], 1.0)
    kernel.decide([add("q"), add("r")], 1.25)
    of_kind, of_agent, of_world = stage(explain_record_at(log), "quota").compared
    assert of_kind == {
        "agent_id": "alice", "kind": "Add", "rate": 2.0, "interval_s": 0.5, "burst": 4,
        "before": 3.5, "charged": 2, "after": 1.5,
    }  # fmt: skip
    assert (of_agent["kind"], of_agent["before"], of_agent["after"]) == (None, 8.25, 6.25)
    assert (of_world["agent_id"], of_world["before"], of_world["after"]) == (None, 5.0, 3.0)


def test_quotas_of_work_are_reported_with_the_units_of_the_record(log):
    quotas = {"work:agent": {"rate": 10, "burst": 20}}
    kernel = kernel_of(Lab(things=("cup",)), sink=log, quotas=quotas)
    kernel.decide([add("p"), add("q")], 1.0)
    (compared,) = stage(explain_record_at(log), "quota").compared
    assert (compared["kind"], compared["charged"]) == ("units of work:agent", 10)
    assert (compared["before"], compared["after"]) == (20.0, 10.0)


def test_stages_after_a_refusal_are_not_run(kernel, log):
    kernel.decide([intent("Look", {"thing": "cup"}, "p", context_seq=4)])
    kernel.decide([intent("Grab", {"thing": "cup"}, "q", agent_id="bob", context_seq=5)])
    kernel.decide([intent("Look", {"thing": "cup"}, "r", context_seq=5)])
    explained = explain_record_at(log)
    assert explained.answer == "refused"
    assert explained.seq is None
    assert results(explained) == ["passed", "passed", "passed", "refused", *["not reached"] * 3]
    (compared,) = stage(explained, "staleness").compared
    assert (compared["context_seq"], compared["seq"], compared["threshold"]) == (5, 6, None)
    assert compared["reads"] == [
        {"entity": f"{THINGS}/cup", "changed": 6, "by": "bob", "is_stale": True}
    ]
    (refusal,) = stage(explained, "staleness").refusals
    assert refusal["code"] == "stale_context"
    assert refusal["changed"][0]["by"] == "bob"
    assert refusal["changed"][0]["now"] == {"value": 0, "holder": "bob"}
    assert explained.changes == ()


def test_a_retry_shows_the_earlier_answer(kernel, log):
    kernel.decide([intent("Grab", {"thing": "cup"}, "q", agent_id="bob")])
    look = intent("Look", {"thing": "cup"}, "r")
    kernel.decide([{**look, "context_seq": 2}])
    kernel.decide([{**look, "context_seq": 5}])
    (compared,) = stage(explain_record_at(log), "dedup").compared
    assert compared["answered_before"] == [{"req_id": "r", "codes": ["stale_context"]}]
    assert compared["remembered"] == 1
    (first,) = stage(explain_record_at(log, -2), "dedup").compared
    assert (first["answered_before"], first["remembered"]) == ([], 0)


def test_a_repetition_of_an_admitted_request_is_explained(kernel, log):
    kernel.decide([add("p")])
    past = Verifier([Lab(things=("cup",))])
    for data in log:
        past.apply(data)
    record = decode_record(log[-1])
    assert isinstance(record, Admitted)
    (compared,) = stage(explain_batch(past, record, 0), "dedup").compared
    assert compared["answered_before"] == [{"req_id": "p", "codes": []}]


def test_the_agent_stage_reports_suspension_and_permissions(kernel, log):
    kernel.set_agent_permissions("bob", {"Add", "Grab"})
    kernel.decide([add("p"), add("q", agent_id="bob")])
    alice, bob = stage(explain_record_at(log), "agent").compared
    assert (alice["permissions"], alice["suspended"], alice["may_submit"]) == (None, False, True)
    assert (bob["permissions"], bob["submitter"], bob["owner"]) == (
        ["Add", "Grab"], "operator", "bob",
    )  # fmt: skip


def test_backpressure_reports_waiting_effects(kernel, log):
    kernel.decide([intent("Mail", {"count": 2}, "p")])
    kernel.decide([intent("Mail", {"count": 1}, "q")])
    explained = explain_record_at(log)
    (compared,) = stage(explained, "backpressure").compared
    assert compared == {"executor": MAIL, "waiting": 2, "waiting_max": 1000}
    assert explained.effects == (
        {"key": "world/6/0", "kind": MAIL, "payload": {"number": 0, "to": "alice"}},
    )


def test_a_scheduled_batch_is_explained_on_arrival_and_when_due(kernel, log):
    kernel.decide({"intents": [add("p")], "sim_time": 9})
    explained = explain_record_at(log)
    assert (explained.answer, explained.seq) == ("scheduled", 5)
    assert results(explained) == ["passed"] * 6 + ["not reached"]
    assert stage(explained, "domain").compared == ({"due": 9.0},)
    assert stage(explained, "backpressure").compared == ({"schedule": 0, "schedule_max": 10_000},)
    kernel.change_agent("alice", "removed")
    kernel.decide([], 10.0)
    explained = explain_record_at(log)
    assert results(explained) == ["passed", "refused", *["not reached"] * 5]
    (agent,) = stage(explained, "agent").compared
    assert agent["registered"] is False


def test_stages_of_arrival_are_skipped_when_due(kernel, log):
    kernel.decide({"intents": [add("p")], "sim_time": 9})
    kernel.decide([], 10.0)
    explained = explain_record_at(log)
    arrival = "passed on arrival"
    assert results(explained) == [
        "passed", "passed", arrival, "passed", arrival, arrival, "passed",
    ]  # fmt: skip


def test_a_conflict_names_its_winner(kernel, log):
    kernel.joins_batches = False
    kernel.decide_group(
        [[intent("Grab", {"thing": "cup"}, agent_id=agent_id)] for agent_id in ("alice", "bob")]
    )
    first, second = map(decode_record, log[-2:])
    assert isinstance(first, Admitted)
    assert isinstance(second, Refused)
    explained = explain_record_at(log)
    (refusal,) = stage(explained, "domain").refusals
    assert refusal["code"] == "conflict"
    assert refusal["details"]["winner"] == {"alice": "bob", "bob": "alice"}[explained.agent_id]


def test_each_intent_of_a_batch_has_its_seq(kernel, log):
    kernel.decide([add("p"), add("q", priority=50), intent("Remake", {"thing": "cup"}, "r")])
    explained = explain_record_at(log, position=1)
    assert (explained.req_id, explained.seq) == ("q", 5)
    assert explain_record_at(log, position=0).seq == 6
    assert explained.batch is not None
    assert explained.batch["position"] == 1
    assert [compared["index"] for compared in stage(explained, "domain").compared] == [1, 0, 2]
    remade = explained.changes[1]
    assert (remade["entity"], remade["what"]) == (f"{THINGS}/cup", "changed")
    assert remade["fields"]["value"] == {"before": 0, "after": None}


def test_created_and_deleted_entities_are_explained(kernel, log):
    kernel.decide([intent("Drop", {"thing": "cup"}, "p")])
    assert explain_record_at(log).changes[0]["what"] == "deleted"
    kernel.decide([intent("Put", {"thing": "jug", "field": "x", "value": 1}, "q")])
    (change,) = explain_record_at(log).changes
    assert (change["what"], change["fields"]["x"]) == ("created", {"before": None, "after": 1})


def test_warnings_of_the_structure_stage_are_explained(kernel, log):
    kernel.decide([{**add("p"), "schema_version": "1.9.0"}])
    (compared,) = stage(explain_record_at(log), "structure").compared
    assert compared["warnings"][0]["code"] == "version_unknown"


def test_a_read_set_that_raises_is_reported_as_unknown(kernel, log):
    kernel.decide([intent("Look", {"thing": "raise"}, "p")])
    explained = explain_record_at(log)
    (compared,) = stage(explained, "staleness").compared
    assert compared["reads"] is None


def test_a_batch_is_explained_without_its_domain(kernel, log):
    kernel.decide([intent("Grab", {"thing": "cup"}, "q", agent_id="bob")])
    kernel.decide([intent("Look", {"thing": "cup"}, "r", context_seq=2)])
    explained = explain_record_at(log, domains=())
    assert results(explained)[3] == "refused"
    (compared,) = stage(explained, "staleness").compared
    assert compared["reads"] is None
    assert "changed" not in stage(explained, "staleness").refusals[0]
    assert explained.notes == ("not re-executed: no domain is given",)
    admitted = explain_record_at(log, -2, domains=())
    assert stage(admitted, "domain").compared[0]["domain"] is None
    assert admitted.changes[0]["fields"]["holder"] == {"before": None, "after": "bob"}


def test_an_effect_validator_is_named(log):
    class Guard:
        def validate_intent(self, given: Any, state: Any) -> bool:
            return False

    kernel_of(Lab(things=("cup",)), sink=log, validator=Guard()).decide([add("p")])
    explained = explain_record_at(log)
    first, second = stage(explained, "domain").compared
    assert first["validator"].endswith("Guard")
    assert second["kind"] == "Add"
    assert stage(explained, "domain").refusals[0]["code"] == "lab.refused"
    assert "details" not in stage(explained, "domain").refusals[0]  # not refused again without it
    assert "Guard is not available, and may be the reason" in explained.notes[0]


def test_a_record_without_a_batch_is_explained_by_its_changes(kernel, log):
    kernel.decide([intent("Mail", {"count": 1}, "p")])
    kernel.settle(Settlement(kernel.open_effects()[0].key, succeeded=True, output="ok"))
    settled = explain_record_at(log)
    assert (settled.answer, settled.agent_id, settled.seq) == ("settled", "system", 6)
    assert settled.changes[0]["what"] == "created"
    assert settled.batch is not None
    assert settled.batch["output"] == "ok"
    assert explain_record_at(log, 3).answer == "registered"
    assert explain_record_at(log, 3).agent_id == "alice"
    header = explain_record_at(log, 0)
    assert (header.answer, header.rules) == ("header", "")
    assert header.changes[0]["entity"] == f"{THINGS}/cup"
    assert explain_record_at(log, 1).changes == ()


@pytest.mark.parametrize(
    ("describe", "compared", "line"),
    [
        (
            explain_stages._describe_agent,
            {
                "registered": True,
                "permissions": None,
                "agent_id": "ann",
                "suspended": False,
                "kinds": ["Add"],
                "may_submit": False,
                "submitter": "bob",
                "owner": "carol",
            },
            "bob may not submit for it; its owner is carol",
        ),
        (
            explain_stages._describe_domain,
            {"validator": "house:rule"},
            "effect validator house:rule ran first, before the rule of each intent",
        ),
    ],
    ids=["another submitter", "validator"],
)
def test_comparison_of_a_stage_is_described(describe, compared, line):
    assert line in list(describe(compared))


def test_an_entity_that_never_existed_is_described():
    assert explain_stages._read_text({"changed": None}).startswith("never existed, or")
