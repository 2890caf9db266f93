"""The registry of a world: its domains and their kinds, checked once at the start."""

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from keyword import iskeyword
from typing import TYPE_CHECKING, Final, cast

from placet.kernel.plugin.boundary import raised_by
from placet.kernel.plugin.domain import (
    Domain,
    Kind,
    Rule,
    RuleRefusal,
    overrides,
    require_attributes,
)
from placet.kernel.plugin.dropped_refusals import require_returned
from placet.kernel.plugin.kind_charges import read_only, with_cost, with_work
from placet.kernel.plugin.tables import require_table, spec_of_table, tables_of
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.kernel.visibility.policy import hides_of, is_shown_to_all, position_field_of
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical, freeze, from_canonical
from placet.schemas.errors import INTERRUPTS, DomainError
from placet.schemas.identity import RESERVED_IDS, Ref
from placet.schemas.intent import Intent
from placet.schemas.name_suggestions import nearest
from placet.schemas.names import name_fault

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_COMPILED_MAX: Final = 512
"""Number of payload types whose validators are kept: compiling one takes 1 ms."""

_TEXTS: Final = frozenset({"title", "description", "examples"})
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
_VALUES: Final = frozenset({"default", "const", "enum", "mapping"})
"""Keywords of JSON Schema: texts, maps of names to schemas, values that are not schemas."""

_HOOKS: Final = (
    *("idle_names", "settings", "on_open", "on_register", "on_remove", "on_populate", "on_tick"),
    *("on_batch", "on_settle", "on_cost"),
    *("on_patch", "invariants", "may_see", "hidden_fields", "shares_intents", "should_deliver"),
)
"""Methods of a domain that the kernel calls; their arguments are those of `Domain`."""


_TYPO: Final = 0.86
"""Similarity above which a method's name is taken for a misspelled hook."""

_SINGLE_VALUES: Final = frozenset({"integer", "number", "string", "boolean", "null"})
"""Types of JSON Schema that have no fields."""


class ForeignWriteError(Exception):
    """A domain's code wrote a collection of another domain."""


