"""Payloads and collections of the domain `memory`, and the names of facts in them."""

from typing import Annotated, Final, Literal, NotRequired

from pydantic import ConfigDict, Field, JsonValue
from typing_extensions import TypedDict

FACTS: Final = "memory.facts"
"""`key` `value` `seq` `scope`; the entity is named `project/KEY` or `principal/AGENT/KEY`."""

KEYS: Final = "memory.keys"
"""The `keys` of each scope, sorted; the entity is named `project` or `principal/AGENT`."""

PROJECT: Final = "project"
PRINCIPAL: Final = "principal"

Key = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.]{0,63}$")]
Scope = Literal["project", "principal"]


class Remember(TypedDict):
    """Payload of `memory.remember`: a fact to store, replacing the one under its key.

    Attributes:
        key: Name of the fact: lower-case letters, digits, `_` and `.`.
        value: The fact, any JSON of at most 1 KiB.
        scope: `project` for all agents, `principal` for the agent alone.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    key: Key
    value: JsonValue
    scope: NotRequired[Scope]


class Forget(TypedDict):
    """Payload of `memory.forget`: the key of a fact to delete.

    Attributes:
        key: Name of the fact.
        scope: `project` for all agents, `principal` for the agent alone.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    key: Key
    scope: NotRequired[Scope]


def owner_of(scope: str, agent_id: str) -> str:
    """Return the owner part of a fact's name: the project, or an agent."""
    return PROJECT if scope == PROJECT else f"{PRINCIPAL}/{agent_id}"
