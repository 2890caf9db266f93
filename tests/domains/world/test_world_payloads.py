"""Payloads of the world: accepted values, canonical forms, and the paths of errors."""

from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from placet.domains.world import World
from placet.domains.world.payloads import (
    Custom,
    InteractPayload,
    Move,
    SpeakPayload,
    to_position,
)
from placet.kernel import Kernel
from tests.domains.world_driver import WorldDriver

Pair = namedtuple("Pair", "x y")
NAN, INF = float("nan"), float("inf")


def validate(payload_type, payload):
    return TypeAdapter(payload_type).validate_python(payload)


TAKEN = [
    (Move, {"to": [1.0, 2.0, 3.0]}, {"to": (1.0, 2.0, 3.0)}),
    (Move, {"to": (1, 2)}, {"to": (1.0, 2.0, 0.0)}),
    (Move, {"to": [1.5, -2]}, {"to": (1.5, -2.0, 0.0)}),
    (Move, {"position": [1, 2, 3]}, {"to": (1.0, 2.0, 3.0)}),
    (Move, {"to": [-0.0, 0.0, -0.0]}, {"to": (0.0, 0.0, 0.0)}),
    (Move, {"to": [1e300, 2**64 - 1]}, {"to": (1e300, 2.0**64, 0.0)}),
    (Move, {"to": Pair(1, 2)}, {"to": (1.0, 2.0, 0.0)}),
    (SpeakPayload, {"text": "hi"}, {"text": "hi", "channel": "public"}),
    (SpeakPayload, {"text": " "}, {"text": " ", "channel": "public"}),
    (
        SpeakPayload,
        {"text": "hi", "channel": None, "target_id": None},
        {"text": "hi", "channel": "public"},
    ),
    (SpeakPayload, {"text": "hi", "channel": "team"}, {"text": "hi", "channel": "team"}),
    (
        SpeakPayload,
        {"text": "hi", "channel": "private", "target_id": "bob"},
        {"text": "hi", "channel": "private", "target_id": "bob"},
    ),
    (
        SpeakPayload,
        {"text": "hi", "target_id": "bob"},
        {"text": "hi", "channel": "public", "target_id": "bob"},
    ),
    (InteractPayload, {"target_id": "box"}, {"target_id": "box", "interaction_type": "examine"}),
    (
        InteractPayload,
        {"target_id": "box", "interaction_type": None, "data": None},
        {"target_id": "box", "interaction_type": "examine"},
    ),
    (
        InteractPayload,
        {"target_id": "box", "interaction_type": "use", "data": {"n": [1, None]}},
        {"target_id": "box", "interaction_type": "use", "data": {"n": [1, None]}},
    ),
    (Custom, {"action": "attack", "damage": 10}, {"action": "attack", "damage": 10}),
]


@pytest.mark.parametrize(("payload_type", "payload", "expected"), TAKEN)
def test_a_valid_payload_becomes_canonical(payload_type, payload, expected):
    assert validate(payload_type, payload) == expected


@pytest.mark.parametrize(("payload_type", "payload", "expected"), TAKEN)
def test_canonicalization_is_idempotent(payload_type, payload, expected):
    again = validate(payload_type, validate(payload_type, payload))
    assert again == expected
    assert list(map(type, again.values())) == list(map(type, expected.values()))


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1),
        min_size=2,
        max_size=3,
    )
)
def test_a_list_or_tuple_of_ints_or_floats_is_the_same_position(numbers):
    position = to_position(numbers)
    assert position == to_position(tuple(numbers)) == to_position([float(n) for n in numbers])
    assert [type(number) for number in position] == [float] * 3
    assert str(position[0]) != "-0.0"


