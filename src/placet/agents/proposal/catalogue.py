"""The kinds that one agent may propose, with their descriptions for a planner.

It is the world's own registry, seen through an agent's permissions: a kind that is not granted does
not exist for its agent, so that what exists is not leaked.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from placet.agents.proposal.plan import IF_UNCHANGED
from placet.agents.proposal.tool_schema import tool_schema, with_conditions
from placet.kernel.plugin.domain import Command, Domain, Kind
from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import Json, to_json
from placet.schemas.name_suggestions import nearest

ASK: Final = "ask_clarification"
STOP: Final = "stop"
"""The two tools that every proposer has besides the kinds."""

RESERVED: Final = frozenset({ASK, STOP, "find_kinds", "propose"})
"""Wire names that no kind can have; the last two stand for the kinds where these are many."""

_DOTS: Final = "__"
_WIRE_CHARS_MAX: Final = 64
_NAMES_LISTED: Final = 40


class Catalogue:
    """The kinds that an agent may propose, as a mapping with schemas, guides and commands.

    Args:
        domain: A domain, several, or the registry of a world.
        permitted: Kinds that the agent may use; None is all of them.
        executors: Kinds of effect that have an executor; None if unknown: only the gate checks it.

    Attributes:
        registry: The world's whole registry, including kinds that are not visible.
        kinds: Visible kinds by name, sorted.
        guides: Texts of the domains that guide a planner, in order of the domains.
        commands: Sentence patterns of the domains that stand for intents of visible kinds.

    Raises:
        ValueError: A visible kind has the name of a built-in tool, or a name that is too long for
            a tool.
    """

    def __init__(
        self,
        domain: "Domain | Sequence[Domain] | Registry",
        permitted: Collection[str] | None = None,
        executors: Collection[str] | None = None,
    ) -> None:
        registry = domain if isinstance(domain, Registry) else Registry(_listed(domain))
        self.registry = registry
        self._executors = executors
        self.kinds: dict[str, Kind] = {
            name: registry.kinds[name]
            for name in sorted(registry.kinds)
            if permitted is None or name in permitted
        }
        shadowed = sorted(RESERVED & self.kinds.keys())
        if shadowed:
            raise ValueError(
                f"the agent layer has a tool named {shadowed[0]!r}, so a kind of that name cannot "
                "be proposed; do not permit the kind, or rename it"
            )
        long = next((name for name in self.kinds if len(wire_name(name)) > _WIRE_CHARS_MAX), None)
        if long is not None:
            raise ValueError(
                f"as a tool the kind {long!r} is {wire_name(long)!r}, more than the "
                f"{_WIRE_CHARS_MAX} characters that model providers allow; do not permit the kind, "
                "or rename it"
            )
        known = {registry.domain_of[name].name for name in self.kinds}
        self.guides = tuple(
            owner.guide for owner in registry.domains if owner.guide and owner.name in known
        )
        self.commands: tuple[Command, ...] = tuple(
            command
            for owner in registry.domains
            for command in owner.commands
            if command.kind in self.kinds
        )
        self._adapters = {name: _boxed(kind) for name, kind in self.kinds.items()}
        self._schemas: dict[str, Json] | None = None

    @classmethod
    def of(cls, domain: "Vocabulary") -> "Catalogue":
        """Return a catalogue as it is, or that of all kinds of a domain, of several or a world."""
        return domain if isinstance(domain, Catalogue) else cls(domain)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.kinds.values())

    def __len__(self) -> int:
        return len(self.kinds)

    def unsound(self, kind: str, payload: Json) -> Sequence[ErrorDetails]:
        """Return the faults of a payload of a visible kind, as the gate would find them.

        Raises:
            Exception: Any exception of a payload's own validator.
        """
        adapter, boxed = self._adapters[kind], {"payload": payload}
        try:
            adapter.validate_python(boxed, strict=True)
        except ValidationError:
            try:
                adapter.validate_json(to_json(boxed), strict=True)
            except ValidationError as error:
                return error.errors(include_url=False)
        return ()

    def schemas(self) -> Mapping[str, Json]:
        """Return the JSON Schema of every visible kind's payload, by name; built once."""
        if self._schemas is None:
            self._schemas = {
                name: self.registry.payload_validator(name).json_schema() for name in self.kinds
            }
        return self._schemas

    def payload_schemas(self) -> Mapping[str, Json]:
        """Return the schema of every visible kind's payload for a model; see `tool_schema`."""
        return {
            name: tool_schema(schema, self.kinds[name].choices)
            for name, schema in self.schemas().items()
        }

    def tool_schemas(self) -> Mapping[str, Json]:
        """Return the schema of every visible kind as a tool: its payload, and `if_unchanged`."""
        return {name: with_conditions(one) for name, one in self.payload_schemas().items()}

    def takes_conditions(self, kind: str) -> bool:
        """Return whether `if_unchanged` in a call of a kind is a condition.

        It is not if the payload of the kind has a field of this name.
        """
        return (
            kind not in self.kinds
            or IF_UNCHANGED not in tool_schema(self.schemas()[kind])["properties"]
        )

    def missing_tool(self, kind: Kind) -> str | None:
        """Return an effect kind of a kind that has no executor.

        None if all have one, or unknown.
        """
        if self._executors is None:
            return None
        return next((effect for effect in kind.effects if effect not in self._executors), None)

    def nearest(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Return the names of the visible kinds that are most similar to `name`, best first."""
        return nearest(name, self.kinds, count)

    def kind_names(self) -> str:
        """Return the names of the kinds that the agent may use, as text for an error message.

        At most a few are listed, with the number of the others.
        """
        names = list(self.kinds)
        listed = ", ".join(names[:_NAMES_LISTED])
        more = len(names) - _NAMES_LISTED
        return f"{listed} and {more} more" if more > 0 else listed


Vocabulary: TypeAlias = Catalogue | Registry | Domain | Sequence[Domain]
"""A source of the kinds that may be proposed."""


def wire_name(kind: str) -> str:
    """Return the name of a kind as a tool, for model providers and MCP clients.

    `till.sell` is `till__sell`. No kind contains `__`, so names stay unique.
    """
    return kind.replace(".", _DOTS)


def kind_name(wire: str) -> str:
    """Return the kind of a tool name, such as `till.sell` of `till__sell`.

    The inverse of `wire_name`.
    """
    return wire.replace(_DOTS, ".")


def _boxed(kind: Kind) -> TypeAdapter[object]:
    """Compile a kind's payload as part of something strict: so it is in an intent at the gate."""
    make: Any = TypedDict  # by another name: the fields are known at run time only
    box = make(f"Payload_of_{kind.name}", {"payload": kind.payload})
    box.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return TypeAdapter(box)


def _listed(domain: Domain | Sequence[Domain]) -> list[Domain]:
    return list(domain) if isinstance(domain, Sequence) else [domain]
