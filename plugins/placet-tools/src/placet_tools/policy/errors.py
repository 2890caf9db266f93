"""`ToolPolicyError`: a policy that cannot be meant, with its place and the nearest name."""

from collections.abc import Iterable

from placet.schemas.name_suggestions import did_you_mean


class ToolPolicyError(ValueError):
    """The error of a policy that does not fit its tools; the message begins with the place."""


def fault(place: str, message: str) -> ToolPolicyError:
    """Return the error of one place of a policy.

    Args:
        place: Place in the policy, such as `tools.refund.refuse[0].if`.
        message: The failed check, the expected value, and the actual one.
    """
    return ToolPolicyError(f"{place}: {message}" if place else message)


def require_name(name: object, known: Iterable[str], what: str, place: str) -> None:
    """Check that a name is one of the known ones.

    Args:
        name: The name.
        known: The known names.
        what: Noun for a known name: `tool`, `field`.
        place: Place in the policy.

    Raises:
        ToolPolicyError: It is unknown; the message has the nearest known name.
    """
    names = list(known)
    if name not in names:
        shown = "" if place.rpartition(".")[2] == name else f" {name!r}"
        raise fault(place, f"no such {what}{shown}; {did_you_mean(name, names)}")
