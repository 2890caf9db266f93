"""What do 50 rules of a policy cost a call, and how many calls does the kernel decide with them?

    ./dev python benchmarks/bench_policy.py [--calls N] [--rounds R] [--json]

`rules` is the CPU time of the compiled expressions of one call of which none holds, bar <= 2 us for
50; `kernel` the calls that `Kernel.decide` admits in a second of CPU time, one in a batch, with
the policy, bar >= 10 000 with 50 rules; `ratio` that rate to the rate of the same tool without a
policy, which takes turns with it. `order` also has two rules about earlier calls, whose marks are
written with each call.

It does not show: a log on a disk, the wait for a person, the work of a tool.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Mapping
from statistics import quantiles
from typing import Any

from placet.kernel import Kernel
from placet_bench.report import machine
from placet_tools import Tools

RULES = (0, 10, 50)
BATCH = 500
clock = time.process_time_ns
tools = Tools("shop")


@tools.tool(risk="read")
def pay(order: str, to: str, euro: int, *, urgent: bool = False) -> list[object]:
    """Pay money."""
    return [order, to, euro, urgent]


FORMS = (
    "euro > {} and not urgent",
    "startswith(to, 'x{}')",
    "order == 'order-{}' and euro > 1",
    "to in ['a{0}', 'b{0}']",
    "euro * 2 > {} and endswith(to, 'z')",
)


def policy_of(count: int, *, has_order: bool = False) -> Mapping[str, Any]:
    """Return a policy with a number of expressions, of which none holds."""
    rules: dict[str, Any] = {
        "refuse": [{"if": FORMS[n % len(FORMS)].format(10_000 + n)} for n in range(count - 1)],
        "approval": "euro > 9000",
    }
    if has_order:
        rules["at_most"] = [{"n": 1_000, "per": ["order"]}]
        rules["never_after"] = [{"tool": "pay", "by": ["to", "order"]}]
    return {"tools": {"pay": rules}}


def microseconds_of_rules(count: int) -> float:
    """Return the CPU microseconds of the expressions of one call."""
    policy = tools.domain(policy=policy_of(count)).enforced.policy
    assert policy is not None, "the domain has one"
    first = policy.tools["pay"].first
    call = {"order": "A7", "to": "bob", "euro": 42, "urgent": False}
    before = clock()
    for _ in range(20_000):
        first(call, "ann", {})
    return (clock() - before) / 20_000 / 1e3


class Side:
    """A kernel that decides calls of one tool, under a policy or none."""

    def __init__(self, policy: Mapping[str, Any] | None) -> None:
        domain = tools.domain(approve_from="never", policy=policy)
        self.kernel = Kernel(domain)
        self.kernel.change_executor("shop.pay", 1_000_000)
        self.kernel.register_agent("ann")
        self._number = 0

    def calls(self, count: int) -> int:
        """Decide calls, one in a batch; return the CPU nanoseconds."""
        spent = 0
        for _ in range(count // BATCH):
            intents = [self._call() for _ in range(BATCH)]
            gc.collect(1)
            before = clock()
            for intent in intents:
                verdict = self.kernel.decide([intent])
                assert verdict.admitted, verdict.refusals
            spent += clock() - before
        return spent

    def _call(self) -> Any:  # noqa: ANN401  # an intent
        self._number += 1
        n = self._number
        return self.kernel.intent(
            "shop.pay", agent="ann", order=f"{n % 997}", to=f"bob{n}", euro=n % 100
        )


def measured(count: int, calls: int, rounds: int, *, has_order: bool = False) -> dict[str, Any]:
    """Return the figures of a number of rules; both sides take turns."""
    found: dict[str, list[float]] = {"rules": [], "kernel": [], "ratio": []}
    policy = policy_of(count, has_order=has_order) if count else None
    for number in range(rounds):
        sides = [Side(policy), Side(None)]
        order = (0, 1) if number % 2 else (1, 0)
        spent = [0, 0]
        for side in order:
            sides[side].calls(BATCH)  # warm
            spent[side] = sides[side].calls(calls)
        if count:
            found["rules"].append(microseconds_of_rules(count))
        found["kernel"].append(calls / spent[0] * 1e9)
        found["ratio"].append(spent[1] / spent[0])
    figures: dict[str, Any] = {"rules_count": count, "has_order": has_order}
    for name, values in found.items():
        if values:
            low, middle, high = quantiles(values, n=4)
            figures[name] = {"p25": low, "median": middle, "p75": high}
    return figures


def as_line(figures: dict[str, Any]) -> str:
    """Return the figures of one policy as a line of the table."""
    cells = []
    for name, form in (("rules", ".2f"), ("kernel", ",.0f"), ("ratio", ".2f")):
        one = figures.get(name)
        text = (
            "-"
            if one is None
            else f"{one['median']:{form}} ({one['p25']:{form}}-{one['p75']:{form}})"
        )
        cells.append(f"{text:26}")
    name = f"{figures['rules_count']}{' + order' if figures['has_order'] else ''}"
    return f"{name:12}{''.join(cells)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=5_000, help="calls of each side and round")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each policy")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    calls, rounds = max(options.calls, BATCH), max(options.rounds, 2)
    rows = [measured(count, calls, rounds) for count in RULES]
    rows.append(measured(50, calls, rounds, has_order=True))
    if options.json:
        print(json.dumps({"machine": machine(), "rows": rows}, indent=2))
    else:
        print("rules       expressions us            calls a second (kernel)   ÷ without a policy")
        print("\n".join(map(as_line, rows)))
        print("CPU time, median (p25-p75)")
        print(f"CPython {sys.version.split()[0]}; {machine()}; {rounds} rounds of {calls} calls")
