"""Settings of a world, and registration and removal of agents."""

from typing import Any

import pytest

from placet.domains.world import SPEECH, World
from placet.kernel import Kernel
from placet.schemas.codec import canonical, from_canonical
from placet.schemas.errors import ValidationError
from tests.domains.world_driver import WorldDriver


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bounds": 5}, "bounds must be two corners"),
        ({"bounds": [[0, 0]]}, "bounds must be two corners"),
        ({"bounds": [[0, 0], [1, "2"]]}, r"bounds\[1\] must be \[x, y\]"),
        ({"bounds": [[0, 0], [-1, 5]]}, "bounds must have the lowest corner first"),
        ({"max_step": 0}, "max_step must be a number above 0"),
        ({"max_step": True}, "max_step must be a number above 0"),
        ({"max_step": float("nan")}, "max_step must be a number above 0"),
        ({"max_step": float("inf")}, "max_step must be a number above 0"),
        ({"interaction_range": "5"}, "interaction_range must be a number above 0"),
        ({"inventory_max": -1}, "inventory_max must be an int >= 0"),
        ({"inventory_max": 1.0}, "inventory_max must be an int >= 0"),
        ({"cooldowns": 5}, "cooldowns must map kinds to seconds"),
        ({"cooldowns": {"Mov": 1}}, "there is no kind 'Mov'; did you mean 'Move'"),
        ({"cooldowns": {"xyz": 1}}, "there are Move, Speak, Interact, Custom"),
        ({"cooldowns": {"Move": -1}}, "the cooldown of Move must be seconds"),
        ({"cooldowns": {"Move": True}}, "the cooldown of Move must be seconds"),
        ({"cooldowns": {"Move": float("nan")}}, "the cooldown of Move must be seconds"),
        ({"teams": "red"}, "teams must be a list of names"),
        ({"teams": 5}, "teams must be a list of names"),
        ({"teams": ["red", "red"]}, "teams must be distinct names"),
        ({"teams": ["red", 5]}, "teams must be distinct names"),
        ({"teams": ["red", []]}, "teams must be distinct names"),
        ({"interactions": ["use"]}, "interactions must map names to rules"),
        ({"interactions": {"": print}}, "names of 1 to 64 characters"),
        ({"interactions": {"ring": "bell"}}, "interaction 'ring': it must be a rule"),
        ({"objects": ["box"]}, "objects must map ids to fields"),
        ({"objects": {"": {"position": [0, 0]}}}, "an id must be 1 to 128 characters"),
        ({"objects": {"box": {}}}, "object 'box' must have a position"),
        ({"objects": {"box": {"position": [0]}}}, "object 'box': position must be"),
        (
            {"objects": {"box": {"position": [0, 0], "holder": "ann"}}},
            "its holder does not exist yet",
        ),
        ({"objects": {"box": {"position": [0, 0], "portable": 1}}}, "portable must be True or"),
        ({"objects": {"box": {"position": [0, 0], "tags": {1}}}}, "must be plain JSON"),
        ({"objects": {"box": {"position": [9, 9]}}, "bounds": [[0, 0], [5, 5]]}, "outside"),
    ],
)
def test_an_invalid_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        World(**settings)


def test_a_world_with_other_settings_has_another_version():
    settings: list[dict[str, Any]] = [
        {},
        {"max_step": 1},
        {"max_step": 2},
        {"bounds": [[0, 0], [1, 1]]},
        {"cooldowns": {"Move": 1}},
        {"objects": {"box": {"position": [0, 0]}}},
        {"interactions": {"ring": print}},
        {"teams": []},
    ]
    versions = [World(**each).version for each in settings]
    assert len(set(versions)) == len(versions)
    assert versions == [World(**each).version for each in settings]


def test_disabled_settings_do_not_change_the_version():
    assert World(cooldowns={"Move": 0}, objects={}).version == World().version


def test_objects_start_with_their_configured_fields():
    fields = {"position": (1, 2), "price": 3, "tags": ["a", {"b": None}]}
    stage = WorldDriver(World(objects={"box": fields}))
    assert stage.thing("box") == {
        "position": (1.0, 2.0, 0.0),
        "price": 3,
        "tags": ("a", {"b": None}),
        "holder": None,
        "portable": True,
    }


# coming and going


@pytest.mark.parametrize(
    ("bounds", "origin"),
    [
        (None, (0.0, 0.0, 0.0)),
        ([[-5, -5], [5, 5]], (0.0, 0.0, 0.0)),
        ([[3, -9, 1], [5, -7, 2]], (3.0, -7.0, 1.0)),
    ],
)
def test_an_agent_without_a_position_starts_nearest_to_the_origin(bounds, origin):
    assert WorldDriver(World(bounds=bounds)).agent("ann")["position"] == origin


def test_an_agent_is_placed_with_team_and_inventory():
    world = World(objects={"box": {"position": [9, 9]}}, teams=["red"])
    stage = WorldDriver(
        world, ann={"position": [1, 2], "team": "red", "inventory": ["box", "coin"]}
    )
    assert stage.agent("ann") == {
        "position": (1.0, 2.0, 0.0),
        "team": "red",
        "inventory": ("box", "coin"),
    }
    stage.assert_holders_agree()


