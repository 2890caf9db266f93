"""What does it cost to make, change, verify, run and compile a program?

    ./dev python benchmarks/bench_program.py [--slices N] [--json]

By the kernel alone, in CPU time, the least of many slices: the machine is shared, and moves by a
factor of two. The calculator is five functions of 32 nodes, made by one batch of 42 mutations.

It does not show: the orchestrator, a store; what a model takes to write such a batch.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import count

from placet.kernel import Kernel
from placet.schemas.codec import Json
from placet_bench.report import machine
from placet_program import Program

FLOATS = {"a": "float", "b": "float"}


def node(function: str, name: str, op: str, *inputs: str, **more: Json) -> dict[str, Json]:
    """Make the mutation that puts a node."""
    made = {"op": op, "inputs": list(inputs), **more}
    return {"op": "set_node", "function": function, "name": name, "node": made}


def begin(name: str, params: dict[str, str]) -> Iterator[dict[str, Json]]:
    """Make the mutations that begin a function, with a node for each parameter."""
    listed = [{"name": param, "type": kind} for param, kind in params.items()]
    kind = "float" if "a" in params else "int"
    yield {"op": "add_function", "name": name, "params": listed, "returns": kind}
    for param in params:
        yield node(name, param, "param", target=param)


def calculator() -> Iterator[dict[str, Json]]:
    """Make the 42 mutations."""
    for op in ("add", "sub", "mul", "div"):
        yield from begin(op, FLOATS)
        yield node(op, "r", op, "a", "b")
        yield {"op": "set_result", "function": op, "node": "r"}
    yield from begin("calc", {"op": "str", **FLOATS})
    yield node("calc", "none", "const", value=0.0)
    before = "none"
    for op in ("div", "mul", "sub", "add"):
        yield node("calc", f"k_{op}", "const", value=op)
        yield node("calc", f"is_{op}", "eq", "op", f"k_{op}")
        yield node("calc", f"do_{op}", "call", "a", "b", target=op)
        yield node("calc", f"s_{op}", "select", f"is_{op}", f"do_{op}", before)
        before = f"s_{op}"
    yield {"op": "set_result", "function": "calc", "node": before}


def chain(length: int) -> Iterator[dict[str, Json]]:
    """Make a function of so many nodes, each of which needs the one before twice."""
    yield from begin("chain", {"x0": "int"})
    for i in range(1, length):
        yield node("chain", f"x{i}", "max", f"x{i - 1}", f"x{i - 1}")
    yield {"op": "set_result", "function": "chain", "node": f"x{length - 1}"}


class Desk:
    """A kernel with a program, and one planner."""

    def __init__(self) -> None:
        self.kernel = Kernel(Program())
        self.kernel.register_agent("planner")
        self._numbers = count(1)

    def ask(self, kind: str, *, dry_run: bool = False, **payload: Json) -> None:
        """Propose one intent that passes."""
        intent = {
            "kind": f"program.{kind}",
            "payload": payload,
            "agent_id": "planner",
            "req_id": f"p:{next(self._numbers)}",
            "context_seq": self.kernel.seq,
            "priority": 10,
            "schema_version": "1.0.0",
        }
        assert self.kernel.decide({"intents": [intent], "dry_run": dry_run}).admitted


def least_us(work: Callable[[], None], slices: int) -> float:
    """Take the least CPU time of one piece of work, microseconds."""
    times = []
    for _ in range(slices):
        begun = time.process_time_ns()
        for _ in range(10):
            work()
        times.append((time.process_time_ns() - begun) / 10_000)
    return min(times)


def measured(slices: int) -> dict[str, float]:
    """Measure all there is to tell."""
    desk, numbers, made = Desk(), count(), list(calculator())
    whole = least_us(lambda: desk.ask("mutate_batch", dry_run=True, mutations=made), slices)
    desk.ask("mutate_batch", mutations=made)
    inputs = {"op": "mul", "a": 2.0, "b": 3.0}

    def change(function: str) -> Callable[[], None]:
        return lambda: desk.ask(
            "mutate_batch", mutations=[node(function, "extra", "const", value=next(numbers))]
        )

    figures = {
        "calculator, 42 mutations, µs": whole,
        "mutations/s": len(made) / whole * 1e6,
        "change one node of calc, µs": least_us(change("calc"), slices),
        "simulate calc, with verify, µs": least_us(
            lambda: desk.ask("simulate", function="calc", inputs=inputs), slices
        ),
        "compile calc, with verify, µs": least_us(
            lambda: desk.ask("compile", entry="calc"), slices
        ),
    }
    long = list(chain(1000))
    for first in range(0, len(long), 128):
        desk.ask("mutate_batch", mutations=long[first : first + 128])
    figures["change one node of 1 000, µs"] = least_us(change("chain"), slices)
    figures["verify 1 000 nodes, µs"] = least_us(
        lambda: desk.ask("verify", function="chain"), slices
    )
    figures["simulate 1 000 nodes, with verify, µs"] = least_us(
        lambda: desk.ask("simulate", function="chain", inputs={"x0": 1}), slices
    )
    return figures


def main() -> None:
    """Print the measured figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--slices", type=int, default=30, help="of ten pieces of work each")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    figures = measured(options.slices)
    if options.json:
        print(json.dumps({"machine": machine(), **figures}, indent=2, ensure_ascii=False))
        return
    for name, value in figures.items():
        print(f"{name:40} {value:12,.0f}")
    print(machine())


if __name__ == "__main__":
    main()
