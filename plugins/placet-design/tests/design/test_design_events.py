"""Events are projections of the log: their order, content and subscribers."""

from typing import Any

import pytest
from tests.design.designer import VESSEL, Designer, lock, more, put, unlock

from placet.schemas.errors import ValidationError
from placet.schemas.event import Event
from placet_design import (
    Action,
    ActionExecutedEvent,
    ActionType,
    Conductor,
    EventDispatcher,
    Intent,
    IntentType,
    KernelEventType,
    PhaseMachine,
    PhaseState,
    StateManager,
    StateMutatedEvent,
    audit,
    project,
)
from placet_design.api import event_dispatcher as dispatching

GROUPS = {"action", "validation", "state", "phase", "pipeline", "transaction", "export"}


@pytest.fixture
def designer():
    return Designer()


@pytest.fixture
def dispatcher(designer):
    return EventDispatcher(designer.manager)


def types(events):
    return [event.event_type.value for event in events]


def change_the_design(designer):
    """Cause every type of event."""
    manager = designer.manager
    intent = Intent("intent", "design", "60 m", IntentType.REFINE, 0.9, "2026-11-22")
    manager.propose([("design.create", {"design_id": "design"})])
    designer.executor.execute(designer.plan(put("hull.loa", 600, "ft")), intent=intent)
    designer.execute(lock("hull.loa", "as built"), put("hull.beam", 900))
    designer.execute(unlock("hull.loa"), Action(ActionType.REQUEST_CLARIFICATION, message="Which?"))
    designer.codes(put("hull.lao", 60))
    designer.codes(put("hull.lwl", 400))
    with pytest.raises(Exception, match="stale"):
        designer.execute(put("hull.loa", 60), version=99)
    manager.undo()
    manager.redo()
    Conductor(manager).run_phases(["hull"])
    manager.patch(VESSEL)
    manager.commit()
    Conductor(manager).run_default_pipeline()
    PhaseMachine(manager).transition("hull", PhaseState.APPROVED, "me")
    designer.execute(Action(ActionType.EXPORT, format="csv"))


def test_every_event_type_is_projected_from_a_record(designer, dispatcher):
    change_the_design(designer)
    events = dispatcher.events()
    assert {event.event_type for event in events} == set(KernelEventType)
    assert {event.group for event in events} == GROUPS
    assert len(KernelEventType) >= 20
    order = [(event.seq, event.record, event.n) for event in events]
    assert order == sorted(order)
    assert len(set(order)) == len(order)
    assert all(event.as_dict()["type"] == event.event_type.value for event in events)


def test_live_events_equal_events_projected_from_the_log(designer, dispatcher):
    start = designer.manager.kernel.seq
    heard: list[Any] = []
    dispatcher.subscribe(None, heard.append)
    change_the_design(designer)
    assert heard == dispatcher.events(start)


def test_a_subscriber_resumes_at_its_position(designer, dispatcher):
    designer.execute(put("hull.loa", 60))
    seq = designer.manager.kernel.seq
    designer.execute(put("hull.loa", 61))
    heard: list[Any] = []
    dispatcher.subscribe(StateMutatedEvent, heard.append, since=seq)
    designer.execute(put("hull.loa", 62))
    assert [(event.old_value, event.new_value) for event in heard] == [(60.0, 61.0), (61.0, 62.0)]


def test_events_have_the_expected_content(designer, dispatcher):
    heard: list[Any] = []
    dispatcher.subscribe(None, heard.append)
    designer.execute(put("hull.loa", 100, "ft"), plan_id="p1")
    assert types(heard) == [
        "action.plan_executed", "action.executed", "validation.action_adjusted", "state.mutated",
        "phase.invalidated", "transaction.committed",
    ]  # fmt: skip
    executed = heard[1]
    assert isinstance(executed, ActionExecutedEvent)
    assert (executed.plan_id, executed.actor) == ("p1", "planner")
    assert executed.payload == {"path": "hull.loa", "value": pytest.approx(30.48), "unit": "m"}
    assert heard[-1].design_version == 1


