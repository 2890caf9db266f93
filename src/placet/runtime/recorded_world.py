"""Reads from a log how its world is continued: domains and settings, name, seed, quotas, limits.

A program that opens a log with anything else changes the world, which is recorded; so commands
begin with what this returns, and list what differs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.reader import config_from
from placet.kernel.ledger.ledger import GateSettings
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import Rules, rules_in
from placet.plugins.domains import remake
from placet.runtime.config import OrchestratorConfig
from placet.schemas.codec import Json, canonical, to_json
from placet.schemas.config import KernelConfig
from placet.schemas.limits import Limits
from placet.schemas.log.record import Tick
from placet.stores.append_rules import NoWorldError
from placet.stores.snapshots.recovery import decode, recover
from placet.stores.url import is_lasting, open_event_log

SESSION: Final = "session"
"""The domain that records conversations beside another."""

_VALUE_CHARS_MAX: Final = 80
_TICK_WITHIN: Final = 4_096
"""Number of last records in which a stepped log has a tick: each step ends with one."""

_IDENTITY: Final = ("world", "seed")
_NOT_RECORDED: Final = ("limits", "on_rule_error")
RECORDED: Final = tuple(one.name for one in fields(KernelConfig) if one.name not in _NOT_RECORDED)
"""The fields of a configuration that a log has, besides the limits."""

LIMITS: Final = tuple(field.name for field in fields(Limits))


class Override(NamedTuple):
    """A value in a recorded world's configuration that a new configuration changes.

    Attributes:
        key: Key of the value; `settings.max_step` for a setting of the domain.
        recorded: The value in the log.
        value: The new value.
    """

    key: str
    recorded: Json
    value: Json

    def __str__(self) -> str:
        return f"{self.key} is {self.shown} from now on, it was {self.shown_recorded}"

    @property
    def shown(self) -> str:
        """The new value as JSON, shortened."""
        return _shown(self.value)

    @property
    def shown_recorded(self) -> str:
        """The value in the log as JSON, shortened."""
        return _shown(self.recorded)


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """The domains and the configuration with which a log was last opened.

    Attributes:
        store: The store of the log.
        rules: The domains that decided last, and their settings.
        config: Name, seed, quotas, limits and the other gate settings.
        ticks: Number of ticks in the log.
        is_stepped: Time advanced by steps, and not by the machine's clock.
        origin: How the world was started, as `OrchestratorConfig.origin`.
    """

    store: str
    rules: Rules
    config: KernelConfig
    ticks: int
    is_stepped: bool = False
    origin: Mapping[str, Json] = field(default_factory=dict)

    @property
    def domain_names(self) -> list[str]:
        """The names of the domains, in their order."""
        return [name for name, _ in self.rules.domains]

    @property
    def main_domain(self) -> str:
        """The name of the first domain other than `session`, which records conversations."""
        names = self.domain_names
        return next((name for name in names if name != SESSION), names[0])

    @property
    def settings(self) -> Mapping[str, Json]:
        """The settings of the main domain; empty if the log has none."""
        return self.rules.settings.get(self.main_domain, {})

    def domains(
        self, given: Sequence[str] = (), settings: Mapping[str, Json] | None = None
    ) -> list[Domain]:
        """Recreate the domains of the log.

        Args:
            given: Domains to use instead of the domains of the log, as for `remake`.
            settings: Settings of the main domain that replace those in the log; None for none.

        Raises:
            DomainNotFound, DomainNotRemade: A domain cannot be created.
        """
        rules = self.rules
        if settings is not None and settings != self.settings:
            merged = {**self.settings, **settings}
            rules = rules._replace(settings={**rules.settings, self.main_domain: merged})
        return remake(rules, given)

    def overrides(self, config: OrchestratorConfig, domains: Sequence[Domain]) -> list[Override]:
        """Return the values of a configuration that differ from the log.

        Values that are written differently and mean the same are equal.

        Args:
            config: The configuration of the world.
            domains: Domains of the world.
        """
        was, now = GateSettings.of(self.config), GateSettings.of(config.kernel_config())
        return [
            *(
                Override(f"settings.{name}", old, new)
                for domain, settings in Registry(domains).settings.items()
                for name, old, new in _differing(self.rules.settings.get(domain, {}), settings)
            ),
            *(
                Override(name, getattr(self.config, name), getattr(config, name))
                for name in RECORDED
                if name not in _IDENTITY and getattr(was, name) != getattr(now, name)
            ),
            *(
                Override(f"limits.{name}", old, new)
                for name, old, new in _differing(asdict(was.limits), asdict(now.limits))
            ),
            *self._other_clock(config),
        ]

    def _other_clock(self, config: OrchestratorConfig) -> list[Override]:
        if self.is_stepped and config.clock == "realtime" and not config.read_only:
            return [Override("clock", "stepped", config.clock)]
        return []

    def continued_by(self, config: OrchestratorConfig) -> OrchestratorConfig:
        """Return a configuration in which name, seed, quotas and limits are those of the log.

        Args:
            config: The configuration; other values, such as the clock, are kept.
        """
        recorded = {name: getattr(self.config, name) for name in RECORDED}
        limits = self.config.limits
        return replace(
            config, **recorded, limits=limits, mailbox_batches_max=None, mailbox_bytes_max=None
        )


def _shown(value: Json) -> str:
    plain = sorted(value) if isinstance(value, frozenset) else value
    text = to_json(plain).decode()
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def _differing(
    old: Mapping[str, Json], new: Mapping[str, Json]
) -> Iterator[tuple[str, Json, Json]]:
    for name in {**old, **new}:
        if canonical(old.get(name)) != canonical(new.get(name)):
            yield name, old.get(name), new.get(name)


def recorded_world(store: str) -> RecordedWorld | None:
    """Read the domains and the configuration of a store's world; None if it has no world yet.

    O(state + the log after its newest snapshot). It only reads, and creates no file.

    Args:
        store: URL of the store, as `OrchestratorConfig.store`.

    Raises:
        StoreError: The log cannot be read, or is damaged.
    """
    log = open_event_log(store)
    try:
        if not is_lasting(log):
            return None
        past = recover(log).past
        is_stepped = _has_ticks(log)
    except NoWorldError:
        return None
    finally:
        log.close()
    config = config_from(past)
    if past.header is None or config is None:
        return None
    rules, header = rules_in(past.header), past.header
    return RecordedWorld(store, rules, config, past.ledger.tick, is_stepped, header.origin)


def _has_ticks(log: EventLog) -> bool:
    """Return whether there is a tick among the last records of a log."""
    first = max(log.start().record, log.count() - _TICK_WITHIN)
    return any(isinstance(decode(data, at), Tick) for at, data in log.read(first))
