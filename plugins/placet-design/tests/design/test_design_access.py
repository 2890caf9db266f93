"""Access to a design in the domain itself: at the gate, in views, and in what is observed."""

import pytest
from tests.design.designer import put

from placet import Orchestrator, OrchestratorConfig
from placet.kernel import Kernel
from placet.kernel.log.replay import folded
from placet.schemas.identity import OPERATOR
from placet_design import (
    Action,
    ActionExecutor,
    ActionPlan,
    ActionType,
    Design,
    StateManager,
    batch_of,
)
from placet_design.payloads import ABOUT, ACCESS, ACCESS_NAMES_MAX, DESIGN

NAMED = {"owner": "ann", "editors": ["ed"], "readers": ["rita"]}


class Ship:
    """A design in a kernel, with its log; `host` is an operator."""

    def __init__(self, access=NAMED, *, agents=("ann", "ed", "rita", "mallory")):
        self.records: list[bytes] = []
        self.kernel = Kernel(Design(design_id="ship"), sink=self.records.append)
        self.kernel.register_agent("host", role="operator")
        for name in agents:
            self.kernel.register_agent(name)
        if access is not None:
            assert self.set_access("host", access).admitted

    def act(self, agent_id, kind, **payload):
        return self.kernel.decide([self.kernel.intent(kind, agent=agent_id, **payload)])

    def set_access(self, agent_id, access):
        return self.act(agent_id, "design.set_access", **access)


@pytest.mark.parametrize(
    ("agent_id", "codes"),
    [
        ("host", ()),
        ("ann", ()),
        ("ed", ()),
        ("rita", ("design.read_only",)),
        ("mallory", ("design.no_access",)),
    ],
)
def test_each_kind_of_a_design_is_refused_to_agents_that_may_not_write(agent_id, codes):
    payloads: dict[str, dict[str, object]] = {
        "design.plan": {
            "plan_id": "p",
            "intent_id": "i",
            "design_id": "ship",
            "design_version_before": 0,
        },
        "design.intent": {
            "intent_id": "i",
            "design_id": "ship",
            "raw_text": "t",
            "intent_type": "refine",
            "confidence": 1.0,
        },
        "design.set": {"path": "hull.loa", "value": 60.0},
        "design.increase": {"path": "hull.loa", "amount": 1.0},
        "design.decrease": {"path": "hull.loa", "amount": 1.0},
        "design.lock": {"path": "hull.loa"},
        "design.unlock": {"path": "hull.loa"},
        "design.run_phases": {},
        "design.export": {"format": "json"},
        "design.request_clarification": {"message": "what?"},
        "design.noop": {},
        "design.create": {"design_id": "other"},
        "design.undo": {},
        "design.redo": {},
        "design.assume": {"path": "no.path", "value": 1.0},
        "design.transition": {"phase": "hull", "to": "skipped", "source": "hand"},
    }
    kinds = {kind.name for kind in Design().kinds} - {"design.set_access"}
    assert set(payloads) == kinds, "a new kind is added here too"
    for kind, payload in payloads.items():
        ship = Ship()
        for name in ("design.run_phases", "design.export"):
            ship.kernel.change_executor(name, 8)
        met = ship.act(agent_id, kind, **payload).codes
        if codes:
            assert met == codes, kind
        else:
            assert not {"design.read_only", "design.no_access"} & set(met), kind


def test_a_refusal_without_access_does_not_depend_on_the_design():
    quiet, moved = Ship(), Ship()
    moved.act("ann", "design.lock", path="hull.loa", reason="secret")
    moved.act("ann", "design.set", path="hull.beam", value=9.0)
    for kind, payload in (
        ("design.set", {"path": "hull.loa", "value": 60.0}),
        ("design.unlock", {"path": "hull.loa"}),
        ("design.undo", {}),
        ("design.create", {"design_id": "x"}),
    ):
        answers = [ship.act("mallory", kind, **payload).refusals[0] for ship in (quiet, moved)]
        assert answers[0] == answers[1]
        assert "ann" not in answers[0].message


@pytest.mark.parametrize(
    ("agent_id", "code"),
    [
        ("ann", None),
        ("host", None),
        ("ed", "design.not_owner"),
        ("rita", "design.not_owner"),
        ("mallory", "design.no_access"),
    ],
)
def test_the_owner_and_operators_set_the_access(agent_id, code):
    ship = Ship()
    before = ship.kernel.digest()
    verdict = ship.set_access(agent_id, {"owner": agent_id, "editors": [], "readers": []})
    assert verdict.codes == (() if code is None else (code,))
    assert (ship.kernel.digest() == before) == (code is not None)


def test_without_a_record_registered_agents_write_and_operators_set_the_access():
    ship = Ship(access=None)
    assert not ship.kernel.tree.exists(ACCESS, DESIGN)
    assert ship.act("mallory", "design.set", path="hull.loa", value=60.0).admitted
    assert ship.set_access("mallory", NAMED).codes == ("design.not_owner",)
    assert ship.set_access("host", {**NAMED, "owner": OPERATOR}).admitted
    assert ship.act("ed", "design.noop").admitted
    assert ship.act("mallory", "design.noop").codes == ("design.no_access",)


