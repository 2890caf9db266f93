"""Check the names of kinds in the settings of a world and of its agents.

A quota or a permission of a name that no kind has would have no effect: it is refused when the
world is opened or the agent is registered. Names that a log has already stay in force, because its
records are folded as they are; they are reported instead.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.kernel.plugin.registry import Registry
from placet.schemas.config import AGENT_WORK, ALL_KINDS, WORLD_WORK, KernelConfig
from placet.schemas.errors import SettingError
from placet.schemas.name_suggestions import did_you_mean, require_known

QUOTA_KEYS: Final = (ALL_KINDS, AGENT_WORK, WORLD_WORK)
"""Keys of quotas that are no kinds."""


def require_kinds(
    kinds: Collection[str], names: Iterable[str], setting: str, recorded: Collection[str] = ()
) -> None:
    """Check that the names in a setting are kinds, or names that the log has in it already.

    Args:
        kinds: Names of the kinds; of quotas, the keys that are no kinds too.
        names: The names in the setting.
        setting: Name of the setting, for the message.
        recorded: Names that the log has in this setting.

    Raises:
        ValueError: A name is unknown; the message suggests the nearest kind.
    """
    for name in names:
        if name not in recorded:
            require_known(name, kinds, f"{setting}: there is no kind")


def require_known_settings(
    registry: Registry, config: KernelConfig, recorded: GateSettings | None, *, has_own: bool
) -> None:
    """Check the names of kinds in the configuration of a world.

    Args:
        registry: The kinds.
        config: The configuration.
        recorded: Gate settings of the log; None for a new world.
        has_own: The effect validator takes permissions, and may define further names.

    Raises:
        SettingError: A quota or a permission is of no kind, and not in the log.
    """
    before = () if recorded is None else recorded.quotas
    permitted = None if recorded is None else recorded.default_permissions
    try:
        require_kinds((*registry.kinds, *QUOTA_KEYS), config.quotas, "quotas", before)
        if not has_own:
            names = sorted(config.default_permissions or ())
            require_kinds(registry.kinds, names, "default_permissions", permitted or ())
    except ValueError as error:
        raise SettingError(str(error)) from None


def require_effect(registry: Registry, ledger: Ledger, effect: str) -> None:
    """Check that a kind of effect is declared by a kind of intent, or is one that the log has.

    Raises:
        ValueError: It is not; the message suggests the nearest one.
    """
    recorded = {*ledger.executors, *(pending[0] for pending in ledger.outbox.values())}
    if effect and effect not in recorded:
        declared = sorted({name for kind in registry for name in kind.effects})
        require_known(effect, declared, "no kind of intent declares the effect")


def idle_names(registry: Registry, ledger: Ledger, *, has_own: bool) -> tuple[str, ...]:
    """Return a sentence for each recorded quota and permission that no kind of a world has.

    O(agents). A name that several agents have is listed once.

    Args:
        registry: The kinds.
        ledger: The ledger, as folded from the log.
        has_own: As for `require_known_settings`: permissions are not examined then.
    """
    kinds = registry.kinds
    sentences: dict[str, None] = {}
    for setting, name in _names_of(ledger, has_own=has_own):
        if name not in kinds and name not in QUOTA_KEYS:
            hint = did_you_mean(name, kinds)
            sentences[
                f"the log has {name!r} among the {setting}, which is no kind of this world and has "
                f"no effect; {hint}"
            ] = None
    return tuple(sentences)


def _names_of(ledger: Ledger, *, has_own: bool) -> Iterator[tuple[str, str]]:
    """Yield the setting and each name of the quotas and permissions in a ledger."""
    policy, agents = ledger.policy, ledger.agents.values()
    yield from (("quotas", name) for name in policy.quotas)
    yield from (("quotas of agents", name) for agent in agents for name in agent.quotas or ())
    if has_own:
        return
    yield from (("default permissions", name) for name in sorted(policy.default_permissions or ()))
    for agent in agents:
        yield from (("permissions of agents", name) for name in sorted(agent.permissions or ()))