REFUSED = [
    (Move, {}, ("to",)),
    (Move, {"to": None}, ("to",)),
    (Move, {"to": [1]}, ("to",)),
    (Move, {"to": [1, 2, 3, 4]}, ("to",)),
    (Move, {"to": {1, 2}}, ("to",)),
    (Move, {"to": iter([1, 2])}, ("to",)),
    (Move, {"to": "12"}, ("to",)),
    (Move, {"to": {"x": 1, "y": 2}}, ("to",)),
    (Move, {"to": [True, 1]}, ("to", 0)),
    (Move, {"to": [1, False, 2]}, ("to", 1)),
    (Move, {"to": [1, "2"]}, ("to", 1)),
    (Move, {"to": [1, None]}, ("to", 1)),
    (Move, {"to": [1, 2, NAN]}, ("to", 2)),
    (Move, {"to": (INF, 2)}, ("to", 0)),
    (Move, {"to": [1, -INF]}, ("to", 1)),
    (Move, {"to": [10**400, 1]}, ("to", 0)),
    (Move, {"to": [1, 2**64]}, ("to", 1)),
    (Move, {"position": [1, "2"]}, ("position", 1)),
    (Move, {"to": [1, 2], "position": [1, 2]}, ("position",)),
    (Move, {"to": [1, 2], "speed": 3}, ("speed",)),
    (Move, [1, 2], ()),
    (SpeakPayload, {}, ("text",)),
    (SpeakPayload, {"text": ""}, ("text",)),
    (SpeakPayload, {"text": None}, ("text",)),
    (SpeakPayload, {"text": 5}, ("text",)),
    (SpeakPayload, {"text": "hi", "channel": "secret"}, ("channel",)),
    (SpeakPayload, {"text": "hi", "channel": ""}, ("channel",)),
    (SpeakPayload, {"text": "hi", "channel": "private"}, ("target_id",)),
    (SpeakPayload, {"text": "hi", "channel": "private", "target_id": None}, ("target_id",)),
    (SpeakPayload, {"text": "hi", "channel": "private", "target_id": ""}, ("target_id",)),
    (SpeakPayload, {"text": "hi", "volume": 1}, ("volume",)),
    (InteractPayload, {}, ("target_id",)),
    (InteractPayload, {"target_id": None}, ("target_id",)),
    (InteractPayload, {"target_id": "x" * 129}, ("target_id",)),
    (InteractPayload, {"target_id": "box", "interaction_type": ""}, ("interaction_type",)),
    (InteractPayload, {"target_id": "box", "interaction_type": 1}, ("interaction_type",)),
    (InteractPayload, {"target_id": "box", "data": [1]}, ("data",)),
    (InteractPayload, {"target_id": "box", "hand": "left"}, ("hand",)),
    (Custom, {}, ("action",)),
    (Custom, {"action": None}, ("action",)),
    (Custom, {"action": ""}, ("action",)),
    (Custom, {"action": 1}, ("action",)),
    (Custom, {"action": "a", "weights": {1}}, ("weights",)),
]


@pytest.mark.parametrize(("payload_type", "payload", "place"), REFUSED)
def test_an_invalid_payload_is_refused_with_its_path(payload_type, payload, place):
    with pytest.raises(ValidationError) as failure:
        validate(payload_type, payload)
    assert [error["loc"] for error in failure.value.errors()] == [place]


@pytest.mark.parametrize("bad", [INF, NAN, -INF, {1}, object(), 2**64, "\ud800"])
@pytest.mark.parametrize("kind", ["Custom", "Interact"])
def test_open_payloads_accept_json_values_only(kind, bad):
    stage = WorldDriver(World(objects={"box": {"position": [0, 0]}}))
    payload = {"action": "a"} if kind == "Custom" else {"target_id": "box"}
    verdict = stage.propose("ann", kind, **payload, data={"deep": [bad]})
    assert verdict.codes == ("payload_invalid",)
    assert verdict.refusals[0].at.startswith("/intents/0/payload")


def test_the_verdict_shows_the_canonical_payload():
    verdict = WorldDriver().propose("ann", "Move", position=(1, 2))
    assert verdict.as_dict()["results"][0]["normalized"] == {"to": [1.0, 2.0, 0.0]}


def test_every_kind_has_a_json_schema_that_names_its_fields():
    schemas = Kernel(World()).registry.json_schemas()
    assert {kind: list(schema["properties"]) for kind, schema in schemas.items()} == {
        "Custom": ["action"],
        "Interact": ["target_id", "interaction_type", "data"],
        "Move": ["to"],
        "Speak": ["text", "channel", "target_id"],
    }
    assert schemas["Move"]["properties"]["to"]["maxItems"] == 3
