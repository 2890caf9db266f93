"""Visibility policies: a table of each, compositions, and their indexes."""

from random import Random
from typing import Any

import pytest

from placet.kernel import Domain, Kernel
from placet.kernel.plugin.domain import Kind
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.collection import Entity
from placet.kernel.state.tree import State
from placet.kernel.visibility.distance import WithinDistance
from placet.kernel.visibility.policy import AllOf, AnyOf, Visibility
from placet.kernel.visibility.protocols import VisibilityPolicy
from placet.kernel.visibility.relations import HideFields, KnownOnly, SameTeam
from placet.schemas.identity import Ref

MEN = "sea.men"


def tree(**men: dict[str, Any]) -> State:
    """Put some men, and a rock at the origin and a song that is nowhere."""
    state = State()
    for name, fields in men.items():
        state.collection(MEN).entities[name] = Entity(fields)
    state.collection("sea.rocks").entities["rock"] = Entity({"position": (0.0, 0.0)})
    state.collection("sea.songs").entities["song"] = Entity({"words": "ahoy"})
    return state


def man(x: float = 0.0, y: float = 0.0, team: str | None = None, *knows: str) -> dict[str, Any]:
    return {"position": (x, y), "team": team, "knows": knows, "purse": 3}


ROCK, SONG, BO, CY = (
    Ref("sea.rocks", "rock"),
    Ref("sea.songs", "song"),
    Ref(MEN, "bo"),
    Ref(MEN, "cy"),
)
AL = Ref(MEN, "al")
TREE = tree(al=man(0, 0, "red", "cy"), bo=man(3, 4, "red"), cy=man(9, 0))
NEAR, TEAM, KNOWN = WithinDistance(5.0, MEN), SameTeam(MEN), KnownOnly(MEN, "knows")
HIDING = HideFields(["purse"], MEN)


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        (Visibility(), {AL, BO, CY, ROCK, SONG}),
        (NEAR, {AL, BO, ROCK, SONG}),
        (WithinDistance(4.999, MEN), {AL, ROCK, SONG}),
        (TEAM, {AL, BO}),
        (KNOWN, {AL, CY}),
        (HIDING, {AL, BO, CY, ROCK, SONG}),
        (AllOf(NEAR, TEAM), {AL, BO}),
        (AllOf(NEAR, KNOWN), {AL}),
        (AnyOf(NEAR, KNOWN), {AL, BO, CY, ROCK, SONG}),
        (AnyOf(AllOf(NEAR, TEAM), KNOWN), {AL, BO, CY}),
    ],
)
def test_each_policy_shows_its_entities(policy, seen):
    refs = [AL, BO, CY, ROCK, SONG]
    assert {ref for ref in refs if policy.may_see(TREE, "al", ref)} == seen


def test_an_agent_without_a_position_sees_entities_without_one():
    assert [NEAR.may_see(TREE, "nobody", ref) for ref in (AL, ROCK, SONG)] == [False, False, True]
    assert NEAR.place(TREE, Ref(MEN)) is None


def test_an_agent_without_a_team_shares_no_team():
    state = tree(al=man(), bo=man())
    assert TEAM.may_see(state, "al", AL)
    assert not TEAM.may_see(state, "al", BO)
    assert not TEAM.may_see(state, "al", ROCK)


@pytest.mark.parametrize(
    ("policy", "ref", "hidden"),
    [
        (Visibility(), BO, set()),
        (HIDING, BO, {"purse"}),
        (HIDING, AL, set()),
        (HIDING, ROCK, set()),
        (AllOf(NEAR, HIDING), BO, {"purse"}),
        (AllOf(HIDING, HideFields(["team"], MEN)), BO, {"purse", "team"}),
        (AnyOf(HIDING, HideFields(["team", "purse"], MEN)), BO, {"purse"}),
        (AnyOf(AllOf(NEAR, HIDING), TEAM), BO, set()),
        (AnyOf(AllOf(NEAR, TEAM), HIDING), CY, {"purse"}),
        (AnyOf(TEAM), CY, set()),
    ],
)
def test_a_field_is_hidden_if_every_showing_policy_hides_it(policy, ref, hidden):
    assert set(policy.hidden_fields(TREE, "al", ref)) == hidden


