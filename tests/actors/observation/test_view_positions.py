"""Positions in views: near, at and ids equal a search of everything that the agent may see."""

from collections.abc import Iterator
from math import dist, floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.actors.observation import cut_indexes, viewer
from placet.actors.observation.cut_indexes import CutIndexes
from placet.actors.observation.viewer import Viewer
from placet.domains.memory import Memory
from placet.domains.world import World
from placet.kernel import Domain, Kernel
from placet.kernel.plugin.domain import Kind
from placet.kernel.state.collection import Entity
from placet.kernel.state.tree import State
from placet.kernel.visibility.policy import Visibility
from placet.kernel.visibility.positions import PositionGrid, point_of
from placet.schemas.identity import Ref
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.view import View

SIGHTS: list[dict[str, Any] | None] = [
    None,
    {"distance": 3.0},
    {"team": True},
    {"any_of": [{"distance": 1.0}, {"team": True}]},
    {"any_of": [{"distance": 2.0, "hidden_fields": ["position"]}, {"known": "friends"}]},
    {"distance": 4.0, "hidden_fields": ["position", "inventory"]},
]
NAMES = ("ann", "bob", "cid", "dot")
PLACES = st.sampled_from([-6.0, -1.0, -0.5, 0.0, 0.99, 1.0, 2.0, 3.0, 5.0, 400.0])
POINTS = st.tuples(PLACES, PLACES)
MOVES = st.tuples(st.just("Move"), st.sampled_from(NAMES), POINTS)
TAKES = st.tuples(st.sampled_from(["pickup", "drop"]), st.sampled_from(NAMES), st.just("lamp"))
LIVES = st.tuples(st.sampled_from(["leave", "join", "say", "look"]), st.sampled_from(NAMES), POINTS)
QUERIES = st.tuples(POINTS, st.sampled_from([0.0, 0.5, 1.0, 3.0, 5.0, 1e-9, 1e9]))
Steps = list[tuple[str, str, Any]]
Query = tuple[tuple[float, float], float]


def intent_of(kernel: Kernel, agent_id: str, req_id: str, kind: str, payload: Any) -> Any:
    return {
        "kind": kind,
        "payload": payload,
        "agent_id": agent_id,
        "req_id": req_id,
        "context_seq": kernel.seq,
        "priority": 1,
        "schema_version": SCHEMA_VERSION,
    }


class Life:
    """A world with a viewer, and the views that were taken, each with a copy of its state."""

    def __init__(self, sight: dict[str, Any] | None) -> None:
        # Enough cells are occupied that a search of a few cells is not one of everything.
        things = {f"rock{n}": {"position": [1_000 * n - 6, 0]} for n in range(40)}
        things["lamp"] = {"position": [1, 0]}
        self.kernel = Kernel(World(objects=things, observation=sight))
        self.viewer = Viewer(self.kernel)
        self.count = 0
        self.seen: list[tuple[View, State]] = []
        for name in NAMES:
            self.take("join", name, (0.0, 0.0))

    def take(self, what: str, name: str, value: Any) -> None:
        self.count += 1
        is_there = name in self.kernel.ledger.agents
        match what:
            case "join" if not is_there:
                team = "red" if name < "c" else None
                self.kernel.register_agent(name, position=list(value), team=team)
            case "leave" if is_there:
                self.kernel.change_agent(name, "removed")
            case "Move":
                self.propose(name, "Move", to=list(value))
            case "say":
                self.propose(name, "Speak", text="hello")
            case "pickup" | "drop":
                self.propose(name, "Interact", target_id=value, interaction_type=what)
            case "look" if is_there:
                view = self.viewer.view(self.kernel, name)
                self.seen.append((view, State.load(self.kernel.tree.dump())))

    def propose(self, name: str, kind: str, **payload: Any) -> None:
        self.kernel.decide([intent_of(self.kernel, name, f"r{self.count}", kind, payload)])

    def check(self, view: View, state: State, query: Query) -> None:
        center, radius = query
        may_see = self.kernel.registry.may_see
        for name, rows in state.collections.items():
            shown = [e for e in rows.entities if may_see(state, view.agent_id, Ref(name, e))]
            assert view.ids(name) == tuple(sorted(shown))
        points = dict(positions(view))
        assert view.near(center, radius) == sorted(
            ref for ref, point in points.items() if dist((*center, 0.0), point) <= radius
        )
        assert view.at(center) == sorted(
            ref for ref, p in points.items() if [*map(floor, p)] == [*map(floor, center), 0]
        )


def positions(view: View) -> Iterator[tuple[Ref, tuple[float, ...]]]:
    """Search everything that the agent sees."""
    for collection, entities in view.state.items():
        for entity, fields in entities.items():
            if fields.get("position") is not None:
                yield Ref(collection, entity), fields["position"]


