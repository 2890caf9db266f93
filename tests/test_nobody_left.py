"""A collection that has been, or that a domain declares, is empty for every reader; no error."""

import asyncio
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet import Log, Orchestrator, OrchestratorConfig, Simulation
from placet.actors.observation.viewer import Viewer, _SeenState
from placet.kernel import Domain, Kernel, Kind, refuse
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import resume, take
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import NO_ENTITIES, WorldState
from placet.schemas.errors import DomainError
from placet.server.viewpoint import Viewpoint
from placet.sweeps.outcome import decided
from placet.tables.collector import Collector
from placet.testing.noninterference_property import noninterference_breach
from placet.testing.trace import Join, Proposal, Propose, TraceRunner

PREY, EGGS, DENS, SECRET = "zoo.prey", "zoo.eggs", "zoo.dens", "zoo.secret"


class Where(TypedDict):
    collection: str
    name: str
    refused: bool


def make(draft, intent):
    place = intent["payload"]["collection"], intent["payload"]["name"]
    if draft.exists(*place):
        draft.delete(*place)
    else:
        draft.create(*place, {"age": 1})
    return refuse("unwell", "the rule refuses") if intent["payload"]["refused"] else None


class Zoo(Domain):
    """`zoo.secret` is hidden from everybody, and declared by nothing."""

    name, version, kinds = "zoo", "1", [Kind("Make", Where, make)]
    collections = (EGGS,)

    def on_open(self, draft):
        draft.create(PREY, "p0", {"age": 0})

    def may_see(self, state, agent_id, ref):
        return ref.collection != SECRET


def eat(view, intent):
    return [intent("Make", collection=PREY, name=name, refused=False) for name in view.state[PREY]]


def sizes(state):
    return [len(state[PREY]), len(state[EGGS])]


def is_empty(state):
    return sizes(state) == [0, 0]


def extinct(store="memory://", **options):
    simulation = Simulation(Zoo(), agents={"h": (1, eat)}, store=store, **options)
    simulation.run(ticks=3)
    return simulation


def read_orchestrator(simulation, tmp_path):
    async def read():
        config = OrchestratorConfig(store=simulation.store, world="simulation", clock="stepped")
        async with Orchestrator(Zoo(), config) as world:
            return [await world.state(PREY), await world.state(EGGS)]

    simulation.close()
    return list(map(len, asyncio.run(read())))


def read_log(simulation, tmp_path):
    """Only what has been is known to a log: it has no domain."""
    simulation.close()
    past = Log(simulation.store).at(tick=3).state
    with pytest.raises(KeyError, match=r"no collection 'zoo\.eggs'; there are zoo\.prey"):
        past[EGGS]
    return [len(past[PREY]), 0]


def read_collected(simulation, tmp_path):
    collector = Collector(world={"sizes": sizes})
    extinct(collector=collector)
    return collector.tables()["world"].to_pandas()["sizes"].tolist()[-1].tolist()


