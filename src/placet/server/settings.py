"""The configuration of a world and its server: defaults, log, TOML file, environment, arguments.

Each later one wins; the log is that of the store, if there is one, with the settings of its world.
Every key has one name: `store`, `limits.batch_intents_max`, `serve.port`; in the environment it is
`PLACET_` and the key in capitals, with `_` for the dot. Unknown keys are refused, and every value
has the name of its source.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from shlex import quote
from types import MappingProxyType, UnionType
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import find_domain, make_domain
from placet.plugins.setting_types import SettingTypeError, typed_settings
from placet.runtime.config import OrchestratorConfig
from placet.runtime.recorded_world import LIMITS, RECORDED, SESSION, RecordedWorld, recorded_world
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig, Leases
from placet.schemas.documents import DocumentError, DocumentTooLarge, parse_toml
from placet.schemas.errors import DomainError, PlacetError
from placet.schemas.limits import HttpLimits, Limits
from placet.schemas.name_suggestions import did_you_mean
from placet.server.approvals_config import ApprovalsConfig
from placet.server.config import ServeConfig
from placet.server.model_config import ModelConfig
from placet.server.people import people_of
from placet.stores.documents import read_toml

_SETTING: Final = "settings."
MODEL: Final = "model."
"""Prefix of the keys of the language model of conversations."""

APPROVALS: Final = "approvals."
"""Prefix of the keys of what is told of new requests for approval."""

PEOPLE: Final = "people"
"""The table of the persons who decide about requests for approval."""

VARIABLE_PREFIX: Final = "PLACET_"
FILE_NAME: Final = "placet.toml"
_NOTHING: Final = "none"
"""TOML has no null: this word stands for it where nothing is a value."""


_NAME: Final = MODEL + "name"
_OF_ONE_MODEL: Final = frozenset({f"{MODEL}{key}" for key in ("base_url", "api_key_env", "price")})


class SettingsError(PlacetError):
    """The error of an invalid setting; the message names the setting and its source."""


class Given(NamedTuple):
    """A value of a setting, and its source.

    Attributes:
        value: The value, not checked yet.
        source: Where it was set: `placet.toml`, `PLACET_STORE`, `--store`; empty for a default.
    """

    value: Json
    source: str


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The whole configuration of a server: domain, world, server, and the source of each value.

    Attributes:
        domain: Name of an installed domain, or `module:attribute`.
        settings: Settings of the domain.
        world: Configuration of the world.
        serve: Configuration of the server.
        sources: Source of each key that is not a default.
        recorded: The world recorded in the store; None if the store has no world.
    """

    domain: str
    settings: Mapping[str, Json]
    world: OrchestratorConfig
    serve: ServeConfig
    sources: Mapping[str, str]
    recorded: RecordedWorld | None = None

    def make_domains(self, *, sessions: bool = False) -> list[Domain]:
        """Create the domains: those of the log with its settings, or else the configured one.

        Args:
            sessions: Add domain `session`, for conversations, even if `serve.sessions` is false.

        Raises:
            SettingsError: The domain rejects its settings, or the log lacks the domain `session`.
            DomainNotFound, DomainNotRemade: There is no such domain, or the log has others.
        """
        sessions = sessions or self.serve.sessions
        recorded = self.recorded
        if recorded is None:
            domain = self._make_domain()
            return [domain, find_domain(SESSION)()] if sessions else [domain]
        if sessions and SESSION not in recorded.domain_names:
            raise SettingsError(
                f"{recorded.store} was made without the domain {SESSION!r}, so it "
                "cannot keep a conversation; make another log with `placet chat --store` or "
                "`placet serve --sessions --store`"
            )
        main = recorded.main_domain
        given = (self.domain,) if "domain" in self.sources and self.domain != main else ()
        if self.settings.keys() - recorded.settings.keys():
            self._require_known(find_domain(self.domain))
        return recorded.domains(given, self.settings)

    def _make_domain(self) -> Domain:
        factory = find_domain(self.domain)
        self._require_known(factory)
        try:
            return make_domain(self.domain, factory, typed_settings(factory, self.settings))
        except SettingTypeError as error:
            source = self.sources.get(_SETTING + error.name, f"domain {self.domain!r}")
            raise SettingsError(f"{source}: {_SETTING}{error.name}: {error}") from error
        except DomainError as error:
            raise SettingsError(str(error)) from error
        except (TypeError, ValueError) as error:
            raise SettingsError(f"settings of domain {self.domain!r}: {error}") from error

    def _require_known(self, factory: Callable[..., object]) -> None:
        known = list(signature(factory).parameters) if self.settings else []
        for name in self.settings:
            if name not in known:
                raise SettingsError(
                    f"domain {self.domain!r} has no setting {name!r}; {did_you_mean(name, known)}"
                )

    def values(self) -> Iterator[tuple[str, Json]]:
        """Yield every key and its value, in the order of the file."""
        world, serve = self.world, self.serve
        yield "domain", self.domain
        yield PEOPLE, {name: {"roles": [*roles]} for name, roles in serve.people.items()}
        # As in `_MODELS`.
        parts = (world, world.limits, serve, serve.limits, serve.model, serve.approvals)
        for (section, hints), part in zip(_HINTS.items(), parts, strict=True):
            for name in hints:
                yield section + name, getattr(part, name)
        yield "settings", dict(self.settings)