def test_a_dry_run_emits_no_event(designer, dispatcher):
    heard: list[Any] = []
    dispatcher.subscribe(None, heard.append)
    designer.dry_run(put("hull.loa", 60))
    designer.validate(put("hull.loa", 60))
    assert heard == []


def test_a_failing_subscriber_is_recorded_and_others_are_notified(designer, dispatcher):
    heard: list[Any] = []

    def broken(event):
        raise RuntimeError("no ears")

    subscription = dispatcher.subscribe(KernelEventType.STATE_MUTATED, broken)
    dispatcher.subscribe(KernelEventType.STATE_MUTATED, heard.append)
    assert designer.execute(put("hull.loa", 60)).success
    [failure] = dispatcher.failures
    assert failure.subscription is subscription
    assert failure.event == heard[0]
    assert str(failure.error) == "no ears"


def test_unsubscribing_inside_a_handler_is_safe(designer, dispatcher):
    heard: list[Any] = []

    def once(event):
        heard.append("first")
        dispatcher.unsubscribe(first)
        dispatcher.unsubscribe(second)
        dispatcher.unsubscribe(first)

    first = dispatcher.subscribe(StateMutatedEvent, once)
    second = dispatcher.subscribe(StateMutatedEvent, lambda event: heard.append("second"))
    dispatcher.subscribe(StateMutatedEvent, lambda event: heard.append("third"))
    designer.execute(put("hull.loa", 60))
    designer.execute(put("hull.loa", 61))
    assert heard == ["first", "third", "third"]


def test_events_caused_by_a_handler_are_delivered_after_it(designer, dispatcher):
    heard: list[Any] = []

    def answer(event):
        if event.path == "hull.loa":
            designer.execute(put("hull.beam", 9))

    dispatcher.subscribe(StateMutatedEvent, answer)
    dispatcher.subscribe(StateMutatedEvent, lambda event: heard.append(event.path))
    designer.execute(put("hull.loa", 60))
    assert heard == ["hull.loa", "hull.beam"]


async def test_async_subscribers_are_awaited_by_the_host_in_order(designer, dispatcher):
    heard: list[Any] = []

    async def listen(event):
        heard.append(event.new_value)

    dispatcher.subscribe(StateMutatedEvent, listen)
    designer.execute(put("hull.loa", 60))
    designer.execute(put("hull.loa", 61))
    assert heard == []
    for waiting in dispatcher.take_pending():
        await waiting
    assert heard == [60.0, 61.0]
    assert dispatcher.take_pending() == []


def test_pending_async_subscribers_are_bounded(designer, dispatcher, monkeypatch):
    monkeypatch.setattr(dispatching, "PENDING_MAX", 1)

    async def listen(event):
        pass

    dispatcher.subscribe(StateMutatedEvent, listen)
    for value in (60, 61):
        designer.execute(put("hull.loa", value))
    [failure] = dispatcher.failures
    assert "take and await" in str(failure.error)
    for waiting in dispatcher.take_pending():
        waiting.close()


def test_a_dispatcher_without_a_manager_delivers_given_events(designer):
    heard: list[Any] = []
    dispatcher = EventDispatcher()
    dispatcher.subscribe(None, heard.append)
    designer.execute(put("hull.loa", 60))
    for record in designer.manager.events():
        for event in project(record):
            dispatcher.dispatch(event)
    assert "state.mutated" in types(heard)
    assert dispatcher.events() == []
    assert project(Event(1, 1, "tick", 0.0, {})) == []


# the audit


