"""Run a function: lazily, with a fuel limit and an explicit stack.

A node is evaluated when it is first needed, its inputs from left to right, and at most once per
call; of a select only the chosen branch. A step is one node; texts cost an extra step per 256
characters, so that fuel also bounds memory.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.schemas.codec import Json
from placet_program.execution.arithmetic import MEANING, Trap
from placet_program.functions import Function, Functions
from placet_program.operations import TYPE_NAMES, TYPES
from placet_program.payloads import PREFIX, TRACE_MAX

DEPTH_MAX: Final = 200
"""How many calls may be open within each other, the first included."""

CHARS_PER_STEP: Final = 256
FUEL_STEP_WORK: Final = 2
"""Units of work (`placet.schemas.limits`) of one step."""

_STEPS_PAID: Final = 16
"""Steps whose work is charged at once."""

_EXACT: Final = 2**53
_WIRE: Final = 2**63


class Run(NamedTuple):
    """The result of a run.

    Attributes:
        value: Return value of the function; None if it trapped.
        code: Reason of the trap; empty if none.
        at: Place of the trap, as `function.node`.
        steps: Fuel used.
        trace: Place, operation and value of each node, in order.
    """

    value: Json
    code: str
    at: str
    steps: int
    trace: list[tuple[str, str, Json]]

    def as_dict(self, returns: str) -> dict[str, Json]:
        """Return the run as plain values, without the trace unless it was requested."""
        if self.code:
            return {"ok": False, "code": PREFIX + self.code, "at": self.at, "steps": self.steps}
        return {"ok": True, "value": json_value(self.value), "type": returns, "steps": self.steps}


class _Frame:
    """An open call."""

    __slots__ = ("arguments", "function", "result", "todo", "values")

    def __init__(self, function: Function, arguments: Mapping[str, Json]) -> None:
        assert function.result is not None, "what runs is verified"
        self.function = function
        self.arguments = arguments
        self.values: dict[str, Json] = {}
        self.result = function.result
        self.todo = [function.result]


def _chosen(inputs: Sequence[str], values: Mapping[str, Json]) -> Sequence[str]:
    """Return the inputs of a select that are needed: the condition, then the chosen branch."""
    condition, yes, no = inputs
    if condition not in values:
        return (condition,)
    return (condition, yes if values[condition] else no)


class _Machine:
    """The state of one run."""

    __slots__ = ("_fuel", "_functions", "_is_traced", "_paid", "frames", "steps", "trace")

    def __init__(self, functions: Functions, fuel: int, *, is_traced: bool) -> None:
        self._functions = functions
        self._fuel = fuel
        self._is_traced = is_traced
        self._paid = 0  # steps whose work is charged
        self.frames: list[_Frame] = []
        self.steps = 0
        self.trace: list[tuple[str, str, Json]] = []

    def run(self, function: Function, arguments: Mapping[str, Json]) -> Json:
        """Run until the first frame is done, and return its value."""
        frame = _Frame(function, arguments)
        self.frames.append(frame)
        while True:
            self._advance(frame)
            if not frame.todo:
                value = frame.values[frame.result]
                self.frames.pop()
                if not self.frames:
                    return value
                frame = self.frames[-1]
                self._settle(frame, frame.todo[-1], value)
            frame = self.frames[-1]

    def _advance(self, frame: _Frame) -> None:
        """Evaluate nodes of a frame until it is done or calls another function.

        A node with missing inputs stays on the stack below them; the first input is on top.
        """
        todo, values, nodes = frame.todo, frame.values, frame.function.nodes
        while todo:
            name = todo[-1]
            if name in values:
                todo.pop()
                continue
            node = nodes[name]
            op, inputs = node["op"], node["inputs"]
            if op == "select":
                inputs = _chosen(inputs, values)
            missing = [source for source in inputs if source not in values]
            if missing:
                todo += reversed(missing)
                continue
            if op == "call":
                self._call(node["target"], [values[source] for source in inputs])
                return
            if op == "const":
                value = node["value"]
            elif op == "param":
                value = frame.arguments[node["target"]]
            elif op == "select":
                value = values[inputs[1]]
            else:
                value = self._compute(op, [values[source] for source in inputs])
            self._settle(frame, name, value)

    def _compute(self, op: str, values: list[Json]) -> Json:
        if type(values[0]) is str:
            self._burn(sum(len(value) for value in values) // CHARS_PER_STEP)
        return MEANING[op](*values)

    def _call(self, target: str, values: list[Json]) -> None:
        function = self._functions.find(target)
        assert function is not None, "what runs is verified"
        if len(self.frames) >= DEPTH_MAX:
            raise Trap("depth_exceeded")
        self.frames.append(_Frame(function, dict(zip(function.params, values, strict=True))))

    def _settle(self, frame: _Frame, name: str, value: Json) -> None:
        """Store the value of the node on top of the stack."""
        self._burn(1)
        frame.values[name] = value
        frame.todo.pop()
        if self._is_traced and len(self.trace) <= TRACE_MAX:  # one more tells that there are more
            function = frame.function
            self.trace.append((f"{function.name}.{name}", function.nodes[name]["op"], value))

    def _burn(self, steps: int) -> None:
        if self.steps + steps > self._fuel:
            self.steps = self._fuel
            raise Trap("fuel_exhausted")
        self.steps += steps
        while self.steps > self._paid:
            self._functions.charge(_STEPS_PAID * FUEL_STEP_WORK)
            self._paid += _STEPS_PAID


def run(
    functions: Functions,
    function: Function,
    arguments: Mapping[str, Json],
    fuel: int,
    *,
    is_traced: bool = False,
) -> Run:
    """Interpret a function; it and all that it calls must be verified.

    Args:
        functions: All functions.
        function: The function to run.
        arguments: Parameter -> value, of the parameters' types.
        fuel: Maximum number of steps.
        is_traced: Return the value of every node too.
    """
    machine = _Machine(functions, fuel, is_traced=is_traced)
    try:
        value = machine.run(function, arguments)
    except Trap as trap:
        frame = machine.frames[-1]
        at = f"{frame.function.name}.{frame.todo[-1]}"
        return Run(None, trap.code, at, machine.steps, machine.trace)
    return Run(value, "", "", machine.steps, machine.trace)


def arguments_of(function: Function, inputs: Mapping[str, Json]) -> dict[str, Json] | RuleRefusal:
    """Return the inputs converted to the parameter types, or a refusal if they do not fit.

    An int is accepted for a float of equal value.
    """
    if inputs.keys() != function.params.keys():
        message = (
            f"{function.name!r} takes {', '.join(function.params) or 'nothing'}; "
            f"{', '.join(inputs) or 'nothing'} came"
        )
        return refuse("inputs_mismatch", message, at="/inputs")
    arguments: dict[str, Json] = {}
    for name, wanted in function.params.items():
        value = inputs[name]
        if wanted == "float" and type(value) is int and -_EXACT <= value <= _EXACT:
            value = float(value)
        if type(value) is not TYPES[wanted]:
            message = f"{name!r} is {wanted}, and {TYPE_NAMES[type(value)]} came: {value!r:.80}"
            return refuse("input_type", message, at=f"/inputs/{name}")
        arguments[name] = value
    return arguments


def json_value(value: Json) -> Json:
    """Return a value for JSON: an int beyond 64 bits as its digits."""
    is_wide = type(value) is int and not -_WIRE <= value < _WIRE
    return str(value) if is_wide else value