def live(sight: dict[str, Any] | None, steps: Steps, query: Query) -> None:
    """Check each view when it is taken, and all again at the end, when the indexes are ahead."""
    life = Life(sight)
    for step in [*steps, *(("look", name, None) for name in NAMES)]:
        count = len(life.seen)
        life.take(*step)
        for seen in life.seen[count:]:
            life.check(*seen, query)
    for seen in life.seen:
        life.check(*seen, query)


@given(st.sampled_from(SIGHTS), st.lists(st.one_of(MOVES, TAKES, LIVES), max_size=30), QUERIES)
def test_the_indexes_find_what_a_search_of_the_visible_state_finds(sight, steps, query):
    live(sight, steps, query)


STORY: Steps = [
    ("join", "ann", (0.0, 0.0)),
    ("look", "ann", None),
    ("Move", "bob", (400.0, 0.0)),
    ("look", "ann", None),
    ("pickup", "ann", "lamp"),
    ("look", "cid", None),
    ("Move", "ann", (3.0, 3.0)),
    ("say", "ann", None),
]


@pytest.mark.parametrize(
    "fault",
    [
        "older views ignore what changed",
        "changes are missed",
        "a box has no edge",
        "hidden is near",
    ],
)
def test_the_law_finds_a_planted_fault(monkeypatch, fault):
    def run() -> None:
        for sight in SIGHTS:
            live(sight, STORY, ((-6.0, 0.0), 6.0))

    run()
    match fault:
        case "older views ignore what changed":
            follow = CutIndexes._follow
            monkeypatch.setattr(CutIndexes, "_follow", lambda *args: follow(*args) and [])
        case "changes are missed":
            monkeypatch.setattr(cut_indexes, "_changed_in", lambda cut: [])
        case "a box has no edge":
            in_box = PositionGrid.in_box
            monkeypatch.setattr(
                PositionGrid, "in_box", lambda grid, low, high: in_box(grid, low, low)
            )
        case _:
            monkeypatch.setattr(viewer._SeenState, "_is_position_shown", lambda *args: True)
    with pytest.raises(AssertionError):
        run()


# what it costs


def crowd(count: int, sight: dict[str, Any] | None = None) -> tuple[Kernel, Viewer]:
    """Put objects on a line, one a unit, and an agent at the beginning."""
    things = {f"o{number}": {"position": [number, 0]} for number in range(count)}
    kernel = Kernel(World(objects=things, observation=sight))
    kernel.register_agent("ann", position=[0, 0])
    return kernel, Viewer(kernel)


@pytest.mark.parametrize("sight", [None, {"distance": 2.0}])
def test_a_search_reads_the_entities_around(monkeypatch, sight):
    counts = []
    for size in (100, 1_000):
        kernel, viewer = crowd(size, sight)
        view = viewer.view(kernel, "ann")
        assert len(view.near([50, 0], 3)) == (0 if sight else 7)  # the indexes are built here
        assert len(view.at([50, 0])) == (0 if sight else 1)
        objects = view.state["world.objects"]
        assert (objects.get("ghost"), "ghost" in objects) == (None, False)
        assert objects.get("o1") == objects["o1"]
        assert len(view.ids("world.objects")) == (3 if sight else size)
        read: list[object] = []
        monkeypatch.setattr(State, "get", _counted(read, State.get))
        monkeypatch.setattr(State, "exists", _counted(read, State.exists))
        view.near([50, 0], 3)
        view.at([50, 0])
        view.near([1, 0], 0)
        view.ids("world.objects")
        monkeypatch.undo()
        counts.append(len(read))
    assert counts[0] == counts[1] < 60


def test_an_index_follows_the_cuts_by_what_changed(monkeypatch):
    kernel, viewer = crowd(1_000)
    viewer.view(kernel, "ann").near([0, 0], 3)
    updated: list[Ref] = []
    update = PositionGrid.update

    def counted(grid: PositionGrid, state: State, refs: Any) -> None:
        refs = list(refs)
        updated.extend(refs)
        update(grid, state, refs)

    monkeypatch.setattr(PositionGrid, "update", counted)
    for number in range(5):
        intent = intent_of(kernel, "ann", f"r{number}", "Move", {"to": [number, 1]})
        assert kernel.decide([intent]).admitted
        view = viewer.view(kernel, "ann")
        assert Ref("world.agents", "ann") in view.near([number, 1], 3)
    assert updated == [Ref("world.agents", "ann")] * 5


def test_the_history_of_cuts_is_bounded(monkeypatch):
    monkeypatch.setattr(cut_indexes, "_HISTORY_CUTS_MAX", 4)
    life = Life({"distance": 3.0})
    life.take("look", "ann", None)
    life.seen[0][0].near([0, 0], 1)
    for number in range(10):
        life.take("Move", "bob", (float(number), 0.0))
        life.take("look", "bob", None)
    indexes = life.viewer._cut.indexes
    assert len(indexes._history) == 4
    assert indexes._history_refs == 4
    for seen in life.seen:  # the oldest are searched as a whole
        life.check(*seen, ((0.0, 0.0), 2.0))


