"""An inbox asks for approvals and decides them, whichever domain and program asked."""

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from placet import Inbox, Orchestrator
from placet.domains.approvals import Approvals
from placet.kernel.plugin.approved import DECIDE, RECORDER
from placet.schemas.approval import ApprovalUnknown
from placet.schemas.effect import OutcomeUnknown
from tests.kernel.domains import MAIL, Lab
from tests.runtime.ledger_desk import QUIET, domains, paid


@pytest.fixture
async def world():
    async with Orchestrator(domains(), QUIET) as world:
        yield world


async def pay(world, euro=50, to="bob", agent="ann", **options):
    """Return the answer of a request to pay."""
    handle = await world.register_agent(agent)
    intents = [handle.intent("desk.pay", to=to, euro=euro)]
    return await Inbox(world).ask(intents, agent=handle, **options)


async def test_an_approved_request_does_what_was_shown(world):
    answer = await pay(world, about={"goal": "the rent"}, seconds=60.0)
    request = answer.approval
    assert (request.agent, request.role, request.risk, request.state) == ("ann", "", "high", "open")
    assert request.calls == (("desk.pay", {"to": "bob", "euro": 50}),)
    assert request.changes == (("desk.paid", "bob", "euro", "add", None, 50),)
    assert (request.about, request.number) == ({"goal": "the rent"}, 1)
    assert str(request) == "ann asks anybody: desk.pay(to='bob', euro=50)"
    assert request.expires == pytest.approx(answer.verdict.sim_time + 60.0)
    inbox = Inbox(world)
    assert await inbox.open() == [request] == [await inbox.get(request.id)]
    decided = await inbox.decide(request.id, "approve", by="eve", digest=request.digest)
    assert (decided.approval.state, decided.approval.by) == ("approved", "eve")
    assert [tuple(one) for one in decided.verdict.diff if one.collection == "desk.paid"] == [
        ("desk.paid", "bob", "euro", "add", None, 50)
    ]
    assert decided.verdict.results[decided.ahead].normalized == {"to": "bob", "euro": 50}
    assert paid(await world.state()) == {"bob": 50}
    assert await inbox.open() == []


async def test_a_denied_request_does_nothing(world):
    request = (await pay(world)).approval
    decided = await Inbox(world).decide(request.id, "deny", by="eve", reason="not now")
    assert (decided.approval.state, decided.approval.reason) == ("denied", "not now")
    again = await pay(world)
    assert (again.request, again.codes) == (None, ("approvals.plan_denied",))
    assert paid(await world.state()) == {}


async def test_intents_that_the_dry_run_refuses_make_no_request(world):
    for euro, code in [(600, "payload_invalid"), (300, "desk.approval_required")]:
        answer = await pay(world, euro=euro)  # of 300 euro the manager is missing
        assert answer.request is None
        assert answer.codes == (code,)
        assert answer.refusals[0].index == answer.ahead
    assert await Inbox(world).open() == []


@pytest.mark.parametrize(
    ("person", "code"),
    [
        ({"by": "ann", "role": "manager"}, "decider_asked"),
        ({"by": "eve", "role": "guest"}, "role_missing"),
        ({"by": "eve", "role": "manager", "digest": "0" * 32}, "request_changed"),
    ],
)
@pytest.mark.parametrize("decision", ["approve", "deny", "amend"])
async def test_a_person_who_may_not_decide_leaves_a_request_open(world, decision, person, code):
    request = (await pay(world, euro=200, role="manager")).approval
    ann = await world.register_agent("ann")
    other = [ann.intent("desk.pay", to="bob", euro=150)] if decision == "amend" else []
    decided = await Inbox(world).decide(request.id, decision, intents=other, **person)
    assert decided.codes == (f"approvals.{code}",)
    assert decided.approval == request
    assert paid(await world.state()) == {}