class Registry:
    """The kinds of a world, by name, and the domains they come from.

    Attributes:
        domains: In the order given; hooks run in this order.
        tables: Table of each name.
        collections: Names of the collections that the domains declare.
        kinds: Every kind, by its name on the wire.
        domain_of: The domain of each kind.
        with_invariants: The domains that have invariants.
        watched: Domain name -> the `invariant_reads` of these as entity -> collections; None if
            the invariants depend on any entity.
        with_on_batch: The domains that have `on_batch`.
        has_whole_checks: A domain has invariants or `on_batch`.
        with_on_settle: The domains that have `on_settle`.
        with_on_tick: The domains that have `on_tick`.
        with_shared_intents: The domains that have `shares_intents`.
        read_only_kinds: Names of the kinds that are declared `read_only` or have the risk `read`.
        rules: The rule of each kind, with the charge of its declared work.
        versions: Version of every kind.
        settings: Domain name -> the settings that rebuild it; without domains that cannot be
            rebuilt.
        fingerprint: 128 bits over the names and versions of domains and kinds and the payloads'
            JSON Schemas without their texts for people, in hexadecimal: two worlds with one
            fingerprint decide alike.
    """

    def __init__(self, domains: Sequence[Domain], *, has_leases: bool = False) -> None:
        self.domains = tuple(domains)
        self.kinds: dict[str, Kind] = {}
        self.domain_of: dict[str, Domain] = {}
        self._payloads: dict[str, TypeAdapter[object]] = {}
        self._hiding: dict[str, tuple[Domain, ...]] = {}
        self._position_fields: dict[str, str | None] = {}
        for domain in self.domains:
            require_attributes(domain)
        for domain in self.domains:
            self._add(domain)
        self.tables = tables_of(self.domains)
        for kind in self:
            require_table(kind, self.domain_of[kind.name])
        if not self.kinds:
            raise DomainError("a world needs at least one domain with at least one kind")
        sights = [domain.sight for domain in self.domains if domain.sight is not None]
        collections = sorted({sight.agent_collection for sight in sights} - {""})
        self._agent_collections = tuple(filter(self.hiding, collections))
        self._hides_fields = any(map(_hides_fields, self.domains))
        self.collections = frozenset().union(*map(declared_collections, self.domains))
        self.with_invariants = tuple(d for d in self.domains if overrides(d, "invariants"))
        self.watched = {domain.name: _watched(domain) for domain in self.with_invariants}
        self.with_on_batch = tuple(d for d in self.domains if overrides(d, "on_batch"))
        self.has_whole_checks = bool(self.with_invariants or self.with_on_batch)
        self.with_on_settle = tuple(d for d in self.domains if overrides(d, "on_settle"))
        self.with_on_tick = tuple(d for d in self.domains if overrides(d, "on_tick"))
        self.with_shared_intents = tuple(d for d in self.domains if overrides(d, "shares_intents"))
        self.read_only_kinds = frozenset(
            kind.name for kind in self if kind.read_only or kind.risk == "read"
        )
        self._foreign = {domain.name: self._foreign_to(domain) for domain in self.domains}
        self._with_costs = tuple(d for d in self.domains if overrides(d, "on_cost"))
        self.rules = {kind.name: self._whole_rule(kind) for kind in self}
        self.versions = {kind.name: kind.version for kind in self}
        settings = ((domain.name, _settings_of(domain)) for domain in self.domains)
        self.settings = {name: values for name, values in settings if values is not None}
        self.fingerprint = self.fingerprint_of(self.kinds)
        if has_leases:  # of no domain: the log does not name them among the rules
            from placet.kernel.plugin.lease_kinds import KernelKinds  # noqa: PLC0415  # pydantic

            self._add(KernelKinds())
            self.rules |= {kind.name: kind.rule for kind in KernelKinds.kinds}

    def _add(self, domain: Domain) -> None:
        _require_hooks(type(domain))
        name = domain.name
        is_name = type(name) is str and name.isidentifier() and not name_fault(name)
        if not is_name or iskeyword(name):
            raise DomainError(
                f"a domain's name must be an identifier such as 'my_shop', got {name!r} of "
                f"{type(domain).__name__}"
            )
        version: object = domain.version
        if type(version) is not str:
            raise DomainError(f"the version of domain {name!r} must be a string, got {version!r}")
        hidden = hidden_collections(domain)
        if isinstance(hidden, str) or not isinstance(hidden, Collection | None):
            raise DomainError(
                f"`hides` of {name!r} must be a set of names of collections, or None, "
                f"got {hidden!r}"
            )
        declared: object = domain.collections
        if isinstance(declared, str) or not isinstance(declared, Collection):
            raise DomainError(
                f"`collections` of {name!r} must be names of collections, such as "
                f"({name + '.things'!r},), got {declared!r}"
            )
        if any(other.name == name for other in self.domains if other is not domain):
            raise DomainError(f"two domains are called {name!r}; a name may be used once")
        for kind in _kinds_of(domain):
            if kind.name in self.kinds:
                other = self.domain_of[kind.name].name
                if other == name:
                    raise DomainError(f"domain {name!r} has two kinds {kind.name!r}")
                raise DomainError(f"kind {kind.name!r} of {name!r} is already a kind of {other!r}")
            self.kinds[kind.name] = kind
            self.domain_of[kind.name] = domain
            self._payloads[kind.name] = validator = _validator_of(kind)
            _require_object(kind, validator)
        require_returned(domain)

    def concerned(self, agent_id: str) -> tuple[Domain, ...]:
        """Return the domains whose `on_register` and `on_remove` run for an agent of this name.

        An agent named `<domain>.<name>` belongs to that domain alone, such as a moderator: it
        has no entities in the other domains.
        """
        owner, dot, _ = agent_id.partition(".")
        own = tuple(domain for domain in self.domains if dot and domain.name == owner)
        return own or self.domains

    def require_own_writes(self, domain: Domain, draft: Draft, since: int) -> None:
        """Check that a domain's code wrote no collection of another domain.

        Args:
            domain: The domain whose rule or hook has run.
            draft: The draft that it wrote to.
            since: Number of writes before it ran.

        Raises:
            ForeignWriteError: It did, and its `writes` does not name that domain.
        """
        foreign = self._foreign[domain.name]
        if not foreign:
            return
        for collection, entity in draft.written(since):
            owner = collection.partition(".")[0]
            if owner in foreign:
                raise ForeignWriteError(
                    f"domain {domain.name!r} wrote {collection}/{entity}, which is of domain "
                    f"{owner!r}; let a kind of {owner!r} write it, or name {owner!r} in `writes` "
                    f"of {domain.name!r}"
                )

    def require_own_tables(self, domain: Domain, tables: Sequence[str]) -> None:
        """Check that a hook of a domain wrote columns of no other domain.

        Raises:
            ForeignWriteError: It did, and the domain's `writes` does not name that domain.
        """
        for table in tables:
            owner = table.partition(".")[0]
            if owner in self._foreign[domain.name]:
                raise ForeignWriteError(
                    f"domain {domain.name!r} wrote columns of {table}, which is of domain "
                    f"{owner!r}; name {owner!r} in `writes` of {domain.name!r}"
                )

    def _foreign_to(self, domain: Domain) -> frozenset[str]:
        """Return the names of the domains whose collections a domain must not write.

        Raises:
            DomainError: `writes` is no collection of names, or has a misspelled one.
        """
        allowed: object = domain.writes
        if isinstance(allowed, str) or not isinstance(allowed, Collection):
            raise DomainError(
                f"`writes` of domain {domain.name!r} must be the names of other domains, such as "
                f"('world',), got {allowed!r}"
            )
        names = [other.name for other in self.domains]
        for name in allowed:
            if name not in names and (near := nearest(name, names, 1)):
                hint = f"did you mean {near[0]!r}?"
                raise DomainError(f"`writes` of domain {domain.name!r} names {name!r}; {hint}")
        return frozenset(names) - {domain.name, *allowed}

    @property
    def charges_costs(self) -> bool:
        """Whether a domain of the world charges the costs of kinds; else they mean nothing."""
        return bool(self._with_costs)

    def _whole_rule(self, kind: Kind) -> Rule:
        """Return the rule of a kind with its charges of work and cost, and its checks."""
        rule = self._guarded(with_work(kind), kind.name)
        if kind.name in self.read_only_kinds:
            rule = read_only(rule)
        if not (kind.cost and self._with_costs):
            return rule
        return with_cost(rule, kind, self._with_costs, self.require_own_writes)

    def _guarded(self, rule: Rule, kind: str) -> Rule:
        """Return a rule that checks its writes; the rule itself in a world of one domain."""
        domain = self.domain_of[kind]
        if not self._foreign[domain.name]:
            return rule

        def guarded_rule(draft: Draft, intent: Intent) -> RuleRefusal | None:
            since = draft.writes_count
            returned = rule(draft, intent)
            self.require_own_writes(domain, draft, since)
            return returned

        return guarded_rule

    def payload_validator(self, kind: str) -> "TypeAdapter[object]":
        """Return the validator of a kind's payload.

        Raises:
            KeyError: No domain has this kind.
        """
        return self._payloads[kind]

    def nearest(self, kind: str, count: int) -> tuple[str, ...]:
        """Return the kinds with the most similar names, best first."""
        return nearest(kind, sorted(self.kinds), count)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether an agent may see an entity, by the domain of its collection.

        The entity may be deleted: then whether the agent may know that it was there.

        A collection without a domain's prefix is checked by every domain.
        """
        for owner in self.hiding(ref.collection):  # noqa: SIM110  # a generator would double it
            if not owner.may_see(state, agent_id, ref):
                return False
        return True

    def is_shown_to_all(self, state: State, ref: Ref) -> bool:
        """Return whether every agent may see an entity, as far as `sight` alone tells it."""
        return all(
            owner.sight is not None
            and not overrides(owner, "may_see")
            and is_shown_to_all(owner.sight, state, ref)
            for owner in self.hiding(ref.collection)
        )

    def may_know_agent(self, state: State, agent_id: str, other: str) -> bool:
        """Return whether an agent may know of another by name: it may see its own entity.

        Domains name the collection of the agents' own entities in their `sight`.
        """
        if other in RESERVED_IDS or other == agent_id:
            return True
        for collection in self._agent_collections:
            if not self.may_see(state, agent_id, Ref(collection, other)):
                return False
        return True

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Return the fields of an entity that an agent may not see."""
        hidden: Collection[str] = ()
        if not self._hides_fields:
            return hidden
        for owner in self.hiding(ref.collection):
            more = owner.hidden_fields(state, agent_id, ref)
            hidden = {*hidden, *more} if hidden else more
        return hidden

    def seen(self, state: State, agent_id: str, ref: Ref) -> Mapping[str, Json] | None:
        """Return the fields of an entity that an agent may see; None if it is hidden or missing."""
        fields = None if ref.entity is None else state.entity(ref.collection, ref.entity)
        if fields is None or not self.may_see(state, agent_id, ref):
            return None
        return without(fields, self.hidden_fields(state, agent_id, ref))

    def hiding(self, collection: str) -> tuple[Domain, ...]:
        """Return the domains that may hide parts of a collection; empty if it is shown whole."""
        known = self._hiding.get(collection)
        if known is None:
            known = tuple(one for one in self._owners(collection) if _may_hide(one, collection))
            self._hiding[collection] = known
        return known

    def position_field(self, collection: str) -> str | None:
        """Return the field with the positions of a collection's entities; None if it has none.

        The field is that of the collection's domain; outside every domain, the first of any.
        """
        if collection not in self._position_fields:
            fields = map(_position_field, self._owners(collection))
            self._position_fields[collection] = next(filter(None, fields), None)
        return self._position_fields[collection]

    @property
    def has_positions(self) -> bool:
        """Whether the entities of a domain have positions."""
        return any(map(_position_field, self.domains))

    def _owners(self, collection: str) -> Sequence[Domain]:
        """Return the domain of a collection; for one without a domain's prefix, all domains."""
        prefix = collection.partition(".")[0]
        return [domain for domain in self.domains if domain.name == prefix] or self.domains

    def json_schemas(self) -> dict[str, Json]:
        """Return the JSON Schema of every kind's payload, by name, sorted."""
        return {name: self._payloads[name].json_schema() for name in sorted(self.kinds)}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.kinds.values())

    def fingerprint_of(self, kinds: Collection[str]) -> str:
        """Hash the domains with these kinds only; of all kinds it is the registry's fingerprint."""
        described = [
            [
                domain.name,
                domain.version,
                [[kind.name, kind.version] for kind in domain.kinds if kind.name in kinds],
                # Left out if empty, so that a world without tables keeps its fingerprint.
                *([list(map(spec_of_table, domain.tables))] if domain.tables else []),
            ]
            for domain in self.domains
        ]
        schemas = {
            name: from_canonical(_schema_of(self._payloads[name]))
            for name in sorted(self.kinds)
            if name in kinds
        }
        data = canonical([described, schemas])
        return blake2b(data, digest_size=16).hexdigest()