def test_a_grid_holds_entities_of_collections_with_positions():
    state = State()
    for collection in ("sea.men", "sea.songs"):
        state.collection(collection).entities["al"] = Entity({"position": (1.0, 2.0)})
    grid = PositionGrid(1.0, {"sea.men": "position"}.get)
    al = Ref("sea.men", "al")
    grid.update(state, [al, Ref("sea.songs", "al"), Ref("sea.men")])
    point = (1.0, 2.0, 0.0)
    assert grid.in_box(point, point) == [(al, point)]


def test_few_grids_are_kept():
    kernel, viewer = crowd(10)
    view = viewer.view(kernel, "ann")
    for power in range(40):
        assert Ref("world.agents", "ann") in view.near([0, 0], 2.0**power)
    assert len(viewer._cut.indexes._grids) == 8


def _counted(calls: list[object], call: Any) -> Any:
    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return call(*arguments)

    return counted


# limits


def test_a_restored_world_is_seen_anew():
    life = Life({"distance": 3.0})
    saved = life.kernel.snapshot()
    life.take("Move", "bob", (400.0, 0.0))
    life.take("look", "ann", None)
    life.seen[0][0].near([0, 0], 1)
    life.kernel.restore(saved)
    life.take("look", "ann", None)
    for seen in life.seen:
        life.check(*seen, ((0.0, 0.0), 1.0))
    assert Ref("world.agents", "bob") in life.seen[1][0].near([0, 0], 1)


def test_two_viewers_of_one_world_are_independent():
    life = Life({"distance": 3.0})
    other = Viewer(life.kernel)
    life.take("look", "ann", None)
    life.seen[0][0].near([0, 0], 1)
    life.take("Move", "bob", (2.0, 0.0))
    other.view(life.kernel, "ann")  # its cut takes what changed
    life.take("Move", "cid", (2.0, 0.0))
    life.take("look", "ann", None)
    life.check(*life.seen[1], ((2.0, 0.0), 0.0))


@pytest.mark.parametrize(
    "position", [[], [1, 2, 3, 4], ["1", 0], [True, 0], "12", None, 3, [10**400]]
)
def test_a_position_that_is_none_is_refused(position):
    kernel, viewer = crowd(1)
    view = viewer.view(kernel, "ann")
    with pytest.raises(ValueError, match="position must be one to three finite numbers, got"):
        view.near(position, 1)
    with pytest.raises(ValueError, match="cell must be one to three finite numbers, got"):
        view.at(position)
    assert point_of(position) is None


@pytest.mark.parametrize("radius", [-1, float("nan"), float("inf"), "1", True, None])
def test_a_radius_that_is_none_is_refused(radius):
    kernel, viewer = crowd(1)
    with pytest.raises(ValueError, match="radius must be a finite number of at least 0, got"):
        viewer.view(kernel, "ann").near([0, 0], radius)


def test_a_world_without_positions_says_what_it_needs():
    kernel = Kernel(Memory())
    kernel.register_agent("ann")
    view = Viewer(kernel).view(kernel, "ann")
    for ask in (lambda: view.near([0, 0], 1), lambda: view.at([0, 0])):
        with pytest.raises(ValueError, match=r"no domain of this world \('memory'\) has positions"):
            ask()
    assert view.ids("memory.facts") == ()
    with pytest.raises(ValueError, match="this view was made by hand"):
        View(0, 0.0, "ann", {}).near([0, 0], 1)


class Everything(Visibility):
    hides: frozenset[str] | None = frozenset()
    position_field: str | None = "cell"


class Board(Domain):
    name, version = "board", "1"
    kinds = (Kind("Wait", dict[str, int], lambda draft, intent: None),)
    sight = Everything()

    def on_open(self, draft):
        for name, cell in {"pawn": [3, 4], "king": [3, 4.5], "rook": "a1", "odd": [1] * 4}.items():
            draft.create("board.men", name, {"cell": cell})
        draft.create("loose", "die", {"cell": [3, 4]})


def test_a_domain_names_the_field_of_its_positions():
    kernel = Kernel([Memory(), Board()])
    kernel.register_agent("ann")
    view = Viewer(kernel).view(kernel, "ann")
    pawn, king, die = Ref("board.men", "pawn"), Ref("board.men", "king"), Ref("loose", "die")
    assert view.near([3, 4], 0) == [pawn]  # `loose` is also judged by the memory, which hides it
    assert view.at([3, 4]) == view.at([3.9, 4.2]) == view.near([3, 4, 0], 0.5) == [king, pawn]
    kernel = Kernel([Board()])
    kernel.register_agent("ann")
    assert Viewer(kernel).view(kernel, "ann").near([3, 4], 0) == [pawn, die]