async def test_a_request_that_would_do_something_else_is_stale_for_good(world):
    request = (await pay(world)).approval
    ann = await world.register_agent("ann")
    assert (await world.submit([ann.intent("desk.pay", to="bob", euro=5)])).admitted
    inbox = Inbox(world)
    decided = await inbox.decide(request.id, "approve", by="eve")
    assert decided.codes == ("approvals.not_foreseen",)
    assert (decided.approval.state, decided.approval.by) == ("stale", RECORDER)
    for decision in ("approve", "deny"):
        final = await inbox.decide(request.id, decision, by="eve")
        assert final.codes == ("approvals.request_decided",)
        assert final.approval.state == "stale"
    assert paid(await world.state()) == {"bob": 5}


async def test_a_request_whose_time_is_over_is_expired_for_good(world):
    request = (await pay(world, seconds=0.01)).approval
    inbox = Inbox(world)
    await world.wait_until(request.expires + 0.001)
    assert (await inbox.get(request.id)).state == "expired"  # not recorded yet
    assert await inbox.open() == []
    assert [one.id for one in await inbox.list(state="expired")] == [request.id]
    decided = await inbox.decide(request.id, "approve", by="eve")
    assert decided.codes == ("approvals.request_expired",)
    assert (decided.approval.state, decided.approval.by) == ("expired", RECORDER)
    assert (await inbox.decide(request.id, "deny", by="eve")).codes == (
        "approvals.request_decided",
    )


async def test_a_wait_for_a_decision_ends_with_it_or_with_the_time(world):
    inbox = Inbox(world)
    request = (await pay(world)).approval
    waiting = asyncio.create_task(inbox.decision(request.id))
    await world.register_agent("someone")
    assert not waiting.done()
    await inbox.decide(request.id, "approve", by="eve")
    assert (await waiting).state == "approved"
    late = (await pay(world, to="carl", seconds=0.01)).approval
    ended = await inbox.decision(late.id)
    assert (ended.state, ended.by) == ("expired", RECORDER)


async def test_an_amendment_is_approved_in_the_place_of_the_request(world):
    request = (await pay(world, about={"goal": "rent"})).approval
    ann = await world.register_agent("ann")
    inbox = Inbox(world)
    less = [ann.intent("desk.pay", to="bob", euro=20)]
    decided = await inbox.decide(request.id, "amend", by="eve", reason="less", intents=less)
    assert (decided.approval.state, decided.approval.by) == ("amended", "eve")
    new = await inbox.get(decided.approval.amended_by)
    assert (new.state, new.amends, new.by, new.about) == (
        "approved", request.id, "eve", {"goal": "rent"},
    )  # fmt: skip
    assert new.calls == (("desk.pay", {"to": "bob", "euro": 20}),)
    assert paid(await world.state()) == {"bob": 20}
    assert (await inbox.decision(request.id)).state == "amended"


@pytest.mark.parametrize(
    ("euro", "code"), [(600, ""), (200, "desk.approval_required"), (50, "approvals.request_open")]
)
async def test_an_amendment_that_is_refused_leaves_the_request_open(world, euro, code):
    request = (await pay(world)).approval
    ann = await world.register_agent("ann")
    other = [ann.intent("desk.pay", to="bob", euro=euro)]
    decided = await Inbox(world).decide(request.id, "amend", by="eve", intents=other)
    assert not decided.verdict.admitted
    assert code in {"", *decided.codes}
    assert decided.approval == request
    assert (await Inbox(world).decide(request.id, "approve", by="eve")).verdict.admitted


async def test_a_quota_leaves_a_request_open():
    quota = replace(QUIET, quotas={"desk.pay": {"rate": 0.001, "burst": 1}})
    async with Orchestrator(domains(), quota) as world:
        requests = [(await pay(world, to=to)).approval for to in ("bob", "carl")]
        inbox = Inbox(world)
        states = [
            (await inbox.decide(one.id, "approve", by="eve")).approval.state for one in requests
        ]
        assert states == ["approved", "open"]


