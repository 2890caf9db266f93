"""The domain port: the declarations of a plug-in, and the values that its rules return.

A domain is a plug-in in one file. It declares intent kinds, each with a pydantic payload model
and a rule; the rule reads and writes the state through a draft, and returns None or a refusal.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    get_args,
    runtime_checkable,
)

# Re-exported: authors of domains import all of these from one module.
from placet.kernel.plugin.refusals import RuleRefusal as RuleRefusal  # noqa: PLC0414
from placet.kernel.plugin.refusals import budget_exceeded as budget_exceeded  # noqa: PLC0414
from placet.kernel.plugin.refusals import conflict as conflict  # noqa: PLC0414
from placet.kernel.plugin.refusals import conflict_message as conflict_message  # noqa: PLC0414
from placet.kernel.plugin.refusals import refuse as refuse  # noqa: PLC0414
from placet.schemas.codec import Json
from placet.schemas.effect import Delivery, Effect, Settlement
from placet.schemas.errors import DomainError
from placet.schemas.identity import Ref, is_kind_name
from placet.schemas.intent import Intent
from placet.schemas.keywords import explain_keywords
from placet.schemas.printable import printable

if TYPE_CHECKING:
    from placet.kernel.arrays.field import Field, Table
    from placet.kernel.plugin.row_rule import RowsRule
    from placet.kernel.state.draft import Draft
    from placet.kernel.state.tree import State, WorldState
    from placet.kernel.visibility.protocols import VisibilityPolicy


Rule: TypeAlias = Callable[["Draft", Intent], RuleRefusal | None]
"""Apply one intent to the draft, or return a refusal. Called once per decision; must be
deterministic.
"""

Reads: TypeAlias = Callable[[Intent], Iterable[tuple[str, str | None]]]
"""Return the entities that the intent depends on, from the intent alone: `Ref`s, or plain pairs."""

Work: TypeAlias = int | Callable[[Mapping[str, Json]], int]
"""Units of work of one intent beyond an ordinary rule, or a function of its payload, which must be
pure. A unit is about 1 us of CPython 3.11 at 3 GHz.
"""

Upcaster: TypeAlias = Callable[[dict[str, Json]], Mapping[str, Json]]
"""Convert a payload of an older version to the next: pure; it receives its own copy."""


WhenStale: TypeAlias = Literal["reject", "revalidate"]
WHEN_STALE: Final[tuple[WhenStale, ...]] = get_args(WhenStale)

Risk: TypeAlias = Literal["read", "low", "medium", "high"]
"""Upper bound of what a kind may do: `read` changes nothing, which the gate enforces. The others
are the author's judgement; by them the agent layer decides what a person must confirm.
"""
RISKS: Final[tuple[Risk, ...]] = get_args(Risk)


class Command(NamedTuple):
    """A fixed sentence that stands for an intent; matched as a whole message, never inside another.

    Attributes:
        pattern: Regular expression over the whole message; case is ignored.
        kind: Kind of the intent.
        payload: Builds the payload from the match's named groups.
    """

    pattern: str
    kind: str
    payload: Callable[[Mapping[str, str]], dict[str, Json]]


@explain_keywords
@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of intent.

    Attributes:
        name: Name on the wire: `Move`, `garden.Add`.
        payload: A pydantic model, a TypedDict, or any type pydantic can validate to a mapping. A
            TypedDict is the fastest; a model is dumped to a dict.
        rule: Applies the intent. A kind has a `rule`, or a rule of `rows`, of which its rule for
            one intent is made.
        reads: Returns the footprint of an intent: the entities on which it depends. The gate
            refuses the intent as stale if one of them has changed. None declares none.
        reads_self: Collection of the agent's own entity; use it instead of `reads` where the
            intent depends on that entity alone. It is checked once per batch and costs almost
            nothing.
        when_stale: `reject`, or `revalidate` to leave the decision to the rule.
        effects: Kinds of effect that the rule may emit; the gate checks their executors' outboxes.
        version: Version of the payload, part of the domain's fingerprint. If only the rule
            changes, change the domain's version instead.
        summary: One line for people and tools.
        upcasters: Older version -> function that converts its payloads to `version`. A log that
            holds an older version can be continued only if there is an upcaster for it.
        revalidates: References that the rule reads and checks again when it runs: a change there
            makes nothing stale. A collection (`entity` None) stands for all of its entities.
        read_only: The rule only reads, answers and emits: an intent whose rule changes the state is
            refused as `rule_error`. Kinds of risk `read` are read-only without it.
        risk: Upper bound of the kind's effects.
        risk_of: Raises the risk of some payloads, never lowers it. Called with the payload as
            the rule receives it, and the state as users read it (`collection -> entity ->
            field`).
        cost: Cost of one intent, in units that the domain explains. Where a domain of the world
            charges costs (`on_cost`, as `accounts` does), it is shown to planners, and charged.
        work: Work of the rule that the payload tells, charged before the rule runs; work that
            depends on the state is charged by the rule (`Draft.charge`). A rule that loops over
            more than a few dozen items declares one of the two.
        broadcast: Deliver each admitted intent to the observers that `Domain.should_deliver`
            selects, all and in order, also if its change is no longer visible.
        discloses: One sentence about the facts that the rule discloses of hidden entities, such
            as `A hidden wall stops a move.`; empty: nothing. `placet.testing` holds the kind
            to it, and people read it in `placet kinds`.
        choices: Field of the payload -> the values that it may have, where the domain knows them
            and the payload's type does not, such as the names of its fields. Models are shown them
            as an enumeration; the rule checks the value.
        rows: Rule of rows: applies the intents of many members of a population at once, which come
            as a `ColumnBatch`. Then `payload` maps names to `Field`s, and `table` is set.
        table: Table of the agents that propose a kind with a rule of rows.
        fields: The payload's fields of a kind with a rule of rows; made of `payload`.
    """

    name: str
    payload: object
    rule: Rule = None  # type: ignore[assignment]  # `__post_init__` makes one of `rows`
    reads: Reads | None = None
    when_stale: WhenStale = "reject"
    effects: tuple[str, ...] = field(default=())
    version: str = "1"
    summary: str = ""
    reads_self: str | None = None
    upcasters: Mapping[str, Upcaster] = field(default_factory=dict)
    revalidates: Reads | None = None
    read_only: bool = False
    risk: Risk = "low"
    risk_of: "Callable[[Mapping[str, Json], WorldState], Risk] | None" = None
    cost: float = 0.0
    work: Work = 0
    broadcast: bool = False
    discloses: str = ""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: "RowsRule | None" = None
    table: str | None = None
    fields: "Mapping[str, Field]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        _load_pydantic()
        if self.rows is not None:
            _make_of_rows(self)
        elif self.table is not None:
            raise ValueError(
                f"kind {self.name!r} has a table and no rule of rows; write rows=... beside it"
            )
        name: object = self.name
        if not isinstance(name, str) or not is_kind_name(name):
            raise ValueError(
                f"kind name {self.name!r} must be at most 64 characters of segments "
                "[A-Za-z][A-Za-z0-9_]* joined by '.', no '__', no '_' at an end"
            )
        if self.reads is not None and self.reads_self is not None:
            raise ValueError(f"kind {self.name!r} has both reads and reads_self; set one of them")
        _require_rule(self.name, self.rule)
        for name, value, known in (
            ("when_stale", self.when_stale, WHEN_STALE),
            ("risk", self.risk, RISKS),
        ):
            if value not in known:
                raise ValueError(
                    f"the {name} of kind {self.name!r} must be one of {', '.join(known)}, "
                    f"got {value!r}"
                )
        if self.reads is not None and not callable(self.reads):
            raise ValueError(
                f"the reads of kind {self.name!r} must be a function of an intent that returns a "
                f"list of (collection, entity), got {self.reads!r}"
            )
        if self.version in self.upcasters:
            raise ValueError(
                f"kind {self.name!r} has an upcaster for {self.version!r}, which is its own version"
            )


