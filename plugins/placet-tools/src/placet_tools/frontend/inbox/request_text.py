"""A request for approval as text: all that a person approves, in the form and in the terminal.

The text has the whole request, because a person approves the text. A form that cannot show all of
the text takes no yes: see `results.form_of`.
"""

from collections.abc import Callable

from placet.schemas.approval import OUTSIDE, Approval
from placet.schemas.look_alikes import remarks
from placet.schemas.printable import printable, printable_json

_MINUTE_S = 60
_HOUR_S = 3_600


def head_of(approval: Approval, now: float) -> str:
    """Return the line about the agent, the role and the times of a request.

    Args:
        approval: The request.
        now: Simulated time, seconds.
    """
    age = "" if approval.requested is None else f"asked {_span(now - approval.requested)} ago, "
    left = f"{_span(approval.expires - now)} left"
    who = approval.role or "any person"
    return printable(f"{approval.agent} asks {who} to call (risk {approval.risk}, {age}{left}):")


def lines_of(approval: Approval, name_of: Callable[[str], str]) -> list[str]:
    """Return the reasons for asking, the calls and all changes of a request, as lines of text.

    Args:
        approval: The request.
        name_of: Returns the name of a kind for a person.
    """
    lines = [f"  because {one}" for one in approval.asks]
    for (kind, arguments), defaults in zip(approval.calls, approval.defaults, strict=True):
        of_default = f" (default: {', '.join(defaults)})" if defaults else ""
        lines.append(f"  {name_of(kind)} {printable_json(arguments)}{of_default}")
        lines += [f"    note: {one}" for one in remarks(dict(arguments))]
    for collection, entity, field, op, old, new in approval.changes:
        path = " ".join(str(one) for one in (collection, entity, field) if one is not None)
        lines.append(f"  changes {path}: {op} {printable_json(old)} -> {printable_json(new)}")
    if approval.is_outside:
        lines.append(f"  {OUTSIDE}")
    return [printable(line) for line in lines]


def _span(seconds: float) -> str:
    """Return a duration of at least 0 s, in whole seconds."""
    whole = round(max(0.0, seconds))
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
