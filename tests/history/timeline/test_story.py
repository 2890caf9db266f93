"""The story of an agent: the records that are about it, in order, a page at a time."""

from typing import Any

import pytest

from placet.domains.approvals import Approvals
from placet.history.agent_records import AgentRecords
from placet.history.timeline import story as module
from placet.history.timeline.story import Story
from placet.kernel.plugin.approved import RECORDER, SETTLE
from placet.schemas.codec import canonical
from placet.schemas.effect import Settlement
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.memory import MemoryEventLog
from tests.domains.approvals.test_approvals import MOVE, OTHER, Desk
from tests.history.timeline.played_logs import log_of, world_records
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.domains import Lab


def events_of(story: Story, *, is_backward: bool = False, failures: bool = False) -> list[Any]:
    """Return all events of a story, by pages of three."""
    while not story.read_on():
        pass
    events, start = list[Any](), None
    while True:
        page, start = story.page(start, 3, is_backward=is_backward, failures=failures)
        events += page
        if start is None:
            return events


def mailing() -> list[bytes]:
    """Return a log in which the effects of two agents are done and failed."""
    records: list[bytes] = []
    kernel = kernel_of(sink=records)
    for agent in ("alice", "bob"):
        kernel.decide([intent("Mail", {"count": 1}, f"{agent}:1", agent_id=agent)])
    kernel.decide([intent("Fail", {"how": "raise"}, "alice:2")])
    kernel.decide([add("alice:3"), add("bob:3", agent_id="bob")])
    alices, bobs = (effect.key for effect in kernel.open_effects())
    kernel.settle(Settlement(bobs, succeeded=True, output="sent"))
    kernel.settle(Settlement(alices, succeeded=False, output="no such box"))
    kernel.change_agent("alice", "suspended")
    kernel.remove_agent("alice")
    return records


def test_the_story_of_an_agent_has_its_batches_and_their_effects_in_order():
    events = events_of(Story(log_of(mailing()), "alice"))
    told = [(one["type"], one["is_failure"]) for one in events]
    assert told == [
        ("registered", False),
        ("batch", False),
        ("refused", True),
        ("batch", False),
        ("settled", True),
        ("agent_changed", True),
        ("agent_changed", False),
    ]
    settled = events[4]
    assert (settled["effect_kind"], settled["output"]) == ("mail", "no such box")
    assert [one["agent_id"] for one in events[3]["intents"]] == ["alice"]
    assert (events[0]["became"], events[-1]["became"]) == ("registered", "removed")
    seen = [(one["record"], one["batch"]) for one in events]
    assert seen == sorted(seen)


def test_the_newest_come_first_and_failures_alone_on_request():
    story = Story(log_of(mailing()), "alice")
    events = events_of(story, is_backward=True)
    assert events == events_of(story)[::-1]
    failures = events_of(story, is_backward=True, failures=True)
    assert failures == [one for one in events if one["is_failure"]]
    assert (story.total, story.failures) == (7, 3)


def test_the_story_of_a_request_has_its_batch_and_its_effect():
    events = events_of(Story(log_of(mailing()), "alice", "alice:1"))
    assert [one["type"] for one in events] == ["batch", "settled"]


def test_the_story_tells_who_decided_a_request_for_approval():
    records: list[bytes] = []
    desk = Desk(records.append)
    desk.ask()
    desk.submit(desk.decision(), *desk.moves())
    other = {"agent": "ann", "key": "k3", "kind": "Move", "payload": {"to": [9.0, 0.0, 0.0]}}
    desk.ask("q2", [other])
    desk.submit(desk.decision("q2", "deny", reason="too far"))
    events = events_of(Story(log_of(records), "ann"))[1:]
    told = [[one["kind"] for one in event["intents"]] for event in events]
    assert told == [
        ["approvals.ask"],
        ["approvals.decide", "Move"],
        ["approvals.ask"],
        ["approvals.decide"],
    ]
    assert [event["is_failure"] for event in events] == [False, False, False, True]
    assert [len(events_of(Story(log_of(records), "ann", key))) for key in ("k1", "k3")] == [2, 2]
    assert len(events_of(Story(log_of(records), "bob"))) == 1


