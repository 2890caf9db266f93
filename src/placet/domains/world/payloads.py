"""The payload of each kind of the world domain, and its canonical form.

Payloads of equal meaning have one form, and validating it again does not change it. An error has
the location of the invalid value, relative to the payload.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, NoReturn, NotRequired, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    JsonValue,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    with_config,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticUndefined
from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.identity import ID_CHARS_MAX

AGENTS: Final = "world.agents"
"""`position` `team` `inventory`, and `ready_ns.<kind>` where a cooldown runs."""

OBJECTS: Final = "world.objects"
"""`position` (None while carried) `holder` (None while free) `portable`, and the world's own."""

SPEECH: Final = "world.speech"
"""The latest words of each speaker, in `said`; what was said before is in the log."""

INTERACTION_CHARS_MAX: Final = 64

Position: TypeAlias = tuple[float, float, float]
"""x, y and z, in the unit of the domain's `bounds`."""


def _fits_64_bits(value: object) -> object:
    """Refuse an int beyond 64 bits, as the gate's structure stage does everywhere else."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise PydanticCustomError("int_too_large", "Input should fit 64 bits")
    return value


_Coordinate = Annotated[
    float, Field(strict=True, allow_inf_nan=False), BeforeValidator(_fits_64_bits)
]
_Coordinates = Annotated[list[_Coordinate], Field(strict=True, min_length=2, max_length=3)]
_explained_coordinates: Final = TypeAdapter(_Coordinates).validate_python
_NUMBERS: Final = frozenset({int, float})
_NEAR: Final = 2.0**63
"""Numbers up to here are taken at sight; ints beyond are none that JSON must carry."""


def to_position(value: object) -> Position:
    """Read a list or tuple of two or three finite numbers; a missing z is 0.

    The common form is read by hand and anything else by pydantic: this is as fast as a union of
    list and tuple, and errors name `/to/1` instead of a branch of a union.

    Raises:
        ValidationError: The value is no position; the error has its location.
    """
    if type(value) is list or type(value) is tuple:
        if len(value) == 3:  # noqa: PLR2004  # x, y, z
            x, y, z = value
        elif len(value) == 2:  # noqa: PLR2004  # x, y
            (x, y), z = value, 0.0
        else:
            return _to_position_explained(value)
        if (
            type(x) in _NUMBERS
            and type(y) in _NUMBERS
            and type(z) in _NUMBERS
            and -_NEAR <= x <= _NEAR  # which NaN and the infinities are not
            and -_NEAR <= y <= _NEAR
            and -_NEAR <= z <= _NEAR
        ):
            return x + 0.0, y + 0.0, z + 0.0  # -0.0 and 0.0 are one place
    return _to_position_explained(value)


def _to_position_explained(value: object) -> Position:
    position = list(value) if isinstance(value, tuple) else value
    # float() also makes plain numbers of subclasses, such as numpy's.
    x, y, z = [*(float(number) + 0.0 for number in _explained_coordinates(position)), 0.0][:3]
    return x, y, z


_Place = Annotated[
    Sequence[float], PlainValidator(to_position, json_schema_input_type=_Coordinates)
]
_EntityId = Annotated[str, Field(strict=True, min_length=1, max_length=ID_CHARS_MAX)]


@with_config(extra="forbid")
class Move(TypedDict):
    """Move to a position.

    Attributes:
        to: Target position, as [x, y] or [x, y, z]. `position` is accepted as its older name.
    """

    to: Annotated[_Place, Field(validation_alias=AliasChoices("to", "position"))]


@with_config(extra="forbid")
class Speak(TypedDict):
    """Speak a text.

    Attributes:
        text: The spoken text.
        channel: Audience: everyone (the default), the speaker's team, or `target_id` alone.
        target_id: Agent that the message is for; required for the private channel.
    """

    text: Annotated[str, Field(strict=True, min_length=1)]
    channel: NotRequired[Literal["public", "team", "private"] | None]
    target_id: NotRequired[_EntityId | None]


@with_config(extra="forbid")
class Interact(TypedDict):
    """Interact with an object or an agent.

    Attributes:
        target_id: Object or agent to interact with.
        interaction_type: `examine` (the default), `pickup`, `drop`, `use`, `give`, or one that the
            world adds.
        data: Further parameters of the interaction.
    """

    target_id: _EntityId
    interaction_type: NotRequired[
        Annotated[str, Field(strict=True, min_length=1, max_length=INTERACTION_CHARS_MAX)] | None
    ]
    data: NotRequired[dict[str, JsonValue] | None]


def _canonical_speak(payload: Speak) -> dict[str, Json]:
    channel = payload.get("channel") or "public"
    target_id = payload.get("target_id")
    if target_id is not None:
        return {"text": payload["text"], "channel": channel, "target_id": target_id}
    if channel == "private":
        _fail("target_id", "a private message needs target_id: the agent who is to hear it")
    return {"text": payload["text"], "channel": channel}


def _canonical_interact(payload: Interact) -> dict[str, Json]:
    interaction_type = payload.get("interaction_type") or "examine"
    canonical: dict[str, Json] = {
        "target_id": payload["target_id"],
        "interaction_type": interaction_type,
    }
    data = payload.get("data")
    if data is not None:
        canonical["data"] = data
    return canonical


def _checked_custom(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    action = payload.get("action")
    if not isinstance(action, str) or not action:
        _fail("action", "a custom intent needs action, a non-empty string")
    return payload


def _fail(field: str, message: str) -> NoReturn:
    """Raise an error with a location, which a ValueError from a validator would not have."""
    reason = PydanticCustomError("world", "{reason}", {"reason": message})
    raise ValidationError.from_exception_data(
        field, [InitErrorDetails(type=reason, loc=(field,), input=PydanticUndefined)]
    )


_CUSTOM_SCHEMA: Final[Mapping[str, Json]] = {
    "type": "object",
    "title": "Custom",
    "description": "Anything a world defines for itself.",
    "properties": {
        "action": {"type": "string", "minLength": 1, "description": "Name of the action."}
    },
    "required": ["action"],
    "additionalProperties": True,
}

SpeakPayload = Annotated[Speak, AfterValidator(_canonical_speak)]
InteractPayload = Annotated[Interact, AfterValidator(_canonical_interact)]
Custom = Annotated[
    dict[str, JsonValue], AfterValidator(_checked_custom), WithJsonSchema(dict(_CUSTOM_SCHEMA))
]
