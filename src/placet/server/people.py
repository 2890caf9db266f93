"""The persons who decide about requests for approval, and their roles: the table `people`.

A person has a token of the same name. The roles of persons are in this table and nowhere else: a
program that asks for an approval names a role, and the server finds the persons who have it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.identity import OPERATOR
from placet.schemas.name_suggestions import did_you_mean

People: TypeAlias = Mapping[str, Sequence[str]]
"""Name of a person -> the person's roles."""

_ROLE_CHARS_MAX: Final = 64
_ROLES: Final = "roles"


class PeopleError(PlacetError):
    """The error of a person without a token, or with a role that no rule requires."""


def people_of(table: Mapping[str, Json]) -> dict[str, list[str]]:
    """Return the persons of a configuration, which has them as `[people.ann] roles = [...]`.

    Raises:
        ValueError: A person has another key than `roles`, or roles that are no list of names.
    """
    people: dict[str, list[str]] = {}
    for name, fields in table.items():
        if not isinstance(fields, Mapping) or set(fields) != {_ROLES}:
            others = sorted(set(fields) - {_ROLES}) if isinstance(fields, Mapping) else []
            hint = f", got the key {others[0]!r}" if others else ""
            raise ValueError(f'people.{name} must be `roles = ["manager"]` and nothing else{hint}')
        people[name] = fields[_ROLES]
    check_roles(people)
    return people


def check_roles(people: People) -> None:
    """Check that each person has a list of names of roles; it may be empty.

    Raises:
        ValueError: One has something else.
    """
    for name, roles in people.items():
        names: object = roles  # as it was written
        if not isinstance(names, list | tuple) or not all(
            isinstance(role, str) and 0 < len(role) <= _ROLE_CHARS_MAX for role in names
        ):
            raise ValueError(
                f"people.{name}.roles must be a list of names of 1 to {_ROLE_CHARS_MAX} "
                f"characters, got {roles!r:.80}"
            )


def check_people(people: People, submitters: Collection[str], roles: Collection[str]) -> None:
    """Check that every person has a token, and only roles that a rule may require.

    Args:
        people: The persons.
        submitters: The names of all tokens.
        roles: The roles that the domains declare (`Domain.roles`); with none, any role is possible.

    Raises:
        PeopleError: A name has no token or is the operator's, or a role is unknown.
    """
    known = {*roles, OPERATOR} if roles else set()
    for name, own in people.items():
        if name == OPERATOR:
            raise PeopleError(
                f"people.{name}: the operator's token is of no person; it decides where any person "
                "or the role 'operator' may. Make a token for the name of a person"
            )
        if name not in submitters:
            hint = did_you_mean(name, sorted({*submitters} - {OPERATOR}))
            raise PeopleError(
                f"people.{name}: no token has this name, so this person could not decide; {hint}"
            )
        for role in own:
            if known and role not in known:
                hint = did_you_mean(role, sorted(known))
                raise PeopleError(f"people.{name}: no rule requires the role {role!r}; {hint}")


def has_role(roles: Collection[str], required: str) -> bool:
    """Return whether roles include the required one; an empty one is of any person."""
    return not required or required in roles
