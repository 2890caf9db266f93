"""The records of calls in the state: their collections, and their life.

    running -> done | failed        done -> undone

A call is known by its key. `once` keeps the consequence that it has or may have: a call that runs
or is in doubt holds it, a failed one releases it. Of the ended calls the latest are kept; a call
that is dropped from the state is in the log.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json, canonical

ENDED_MAX: Final = 100_000
"""Ended calls that the state keeps; the key of an older call may run again."""

OUTPUT_BYTES_MAX: Final = 4_096
"""Bytes of an output, as JSON, that a record keeps; a larger one is in the part store.

Without a part store it is in the log, and not in the state.
"""

OPENED: Final = "opened"
"""Entity of `counts` with the wall time of the latest opening, and the simulated time then."""

_ALL: Final = "all"


class Records(NamedTuple):
    """The collections of the calls of one domain of tools.

    Attributes:
        calls: Key of a call -> its record.
        once: Consequence -> the call that has it.
        plans: Key of the first call of a plan that is not done as a whole -> its calls.
        ended: Places of the ended calls that are kept.
        counts: The number of ended calls; and the time of the latest opening.
        markings: Id of a marking of the policy -> its state, and the number of its marks.
        marks: The marks of earlier calls.
        mark_places: Places of the marks that are kept.
        erased: Ids of the subjects whose personal data were erased.
    """

    calls: str
    once: str
    plans: str
    ended: str
    counts: str
    markings: str
    marks: str
    mark_places: str
    erased: str

    @classmethod
    def of(cls, domain: str) -> "Records":
        """Return the collections of the domain of this name."""
        return cls(*[f"{domain}.{name}" for name in cls._fields])

    def begin(self, draft: Draft, key: str, fields: Mapping[str, Json]) -> None:
        """Record that a call begins, and that it holds its consequence."""
        draft.create(self.calls, key, {"state": "running", "output": None, **fields})
        if once := fields["once"]:
            if not draft.exists(self.once, once):
                draft.create(self.once, once)
            draft.put(self.once, once, "key", key)
            draft.put(self.once, once, "state", "running")

    def end(self, draft: Draft, key: str, *, succeeded: bool, output: Json) -> None:
        """Record the outcome of a call that runs."""
        state = "done" if succeeded else "failed"
        call: Mapping[str, Json] = draft.entity(self.calls, key) or {}
        draft.put(self.calls, key, "state", state)
        # The call that undoes this one may need the output.
        if call["args"] is not None or len(canonical(output)) <= OUTPUT_BYTES_MAX:
            draft.put(self.calls, key, "output", output)
        else:
            draft.put(self.calls, key, "is_cut", True)
        once = call["once"]
        if once and draft.get(self.once, once, "key") == key:
            draft.put(self.once, once, "state", state)
        self._keep(draft, key)
        if call["undoes"]:
            if succeeded and draft.exists(self.calls, call["undoes"]):
                draft.put(self.calls, call["undoes"], "state", "undone")
        elif draft.exists(self.plans, call["plan"]):
            self._end_plan(draft, call["plan"])

    def note_time(self, draft: Draft, at: str) -> None:
        """Record the wall time of an opening."""
        if not draft.exists(self.counts, OPENED):
            draft.create(self.counts, OPENED)
        draft.put(self.counts, OPENED, "at", at)
        draft.put(self.counts, OPENED, "sim_ns", draft.now_ns)

    def release_plan(self, draft: Draft, plan: str) -> None:
        """Record that no more calls of a plan are undone: a plan with a done call stays."""
        if any(state == "done" for state in self._states(draft, plan)):
            draft.put(self.plans, plan, "state", "partly_done")
        else:
            draft.delete(self.plans, plan)

    def _end_plan(self, draft: Draft, plan: str) -> None:
        """Drop a plan whose calls agree; begin to undo one that is done in part."""
        states = self._states(draft, plan)
        if "running" in states:
            return
        if "failed" in states and "done" in states:
            draft.put(self.plans, plan, "state", "undoing")
        else:
            draft.delete(self.plans, plan)

    def _states(self, draft: Draft, plan: str) -> list[str]:
        keys: Json = draft.get(self.plans, plan, "keys", ())
        draft.charge(len(keys))
        return [draft.get(self.calls, key, "state") for key in keys]

    def _keep(self, draft: Draft, key: str) -> None:
        """Keep an ended call, and drop the call that has its place, with its plan."""
        ended = draft.get(self.counts, _ALL, "ended", 0)
        if not draft.exists(self.counts, _ALL):
            draft.create(self.counts, _ALL)
        draft.put(self.counts, _ALL, "ended", ended + 1)
        place = str(ended % ENDED_MAX)
        if not draft.exists(self.ended, place):
            draft.create(self.ended, place, {"key": key})
            return
        self._drop(draft, draft.get(self.ended, place, "key"))
        draft.put(self.ended, place, "key", key)

    def _drop(self, draft: Draft, key: str) -> None:
        call: Mapping[str, Json] = draft.entity(self.calls, key) or {}
        once, plan = call["once"], call["plan"]
        if once and draft.get(self.once, once, "key") == key:
            draft.delete(self.once, once)
        if plan and draft.exists(self.plans, plan):
            draft.delete(self.plans, plan)
        draft.delete(self.calls, key)