def test_a_composition_unites_the_fields_of_its_parts():
    both = AllOf(NEAR, TEAM)
    assert both.depends_on == frozenset({"position", "team"})
    assert both.indexed_by == frozenset()
    assert AllOf(NEAR, KNOWN).indexed_by == {"position"}
    assert AllOf(NEAR, HiddenBy()).depends_on is None
    assert AnyOf(NEAR, KNOWN).indexed_by == frozenset()
    assert (both.agent_collection, AnyOf(Visibility()).agent_collection) == (MEN, "")
    assert list(AllOf(Visibility(), NEAR).dependents_of(TREE, AL)) == []


class Rocks(Visibility):
    hides: frozenset[str] | None = frozenset({"sea.rocks"})


class RocksAndSongs(Visibility):
    hides: frozenset[str] | None = frozenset({"sea.rocks", "sea.songs"})


class Unnamed:
    """A policy written before `hides`, of which nothing but `depends_on` is read here."""

    agent_collection, depends_on, indexed_by = MEN, frozenset[str](), frozenset[str]()
    is_indexed = hides_fields = False


@pytest.mark.parametrize(
    ("policy", "hides"),
    [
        (AllOf(Rocks(), RocksAndSongs()), {"sea.rocks", "sea.songs"}),
        (AllOf(Rocks(), NEAR), None),
        (AllOf(Rocks(), Unnamed()), None),  # type: ignore[arg-type]
        (AnyOf(Rocks(), RocksAndSongs()), {"sea.rocks"}),
        (AnyOf(Rocks(), NEAR), {"sea.rocks"}),
        (AnyOf(Rocks(), Unnamed()), {"sea.rocks"}),  # type: ignore[arg-type]
        (AnyOf(NEAR, TEAM), None),
        (AllOf(AnyOf(NEAR, Rocks()), RocksAndSongs()), {"sea.rocks", "sea.songs"}),
    ],
)
def test_a_composition_names_what_its_parts_hide(policy, hides):
    assert policy.hides == hides


class HiddenBy(Visibility):
    """Judges by anything."""

    depends_on: frozenset[str] | None = None


def test_invalid_policies_are_refused():
    with pytest.raises(ValueError, match="at least one policy"):
        AnyOf()
    with pytest.raises(ValueError, match="finite distance above 0"):
        WithinDistance(0.0, MEN)


def test_the_first_policy_with_a_distance_decides():
    refs = (AL, BO, CY, ROCK, SONG)
    measured = [AllOf(TEAM, NEAR).distance(TREE, "al", ref) for ref in refs]
    assert measured == [0.0, 5.0, 9.0, 0.0, None]
    assert NEAR.distance(TREE, "nobody", AL) is None
    assert AnyOf(TEAM).distance(TREE, "al", BO) is None


def test_relevance_falls_with_distance():
    some = [AllOf(Visibility(), NEAR).relevance(TREE, "al", ref) for ref in (AL, BO, CY, SONG)]
    assert some == pytest.approx([1.0, 0.5, 1 / (1 + 81 / 25), 1.0])


SIGHTS: list[VisibilityPolicy] = [
    Visibility(),
    NEAR,
    TEAM,
    KNOWN,
    AllOf(NEAR, TEAM),
    AnyOf(NEAR, TEAM),
    AnyOf(NEAR, KNOWN),
    AllOf(AnyOf(NEAR, TEAM), HIDING),
]


@pytest.mark.parametrize("sight", SIGHTS, ids=range(len(SIGHTS)))
@pytest.mark.parametrize("seed", range(3))
def test_an_index_names_every_affected_agent(sight, seed):
    """Men come, go and move, some very far, and some to the edges of cells."""
    random, state, index = Random(seed), tree(), sight.new_index()
    names = [f"m{number}" for number in range(12)]
    rocks = [ROCK, SONG, Ref("sea.rocks", "reef"), Ref("sea.rocks")]
    index.update(state, rocks)
    for _ in range(150):
        name = random.choice(names)
        ref = Ref(MEN, name)
        men = state.collection(MEN).entities
        if name in men and random.random() < 0.2:
            del men[name]
        else:
            x, y = (random.choice([0.0, 5.0, -5.0, 10.0, 3.0, -8.5, 1e300]) for _ in range(2))
            men[name] = Entity(man(x, y, random.choice([None, "red", "blue"]), names[0]))
            if random.random() < 0.2:
                men[name] = Entity({"position": None, "team": None})
        index.update(state, [ref])
        refs = [ROCK, SONG, *(Ref(MEN, other) for other in men)]
        for one in refs:
            named = index.observers_of(one)
            seers = {who for who in men if sight.may_see(state, who, one)}
            assert named is None or seers <= set(named)
        for who in men:
            within = index.candidates_for(who)
            seen = {one for one in refs if sight.may_see(state, who, one)}
            assert within is None or seen <= set(within)
    assert index.observers_of(Ref(MEN, "stranger")) in (None, set())


