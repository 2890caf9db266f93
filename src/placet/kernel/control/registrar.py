"""Births and deaths: agents that the rules of a batch or of a tick register and remove.

A draft calls it. The hooks of the domains write into the same draft, so the agent and its state are
undone with the batch. The ledger changes only when the record of the batch is applied: until then
the agent is in `Draft.agents`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from placet.kernel.context import GateContext
from placet.kernel.control.attributes import Attributes, require_read
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.schedule import batches_of
from placet.kernel.plugin.domain import Domain, RuleRefusal, refuse
from placet.kernel.state.draft_errors import AgentRefused
from placet.schemas.codec import Json, freeze, thaw
from placet.schemas.config import AGENT_WORK, WORLD_WORK, Quota
from placet.schemas.errors import AgentError, ValidationError
from placet.schemas.identity import RESERVED_IDS
from placet.schemas.json_value import InvalidJsonValue, format_value, to_json_value
from placet.schemas.limits import AGENT_CHANGE_WORK, Limits
from placet.schemas.log.changes import AgentChange
from placet.schemas.names import name_fault

_PRIORITY_MAX: Final = 100


class Registrar:
    """Registers and removes agents within the draft of one world."""

    __slots__ = ("_context", "_is_in_hook")

    def __init__(self, context: GateContext) -> None:
        self._context = context
        self._is_in_hook = False

    @property
    def _ledger(self) -> Ledger:
        return self._context.ledger

    def register(self, agent_id: str, cohort: str | None, attributes: Mapping[str, Json]) -> None:
        """Run `on_register` of the domains in the name of a new agent, and note the agent.

        Raises:
            AgentRefused: The name is taken or invalid, there are too many agents, or a domain
                refuses the agent.
            AgentError: The draft is of a hook that must not register.
            ValidationError: An attribute is not plain JSON, or its name is misspelled.
            ValueError: The cohort is no valid name.
        """
        self._require_place("register")
        if cohort is not None and (fault := name_fault(cohort)):
            raise ValueError(f"the cohort {fault}")
        self._require_free_name(agent_id)
        name = str.__str__(agent_id)  # an Enum member would be read back as a plain string
        policy = self._ledger.policy
        frozen = freeze(plain_fields(attributes, policy.limits))
        kinds = policy.default_permissions
        permissions = None if kinds is None else sorted(kinds)
        draft, domains = self._context.transaction, self._context.registry.concerned(name)
        sought: set[str] = set()

        def hook(domain: Domain) -> None:
            given = Attributes(thaw(frozen), sought)
            returned: object = domain.on_register(draft, name, given)
            if isinstance(returned, RuleRefusal):
                raise AgentRefused(returned, returned.message, domain.name)
            if returned is not None:
                shown = format_value(returned)
                raise TypeError(
                    f"on_register of {domain.name} must return None or refuse(code, message), "
                    f"got {shown}"
                )

        check = partial(require_read, frozen, sought, domains)
        self._run(AgentChange(name, False, cohort, permissions, frozen), hook, check, by=name)

    def remove(self, agent_id: object) -> None:
        """Run `on_remove` of the domains for an agent, and note that it is removed.

        Raises:
            AgentRefused: There is no such agent.
            AgentError: The draft is of a hook that must not remove.
        """
        self._require_place("remove")
        draft = self._context.transaction
        if not isinstance(agent_id, str) or not self._is_registered(agent_id):
            raise _refused("agent_unknown", f"agent {agent_id!a:.200} is not registered")
        name = str.__str__(agent_id)
        agent = self._ledger.agents.get(name)
        if agent is not None and agent.is_member:
            what = f"agent {name!r} is a member of a population, and is not removed"
            raise _refused("agent_is_member", f"{what}; suspend it")

        def hook(domain: Domain) -> None:
            domain.on_remove(draft, name)

        self._run(AgentChange(name, is_removed=True), hook, by=draft.agent_id)

    def _run(
        self,
        change: AgentChange,
        hook: Callable[[Domain], None],
        check: Callable[[], None] | None = None,
        *,
        by: str,
    ) -> None:
        """Run a hook of each domain that the agent concerns, and a check after the last.

        All of the hooks are undone if one of them or the check raises.
        """
        draft, registry = self._context.transaction, self._context.registry
        draft.charge(AGENT_CHANGE_WORK)
        mark, since, agent_id = draft.mark_here(), draft.writes_count, draft.agent_id
        columns, draft.column_hook = draft.column_hook, None
        self._is_in_hook = True
        draft.act_as(by)
        try:
            for domain in registry.concerned(change.agent_id):
                first = draft.writes_count
                hook(domain)
                registry.require_own_writes(domain, draft, first)
            if check is not None:
                check()
        except BaseException:
            draft.undo(mark)
            raise
        finally:
            self._is_in_hook, draft.column_hook = False, columns
            draft.act_as(agent_id)
        draft.note_agent(change, since)

    def _require_place(self, method: str) -> None:
        """Check that a rule, `on_batch` or `on_tick` calls.

        Raises:
            AgentError: It is another hook.
        """
        if self._is_in_hook or not self._context.transaction.may_change_agents:
            raise AgentError(
                f"draft.{method} is for the rule of a kind, on_batch and on_tick; another hook "
                "cannot register or remove agents"
            )

    def _require_free_name(self, agent_id: object) -> None:
        """Check that a new agent may have this name, and that there is room for it.

        Raises:
            AgentRefused: It may not, or there is none.
        """
        ledger, draft = self._ledger, self._context.transaction
        fault = name_fault(agent_id)
        if fault or agent_id in RESERVED_IDS:
            fault = fault or f"must not be one of {sorted(RESERVED_IDS)}, got {agent_id!r}"
            raise _refused("agent_name_invalid", f"an agent_id {fault}")
        name = str(agent_id)
        table = self._context.state.table_of(name)
        if table is not None:
            what = f"agent {name!r} has the name of a row of the table {table!r}"
            raise _refused("agent_exists", f"{what}; choose another name")
        if self._is_registered(name):
            raise _refused("agent_exists", f"agent {name!r} is registered; choose another name")
        if name in ledger.agents and batches_of(ledger, name):
            raise _refused(
                "agent_exists",
                f"agent {name!r} is removed by this batch and has scheduled batches, which are "
                "refused after it; register it in a later batch",
            )
        limit = ledger.policy.limits.agents_max
        if len(ledger.agents) + draft.born >= limit:
            raise _refused("too_many_agents", no_room(name, limit))

    def _is_registered(self, agent_id: str) -> bool:
        is_removed = self._context.transaction.fates.get(agent_id)
        return agent_id in self._ledger.agents if is_removed is None else not is_removed


def plain_fields(
    fields: Mapping[str, Json], limits: Limits, what: str = "attributes"
) -> dict[str, Json]:
    """Return the attributes of a registration, or the values of a patch, as plain JSON.

    Raises:
        ValidationError: They are not plain JSON, or exceed the limits of a payload; the message
            begins with `what`.
    """
    try:
        plain: dict[str, Json] = to_json_value(
            fields, limits.payload_depth_max, limits.payload_bytes_max
        )
    except InvalidJsonValue as error:
        raise ValidationError(f"{what} must be plain JSON: {error} at {error.at or '/'}") from None
    return plain


def require_priority(priority_max: int) -> None:
    """Check the highest priority of an agent, or of the members of a population.

    Raises:
        ValueError: It is no int in 0..100.
    """
    if type(priority_max) is not int or not 0 <= priority_max <= _PRIORITY_MAX:
        raise ValueError(f"priority_max must be an int in 0..100, got {priority_max!r}")


def own_quotas(name: str, quotas: Mapping[str, Mapping[str, object]]) -> dict[str, tuple[int, int]]:
    """Return the quotas of an agent, or of each member of a population, as a record has them.

    Raises:
        ValueError: One is invalid, or is of work.
    """
    if AGENT_WORK in quotas or WORLD_WORK in quotas:
        raise ValueError(
            f"{name!r} cannot have a separate quota of work; set {AGENT_WORK!r} among "
            "the quotas of the world, which limits each agent"
        )
    return {
        kind: (quota.interval_ns, quota.burst)
        for kind, quota in ((k, Quota.of(v)) for k, v in quotas.items())
    }


def no_room(agent_id: object, agents_max: int) -> str:
    """Return the message for a new agent in a world that has as many agents as it may."""
    return (
        f"agent {agent_id!r} does not fit: {agents_max} agents are registered, which is the limit "
        "`agents_max`; remove one or raise it"
    )


def _refused(code: str, message: str) -> AgentRefused:
    return AgentRefused(refuse(code, message), message)
