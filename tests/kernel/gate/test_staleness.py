"""Laws of staleness (G7, G8): decided by the reads of an intent; refusals list the changes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel import Domain, Kind
from placet.schemas.identity import Ref
from tests.kernel.builders import add, intent, kernel_of, reused
from tests.kernel.domains import COUNTS, THINGS, Annex, Lab


def put(kernel, thing, agent_id, **fields):
    name = f"{agent_id}{kernel.seq}"
    one = intent(
        "Put", {"thing": thing, "field": "f", "value": 1}, name, agent_id=agent_id, **fields
    )
    assert kernel.decide(one).admitted
    return kernel.seq


def drop(kernel, thing, agent_id):
    one = intent("Drop", {"thing": thing}, f"{agent_id}{kernel.seq}", agent_id=agent_id)
    assert kernel.decide(one).admitted
    return kernel.seq


def look(kernel, thing, context_seq, agent_id="alice", kind="Look", **payload):
    """Return whether a dry run at a context is admitted."""
    one = intent(
        kind, {"thing": thing, **payload}, "look", agent_id=agent_id, context_seq=context_seq
    )
    return kernel.decide({"intents": [one], "dry_run": True})


STORIES = st.lists(
    st.tuples(
        st.sampled_from(["put", "drop"]),
        st.sampled_from(["alice", "bob", "carol"]),
        st.sampled_from("ab"),
    ),
    max_size=10,
)


@given(STORIES)
def test_an_intent_is_stale_if_another_agent_changed_its_read_set(story):
    """Law: stale <=> some change of a read entity, by another, has a seq above context_seq."""
    kernel, _ = reused(agents=("alice", "bob", "carol"))
    start = kernel.seq
    changes: list[tuple[str, str, int, bool]] = []
    for what, agent_id, thing in story:
        exists = kernel.tree.exists(THINGS, thing)
        if what == "put":
            changes.append((thing, agent_id, put(kernel, thing, agent_id), not exists))
        elif exists:
            changes.append((thing, agent_id, drop(kernel, thing, agent_id), True))
    for reader in ("alice", "bob"):
        for thing in ("a", "b", None):
            for context_seq in range(start, kernel.seq + 1):
                foreign = [
                    seq
                    for changed, by, seq, is_phantom in changes
                    if by != reader and seq > context_seq
                    and (changed == thing or (thing is None and is_phantom))
                ]  # fmt: skip
                verdict = look(kernel, thing, context_seq, reader)
                assert verdict.codes == (("stale_context",) if foreign else ())
                if foreign:
                    (told,) = verdict.refusals[0].changed
                    assert told["seq"] == max(foreign)
                    assert told["entity"] == (THINGS if thing is None else f"{THINGS}/{thing}")


def test_a_foreign_change_hidden_by_an_own_later_one_still_counts():
    kernel, _ = reused()
    put(kernel, "a", "bob")
    before = kernel.seq
    foreign = put(kernel, "a", "bob")
    put(kernel, "a", "alice")
    assert look(kernel, "a", foreign).admitted
    refusal = look(kernel, "a", before).refusals[0]
    assert refusal.changed[0]["seq"] == foreign
    assert refusal.changed[0]["by"] is None  # who it was, the stamp of alice's own hides


def test_initial_state_has_not_changed():
    kernel, _ = reused(domain=Lab(things=("a",)))
    assert look(kernel, "a", 0).admitted
    assert look(kernel, None, 0).admitted
    assert look(kernel, "never seen", 0).admitted
    assert look(kernel, None, 0, collection="never.seen").admitted


def test_a_deleted_entity_is_listed_as_changed_to_none():
    kernel, _ = reused()
    seen = put(kernel, "a", "alice")
    gone = drop(kernel, "a", "bob")
    told = look(kernel, "a", seen).refusals[0].changed
    assert told == ({"entity": "lab.things/a", "seq": gone, "by": "bob", "now": None},)
    assert look(kernel, "a", gone).admitted


def test_a_collection_changes_when_an_entity_is_created_or_deleted():
    kernel, _ = reused()
    put(kernel, "a", "bob")
    seen = kernel.seq
    put(kernel, "a", "bob")
    assert look(kernel, None, seen).admitted
    came = put(kernel, "b", "bob")
    told = look(kernel, None, seen).refusals[0].changed
    assert told == ({"entity": "lab.things", "seq": came, "by": "bob", "now": None},)
    assert look(kernel, None, came).admitted
    drop(kernel, "b", "bob")
    assert not look(kernel, None, came).admitted


def test_a_context_older_than_the_tombstones_is_too_old():
    kernel, _ = reused(limits={"tombstones_max": 2})
    first = kernel.seq
    for thing in "abc":
        put(kernel, thing, "bob")
        drop(kernel, thing, "bob")
    tracked = kernel.tree.tracked_from
    assert tracked > first
    assert look(kernel, "a", first).codes == ("context_too_old",)
    assert look(kernel, "never", first).codes == ("context_too_old",)
    assert look(kernel, "c", first).codes == ("stale_context",)  # its grave is still there
    assert look(kernel, "a", tracked).admitted
    assert look(kernel, None, first, collection="never.seen").admitted  # stamps of those stay
    mine = put(kernel, "a", "alice")
    assert look(kernel, "a", first).codes == ("stale_context",)  # bob's deletion came between
    assert look(kernel, "a", mine).admitted


def test_refused_batches_trim_no_tombstones():
    kernel, _ = reused(limits={"tombstones_max": 1})
    first = kernel.seq
    for thing in "abc":
        put(kernel, thing, "bob")
        drop(kernel, thing, "bob")
    elsewhere = intent("Look", {"thing": "x", "collection": "else.where"}, context_seq=first)
    asked = {"intents": [elsewhere], "dry_run": True}
    assert kernel.decide(asked).codes == ("context_too_old",)
    assert "else.where" not in kernel.state


def test_a_kind_that_revalidates_is_never_stale_by_footprint():
    kernel, _ = reused()
    seen = kernel.seq
    put(kernel, "a", "bob")
    assert look(kernel, "a", seen).codes == ("stale_context",)
    assert look(kernel, "a", seen, kind="Glance").admitted


def test_the_world_threshold_binds_every_kind_on_the_global_seq():
    kernel, _ = reused(staleness_threshold=2)
    seq = kernel.seq
    asked = [{"intents": [add("a", context_seq=seq - back)], "dry_run": True} for back in range(5)]
    assert [kernel.decide(batch).admitted for batch in asked] == [True, True, True, False, False]
    glance = look(kernel, "a", seq - 3, kind="Glance")
    assert glance.codes == ("stale_context",)
    assert glance.refusals[0].changed == ()


def test_only_the_intents_beyond_the_threshold_are_named():
    kernel, _ = reused(staleness_threshold=2)
    batch = [add(f"r{back}", context_seq=kernel.seq - back) for back in (1, 2, 3)]
    assert [refusal.index for refusal in kernel.decide(batch).refusals] == [2]


def test_threshold_zero_admits_only_the_newest_context():
    kernel, _ = reused(staleness_threshold=0)
    assert kernel.decide(add("a", context_seq=kernel.seq)).admitted
    assert kernel.decide(add("b", context_seq=kernel.seq - 1)).codes == ("stale_context",)


def test_a_kind_that_reads_its_own_entity_is_stale_when_another_changed_it():
    kernel, _ = reused()
    seen = kernel.seq
    give = intent("Give", {"thing": "alice"}, "give", agent_id="bob")
    assert kernel.decide(intent("Tend", {"amount": 1}, "t1", context_seq=seen)).admitted
    assert kernel.decide(intent("Tend", {"amount": 1}, "t2", context_seq=seen)).admitted
    assert kernel.decide(give).admitted
    batch = [add("x"), intent("Tend", {"amount": 1}, "t3", context_seq=seen)]
    refusal = kernel.decide(batch).refusals[0]
    assert (refusal.code, refusal.index) == ("stale_context", 1)
    assert refusal.changed[0]["entity"] == f"{COUNTS}/alice"
    now = intent("Tend", {"amount": 1}, "t4", context_seq=kernel.seq)
    assert kernel.decide(now).admitted
    assert kernel.decide([now | {"req_id": "t5"}, intent("Look", {"thing": "a"}, "t6")]).admitted


def test_a_kind_declares_its_footprint_in_one_way():
    with pytest.raises(ValueError, match="has both reads and reads_self"):
        Kind("Both", dict, lambda d, i: None, reads=lambda i: (), reads_self="c")


def test_each_intent_is_checked_by_its_own_context():
    kernel, _ = reused()
    seen = kernel.seq
    put(kernel, "a", "bob")
    looks = [
        intent("Look", {"thing": "a"}, "r0", context_seq=kernel.seq),
        intent("Look", {"thing": "a"}, "r1", context_seq=seen),
        intent("Look", {"thing": "b"}, "r2", context_seq=seen),
        intent("Look", {"thing": "a"}, "r3", context_seq=seen),
    ]
    assert [refusal.index for refusal in kernel.decide(looks).refusals] == [1, 3]


def test_listed_changes_are_bounded():
    things = [f"t{n}" for n in range(5)]

    class Many(Domain):
        name, version = "many", "1"
        kinds = (
            Kind(
                "See",
                dict[str, int],
                lambda draft, intent: None,
                reads=lambda intent: [Ref(THINGS, thing) for thing in things],
            ),
        )

    kernel = kernel_of([Lab(), Many()], limits={"changes_listed_max": 2})
    seen = kernel.seq
    for thing in things:
        put(kernel, thing, "bob")
    refusal = kernel.decide(intent("See", {}, "see", context_seq=seen)).refusals[0]
    assert [change["entity"] for change in refusal.changed] == ["lab.things/t0", "lab.things/t1"]


# Who may know


def test_the_domain_of_a_collection_hides_its_entities():
    class Spy(Domain):
        """Hides nothing, also not the lab's secrets."""

        name, version = "spy", "1"
        kinds = (
            Kind(
                "Peek",
                dict[str, str],
                lambda draft, intent: None,
                reads=lambda intent: [(THINGS, "secret"), (THINGS, "open"), ("loose", "secret")],
            ),
        )

    kernel = kernel_of([Lab(), Spy()])
    seen = kernel.seq
    for thing in ("secret", "open"):
        put(kernel, thing, "bob")
    refusal = kernel.decide(intent("Peek", {}, "peek", context_seq=seen)).refusals[0]
    assert [change["entity"] for change in refusal.changed] == ["lab.things/open"]
    assert "secret" not in refusal.message
    assert kernel.registry.may_see(kernel.tree, "alice", Ref("loose", "open"))
    assert not kernel.registry.may_see(kernel.tree, "alice", Ref("loose", "secret"))
    assert kernel_of(Annex(), agents=()).registry.may_see(
        kernel.tree, "alice", Ref("loose", "secret")
    )


def test_listed_values_of_a_change_are_copies():
    kernel, _ = reused()
    seen = kernel.seq
    value: dict[str, Any] = {"deep": [1]}
    one = intent("Put", {"thing": "a", "field": "f", "value": value}, agent_id="bob")
    assert kernel.decide(one).admitted
    told = look(kernel, "a", seen).refusals[0].changed[0]["now"]
    told["f"]["deep"].append(2)
    assert kernel.state[THINGS]["a"]["f"] == {"deep": (1,)}


def test_an_agent_whose_entity_was_deleted_is_stale():
    kernel = kernel_of()
    seen = kernel.seq
    kernel.patch([(COUNTS, "alice", None, True)], "gone")
    before, after = (
        kernel.decide([intent("Tend", {"amount": 1}, name, context_seq=context_seq)])
        for name, context_seq in (("t:0", seen), ("t:1", kernel.seq))
    )
    assert before.codes == ("stale_context",)
    assert "stale_context" not in after.codes