@lru_cache(maxsize=_COMPILED_MAX)
def _require_hooks(domain: type[Domain]) -> None:
    """Check that the hooks of a class of domains take the arguments that they are called with.

    Raises:
        DomainError: A hook does not.
    """
    _require_known_hooks(domain)
    for name in _HOOKS:
        hook = getattr(domain, name)
        if hook is getattr(Domain, name):
            continue
        expected = list(inspect.signature(getattr(Domain, name)).parameters)[1:]
        takes = f"{domain.__name__}.{name} must take ({', '.join(expected)})"
        if not callable(hook):
            raise DomainError(f"{takes}, got {hook!r}")
        try:
            signature = inspect.signature(hook)
        except (TypeError, ValueError):  # of a compiled function, which shows no signature
            continue
        has_self = inspect.isfunction(inspect.getattr_static(domain, name))
        try:
            signature.bind(*[None] * has_self, *expected)
        except TypeError:
            names = list(map(str, signature.parameters.values()))[has_self:]
            raise DomainError(f"{takes}, got ({', '.join(names)})") from None


def _require_known_hooks(domain: type[Domain]) -> None:
    """Check that no method of a class of domains has nearly the name of a hook.

    Raises:
        DomainError: One has, or begins with `on_`: it would never be called.
    """
    for name in dir(domain):
        if name in _HOOKS or name.startswith("_") or not callable(getattr(domain, name)):
            continue
        near = nearest(name, _HOOKS, 1, similar=_TYPO)
        if near or name.startswith("on_"):
            hint = f"did you mean {near[0]!r}?" if near else f"hooks are {', '.join(_HOOKS)}"
            raise DomainError(
                f"{domain.__name__}.{name} is no hook, so it would never be called; {hint}"
            )