_NOT_FOR_ROWS: Final = (
    *("reads", "revalidates", "effects", "upcasters", "work", "broadcast", "risk_of", "read_only"),
)
"""Parts of a kind that a rule of rows does not have."""

_SEE: Final = "see docs/concepts/columns.md"


def _make_of_rows(kind: Kind) -> None:
    """Set payload type and rule for one intent of a kind with a rule of rows.

    Raises:
        ValueError: A part of the kind is missing, or is none that a rule of rows may have.
    """
    from placet.kernel.arrays.field import Field  # noqa: PLC0415  # with the first kind of rows
    from placet.kernel.plugin.row_rule import RowRule, payload_type  # noqa: PLC0415

    name = f"kind {kind.name!r}"
    rows: RowsRule = kind.rows  # type: ignore[assignment]  # the caller has checked that it is set
    _require_function(f"the rows of {name}", rows, "rows")
    rule: object = kind.rule
    if rule is not None and not isinstance(rule, RowRule):
        raise ValueError(f"{name} has both a rule and a rule of rows; set one of them")
    if kind.table is None:
        raise ValueError(f"{name} has a rule of rows; name the table of its agents: table='...'")
    for part in _NOT_FOR_ROWS:
        if getattr(kind, part):
            raise ValueError(f"{name} has a rule of rows, and so no {part}; {_SEE}")
    if kind.when_stale != "reject" or kind.risk == "read":
        part = "risk 'read'" if kind.risk == "read" else f"when_stale {kind.when_stale!r}"
        raise ValueError(f"{name} has a rule of rows, and so no {part}; {_SEE}")
    if kind.reads_self not in {None, kind.table}:
        raise ValueError(
            f"{name} has a rule of rows of the table {kind.table!r}; its reads_self is that table "
            f"or None, got {kind.reads_self!r}"
        )
    # A copy by `dataclasses.replace` has the payload type that was made of its fields.
    fields = (
        kind.fields
        if isinstance(rule, RowRule) and not isinstance(kind.payload, Mapping)
        else kind.payload
    )
    if not isinstance(fields, Mapping) or not all(
        type(key) is str and key.isidentifier() and isinstance(one, Field)
        for key, one in fields.items()
    ):
        raise ValueError(
            f"the payload of {name} must map names to Field(...), because it has a rule of rows; "
            f"got {kind.payload!r}"
        )
    object.__setattr__(kind, "fields", dict(sorted(fields.items())))
    object.__setattr__(kind, "payload", payload_type(kind.name, kind.fields))
    object.__setattr__(kind, "rule", RowRule(kind.name, kind.table, kind.fields, rows))


