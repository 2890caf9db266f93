"""The calls before a new rule: their marks, counted from the log, enter the state by intents.

    (none) -> counting -> counted -> dropping -> (none)

A marking that is `counting` notes outcomes already. So the log is read after that, up to there, and
a mark that is there by then is newer than that of the log, and stays. A count that was cut off by a
crash is dropped and started anew.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet_tools.policy.marks import COUNTED, COUNTING, DraftMarks
from placet_tools.policy.rules import ToolPolicy
from placet_tools.records import Records

DROPPED_MAX: Final = 200
"""Marks that one intent drops."""

_Name = Annotated[str, Field(min_length=1, max_length=64)]


class CountedMark(TypedDict):
    """A mark, counted from the log."""

    name: _Name
    fields: dict[str, Json]


class CountPayload(TypedDict):
    """Payload of `count_calls`: a step of counting the earlier calls for one marking."""

    marking: _Name
    step: Literal["begin", "add", "end", "drop"]
    marks: Annotated[list[CountedMark], Field(max_length=4_096)]


def start_counts(draft: Draft, records: Records, policy: ToolPolicy | None) -> None:
    """Write the markings of the policy of a new world, whose log has no earlier calls."""
    for marking in {} if policy is None else policy.each_marking():
        draft.create(records.markings, marking, {"state": COUNTED, "made": 0})


def count_calls(
    draft: Draft, records: Records, policy: ToolPolicy | None, payload: Mapping[str, Json]
) -> RuleRefusal | None:
    """Take one step of counting, as the recorder asks for it.

    Args:
        draft: The draft of the batch.
        records: The collections of the domain.
        policy: The policy in force.
        payload: The step.
    """
    name, step, marks = payload["marking"], payload["step"], DraftMarks(draft, records)
    known = {} if policy is None else policy.each_marking()
    state = draft.get(records.markings, name, "state")
    if step == "begin" and state is None and name in known:
        draft.create(records.markings, name, {"state": COUNTING, "made": 0})
    elif step == "drop" and state is not None:
        draft.put(records.markings, name, "state", "dropping")
        if marks.drop_latest(name, DROPPED_MAX):
            draft.delete(records.markings, name)
    elif step == "add" and state == COUNTING and name in known:
        draft.charge(len(payload["marks"]))
        for mark in payload["marks"]:
            if marks.get(mark["name"]) is None:
                marks.put(known[name], mark["name"], mark["fields"])
    elif step == "end" and state == COUNTING:
        draft.put(records.markings, name, "state", COUNTED)
    else:
        message = f"the step {step!r} does not follow the state {state!r} of marking {name!r}"
        return refuse("count_unknown", message)
    return None