def test_a_grid_names_only_neighbors():
    """A move concerns who is near, however many there are."""
    state, index = tree(), NEAR.new_index()
    men = {f"m{n}": Entity(man(n * 4.0, 0)) for n in range(1000)}
    state.collection(MEN).entities = men
    index.update(state, [Ref(MEN, name) for name in men])
    assert set(index.observers_of(Ref(MEN, "m500")) or ()) == {"m499", "m500", "m501"}
    assert len(index.candidates_for("m500") or ()) == 3


class Sea(Domain):
    name, version = "sea", "1"
    kinds = (Kind("Wait", dict[str, int], lambda draft, intent: None),)
    sight = AllOf(NEAR, HIDING)


class Fog(Domain):
    """A visibility policy by a given function."""

    name, version, kinds = "fog", "1", ()

    def hidden_fields(self, state, agent_id, ref):
        return ("words",)


def test_a_domain_uses_its_policy():
    kernel = Kernel(Sea())
    registry = kernel.registry
    assert registry.seen(TREE, "al", BO) == {"position": (3, 4), "team": "red", "knows": ()}
    assert registry.seen(TREE, "al", AL) == man(0, 0, "red", "cy")
    assert registry.seen(TREE, "al", CY) is None
    assert registry.seen(TREE, "al", Ref(MEN, "nobody")) is None
    assert registry.seen(TREE, "al", Ref(MEN)) is None
    assert Sea().should_deliver(TREE, "al", {})  # type: ignore[typeddict-item]  # whatever was said


def test_a_collection_without_a_domain_is_hidden():
    registry = Registry([Sea(), Fog()])
    state = State()
    state.collection("loose").entities["x"] = Entity({"words": 1, "purse": 2, "rest": 3})
    assert registry.seen(state, "al", Ref("loose", "x")) == {"purse": 2, "rest": 3}
    assert [domain.name for domain in registry.hiding("fog.banks")] == ["fog"]


# collections that are shown whole


class Asked(Visibility):
    """Counts the questions, and hides nothing."""

    hides: frozenset[str] | None = frozenset({"sea.songs"})

    def __init__(self) -> None:
        self.asked: list[Ref] = []

    def may_see(self, state, agent_id, ref):
        self.asked.append(ref)
        return True


def test_a_policy_is_not_asked_about_a_collection_that_it_does_not_name():
    class Bay(Sea):
        sight = Asked()  # type: ignore[assignment]

    registry = Registry([Bay()])
    for ref in (AL, ROCK, SONG):
        assert registry.seen(TREE, "bo", ref)
    assert Bay.sight.asked == [SONG]
    assert [bool(registry.hiding(ref.collection)) for ref in (AL, ROCK, SONG)] == [0, 0, 1]


class Own(Domain):
    """Decides visibility by functions, and names a collection."""

    name, version = "sea", "1"
    kinds = Sea.kinds
    hides = frozenset({MEN})

    def may_see(self, state, agent_id, ref):
        return ref.entity == agent_id


def test_a_domain_with_its_own_functions_is_asked_about_the_collections_that_it_names():
    registry = Registry([Own()])
    assert registry.seen(TREE, "al", BO) is None
    assert registry.seen(TREE, "al", ROCK) is not None


def test_a_domain_that_overrides_its_policy_is_asked_about_every_collection():
    class Cave(Sea):
        sight = Rocks()  # type: ignore[assignment]

        def may_see(self, state, agent_id, ref):
            return False

    registry = Registry([Cave()])
    assert [registry.may_see(TREE, "al", ref) for ref in (AL, ROCK, SONG)] == [False] * 3


@pytest.mark.parametrize("hides", [MEN, 3])
def test_collections_that_are_no_set_of_names_are_refused(hides):
    class Typo(Own):
        pass

    Typo.hides = hides
    message = f"`hides` of 'sea' must be a set of names of collections, or None, got {hides!r}"
    with pytest.raises(ValueError, match=message):
        Registry([Typo()])