_LEFT_OUT: Final = frozenset({"limits", "model", "people", "approvals", "origin"})
"""Sections of their own, and what a program sets that knows what it began."""

_MODELS: Final[dict[str, type[Any]]] = {
    "": OrchestratorConfig,
    "limits.": Limits,
    "serve.": ServeConfig,
    "serve.limits.": HttpLimits,
    MODEL: ModelConfig,
    APPROVALS: ApprovalsConfig,
}


_HINTS: Final = {
    section: {name: of for name, of in get_type_hints(model).items() if name not in _LEFT_OUT}
    for section, model in _MODELS.items()
}
_TYPE_OF: Final[Mapping[str, Any]] = {
    "domain": str,
    "settings": dict,
    PEOPLE: dict,
    **{section + name: of for section, hints in _HINTS.items() for name, of in hints.items()},
}
KEYS: Final = tuple(_TYPE_OF)
"""Every key there is."""

VARIABLE_OF: Final = {key: VARIABLE_PREFIX + key.replace(".", "_").upper() for key in KEYS}
_KEY_OF: Final = {variable: key for key, variable in VARIABLE_OF.items()}


def load_settings(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    arguments: Mapping[str, Given] | None = None,
    has_file: bool = True,
) -> ServerSettings:
    """Read the configuration from the file, the environment, arguments and the store's log.

    Args:
        path: The TOML file; None is `placet.toml` in the current folder, if it exists.
        environ: Environment variables; None for those of the process.
        arguments: Values from the command line, by key.
        has_file: False reads no file.

    Raises:
        SettingsError: A key is unknown or a value invalid; or name or seed differ from the store's
            log.
        StoreError: The store's log cannot be read.
    """
    file: dict[str, Given] = {}
    if has_file and (path is not None or Path(FILE_NAME).is_file()):
        file = _from_file(path or Path(FILE_NAME))
    environment = _from_environment(os.environ if environ is None else environ)
    given = _merged(file, environment, arguments or {})
    store = _plain(given, "store", str)
    return _checked(given, None if store is None else recorded_world(store))


def load_model_config(arguments: Mapping[str, Given]) -> tuple[ModelConfig, Mapping[str, str]]:
    """Read the model of a conversation, and the source of each value, of keys without `model.`.

    Args:
        arguments: Values from the command line, by key. Others are those of the environment
            (`PLACET_MODEL_NAME` ...) and of the section `[model]` of `placet.toml` in the current
            folder; nothing else of them is read.

    Raises:
        SettingsError: A key is unknown or a value invalid.
    """
    file = _from_file(Path(FILE_NAME)) if Path(FILE_NAME).is_file() else {}
    layers = (file, _from_environment(os.environ), arguments)
    for layer in layers:
        _require_keys(layer)
    given = _merged(
        *({key: one for key, one in layer.items() if key.startswith(MODEL)} for layer in layers)
    )
    sources = {key.removeprefix(MODEL): one.source for key, one in given.items()}
    return _make(given, MODEL), sources


