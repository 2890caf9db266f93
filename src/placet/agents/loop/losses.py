"""Losses: plans that were refused because of changes by other agents.

The proposer of such a plan made no mistake. It is asked again with the old and the new values, and
may propose the same plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from placet.actors.policies.contention import LOST
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.view_json import changes_between
from placet.schemas.codec import Json, to_json
from placet.schemas.condition import ABSENT, steps_of, value_at
from placet.schemas.refusal import RefusalCode

_LOST: Final = LOST | {RefusalCode.CONTEXT_TOO_OLD.value}
_HINT: Final = (
    "; if it rests on a few values alone, name their paths in if_unchanged, and no other change "
    "makes it stale"
)
_TEXT_CHARS_MAX: Final = 200
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
    if issue.code == RefusalCode.CONDITION_FAILED:
        return _with_seen(issue, state or {})
    listed = [part for change in issue.changed for part in _fields(change, state or {})]
    if len(to_json(listed)) > _VALUES_BYTES_MAX:
        listed = [{key: one[key] for key in ("path", "by", "seq")} for one in listed]
    update: dict[str, object] = {"changed": tuple(listed)}
    is_stale = issue.code == RefusalCode.STALE_CONTEXT and listed
    if is_stale or issue.code == RefusalCode.CONTEXT_TOO_OLD:
        update |= {"message": _message(issue), "at": issue.at.removesuffix("/context_seq")}
    return issue.model_copy(update=update)


def _message(issue: Issue) -> str:
    """Return the message of a stale plan; it names no seqs, because a new view is shown."""
    names = ", ".join(str(change["path"]) for change in issue.changed) or "the world"
    return (
        f"{names} was changed by others while this was decided, so nothing of it was done; the "
        "view shows the present values: propose what fits them" + (_HINT if issue.changed else "")
    )


def _with_seen(issue: Issue, state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> Issue:
    """Return the issue of a condition with the value that the proposer saw."""
    [found] = issue.changed
    path, now = str(found["path"]), found["new"]
    collection, entity, *steps = steps_of(path)
    seen = value_at(state.get(collection, {}).get(entity), steps)
    old: Json = None if seen is ABSENT else seen
    message = (
        f"{path} was {_text(old)} in the view that this was decided on and is {_text(now)} now, so "
        "nothing of it was done; propose what fits the present view, and name in if_unchanged only "
        "the values that the decision rests on"
    )
    is_small = len(to_json([old, now])) <= _VALUES_BYTES_MAX
    changed = {"path": path, "old": old, "new": now} if is_small else {"path": path}
    return issue.model_copy(update={"message": message, "changed": (changed,)})


def _text(value: Json) -> str:
    text = to_json(value).decode()
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[: _TEXT_CHARS_MAX - 1]}…"


def _fields(
    change: Mapping[str, Json], state: Mapping[str, Mapping[str, Json]]
) -> Sequence[dict[str, Json]]:
    """Return the changed fields of an entity.

    For a collection, and for an entity with its old values again, only the path is returned.
    """
    collection, _, entity = change["path"].partition("/")
    about = {"by": change["by"], "seq": change["seq"]}
    was = state.get(collection, {}).get(entity)
    rows = [{collection: {} if row is None else {entity: row}} for row in (was, change.get("new"))]
    fields = changes_between(*rows) if entity else []
    return [{**field, **about} for field in fields] or [{"path": change["path"], **about}]