def test_null_attributes_are_ignored():
    nulls = {"position": None, "team": None, "inventory": None}
    assert WorldDriver(ann=nulls).agent("ann") == WorldDriver().agent("ann")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"position": [1]}, "position must be"),
        ({"position": [True, 1]}, "position must be"),
        ({"position": [99, 0]}, "outside the world"),
        ({"positon": [1, 1]}, "not placed by 'positon'"),
        ({"team": 5}, "team must be"),
        ({"team": ""}, "team must be"),
        ({"team": "rad"}, "no team 'rad'; there are red, blue"),
        ({"inventory": "box"}, "inventory must be a list"),
        ({"inventory": ["coin", "coin"]}, "list of distinct object ids"),
        ({"inventory": [["coin"]]}, "list of distinct object ids"),
        ({"inventory": ["c1", "c2", "c3"]}, "at most 2 object ids"),
        ({"inventory": ["bob"]}, "'bob' is an agent"),
        ({"inventory": ["zoe"]}, "'zoe' is an agent"),
        ({"inventory": ["ring"]}, "'ring' is held by 'bob'"),
        ({"inventory": ["well"]}, "'well' cannot be carried"),
    ],
)
def test_invalid_attributes_are_refused_and_change_nothing(attributes, message):
    world = World(
        objects={"well": {"position": [0, 0], "portable": False}},
        bounds=[[0, 0], [10, 10]],
        teams=["red", "blue"],
        inventory_max=2,
    )
    stage = WorldDriver(world, bob={"inventory": ["ring"]})
    before = stage.kernel.digest()
    with pytest.raises(ValidationError, match=message):
        stage.kernel.register_agent("zoe", **attributes)
    assert stage.kernel.digest() == before
    stage.kernel.register_agent("zoe")


def test_an_agent_cannot_have_the_name_of_an_object():
    kernel = Kernel(World(objects={"box": {"position": [0, 0]}}))
    with pytest.raises(ValidationError, match="an object 'box'"):
        kernel.register_agent("box")


def test_a_deregistered_agent_drops_what_it_carries():
    stage = WorldDriver(ann={"position": [3, 4], "inventory": ["coin", "ring"]})
    stage.propose("ann", "Speak", text="farewell")
    stage.kernel.change_agent("ann", "removed")
    assert stage.thing("coin")["position"] == (3.0, 4.0, 0.0)
    assert "ann" not in stage.kernel.state["world.agents"]
    assert "ann" not in stage.kernel.state.get(SPEECH, {})
    stage.assert_holders_agree()
    stage.kernel.register_agent("ann")
    assert stage.agent("ann")["inventory"] == ()


def test_a_removed_agent_is_absent_from_the_state():
    stage = WorldDriver()
    stage.kernel.change_agent("ann", "removed")
    assert list(stage.kernel.state["world.agents"]) == ["bob", "eve"]


# settings as data


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"bounds": [[0, 0], [9, 9]]},
        {"bounds": ((-1.5, 0, 2), (3, 0.1, 2)), "max_step": 0.1, "interaction_range": 7},
        {"inventory_max": 0, "teams": ("b", "a")},
        {"cooldowns": {"Move": 0.3, "Speak": 12_345_678.123456789, "Custom": 0}},
        {"objects": {"z": {"position": (1, 2), "deep": {"b": [1, (2.5, None)], "a": True}},
                     "a": {"position": [0, 0, 0], "portable": False}}},
    ],
)  # fmt: skip
def test_settings_recreate_the_world(given):
    """The settings pass through the bytes of a log without loss."""
    world = World(**given)
    said = world.settings()
    assert said is not None
    again = World(**from_canonical(canonical(said)))
    assert again.setup == world.setup
    assert again.version == world.version
    assert again.settings() == from_canonical(canonical(said))
    assert set(said) <= set(given)


def test_a_world_with_custom_rules_has_no_settings():
    assert World(interactions={"wave": lambda draft, intent: None}).settings() is None
    assert World(interactions={}).settings() == {}


def test_objects_are_logged_in_order_of_name():
    logs: list[list[bytes]] = []
    for names in ("ab", "ba"):
        logs.append([])
        Kernel(World(objects={n: {"position": [0, 0]} for n in names}), sink=logs[-1].append)
    assert logs[0] == logs[1]


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ([], "must be an object"),
        ({}, "must be an object such as"),
        ({"distanse": 1}, "unknown part 'distanse'"),
        ({"distance": 0}, "observation.distance must be a number above 0"),
        ({"team": 1}, "observation.team must be True"),
        ({"known": 1}, "observation.known must be the field"),
        ({"hidden_fields": []}, "observation.hidden_fields must be a list of names"),
        ({"hidden_fields": "team"}, "observation.hidden_fields must be a list of names"),
        ({"any_of": {}}, "observation.any_of must be a list of objects"),
        ({"all_of": [{"any_of": [{"team": 0}]}]}, r"all_of\[0\].any_of\[0\].team must be True"),
        ({"distance": 1, "note": object()}, "observation: "),
    ],
)
def test_an_invalid_observation_setting_is_refused(observation, message):
    with pytest.raises(ValueError, match=message):
        World(observation=observation)


def test_observation_settings_are_part_of_the_version():
    observation = {"any_of": [{"distance": 3}, {"team": True}], "hidden_fields": ["inventory"]}
    world = World(observation=observation)
    again = World(**(world.settings() or {}))
    assert again.settings() == world.settings() == {"observation": observation}
    assert again.version == world.version != World().version
    assert World(max_step=1.0).version == "2+d2a72a3a"  # the digits that logs of 0.1 name
