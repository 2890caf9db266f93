"""Conditions of intents: judged before the batch, by what the agent sees."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel import Domain, Field, Kernel, KernelConfig, Kind, Table
from placet.kernel.log import explain_stages
from placet.kernel.log.explain_record import explain_batch
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.kernel.recorded_batch import recorded_batch
from placet.schemas.codec import canonical
from placet.schemas.log.record import Admitted, Refused, Scheduled, decode_record
from placet.schemas.refusal import Stage
from tests.kernel.builders import checked, intent, kernel_of, reused
from tests.kernel.domains import SECRETS, THINGS, Lab

PATH = [THINGS, "a", "f"]


def expects(op, value=..., path=PATH):
    return {"path": list(path), "op": op} | ({} if value is ... else {"value": value})


def put(req_id, value=1, *, thing="a", **fields):
    payload = {"thing": thing, "field": "f", "value": value}
    return intent("Put", payload, req_id, **fields)


def look(*conditions, req_id="look", kind="Look", **fields):
    return intent(kind, {"thing": "a"}, req_id, expect=list(conditions), **fields)


def codes(verdict):
    return verdict.codes


def codes_of(kernel, *intents, **options):
    return kernel.decide({"intents": list(intents), "dry_run": True, **options}).codes


def test_an_intent_with_conditions_depends_on_nothing_else():
    kernel, _ = reused()
    kernel.decide(put("b1", 1, agent_id="bob"))
    assert codes_of(kernel, intent("Look", {"thing": "a"}, "look")) == ("stale_context",)
    assert codes_of(kernel, look(expects("==", 1))) == ()
    assert codes_of(kernel, look(expects("exists", path=[THINGS, "a"]))) == ()
    # The other intents of its batch keep their footprints.
    plain = intent("Look", {"thing": "a"}, "plain")
    assert codes_of(kernel, look(expects("==", 1)), plain) == ("stale_context",)


def test_a_condition_that_does_not_hold_is_named_with_the_value_found():
    kernel, _ = reused()
    kernel.decide(put("b1", {"x": [1, 2]}, agent_id="bob"))
    verdict = kernel.decide([look(expects("exists"), expects("==", 5, [*PATH, "x", "1"]))])
    (refusal,) = verdict.refusals
    assert (refusal.code, refusal.stage, refusal.index) == ("condition_failed", "staleness", 0)
    assert refusal.at == "/intents/0/expect/1"
    assert refusal.message == (
        "expected lab.things/a/f/x/1 == 5, found 2; refresh the view and propose again"
    )
    assert refusal.details["path"] == [*PATH, "x", "1"]
    assert refusal.details["found"] == 2
    assert kernel.seq == kernel.ledger.seq


@pytest.mark.parametrize(
    ("value", "is_shown"),
    [
        ({"x": ["y", 1.5, None]}, True),
        ("x" * 4096, True),
        ("x" * 4097, False),
        (dict.fromkeys(map(str, range(4096)), 1), False),
        ({"k" * 4000: 1, "q" * 80: 2, "z": 3}, True),
        ({"k" * 4000: 1, "q" * 100: 2}, False),
        ([[0] * 40] * 40, True),
        ([[0] * 64] * 64, False),
    ],
)
def test_a_found_value_is_shown_unless_it_is_long(value, is_shown):
    kernel, _ = reused()
    kernel.decide(put("b1", value, agent_id="bob"))
    (refusal,) = kernel.decide([look(expects("absent"))]).refusals
    assert refusal.details["found"] == (value if is_shown else None)
    assert ("found a value that is too long to be shown" in refusal.message) is not is_shown


def test_every_intent_with_a_false_condition_is_listed_up_to_a_bound():
    kernel = kernel_of(limits={"refusals_listed_max": 3})
    intents = [look(expects("exists"), req_id=f"r:{number}") for number in range(9)]
    refusals = kernel.decide(intents).refusals
    assert [refusal.index for refusal in refusals] == [0, 1, 2]


def test_hidden_absent_and_unknown_are_one_case():
    kernel, _ = reused(domain=Lab(things=("a",)))
    answers = set()
    for path in ([THINGS, "ghost", "f"], [THINGS, "a", "g"], ["no.collection", "a", "f"]):
        for op, value in (("exists", ...), ("==", None), ("!=", 3), ("<", 5), ("in", [None])):
            request = look(expects(op, value, path), req_id=f"{path}{op}")
            (refusal,) = kernel.decide([request]).refusals
            answers.add((refusal.code, refusal.message.rpartition(", found ")[2]))
            assert refusal.details["found"] is None
        assert codes_of(kernel, look(expects("absent", path=path))) == ()
    assert answers == {("condition_failed", "nothing; refresh the view and propose again")}


def test_changes_of_earlier_batches_count_and_those_of_the_own_batch_do_not():
    kernel, _ = reused()
    kernel.decide(put("r:0", 1))
    later = look(expects("==", 2), req_id="r:2")
    assert kernel.decide([put("r:1", 2), later]).codes == ("condition_failed",)
    first, second = kernel.decide_group([[put("r:3", 2)], [{**later, "req_id": "r:4"}]])
    assert first.admitted
    assert second.admitted


@pytest.mark.parametrize(
    ("fields", "threshold", "code"),
    [
        ({"context_seq": 99}, None, "context_from_future"),
        ({"valid_until": 0.5}, None, "expired"),
        ({}, 0, "stale_context"),  # the world's threshold binds
        ({}, None, "condition_failed"),
    ],
)
def test_the_first_code_of_the_stage_is_returned(fields, threshold, code):
    kernel = kernel_of(staleness_threshold=threshold)
    kernel.decide(put("b1", 1, agent_id="bob", context_seq=kernel.seq), 1.0)
    assert codes_of(kernel, look(expects("==", 2), **fields)) == (code,)


def test_a_condition_that_failed_is_a_new_try_with_a_newer_context():
    kernel, _ = reused()
    request = look(expects("==", 1))
    assert kernel.decide([request]).codes == ("condition_failed",)
    kernel.decide(put("b1", 1, agent_id="bob"))
    again = kernel.decide([request])
    assert (again.codes, again.replayed) == (("condition_failed",), True)
    assert kernel.decide([{**request, "context_seq": kernel.seq}]).admitted


def test_conditions_are_part_of_the_content_of_a_request():
    kernel, _ = reused()
    request = look(expects("absent"))
    assert kernel.decide([request]).admitted
    assert kernel.decide([request]).replayed
    other = look(expects("absent", path=[THINGS, "b"]))
    assert kernel.decide([other]).codes == ("req_id_reused",)
    del other["expect"]
    assert kernel.decide([other]).codes == ("req_id_reused",)


def test_the_conditions_of_a_scheduled_batch_are_judged_when_it_is_due():
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    early = look(expects("==", 2), req_id="r:1")
    late = look(expects("==", 3), req_id="r:2")
    for request in (early, late):
        assert kernel.decide({"intents": [request], "sim_time": 5.0}, 1.0).scheduled
    kernel.decide(put("r:3", 2), 2.0)
    kernel.step(9.0)
    assert [codes(kernel.verdict_of("alice", req_id)) for req_id in ("r:1", "r:2")] == [
        (),
        ("condition_failed",),
    ]
    records = list(map(decode_record, log))
    batches = [recorded_batch(r) for r in records if isinstance(r, Scheduled)]
    assert [b.conditions for b in batches] == [[early["expect"]], [late["expect"]]]


CONDITIONS = st.lists(
    st.builds(
        expects,
        st.sampled_from(["==", "!=", "<", ">="]),
        st.sampled_from([0, 1.5, "é", None, [1, {"b": 2, "a": 1}]]),
        st.sampled_from([PATH, [THINGS, "b"], [SECRETS, "x/y", "~", "0"]]),
    )
    | st.builds(expects, st.just("in"), st.sampled_from([[], [0, None], [1.5, [1, {"a": 1}]]]))
    | st.builds(
        expects,
        st.sampled_from(["exists", "absent"]),
        path=st.sampled_from([PATH, [THINGS, "b"], [SECRETS, "s"]]),
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(st.none() | CONDITIONS, min_size=1, max_size=4))
def test_conditions_come_back_from_the_encoded_batch(drawn):
    """Law: as text and as objects a batch is the same, and its bytes hold all of it."""
    kernel, _ = reused()
    intents = [
        put(f"r:{number}") if conditions is None else put(f"r:{number}", expect=conditions)
        for number, conditions in enumerate(drawn)
    ]
    batch, as_text = checked(kernel, intents), checked(kernel, json.loads(json.dumps(intents)))
    assert batch.encoded == as_text.encoded
    assert batch.fingerprint == as_text.fingerprint
    assert batch.conditions == (drawn if any(drawn) else None)
    before = canonical(list(batch.intents))
    batch.reparse()
    assert canonical(list(batch.intents)) == before
    plain = checked(kernel, [{k: v for k, v in one.items() if k != "expect"} for one in intents])
    assert (plain.fingerprint == batch.fingerprint) is not any(drawn)


@given(st.lists(st.tuples(st.integers(0, 3), CONDITIONS), min_size=1, max_size=8))
def test_a_log_with_conditions_folds_and_is_verified(story):
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    for number, (value, conditions) in enumerate(story):
        who = ("alice", "bob")[number % 2]
        kernel.decide(put(f"r:{number}", value, agent_id=who, expect=conditions))
    past = folded(log)
    assert past.state.digest() == kernel.tree.digest()
    verifier = Verifier([Lab()])
    for data in log:
        verifier.apply(data)
    assert verifier.journal.prev == past.journal.prev
    for data in log:
        record = decode_record(data)
        if isinstance(record, Admitted | Refused):
            assert recorded_batch(record).conditions is not None


@pytest.mark.parametrize(
    ("expect", "code", "at"),
    [
        ([], "field_invalid", ""),
        (None, "field_invalid", ""),
        ("x", "field_invalid", ""),
        ([expects("exists")] * 17, "field_invalid", ""),
        ([5], "field_invalid", "/0"),
        ([{"path": PATH}], "field_invalid", "/0/op"),
        ([{"op": "exists"}], "field_invalid", "/0/path"),
        ([expects("=", 1)], "field_invalid", "/0/op"),
        ([expects("exists", path=["a"])], "field_invalid", "/0/path"),
        ([expects("exists", path=["a"] * 9)], "field_invalid", "/0/path"),
        ([expects("exists", path=["a", ""])], "field_invalid", "/0/path/1"),
        ([expects("exists", path=["a", 5])], "field_invalid", "/0/path/1"),
        ([{"op": "exists", "path": "a/b"}], "field_invalid", "/0/path"),
        ([expects("==")], "field_invalid", "/0"),
        ([expects("absent", 1)], "field_invalid", "/0"),
        ([expects("in", "abc")], "field_invalid", "/0"),
        ([expects("in", {"a": 1})], "field_invalid", "/0"),
        ([expects("==", float("nan"))], "field_invalid", "/0/value"),
        ([expects("==", {1, 2})], "field_invalid", "/0/value"),
        ([{**expects("exists"), "valeu": 1}], "field_unknown", "/0/valeu"),
    ],
)
def test_conditions_of_another_form_are_refused_by_the_structure_stage(expect, code, at):
    kernel, _ = reused()
    (refusal,) = kernel.decide([put("r", expect=expect)]).refusals
    assert (refusal.code, refusal.at) == (code, f"/intents/0/expect{at}")
    assert refusal.stage == "structure"


def test_the_nearest_field_of_a_condition_is_suggested():
    kernel, _ = reused()
    (refusal,) = kernel.decide([put("r", expect=[{**expects("exists"), "valeu": 1}])]).refusals
    assert refusal.message == "field 'valeu' of a condition is unknown; did you mean 'value'?"
    assert refusal.suggestions == ("value",)


def test_a_value_of_numpy_is_a_plain_value():
    kernel, _ = reused()
    kernel.decide(put("r:0", 1))
    assert codes_of(kernel, look(expects("==", np.int64(1)))) == ()
    assert codes_of(kernel, look(expects("in", np.arange(3)))) == ()


@pytest.mark.parametrize("value", [1, 7])
def test_an_explanation_shows_what_each_condition_found(value):
    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide(put("r:0", 1))
    kernel.decide([look(expects("==", value), expects("absent", path=[THINGS, "b"]))])
    past = Verifier([Lab()])
    for data in log[:-1]:
        past.apply(data)
    record: Any = decode_record(log[-1])
    explained: Any = explain_batch(past, record, 0)
    (stage,) = [stage for stage in explained.stages if stage.stage == "staleness"]
    first, second = stage.compared[0]["conditions"]
    assert (first["found"], first["holds"]) == (1, value == 1)
    assert (second["is_absent"], second["holds"]) == (True, True)
    lines = list(explain_stages.EXPLAINED_STAGES[Stage.STALENESS].describe(stage.compared[0]))
    assert lines[1].startswith(f"  expects lab.things/a/f == {value}: found 1")
    assert lines[2] == "  expects lab.things/b absent: found nothing"
    assert ("<- does not hold" in lines[1]) is (value != 1)


def test_an_explanation_of_conditions_outlives_a_domain_that_raises():
    is_broken = False

    class Broken(Lab):
        def may_see(self, state, agent_id, ref):
            return 1 / 0 if is_broken else True

    log: list[bytes] = []
    kernel = kernel_of(sink=log)
    kernel.decide(put("r:0", 1))
    kernel.decide([look(expects("exists"))])
    past = Verifier([Broken()])
    for data in log[:-1]:
        past.apply(data)
    record, is_broken = decode_record(log[-1]), True
    explained: Any = explain_batch(past, record, 0)  # type: ignore[arg-type]
    (stage,) = [stage for stage in explained.stages if stage.stage == "staleness"]
    assert stage.compared[0]["conditions"] is None


HERD = Table("herd.cows", {"weight": Field("i4", default=3), "at": Field("f8", 2)})


class Herd(Domain):
    name = "herd"
    version = "1"
    tables = (HERD,)
    kinds = (
        Kind(
            "Grow",
            payload={"by": Field("i4")},
            rows=lambda rows: rows.write("weight", rows.own["weight"] + rows.payload["by"]),
            table="herd.cows",
            reads_self="herd.cows",
        ),
    )


@pytest.mark.parametrize(
    ("condition", "codes"),
    [
        (expects("==", 3, ["herd.cows", "cows:1", "weight"]), ()),
        (expects("==", 4, ["herd.cows", "cows:1", "weight"]), ("condition_failed",)),
        (expects("==", [0.0, 0.0], ["herd.cows", "cows:2", "at"]), ()),
        (expects("<", 1, ["herd.cows", "cows:2", "at", "1"]), ()),
        (expects("absent", path=["herd.cows", "cows:9"]), ()),
    ],
)
def test_the_rows_of_a_table_are_values_too(condition, codes):
    kernel = Kernel(Herd(), KernelConfig())
    kernel.register_population("cows", 4, table="herd.cows")
    request: Any = kernel.intent("Grow", agent="cows:1", by=2)
    assert kernel.decide([{**request, "expect": [condition]}]).codes == codes
