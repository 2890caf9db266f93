"""The law of approvals: what a person was shown, or has put in its place, is what is done.

Tools whose rules write constants, draws, the time, and values of others are approved after other
agents have acted. An approved plan changes every shown path to the shown value (any value where it
was shown as undecided) and no other path, and each function runs once with the shown arguments.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tools.shop import QUIET

from placet import Inbox
from placet.domains.memory import Memory
from placet.schemas.foreseen import UNDECIDED
from placet_tools import Gate, Tools
from tests.levels import examples

OWN = ("approvals.", "shop.calls", "shop.once", "shop.plans", "shop.ended", "shop.counts")
TOOLS = ("constant", "random", "timed", "copied", "created", "counted")
VALUES = st.integers(0, 2)
CALLS = st.lists(st.tuples(st.sampled_from(TOOLS), VALUES), min_size=1, max_size=3)
OTHERS = st.lists(st.tuples(st.sampled_from(("copied", "counted", "apart")), VALUES), max_size=2)


class Traced:
    """Tools that change the state by their rules, and note each execution."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []
        self.tools = Tools("shop")
        for name in TOOLS:
            self._declare(name)

        @self.tools.tool(risk="low", delivery="idempotent")
        def touch(name: str, value: int) -> None: ...

        @self.tools.rule("touch")
        def see(draft, intent):
            if not draft.exists("box.seen", "all"):
                draft.create("box.seen", "all")
            draft.put("box.seen", "all", intent["payload"]["name"], intent["payload"]["value"])

    def _declare(self, name: str) -> None:
        def function(value: int) -> None:
            self.ran.append((name, value))

        function.__name__ = name
        self.tools.tool(risk="high", delivery="idempotent")(function)

        @self.tools.rule(name)
        def rule(draft, intent):
            value = intent["payload"]["value"]
            written = {
                "constant": lambda: value,
                "random": lambda: draft.randint_below(1_000, "dice"),
                "timed": lambda: draft.now_ns,
                "copied": lambda: draft.get("box.seen", "all", "copied", 0) + value,
                "created": lambda: draft.now_ns,
                "counted": lambda: draft.get("box.seen", "all", "counted", 0),
            }[name]()
            entity = f"{name}{written % 7}" if name == "created" else name
            if not draft.exists("box.things", entity):
                draft.create("box.things", entity)
            draft.put("box.things", entity, "value", written)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return the new value of each changed field of a state, None where it went."""
    paths = {
        (collection, entity, field)
        for state in (before, after)
        for collection, rows in state.items()
        if not collection.startswith(OWN)
        for entity, row in rows.items()
        for field in row
    }

    def at(state, path):
        return state.get(path[0], {}).get(path[1], {}).get(path[2])

    return {path: at(after, path) for path in paths if at(before, path) != at(after, path)}


async def live(calls, others, instead) -> tuple[bool, bool]:
    """Hold a plan, let others act, and approve it; return whether it ran, and whether it could.

    With calls in its place the plan is amended: others act before, and the shown changes are those
    of a request that the amendment made itself.
    """
    traced = Traced()
    async with Gate(traced.tools, domains=[Memory()], config=QUIET) as gate:
        await act(gate, "copied", 0)
        held = await gate.plan([(name, {"value": value}) for name, value in calls])
        assert {one.status for one in held} == {"held"}
        (request,) = await gate.approvals()
        for name, value in others:
            await act(gate, name, value)
        before = await gate.world.state()
        verb: Literal["amend", "approve"] = "amend" if instead else "approve"
        run = [(name, {"value": value}) for name, value in instead]
        decision = await gate.decide(request, verb, by="ann", calls=run)
        after = changed(before, await gate.world.state())
        ran = sorted(traced.ran)
        if instead:
            if sorted(instead) == sorted(calls) and decision.state == "open":
                assert (decision.codes, ran, after) == (("approvals.request_open",), [], {})
                return False, False
            amended = await Inbox(gate.world).get(request.id)
            assert (amended.state, amended.by) == ("amended", "ann")
            request, calls = await Inbox(gate.world).get(amended.amended_by), instead
            assert (request.state, request.amends) == ("approved", amended.id)
        elif decision.state != "approved":
            assert (decision.state, ran, after) == ("stale", [], {})
            return False, _is_untouched(calls, others)
        assert ran == sorted(calls)
        assert [args["value"] for _, args in request.calls] == [value for _, value in calls]
        shown = {tuple(one[:3]): one for one in request.changes if one[2] is not None}
        assert {path for path in after if (path[0], UNDECIDED, path[2]) not in shown} <= {*shown}
        for path, (_, entity, _, op, _, new) in shown.items():
            assert op != "undecided" or path[1] != "random"  # it draws as it was shown
            if op != "undecided" and entity != UNDECIDED:
                assert after[path] == new
        return True, True


def _is_untouched(calls, others) -> bool:
    return not {name for name, _ in calls} & {name for name, _ in others}


async def act(gate: Gate, name: str, value: int) -> None:
    """Change a value that a rule reads, or one that none reads."""
    outcome = await gate.call("touch", agent="bob", name=name, value=value)
    assert outcome.status == "done"


@settings(max_examples=examples(60))
@example(calls=[("copied", 1)], others=[("copied", 2)], instead=[])
@example(calls=[("constant", 1)], others=[("copied", 2)], instead=[("copied", 1), ("random", 0)])
@given(calls=CALLS, others=OTHERS, instead=st.just([]) | CALLS)
def test_an_approved_plan_does_what_was_shown_or_nothing(calls, others, instead):
    ran, could = asyncio.run(live(calls, others, instead))
    assert ran == could or could is False
