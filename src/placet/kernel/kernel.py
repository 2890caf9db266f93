"""The kernel of one world: a batch in, a decision out, without an event loop.

    from placet.kernel import Kernel
    kernel = Kernel(domain, KernelConfig(seed=7))
    kernel.register_agent("alice")
    verdict = kernel.decide(batch, now=0.0)

Times in public methods are simulated seconds; internally they are integer nanoseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final, overload

from placet.kernel.arrays.extra import require_numpy
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.commit.commit import DecisionRecorder, Journal, RecordSink
from placet.kernel.context import GateContext
from placet.kernel.control.control import (
    Control,
    require_clear_name,
    require_owner,
    require_world_name,
)
from placet.kernel.control.operator_patch import OperatorPatch
from placet.kernel.control.outbox import Outbox
from placet.kernel.decide.batches import Answer, Decision, decide_next
from placet.kernel.decide.order import execution_order
from placet.kernel.decide.single.batch import AnyBatch, single_of
from placet.kernel.decide.single.decide import SingleDecision
from placet.kernel.decide.single.record import SingleRecorder
from placet.kernel.gate.dedup import remembered_verdict
from placet.kernel.gate.domain_rules import DomainRules, EffectValidator
from placet.kernel.gate.wire_defaults import with_defaults, with_ints
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.kernel.ledger.schedule import batches_of, due_batches
from placet.kernel.ledger.stored_verdict import unpack
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer, folded
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.known_names import (
    QUOTA_KEYS,
    idle_names,
    require_kinds,
    require_known_settings,
)
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import (
    Rules,
    added_domains,
    incompatibility,
    require_compatible,
    rules_in,
    rules_of,
)
from placet.kernel.rollback import Marks, RollbackMark
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State, WorldState
from placet.schemas.batch import RELEASED, CheckedBatch
from placet.schemas.codec import Json, canonical, from_canonical, without_numpy
from placet.schemas.config import KernelConfig, QuotaSpec, permitted_kinds
from placet.schemas.effect import Effect, EffectKey, EffectMark, Settlement
from placet.schemas.errors import IntentError, RollbackError, StoreError, error_of
from placet.schemas.html_table import html_table
from placet.schemas.identity import OPERATOR
from placet.schemas.intent import Intent, joined_payload, new_intent
from placet.schemas.keywords import explain_keywords, require_a
from placet.schemas.limits import SECOND_NS, SIM_TIME_NS_MAX, UNLIMITED
from placet.schemas.log.operator_records import Given
from placet.schemas.log.record import AgentChange, Changes, Header, Settled
from placet.schemas.missing_key import MissingKeyError
from placet.schemas.name_suggestions import nearest
from placet.schemas.verdict import NOT_KEPT, Verdict

if TYPE_CHECKING:
    from placet.kernel.columns.form import CheckedColumns
    from placet.kernel.columns.population import PopulationHandle
    from placet.kernel.columns.verdict import ColumnVerdict

_GROUP_MIN: Final = 2
"""Batches of a group that are decided together."""

_INT_PASSES_MAX: Final = 3
"""Times that the whole floats of a refused batch are read as ints: not all its refusals are listed
at once, so the next may name further places."""

_SECONDS_MAX: Final = SIM_TIME_NS_MAX / SECOND_NS


@explain_keywords
class Kernel:
    """The only writer of one world's state. Not thread-safe: one caller at a time.

        kernel = Kernel(World(), KernelConfig(seed=1))
        kernel.register_agent("ann", position=[0, 0])
        verdict = kernel.decide([kernel.intent("Move", agent="ann", to=[3, 4])])
        print(verdict.admitted, kernel.state["world.agents"]["ann"]["position"])

    Args:
        domain: A domain, or several; hooks run in the order given.
        config: Seed, gate settings and limits.
        effect_validator: The host's own rule, called for each intent before the domain's rule.
        sink: Called with each encoded record of the log as it is made.
        history: Encoded records of an earlier run, in order, or a `Replayer` that has folded them.
            The kernel takes ownership of a `Replayer`. The world continues where they end.
        durability: How the sink keeps a record; copied into verdicts.
        origin: The settings to open the same world again; written to the header of a new log.
        read_only: Show the world of `history`, which has a header, and write no record, not even
            of other rules or settings. The owner of the `Replayer` may fold more records into it,
            and calls `note_followed` then.

    Attributes:
        config: The configuration it was opened with.
        registry: Kinds and domains.
        ledger: Agents, dedup windows, quotas, schedule and outbox; read only.
        history_end: `(seq, record count)` of `history`; later records are new.
        history_head: Hash of the last record of `history`, which is the head of its chain.
        declared: Names of the collections that the domains declare, or made in the header, which
            is public: to know them discloses no hidden change.
        uses_arrays: Column batches are decided and applied as arrays. False takes them row by row,
            with the same result.
        joins_batches: Batches of one intent in a group are decided together, and share a record.
            False decides each by itself, with the same result.
        idle_names: A sentence for each name in `history` that has no effect, such as a quota of no
            kind.
        on_tick: Called with the kernel after the record of each tick; it only reads, and must not
            raise. None calls nothing.

    Raises:
        ValueError: A domain or the configuration is invalid.
        StoreError: `history` is damaged or belongs to another world.
    """

    def __init__(
        self,
        domain: Domain | Sequence[Domain],
        config: KernelConfig | None = None,
        *,
        effect_validator: EffectValidator | None = None,
        sink: RecordSink | None = None,
        history: Iterable[bytes] | Replayer = (),
        durability: str = NOT_KEPT,
        origin: Mapping[str, Json] | None = None,
        read_only: bool = False,
    ) -> None:
        self.config = config = KernelConfig() if config is None else config
        require_a(config, KernelConfig, "config")
        domains = list(domain) if isinstance(domain, Sequence) else [domain]
        self.registry = Registry(domains, has_leases=config.leases is not None)
        if self.registry.tables:
            require_numpy(f"the world {config.world!r}")
        from placet.kernel.decide.single.structure import SingleStructure  # noqa: PLC0415
        from placet.kernel.gate.structure import Structure  # noqa: PLC0415  # it loads pydantic

        self._structure = Structure(self.registry, config.limits)
        self._single_structure = SingleStructure(self.registry, config.limits)
        self.joins_batches = self.uses_arrays = True
        raises_faults = config.on_rule_error == "raise"
        self._rules = DomainRules(effect_validator, raises_faults=raises_faults)
        self._validator = effect_validator
        self._intents: dict[str, int] = {}
        past = history if isinstance(history, Replayer) else folded(history)
        self.history_end = (past.ledger.seq, past.journal.count)
        self.history_head = past.journal.prev
        self._adopt(past.state, past.ledger, past.journal)
        self._batches, self._groups = past.batches_seen, past.groups
        in_settings = [name for one in self.registry.domains for name in one.idle_names()]
        if past.header is None and in_settings:
            raise ValueError(in_settings[0])
        recorded_names = idle_names(self.registry, past.ledger, has_own=self._has_own_names)
        self.idle_names = (*recorded_names, *in_settings)
        self.on_tick: Callable[[Kernel], None] | None = None
        self.declared = self.registry.collections
        self._journal.sink, self._journal.durability = sink, durability
        if read_only:
            assert past.header is not None, "only a world that was begun can be read"
            self._validate_header(past.header, past.ledger)
            self._declare(past.header.changes)
            self._journal.sink = _refuse_record
            return
        recorded = None if past.header is None else past.ledger.policy
        require_known_settings(self.registry, config, recorded, has_own=self._has_own_names)
        self._start(past, origin or {})

    def _start(self, past: Replayer, origin: Mapping[str, Json]) -> None:
        """Begin a log, or continue one with the rules and settings of this kernel."""
        config = self.config
        settings, rules = GateSettings.of(config), rules_of(self.registry, self._validator)
        if past.header is None:
            require_world_name(config.world)
            self._declare(self._control.begin(config.world, config.seed, origin, rules))
            self._control.configure(settings)
            self._make_tables()
            return
        self._declare(past.header.changes)
        if self._validate_header(past.header, past.ledger) != rules:
            self._control.change_rules(rules)
        else:
            self._open_lost_tables(past.header)
        # A fork may have been cut before the first settings, which take a seq even as the default.
        if past.ledger.policy != settings or past.configured_data is None:
            self._control.configure(settings)
        self._make_tables()
        self._sync_validator()

    def __repr__(self) -> str:
        domains = ", ".join(domain.name for domain in self.registry.domains)
        return (
            f"<Kernel {self.config.world!r} of {domains}: seq {self.seq}, {self.sim_time:g} s, "
            f"{self.ledger.agent_count} agents, {self.record_count} records>"
        )

    def _repr_html_(self) -> str:
        collections = self.tree.collections.items()
        rows = ((name, len(of.entities)) for name, of in sorted(collections) if of.entities)
        return html_table(repr(self)[1:-1], ("collection", "entities"), rows)

    def note_followed(self) -> None:
        """Take over the time of records that were folded into a read-only kernel's history."""
        self._context.now_ns = max(self._context.now_ns, self.ledger.now_ns)

    # reading

    @property
    def state(self) -> WorldState:
        """The state as a live, read-only mapping `collection -> entity -> field -> value`."""
        return WorldState(self._state, self.declared)

    @property
    def tree(self) -> State:
        """The state tree itself, for reading with `get`, `entity` and `ids`; do not write to it."""
        return self._state

    @property
    def rules(self) -> DomainRules:
        """The domain stage; set `rules.on_fault` to receive exceptions raised by plug-in code."""
        return self._rules

    @property
    def seq(self) -> int:
        """Sequence number of the world: that of the latest intent or control record."""
        return self.ledger.seq

    @property
    def record_count(self) -> int:
        """Number of records in the log, those of `history` included."""
        return self._journal.count

    @property
    def sim_time(self) -> float:
        """Latest simulated time seen, in seconds; at or after the time of the latest record."""
        return self._context.now_ns / SECOND_NS

    def digest(self) -> str:
        """Return the state digest in hexadecimal. O(entities changed since the last call)."""
        return self._state.digest().hex()

    def world_digest(self) -> str:
        """Return the digest of state and ledger in hexadecimal. O(world)."""
        return snapshots.world_digest(self._state, self.ledger).hex()

    def verdict_of(self, agent_id: str, req_id: str) -> Verdict | None:
        """Return the remembered verdict on a request; None if it is unknown or was evicted."""
        agent = self.ledger.agents.get(agent_id)
        entry = None if agent is None or agent.window is None else agent.window.find(req_id)
        if entry is None:
            return None
        verdict = remembered_verdict(unpack(entry), self._context)
        verdict.durability = self._journal.durability
        return verdict

    def open_effects(self) -> list[Effect]:
        """Return the effects that are not settled, oldest first."""
        return [
            Effect(EffectKey(self.config.world, *key), *pending)
            for key, pending in self.ledger.outbox.items()
        ]

    # deciding

    def intent(
        self,
        kind: str,
        mapping: Mapping[str, Json] | None = None,
        /,
        *,
        agent: str,
        check: bool = False,
        **payload: Json,
    ) -> Intent:
        """Build an intent on the present state; the fields besides kind and payload are filled in.

        The payload is a mapping, such as the TypedDict of the kind (an editor completes
        `Move(to=[1, 0])`), or keywords, or both. The req_id is `k<RECORDS>:<NUMBER>`: the number of
        records at the opening of this kernel, and a number that counts the agent's intents.

        Args:
            kind: Name of the kind.
            mapping: Payload, for which no keyword is needed; also for fields such as `agent`.
            agent: Name of the agent.
            check: Check the intent now, so that a mistake is raised where it is made.
            **payload: Fields of the payload.

        Raises:
            IntentError: `check` is set, and the kind, the agent or the payload is not valid.
        """
        number = self._marks.take_number(agent)
        content = payload if mapping is None else joined_payload(kind, mapping, payload)
        req_id = f"k{self._opened_at}:{number}"
        intent = new_intent(kind, content, agent, req_id, self.ledger.seq)
        if check:
            self.check_intent(intent)
        return intent

    def check_intent(self, intent: Intent) -> None:
        """Check that an intent is of a registered agent and passes the structure stage.

        The stages that depend on state, quotas or permissions are not asked.

        Raises:
            IntentError: It is not, or does not.
        """
        agent_id = intent["agent_id"]
        if agent_id not in self.ledger.agents:
            near = nearest(str(agent_id), self.ledger.agents)
            hint = f"; did you mean {near[0]!r}?" if near else "; register it first"
            raise IntentError(f"there is no agent {agent_id!r}{hint}")
        checked = self._structure.check([intent], OPERATOR, "")
        if isinstance(checked, list):
            listed = tuple(checked[: self.config.limits.refusals_listed_max])
            raise error_of(Verdict("", False, None, self.ledger.seq, self.sim_time, listed))

    def check(
        self, batch: object, submitter: str = OPERATOR, *, fill_missing: bool = False
    ) -> CheckedBatch | Verdict:
        """Run the structure stage on a batch.

        It reads no domain state, so it may run in the submitter's task, before the batch is queued.
        It numbers the batch. A refusing verdict names the present seq: release it only after that
        seq is durable.

        Args:
            batch: A list of intents, a batch object, or one intent.
            submitter: The submitting agent, or the operator.
            fill_missing: Fill in the fields that a client may leave out (`gate/wire_defaults.py`).

        Returns:
            The checked batch, or the verdict that refuses it.
        """
        self._batches += 1
        return self._check(batch, submitter, self._batches, fill_missing=fill_missing)

    def _check(
        self, batch: object, submitter: str, number: int, *, fill_missing: bool = False
    ) -> CheckedBatch | Verdict:
        batch_id = f"b{number}"
        checked = self._structure.check(batch, submitter, batch_id)
        if fill_missing and not isinstance(checked, CheckedBatch):
            intents_max = self.config.limits.batch_intents_max
            filled = with_defaults(batch, submitter, self.ledger.seq, intents_max)
            if filled is not batch:
                checked = self._structure.check(filled, submitter, batch_id)
            for _ in range(_INT_PASSES_MAX):
                if isinstance(checked, CheckedBatch):
                    break
                whole = with_ints(filled, [refusal.at for refusal in checked])
                if whole is filled:
                    break
                filled, checked = whole, self._structure.check(whole, submitter, batch_id)
        if isinstance(checked, CheckedBatch):
            return checked
        if isinstance(batch, ColumnBatch):
            raise ValueError(
                f"{batch!r} is decided by decide_columns or step, in a world whose domain has a "
                "table of agents; nothing was decided"
            )
        listed = tuple(checked[: self.config.limits.refusals_listed_max])
        verdict = Verdict(batch_id, False, None, self.ledger.seq, self.sim_time, listed)
        verdict.dry_run = type(batch) is dict and batch.get("dry_run") is True
        return verdict

    def decide(
        self, batch: object, now: float | None = None, *, submitter: str = OPERATOR
    ) -> Verdict:
        """Decide one batch and return its verdict.

        `now` is the simulated time in seconds; None is the latest time seen.
        Scheduled batches that were due earlier are decided first. Those due at this very time
        follow the order of a group: by priority, then by a draw.
        """
        now_ns = self._ns(now)
        checked = batch if isinstance(batch, CheckedBatch) else self.check(batch, submitter)
        if isinstance(checked, Verdict):
            self.decide_checked((), now_ns)  # time advances, so scheduled batches may be due
            return checked
        answers = self.decide_checked((checked,), now_ns).answers
        return next(verdict for decided, verdict in answers if decided is checked)

    def decide_columns(self, batch: ColumnBatch, now: float | None = None) -> "ColumnVerdict":
        """Decide a column batch, and before it the scheduled batches that are due.

        Raises:
            ValueError: Its form is wrong; nothing was decided, and time did not advance.
        """
        checked = self._checked_columns(batch)
        self._decide_ordinary((), self._ns(now))
        return self._decide_columns(checked)

    def decide_columns_alone(self, batch: ColumnBatch, now_ns: int) -> "ColumnVerdict":
        """Decide a column batch as a group by itself, and no scheduled batch.

        Args:
            batch: The batch.
            now_ns: Simulated nanoseconds; time never goes back.

        Raises:
            ValueError: Its form is wrong; nothing was decided, and time did not advance.
        """
        checked = self._checked_columns(batch)
        self._context.now_ns = max(now_ns, self._context.now_ns)
        return self._decide_columns(checked)

    def decide_group(
        self, batches: Sequence[object], now: float | None = None, *, submitter: str = OPERATOR
    ) -> list[Verdict]:
        """Decide batches that are due at the same moment, in a fair order.

        Args:
            batches: Batches as submitted, or checked ones.
            now: Simulated seconds; time never goes back. None is the latest time seen.
            submitter: Submitter of the batches that are not checked yet.

        Returns:
            One verdict per batch, in the order of `batches`.
        """
        return self._decide_all(batches, self._ns(now), submitter)

    def decide_checked(
        self,
        batches: Sequence[CheckedBatch],
        now_ns: int,
        *,
        release_intents: bool = False,
        work_max: int = UNLIMITED,
        due_max: int = UNLIMITED,
    ) -> Decision:
        """Decide a group of checked batches, and the scheduled batches that are due by now.

        If the scheduled batches alone fill the group, all of `batches` are left undecided.

        Args:
            batches: The group.
            now_ns: Simulated nanoseconds; time never goes back.
            release_intents: Free each batch's intents once it is decided; set it if the caller
                does not read them afterwards.
            work_max: Leave the rest undecided once the units charged by rules, and the base work of
                the scheduled batches, are more than this.
            due_max: Maximum number of scheduled batches, at least 1; the others stay due.
        """
        now_ns = self._context.now_ns = max(now_ns, self._context.now_ns)
        schedule = self.ledger.schedule
        later: Sequence[CheckedBatch] = ()
        if schedule and schedule[0][0] <= now_ns:
            due = due_batches(self.ledger, now_ns, due_max, work_max)
            work_max -= sum([batch.base_work for batch in due])
            if work_max < 0 or len(due) >= due_max:  # others may be due too: these go first
                batches, later = due, batches
            else:
                batches = [*due, *batches]
        decision = self._decision(batches, release_intents=release_intents, work_max=work_max)
        return decision._replace(undecided=[*decision.undecided, *later]) if later else decision

    def tick(self, now: float) -> None:
        """Advance simulated time to `now` seconds and run the domains' `on_tick`."""
        self._context.now_ns = self._ns(now)
        self._tick()

    @overload  # a list of column batches alone has verdicts of these
    def step(self, dt: float, batches: "Sequence[ColumnBatch]") -> "list[ColumnVerdict]": ...  # type: ignore[overload-overlap]

    @overload
    def step(self, dt: float, batches: Sequence[object] = ()) -> list[Verdict]: ...

    def step(
        self, dt: float, batches: Sequence[object] = ()
    ) -> "list[Verdict] | list[ColumnVerdict]":
        """Advance simulated time by `dt` seconds: decide `batches` and those due, then tick.

        Returns:
            One verdict per batch, in the order of `batches`.

        Raises:
            ValueError: `dt` is negative or not finite, or the form of a column batch is wrong;
                then none of the batches was decided, and time did not advance.
        """
        dt = without_numpy(dt)
        if not 0 <= dt < _SECONDS_MAX:
            raise ValueError(f"dt must be a finite number of seconds >= 0, got {dt!r}")
        now_ns = self._context.now_ns + round(dt * SECOND_NS)
        if now_ns >= SIM_TIME_NS_MAX:
            raise ValueError(
                f"simulated time ends at {_SECONDS_MAX:g} s, a step of {dt!r} passes it"
            )
        verdicts = self._decide_all(batches, now_ns)
        self._tick()
        return verdicts

    # agents

    def register_agent(
        self,
        agent_id: str,
        *,
        permissions: Iterable[str] | None = None,
        owner: str | None = None,
        priority_max: int = 100,
        quotas: Mapping[str, Mapping[str, float] | QuotaSpec] | None = None,
        **attributes: Json,
    ) -> Agent:
        """Register and return an agent; the domains initialize it from the remaining keywords.

        Registering a registered name again only changes its permissions, if they are given; an
        owner that is given must be its present owner.

        Args:
            agent_id: Its name.
            permissions: Kinds it may propose; None is the configured default.
            owner: Submitter that may also submit for it; None is the agent alone.
            priority_max: Cap on the priority of its batches, 0..100.
            quotas: Quotas of this agent by kind (`*` is all kinds together).
            **attributes: Passed to each domain's `on_register`, such as a position.

        Raises:
            OwnerError: The name is registered, and has another owner.
            AgentError: The name is not an identity or is reserved, or there are too many agents.
            ValidationError: An attribute is not plain JSON, or a domain refused it or raised.
            ValueError: The permissions, the priority or a quota are invalid, or of no kind.
        """
        agent = self.ledger.agents.get(agent_id)
        permitted = self._permitted(permissions, agent)
        require_owner(agent, owner)
        require_kinds((*self.registry.kinds, *QUOTA_KEYS), quotas or (), "quotas")
        if agent is None:
            require_clear_name(agent_id)
            if owner is not None:
                require_clear_name(owner, "an owner")
            agent = self._control.register_agent(
                agent_id, permitted, owner, priority_max, quotas or {}, attributes
            )
            self._notify_validator(agent_id, agent.permissions)
        elif permitted is not None and permitted != agent.permissions:
            self.set_agent_permissions(agent_id, permitted)
        return agent

    def register_population(
        self,
        name: str,
        count: int,
        *,
        table: str,
        permissions: Iterable[str] | None = None,
        owner: str | None = None,
        priority_max: int = 100,
        quotas: Mapping[str, Mapping[str, float] | QuotaSpec] | None = None,
        **columns: object,
    ) -> "PopulationHandle":
        """Register the agents `<name>:0` to `<name>:<count - 1>` and their rows of a table.

        Args:
            name: Name of the population; no other agent may have a name `<name>:<number>`.
            count: Number of its members. It does not change.
            table: Table of agents that has no population yet.
            permissions: Kinds that each member may propose; None is the configured default.
            owner: Submitter that may also submit for them; None is the operator alone.
            priority_max: Cap on the priority of their ordinary batches, 0..100.
            quotas: Quotas of each member by kind (`*` is all kinds together).
            **columns: Initial values of fields, arrays `(count, *field.shape)`.

        Raises:
            AgentError: The name is not an identity, is reserved or taken.
            ValueError: The table, the count, a column or a quota does not fit; nothing was changed.
            ValidationError: A domain raised in `on_populate`; nothing was changed.
        """
        permitted = self._permitted(permissions, None)
        require_kinds((*self.registry.kinds, *QUOTA_KEYS), quotas or (), "quotas")
        require_clear_name(name, "the name of a population")
        self._control.register_population(
            name, count, table, permitted, owner, priority_max, quotas or {}, columns
        )
        return self.population(name)

    def population(self, name: str) -> "PopulationHandle":
        """Return a population of this world.

        Raises:
            KeyError: There is none of this name.
        """
        from placet.kernel.columns.population import PopulationHandle  # noqa: PLC0415  # numpy is an extra

        if name not in self.ledger.populations:
            raise MissingKeyError(name, "population", self.ledger.populations)
        return PopulationHandle(self, self.ledger.populations[name])

    def own_collections(self, agent_id: str, attributes: Mapping[str, Json]) -> frozenset[str]:
        """Return the collections in which `on_register` would create an entity of an agent's name.

        The hooks run and are undone. Empty where they refuse or raise, or the name is taken.
        """
        is_taken = agent_id in self.ledger.agents
        return frozenset() if is_taken else self._control.own_collections(agent_id, attributes)

    def set_agent_permissions(self, agent_id: str, permissions: Iterable[str] | None) -> None:
        """Set the kinds that an agent may propose: None is all, the empty set none.

        Raises:
            AgentError: There is no such agent.
            ValueError: The permissions are invalid, or of no kind.
        """
        permitted = self._permitted(permissions, self.ledger.agents.get(agent_id))
        self._control.change_agent(agent_id, "permissions", permitted)
        self._notify_validator(agent_id, permitted)

    def change_agent(self, agent_id: str, change: str) -> list[Answer]:
        """Make an agent `suspended`, `resumed` or `removed`.

        Scheduled batches of a removed agent are refused now: when they are due, its name may
        belong to another agent.

        Returns:
            Those batches with their verdicts.

        Raises:
            AgentError: There is no such agent.
            ValueError: `change` is none of the three.
        """
        if change not in {"suspended", "resumed", "removed"}:
            raise ValueError(f"change must be suspended, resumed or removed, got {change!r}")
        self._control.change_agent(agent_id, change)
        orphans = batches_of(self.ledger, agent_id) if change == "removed" else []
        return self._decision(orphans).answers if orphans else []

    def remove_agent(self, agent_id: str) -> list[Answer]:
        """Remove an agent; as `change_agent(agent_id, "removed")`.

        Raises:
            AgentError: There is no such agent.
        """
        return self.change_agent(agent_id, "removed")

    # effects

    def change_executor(self, kind: str, depth_max: int | None) -> None:
        """Register an executor of an effect kind and the bound of its outbox; None removes it.

        Raises:
            ValueError: The kind is not a name, or the bound is not a positive int.
        """
        self._outbox.change_executor(kind, depth_max)

    def mark_effect(
        self, key: EffectKey, mark: EffectMark, why: str = "", now: float | None = None
    ) -> bool:
        """Mark an at-most-once effect as `started` or `in_doubt`.

        Returns:
            False if the effect is settled, unknown, or was marked so before; do not run it then.
        """
        self._context.now_ns = self._ns(now)
        return key.world == self.config.world and self._outbox.mark(key, mark, why)

    def settle(
        self, settlement: Settlement, now: float | None = None, *, again: bool = False
    ) -> bool:
        """Record the outcome of an effect, once; return False if it is settled or unknown.

        If a domain's `on_settle` raises, the effect is a dead letter: it keeps its outcome and its
        place in the outbox, and is settled by `again`.

        Args:
            settlement: The outcome.
            now: Simulated seconds; None is the latest time seen.
            again: Settle a dead letter too.

        Raises:
            ValidationError: `on_settle` raised again for a dead letter; nothing was changed.
        """
        self._context.now_ns = self._ns(now)
        is_own = settlement.key.world == self.config.world
        return is_own and self._outbox.settle(settlement, again=again)

    @property
    def latest_settled(self) -> Settled | None:
        """The record of the latest settlement that this kernel decided; None before the first."""
        return self._outbox.latest

    # operator

    def patch(self, given: Given, cause: str) -> None:
        """Overwrite values as the operator, within all invariants; takes one seq.

        Args:
            given: `(collection, entity, fields, is_whole)` of each entity; fields None delete it,
                and `is_whole` replaces all of its fields, or creates it.
            cause: Reason of the patch, for the log.

        Raises:
            ValidationError: An entity does not exist, a value is not plain JSON, or a domain
                refuses the patch; nothing was changed.
        """
        OperatorPatch(self._context, self._control).patch(given, cause)

    # going back

    def mark(self) -> RollbackMark:
        """Return a mark of the present moment, for `rollback`. O(agents that acted at this time).

        Until the mark is dropped, the kernel keeps how later changes are undone; drop marks that
        are not needed. Each may be rolled back to several times, and marks nest.

        Raises:
            RollbackError: The kernel is read-only: its changes are made by another.
        """
        if self._journal.sink is _refuse_record:
            raise RollbackError("a read-only kernel makes no mark: another process changes it")
        return self._marks.make(self._batches, self._groups)

    def rollback(self, mark: RollbackMark) -> None:
        """Go back to a mark: all that happened since is undone, as if it had never been.

        State, agents, dedup windows, quotas, schedule, outbox, time, the head of the chain and the
        numbers of `intent` are those of the mark; `state` and views show it. O(changes since the
        mark). A sink must give back the records since the mark by a method `retract(count)`, as
        `RecordList` does.

        Raises:
            RollbackError: The mark is of another kernel or was rolled past, the sink cannot give
                back records, or `on_tick` was called since the mark; nothing was changed.
        """
        if self.on_tick is not None and isinstance(mark, RollbackMark):
            self._require_unheard(mark.tick)
        moment = self._marks.rewind(mark)
        self._batches, self._groups = moment.batches, moment.groups
        self._sync_validator()

    def snapshot(self) -> bytes:
        """Return the whole world as bytes, which name its domains, for `restore`. O(world).

        They hold state and ledger, the position in the log, and the rules: names and versions of
        the domains and their kinds, and the settings of the domains.
        """
        world = snapshots.dump(self._state, self.ledger)
        journal = self._journal
        position = [journal.prev, journal.count, self._batches, self._groups]
        return canonical([world, self._context.now_ns, *position, rules_of(self.registry)])

    def restore(self, data: bytes) -> None:
        """Continue from a snapshot of `snapshot`; this kernel's own seed and gate settings stay.

        `state` shows the restored world too. To undo changes of this kernel, use `mark` and
        `rollback`, whose cost is that of the changes. O(world).

        Raises:
            RollbackError: The snapshot is of other domains, settings or versions; or the kernel has
                a sink, whose log would not lead to the snapshot; or `on_tick` was called since.
                Nothing was changed.
            ValueError: The bytes are not a snapshot of a known version; nothing was changed.
        """
        ledger = Ledger(self.ledger.policy)
        journal = Journal(self._journal.sink, self._journal.durability)
        try:
            world, now_ns, prev, count, batches, groups, *rules = from_canonical(data)
            state = snapshots.load(world, ledger, ledger.policy.limits.tombstones_max)
            then = _rules_of_snapshot(*rules)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no snapshot of a known version: {error!r}") from error
        self._require_own_snapshot(then, state)
        if journal.sink is not None and (prev, count) != (self._journal.prev, self._journal.count):
            raise RollbackError(
                f"the sink of this kernel has a log of {self._journal.count} records, which does "
                f"not lead to a snapshot after record {count}; go back by `mark` and `rollback`, "
                "or restore into a kernel without a sink"
            )
        if self.on_tick is not None:
            self._require_unheard(ledger.tick)
        journal.prev, journal.count = prev, count
        self._batches, self._groups = batches, groups
        self._marks.end()
        self._state.become(state)
        self._adopt(self._state, ledger, journal)
        self._context.now_ns = now_ns
        self._sync_validator()

    # internals

    def _adopt(self, state: State, ledger: Ledger, journal: Journal) -> None:
        self._state, self.ledger, self._journal = state, ledger, journal
        self._opened_at = journal.count
        self._draft = Transaction(state, self.config.seed, ledger.executors, ledger.ordinals)
        check = self._structure.check_recorded
        self._context = GateContext(self.registry, check, ledger, state, self._draft)
        self._recorder = DecisionRecorder(self._context, journal, self.config.world)
        single_recorder = SingleRecorder(self._context, journal, self.config.world)
        self._single_decision = SingleDecision(
            self._context, self._rules, single_recorder, self._recorder
        )
        self._control = Control(self._context, journal, self._rules)
        self._outbox = Outbox(self._context, self._control)
        self._marks = Marks(self._context, journal, self._intents)

    def _require_own_snapshot(self, then: Rules | None, state: State) -> None:
        """Check that a snapshot is of this kernel's domains; an older one does not name them."""
        if then is None:
            names = {domain.name for domain in self.registry.domains}
            own = names | {name.partition(".")[0] for name in self._state.collections}
            foreign = [name for name in state.collections if name.partition(".")[0] not in own]
            why = f"it holds {foreign[0]}, and {sorted(names)} is given" if foreign else None
        else:
            why = incompatibility(then, self.registry)
        if why is not None:
            raise RollbackError(
                f"the snapshot is of another world: {why}; restore it into a kernel of its domains "
                "and their settings"
            )

    def _require_unheard(self, tick: int) -> None:
        """Check that no tick after this one was passed to `on_tick`, which cannot take it back."""
        if tick != self.ledger.tick:
            raise RollbackError(
                f"`on_tick`, such as a collector, was called for tick {self.ledger.tick}, and the "
                f"world would go back to tick {tick}; collect from the log afterwards "
                "(Collector.collect), or set kernel.on_tick to None"
            )

    def _declare(self, initial: Changes) -> None:
        self.declared |= {change.collection for change in initial.collections}

    def _validate_header(self, header: Header, ledger: Ledger) -> Rules:
        """Check that this kernel may continue a log; return the rules that decided it last."""
        config, then = self.config, rules_in(header)
        ours = [domain.name for domain in self.registry.domains]
        theirs = [name for name, _ in header.domains]
        added = added_domains(theirs, self.registry)
        if [name for name in ours if name not in added] != theirs:
            raise StoreError(
                f"the log is of the domains {theirs}, the world is opened with {ours}; open it "
                "with those of the log, or name another store"
            )
        if (header.world, header.seed) != (config.world, config.seed):
            raise StoreError(
                f"the log is of world {header.world!r} with seed {header.seed}, it is opened as "
                f"{config.world!r} with seed {config.seed}; open it with its own: "
                f"world={header.world!r} (of a Simulation name={header.world!r}), "
                f"seed={header.seed}"
            )
        require_compatible(then, ledger.scheduled.values(), self.registry)
        return then

    def _open_lost_tables(self, header: Header) -> None:
        """Open the domains again for tables whose records the log lost, as a fork may be cut.

        The rules are those of the log, so `on_open` has written these tables. A table that a later
        release of a domain declares has its defaults instead.
        """
        tables = self._state.tables
        declared = [table.name for table in self.registry.tables.values() if table.rows is not None]
        if all(name in tables for name in declared):
            return
        from placet.kernel.log.sandbox import Sandbox  # noqa: PLC0415  # for such a log alone

        ledger = Ledger(self.ledger.policy)
        sandbox = Sandbox(self.registry, self._structure, State(), ledger, header)
        sandbox.control.begin(header.world, header.seed, {}, rules_in(header))
        for name, table in sandbox.context.state.tables.items():
            if name not in tables:
                self._state.add_table(table)

    def _make_tables(self) -> None:
        """Make the tables without agents that the log does not have."""
        for table in self.registry.tables.values():
            if table.rows is not None:
                self._control.make_table(table)

    def _checked_columns(self, batch: ColumnBatch) -> "CheckedColumns":
        from placet.kernel.columns.form import checked  # noqa: PLC0415  # numpy is an extra

        return checked(batch, self.ledger, self.registry)

    def _decide_all(
        self, batches: Sequence[object], now_ns: int, submitter: str = OPERATOR
    ) -> list[Verdict]:
        if self.registry.tables and ColumnBatch in set(map(type, batches)):
            return self._decide_mixed(batches, now_ns, submitter)
        return self._decide_ordinary(batches, now_ns, submitter)

    def _decide_mixed(
        self, batches: Sequence[object], now_ns: int, submitter: str
    ) -> list[Verdict]:
        """Decide the batches that are due, then a group in which some are column batches.

        Each column batch is a group by itself, at its place. The form of all is checked first, so
        that a mistake raises before anything is decided.
        """
        columns = {
            place: self._checked_columns(batch)
            for place, batch in enumerate(batches)
            if isinstance(batch, ColumnBatch)
        }
        verdicts: list[Verdict] = []
        begin = 0
        for place in [*columns, len(batches)]:
            ordinary = batches[begin:place]
            if ordinary or not begin:  # the first call decides the batches that are due
                verdicts += self._decide_ordinary(ordinary, now_ns, submitter)
            if place in columns:
                verdicts.append(self._decide_columns(columns[place]))  # type: ignore[arg-type]
            begin = place + 1
        return verdicts

    def _decide_columns(self, batch: "CheckedColumns") -> "ColumnVerdict":
        from placet.kernel.columns import group  # noqa: PLC0415  # numpy is an extra

        self._batches += 1
        count = self._journal.count
        verdict = group.decide(
            batch,
            self._recorder,
            self.config.seed,
            self._batches,
            self._rules.report_fault,
            uses_arrays=self.uses_arrays,
        )
        if self._journal.count != count:
            self._close_group()
        return verdict

    def _close_group(self) -> None:
        """Count a group that left a record, and write a checkpoint when there are enough."""
        self.ledger.now_ns = self._context.now_ns
        self._groups += 1
        if self._groups >= self.config.limits.checkpoint_groups:
            self._groups = 0
            self._control.checkpoint()

    def _decide_ordinary(
        self, batches: Sequence[object], now_ns: int, submitter: str = OPERATOR
    ) -> list[Verdict]:
        checked = self._check_all(batches, submitter)
        now_ns = self._context.now_ns = max(now_ns, self._context.now_ns)
        due = due_batches(self.ledger, now_ns)
        if not due and Verdict not in set(map(type, checked)):
            entries: list[AnyBatch] = checked  # type: ignore[assignment]  # there is no verdict
            places: Sequence[int] = range(len(checked))
        else:
            places = [at for at, entry in enumerate(checked) if not isinstance(entry, Verdict)]
            entries = [*due, *[checked[at] for at in places]]  # type: ignore[list-item]
            places = [*repeat(len(checked), len(due)), *places]
        order, verdicts = self._decide_group(entries)
        by_place: list[Verdict] = [*checked, None]  # type: ignore[list-item]  # replaced
        for place, verdict in zip(map(places.__getitem__, order), verdicts, strict=True):
            by_place[place] = verdict
        by_place.pop()  # of the batches that are due: no submitter waits
        return by_place

    def _check_all(self, batches: Sequence[object], submitter: str) -> list[AnyBatch | Verdict]:
        """Run the structure stage on the batches of a group that are not checked yet."""
        if len(batches) < _GROUP_MIN or not self.joins_batches:
            return [b if isinstance(b, CheckedBatch) else self.check(b, submitter) for b in batches]
        if CheckedBatch in set(map(type, batches)):
            checked = [
                b if isinstance(b, CheckedBatch) else self.check(b, submitter) for b in batches
            ]
            return [_any_batch(b) if isinstance(b, CheckedBatch) else b for b in checked]
        first = self._batches + 1
        self._batches += len(batches)
        singles = self._single_structure.singles(batches, first, submitter)
        return [
            self._check(batches[place], submitter, first + place) if single is None else single
            for place, single in enumerate(singles)
        ]

    def _decision(
        self,
        batches: Sequence[CheckedBatch],
        *,
        release_intents: bool = False,
        work_max: int = UNLIMITED,
    ) -> Decision:
        """Decide a group of checked batches."""
        entries: Sequence[AnyBatch] = batches
        if len(batches) >= _GROUP_MIN and self.joins_batches:
            entries = list(map(_any_batch, batches))
        order, verdicts = self._decide_group(
            entries, release_intents=release_intents, work_max=work_max
        )
        in_order = list(map(batches.__getitem__, order))
        undecided = in_order[len(verdicts) :]
        answers = list(zip(in_order, verdicts, strict=not undecided))
        recorder = self._recorder
        answers += recorder.orphans.values()
        return Decision(answers, recorder.effects, recorder.unpaid, undecided)

    def _decide_group(
        self,
        batches: Sequence[AnyBatch],
        *,
        release_intents: bool = False,
        work_max: int = UNLIMITED,
    ) -> tuple[Sequence[int], list[Verdict]]:
        """Decide a group of batches.

        Returns:
            The places of the batches in order of execution, and the verdicts in this order; fewer
            verdicts if the group used up `work_max`.
        """
        ledger, context, recorder = self.ledger, self._context, self._recorder
        recorder.open_group()
        draft, rules = self._draft, self._rules
        count_before = self._journal.count
        verdicts: list[Verdict] = []
        order: Sequence[int] = range(len(batches))
        if len(batches) > 1:
            order = execution_order(batches, ledger, self.config.seed, context.now_ns)
        try:
            if tuple in set(map(type, batches)):
                in_order = map(batches.__getitem__, order)
                self._single_decision.decide(in_order, verdicts, work_max)
            else:
                for place in order:
                    batch: CheckedBatch = batches[place]  # type: ignore[assignment]
                    verdicts.append(decide_next(batch, context, rules, recorder))
                    # The hundred or so objects of the intents are still in the processor's caches:
                    # to free them with the whole group, a millisecond later, costs 5 % of all time.
                    if release_intents:
                        batch.intents = (RELEASED,) * len(batch.intents)
                    if draft.work:
                        work_max -= draft.work
                        draft.work = 0
                        if work_max < 0:
                            break
        finally:  # an interrupt ends the group; the batches before it are in the log and stay
            is_written = self._journal.count != count_before
            if is_written:  # a group without a record leaves no trace, not even its time
                ledger.now_ns = context.now_ns
                self._groups += 1
            if recorder.agents:
                self._notify_agents(recorder.agents)
        if is_written and self._groups >= self.config.limits.checkpoint_groups:
            self._groups = 0
            self._control.checkpoint()
        return order, verdicts

    def _ns(self, now: float | None) -> int:
        latest = self._context.now_ns
        if now is None:
            return latest
        if type(now) is not float:
            now = without_numpy(now)
        if not -_SECONDS_MAX < now < _SECONDS_MAX:
            raise ValueError(f"now must be seconds below {_SECONDS_MAX:g}, got {now!r}")
        return max(latest, round(now * SECOND_NS))

    def _tick(self) -> None:
        agents = self._control.tick()
        if self.on_tick is not None:
            self.on_tick(self)
        self._notify_agents(agents)
        for change in agents:
            if change.is_removed and (orphans := batches_of(self.ledger, change.agent_id)):
                self._decision(orphans)

    @property
    def _has_own_names(self) -> bool:
        """Whether permissions may be names of the effect validator, which is notified of them."""
        return hasattr(self._validator, "set_agent_permissions")

    def _permitted(
        self, permissions: Iterable[str] | None, agent: Agent | None
    ) -> frozenset[str] | None:
        """Return permissions as a set; raise if one is of no kind and no permission of `agent`."""
        permitted = permitted_kinds(permissions)
        if permitted is not None and not self._has_own_names:
            recorded = (None if agent is None else agent.permissions) or ()
            require_kinds(self.registry.kinds, sorted(permitted), "permissions", recorded)
        return permitted

    def _sync_validator(self) -> None:
        if self._validator is None:
            return
        for agent_id, agent in self.ledger.agents.items():
            self._notify_validator(agent_id, agent.permissions)

    def _notify_agents(self, agents: Iterable[AgentChange]) -> None:
        for change in agents:
            agent = self.ledger.agents.get(change.agent_id)
            if agent is not None and not change.is_removed:
                self._notify_validator(change.agent_id, agent.permissions)

    def _notify_validator(self, agent_id: str, permissions: frozenset[str] | None) -> None:
        notify = getattr(self._validator, "set_agent_permissions", None)
        if notify is not None:
            notify(agent_id, set(self.registry.kinds if permissions is None else permissions))


def _any_batch(batch: CheckedBatch) -> AnyBatch:
    """Return the single batch of one intent, and every other batch as it is."""
    return single_of(batch) or batch


def _rules_of_snapshot(rules: list[Json] | None = None) -> Rules | None:
    """Return the rules that a snapshot names; None of one of an older release, which names none."""
    if rules is None:
        return None
    named = Rules(*rules)
    return named._replace(domains=[(name, version) for name, version in named.domains])


def _refuse_record(_record: bytes) -> None:
    raise AssertionError("a read-only kernel was asked to write; its caller must not change it")
