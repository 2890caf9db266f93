"""Losses: plans that were refused because of changes by other agents.

The proposer of such a plan made no mistake. It is asked again with the old and the new values, and
may propose the same plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from placet.agents.proposal.plan import Issue
from placet.agents.proposal.view_json import changes_between
from placet.schemas.codec import Json, to_json
from placet.schemas.refusal import RefusalCode

_LOST: Final = frozenset(
    {
        RefusalCode.STALE_CONTEXT,
        RefusalCode.CONDITION_FAILED,
        RefusalCode.CONTEXT_TOO_OLD,
        RefusalCode.CONFLICT,
        RefusalCode.LEASED,
    }
)
_VALUES_BYTES_MAX: Final = 4 * 1024
"""Bytes of the values that an issue lists; beyond them it names the paths alone."""


def is_loss(issues: Iterable[Issue]) -> bool:
    """Return whether a plan was refused because of changes by other agents."""
    return any(issue.code in _LOST or issue.changed for issue in issues)


def with_old_values(issues: Iterable[Issue], state: Json) -> tuple[Issue, ...]:
    """Return issues that list the changes by other agents field by field.

    Args:
        issues: Issues of a refused plan.
        state: The agent's view that the plan was decided on.
    """
    return tuple(_described(issue, state) for issue in issues)


def _described(issue: Issue, state: Json) -> Issue:
    listed = [part for change in issue.changed for part in _fields(change, state or {})]
    if len(to_json(listed)) > _VALUES_BYTES_MAX:
        listed = [{key: one[key] for key in ("path", "by", "seq")} for one in listed]
    update: dict[str, object] = {"changed": tuple(listed)}
    is_stale = issue.code == RefusalCode.STALE_CONTEXT and listed
    if is_stale or issue.code == RefusalCode.CONTEXT_TOO_OLD:
        update |= {"message": _message(issue), "at": issue.at.removesuffix("/context_seq")}
    return issue.model_copy(update=update)


def _message(issue: Issue) -> str:
    """Return the message of a stale plan: its proposer has a new view, and knows no seqs."""
    names = ", ".join(str(change["path"]) for change in issue.changed) or "the world"
    return (
        f"{names} was changed by others while this was decided, so nothing of it was done; the "
        "view shows the present values: propose what fits them"
    )


def _fields(
    change: Mapping[str, Json], state: Mapping[str, Mapping[str, Json]]
) -> Sequence[dict[str, Json]]:
    """Return the changed fields of an entity.

    The path alone is listed of a whole collection, and of an entity that is again as it was.
    """
    collection, _, entity = change["path"].partition("/")
    about = {"by": change["by"], "seq": change["seq"]}
    was = state.get(collection, {}).get(entity)
    rows = [{collection: {} if row is None else {entity: row}} for row in (was, change.get("new"))]
    fields = changes_between(*rows) if entity else []
    return [{**field, **about} for field in fields] or [{"path": change["path"], **about}]