def _kinds_of(domain: Domain) -> Sequence[Kind]:
    """Return the kinds of a domain.

    Raises:
        DomainError: They are no kinds.
    """
    kinds: object = domain.kinds
    if not isinstance(kinds, Sequence) or not all(isinstance(kind, Kind) for kind in kinds):
        raise DomainError(
            f"the kinds of domain {domain.name!r} must be a sequence such as (Kind(...),), "
            f"got {kinds!r}"
        )
    return kinds


def _validator_of(kind: Kind) -> "TypeAdapter[object]":
    """Return the compiled validator of a kind's payload; equal payload types share it.

    Raises:
        DomainError: The payload is not a type that pydantic knows.
    """
    from pydantic import PydanticUserError  # noqa: PLC0415  # with the first kind

    payload = kind.payload
    problem = f"the payload of kind {kind.name!r} must be a TypedDict or a pydantic model"
    if payload is None or isinstance(payload, str | Collection):
        raise DomainError(f"{problem}, got {payload!r}")
    try:
        try:
            return _compiled(payload)
        except TypeError:  # a payload that has no hash
            return _compiled.__wrapped__(payload)
    except PydanticUserError as error:
        if error.code == "typed-dict-version":
            problem += ", of typing_extensions before Python 3.12"
        raise DomainError(f"{problem}, got {payload!r}") from None


