"""The version of the rules that decided a log, and whether other rules may continue it.

The header names the rules that the log began with. Opening the world with other rules writes a
record, so a reader of the log knows which rules decided which part. Payloads of an older version
of their kind are converted by its upcasters; written records are never rewritten.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from placet.kernel.plugin.domain import overrides
from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import Json
from placet.schemas.errors import DomainError, StoreError
from placet.schemas.log.record import Header, RulesChanged, Scheduled


class Rules(NamedTuple):
    """The deciding rules, as a log describes them.

    Attributes:
        domains: `(name, version)` of each, in order.
        fingerprint: Fingerprint of the registry.
        settings: Domain name -> the settings that rebuild it; without domains that cannot be
            rebuilt.
        kinds: Version of every kind.
        validator: Name of the host's own rule; empty if there is none.
    """

    domains: list[tuple[str, str]]
    fingerprint: str
    settings: dict[str, dict[str, Json]]
    kinds: dict[str, str]
    validator: str

    def __str__(self) -> str:
        names = " and ".join(f"{name} {version}" for name, version in self.domains)
        by = f", with the validator {self.validator}" if self.validator else ""
        return f"{names} ({self.fingerprint[:8]}){by}"


def rules_of(registry: Registry, validator: object = None) -> Rules:
    """Return the rules of a world as it is now.

    Raises:
        DomainError: The host has an effect validator, which would not see the intents of a kind
            with a rule of rows.
    """
    of_rows = [kind.name for kind in registry if kind.rows is not None]
    if validator is not None and of_rows:
        raise DomainError(
            f"the kind {of_rows[0]!r} has a rule of rows, so its world takes no effect_validator: "
            "it would not be called for column batches"
        )
    domains = [(domain.name, domain.version) for domain in registry.domains]
    name = "" if validator is None else validator_name(validator)
    return Rules(domains, registry.fingerprint, registry.settings, registry.versions, name)


def rules_in(record: Header | RulesChanged) -> Rules:
    """Read the rules that a record names."""
    return Rules(*[getattr(record, name) for name in Rules._fields])


def validator_name(validator: object) -> str:
    """Return the name of a host's own rule as `module:Class`."""
    return f"{type(validator).__module__}:{type(validator).__qualname__}"


def require_compatible(then: Rules, scheduled: Iterable[Scheduled], registry: Registry) -> None:
    """Check that a world with today's rules can read every version in a log.

    Args:
        then: The rules that decided last.
        scheduled: Scheduled batches, which may be of versions older than those rules.
        registry: The present registry.

    Raises:
        StoreError: A kind has changed, and has no upcaster for its older payloads.
    """
    versions = set(then.kinds.items()).union(*(record.versions.items() for record in scheduled))
    for name, version in sorted(versions):
        kind = registry.kinds.get(name)
        if kind is not None and not _is_readable(version, registry, name):
            known = ", ".join(sorted(kind.upcasters)) or "none"
            raise StoreError(
                f"the log holds {name} of version {version}, the world is opened with version "
                f"{kind.version}, which has no upcaster from it (it has {known}); give the kind "
                f"upcasters={{{version!r}: ...}}, or open the log with version {version!r}"
            )


def added_domains(then: Iterable[str], registry: Registry) -> frozenset[str]:
    """Return the domains of a registry that may be added to the log of a world.

    Another domain of the world needs them (`Domain.needs`), and they create no state when a world
    is created or an agent is registered, and have no table.

    Args:
        then: Names of the domains of the log.
        registry: The present registry.
    """
    needed = {name for domain in registry.domains for name in domain.needs}
    return frozenset(
        domain.name
        for domain in registry.domains
        if domain.name in needed.difference(then)
        and not domain.tables
        and not any(overrides(domain, hook) for hook in _BEGINNINGS)
    )


_BEGINNINGS: Final = ("on_open", "on_register", "on_populate")


def incompatibility(then: Rules, registry: Registry) -> str | None:
    """Return why rules cannot re-execute the decisions of others; None if they can.

    They can if they are the same, or differ only in payloads that have upcasters and in kinds that
    were added since.
    """
    now = rules_of(registry)
    for name, settings in then.settings.items():
        current = now.settings.get(name, settings)
        if current != settings:
            return f"the settings of {name} were {_shown(settings)} and are {_shown(current)}"
    if then.fingerprint in {now.fingerprint, registry.fingerprint_of(then.kinds)}:
        return None
    if now.domains != then.domains:
        return f"it was decided by {then}, and {now} is given"
    changed = [name for name, version in then.kinds.items() if now.kinds.get(name) != version]
    for name in changed:
        if not _is_readable(then.kinds[name], registry, name):
            return (
                f"{name} had version {then.kinds[name]}, and is "
                f"{now.kinds.get(name, 'not there')} with no upcaster from it"
            )
    if changed:
        return None
    return (
        f"it was decided by {then}, and {now} is given: the payloads differ, though the versions "
        "are the same"
    )


def _is_readable(version: str, registry: Registry, name: str) -> bool:
    kind = registry.kinds.get(name)
    return kind is not None and (kind.version == version or version in kind.upcasters)


def _shown(settings: dict[str, Json], chars_max: int = 200) -> str:
    text = repr(settings)
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"
