"""Two worlds compared: their state, ledgers and decisions."""

import pytest
from hypothesis import given, settings

from placet.history.diff import BatchDecision, diff
from placet.schemas.errors import StoreError, ValidationError
from placet.stores.url import open_event_log
from tests.history.forks import DOMAINS, log_of, make_fork
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import COUNTS, THINGS
from tests.kernel.traces import TRACES, run_trace


@settings(max_examples=10)
@given(trace=TRACES)
def test_a_world_does_not_differ_from_itself(trace):
    """diff(A, A) is empty."""
    log: list[bytes] = []
    run_trace(kernel_of(DOMAINS, sink=log), trace)
    found = diff(log_of(log), log_of(log, 3))
    assert found.is_empty
    assert found.shared_records == len(log)


def two_worlds() -> tuple[list[bytes], list[bytes]]:
    """The same until bob adds more in one than in the other, and so on."""
    logs: list[list[bytes]] = [[], []]
    for log, amount in zip(logs, (10, 55), strict=True):
        kernel = kernel_of(DOMAINS, sink=log)
        kernel.decide([add("a:0")])
        kernel.decide([add("b:0", amount, agent_id="bob"), add("a:1")])
        kernel.decide([add("b:1", 10, agent_id="bob")])
        if amount == 10:
            kernel.decide([intent("Put", {"thing": "c", "field": "x", "value": [1]}, "p")])
            kernel.decide([intent("Mail", {"count": 1}, "m")])
            kernel.change_agent("alice", "suspended")
            kernel.decide({"intents": [add("b:9", agent_id="bob")], "sim_time": 9.0}, 1.0)
    return logs[0], logs[1]


@pytest.mark.parametrize("value", [True, 1.0])
def test_a_value_that_differs_only_in_the_digest_is_listed(value):
    logs: list[list[bytes]] = [[], []]
    for log, put in zip(logs, (1, value), strict=True):
        kernel = kernel_of(DOMAINS, sink=log)
        kernel.decide([intent("Put", {"thing": "a", "field": "x", "value": put}, "p")])
    found = diff(*map(log_of, logs))
    assert found.digests[0] != found.digests[1]
    assert [(one.path, one.first, type(one.second)) for one in found.state] == [
        (f"{THINGS}/a/x", 1, type(value))
    ]


def test_differences_are_listed_by_path_ledger_and_request():
    one, other = map(log_of, two_worlds())
    found = diff(one, other)
    assert not found.is_empty
    assert found.shared_records == 6
    assert [difference.as_dict() for difference in found.state] == [
        {"path": f"{COUNTS}/bob/count", "first": 20, "second": 55},
        {"path": f"{THINGS}/c", "first": {"made_by": "alice", "x": [1]}},
    ]
    ledger = {difference.path: difference for difference in found.ledger}
    assert (ledger["agents/alice/suspended"].first, ledger["agents/alice/suspended"].second) == (
        True,
        False,
    )
    assert sum(path.startswith("outbox/") for path in ledger) == 1
    assert sum(path.startswith("schedule/") for path in ledger) == 1
    told = {answer.req_ids: (str(answer.first), str(answer.second)) for answer in found.decisions}
    assert told == {
        ("b:1",): ("admitted", "refused: invariant_violated"),
        ("p",): ("admitted", "None"),
        ("m",): ("admitted", "None"),
        ("b:9",): ("scheduled", "None"),
    }
    back = diff(other, one)
    assert [d.path for d in back.state] == [d.path for d in found.state]
    assert {answer.req_ids for answer in back.decisions} == set(told)
    assert found.as_dict()["decisions"][0] == {
        "agent_id": "bob",
        "req_ids": ["b:1"],
        "first": "admitted",
        "second": "refused: invariant_violated",
    }


