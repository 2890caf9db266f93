"""Changes of a world other than batches.

Agents are registered and removed, and time advances (`outbox.py` has executors and effects).
Each change is a record with its own seq, in the same chain. The changes of a domain's hook are
committed with its record, or undone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import asdict, replace

from placet.kernel.arrays.extra import require_numpy
from placet.kernel.arrays.field import Table, spec_of
from placet.kernel.commit.apply_record import apply_record
from placet.kernel.commit.commit import Journal
from placet.kernel.context import GateContext
from placet.kernel.control.attributes import Attributes, require_read
from placet.kernel.control.registrar import (
    Registrar,
    no_room,
    own_quotas,
    plain_fields,
    require_priority,
)
from placet.kernel.gate.domain_rules import DomainRules
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.kernel.plugin.boundary import PluginError, plugin_boundary, short_place_of
from placet.kernel.plugin.domain import Domain, NewPopulation, RuleRefusal, overrides
from placet.kernel.plugin.rules_version import Rules
from placet.kernel.state.transaction import NO_CHANGES, Transaction
from placet.schemas.codec import ENCODE_ERRORS, Json, freeze, thaw
from placet.schemas.config import Quota
from placet.schemas.errors import (
    INTERRUPTS,
    AgentError,
    OwnerError,
    ValidationError,
    describe_error,
)
from placet.schemas.identity import OPERATOR, RESERVED_IDS, SYSTEM, is_identity
from placet.schemas.json_value import format_value
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import (
    FORMAT_VERSION,
    AgentChange,
    AgentChanged,
    Changes,
    Checkpoint,
    Configured,
    ConfiguredWithLeases,
    Header,
    Record,
    Registered,
    RulesChanged,
    TableMade,
    Tick,
    TickWithAgents,
    TickWithColumns,
    agents_of,
    encode_record,
)
from placet.schemas.name_suggestions import nearest
from placet.schemas.names import name_fault, path_part_fault

Hook: TypeAlias = Callable[[], object]
Membership: TypeAlias = tuple[str, list[str] | None, dict[str, tuple[int, int]], int]
"""Owner, permissions, quotas and highest priority of the members of a population."""

R = TypeVar("R", bound=Record)
_WRITING_COLUMNS: Final = frozenset({"on_open", "on_populate", "on_tick", "on_settle"})
_REFUSING: Final = frozenset({"on_register"})
"""Hooks that may return a refusal; `on_patch` is another, and is called elsewhere."""


class Control:
    """The writer of the records that are not about batches. One per kernel."""

    __slots__ = ("_context", "_journal", "_rules")

    def __init__(self, context: GateContext, journal: Journal, rules: DomainRules) -> None:
        self._context = context
        self._journal = journal
        self._rules = rules
        context.transaction.set_registrar(Registrar(context))

    @property
    def _ledger(self) -> Ledger:
        return self._context.ledger

    def begin(self, world: str, seed: int, origin: Mapping[str, Json], rules: Rules) -> Changes:
        """Write the header, the first record of a log, with the domains' initial state; seq 0.

        Returns:
            The initial state.

        Raises:
            ValidationError: An `on_open` raised, or made what no record can hold.
        """
        registry, draft = self._context.registry, self._context.transaction
        if registry.tables:
            require_numpy(f"the world {world!r}")

        def header(changes: Changes) -> Header:
            return Header(
                *(self._journal.prev, 0, 0),
                format_version=FORMAT_VERSION,
                world=world,
                seed=seed,
                changes=_without_tables(changes, self._context.state.tables),
                **rules._asdict(),
                origin=dict(origin),
            )

        hooks = [self.hook_of(domain, "on_open", draft) for domain in registry.domains]
        for table in registry.tables.values():
            if table.rows is not None:  # `on_open` writes it; `make_table` records it
                made = self._table_made(table, table.stem, table.rows, [], None)
                self._state_of(replace(made, seq=0))
        try:
            record, data = self.act("on_open", hooks, header, seq=0)
        except PluginError as fault:
            raise _hook_error(fault) from fault.error
        return self.write(record, data).changes

    def change_rules(self, rules: Rules) -> None:
        """Record that the decisions after this record are made by these rules."""
        self.write(RulesChanged(*self.next_head(), **rules._asdict()))

    def configure(self, policy: GateSettings) -> None:
        """Record gate settings and put them in force for the decisions that follow."""
        record = Configured(
            *(*self.next_head(), policy.staleness_threshold),
            quotas={kind: _pair(quota) for kind, quota in policy.quotas.items()},
            world_quota=None if policy.world_quota is None else _pair(policy.world_quota),
            default_permissions=_sorted(policy.default_permissions),
            limits=policy.limits.recorded(),
        )
        if policy.leases is not None:
            record = ConfiguredWithLeases(**asdict(record), leases=policy.leases)
        self.write(record)
        self._context.state.tombstones_max = self._ledger.policy.limits.tombstones_max

    def register_agent(
        self,
        agent_id: str,
        permissions: Iterable[str] | None,
        owner: str | None,
        priority_max: int,
        quotas: Mapping[str, Mapping[str, object]],
        attributes: Mapping[str, Json],
    ) -> Agent:
        """Register and return a new agent, and run the domains' `on_register`.

        Raises:
            AgentError: A name is not an identity, is reserved, or there are too many agents.
            ValidationError: The attributes are not plain JSON, a domain refused them or raised, or
                its changes do not fit into a record.
            ValueError: The priority or a quota is invalid.
        """
        ledger, draft = self._ledger, self._context.transaction
        agent_id = self._new_name(agent_id)
        require_priority(priority_max)
        own = own_quotas(agent_id, quotas)
        frozen = freeze(plain_fields(attributes, ledger.policy.limits))
        if permissions is None:
            permissions = ledger.policy.default_permissions

        def registered(changes: Changes) -> Registered:
            return Registered(
                *self.next_head(),
                agent_id=agent_id,
                owner=owner or agent_id,
                permissions=_sorted(permissions),
                priority_max=priority_max,
                quotas=own,
                attributes=frozen,
                changes=changes,
            )

        sought: set[str] = set()
        domains = self._context.registry.concerned(agent_id)
        hooks = [  # a copy for each: the record holds the given attributes
            self.hook_of(domain, "on_register", draft, agent_id, Attributes(thaw(frozen), sought))
            for domain in domains
        ]
        hooks.append(partial(require_read, frozen, sought, domains))
        try:
            record, data = self.act("on_register", hooks, registered, agent_id)
        except PluginError as fault:
            raise _hook_error(fault) from fault.error
        self.write(record, data)
        return ledger.agents[agent_id]

    def own_collections(self, agent_id: str, attributes: Mapping[str, Json]) -> frozenset[str]:
        """Return the collections in which `on_register` creates an entity of the agent's name."""
        found: list[str] = []

        def noted(changes: Changes) -> Record:
            found.extend(c.collection for c in changes.entities if c.entity == agent_id)
            raise ValidationError("no agent is registered")

        draft = self._context.transaction
        hooks = [
            self.hook_of(domain, "on_register", draft, agent_id, dict(attributes))
            for domain in self._context.registry.concerned(agent_id)
        ]
        with suppress(PluginError, ValidationError):
            self.act("on_register", hooks, noted, agent_id)
        return frozenset(found)

    def make_table(self, table: Table) -> None:
        """Record a table without agents, with what `on_open` wrote, unless the log has it.

        In a log that has a header, the rows of a new table have their defaults.
        """
        assert table.rows is not None, "a table of agents is made with its population"
        state, columns = self._context.state, []
        if table.name in state.tables:
            if state.tables[table.name].seq:
                return
            columns = state.tables[table.name].contents()
            state.drop_table(table.name)
        rows_max = self._ledger.policy.limits.column_rows_max
        if table.rows > rows_max:
            raise ValidationError(
                f"the table {table.name!r} has {table.rows} rows, and a table may have {rows_max}; "
                "raise limits.column_rows_max"
            )
        record = self._table_made(table, table.stem, table.rows, columns, None)
        self._state_of(record)
        self.write(record)

    def register_population(  # noqa: PLR0917  # the parts of its record
        self,
        name: str,
        count: int,
        table: str,
        permissions: Iterable[str] | None,
        owner: str | None,
        priority_max: int,
        quotas: Mapping[str, Mapping[str, object]],
        columns: Mapping[str, object],
    ) -> None:
        """Register a population with its table, and run the domains' `on_populate`.

        Raises:
            AgentError: The name is not an identity, is reserved or taken.
            ValueError: The table, the count, a column or a quota does not fit.
            ValidationError: A domain raised; nothing was changed.
        """
        from placet.kernel.commit.table_made import columns_given  # noqa: PLC0415  # numpy is an extra

        declared = self._free_table(table)
        self._require_population(name, count)
        require_priority(priority_max)
        own = own_quotas(name, quotas)
        if permissions is None:
            permissions = self._ledger.policy.default_permissions
        given = columns_given(name, declared.fields, columns, count)
        encoded = [(field, values.tobytes()) for field, values in given.items()]
        members = (owner or OPERATOR, _sorted(permissions), own, priority_max)
        self._populate(self._table_made(declared, name, count, encoded, members))

    def _populate(self, record: TableMade) -> None:
        """Make the table of a population, run the hooks, and write the record."""
        from placet.kernel.commit.table_made import require_given  # noqa: PLC0415  # numpy is an extra

        self._state_of(record)
        draft = self._context.transaction
        fields = frozenset(name for name, _ in record.columns)
        population = NewPopulation(record.stem, record.table, record.count, fields)

        def populated(changes: Changes) -> TableMade:
            made = replace(record, changes=changes, written=draft.written_columns())
            require_given(made, fields)
            return made

        hooks = [
            self.hook_of(domain, "on_populate", draft, population)
            for domain in self._context.registry.domains
            if overrides(domain, "on_populate")
        ]
        try:
            made = self.act("on_populate", hooks, populated)
        except BaseException as error:
            self._context.state.drop_table(record.table)
            if isinstance(error, PluginError):
                raise _hook_error(error) from error.error
            raise
        self.write(*made)

    def _free_table(self, name: str) -> Table:
        """Return a declared table of agents that has no population yet."""
        tables = self._context.registry.tables
        of_agents = [each.name for each in tables.values() if each.rows is None]
        if name not in of_agents:
            near = nearest(str(name), of_agents, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the tables of agents are {of_agents}"
            raise ValueError(f"there is no table of agents {name!r}; {hint}")
        if name in self._context.state.tables:
            stem = self._context.state.tables[name].stem
            raise ValueError(f"the table {name!r} has its population, {stem!r}, already")
        return tables[name]

    def _require_population(self, name: str, count: int) -> None:
        ledger, state = self._ledger, self._context.state
        if not is_identity(f"{name}:0") or name in RESERVED_IDS or ":" in str(name):
            raise AgentError(f"the name of a population is an identity without ':', got {name!r}")
        taken = {table.stem for table in state.tables.values()}
        taken |= {table.stem for table in self._context.registry.tables.values() if table.rows}
        members = (agent for agent in ledger.agents if agent.startswith(f"{name}:"))
        if name in taken or any(members):
            raise AgentError(f"rows or agents named {name}:<number> are there; choose another name")
        rows_max = ledger.policy.limits.column_rows_max
        if type(count) is not int or not 1 <= count <= rows_max:
            raise ValueError(
                f"a population has 1..{rows_max} members (limits.column_rows_max), got {count!r}"
            )

    def _table_made(
        self,
        table: Table,
        stem: str,
        count: int,
        columns: list[tuple[str, bytes]],
        members: Membership | None,
    ) -> TableMade:
        specs = [(name, *spec_of(field)) for name, field in table.fields.items()]
        return TableMade(
            *self.next_head(),
            table=table.name,
            stem=stem,
            count=count,
            fields=specs,
            columns=columns,
            members=members,
            changes=NO_CHANGES,
            written=[],
        )

    def _state_of(self, record: TableMade) -> None:
        from placet.kernel.commit.table_made import make_table  # noqa: PLC0415  # numpy is an extra

        make_table(self._context.state, record)

    def change_agent(
        self, agent_id: str, change: str, permissions: Iterable[str] | None = None
    ) -> None:
        """Suspend, resume or remove an agent, or set its permissions.

        Args:
            agent_id: Its name.
            change: `permissions`, `suspended`, `resumed` or `removed`.
            permissions: New permissions, if `change` is `permissions`.

        Raises:
            AgentError: There is no such agent.
        """
        ledger, draft = self._ledger, self._context.transaction
        if agent_id not in ledger.agents:
            raise AgentError(f"agent {agent_id!r} is not registered; nothing was changed")
        if change in {"permissions", "removed"} and ledger.agents[agent_id].is_member:
            raise AgentError(
                f"agent {agent_id!r} is a member of a population: it may be suspended and resumed, "
                "and neither removed nor given separate permissions"
            )
        agent_id = ledger.agents[agent_id].agent_id

        def changed(changes: Changes) -> AgentChanged:
            return AgentChanged(
                *self.next_head(),
                agent_id=agent_id,
                what=change,
                permissions=_sorted(permissions),
                changes=changes,
            )

        hooks: list[Hook] = []
        if change == "removed":
            domains = self._context.registry.concerned(agent_id)
            hooks = [self.hook_of(domain, "on_remove", draft, agent_id) for domain in domains]
        self.write(*self.act("on_remove", hooks, changed, agent_id, is_contained=True))

    def tick(self) -> Sequence[AgentChange]:
        """Run the domains' `on_tick` hooks at the present time.

        Returns:
            The agents that they registered and removed.
        """
        draft = self._context.transaction

        def ticked(changes: Changes) -> Tick:
            tick = Tick(*self.next_head(), changes)
            agents, written = draft.agents, draft.written_columns()
            if written:
                return TickWithColumns(**asdict(tick), agents=agents, written=written)
            return TickWithAgents(**asdict(tick), agents=agents) if agents else tick

        sim_time = self._context.now_ns / SECOND_NS
        ticking = self._context.registry.with_on_tick
        hooks = [self.hook_of(domain, "on_tick", draft, sim_time) for domain in ticking]
        return agents_of(self.write(*self.act("on_tick", hooks, ticked, is_contained=True)))

    def checkpoint(self) -> None:
        """Write a checkpoint: a record of the state digest, which a replay compares."""
        self.write(Checkpoint(*self.next_head(seqs=0), self._context.state.digest()))

    # for `outbox.py` too

    def next_head(self, seqs: int = 1) -> tuple[bytes, int, int]:
        """Return hash of the record before, seq and time of the next record, of so many seqs."""
        return self._journal.prev, self._ledger.seq + seqs, self._context.now_ns

    def write(self, record: R, data: bytes | None = None) -> R:
        """Apply a record to the ledger, append it to the log, and return it.

        Args:
            record: The record.
            data: Its encoded bytes; None encodes it before it is applied.
        """
        data = encode_record(record) if data is None else data
        apply_record(self._ledger, record)
        self._ledger.seq = record.seq
        self._ledger.now_ns = record.now_ns
        self._journal.append(data)
        return record

    def _new_name(self, agent_id: str) -> str:
        """Check a name and return it as a plain string: an Enum's formatted text may differ."""
        ledger = self._ledger
        if not is_identity(agent_id) or agent_id in RESERVED_IDS:
            raise AgentError(
                "an agent_id must be 1 to 128 characters without control characters and not one of "
                f"{sorted(RESERVED_IDS)}, got {agent_id!r}"
            )
        table = self._context.state.table_of(agent_id)
        if table is not None:
            raise AgentError(
                f"{agent_id!r} is the name of a row of the table {table!r}; choose another name"
            )
        agents_max = ledger.policy.limits.agents_max
        if len(ledger.agents) >= agents_max:
            raise AgentError(no_room(agent_id, agents_max))
        return str.__str__(agent_id)

    def report_fault(self, where: str, error: BaseException) -> None:
        """Pass an exception of plug-in code to `DomainRules.report_fault`."""
        self._rules.report_fault(where, error)

    def hook_of(self, domain: Domain, hook: str, draft: Transaction, *arguments: object) -> Hook:
        """Return the call of a domain's hook, whose exception names hook and domain."""
        registry = self._context.registry

        def call() -> object:
            with plugin_boundary(f"{hook} of {domain.name}"):
                since, columns_since = draft.writes_count, len(draft.tables_written())
                returned: object = getattr(domain, hook)(draft, *arguments)
                if hook in _REFUSING and not isinstance(returned, RuleRefusal | None):
                    shown = format_value(returned)
                    raise TypeError(f"it must return None or refuse(code, message), got {shown}")
                registry.require_own_writes(domain, draft, since)
                registry.require_own_tables(domain, draft.tables_written(columns_since))
                return returned

        return call

    def act(
        self,
        action: str,
        hooks: Iterable[Hook],
        record_of: Callable[[Changes], R],
        by: str = SYSTEM,
        *,
        author: str | None = None,
        seq: int | None = None,
        is_contained: bool = False,
    ) -> tuple[R, bytes]:
        """Run the hooks of domains in a draft and build their record, or undo their changes.

        A hook that refuses, raises, or makes a value that no record can hold undoes all of them.

        Args:
            action: Name of the hook.
            hooks: Their calls.
            record_of: Builds the record from the changes.
            by: Author of the changes; random draws are in this name.
            author: Another author of the changes.
            seq: Seq of the changes; None is the next.
            is_contained: Report a failure to `on_fault`, and return a record without changes.

        Returns:
            The record, and its encoded bytes.

        Raises:
            PluginError: A hook of a domain raised.
        """
        draft = self._context.transaction
        draft.open_group(self._context.now_ns, tick=self._ledger.tick)
        if action == "on_tick":
            draft.open_tick()
        else:
            draft.open_batch()
        draft.begin(0, self._ledger.seq + 1 if seq is None else seq, by)
        draft.stamp_as(author or by)
        if action in _WRITING_COLUMNS and self._context.registry.tables:
            draft.open_columns()
        try:
            for hook in hooks:
                _require_passed(action, hook())
            if draft.effects:
                raise ValidationError(f"{action} emitted an effect; only the rule of a kind may")
            changes = draft.changes()
            record = record_of(changes)
            data = _encoded(action, record)
        except BaseException as error:
            draft.undo_hooks()
            if not is_contained or isinstance(error, INTERRUPTS):
                raise
            fault = error if isinstance(error, PluginError) else PluginError(action, error)
            self.report_fault(fault.where, fault.error)
            record = record_of(NO_CHANGES)
            return record, encode_record(record)
        draft.close_columns()
        draft.trim(changes)
        return record, data


def _without_tables(changes: Changes, tables: Collection[str]) -> Changes:
    """Return changes without those of rows of tables, which the records of tables have."""
    if not tables:
        return changes
    entities = [change for change in changes.entities if change.collection not in tables]
    return replace(changes, entities=entities)


def _hook_error(fault: PluginError) -> ValidationError:
    why, place = describe_error(fault.error), short_place_of(fault.error)
    return ValidationError(f"{fault.where} raised {why}; nothing was changed{place}")


def _encoded(action: str, record: Record) -> bytes:
    try:
        return encode_record(record)
    except ENCODE_ERRORS as error:
        raise ValidationError(f"{action} made what no record can hold: {error}") from error


def _require_passed(action: str, returned: object) -> None:
    if isinstance(returned, RuleRefusal):
        raise ValidationError(f"{action}: {returned.message}")


def _pair(quota: Quota) -> tuple[int, int]:
    return (quota.interval_ns, quota.burst)


def _sorted(permissions: Iterable[str] | None) -> list[str] | None:
    return None if permissions is None else sorted(permissions)


def require_clear_name(name: object, what: str = "an agent_id") -> None:
    """Check the name of a new agent or owner by the rule for names.

    It is not checked when a log is re-executed: a log with other names verifies.

    Raises:
        AgentError: The rule refuses it.
    """
    if fault := name_fault(name):
        raise AgentError(f"{what} {fault}")


def require_world_name(name: str) -> None:
    """Check the name of a new world by the rule for names in paths.

    It is not checked when a log is re-executed: a log of a world with another name verifies.

    Raises:
        ValueError: The rule refuses it.
    """
    if fault := path_part_fault(name):
        raise ValueError(f"the name of a world {fault}")


def require_owner(agent: Agent | None, owner: str | None) -> None:
    """Check that `owner` is the present owner of a registered agent; None is not checked.

    Raises:
        OwnerError: The agent has another owner.
    """
    if agent is not None and owner not in {None, agent.owner}:
        raise OwnerError(
            f"agent {agent.agent_id!r} is registered, and its owner is {agent.owner!r}, not "
            f"{owner!r}; leave the owner out, or remove the agent first"
        )
