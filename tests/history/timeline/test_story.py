"""The story of an agent: the records that are about it, in order, a page at a time."""

from typing import Any

import pytest

from placet.history.timeline import story as module
from placet.history.timeline.story import Story
from placet.schemas.effect import Settlement
from placet.schemas.log.record import LogAppend, decode_record
from placet.stores.memory import MemoryEventLog
from tests.domains.approvals.test_approvals import Desk
from tests.history.timeline.played_logs import log_of, world_records
from tests.kernel.builders import add, intent, kernel_of


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
