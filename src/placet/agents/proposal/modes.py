"""How much an agent may do by itself. A person sets the mode of a session; no proposal can."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias

from placet.agents.proposal.plan import Plan
from placet.kernel.plugin.domain import Risk
from placet.schemas.codec import Json, canonical

ModeName = Literal["interactive", "assisted", "autonomous"]


class Mode(NamedTuple):
    """A mode of a session: how much its agent may do without a person.

    Attributes:
        name: Name of the mode.
        actions_max: Maximum number of actions in a plan.
        applies: Risks of actions that need no confirmation.
        attempts_max: Maximum number of plans that may be submitted in one turn.
    """

    name: ModeName
    actions_max: int
    applies: frozenset[Risk]
    attempts_max: int


MODES: Final[Mapping[str, Mode]] = {
    "interactive": Mode("interactive", 1, frozenset({"read"}), 1),
    "assisted": Mode("assisted", 5, frozenset({"read", "low"}), 2),
    "autonomous": Mode("autonomous", 32, frozenset({"read", "low", "medium"}), 3),
}


class PolicyDecision(NamedTuple):
    """The decision of a host's policy about a plan.

    Attributes:
        decision: `allow` leaves it to the mode; `hold` asks a person; `deny` refuses.
        role: For `hold`: the role whose approval is needed; empty accepts any person's
            confirmation.
        reason: Reason, for the proposer and the person.
    """

    decision: Literal["allow", "hold", "deny"] = "allow"
    role: str = ""
    reason: str = ""


RULINGS: Final = frozenset({"allow", "hold", "deny"})

ApprovalPolicy: TypeAlias = Callable[[Plan, Sequence[Risk], Mode], PolicyDecision]
"""A rule of the host's own about whole plans. It can only be stricter than the mode; raising is a
refusal."""


def mode_of(name: str) -> Mode:
    """Return the mode of a name.

    Raises:
        ValueError: There is no mode of this name.
    """
    mode = MODES.get(name)
    if mode is None:
        raise ValueError(f"unknown mode {name!r}; the modes are {', '.join(MODES)}")
    return mode


def covers(
    grant: Mapping[str, Json],
    kind: str,
    payload: Mapping[str, Json],
    applied: Mapping[str, Json],
) -> bool:
    """Return whether a grant permits an action; the gate checks its uses and its time.

    Args:
        grant: The grant, as in the state.
        kind: Kind of the action.
        payload: Payload of the action as proposed.
        applied: Payload of the action as the domain has normalized it.
    """
    return fnmatchcase(kind, grant["kinds"]) and all(
        name in payload
        and canonical(payload[name]) == canonical(value)  # for True is no 1
        and _is_taken(name, payload, applied)
        for name, value in grant["equals"].items()
    )


def _is_taken(name: str, payload: Mapping[str, Json], applied: Mapping[str, Json]) -> bool:
    """Return whether the rules take a proposed field, by its name or an alias.

    Of a field that came by two names one is passed over; a grant that binds it permits nothing.
    """
    if payload.keys() <= applied.keys():
        return True
    names = {name} if name in applied else applied.keys() - payload.keys()
    return payload[name] in [applied[other] for other in names]
