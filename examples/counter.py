"""A domain in one file: counters that agents add to. `python counter.py` runs it."""

from pydantic import PositiveInt
from typing_extensions import TypedDict

from placet.kernel import Domain, Kernel, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.intent import Intent

COUNTERS, LIMIT = "counter.counters", 100


class Add(TypedDict):
    to: str
    amount: PositiveInt


def add(draft: Draft, intent: Intent) -> RuleRefusal | None:
    name, amount = intent["payload"]["to"], intent["payload"]["amount"]
    value = draft.get(COUNTERS, name, "value", 0)
    if value + amount > LIMIT:
        return refuse("full", f"{name} is at {value} of {LIMIT}; add less", at="/amount")
    if value == 0:
        draft.create(COUNTERS, name)
    draft.put(COUNTERS, name, "value", value + amount)
    return None


class Counter(Domain):
    name, version, kinds = "counter", "1", [Kind("Add", Add, add)]


if __name__ == "__main__":
    kernel = Kernel(Counter())
    kernel.register_agent("ann")
    for n in (60, 40, 1):
        intent: dict[str, object] = {"kind": "Add", "payload": {"to": "visits", "amount": n}}
        intent |= {"agent_id": "ann", "req_id": f"+{n}", "context_seq": 0}
        print(kernel.decide([intent | {"priority": 10, "schema_version": "1.0.0"}]))
    print(kernel.state[COUNTERS]["visits"]["value"], kernel.digest())