def _require_rule(kind: str, rule: object) -> None:
    """Check that the rule of a kind can be called with a draft and an intent."""
    _require_function(f"the rule of kind {kind!r}", rule, "draft", "intent")


def _require_function(what: str, rule: object, *parameters: str) -> None:
    """Check that a rule can be called with its arguments.

    Raises:
        ValueError: It cannot.
    """
    expected = f"{what} must be a function of ({', '.join(parameters)})"
    if not callable(rule) or isinstance(rule, type):
        raise ValueError(f"{expected}, got {rule!r}")
    if inspect.iscoroutinefunction(rule):
        raise ValueError(
            f"{expected} that is not async, because nothing awaits it; what takes time is an effect"
        )
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):  # of a compiled function, which shows no signature
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        raise ValueError(f"{expected}, got {signature}") from None


@cache
def _load_pydantic() -> None:
    """Import pydantic with the first kind, because no earlier code needs it.

    Later would be while a world is opened, and would block its event loop.
    """
    from pydantic import TypeAdapter  # noqa: PLC0415  # 75 ms

    TypeAdapter(object)  # it loads a third of itself with the first that it makes


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class EffectHandler:
    """The executor of one kind of effect, with its retry settings.

        def send(effect: Effect) -> Json:
            return {"sent": effect.payload["to"]}

        mail = EffectHandler(handler=send, delivery="keyed", attempts_max=3, seconds_max=30)

    Attributes:
        handler: Runs one effect and returns its output. An async function runs in the event loop, a
            plain one in a thread.
        delivery: Retry class of the effect: `at_most_once` is never repeated, the others may be.
        on_in_doubt: Finds out the outcome of an effect whose attempt was cut off.
        attempts_max: Number of failed attempts after which the effect is given up; None for the
            default.
        seconds_max: Time limit of one attempt, in seconds; None for the default.
        concurrency: Number of attempts that run at a time; None for the default.
    """

    handler: Callable[[Effect], Json]
    delivery: Delivery
    on_in_doubt: Callable[[Effect], Settlement | None] | None = None
    attempts_max: int | None = None
    seconds_max: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class NewPopulation:
    """A population that is being registered: the agents `<name>:0` to `<name>:<count - 1>`.

    Attributes:
        name: Its name.
        table: Name of its table, whose rows have the same names.
        count: Number of its members.
        given: Fields whose initial values were given with the registration.
    """

    name: str
    table: str
    count: int
    given: frozenset[str] = frozenset()