async def test_a_request_keeps_the_conditions_of_its_intents(world):
    ann = await world.register_agent("ann")
    intent = ann.intent("desk.pay", to="bob", euro=50)
    path = ["desk.paid", "carl"]
    intent["expect"] = [{"path": path, "op": "absent"}]
    request = (await Inbox(world).ask([intent], agent=ann)).approval
    assert request.intents[0]["expect"] == [{"path": path, "op": "absent"}]
    await world.submit([ann.intent("desk.pay", to="carl", euro=5)])
    decided = await Inbox(world).decide(request.id, "approve", by="eve")
    assert (decided.approval.state, decided.codes) == ("stale", ("condition_failed",))


async def test_an_intent_that_is_over_is_not_applied(world):
    ann = await world.register_agent("ann")
    intent = ann.intent("desk.pay", to="bob", euro=50)
    intent["valid_until"] = world.sim_time + 0.5
    request = (await Inbox(world).ask([intent], agent=ann)).approval
    await world.wait_until(intent["valid_until"] + 0.001)
    decided = await Inbox(world).decide(request.id, "approve", by="eve")
    assert (decided.approval.state, decided.codes) == ("stale", ("expired",))


async def test_the_records_of_the_asking_program_are_in_the_approving_batch(world):
    ann, recorder = [await world.register_agent(name) for name in ("ann", "desk.recorder")]
    intents = [
        recorder.intent("desk.note", text="a payment"),
        ann.intent("desk.pay", to="bob", euro=50),
    ]
    inbox = Inbox(world)
    answer = await inbox.ask(intents, agent=ann, unshown=["desk.notes"])
    assert [one["agent"] for one in answer.approval.intents] == ["desk.recorder", "ann"]
    assert len(answer.approval.calls) == len(answer.approval.changes) == 1
    assert (await inbox.decide(answer.approval.id, "approve", by="eve")).verdict.admitted
    notes = (await world.state())["desk.notes"]
    assert [fields["text"] for fields in notes.values()] == ["a payment"]


class Interrupted:
    """A world in which another batch is decided just before each approving batch, some times."""

    def __init__(self, world, note, times):
        self._world, self._note, self._left = world, note, times

    def __getattr__(self, name):
        return getattr(self._world, name)

    async def submit(self, batch, **options):
        if batch[0]["kind"] == DECIDE and self._left:
            self._left -= 1
            assert (await self._world.submit([self._note()])).admitted
        return await self._world.submit(batch, **options)


@pytest.mark.parametrize(
    ("times", "state", "codes"), [(4, "approved", ()), (5, "open", ("stale_context",))]
)
async def test_a_batch_that_others_make_stale_is_submitted_again(world, times, state, codes):
    request = (await pay(world)).approval
    recorder = await world.register_agent("desk.recorder")
    between = Interrupted(world, lambda: recorder.intent("desk.note", text="x"), times)
    decided = await Inbox(between).decide(request.id, "approve", by="eve")  # type: ignore[arg-type]  # a world in all but its class
    assert (decided.approval.state, decided.codes) == (state, codes)


async def test_an_agent_of_the_same_name_runs_no_intent_of_a_removed_one(world):
    request = (await pay(world)).approval
    await world.remove_agent("ann")
    await world.register_agent("ann")
    with pytest.raises(ApprovalUnknown):
        await Inbox(world).decide(request.id, "approve", by="eve")


async def test_two_inboxes_that_ask_an_equal_plan_at_one_moment_make_one_request(world):
    answers = await asyncio.gather(*(pay(world) for _ in range(4)))
    assert len({one.approval.id for one in answers}) == 1
    assert sorted(one.verdict.admitted for one in answers) == [False, False, False, True]
    assert len(await Inbox(world).open()) == 1


async def test_a_decision_at_one_moment_with_others_is_recorded_once(world):
    request = (await pay(world)).approval
    answers = await asyncio.gather(
        *(Inbox(world).decide(request.id, "approve", by="eve") for _ in range(4))
    )
    assert {one.approval.state for one in answers} == {"approved"}
    assert sum(one.verdict.admitted for one in answers) == 1
    assert paid(await world.state()) == {"bob": 50}


