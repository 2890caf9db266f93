"""Views: one consistent copy per seq, without hidden entities."""

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.actors.observation.viewer import Viewer
from placet.domains.world import World
from placet.domains.world.views import _Audible
from placet.kernel import Domain, Kernel, randint_below, random_unit
from placet.kernel.plugin.registry import Registry
from placet.schemas.identity import Ref
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.view import View


def propose(kernel, agent_id, number, kind, **payload):
    intent = {
        "kind": kind,
        "payload": payload,
        "agent_id": agent_id,
        "req_id": f"{agent_id}:{number}",
    }
    intent |= {"context_seq": kernel.seq, "priority": 10, "schema_version": SCHEMA_VERSION}
    assert kernel.decide([intent]).admitted


@pytest.fixture
def kernel():
    kernel = Kernel(World())
    for name in ("ann", "bob", "cid"):
        kernel.register_agent(name, position=[0, 0])
    return kernel


def test_a_view_does_not_change_when_the_world_does(kernel):
    viewer = Viewer(kernel)
    before = viewer.view(kernel, "ann")
    propose(kernel, "bob", 0, "Move", to=[5.0, 0.0])
    after = viewer.view(kernel, "ann")
    assert before.state["world.agents"]["bob"]["position"] == (0.0, 0.0, 0.0)
    assert after.state["world.agents"]["bob"]["position"] == (5.0, 0.0, 0.0)
    assert (before.view_seq, after.view_seq) == (4, 5)


def test_hidden_entities_are_absent_from_every_access_path(kernel):
    propose(kernel, "ann", 0, "Speak", text="psst", channel="private", target_id="bob")
    viewer = Viewer(kernel)
    propose(kernel, "bob", 0, "Speak", text="good day")
    heard = {
        name: viewer.view(kernel, name).state["world.speech"] for name in ("ann", "bob", "cid")
    }
    assert heard["bob"]["ann"]["said"]["text"] == "psst"
    assert "ann" in heard["ann"]
    assert "ann" not in heard["cid"]
    assert heard["cid"].get("ann") is None
    assert (list(heard["cid"]), len(heard["cid"])) == (["bob"], 1)
    assert (list(heard["bob"]), len(heard["bob"])) == (["ann", "bob"], 2)


def test_a_fully_hidden_collection_is_absent(kernel):
    propose(kernel, "ann", 0, "Speak", text="psst", channel="private", target_id="bob")
    viewer = Viewer(kernel)
    for name, named in (("bob", ["world.agents", "world.speech"]), ("cid", ["world.agents"])):
        state = viewer.view(kernel, name).state
        assert (list(state), len(state)) == (named, len(named))
        assert len(state["world.speech"]) == ("world.speech" in named)


def test_visibility_is_judged_at_the_seq_of_the_view(kernel):
    propose(kernel, "ann", 0, "Speak", text="psst", channel="private", target_id="bob")
    early = Viewer(kernel).view(kernel, "cid")
    propose(kernel, "ann", 1, "Speak", text="hello all")
    assert not early.state["world.speech"]
    assert "ann" in Viewer(kernel).view(kernel, "cid").state["world.speech"]


def test_a_view_is_read_only(kernel):
    state = Viewer(kernel).view(kernel, "ann").state
    assert list(state) == ["world.agents"]
    assert len(state) == 1
    assert (state.get("world.objects"), state.get("world.object")) == ({}, None)
    fields: Any = state["world.agents"]["ann"]
    with pytest.raises(TypeError):
        fields["position"] = (1.0, 1.0, 1.0)


def test_a_world_without_hidden_data_shows_the_shared_copy():
    class Open(World):
        may_see = Domain.may_see

    kernel = Kernel(Open())
    kernel.register_agent("ann", position=[0, 0])
    viewer = Viewer(kernel)
    one, two = viewer.view(kernel, "ann"), viewer.view(kernel, "ann")
    assert one.state["world.agents"]["ann"] == two.state["world.agents"]["ann"]


def test_a_domain_decides_visibility_of_its_own_collections_only():
    class Secret(Domain):
        name, version, kinds = "secret", "1", ()

        def on_open(self, draft):
            draft.create("secret.boxes", "box")

        def may_see(self, state, agent_id, ref):
            return False

    kernel = Kernel([World(), Secret()])
    kernel.register_agent("ann", position=[0, 0])
    state = Viewer(kernel).view(kernel, "ann").state
    assert {name: list(rows) for name, rows in state.items()} == {"world.agents": ["ann"]}


def test_collections_of_a_domain_that_hides_nothing_are_shown_whole():
    class Plain(Domain):
        name, version, kinds = "plain", "1", ()

        def on_open(self, draft):
            draft.create("plain.boxes", "box")

    kernel = Kernel([World(), Plain()])
    assert list(Viewer(kernel).view(kernel, "ann").state["plain.boxes"]) == ["box"]


