"""The refusal of an intent by a rule."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placet.schemas.codec import Json
from placet.schemas.identity import Ref


class RuleRefusal(NamedTuple):
    """The refusal of an intent by a rule. Make one with `refuse` or `conflict`.

    Attributes:
        code: Code without the domain's name, such as `out_of_bounds`; the kernel adds `<domain>.`.
        message: Failed check, expected value, actual value, and the remedy.
        at: JSON pointer inside the payload, such as `/to`.
        suggestions: Nearest valid values, best first.
        retry_after: Simulated seconds after which the intent may pass; None if waiting does not
            help.
        details: The same facts as data, for programs.
        is_conflict: The code is the gate's `conflict`.
        changed: Entities that another agent changed, which is why the intent fails. The gate lists
            them in `Refusal.changed`, with seq, author and values, as far as the agent may see.
        is_over_budget: The code is the gate's `budget_exceeded`, and the refusal is not remembered.
    """

    code: str
    message: str
    at: str = ""
    suggestions: tuple[str, ...] = ()
    retry_after: float | None = None
    details: Mapping[str, Json] = {}
    is_conflict: bool = False
    changed: tuple[Ref, ...] = ()
    is_over_budget: bool = False


def refuse(
    code: str,
    message: str,
    *,
    at: str = "",
    suggestions: Sequence[str] = (),
    retry_after: float | None = None,
    changed: Sequence[Ref] = (),
    **details: Json,
) -> RuleRefusal:
    """Return the refusal of an intent, for a rule to return.

    The arguments are fields of `RuleRefusal`; further keywords become its `details`.
    """
    return RuleRefusal(
        code, message, at, tuple(suggestions), retry_after, details, changed=tuple(changed)
    )


def budget_exceeded(
    message: str, *, at: str = "", retry_after: float | None = None, **details: Json
) -> RuleRefusal:
    """Return the refusal for an account that has too little left, for a rule to return.

    It passes with time, so it is no record, and the same req_id may be sent again.
    """
    return RuleRefusal(
        "budget_exceeded", message, at, (), retry_after, details, is_over_budget=True
    )


def conflict(resource: str, winner: str, *, at: str = "") -> RuleRefusal:
    """Return the refusal for a resource that another agent has claimed in the same group.

    The gate leaves out the winner if the agent may not see it. The resource counts as changed if it
    is the name of an entity, `collection/entity`.

    Args:
        resource: The resource, as passed to `Draft.claim`.
        winner: The agent that claimed it first, as returned by `Draft.claim`.
        at: JSON pointer inside the payload.
    """
    collection, slash, entity = resource.partition("/")
    return RuleRefusal(
        "conflict",
        conflict_message(resource, repr(winner)),
        at,
        details={"winner": winner, "resource": resource},
        is_conflict=True,
        changed=(Ref(collection, entity),) if slash else (),
    )


def conflict_message(resource: str, winner: str) -> str:
    """Return the message of a conflict; `winner` is a name as it is shown, or a description."""
    return f"{resource} was taken by {winner} at the same moment; look again and choose another"