READERS = {
    "view": lambda simulation, _: sizes(simulation.view("h_1").state),
    "kernel": lambda simulation, _: sizes(simulation.kernel.state),
    "orchestrator": read_orchestrator,
    "log": read_log,
    "collector": read_collected,
    "operator over HTTP": lambda simulation, _: [
        len(Viewpoint("operator", None).state(simulation.kernel, path)) for path in (PREY, EGGS)
    ],
    "agent over HTTP": lambda simulation, _: [
        len(Viewpoint("h_1", "h_1").state(simulation.kernel, path)) for path in (PREY, EGGS)
    ],
    "outcome": lambda simulation, _: sizes(simulation.state),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_finds_an_empty_collection_after_an_extinction(reader, tmp_path):
    simulation = extinct(f"sqlite:///{tmp_path}/zoo.db")
    assert READERS[reader](simulation, tmp_path) == [0, 0]


def test_a_name_that_was_never_heard_of_still_raises_with_the_nearest():
    simulation = extinct()
    for state in (
        simulation.state,
        simulation.view("h_1").state,
        simulation.state,
    ):
        with pytest.raises(KeyError, match=r"'zoo\.pray'; did you mean 'zoo\.prey'"):
            state["zoo.pray"]
        assert "zoo.pray" not in state
    for seen_by in (None, "h_1"):
        with pytest.raises(KeyError, match=r"nothing at 'zoo\.pray'"):
            Viewpoint("operator", seen_by).state(simulation.kernel, "zoo.pray")
    assert decided(is_empty, simulation.state)


def test_an_empty_collection_is_not_iterated_over():
    simulation = extinct()
    state = simulation.state
    assert (list(state), len(state), list(state.known())) == ([], 0, [EGGS, PREY])
    assert (PREY in state, state.get(PREY)) == (True, {})
    assert repr(state) == "<WorldState of no entities>"


STEPS = st.lists(
    st.tuples(st.sampled_from([PREY, DENS, SECRET]), st.sampled_from(["a", "b"]), st.booleans()),
    max_size=12,
)


@given(STEPS)
def test_the_known_collections_are_a_function_of_the_log(steps):
    """Live, in a view, replayed, from a snapshot and restored; a refused batch makes none known."""
    log: list[bytes] = []
    kernel = Kernel(Zoo(), sink=log.append)
    kernel.register_agent("ann")
    viewer, been = Viewer(kernel), {PREY}
    for collection, name, refused in steps:
        payload = {"collection": collection, "name": name, "refused": refused}
        kernel.decide([kernel.intent("Make", payload, agent="ann")])
        been |= set() if refused else {collection}
        known = sorted({*been, EGGS})
        assert list(kernel.state.known()) == known
        past = folded(log)
        for state in (past.state, resume(take(past)).state, kernel.tree.cut()):
            assert list(WorldState(state, {EGGS}).known()) == known
        view = viewer.view(kernel, "ann").state
        dens = kernel.tree.count(DENS)  # the domain may hide it, and declares it nowhere
        shown = [DENS, EGGS, PREY] if dens else [EGGS, PREY]
        assert [name for name in (DENS, EGGS, PREY, SECRET) if name in view] == shown


class Hide(TypedDict):
    name: Literal["a", "b"]


def hide(draft, intent):
    place = (f"cellar.{intent['agent_id']}", intent["agent_id"])
    return draft.delete(*place) if draft.exists(*place) else draft.create(*place)


class Cellar(Domain):
    """Agents see their own box alone; the domain names its collection nowhere."""

    name, version, kinds = "cellar", "1", [Kind("Hide", Hide, hide)]

    def may_see(self, state, agent_id, ref):
        return ref.entity == agent_id


def test_whether_a_hidden_collection_has_been_is_not_disclosed(monkeypatch):
    """`hidden_changes_alter_no_answer` asks a view for names; it finds one that tells of them."""
    joins = [Join(name, {}) for name in ("ann", "bob", "cyd")]
    hidden = [Propose(0, ((Proposal(name, "Hide", {"name": "a"}),),)) for name in ("bob", "cyd")]
    trace: list[Any] = [*joins, *hidden]
    assert noninterference_breach(TraceRunner(Cellar), trace, Cellar) is None
    seen = _SeenState.__getitem__

    def planted(self, name):
        if name in self._cut.world_state:  # it has been
            with suppress(KeyError):
                return seen(self, name)
            return NO_ENTITIES
        return seen(self, name)

    monkeypatch.setattr(_SeenState, "__getitem__", planted)
    assert "But its view is" in str(noninterference_breach(TraceRunner(Cellar), trace, Cellar))


def test_a_collection_of_hidden_entities_is_as_one_that_never_was_over_http():
    kernel = Kernel(Zoo())
    kernel.register_agent("ann")
    for _ in range(2):
        with pytest.raises(KeyError, match=r"nothing at .*; the collections are \[\]"):
            Viewpoint("ann", "ann").state(kernel, SECRET)
        payload = {"collection": SECRET, "name": "x", "refused": False}
        kernel.decide([kernel.intent("Make", payload, agent="ann")])


@pytest.mark.parametrize("names", ["zoo.prey", 7])
def test_collections_that_are_no_names_are_refused(names):
    class Odd(Zoo):
        collections = names

    with pytest.raises(DomainError, match="`collections` of 'zoo' must be names of collections"):
        Registry([Odd()])