def _require_object(kind: Kind, validator: "TypeAdapter[object]") -> None:
    """Check that the payload of a kind is no single value.

    Raises:
        DomainError: It is a number, a text, a boolean or null.
    """
    if from_canonical(_schema_of(validator)).get("type") in _SINGLE_VALUES:
        raise DomainError(
            f"the payload of kind {kind.name!r} must be a TypedDict or a pydantic model, got "
            f"{kind.payload!r}"
        )


@lru_cache(maxsize=_COMPILED_MAX)
def _compiled(payload: object) -> "TypeAdapter[object]":
    from pydantic import TypeAdapter  # noqa: PLC0415  # with the first kind

    return TypeAdapter(cast("type[object]", payload))


@lru_cache(maxsize=_COMPILED_MAX)
def _schema_of(payload: "TypeAdapter[object]") -> bytes:
    """Return the encoded JSON Schema of a payload, without its texts for people."""
    return canonical(_without_texts(payload.json_schema()))


def _without_texts(schema: Json) -> Json:
    """Return a JSON Schema without titles, descriptions and examples, which decide nothing."""
    if isinstance(schema, list):
        return [_without_texts(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Json] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS:  # its keys are names that a user chose, such as `title`
            kept[keyword] = {name: _without_texts(named) for name, named in value.items()}
        elif keyword in _VALUES:
            kept[keyword] = value
        elif keyword not in _TEXTS:
            kept[keyword] = _without_texts(value)
    return kept


def _settings_of(domain: Domain) -> dict[str, Json] | None:
    """Return a domain's settings as a log would return them.

    Raises:
        DomainError: They are not plain JSON.
    """
    try:
        values = domain.settings()
    except INTERRUPTS:
        raise
    except BaseException as error:  # the boundary of plug-in code
        raise raised_by(f"settings of domain {domain.name!r}", error) from error
    if values is None:
        return None
    try:
        plain: dict[str, Json] = from_canonical(canonical(freeze(dict(values))))
    except ENCODE_ERRORS as error:
        raise DomainError(
            f"the settings of domain {domain.name!r} must be plain JSON, or None: {error}"
        ) from error
    return plain


def _watched(domain: Domain) -> Mapping[str, frozenset[str]] | None:
    """Invert a domain's `invariant_reads`: entity -> its collections.

    Raises:
        DomainError: They name a collection as a whole.
    """
    if domain.invariant_reads is None:
        return None
    watched: dict[str, frozenset[str]] = {}
    for collection, entity in domain.invariant_reads:
        if entity is None:
            raise DomainError(
                f"the invariants of domain {domain.name!r} watch {collection!r} as a whole; name "
                "its entities, or leave `invariant_reads` None"
            )
        watched[entity] = watched.get(entity, frozenset()) | {collection}
    return watched


def without(fields: Mapping[str, Json], hidden: Collection[str]) -> Mapping[str, Json]:
    """Return the fields of an entity without the hidden ones."""
    if not hidden:
        return fields
    return {name: value for name, value in fields.items() if name not in hidden}


def hidden_collections(domain: Domain) -> Collection[str] | None:
    """Return the collections of which a domain may hide an entity or a field; None is any."""
    if domain.hides is not None:
        return domain.hides
    if overrides(domain, "may_see") or overrides(domain, "hidden_fields"):
        return None
    return () if domain.sight is None else hides_of(domain.sight)


def declared_collections(domain: Domain) -> frozenset[str]:
    """Return the names of the collections that a domain names anywhere in its declarations."""
    sight, own = domain.sight, [kind.reads_self for kind in domain.kinds]
    tables = [table.name for table in domain.tables]
    names: list[str | None] = [
        *domain.collections,
        *tables,
        *(hidden_collections(domain) or ()),
        *own,
    ]
    names += [collection for collection, _ in domain.invariant_reads or ()]
    names.append(None if sight is None else sight.agent_collection)
    return frozenset(filter(None, names))


def _position_field(domain: Domain) -> str | None:
    return None if domain.sight is None else position_field_of(domain.sight)


def _may_hide(domain: Domain, collection: str) -> bool:
    hidden = hidden_collections(domain)
    return hidden is None or collection in hidden


def _hides_fields(domain: Domain) -> bool:
    has_sight = domain.sight is not None and domain.sight.hides_fields
    return has_sight or overrides(domain, "hidden_fields")
