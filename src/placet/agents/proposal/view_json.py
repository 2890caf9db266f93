"""A view as the agent layer shows it: plain JSON, without the records of sessions and approvals."""

from collections.abc import Mapping
from typing import Final

from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.view import View

_RECORDS: Final = ("approvals.", "session.")
_MEMORY: Final = "memory."


def plain_view(view: View) -> dict[str, Json]:
    """Return a view as plain JSON, without records of sessions and approvals. O(its size)."""
    return {
        name: {entity: thaw(dict(fields)) for entity, fields in sorted(rows.items())}
        for name, rows in sorted(view.state.items())
        if not name.startswith(_RECORDS)
    }


def changes_between(old: Json, new: Mapping[str, Json]) -> list[Json]:
    """Return the changes between two views, field by field; empty if `old` is None.

    Values are compared as JSON; in Python 1, 1.0 and True are equal.
    """
    if old is None:
        return []
    changes: list[Json] = []
    for collection in sorted(old.keys() | new.keys()):
        before, after = old.get(collection, {}), new.get(collection, {})
        for entity in sorted(before.keys() | after.keys()):
            path = f"{collection}/{entity}"
            was, now = before.get(entity), after.get(entity)
            if was is None or now is None:
                changes.append({"path": path, "old": was, "new": now})
                continue
            changes += [
                {"path": f"{path}/{name}", "old": was.get(name), "new": now.get(name)}
                for name in sorted(was.keys() | now.keys())
                if canonical(was.get(name)) != canonical(now.get(name))
            ]
    return changes


def facts_in(view: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the facts in a view that agents remembered (domain `memory`), oldest first."""
    facts = [
        fields
        for collection, rows in view.items()
        if collection.startswith(_MEMORY)
        for fields in rows.values()
        if "key" in fields and "value" in fields
    ]
    return sorted(facts, key=lambda fact: (fact.get("seq", 0), fact["key"]))


def cut(text: str, bytes_max: int) -> str:
    """Return a text that the log can store: valid characters, at most `bytes_max` bytes."""
    return text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore")