def test_the_audit_joins_intent_plan_actions_and_seqs(designer):
    intent = Intent("intent", "design", "100 ft long", IntentType.REFINE, 0.9, "2026-11-22")
    plan = designer.plan(put("hull.loa", 100, "ft"), more("hull.loa", 1), plan_id="p1")
    designer.executor.execute(plan, intent=intent)
    [entry] = audit(designer.manager.events())
    assert (entry.plan_id, entry.intent_id, entry.actor) == ("p1", "intent", "planner")
    assert entry.intent is not None
    assert entry.intent["raw_text"] == "100 ft long"
    assert entry.proposed_at == "2026-11-22T02:00:00Z"
    assert (entry.admitted, entry.design_version_before, entry.design_version_after) == (True, 0, 1)
    seq = designer.manager.kernel.seq
    assert [action.seq for action in entry.actions] == [seq - 1, seq]
    first = entry.actions[0]
    assert first.raw == {"path": "hull.loa", "value": 100, "unit": "ft"}
    assert first.normalized == {"path": "hull.loa", "value": pytest.approx(30.48), "unit": "m"}
    assert first.warnings == ["hull.loa converted from ft to m"]
    assert entry.as_dict()["actions"][0]["action_type"] == "set"


def test_refused_plans_are_in_the_audit_raw_and_normalized(designer):
    clock = [12.0]
    designer = Designer(StateManager(now=lambda: clock[0]))
    designer.codes(
        put("propulsion.total_installed_power_kw", 2, "MW"),
        put("hull.lao", 60),
        more("mission.range_nm", 1, "km"),
        lock("hull.beam"),
        put("hull.loa", "x"),
    )
    [entry] = audit(designer.manager.events())
    assert (entry.admitted, entry.actor, entry.sim_time) == (False, "planner", 12.0)
    assert entry.design_version_after == entry.design_version_before == 0
    assert [action.seq for action in entry.actions] == [None] * 5
    assert [action.normalized for action in entry.actions] == [
        {"path": "propulsion.total_installed_power_kw", "value": 2000.0, "unit": "kW"},
        None,
        {"path": "mission.range_nm", "amount": pytest.approx(1 / 1.852), "unit": "nm"},
        {"path": "hull.beam"},
        None,
    ]
    assert [[r["code"] for r in action.rejections] for action in entry.actions] == [
        [], ["not_refinable"], ["delta_on_unset"], [], ["not_a_number"],
    ]  # fmt: skip


def test_unparsable_plans_are_in_the_audit(designer):
    manager = designer.manager
    designer.execute(put("hull.loa", 60))
    manager.undo()
    manager.redo()
    with pytest.raises(ValidationError):
        manager.redo()
    manager.set("hull.loa", 61)
    manager.commit()
    manager.propose([("design.run_phases", {"phases": ["hull"]})])
    entries = list(audit(manager.events()))
    assert [[action.action_type for action in entry.actions] for entry in entries] == [
        ["set"], ["undo"], ["redo"], ["redo"], ["set"], ["run_phases"],
    ]  # fmt: skip
    assert [entry.plan_id for entry in entries][1:] == [None] * 5
    assert [entry.actor for entry in entries] == ["planner", *["host"] * 5]
    versions = [(entry.design_version_before, entry.design_version_after) for entry in entries]
    assert versions == [(0, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 4)]
    refused = entries[3]
    assert not refused.admitted
    assert refused.actions[0].rejections[0]["code"] == "nothing_to_redo"
    assert refused.req_id.startswith("host:")
    decided = [event for event in manager.events() if event.type in {"batch", "refused"}]
    [undone, *_, ran] = audit(decided[1:])
    assert (undone.design_version_before, undone.design_version_after) == (1, 2)
    assert ran.design_version_after == 4
    [ran] = audit(decided[-1:])
    assert (ran.design_version_before, ran.design_version_after) == (None, None)


def test_stale_and_invalid_plans_are_in_the_audit(designer):
    designer.execute(put("hull.loa", 60))
    designer.codes(put("hull.lwl", 70))
    with pytest.raises(Exception, match="stale"):
        designer.execute(put("hull.loa", 61), version=0)
    entries = list(audit(designer.manager.events()))
    assert [entry.admitted for entry in entries] == [True, False, False]
    assert entries[1].rejections[0]["code"] == "invariant_violated"
    assert entries[2].rejections[0]["code"] == "stale_plan"
