"""`placet config`: the effective configuration of a server, and the source of each value."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from placet.cli.terminal import Output, with_json
from placet.cli.world_options import SetOption
from placet.schemas.codec import Json, to_json
from placet.schemas.config import Leases
from placet.server.settings import Given, ServerSettings, load_settings, parse_assignment

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="TOML file. Default: placet.toml in this folder, if any."
    ),
]


@with_json
def config(file: ConfigOption = None, assignments: SetOption = None) -> Output:
    """Print the configuration of `placet serve`.

    The output is TOML, with the source of each value, and can be used as the file. Sources in the
    order of precedence: arguments, the environment (PLACET_STORE, PLACET_SERVE_PORT, ...), the
    file, the log in the store, defaults.
    """
    settings = read_settings(file, assignments)
    settings.make_domains()
    values = {key: _plain(value) for key, value in settings.values()}
    return Output({"settings": values, "sources": dict(settings.sources)}, _lines(settings))


def read_settings(
    file: Path | None, assignments: Iterable[str] | None, **arguments: Json
) -> ServerSettings:
    """Read the configuration from a command's options, the environment, the file and the log.

    Args:
        file: Path of the file (`--config`).
        assignments: Texts `key=value` (`--set`).
        **arguments: Values of other options, by key with `__` for the dot; None is not set.

    Raises:
        SettingsError: A setting is invalid.
    """
    options = dict(parse_assignment(text) for text in assignments or ())
    for name, value in arguments.items():
        if value is not None:
            key = name.replace("__", ".")
            options[key] = Given(value, "--" + key.rpartition(".")[2].replace("_", "-"))
    return load_settings(file, arguments=options)


def _lines(settings: ServerSettings) -> Iterable[str]:
    section = ""
    for key, value in settings.values():
        head, _, name = key.rpartition(".")
        if key == "settings":
            head, name = "settings", ""
        if head != section:
            section = head
            yield ""
            yield f"[{section}]"
        if name:
            yield _line(name, value, settings.sources.get(key))
    for name, value in settings.settings.items():
        yield _line(name, value, settings.sources.get("settings"))


def _line(name: str, value: Json, source: str | None) -> str:
    mark = f"  # {source}" if source else ""
    if value is None:
        return f'{name} = "none"{mark}'
    return f"{name} = {_toml(_plain(value))}{mark}"


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Leases):
        return asdict(value)
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def _toml(value: Json) -> str:
    """Write a value; TOML's strings, numbers, booleans and arrays of them are JSON's."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml(name)} = {_toml(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return to_json(value).decode()