@runtime_checkable
class Domain(Protocol):
    """Base class of domains: it has the kinds of intents, and the rule of each kind.

    A subclass sets `name`, `version` and `kinds`; every other attribute and method has a default.
    The hooks (`on_...`) change the state at fixed moments. `sight`, or else `may_see` and
    `hidden_fields`, decide which parts of the state an agent sees. Every method is pure: its result
    depends on its arguments alone.

        class Save(TypedDict):  # of typing_extensions, before Python 3.12
            coins: int

        def save(draft, intent):
            coins = draft.get("bank.accounts", draft.agent_id, "coins")
            draft.put("bank.accounts", draft.agent_id, "coins", coins + intent["payload"]["coins"])

        class Bank(Domain):
            name, version = "bank", "1"
            kinds = (Kind("Save", Save, save, reads_self="bank.accounts"),)

            def on_register(self, draft, agent_id, attributes):
                draft.create("bank.accounts", agent_id, {"coins": 0})

    Attributes:
        name: Prefix of its collections and of its codes; a lower-case identifier.
        version: Changes when a rule changes.
        kinds: Kinds that agents may propose.
        guide: Instructions for a planner, in a few sentences.
        commands: Sentences that stand for intents.
        executors: Factory of the executors of its effects, as `module:function` or by an entry
            point of `placet.executors`: called with the domain when a world is opened, it returns
            an `EffectHandler` for each kind of effect, or None for a kind that cannot run here.
            Empty: the program that opens the world registers them. It is a name, because a domain
            imports nothing impure.
        sight: Visibility policy composed from `placet.kernel.visibility`: then only observers
            near a change are asked. None: `may_see` and `hidden_fields` decide.
        hides: Collections of which its own `may_see` or `hidden_fields` may hide an entity or a
            field; neither is called for others. None: the collections that `sight` names, or any
            collection if the domain overrides one of the two functions.
        tables: Its tables: collections of like entities, stored as arrays.
        collections: Names of its collections, so that one without entities is shown as empty
            before its first entity too, also to agents that may see none of them. Those that
            `hides`, `sight`, `invariant_reads` and `Kind.reads_self` name count as declared.
        writes: Names of other domains whose collections this domain's rules and hooks may write.
            Collections whose prefix is no domain's name may be written by every domain.
        needs: Names of other domains that its world must have. An `Orchestrator` adds a missing
            domain if it is installed.
        quotas: Kind -> its quota, in the form of `OrchestratorConfig.quotas`. An `Orchestrator`
            uses it where the configuration has none for the kind.
        former_settings: Names of settings that earlier versions had, and this one has not. They
            are left out when the domain is made again from the settings in a log.
        invariant_reads: Entities on which its invariants depend, by name: a batch that changes
            none of them is not checked, and `changed` names no others. None: they depend on any
            entity.
        roles: All roles that its rules require of the person who approves; a server then refuses a
            person with another role. Empty: not declared.
    """

    name: str
    version: str
    kinds: Sequence[Kind]
    guide: str = ""
    commands: Sequence[Command] = ()
    executors: str = ""
    sight: "VisibilityPolicy | None" = None
    hides: Collection[str] | None = None
    tables: "Sequence[Table]" = ()
    collections: Collection[str] = ()
    writes: Collection[str] = ()
    needs: Sequence[str] = ()
    quotas: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    former_settings: Collection[str] = ()
    invariant_reads: Collection[Ref] | None = None
    roles: Collection[str] = ()

    def __init_subclass__(cls, **options: object) -> None:
        """Explain an unknown keyword of a domain's own `__init__`."""
        super().__init_subclass__(**options)
        explain_keywords(cls)

    def __repr__(self) -> str:
        # It may be shown before a subclass has set its attributes.
        version, kinds = getattr(self, "version", "?"), getattr(self, "kinds", ())
        return printable(f"<{type(self).__name__}, version {version}, {len(kinds)} kinds>")

    def idle_names(self) -> Sequence[str]:
        """Return a sentence for each name in the settings that has no effect, such as a typo.

        A new world with such a name is refused; a name in an older log is reported.
        """
        return ()

    def settings(self) -> Mapping[str, Json] | None:
        """Return the keywords that rebuild this domain, as plain JSON; None if none can.

        They are kept in the log, so that a tool can rebuild the domain and verify the log by the
        same rules. Values read back have lists for tuples, and objects with sorted keys.
        """
        return None

    def on_open(self, draft: "Draft") -> None:
        """Write the initial state. Called once, when a new world's log is created.

        draft.create("shop.till", "till", {"coins": 0})
        """
        return None  # noqa: RET501  # without it a type checker holds the hook to be abstract

    def on_register(
        self, draft: "Draft", agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        """Create a new agent's entities; return None, or a `RuleRefusal` to refuse the agent.

        `attributes` holds the extra keywords of `register_agent`.
        """
        return None

    def on_remove(self, draft: "Draft", agent_id: str) -> None:
        """Delete or release the state of an agent that is being removed.

        Nothing is deleted by itself: entities that it leaves stay in the state.

            draft.delete("bank.accounts", agent_id)
        """
        return None  # noqa: RET501  # likewise

    def on_populate(self, draft: "Draft", population: NewPopulation) -> None:
        """Write the state of a new population, whose rows have their given or default values.

        Called once, when the population is registered; its members are not passed to `on_register`.
        A field of `population.given` must not be written: the registration fails.
        """
        return None  # noqa: RET501  # likewise

    def on_tick(self, draft: "Draft", sim_time: float) -> None:
        """Advance state that changes by itself, once per step of simulated time.

        It runs at the end of each step of a `stepped` world and of `Kernel.step`, and every
        `tick_s` of a `next_event` world. It never runs in a `realtime` world, which has no steps.
        """
        return None  # noqa: RET501  # likewise

    def on_batch(self, draft: "Draft") -> None:
        """Write values that depend on a batch as a whole, once all of its rules have passed.

        Examples are a version number and an undo list. `draft.previous_values()` returns the values
        before the batch changed them, `draft.created_and_deleted()` the new and deleted entities.
        Called once per batch, as its last intent, before the invariants.
        """
        return None  # noqa: RET501  # likewise

    def on_settle(self, draft: "Draft", effect: Effect, settlement: Settlement) -> None:
        """Update the state from the outcome of an effect; called for every effect of the world.

        if effect.kind == "charge_card":
            paid = settlement.succeeded
            draft.put("shop.orders", effect.payload["order"], "paid", paid)
        """
        return None  # noqa: RET501  # likewise

    def on_cost(self, draft: "Draft", intent: Intent, cost: float) -> RuleRefusal | None:
        """Charge the cost of an intent's kind, of any domain, to its agent, before its rule.

        Called for kinds with a cost. Return None, or `budget_exceeded(...)` to refuse the intent.
        """
        return None

    def on_patch(self, draft: "Draft", changed: Sequence[Ref]) -> RuleRefusal | None:
        """Check or complete an operator's patch, which no rule of a kind has checked.

        Return None to accept it, or a `RuleRefusal` to refuse it.

        Domains are called in their order, each once, and then the invariants of all.
        """
        return None

    def invariants(self, state: "State", changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        """Check the state after a batch; return a refusal for each violated invariant.

        `changed` names the changed entities, limited by `invariant_reads` unless that is None.
        """
        return ()

    def may_see(self, state: "State", agent_id: str, ref: Ref) -> bool:
        """Return whether an agent may see an entity.

        Used for staleness, `changed` lists, views and observations. It is also asked about deleted
        entities: return True there only if the name alone tells that the agent may know of it.
        """
        return self.sight is None or self.sight.may_see(state, agent_id, ref)

    def hidden_fields(self, state: "State", agent_id: str, ref: Ref) -> Collection[str]:
        """Return the names of the fields that an agent may not see of a visible entity."""
        return () if self.sight is None else self.sight.hidden_fields(state, agent_id, ref)

    def shares_intents(self, state: "State", agent_id: str) -> bool:
        """Return whether an agent may read the recorded intents of other agents.

        This covers all intents of the domain's kinds in the log, admitted and refused ones. False
        by default: an agent reads its own intents, and the visible changes of state by others.
        `placet.kernel.intent_visibility` has the whole rule.
        """
        return False

    def should_deliver(self, state: "State", agent_id: str, intent: Intent) -> bool:
        """Return whether an agent receives an admitted intent of a `broadcast` kind.

        Called only for agents that may see the submitting agent's own entity, if `sight` names it.
        """
        return True


def overrides(domain: Domain, hook: str) -> bool:
    """Return whether a domain overrides a hook, so that an empty one is never called."""
    return getattr(type(domain), hook) is not getattr(Domain, hook)


_REQUIRED_ATTRIBUTES: Final = {"name": '"shop"', "version": '"1"', "kinds": "(Kind(...),)"}
"""Attributes of a domain without a default, and an example of each."""

RESERVED_NAME: Final = "placet"
"""The prefix of the kernel's own kinds."""


def require_attributes(domain: object) -> None:
    """Check that an object is a domain with the attributes that have no default.

    Raises:
        DomainError: It is not.
    """
    if isinstance(domain, type) or not isinstance(domain, Domain):
        hint = f"; write {domain.__name__}()" if isinstance(domain, type) else ""
        raise DomainError(
            "a domain must be an object of a subclass of placet.kernel.Domain, "
            f"got {domain!r}{hint}"
        )
    for name, example in _REQUIRED_ATTRIBUTES.items():
        if not hasattr(domain, name):
            raise DomainError(
                f"the domain {type(domain).__name__} has no {name}; set it in the class, such as "
                f"{name} = {example}"
            )
    if domain.name == RESERVED_NAME:
        raise DomainError(f"a domain cannot be called {RESERVED_NAME!r}: the kernel's kinds are")