def test_a_missing_key_suggests_what_the_agent_sees(kernel):
    propose(kernel, "ann", 0, "Speak", text="psst", channel="private", target_id="bob")
    state = Viewer(kernel).view(kernel, "cid").state
    with pytest.raises(KeyError, match=r"no visible collection 'agents'; did you mean 'world\.ag"):
        state["agents"]
    assert not state["world.speech"]  # which is hidden
    with pytest.raises(KeyError, match="no entity 'anne'; did you mean 'ann'"):
        state["world.agents"]["anne"]
    assert state.get("agents", 7) == state["world.agents"].get("anne", 7) == 7


SAID = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cid"]),
        st.sampled_from(
            [
                {"channel": "public"},
                {"channel": "team"},
                {"channel": "private", "target_id": "bob"},
            ]
        ),
    ),
    max_size=6,
)


def seen_as_asked(kernel):
    """Return whether the views of all agents are what `may_see` answers for each entity."""
    viewer, tree = Viewer(kernel), kernel.tree
    for agent in ("ann", "bob", "cid"):
        state = viewer.view(kernel, agent).state
        asked = [
            name
            for name in tree.ids("world.speech")
            if kernel.registry.may_see(tree, agent, Ref("world.speech", name))
        ]
        counted = len(state["world.speech"])
        if (counted, list(state["world.speech"])) != (len(asked), asked):
            return False
    return True


@given(SAID, st.sampled_from([None, {"distance": 5}, {"hidden_fields": ["team", "inventory"]}]))
def test_public_messages_are_seen_as_if_each_agent_were_asked(said, observation):
    kernel = Kernel(World(observation=observation, private_reach="anywhere"))
    for place, name in enumerate(("ann", "bob", "cid")):
        kernel.register_agent(name, position=[4 * place, 0], team="red" if place else "blue")
    for number, (name, channel) in enumerate(said):
        propose(kernel, name, number, "Speak", text="hello", **channel)
        assert seen_as_asked(kernel)


def test_a_message_that_is_wrongly_public_is_found(kernel, monkeypatch):
    propose(kernel, "ann", 0, "Speak", text="psst", channel="private", target_id="bob")
    assert seen_as_asked(kernel)
    monkeypatch.setattr(_Audible, "is_shown_to_all", lambda *_: True)
    assert not seen_as_asked(kernel)


@pytest.mark.parametrize("observation", [None, {"hidden_fields": ["inventory"]}])
def test_counting_public_messages_asks_about_each_once_for_all_agents(monkeypatch, observation):
    questions = []
    may_see = Registry.may_see

    def counted(*asked):
        questions.append(asked)
        return may_see(*asked)

    monkeypatch.setattr(Registry, "may_see", counted)
    for count in (4, 16):
        kernel = Kernel(World(observation=observation))
        names = [f"a{number}" for number in range(count)]
        for name in names:
            kernel.register_agent(name, position=[0, 0])
        for name in names:
            propose(kernel, name, 0, "Speak", text="hello")
        viewer, before = Viewer(kernel), len(questions)
        for name in names:
            assert len(viewer.view(kernel, name).state["world.speech"]) == count
        assert len(questions) - before <= count  # of each agent, about its own message


def test_a_view_draws_as_an_intent_without_predecessors_does(kernel):
    kernel.step(1.5)
    view = Viewer(kernel).view(kernel, "ann")
    words = kernel.config.seed, kernel.ledger.tick, kernel.ledger.now_ns, 0
    assert view.random("dice") == random_unit(*words, "dice", "ann")
    assert view.randint_below(10**9, "dice") == randint_below(10**9, *words, "dice", "ann")
    assert view.randint_below(numpy.int64(6), "dice") in range(6)  # type: ignore[arg-type]  # a policy may pass it
    drawn = {view.random("dice"), view.random("coin"), view.random("dice")}
    assert len(drawn | {Viewer(kernel).view(kernel, "bob").random("dice")}) == 3
    kernel.step(1.0)
    assert Viewer(kernel).view(kernel, "ann").random("dice") not in drawn


@pytest.mark.parametrize("bound", [0, -1, 2.5, True, "6", None])
def test_a_bound_that_is_no_count_is_refused(kernel, bound):
    is_text = isinstance(bound, str)
    expected = (TypeError, "expected randint_below") if is_text else (ValueError, "at least 1")
    with pytest.raises(expected[0], match=expected[1]):
        Viewer(kernel).view(kernel, "ann").randint_below(bound, "dice")


def test_a_view_made_by_hand_draws_nothing():
    view = View(0, 0.0, "ann", {})
    for draw in (lambda: view.random("dice"), lambda: view.randint_below(6, "dice")):
        with pytest.raises(ValueError, match="was made by hand and has no random numbers"):
            draw()
