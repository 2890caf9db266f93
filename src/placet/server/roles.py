"""The role of a caller in one world.

`serve.claims` limits a token to some worlds, with a role in each; a token without claims is an
agent in every world. A plug-in may have another rule for its worlds, such as an access record in
their logs. The lesser of the two roles holds.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Literal, TypeAlias

from placet.runtime.orchestrator import Orchestrator
from placet.schemas.errors import PlacetError
from placet.schemas.identity import OPERATOR
from placet.schemas.name_suggestions import did_you_mean

RoleName: TypeAlias = Literal["reader", "agent", "operator"]

Claims: TypeAlias = Mapping[str, Mapping[str, RoleName]]
"""Name of a token -> world -> role."""


class Role(IntEnum):
    """A caller's role in a world; a greater role includes the lesser ones."""

    READER = 1
    AGENT = 2
    OPERATOR = 3


AccessRule: TypeAlias = Callable[[Orchestrator, str], Role | None]
"""Returns the role of a submitter in a world by the world's own rule; None for no access."""


class ClaimsError(PlacetError):
    """The error of claims to a world or by a token that does not exist."""


def claimed_role(claims: Claims, submitter: str, world: str) -> Role | None:
    """Return the role of a token in a world by the claims; None if the token has no claim to it."""
    if submitter == OPERATOR:
        return Role.OPERATOR
    own = claims.get(submitter)
    if own is None:
        return Role.AGENT
    name = own.get(world)
    return None if name is None else Role[name.upper()]


def check_claimants(claims: Claims, submitters: Iterable[str]) -> None:
    """Check that every claim belongs to a token; else a misspelt name would limit no token.

    Raises:
        ClaimsError: A name has no token, or is the operator's.
    """
    known = set(submitters)
    for name in claims:
        if name == OPERATOR:
            raise ClaimsError(
                f"serve.claims.{name}: the operator's tokens are for every world; "
                "make a token for a name, and claim the role operator for it"
            )
        if name not in known:
            hint = did_you_mean(name, sorted(known - {OPERATOR}))
            raise ClaimsError(f"serve.claims.{name}: no token has this name; {hint}")


def check_claimed_worlds(claims: Claims, worlds: Iterable[str]) -> None:
    """Check that every claimed world exists.

    Raises:
        ClaimsError: There is no such world.
    """
    known = set(worlds)
    for name, roles in claims.items():
        for world in roles:
            if world not in known:
                hint = did_you_mean(world, sorted(known))
                raise ClaimsError(f"serve.claims.{name}: there is no world {world!r} here; {hint}")