async def test_requests_are_listed_in_pages(world):
    ids = [(await pay(world, euro=11 + n)).approval.id for n in range(5)]
    inbox = Inbox(world)
    await inbox.decide(ids[1], "deny", by="eve")
    pages, cursor = [], 0
    while page := await inbox.list(state="open", cursor=cursor, limit=2):
        pages.append([one.id for one in page])
        cursor = page[-1].number
    assert pages == [[ids[0], ids[2]], [ids[3], ids[4]]]
    assert [one.id for one in await inbox.list()] == ids
    with pytest.raises(ValueError, match=r"opne.*open"):
        await inbox.list(state="opne")  # type: ignore[arg-type]  # misspelled
    with pytest.raises(ValueError, match="limit must be 1 to"):
        await inbox.list(limit=0)


async def test_a_misspelled_decision_or_request_is_an_error(world):
    inbox = Inbox(world)
    with pytest.raises(ApprovalUnknown, match="there is no request 'q'"):
        await inbox.decide("q", "approve", by="eve")
    with pytest.raises(ValueError, match=r"aprove.*approve"):
        await inbox.decide("q", "aprove", by="eve")  # type: ignore[arg-type]  # misspelled
    with pytest.raises(ValueError, match="an amendment, and it alone, has intents"):
        await inbox.decide("q", "amend", by="eve")


async def test_a_decision_by_hand_without_its_intents_permits_nothing(world):
    request = (await pay(world)).approval
    recorder = await world.register_agent(RECORDER)
    fields = {"by": "eve", "role": "", "digest": request.digest, "reason": ""}
    decide = recorder.intent(DECIDE, id=request.id, decision="approve", **fields)
    assert (await world.submit([decide])).codes == ("approvals.not_foreseen",)


DECIDER = """
import asyncio, sys
from dataclasses import replace
from placet import Inbox, Orchestrator
from tests.runtime.ledger_desk import QUIET, domains

async def main(store, decision):
    async with Orchestrator(domains(), replace(QUIET, store=store)) as world:
        inbox = Inbox(world)
        (request,) = await inbox.open()
        others = []
        if decision == "amend":
            ann = await world.register_agent("ann")
            others = [ann.intent("desk.pay", to="bob", euro=20)]
        answer = await inbox.decide(request.id, decision, by="eve", intents=others)
        print(answer.approval.state)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("decision", "state", "euro"),
    [
        ("approve", "approved", {"bob": 50}),
        ("deny", "denied", {}),
        ("amend", "amended", {"bob": 20}),
    ],
)
async def test_another_process_decides_a_request(tmp_path, decision, state, euro):
    store = f"sqlite:///{tmp_path}/desk.db"
    config = replace(QUIET, store=store)
    async with Orchestrator(domains(), config) as world:
        request = (await pay(world)).approval
    command = [sys.executable, "-c", DECIDER, store, decision]
    ended = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.split() == [state]
    async with Orchestrator(domains(), config) as world:
        assert (await Inbox(world).decision(request.id)).state == state
        assert paid(await world.state()) == euro


@asynccontextmanager
async def in_doubt():
    """Open a world with an effect in doubt."""

    async def post(_effect):
        raise OutcomeUnknown("the line went dead")

    async with Orchestrator([Lab(), Approvals()], QUIET) as world:
        await world.register_executor(MAIL, post, delivery="at_most_once")
        alice = await world.register_agent("alice")
        await alice.submit([alice.intent("Mail", count=1)])
        await world.wait_effects()
        yield world


@pytest.mark.parametrize(
    ("output", "problem"), [("x" * 70_000, "larger than 65536 bytes"), ({1}, "output is not JSON")]
)
async def test_an_output_that_cannot_be_logged_records_no_settlement(output, problem):
    async with in_doubt() as world:
        inbox, before = Inbox(world), world.records
        (doubt,) = await inbox.doubts()
        with pytest.raises(ValueError, match=problem):
            await inbox.settle(doubt.key, done=True, by="eve", output=output)
        assert await inbox.doubts() == [doubt]
        assert world.records == before
        await inbox.settle(doubt.key, done=True, by="eve", output="sent")
        assert await inbox.doubts() == []
