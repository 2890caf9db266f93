"""A changed policy is a record of the log; held calls are judged by it, and earlier calls count."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.shop import QUIET, Shop

from placet import OrchestratorConfig
from placet.history.verify_log import verify_log
from placet.kernel import Kernel
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.log.record import RulesChanged, decode_record
from placet.stores.url import open_event_log
from placet_tools import Gate
from placet_tools.frontend import earlier_calls
from placet_tools.policy import counting, marks
from placet_tools.policy.rules import Marking
from placet_tools.records import Records
from tests.levels import examples


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path}/shop.db"


def policy_of(**rules):
    return {"defaults": {"unlisted": "allow", "approve_from": "never"}, "tools": rules}


def opened(shop, store, **rules):
    return Gate(shop.tools, store=store, policy=policy_of(**rules), config=QUIET)


AT_MOST = {"at_most": [{"n": 2, "per": ["order"]}]}
IN_TIME = {"at_most": [{"n": 2, "per": ["order"], "within": "1d"}]}
AFTER = {"after": [{"tool": "lookup", "by": ["order"]}]}
ONLY_IF = {"only_if": [{"tool": "lookup", "by": ["order"], "if": "result.euro > 1"}]}
NEVER_MAIL = {"never_after": [{"tool": "lookup"}]}
NEVER = {"never_after": [{"tool": "lookup", "by": ["order"]}]}


def rule_changes(store):
    log = open_event_log(store)
    records = [decode_record(data) for _, data in log.read()]
    log.close()
    return [one.settings["shop"]["policy"] for one in records if isinstance(one, RulesChanged)]


async def test_a_changed_policy_is_a_record_and_an_equal_one_is_none(shop, store):
    first, second = policy_of(charge=AT_MOST), policy_of(charge=IN_TIME)
    for policy in (first, {**first, "examples": []}, second, second):
        async with Gate(shop.tools, store=store, policy=policy, config=QUIET):
            pass
    assert rule_changes(store) == [second]


async def test_each_part_of_a_log_is_verified_by_its_own_policy(shop, store):
    for rules in ({}, {"charge": AT_MOST}, {"charge": IN_TIME, "refund": AFTER}, {}):
        async with opened(shop, store, **rules) as gate:
            for _ in range(3):
                await gate.call("charge", order="A")
            await gate.call("refund", order="A")
    log = open_event_log(store)
    verification = verify_log(
        log, lambda then: [shop.tools(**then.settings["shop"]), gate.world.domains[1]]
    )
    log.close()
    assert verification.integrity.is_ok, verification.integrity.first_divergence
    assert verification.unverified == ()
    assert verification.batches > 12


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ({"approval": True, "refuse": [{"if": "euro > 4"}]}, "shop.policy_refused"),
        ({"approval": True, **AFTER}, "shop.after_missing"),
        ({"approval": True, "role": "director"}, "shop.approval_required"),
    ],
)
async def test_a_held_call_is_judged_by_the_policy_of_its_decision(shop, store, rules, code):
    async with opened(shop, store, refund={"approval": True}) as gate:
        held = await gate.call("refund", order="A")
    async with opened(shop, store, refund=rules) as gate:
        decision = await gate.decide(held.approval, "approve", by="ann")
        assert (decision.state, decision.codes) == ("stale", (code,))
    assert shop.ran == []


async def test_a_held_call_that_the_new_policy_permits_runs(shop, store):
    async with opened(shop, store, refund={"approval": True}) as gate:
        held = await gate.call("refund", order="A")
    async with opened(shop, store, refund={}) as gate:
        decision = await gate.decide(held.approval, "approve", by="ann")
        assert [one.status for one in decision.outcomes] == ["done"]


@pytest.mark.parametrize(
    ("rules", "order", "code"),
    [
        ({"charge": AT_MOST}, "A", "shop.at_most_reached"),
        ({"charge": AT_MOST}, "B", None),
        ({"charge": IN_TIME}, "A", "shop.at_most_reached"),
        ({"charge": AFTER}, "A", None),
        ({"charge": AFTER}, "B", "shop.after_missing"),
        ({"charge": ONLY_IF}, "A", None),
        ({"charge": ONLY_IF}, "B", "shop.after_missing"),
        ({"charge": NEVER}, "A", "shop.after_forbidden"),
        ({"charge": NEVER}, "B", None),
    ],
)
@pytest.mark.parametrize("before", [None, policy_of(charge={"at_most": [{"n": 9}]})])
async def test_a_new_rule_counts_the_calls_that_the_log_has(tmp_path, rules, order, code, before):
    shop, store = Shop(), f"sqlite:///{tmp_path}/shop.db"
    async with Gate(
        shop.tools, store=store, policy=before, approve_from="never", config=QUIET
    ) as gate:
        await gate.call("lookup", order="A")
        for other in ("A", "A", "C"):
            assert (await gate.call("charge", order=other)).status == "done"
    async with opened(shop, store, **rules) as gate:
        assert (await gate.call("charge", order=order)).codes == ((code,) if code else ())
    async with opened(shop, store, **rules) as gate:  # now the marks are in the state
        again = await gate.call("charge", order=order)
        assert again.codes == ((code,) if code else ())


async def test_many_earlier_calls_are_counted_in_parts(shop, store, monkeypatch):
    monkeypatch.setattr(earlier_calls, "_MARKS_MAX", 2)
    async with opened(shop, store) as gate:
        for order in "AABBCCDDE":
            await gate.call("charge", order=order)
    async with opened(shop, store, charge=AT_MOST) as gate:
        for order in "ABCD":
            refused = await gate.call("charge", order=order)
            assert refused.codes == ("shop.at_most_reached",)
        assert (await gate.call("charge", order="E")).status == "done"


async def test_an_undone_call_of_the_log_is_not_done(shop, store):
    async with opened(shop, store) as gate:
        shop.fails = {"mail"}
        plan = [("refund", {"order": "A"}), ("mail", {"to": "bob"})]
        assert (await gate.plan(plan))[0].status == "undone"
        await gate.call("refund", order="B")
    after = {"after": [{"tool": "refund", "by": ["order"]}]}
    async with opened(shop, store, charge=after) as gate:
        assert (await gate.call("charge", order="A")).codes == ("shop.after_missing",)
        assert (await gate.call("charge", order="B")).status == "done"


async def test_the_marks_of_a_rule_that_is_gone_are_dropped_and_counted_anew(
    shop, store, monkeypatch
):
    monkeypatch.setattr(counting, "DROPPED_MAX", 2)
    async with opened(shop, store, charge=AT_MOST) as gate:
        for order in "ABCDE":
            await gate.call("charge", order=order)
    async with opened(shop, store) as gate:
        for collection in ("markings", "marks", "mark_places"):
            assert await gate.world.gateway.entities(f"shop.{collection}") == {}
        await gate.call("charge", order="A")  # which leaves no mark
    async with opened(shop, store, charge=AT_MOST) as gate:
        assert (await gate.call("charge", order="A")).codes == ("shop.at_most_reached",)
        assert (await gate.call("charge", order="B")).status == "done"


@pytest.mark.parametrize("steps", [1, 2])
async def test_a_count_that_was_cut_off_is_begun_anew(shop, store, monkeypatch, steps):
    async with opened(shop, store) as gate:
        for order in "AAB":
            await gate.call("charge", order=order)
    submit, left = earlier_calls._submit, steps

    async def cut_off(*args, **payload):
        nonlocal left
        if not left:
            raise asyncio.CancelledError
        left -= 1
        await submit(*args, **payload)

    monkeypatch.setattr(earlier_calls, "_submit", cut_off)
    gate = opened(shop, store, charge=AT_MOST)
    with pytest.raises(asyncio.CancelledError):
        await gate.__aenter__()
    monkeypatch.undo()
    async with opened(shop, store, charge=AT_MOST) as gate:
        assert (await gate.call("charge", order="A")).codes == ("shop.at_most_reached",)
        assert (await gate.call("charge", order="B")).status == "done"


def test_a_kernel_that_has_not_counted_refuses_the_calls_of_the_rule(shop):
    records: list[bytes] = []
    for rules, codes in (({}, ()), ({"charge": AT_MOST}, ("shop.policy_uncounted",))):
        domain = shop.tools.domain(policy=policy_of(**rules))
        kernel = Kernel(domain, history=list(records), sink=records.append)
        if not codes:
            kernel.change_executor("shop.charge", 10)
            kernel.register_agent("ann")
        intent = kernel.intent("shop.charge", agent="ann", order="A")
        assert kernel.decide([intent]).codes == codes


def test_a_marking_that_is_not_counted_keeps_no_marks():
    draft, records = Draft(State()), Records.of("shop")
    store = marks.DraftMarks(draft, records)
    call = marks.MarkedCall("k", {"order": "A"}, "ann")
    marks.note_done([MARKING], store, call, None)
    store.drop(MARKING, marks.mark_name(MARKING, call))
    assert list(draft.ids(records.marks)) == []


@pytest.mark.parametrize(
    ("step", "marking"),
    [("begin", "unknown"), ("add", "unknown"), ("end", "unknown"), ("drop", "unknown")],
)
async def test_a_step_of_counting_follows_its_state(shop, store, step, marking):
    async with opened(shop, store, charge=AT_MOST) as gate:
        payload = {"marking": marking, "step": step, "marks": []}
        intent = await gate._recorder.own("count_calls", **payload)
        assert (await gate.world.submit([intent])).codes == ("shop.count_unknown",)
        agent = await gate.world.register_agent("eve")
        verdict = await gate.world.submit([agent.intent("shop.count_calls", payload)])
        assert verdict.codes == ("shop.recorder_only",)


# marks in the state and in memory

MARKING = Marking("m", "done", "lookup", ("order",))
steps = st.lists(
    st.tuples(st.sampled_from(["done", "undone"]), st.integers(0, 9), st.integers(0, 3)),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(steps=steps)
def test_the_state_keeps_the_newest_marks(steps):
    """Marks in the state are those of a dict, of which the oldest are dropped.

    The place of a dropped mark is taken until the ring comes to it, so the state may have fewer.
    """
    kept_max = 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "MARKS_MAX", kept_max)
        state, records = State(), Records.of("shop")
        draft, in_memory = Draft(state), marks.MemoryMarks()
        draft.create(records.markings, "m", {"state": "counted", "made": 0})
        in_state = marks.DraftMarks(draft, records)
        has_dropped = False
        for step, order, key in steps:
            call = marks.MarkedCall(str(key), {"order": order}, "ann")
            for one in (in_state, in_memory):
                if step == "done":
                    marks.note_done([MARKING], one, call, None)
                else:
                    marks.note_undone([MARKING], one, call)
            has_dropped = has_dropped or step == "undone"
            name = marks.mark_name(MARKING, call)
            found, expected = in_state.get(name), in_memory.get(name)
            if not has_dropped or (found is not None and expected is not None):
                assert (found or {}).get("key") == (expected or {}).get("key")
            kept = set(draft.ids(records.marks))
            assert kept <= set(in_memory.by_marking.get("m", {}))
            assert len(kept) <= kept_max
            assert len(list(draft.ids(records.mark_places))) <= kept_max
        while not in_state.drop_latest("m", 3):
            pass
        assert list(draft.ids(records.marks)) == list(draft.ids(records.mark_places)) == []


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        ({"euro": 5}, {"euro": 5}),
        ({"euro": "x" * 2_000}, {}),
        ({"cent": 5}, {}),
        (["euro"], {}),
        (None, {}),
    ],
)
def test_a_mark_keeps_the_parts_of_an_output_that_rules_read(output, kept):
    marking, store = Marking("m", "done", "lookup", (), paths=("euro",)), marks.MemoryMarks()
    marks.note_done([marking], store, marks.MarkedCall("k", {}, "ann"), output)
    (mark,) = store.by_marking["m"].values()
    assert mark == {"key": "k", "values": kept}


def test_equal_numbers_of_two_tools_have_one_mark():
    names = {
        marks.mark_name(MARKING, marks.MarkedCall("k", {"order": order}, "ann"))
        for order in (5, 5.0)
    }
    assert len(names) == 1


def test_a_mark_that_is_made_anew_outlives_its_earlier_place(monkeypatch):
    monkeypatch.setattr(marks, "MARKS_MAX", 2)
    records = Records.of("shop")
    draft = Draft(State())
    draft.create(records.markings, "m", {"state": "counted", "made": 0})
    store = marks.DraftMarks(draft, records)
    first, second = (marks.MarkedCall(key, {"order": key}, "ann") for key in "AB")
    marks.note_done([MARKING], store, first, None)  # at the place 0
    marks.note_undone([MARKING], store, first)
    marks.note_done([MARKING], store, first, None)  # at the place 1
    marks.note_done([MARKING], store, second, None)  # at the place 0, which has no mark any more
    for call in (first, second):
        assert store.get(marks.mark_name(MARKING, call)) is not None


def test_a_mark_of_an_outcome_during_the_count_is_newer_than_that_of_the_log(shop):
    domain = shop.tools.domain(policy=policy_of(charge=AFTER))
    policy, records = domain.enforced.policy, domain.records
    (marking,) = policy.each_marking().values()
    draft = Draft(State())

    def count(step, *counted):
        payload = {"marking": marking.id, "step": step, "marks": list(counted)}
        assert counting.count_calls(draft, records, policy, payload) is None

    count("begin")
    call = marks.MarkedCall("new", {"order": "A"}, "ann")
    marks.note_done([marking], marks.DraftMarks(draft, records), call, None)
    name = marks.mark_name(marking, call)
    count("add", {"name": name, "fields": {"key": "old", "values": {}}})
    count("end")
    assert draft.get(records.marks, name, "key") == "new"


async def test_a_policy_that_is_left_out_is_a_warning_with_what_limits_no_longer(
    shop, store, capfd
):
    config = OrchestratorConfig(log_level="warning")
    rules = {"defaults": {"unlisted": "allow"}, "tools": {"mail": NEVER_MAIL, "charge": AT_MOST}}
    warned = []
    for policy in (None, rules, rules, None, None):
        async with Gate(shop.tools, store=store, policy=policy, config=config):
            pass
        warned.append("this Gate has no policy" in (err := capfd.readouterr().err))
        if warned[-1]:
            assert "mail: never after lookup" in err
            assert "charge: at most 2 calls for each order" in err
    assert warned == [False, False, False, True, False]
