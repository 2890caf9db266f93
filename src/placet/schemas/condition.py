"""Conditions: the values that an intent expects at paths of the state.

An intent with conditions is stale if one of them does not hold, and depends on nothing else. Its
agent names the values that its decision rests on; other agents may change the rest. The gate,
`if_unchanged` and the checks of freshness judge by the functions here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from placet.schemas.codec import Json, thaw
from placet.schemas.json_value import pointer
from placet.schemas.name_suggestions import nearest

ConditionOp: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "in", "exists", "absent"]

CONDITIONS_MAX: Final = 16
"""Conditions of one intent."""

PATH_STEPS_MIN: Final = 2
PATH_STEPS_MAX: Final = 8

_POSITION_DIGITS_MAX: Final = 18

_MISSPELLED: Final = 0.75
"""Similarity above which an absent name is taken for a misspelled one."""

ABSENT: Final = object()
"""The value at a path where the agent sees nothing."""

_NUMBERS: Final = (int, float)

Entities: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Json]]]
"""`collection -> entity -> field -> value`."""


class Condition(TypedDict):
    """One expected value of an intent.

    Attributes:
        path: `[collection, entity, field, ...]`, 2 to 8 texts; a number in decimal is the position
            in an array. `[collection, entity]` is the entity with all of its visible fields.
        op: `==`, `!=` and `in` compare any JSON; `<`, `<=`, `>` and `>=` compare two numbers or two
            texts, and hold for nothing else; `exists` and `absent` take no value.
        value: The expected value; of `in` an array of them.
    """

    path: list[str]
    op: ConditionOp
    value: NotRequired[Json]


def value_at(fields: Mapping[str, Json] | None, steps: Sequence[str]) -> object:
    """Return the value at a path below an entity; `ABSENT` where there is none.

    Args:
        fields: Visible fields of the entity; None if it is hidden or does not exist.
        steps: The path after collection and entity; empty for the entity itself.
    """
    value: object = ABSENT if fields is None else fields
    for step in steps:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list | tuple) and _is_position(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return ABSENT
    return value


def _is_position(step: str) -> bool:
    """Return whether a step is a position in an array, without leading zeros."""
    is_number = step.isascii() and step.isdecimal() and len(step) <= _POSITION_DIGITS_MAX
    return is_number and (step == "0" or step[0] != "0")


def holds(found: object, op: ConditionOp, value: Json) -> bool:
    """Return whether a condition holds for the value at its path, or for `ABSENT`.

    Nothing but `absent` holds for `ABSENT`: an entity that is hidden, that is deleted and that
    never existed are one case.
    """
    if op in {"exists", "absent"}:
        return (found is ABSENT) == (op == "absent")
    if found is ABSENT:
        return False
    if op == "in":
        return isinstance(value, list | tuple) and any(_are_equal(found, each) for each in value)
    if op in {"==", "!="}:
        return _are_equal(found, value) == (op == "==")
    return _is_ordered(found, op, value)


def _is_ordered(found: object, op: ConditionOp, value: Json) -> bool:
    are_numbers = type(found) in _NUMBERS and type(value) in _NUMBERS  # a bool is no number
    if not are_numbers and not (type(found) is str and type(value) is str):
        return False
    low: Json = found
    if op == "<":
        return bool(low < value)
    if op == "<=":
        return bool(low <= value)
    return bool(low > value if op == ">" else low >= value)


def _are_equal(found: object, value: Json) -> bool:
    """Return whether two values are the same JSON; `1` and `1.0` are the same number.

    O(size of the smaller one): a large entity costs no more than the value that it is compared to.
    """
    if isinstance(found, Mapping):
        return (
            isinstance(value, Mapping)
            and len(found) == len(value)
            and all(name in found and _are_equal(found[name], value[name]) for name in value)
        )
    if isinstance(found, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(found) == len(value)
            and all(map(_are_equal, found, value))
        )
    are_numbers = type(found) in _NUMBERS and type(value) in _NUMBERS
    return (are_numbers or type(found) is type(value)) and found == value


def steps_of(path: str | Sequence[str]) -> list[str]:
    """Return the steps of a path: of a text such as `world.objects/lamp/uses`, or of its steps.

    In a text, `~1` stands for a `/` inside of a name and `~0` for a `~`, as in a JSON pointer.

    Raises:
        ValueError: It has not 2 to 8 steps, or one of them is no text, or is empty.
    """
    if isinstance(path, str):
        path = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
    given: object = path  # also from a program without types
    steps: list[str] = list(given) if isinstance(given, Sequence) else []
    if not PATH_STEPS_MIN <= len(steps) <= PATH_STEPS_MAX or not all(map(_is_name, steps)):
        raise ValueError(
            "a path must be collection/entity or collection/entity/field, of at most "
            f"{PATH_STEPS_MAX} steps, got {path!r}"
        )
    return steps


def _is_name(step: object) -> bool:
    return isinstance(step, str) and step != ""


def path_text(steps: Sequence[str]) -> str:
    """Return a path as text, such as `world.objects/lamp/uses`; the inverse of `steps_of`."""
    return pointer(steps)[1:]


def if_unchanged(state: Entities, paths: Iterable[str | Sequence[str]]) -> list[Condition]:
    """Return the conditions that values have not changed since a view, or are still absent.

    Args:
        state: State of the agent's view.
        paths: Paths of the values, as text or as steps.

    Raises:
        ValueError: A path is invalid or misspelled, or there are not 1 to 16 of them.
    """
    if isinstance(paths, str):
        raise ValueError(f"if_unchanged must be a list of paths, got the text {paths!r}")
    conditions = [_unchanged(state, steps_of(path)) for path in paths]
    if not 0 < len(conditions) <= CONDITIONS_MAX:
        raise ValueError(
            f"if_unchanged must have 1 to {CONDITIONS_MAX} paths, got {len(conditions)}"
        )
    return conditions


def _unchanged(state: Entities, steps: list[str]) -> Condition:
    collection, entity, *rest = steps
    value = value_at(state.get(collection, {}).get(entity), rest)
    if value is ABSENT:
        if nearby := _misspelled(state, steps):
            raise ValueError(
                f"{path_text(steps)} is not in the view; did you mean {nearby}? A value that must "
                "stay absent under a similar name is a condition of `expect`, with op 'absent'"
            )
        return {"path": steps, "op": "absent"}
    return {"path": steps, "op": "==", "value": thaw(value)}


def _misspelled(state: Entities, steps: list[str]) -> str:
    """Return the path with the nearest collection or field; empty if no misspelling is likely.

    Names of entities, keys inside of fields, and names with digits are not compared: similar ones
    are often different names.
    """
    collection, entity, *rest = steps
    if collection not in state:
        position, known = 0, iter(state)
    elif rest and entity in state[collection] and rest[0] not in state[collection][entity]:
        position, known = 2, iter(state[collection][entity])
    else:
        return ""
    names = [name for name in known if not any(map(str.isdecimal, name))]
    nearby = nearest(steps[position], names, 1, similar=_MISSPELLED)
    if not nearby or any(map(str.isdecimal, steps[position])):
        return ""
    return path_text([*steps[:position], *nearby, *steps[position + 1 :]])
