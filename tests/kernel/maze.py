"""A domain whose plans depend on draws, time, the seq and the state in every way that a test names.

`require_definite` is the law of a preview: what it shows with a value is made, and nothing else but
what it shows as undecided.
"""

from typing import Any

from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet.kernel import Domain, Kind, refuse
from placet.schemas.limits import SECOND_NS

ROWS = "maze.rows"
NAMES = ("a", "b", "c", "d")


class Steps(TypedDict):
    steps: list[list[Any]]


class Start(TypedDict):
    start: int


def _step(draft, how, name, n):  # noqa: C901, PLR0912  # a row for each way to depend on a moment
    if how == "constant":
        draft.put(ROWS, name, "value", n)
    elif how == "copy":
        draft.put(ROWS, name, "copied", draft.get(ROWS, "a", "start") + n)
    elif how == "draw":
        draft.put(ROWS, name, "drawn", draft.randint_below(n + 2, "d"))
    elif how == "rare":
        draft.put(ROWS, name, "rare", draft.draw("r") < 0.001)
    elif how == "until":
        draws = iter(range(1_000))
        draft.put(ROWS, name, "tries", next(k for k in draws if draft.draw(f"u{k}") > 0.5))
    elif how == "time":
        draft.put(ROWS, name, "at", draft.now_ns // (n * SECOND_NS + 1))
    elif how == "tick":
        draft.put(ROWS, name, "tick", draft.tick + draft.ordinal)
    elif how == "pick":
        draft.put(ROWS, NAMES[draft.randint_below(4, "p")], "hit", n)
    elif how == "make":
        draft.create(ROWS, f"new{draft.seq}", {"euro": n, "at": draft.sim_time})
    elif how == "maybe":
        if draft.draw("m") < 0.5:
            draft.delete(ROWS, "spare") if draft.exists(ROWS, "spare") else None
    elif how == "answer":
        draft.answer(draft.randint_below(n + 2, "a") if n % 2 else n)
    elif how == "wire":
        to = {"to": draft.get(ROWS, "a", "start"), "at": draft.now_ns, "name": name}
        draft.emit("wire", {"euro": draft.randint_below(n + 2, "e"), "of": to})
    elif how == "late" and draft.sim_time > 50:
        return refuse("late", "it is too late")
    return None


def _go(draft, intent):
    for how, name, n in intent["payload"]["steps"]:
        refusal = _step(draft, how, name, n)
        if refusal is not None:
            return refusal
    return None


def _start(draft, intent):
    draft.put(ROWS, "a", "start", intent["payload"]["start"])


class Maze(Domain):
    name, version = "maze", "1"
    kinds = (
        Kind("Go", Steps, _go, effects=("wire",), risk="medium"),
        Kind("Start", Start, _start),
    )

    def on_open(self, draft):
        for name in (*NAMES, "spare"):
            draft.create(ROWS, name, {"start": 7, "value": 0})


WAYS = (
    *("constant", "copy", "draw", "rare", "until", "time", "tick", "pick", "make", "maybe"),
    *("answer", "wire", "late"),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(WAYS), st.sampled_from(NAMES), st.integers(1, 40)).map(list),
    max_size=4,
)


def require_definite(shown, made):
    """Check that changes made are the definite ones shown, and otherwise only undecided ones."""
    left = {change.path: (change.op, change.new) for change in made}
    hidden = {(change.collection, change.field) for change in shown if change.entity is None}
    for change in shown:
        if change.op == "undecided":
            assert (change.old, change.new) == (None, None)
            left.pop(change.path, None)
        elif change.entity is None:
            values = [one.new for one in made if one[:3:2] == change[:3:2]]
            assert change.new in values
        else:
            assert left.pop(change.path) == (change.op, change.new)
    made_of = {change.path: (change.collection, change.field) for change in made}
    assert all(made_of[path] in hidden for path in left), (left, shown)