def test_an_owner_that_gives_a_design_away_has_lost_it():
    ship = Ship()
    assert ship.set_access("ann", {"owner": "ed", "editors": [], "readers": []}).admitted
    assert ship.set_access("ann", NAMED).codes == ("design.no_access",)
    assert ship.set_access("ed", {"owner": "ed", "editors": ["ann"], "readers": []}).admitted


def test_names_are_sorted_and_unique_and_may_be_of_unregistered_agents():
    ship = Ship()
    assert ship.set_access(
        "ann", {"owner": "ann", "editors": ["zoe", "bea", "zoe"], "readers": ["ed"]}
    ).admitted
    assert ship.kernel.tree.entity(ACCESS, DESIGN) == {
        "owner": "ann",
        "editors": ("bea", "zoe"),
        "readers": ("ed",),
    }
    again = ship.set_access("ann", {"owner": "ann", "editors": ["zoe", "bea"], "readers": ["ed"]})
    assert [warning.code for warning in again.results[0].warnings] == ["no_op"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"owner": ""}, "payload_invalid"),
        ({"owner": "a\nb"}, "design.name_invalid"),
        ({"owner": "system"}, "design.name_invalid"),
        ({"editors": ["operator"]}, "design.name_invalid"),
        ({"readers": ["\x9b31m"]}, "design.name_invalid"),
        ({"readers": ["x" * 129]}, "payload_invalid"),
        ({"editors": [f"e{n}" for n in range(ACCESS_NAMES_MAX + 1)]}, "payload_invalid"),
        ({"editors": "ed"}, "payload_invalid"),
        ({"role": "x"}, "payload_invalid"),
    ],
)
def test_names_that_no_agent_can_have_are_refused(change, code):
    ship = Ship()
    assert ship.set_access("ann", {**NAMED, **change}).codes[0] == code


def test_access_is_no_commit_of_the_design_and_no_undo_restores_it():
    ship = Ship()
    ship.act("ann", "design.set", path="hull.loa", value=60.0)
    ship.set_access("ann", {"owner": "ann", "editors": [], "readers": []})
    assert ship.kernel.tree.get(ABOUT, DESIGN, "version") == 1
    assert ship.act("ann", "design.undo").admitted
    assert ship.act("ed", "design.noop").codes == ("design.no_access",)


def test_the_access_is_kept_by_a_replay_of_the_log():
    ship = Ship()
    past = folded(ship.records)
    assert past.state.digest() == ship.kernel.tree.digest()
    assert past.state.get(ACCESS, DESIGN, "editors") == ("ed",)


async def test_a_view_is_empty_for_an_agent_that_may_not_read():
    async with Orchestrator(Design(design_id="ship")) as world:
        host = await world.register_agent("host", role="operator")
        handles = {name: await world.register_agent(name) for name in ("ann", "rita", "mallory")}
        assert (await handles["mallory"].refresh_view()).state["design.about"]
        await host.submit([host.intent("design.set_access", **NAMED)])
        for name, handle in handles.items():
            view = await handle.refresh_view()
            assert bool(view.state) == (name != "mallory")
            assert bool(view.ids("design.parameters")) == (name != "mallory")
        await handles["mallory"].refresh_view()
        change = batch_of(
            ActionPlan("p", "i", "ship", [put("hull.loa", 60)], 0), "mallory", context_seq=0
        )
        refused = await handles["mallory"].submit(change)
        assert set(refused.codes) == {"design.no_access"}
        assert not any(refusal.changed for refusal in refused.refusals)


async def test_an_observer_loses_a_design_and_gets_it_back_with_its_access():
    async with Orchestrator(Design(design_id="ship"), OrchestratorConfig()) as world:
        host = await world.register_agent("host", role="operator")
        ed = await world.register_agent("ed")
        async with ed.observer() as observer:
            assert "design.parameters/hull.loa" in _changed(await observer.next())
            closed = {"owner": "ann", "editors": [], "readers": []}
            await host.submit([host.intent("design.set_access", **closed)])
            lost = _changed(await observer.next())
            assert {"design.parameters/hull.loa", "design.about/design"} <= set(lost)
            assert set(lost.values()) == {None}
            await host.submit([host.intent("design.set", path="hull.loa", value=61.0)])
            await host.submit([host.intent("design.set_access", **NAMED)])
            back = _changed(await observer.next())
            assert back["design.parameters/hull.loa"] == {"value": 61.0}


def _changed(observation):
    return {change.entity: change.fields for change in observation.changes}


def test_actions_of_readers_are_rejected_with_the_reason():
    manager = StateManager(design_id="ship")
    manager.propose([("design.set_access", {"owner": "ann", "editors": [], "readers": ["rita"]})])
    result = ActionExecutor(manager, agent_id="rita").execute(
        Action(ActionType.SET, "hull.loa", value=60.0)
    )
    assert not result.success
    assert result.rejections[0].code == "read_only"
