"""Reads the table of a scenario from a TOML file, and replaces values in it by dotted keys.

Every error names the file, the key, the expected and the given value, and the remedy.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from placet.scenarios.values import AgentCohort, ColumnPopulation, ObjectSort, ScenarioError
from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, DocumentTooLarge, parse_toml
from placet.schemas.name_suggestions import did_you_mean, nearest
from placet.stores.documents import read_document

ENTRIES: Final[Mapping[str | int, type]] = {
    "agents": AgentCohort,
    "objects": ObjectSort,
    "populations": ColumnPopulation,
}
"""Tables of a scenario whose keys are names of entries."""

_ENDING: Final = ".toml"
_BUNDLED: Final = "placet.scenarios.builtin"


def bundled() -> tuple[str, ...]:
    """Return the names of the scenarios in the package."""
    names = (entry.name for entry in files(_BUNDLED).iterdir())
    return tuple(sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING)))


def read_table(scenario: str | Path) -> tuple[str, dict[str, Json]]:
    """Return the origin of a scenario, for messages, and the table of its TOML file.

    Raises:
        ScenarioError: There is no such scenario, or it is not TOML.
    """
    source, text = _read(scenario)
    try:
        return source, parse_toml(text)
    except DocumentTooLarge as error:
        raise ScenarioError(source, "", str(error)) from None
    except DocumentError as error:
        raise ScenarioError(source, "", f"this is not TOML: {error}") from None


def _read(scenario: str | Path) -> tuple[str, bytes]:
    if isinstance(scenario, str) and scenario in bundled():
        entry = files(_BUNDLED).joinpath(scenario + _ENDING)
        return scenario, entry.read_bytes()
    path = Path(scenario)
    try:
        return str(path), read_document(path)
    except OSError as error:
        problem = (
            f"it is no bundled scenario ({', '.join(bundled())}), and no file that can be read: "
            f"{error.strerror}"
        )
        near = nearest(str(scenario), bundled(), 1)
        if near:
            problem += f"; did you mean {near[0]!r}?"
        raise ScenarioError(str(path), "", problem) from None


def split_override(override: str) -> tuple[list[str], str]:
    """Split an override into its path and the text of its value.

    Raises:
        ScenarioError: It is not `key=value`.
    """
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        problem = "expected key=value, such as agents.folk.count=20"
        raise ScenarioError(f"--set {override}", "", problem)
    return path, text


def override_value(raw: dict[str, Json], override: str, known: Sequence[str]) -> None:
    """Replace one value of a scenario's table by an override `key=value`, in place.

    Raises:
        ScenarioError: It is not `key=value`, or no scenario has the key.
    """
    path, text = split_override(override)
    source = f"--set {override}"
    set_value(raw, path, lambda before: parse_value(text.strip(), before, source), source, known)


def set_value(
    raw: dict[str, Json],
    path: Sequence[str],
    make: Callable[[Json], Json],
    source: str,
    known: Sequence[str],
) -> None:
    """Replace one value of a scenario's table, in place.

    Args:
        raw: The table.
        path: Keys from the outermost table to the value; tables that are missing are made.
        make: Called with the value before, None if there was none; returns the value.
        source: Origin of the value, for messages.
        known: The keys of a scenario.

    Raises:
        ScenarioError: No scenario has the key, or this one has no such agents or objects.
    """
    _check_path(raw, path, source, known)
    table = raw
    for step in path[:-1]:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise ScenarioError(source, "", f"{step!r} is a value and holds no keys; set it whole")
    table[path[-1]] = make(table.get(path[-1]))


def _check_path(
    raw: Mapping[str, Json], path: Sequence[str], source: str, known: Sequence[str]
) -> None:
    """Refuse keys that no scenario has, and entries of `ENTRIES` that this one lacks."""
    if path[0] not in known:
        problem = f"a scenario has no key {path[0]!r}; {did_you_mean(path[0], known)}"
        if len(path) == 1 and not nearest(path[0], known):
            problem += f". A setting of its domain is set by settings.{path[0]}"
        raise ScenarioError(source, "", problem)
    table = raw.get(path[0], {})
    names = list(table) if isinstance(table, dict) else []
    if path[0] in ENTRIES and (len(path) == 1 or path[1] not in names):
        name = path[1] if len(path) > 1 else ""
        problem = f"there is no entry {name!r} in {path[0]}; {did_you_mean(name, names)}"
        raise ScenarioError(source, "", problem)


def parse_value(text: str, before: Json, source: str) -> Json:
    """Parse a TOML value; invalid TOML is text, and a key that held text keeps text.

    Args:
        text: The value.
        before: The value before; None if there was none.
        source: Origin of the value, for messages.

    Raises:
        ScenarioError: The text is no TOML, and the value before is a number, true or false.
    """
    if isinstance(before, str) and not text.startswith(('"', "'")):
        return text
    try:
        table = parse_toml(f"value = {text}")
    except DocumentTooLarge as error:
        raise ScenarioError(source, "", str(error)) from None
    except DocumentError:
        if isinstance(before, bool | int | float):
            kind = "true or false" if isinstance(before, bool) else "a number"
            problem = f"expected {kind} as before, {before!r}, got {text!r}; quote it for a text"
            raise ScenarioError(source, "", problem) from None
        return text
    return table["value"] if len(table) == 1 else text