def _merged(*layers: Mapping[str, Given]) -> dict[str, Given]:
    """Merge the values of all sources; later ones win.

    Address, key and price of a model are dropped where a later source names another model.

    Raises:
        SettingsError: A key is unknown.
    """
    given: dict[str, Given] = {}
    for layer in layers:
        before, after = given.get(_NAME), layer.get(_NAME)
        if before is not None and after is not None and before.value != after.value:
            given = {key: one for key, one in given.items() if key not in _OF_ONE_MODEL}
        given |= layer
    _require_keys(given)
    for key, (value, source) in given.items():
        if value == _NOTHING and type(None) in get_args(_TYPE_OF.get(key)):
            given[key] = Given(None, source)
    return given


def _require_keys(given: Mapping[str, Given]) -> None:
    """Check that all keys are known.

    Raises:
        SettingsError: One is not; the message names the nearest one.
    """
    for key, one in given.items():
        if not _is_key(key):
            raise SettingsError(f"{one.source}: there is no key {key!r}; {did_you_mean(key, KEYS)}")


def parse_assignment(text: str) -> tuple[str, Given]:
    """Parse the `key=value` of an option `--set` into key and value.

    Raises:
        SettingsError: The text has no `=`, or the key is unknown.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    source = f"--set {key}"
    if not equals:
        raise SettingsError(f"--set {text!r}: expected key=value")
    if not _is_key(key):
        raise SettingsError(f"{source}: there is no such key; {did_you_mean(key, KEYS)}")
    return key, Given(_value(key, value.strip()), source)


def _from_file(path: Path) -> dict[str, Given]:
    try:
        raw = read_toml(path)
    except OSError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror or error}; `placet config > "
            f"{quote(str(path))}` makes a file of settings"
        ) from error
    except DocumentError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    return {key: Given(value, str(path)) for key, value in _flat(raw, "")}


def _flat(table: Mapping[str, Json], prefix: str) -> Iterator[tuple[str, Json]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key + "." in _MODELS:
            yield from _flat(value, key + ".")
        else:
            yield key, value


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    given = {}
    for variable, text in environ.items():
        if not variable.startswith(VARIABLE_PREFIX):
            continue
        key = _KEY_OF.get(variable)
        if key is None:
            hint = did_you_mean(variable, _KEY_OF)
            raise SettingsError(f"the environment has {variable}, which means nothing; {hint}")
        given[key] = Given(_value(key, text), variable)
    return given


def _value(key: str, text: str) -> Json:
    """Read a value from text: TOML, but a text needs no quotes."""
    of = _TYPE_OF.get(key)
    is_optional_text = get_origin(of) is UnionType and str in get_args(of)
    if of is str or is_optional_text or get_origin(of) is Literal:
        return text
    try:
        return parse_toml(f"value = {text}")["value"]
    except DocumentTooLarge as error:
        raise SettingsError(f"{key}: {error}") from None
    except DocumentError:
        return text  # the check of the settings names the fault


def _is_key(key: str) -> bool:
    return key in _TYPE_OF or key.startswith(_SETTING)


def _checked(given: Mapping[str, Given], recorded: RecordedWorld | None) -> ServerSettings:
    base = KernelConfig() if recorded is None else recorded.config
    recorded_values = {} if recorded is None else {name: getattr(base, name) for name in RECORDED}
    limits = _make(given, "limits.", {name: getattr(base.limits, name) for name in LIMITS})
    domain, settings = _plain(given, "domain", str), _domain_settings(given)
    sources = {key: one.source for key, one in given.items()}
    world = _make(given, "", recorded_values, limits=limits)
    if recorded is not None:
        _require_same_world(given, recorded)
        settings = {**recorded.settings, **settings}
        sources = {**_recorded_sources(recorded), **sources}
    serve = _make(
        given,
        "serve.",
        limits=_make(given, "serve.limits."),
        model=_make(given, MODEL),
        people=_people(given),
        approvals=_make(given, APPROVALS),
    )
    return ServerSettings(
        domain=domain or ("world" if recorded is None else recorded.main_domain),
        settings=settings,
        world=world,
        serve=serve,
        sources=sources,
        recorded=recorded,
    )


def _people(given: Mapping[str, Given]) -> dict[str, list[str]]:
    """Return the persons of the table `people`, with their roles."""
    try:
        return people_of(_plain(given, PEOPLE, dict) or {})
    except ValueError as error:
        raise SettingsError(f"{given[PEOPLE].source}: {error}") from error


def _domain_settings(given: Mapping[str, Given]) -> dict[str, Json]:
    """Collect the settings of the domain: the table, then single ones."""
    single = {
        key.removeprefix(_SETTING): one.value for key, one in given.items() if _SETTING in key[:9]
    }
    return {**(_plain(given, "settings", dict) or {}), **single}


def _require_same_world(given: Mapping[str, Given], recorded: RecordedWorld) -> None:
    """Check that the name and the seed are those of the log, if they are given.

    Raises:
        SettingsError: One is another, which only a fork can have.
    """
    config = recorded.config
    for name in ("world", "seed"):
        if name in given and given[name].value != getattr(config, name):
            raise SettingsError(
                f"{given[name].source}: {recorded.store} is of world {config.world!r} with seed "
                f"{config.seed}; leave out {name} to continue it. For another {name}, fork it: "
                f"placet fork {quote(recorded.store)} NEW --{name} {quote(str(given[name].value))}"
            )


def _recorded_sources(recorded: RecordedWorld) -> dict[str, str]:
    """Name the log as the source of each value that is no default."""
    default, config = KernelConfig(), recorded.config
    keys = [n for n in RECORDED if getattr(config, n) != getattr(default, n)]
    keys += [
        f"limits.{n}" for n in LIMITS if getattr(config.limits, n) != getattr(default.limits, n)
    ]
    keys += ["settings"] if recorded.settings else []
    return dict.fromkeys(["domain", *keys], recorded.store)


def _make(
    given: Mapping[str, Given],
    section: str,
    base: Mapping[str, object] = MappingProxyType({}),
    **parts: object,
) -> Any:  # noqa: ANN401  # one of _MODELS
    """Build one section from the given values, else those of the log, and the earlier sections."""
    values = {
        name: _typed(section + name, of, given[section + name])
        for name, of in _HINTS[section].items()
        if section + name in given
    }
    try:
        return _MODELS[section](**{**base, **values}, **parts)
    except ValueError as error:
        sources = {given[section + name].source for name in values}
        raise SettingsError(f"{', '.join(sorted(sources))}: {error}") from error


def _typed(key: str, of: Any, given: Given) -> Any:  # noqa: ANN401  # of a type that is data
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  # 40 ms, if all is default

    value = _in_python(key, given)
    try:
        TypeAdapter(of).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([key, *(str(part) for part in first["loc"] if isinstance(part, str))])
        raise SettingsError(
            f"{given.source}: {where}: {first['msg']}, got {given.value!r}"
        ) from error
    return value  # not converted: an int burst stays an int


def _in_python(key: str, given: Given) -> object:
    """Return a value as the configuration has it: TOML writes a set as an array."""
    value: object = given.value
    if key == "default_permissions" and isinstance(value, list):
        return frozenset(value) if all(isinstance(one, str) for one in value) else value
    if key == "leases" and isinstance(value, dict):
        try:
            return Leases(**value)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{given.source}: leases: {error}") from error
    return value


def _plain(given: Mapping[str, Given], key: str, of: type) -> Any:  # noqa: ANN401  # of `of`, or None
    if key not in given:
        return None
    value, source = given[key]
    if not isinstance(value, of):
        wanted = "a table" if of is dict else "a string"
        raise SettingsError(f"{source}: {key} must be {wanted}, got {value!r}")
    return value