def test_worlds_are_compared_at_a_seq_and_at_a_path():
    one, other = map(log_of, two_worlds())
    assert diff(one, other, at=5).is_empty
    assert [d.path for d in diff(one, other, at=7).state] == [f"{COUNTS}/bob/count"]
    # What has no seq of its own is of the seq it was decided at.
    assert [a.req_ids for a in diff(one, other, at=7).decisions] == [("b:1",)]
    only = diff(one, other, path=f"/{THINGS}/")
    assert ([d.path for d in only.state], only.ledger, only.decisions) == ([f"{THINGS}/c"], (), ())
    assert [d.path for d in diff(one, other, path=f"{COUNTS}/bob").state] == [f"{COUNTS}/bob/count"]
    for nothing in (f"{COUNTS}/bob/other", f"{COUNTS}/bo", "counts"):
        with pytest.raises(
            ValidationError, match=f"neither of the two worlds has a value at {nothing}"
        ):
            diff(one, other, path=nothing)
    # Of an entity that is on one side only, so is the field that is asked for.
    (field,) = diff(one, other, path=f"{THINGS}/c/x").state
    assert field.as_dict() == {"path": f"{THINGS}/c/x", "first": [1]}
    with pytest.raises(StoreError, match="it ends at seq"):
        diff(one, other, at=99)


def test_the_path_of_an_entity_id_with_a_slash_finds_it():
    """Turns are called so: `session.turns/main/000001`."""
    logs: list[list[bytes]] = [[], []]
    for log, value in zip(logs, (1, 2), strict=True):
        kernel = kernel_of(DOMAINS, sink=log)
        kernel.decide([intent("Put", {"thing": "a/b", "field": "x", "value": value}, "p")])
    one, other = map(log_of, logs)
    for path in (f"{THINGS}/a", f"{THINGS}/a/b", f"{THINGS}/a/b/x"):
        assert [d.path for d in diff(one, other, path=path).state] == [f"{THINGS}/a/b/x"]
    for nothing in (f"{THINGS}/z", f"{THINGS}/a/c", f"{THINGS}/a/b/y"):
        with pytest.raises(ValidationError, match="neither of the two worlds has a value at"):
            diff(one, other, path=nothing)


def test_batches_grouped_differently_are_compared_by_request():
    logs: list[list[bytes]] = [[], []]
    for log, together in zip(logs, (True, False), strict=True):
        kernel = kernel_of(DOMAINS, sink=log)
        batches = [[add("a:0"), add("a:1", 99)]] if together else [[add("a:0")], [add("a:1", 99)]]
        for batch in batches:
            kernel.decide(batch)
    found = diff(*map(log_of, logs))
    assert [(a.req_ids, str(a.first), str(a.second)) for a in found.decisions] == [
        (("a:0",), "refused: invariant_violated", "admitted")
    ]


def test_unrelated_worlds_share_no_records():
    logs: list[list[bytes]] = [[], []]
    for log, seed in zip(logs, (1, 2), strict=True):
        kernel_of(DOMAINS, sink=log, seed=seed).decide([add("a:0", seed)])
    found = diff(*map(log_of, logs))
    assert found.shared_records == 0
    assert [d.path for d in found.state] == [f"{COUNTS}/alice/count"]
    assert found.decisions == ()


def test_a_fork_differs_from_its_parent_in_the_set_values(tmp_path):
    log = two_worlds()[0]
    made = make_fork(log, tmp_path, put={f"{COUNTS}/bob/count": 3}, effects="simulate")
    found = diff(log_of(log), open_event_log(made.store))
    assert [d.as_dict() for d in found.state] == [
        {"path": f"{COUNTS}/bob/count", "first": 20, "second": 3}
    ]
    assert (found.ledger, found.decisions, found.shared_records) == ((), (), len(log))


def test_a_decision_has_a_readable_text():
    decision = BatchDecision("refused", ("conflict", "lab.x"), (("ann", "r"), ("ann", "s")))
    assert str(decision) == "refused: conflict, lab.x"
    assert (decision.agent_ids, decision.req_ids) == (("ann",), ("r", "s"))
    assert not decision.passes
