"""How much an agent may do by itself. A person sets the mode of a session; no proposal can."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias

from placet.agents.proposal.plan import Plan
from placet.kernel.domain import Risk
from placet.schemas.codec import Json, canonical

ModeName = Literal["interactive", "assisted", "autonomous"]


class Mode(NamedTuple):
    """The permissions of a mode.

    Attributes:
        name: Its name.
        actions_max: In one plan.
        applies: Risks that need no confirmation.
        attempts_max: Plans that may be submitted in one turn.
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
    """The decision of a policy about a plan.

    Attributes:
        decision: `allow` leaves it to the mode; `hold` asks a person; `deny` refuses.
        role: For `hold`: the role whose approval is needed; empty accepts any person's
            confirmation.
        reason: For the proposer and the person.
    """

    decision: Literal["allow", "hold", "deny"] = "allow"
    role: str = ""
    reason: str = ""


RULINGS: Final = frozenset({"allow", "hold", "deny"})

ApprovalPolicy: TypeAlias = Callable[[Plan, Sequence[Risk], Mode], PolicyDecision]
"""A rule of the host's own about whole plans. It can only be stricter than the mode; raising is a
refusal."""


def mode_of(name: str) -> Mode:
    """Find a mode.

    Raises:
        ValueError: There is none of this name.
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
    """Return whether a grant is for such an action; its uses and time are judged by the gate.

    Args:
        grant: As the state has it.
        kind: Of the action.
        payload: As it was proposed.
        applied: As the rules take it.
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
