"""The settings of a world, checked once when the world is made.

Every limit is off by default. Lengths are in the world's own unit, times in simulated seconds.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, TypeAlias, TypeGuard, TypeVar

from pydantic import ValidationError

from placet.domains.world.payloads import OBJECTS, Position, to_position
from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.schemas.codec import Json, canonical, freeze, thaw, without_numpy
from placet.schemas.identity import is_identity
from placet.schemas.limits import SECOND_NS
from placet.schemas.name_suggestions import require_known

KINDS: Final = ("Move", "Speak", "Interact", "Custom")
COOLDOWN_SECONDS_MAX: Final = 1_000_000_000
LENGTH_MAX: Final = 1e150
"""Its square is still a finite float."""

SIGHT: Final = "sight"
ANYWHERE: Final = "anywhere"

Bounds: TypeAlias = tuple[Position, Position]
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """The settings of one world, in the form in which its rules use them.

    Attributes:
        bounds: Lowest and highest corner; positions on them are inside.
        max_step: Maximum distance of one Move.
        interaction_range: Maximum distance of one Interact.
        inventory_max: Maximum number of objects that an agent may carry.
        cooldowns_ns: Kind -> minimum simulated nanoseconds between two intents of one agent.
        teams: Permitted teams; None permits any.
        objects: Object -> its fields, as in the state.
        interactions: Names of the interactions that the world adds.
        observation: Visibility setting as passed in; `views.py` reads it.
        private_reach: Whom a private message may name: `sight` the agents that the speaker may
            see, `anywhere` any name.
    """

    bounds: Bounds | None = None
    max_step: float | None = None
    interaction_range: float | None = None
    inventory_max: int | None = None
    cooldowns_ns: Mapping[str, int] = field(default_factory=dict)
    teams: tuple[str, ...] | None = None
    objects: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    interactions: tuple[str, ...] = ()
    observation: Mapping[str, Json] | None = None
    private_reach: str = SIGHT

    def digest(self) -> str:
        """Hash these settings to 8 hexadecimal digits, for the version of the domain."""
        optional = {"observation": None, "private_reach": SIGHT}
        described = [getattr(self, name) for name in self.__slots__ if name not in optional]
        # Left out where they are off: older logs name these digits.
        described += [
            value for name, off in optional.items() if (value := getattr(self, name)) != off
        ]
        return blake2b(canonical(described), digest_size=4).hexdigest()

    def keywords(self, cooldowns: Mapping[str, float]) -> dict[str, Json]:
        """Return the keywords of `World` that make these settings again, as plain JSON.

        Args:
            cooldowns: Seconds as passed in: converting to nanoseconds and back may lose digits.
        """
        objects = {
            object_id: {name: value for name, value in fields.items() if name != "holder"}
            for object_id, fields in self.objects.items()
        }
        seconds = {kind: s if type(s) is int else float(s) for kind, s in cooldowns.items()}
        keywords: dict[str, Json] = {
            "objects": objects or None,
            "bounds": self.bounds,
            "max_step": self.max_step,
            "interaction_range": self.interaction_range,
            "inventory_max": self.inventory_max,
            "cooldowns": seconds or None,
            "teams": self.teams,
            "observation": self.observation,
            "private_reach": None if self.private_reach == SIGHT else self.private_reach,
        }
        return {name: thaw(value) for name, value in keywords.items() if value is not None}

    def with_objects(self, objects: object) -> "WorldSettings":
        """Return these settings with objects, which must lie within their bounds.

        Raises:
            ValueError: An object is invalid.
        """
        return replace(self, objects=read_objects(objects, self))

    def origin(self) -> Position:
        """Return the default position: the point within the bounds nearest to zero."""
        return self.nearest((0.0, 0.0, 0.0))

    def nearest(self, position: Position) -> Position:
        """Return the point within the bounds that is nearest to a position."""
        if self.bounds is None:
            return position
        lows, highs = self.bounds
        x, y, z = map(min, map(max, position, lows), highs)
        return x, y, z

    def outside(self, position: Position, at: str) -> RuleRefusal | None:
        """Return the refusal of a position out of bounds; None if it is within them."""
        if self.bounds is None:
            return None
        (x0, y0, z0), (x1, y1, z1) = self.bounds
        x, y, z = position
        if x0 <= x <= x1 and y0 <= y <= y1 and z0 <= z <= z1:
            return None
        nearest = self.nearest(position)
        return refuse(
            "out_of_bounds",
            f"{_rounded(position)} is outside the world, which reaches from "
            f"{_rounded((x0, y0, z0))} to {_rounded((x1, y1, z1))}; the nearest point inside is "
            f"{_rounded(nearest)}",
            at=at,
            nearest=list(nearest),
        )


def _rounded(position: Position) -> str:
    return f"[{', '.join([f'{number:g}' for number in position])}]"


def optional(read: Callable[[str, object], _Read], name: str, value: object) -> _Read | None:
    """Return `read(name, value)`; None if the value is None, which disables the setting."""
    return None if value is None else read(name, without_numpy(value))


def read_private_reach(name: str, reach: object) -> str:
    """Read whom a private message may name.

    Raises:
        ValueError: The value is neither `sight` nor `anywhere`.
    """
    if reach not in {SIGHT, ANYWHERE}:
        raise ValueError(f"{name} must be {SIGHT!r} or {ANYWHERE!r}, got {reach!r}")
    return str(reach)


def read_bounds(name: str, bounds: object) -> Bounds:
    """Read two corners. Two-dimensional corners make a flat world: z is 0 everywhere.

    Raises:
        ValueError: The value is not two positions, lower one first.
    """
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:  # noqa: PLR2004  # low and high
        raise ValueError(
            f"{name} must be two corners, such as [[0, 0, 0], [100, 100, 10]], got {bounds!r}"
        )
    low, high = (read_position(f"{name}[{i}]", corner) for i, corner in enumerate(bounds))
    if any(a > b for a, b in zip(low, high, strict=True)):
        raise ValueError(
            f"{name} must have the lowest corner first, got {list(low)} and {list(high)}"
        )
    return low, high


def read_position(name: str, value: object) -> Position:
    """Read a position from a setting.

    Raises:
        ValueError: The value is not a list or tuple of two or three finite numbers.
    """
    try:
        return to_position(value)
    except ValidationError:
        raise ValueError(
            f"{name} must be [x, y] or [x, y, z] of finite numbers, got {value!r}"
        ) from None


def read_length(name: str, value: object) -> float:
    """Read a maximum length.

    Raises:
        ValueError: The value is not a finite number above zero.
    """
    if not _is_number(value) or not 0 < value < LENGTH_MAX:
        raise ValueError(
            f"{name} must be a number above 0 and below {LENGTH_MAX:g}, or None for no limit, "
            f"got {value!r}"
        )
    return float(value)


def read_count(name: str, value: object) -> int:
    """Read a maximum count.

    Raises:
        ValueError: The value is not an int of at least zero.
    """
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be an int >= 0, or None for no limit, got {value!r}")
    return value


def read_cooldowns(name: str, cooldowns: object) -> dict[str, int]:
    """Read seconds per kind into nanoseconds per kind; 0 is no cooldown.

    Raises:
        ValueError: A kind is unknown, or its seconds are not a number in 0..10^9.
    """
    if not isinstance(cooldowns, Mapping):
        raise ValueError(f"{name} must map kinds to seconds, got {cooldowns!r}")
    cooldowns_ns = {}
    for kind, seconds in cooldowns.items():
        require_known(kind, KINDS, f"{name}: there is no kind")
        if not _is_number(seconds) or not 0 <= seconds <= COOLDOWN_SECONDS_MAX:
            raise ValueError(
                f"the cooldown of {kind} must be seconds from 0 to {COOLDOWN_SECONDS_MAX}, "
                f"got {seconds!r}"
            )
        cooldowns_ns[kind] = round(seconds * SECOND_NS)
    return {kind: cooldowns_ns[kind] for kind in KINDS if cooldowns_ns.get(kind)}


def read_plain(name: str, setting: object) -> Mapping[str, Json]:
    """Read a setting that is stored as passed in.

    Raises:
        ValueError: The value is not an object of plain JSON.
    """
    if not isinstance(setting, Mapping):
        raise ValueError(f"{name} must be an object, got {setting!r}")
    try:
        plain: Mapping[str, Json] = freeze(dict(setting))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    return plain


def read_teams(name: str, teams: object) -> tuple[str, ...]:
    """Read the names of the teams.

    Raises:
        ValueError: The values are not distinct names.
    """
    if isinstance(teams, str | Mapping) or not isinstance(teams, Iterable):
        raise ValueError(f"{name} must be a list of names, got {teams!r}")
    names = tuple(teams)
    if not all(is_identity(name) for name in names) or len(set(names)) != len(names):
        raise ValueError(f"{name} must be distinct names of 1 to 128 characters, got {teams!r}")
    return names


def read_objects(objects: object, settings: WorldSettings) -> dict[str, Mapping[str, Json]]:
    """Read objects into their initial fields.

    Raises:
        ValueError: An id is no name, a position is missing or out of bounds, or a field is not
            plain JSON.
    """
    if not isinstance(objects, Mapping):
        raise ValueError(f"objects must map ids to fields, got {objects!r}")
    return {
        object_id: _read_object(object_id, objects[object_id], settings) for object_id in objects
    }


def _read_object(object_id: object, fields: object, settings: WorldSettings) -> Mapping[str, Json]:
    name = f"object {object_id!r}"
    if not is_identity(object_id):
        raise ValueError(f"{name}: an id must be 1 to 128 characters, none of them a control")
    if not isinstance(fields, Mapping) or "position" not in fields:
        raise ValueError(f"{name} must have a position: {{'position': [x, y]}}, got {fields!r}")
    if "holder" in fields:
        raise ValueError(
            f"{name}: its holder does not exist yet; register the holder with inventory"
        )
    position = read_position(f"{name}: position", fields["position"])
    refusal = settings.outside(position, f"{OBJECTS}/{object_id}")
    if refusal is not None:
        raise ValueError(f"{name}: {refusal.message}")
    portable = fields.get("portable", True)
    if type(portable) is not bool:
        raise ValueError(f"{name}: portable must be True or False, got {portable!r}")
    try:
        own = freeze(fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    return {**own, "position": position, "holder": None, "portable": portable}


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