def doubted() -> list[bytes]:
    """Return a log in which a person settles the effects of two agents, one of them as failed."""
    records: list[bytes] = []
    kernel = kernel_of([Lab(), Approvals()], agents=("alice", "bob", "carol"), sink=records)
    kernel.register_agent(RECORDER)
    for agent in ("alice", "bob"):
        kernel.decide([intent("Mail", {"count": 1}, f"{agent}:1", agent_id=agent)])
    stranger = {"effect": "x", "kind": "mail", "call": "", "agent": "alice"}
    stranger |= {"outcome": "done", "by": "eve", "reason": ""}
    assert kernel.decide([intent(SETTLE, stranger, "x:1", agent_id="carol")]).codes
    for number, effect in enumerate(kernel.open_effects()):
        kernel.mark_effect(effect.key, "started")
        kernel.mark_effect(effect.key, "in_doubt", "no answer")
        found = {"effect": str(effect.key), "kind": "mail", "call": "", "agent": effect.agent_id}
        said = {"outcome": "done" if number else "failed", "by": "eve", "reason": "by phone"}
        settle = intent(SETTLE, {**found, **said}, f"s{number}", agent_id=RECORDER)
        assert kernel.decide([settle]).admitted
        kernel.settle(Settlement(effect.key, succeeded=bool(number)))
    return records


def test_the_story_has_who_settled_an_effect_in_doubt_and_why():
    log = log_of(doubted())
    for agent, is_failure in (("alice", True), ("bob", False)):
        for request in ("", f"{agent}:1"):
            events = events_of(Story(log, agent, request))
            told = [(one["type"], one["is_failure"]) for one in events][-4:]
            assert told == [
                ("effect_changed", False),
                ("effect_changed", True),
                ("batch", is_failure),
                ("settled", is_failure),
            ]
            (settled,) = events[-2]["intents"]
            assert (settled["kind"], settled["payload"]["by"]) == (SETTLE, "eve")
            assert settled["payload"]["reason"] == "by phone"
        assert len(events_of(Story(log, agent, "another"))) == 0


def test_requests_that_are_decided_are_not_searched_for():
    records: list[bytes] = []
    desk = Desk(records.append)
    about = AgentRecords("ann")
    for number in range(3):
        moves = [{**MOVE, "key": f"m{number}", "payload": {"to": [number + 1.0, 0.0, 0.0]}}]
        assert desk.ask(f"q{number}", moves).admitted
        assert desk.submit(desk.decision(f"q{number}"), *desk.moves(moves)).admitted
    assert desk.ask("open").admitted
    assert desk.ask("amended", [OTHER]).admitted
    amended = [{**OTHER, "key": "k10", "payload": {"to": [7.0, 0.0, 0.0]}}]
    assert desk.submit(*desk.amendment(amended, "amended", "n1")).admitted
    for data in records:
        for record in expanded(decode_record(data)):
            about.found(record)
    searched = ("q0", "q2", "amended", "n1", "open")
    assert [about.may_be_about(canonical(one)) for one in searched] == [False] * 4 + [True]


def test_batches_of_a_group_are_each_an_event():
    events = events_of(Story(log_of(world_records()), "cyd"))
    assert [one["type"] for one in events] == ["registered", *["refused"] * 6]
    assert events_of(Story(log_of(world_records()), "nobody")) == []


def test_a_story_goes_on_where_it_ended_when_the_log_has_grown():
    records = mailing()
    log, seq = MemoryEventLog(), 0
    epoch, story = log.open(), Story(log, "alice")
    for number, record in enumerate(records):
        after = decode_record(record).seq
        log.append(LogAppend(number, seq, after, (record,)), epoch)
        seq = after
        assert story.read_on()
        assert story.record == number + 1
    assert events_of(story) == events_of(Story(log_of(records), "alice"))


def test_work_is_bounded_and_the_oldest_entries_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ENTRIES_MAX", 4)
    story = Story(log_of(mailing()), "alice")
    rounds = 1
    while not story.read_on(2):
        rounds += 1
    assert rounds > 3
    events, following = story.page(0, 10, is_backward=False, failures=False)
    assert (len(events), following, story.left_out, story.total) == (4, None, 3, 7)
