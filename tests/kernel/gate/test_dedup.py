"""Laws of dedup (G5, G6): the same request gets the same verdict, another content does not."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel.ledger.dedup_window import RangeEntry, Window, admitted
from placet.kernel.ledger.stored_verdict import refused, unpack
from placet.schemas.batch import only_sequence, sequence_form, sequences_of
from placet.schemas.codec import canonical, from_canonical
from tests.kernel.builders import add, intent, reused, trace

MINUTE = 60.0


def promised(verdict):
    """Return the guaranteed part of a repeated verdict: admitted, seqs, stages and codes."""
    return (
        verdict.admitted,
        verdict.scheduled,
        verdict.seq,
        {(result.req_id, result.seq) for result in verdict.results},
        {(r.req_id, r.stage, r.code) for r in verdict.refusals},
    )


def a_batch(rng, prefix):
    """Draw a batch of one or two agents, which may use the same ids."""
    kinds: list[tuple[str, Any]] = [
        ("Add", {"amount": 1}),
        ("Clamp", {"amount": 99}),
        ("Take", {"amount": 1}),
    ]
    if rng.randrange(4) == 0:
        kinds.append(("Fail", {"how": "refuse"}))
    agents = rng.choice([["alice"], ["alice", "bob"]])
    return [
        intent(
            *rng.choice(kinds),  # type: ignore[call-arg]  # two of them
            f"{prefix}:{n // len(agents)}",
            agent_id=agents[n % len(agents)],
            priority=rng.choice([10, 20]),
        )
        for n in range(rng.randint(1, 5))
    ]


@given(st.integers(0, 2**32))
def test_the_same_content_in_any_order_gets_the_same_verdict_and_changes_nothing(seed):
    """decide(shuffled batch) = the first answer; digest, seq and log stay."""
    rng = Random(seed)
    kernel, log = reused()
    for number in range(4):
        batch = a_batch(rng, f"b{number}")
        first = kernel.decide(batch, float(number))
        if not first.refusals or first.refusals[0].stage in {"domain", "staleness"}:
            before, length = trace(kernel), len(log)
            rng.shuffle(batch)
            again = kernel.decide(batch, number + 0.5)
            assert again.replayed
            assert promised(again) == promised(first)
            assert [result.req_id for result in again.results] == [
                one["req_id"] for one in batch if again.admitted
            ]
            for refusal in again.refusals:
                if refusal.index is not None:
                    assert batch[refusal.index]["req_id"] == refusal.req_id
            assert (trace(kernel), len(log)) == (before, length)
            for one in batch:
                told = kernel.verdict_of(one["agent_id"], one["req_id"])
                assert told is not None
                assert (told.admitted, told.seq) == (first.admitted, first.seq)
                mine = {r.seq for r in told.results}
                assert mine <= {r.seq for r in first.results}


def test_a_duplicate_has_each_agents_own_seq_if_agents_share_an_id():
    kernel, _ = reused()
    batch = [add("x"), add("x", agent_id="bob"), add("y", priority=20), add("y", agent_id="bob")]
    first = kernel.decide(batch)
    assert [result.seq for result in first.results] == [6, 7, 5, 8]
    again = kernel.decide(batch[::-1])
    assert [result.seq for result in again.results] == [8, 5, 7, 6]
    assert again.seq == first.seq == 8
    told = kernel.verdict_of("bob", "x")
    assert told is not None
    assert (told.seq, [(r.req_id, r.seq) for r in told.results]) == (8, [("x", 7), ("y", 8)])
    told = kernel.verdict_of("alice", "x")
    assert told is not None
    assert [(r.req_id, r.seq) for r in told.results] == [("x", 6), ("y", 5)]


def test_a_repeated_refusal_names_its_agent():
    kernel, _ = reused()
    fail = ("Fail", {"how": "refuse"}, "x")
    batch = [add("x"), intent(*fail, agent_id="bob"), add("z")]
    first = kernel.decide(batch)
    again = kernel.decide(batch[::-1])
    assert [(r.index, r.req_id, r.code) for r in first.refusals] == [(1, "x", "lab.unwell")]
    assert [(r.index, r.at, r.code) for r in again.refusals] == [(1, "/intents/1", "lab.unwell")]
    assert again.refusals[0].message == (
        "this request was refused before, as lab.unwell; use a new req_id for a new try"
    )
    again = kernel.decide([batch[1], batch[2], batch[0]])
    assert [refusal.index for refusal in again.refusals] == [0]
    told = kernel.verdict_of("alice", "z")
    assert told is not None
    assert [(r.index, r.code) for r in told.refusals] == [(1, "lab.unwell")]
    assert told.req_ids == ["x", "z"]


def test_other_content_or_another_set_of_ids_is_req_id_reused():
    kernel, _ = reused()
    assert kernel.decide([add("a"), add("b")]).admitted
    for batch, indices in [
        ([add("a", 2), add("b")], [0, 1]),
        ([add("a")], [0]),
        ([add("a"), add("b"), add("c")], [0, 1]),
        ([add("c"), add("b")], [1]),
        ([add("a", priority=11), add("b")], [0, 1]),
        ([intent("Clamp", {"amount": 1}, "a"), add("b")], [0, 1]),
    ]:
        before = trace(kernel)
        verdict = kernel.decide(batch)
        assert [r.index for r in verdict.refusals] == indices
        assert set(verdict.codes) == {"req_id_reused"}
        assert trace(kernel) == before
    assert kernel.decide([add("b", context_seq=1), add("a", valid_until=9)]).replayed
    assert kernel.decide([add("a", agent_id="bob"), add("b", agent_id="bob")]).admitted


def test_req_id_reused_names_the_earlier_verdict():
    kernel, _ = reused()
    kernel.decide([add("a"), add("b")])
    kernel.decide(intent("Take", {"amount": 99}, "c"))
    kernel.decide({"intents": [add("d")], "sim_time": 9})
    said = [kernel.decide(add(req_id, 7)).refusals[0].details["earlier"] for req_id in "abcd"]
    assert said == [
        "admitted at seq 5", "admitted at seq 6", "refused as lab.too_few", "scheduled at seq 7"
    ]  # fmt: skip


def test_a_refusal_without_a_record_may_be_retried_with_the_same_id():
    """G6: structure, agent, quota and back-pressure refusals are not remembered."""
    kernel, _ = reused(quotas={"Add": {"rate": 1, "burst": 1}})
    kernel.decide(add("first"))
    kernel.change_executor("mail", 1)
    kernel.decide(intent("Mail", {"count": 1}, "filling"))
    kernel.set_agent_permissions("bob", set())
    for batch in (
        add("a"),
        add("a", priority=101),
        intent("Mail", {"count": 1}, "a"),
        add("a", agent_id="bob"),
    ):
        assert not kernel.decide(batch).admitted
    kernel.set_agent_permissions("bob", None)
    assert kernel.decide(add("a"), 2.0).admitted
    assert kernel.decide(add("a", agent_id="bob"), 2.0).admitted


@pytest.mark.parametrize("how", ["refuse", "raise", "huge"])
def test_a_refusal_by_the_domain_is_final_for_its_req_id(how):
    kernel, _ = reused()
    batch = [add("a"), intent("Fail", {"how": how}, "b")]
    first = kernel.decide(batch)
    again = kernel.decide(batch, 5.0)
    assert again.replayed
    assert promised(again) == promised(first)


# Refresh and retry


def stale_look(kernel):
    put = intent("Put", {"thing": "lamp", "field": "lit"}, "put", agent_id="bob")
    assert kernel.decide(put).admitted
    look = intent("Look", {"thing": "lamp"}, "look", context_seq=3)
    assert kernel.decide([look, add("with", context_seq=3)]).codes == ("stale_context",)
    return look


def test_a_stale_request_with_a_newer_context_is_a_new_try():
    kernel, _ = reused()
    look = stale_look(kernel)
    same = [look, add("with", context_seq=3)]
    assert kernel.decide(same).replayed
    newer = [dict(look, context_seq=kernel.seq), add("with", context_seq=3)]
    assert kernel.decide(newer).admitted
    assert kernel.decide(newer).replayed
    assert kernel.decide(same).admitted  # a late repetition is told what came of it
    told = kernel.verdict_of("alice", "look")
    assert told is not None
    assert told.admitted


def test_a_stale_request_with_an_older_context_or_other_content_is_not_a_new_try():
    kernel, _ = reused()
    look = stale_look(kernel)
    older = [dict(look, context_seq=kernel.seq), add("with", context_seq=2)]
    assert kernel.decide(older).replayed
    other = [dict(look, context_seq=kernel.seq), add("with", 2)]
    assert kernel.decide(other).codes == ("req_id_reused", "req_id_reused")


def test_a_request_from_the_future_may_be_retried_with_a_present_context():
    kernel, _ = reused()
    assert kernel.decide(add("a", context_seq=99)).codes == ("context_from_future",)
    assert kernel.decide(add("a", context_seq=99)).replayed
    assert kernel.decide(add("a", context_seq=4)).admitted


def test_an_expired_request_is_no_new_try():
    kernel, _ = reused()
    assert kernel.decide(add("a", valid_until=1), 2.0).codes == ("expired",)
    assert kernel.decide(add("a", valid_until=9, context_seq=4), 2.0).codes == ("expired",)


# The window


def test_the_latest_ids_are_remembered_and_older_ones_evicted():
    kernel, _ = reused(limits={"window_ids_max": 3})
    for name in "abcd":
        assert kernel.decide(add(name)).admitted
    for name in "bcd":
        assert kernel.decide(add(name)).replayed
    assert not kernel.decide(add("a")).replayed  # a free-form id: the window is the promise


def test_an_evicted_sequence_id_is_too_old():
    kernel, _ = reused(limits={"window_ids_max": 2, "window_sequences_max": 2})
    for number in range(5):
        assert kernel.decide(add(f"n:{number}")).admitted
    for number in (0, 1, 2):
        assert kernel.decide(add(f"n:{number}")).codes == ("req_id_too_old",)
    for free in ("n:01", "n:1x", "1", ":", "m:0"):
        assert kernel.decide(add(free)).admitted
    assert kernel.decide([add("n:1"), add("n:9")]).codes == ("req_id_too_old",)
    known_and_old = kernel.decide([add("m:0"), add("n:1")])
    assert known_and_old.codes == ("req_id_reused", "req_id_too_old")


def test_the_number_of_remembered_sequences_is_bounded():
    kernel, _ = reused(limits={"window_ids_max": 1, "window_sequences_max": 2})
    for name in "pqrst":
        kernel.decide(add(f"{name}:1"))
    assert [kernel.decide(add(f"{name}:1")).codes for name in "rq"] == [("req_id_too_old",), ()]


def test_a_restored_world_evicts_the_same_sequences():
    kernel, _ = reused(limits={"window_ids_max": 1, "window_sequences_max": 2})
    for name in "zab":
        kernel.decide(add(f"{name}:1"))
    kernel.restore(kernel.snapshot())
    kernel.decide(add("c:1"))
    window = kernel.ledger.agents["alice"].window
    assert window is not None
    assert list(window.forgotten) == ["a", "b"]  # z went first


def test_an_id_expires_with_age_and_a_sequence_id_is_then_too_old():
    """Default: 10 simulated minutes."""
    kernel, _ = reused()
    kernel.decide([add("free"), add("n:7")])
    assert kernel.decide([add("free"), add("n:7")], 10 * MINUTE).replayed
    assert kernel.decide(add("n:7"), 10 * MINUTE + 1).codes == ("req_id_too_old",)
    assert kernel.decide(add("free"), 10 * MINUTE + 1).admitted
    assert kernel.decide(add("n:7"), 10 * MINUTE + 2).codes == ("req_id_too_old",)
    assert kernel.verdict_of("alice", "n:7") is None


def test_a_batch_larger_than_the_window_is_remembered_whole():
    kernel, _ = reused(limits={"window_ids_max": 2})
    batch = [add(f"r{n}") for n in range(5)]
    assert kernel.decide(batch).admitted
    assert kernel.decide(batch).replayed
    assert kernel.decide(add("next")).admitted
    assert kernel.decide(batch).replayed  # blocks leave whole, and only when enough is left
    assert kernel.decide(add("last")).admitted
    assert kernel.verdict_of("alice", "r0") is None


def test_the_least_recently_used_agents_are_evicted_first():
    kernel, _ = reused(agents=("alice", "bob", "carol"), limits={"dedup_entries_max": 4})
    for agent_id in ("alice", "bob", "alice", "carol", "carol"):
        number = kernel.seq
        assert kernel.decide(add(f"r{number}", agent_id=agent_id)).admitted
    assert kernel.ledger.dedup.count == 4
    assert kernel.verdict_of("bob", "r6") is None
    assert kernel.verdict_of("alice", "r5") is not None
    big = [add(f"b{n}", agent_id="bob") for n in range(6)]
    assert kernel.decide(big).admitted
    assert kernel.ledger.dedup.count == 6  # the newest answer stays, whatever its size
    assert kernel.decide(big).replayed
    assert kernel.decide(add("c", agent_id="carol")).admitted
    assert kernel.ledger.dedup.count == 1


def test_a_removed_agents_window_is_dropped():
    kernel, _ = reused()
    kernel.decide(add("a"))
    kernel.change_agent("alice", "removed")
    assert kernel.verdict_of("alice", "a") is None
    assert kernel.ledger.dedup.count == 0
    kernel.register_agent("alice")
    assert kernel.ledger.agents["alice"].generation == 2
    assert not kernel.decide(add("a")).replayed


def test_an_agent_without_requests_has_no_remembered_verdict():
    kernel, _ = reused()
    assert kernel.verdict_of("alice", "a") is None
    assert kernel.verdict_of("nobody", "a") is None


IDS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["n", "m", "n:m", ""]),
    st.sampled_from([":", ":", ":", "", "::"]),
    st.sampled_from(["0", "1", "2", "10", "007", "x", "", "1" * 18, "1" * 19, "٣"]),
)


RUNS = st.builds(
    lambda name, first, count: [f"{name}:{number}" for number in range(first, first + count)],
    st.sampled_from("nm"),
    st.integers(0, 12),
    st.integers(1, 4),
)
ANSWERS = st.one_of(RUNS, st.lists(IDS, min_size=1, max_size=4, unique=True))


@given(st.lists(st.tuples(ANSWERS, st.booleans(), st.booleans()), min_size=1, max_size=12), IDS)
def test_a_window_agrees_with_a_naive_one(answers, asked):
    """Compared with a list of all requests, in which the latest verdict counts."""
    window, naive = Window(), []
    for number, (ids, is_told, is_refused) in enumerate(answers):
        known = only_sequence(ids) if is_told else None  # told, or to be found out
        window.remember(
            refused(number, 0, number, [(i, 0) for i in ids], ())
            if is_refused
            else admitted(number, 0, number, ids, known),
            5,
            10,
            100,
        )
        naive.append((number, ids))
    while sum(len(ids) for _, ids in naive[1:]) >= 5:
        naive.pop(0)
    kept = {req_id: number for number, ids in naive for req_id in ids}
    gone_ids = [i for ids, *_ in answers[: len(answers) - len(naive)] for i in ids]
    marks = [sequence_form(i) for i in gone_ids]

    def is_gone(req_id):
        mine = sequence_form(req_id)
        return mine is not None and any(m and m[0] == mine[0] and m[1] >= mine[1] for m in marks)

    loaded = Window.load(from_canonical(canonical(window.dump())))
    for one in (window, loaded):
        assert one.count == sum(len(ids) for _, ids in naive)
        assert [(a.fingerprint, list(a.ids), a.count) for a in one.entries] == [
            (number, ids, len(ids)) for number, ids in naive
        ]
        for req_id in {asked, *gone_ids, *kept, "n:1", "n:5", "m:14", "n:01"}:
            found = one.find(req_id)
            assert (None if found is None else found.fingerprint) == kept.get(req_id)
            is_new = req_id not in kept and not is_gone(req_id)
            assert one.is_too_old(req_id) is is_gone(req_id)
            assert one.is_new([req_id]) is is_new
            assert one.is_new([req_id], only_sequence([req_id])) is is_new
        some = [f"n:{number}" for number in range(3, 6)]
        are_new = not any(i in kept or is_gone(i) for i in some)
        assert one.is_new(some, only_sequence(some)) is one.is_new(some[::-1]) is are_new
    assert loaded.dump() == window.dump()


def test_consecutive_sequence_ids_store_no_strings():
    window = Window()
    for number in range(0, 8_000, 2):  # more runs than a list is for
        ids = [f"alice:{n}" for n in range(number, number + 2)]
        window.remember(admitted(number, 0, number, ids, only_sequence(ids)), 3_000, 1, 9)
    assert {type(answer) for answer in window.entries} == {RangeEntry}
    assert (window.count, window.forgotten) == (3_000, {"alice": 4_999})
    assert not window.is_new(["alice:5000"], only_sequence(["alice:5000"]))
    found = window.find("alice:5001")
    assert found is not None
    assert unpack(found).seqs["alice:5001"] == 5_001


def test_a_batch_of_many_sequences_is_looked_up_once_per_id():
    window, looked = Window(), []
    for number in range(100):
        ids = [f"s{number}:9"]
        window.remember(admitted(number, 0, number, ids, only_sequence(ids)), 1_000, 1, 9)

    class Id(str):
        __slots__ = ()

        def rpartition(self, by, /):
            looked.append(self)
            return super().rpartition(by)

    assert window.is_new([Id(f"s{number}:5") for number in range(100)])
    assert len(looked) <= 300


@given(st.lists(IDS, min_size=1, max_size=6))
def test_sequences_of_many_ids_match_those_of_each_id(ids):
    spans: dict[str, list[int]] = {}
    for found in map(sequence_form, ids):
        if found is not None:
            spans.setdefault(found[0], []).append(found[1])
    expected = {(name, min(numbers), max(numbers)) for name, numbers in spans.items()}
    assert {(span.name, span.lowest, span.highest) for span in sequences_of(ids)} == expected
    assert len(sequences_of(ids)) == len(expected)
