"""The signatures of kinds: the names of the arguments in the order of declaration, and defaults.

The log and the state hold a payload with sorted names, and with its defaults filled in. A person
reads it in the order in which its author has declared it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import Json, canonical

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_SIGNATURES_MAX: Final = 512
"""Number of signatures that are kept: reading one takes 1 ms."""


class Signature(NamedTuple):
    """The signature of a kind.

    Attributes:
        names: Names of the arguments, in the order of declaration.
        defaults: Default of each argument that has one.
        is_outside: Its rule may emit effects, which run outside of the world.
    """

    names: tuple[str, ...] = ()
    defaults: Mapping[str, Json] = {}
    is_outside: bool = False

    def ordered(self, payload: Mapping[str, Json]) -> dict[str, Json]:
        """Return a payload in the order of the signature; other names come last."""
        known = {name: payload[name] for name in self.names if name in payload}
        return {**known, **payload}

    def defaults_of(self, payload: Mapping[str, Json]) -> tuple[str, ...]:
        """Return the names of the arguments that have their default value, in order."""
        return tuple(
            name
            for name in self.names
            if name in payload
            and name in self.defaults
            and canonical(payload[name]) == canonical(self.defaults[name])
        )


def signature_of(registry: Registry, kind: str) -> Signature:
    """Return the signature of a kind; an empty one of a kind that the world does not have."""
    declared = registry.kinds.get(kind)
    if declared is None:
        return Signature()
    found = _signature_of(registry.payload_validator(kind))
    return found._replace(is_outside=bool(declared.effects))


@lru_cache(maxsize=_SIGNATURES_MAX)
def _signature_of(payload: "TypeAdapter[object]") -> Signature:
    schema = payload.json_schema()
    if "$ref" in schema:  # a model that contains itself
        schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    fields: Mapping[str, Json] = schema.get("properties", {})
    defaults = {
        name: one["default"]
        for name, one in fields.items()
        if isinstance(one, Mapping) and "default" in one
    }
    return Signature(tuple(fields), defaults)
