"""Traces: the steps of a kernel's run as data.

A life is plain JSON, so that another process can live it too: `python -m tests.kernel.traces FILE`
prints what it came to.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from placet.kernel import Kernel
from placet.schemas.effect import Settlement
from placet.schemas.errors import PlacetError
from placet.schemas.log.record import record_hash
from tests.kernel.builders import kernel_of
from tests.kernel.domains import Annex, Lab, Nursery

AGENTS = ["alice", "bob", "carol", "dora"]
"""All but dora are there from the start."""

NURSERY = [Nursery(things=("a", "b"), ceiling=60), Annex()]
WHOLE_LAB = [Lab(things=("a", "b"), ceiling=60), Annex()]
FAULTY_LAB = [Lab("on_settle", "on_remove", "emit_on_tick", things=("a",)), Annex()]

# Every bound is near, so that short lives pass it.
TIGHT = {
    "window_ids_max": 4,
    "window_age_ns_max": 4 * 10**9,
    "window_sequences_max": 2,
    "dedup_entries_max": 9,
    "tombstones_max": 2,
    "checkpoint_groups": 3,
    "schedule_batches_max": 3,
    "agents_max": 4,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "wide": {"domain": NURSERY, "agents": AGENTS[:3]},
    "tight": {
        "domain": NURSERY,
        "agents": AGENTS[:3],
        "limits": TIGHT,
        "quotas": {"Add": {"rate": 1, "burst": 3}, "*": {"rate": 5, "burst": 8}},
        "world_quota": {"rate": 20, "burst": 30},
        "seed": 7,
    },
    "strict": {
        "domain": WHOLE_LAB,
        "agents": AGENTS[:3],
        "staleness_threshold": 3,
        "limits": {"checkpoint_groups": 1},
    },
    "faulty": {"domain": FAULTY_LAB, "agents": AGENTS[:3], "limits": TIGHT},
}

THINGS = ["a", "b", "c", "secret"]
FREE_IDS = [*"pqrstuvw", *"PQRSTUVW"]


def a_payload(rng: Random, kind: str) -> dict[str, Any]:
    match kind:
        case "Add" | "Take" | "Clamp" | "Tend" | "annex.Count":
            return {"amount": rng.randint(-3, 20)}
        case "Put":
            values = [rng.randint(-3, 9), [1, rng.randint(0, 3)], {"k": [None, "é"]}, 0.5, None]
            return {
                "thing": rng.choice(THINGS),
                "field": rng.choice("xy"),
                "value": rng.choice(values),
            }
        case "Drop" | "Remake" | "Grab":
            return {"thing": rng.choice(THINGS)}
        case "Give" | "Bear" | "Bury" | "Renew":
            return {"thing": rng.choice(AGENTS)}
        case "Look" | "Glance":
            return {"thing": rng.choice([*THINGS, None])}
        case "Mail":
            return {"count": rng.randint(0, 3)}
        case "Fail":
            return {"how": rng.choice(["raise", "refuse", "huge"])}
        case "Say":
            return {"text": rng.choice(["hi", "ho"])}
        case _:
            return {"at": [rng.randint(0, 3), 2]}


KINDS = [
    "Add", "Add", "Add", "Put", "Put", "Put", "Clamp", "annex.Count", "Drop", "Remake", "Grab",
    "Look", "Look", "Glance", "Tend", "Give", "Mail", "Say", "Place", "Take", "Fail",
    "Bear", "Bear", "Bury", "Renew",
]  # fmt: skip


def an_intent(rng: Random, agents: Sequence[str], req_id: str) -> dict[str, Any]:
    """Make an intent; `context_back` says how far behind the world it looked."""
    kind = rng.choice(KINDS)
    made = {
        "kind": kind,
        "payload": a_payload(rng, kind),
        "agent_id": rng.choice(agents),
        "req_id": req_id,
        "context_back": rng.choice([0, 0, 0, 0, 0, 0, 1, 2, 5, 50, -1]),
        "priority": rng.choice([10, 10, 50, 100]),
        "schema_version": rng.choice(["1.0.0"] * 9 + ["1.2.0"]),
    }
    if rng.randrange(12) == 0:
        made["valid_until"] = rng.choice([0, 2, 9, 90])
    return made


def a_batch(rng: Random) -> dict[str, Any]:
    """Make a batch, mostly of one agent."""
    agents = rng.choice([AGENTS[:1], AGENTS[1:2], AGENTS[:2], AGENTS[:3], AGENTS])
    pool = FREE_IDS + [f"{rng.choice('znmk')}:{rng.randint(0, 99)}" for _ in range(60)]
    ids = list(dict.fromkeys(rng.choice(pool) for _ in range(rng.randint(1, 4))))
    batch: dict[str, Any] = {"intents": [an_intent(rng, agents, req_id) for req_id in ids]}
    if rng.randrange(5) == 0:
        batch["sim_time"] = rng.randint(0, 30)
    if rng.randrange(8) == 0:
        batch["dry_run"] = True
    return batch


def a_group(rng: Random) -> list[dict[str, Any]]:
    return [a_batch(rng) for _ in range(rng.randint(0, 4))]


OTHERS = [
    "step",
    "step",
    "tick",
    "settle",
    "settle",
    "settle",
    "register",
    "register",
    "change",
    "executor",
]


def a_step(rng: Random) -> list[Any]:
    """Generate one step of a trace."""
    seconds = rng.choice([0, 0, 0.25, 1, 3])
    what = rng.choice(["group"] * 16 + OTHERS)
    match what:
        case "group" | "step":
            return [what, seconds, a_group(rng)]
        case "tick":
            return [what, seconds]
        case "settle":
            return [what, rng.random() < 0.7, rng.choice([None, {"text": ["ok"]}])]
        case "register":
            options = {
                "permissions": rng.choice([["Add", "Put", "Drop"], KINDS, KINDS, KINDS]),
                "priority_max": rng.choice([0, 20, 100]),
                "quotas": {"Put": {"rate": 0.5, "burst": 2}},
                "owner": rng.choice(AGENTS),
                "count": rng.choice([-2, -1, 0, 5]),
            }
            chosen = [name for name in options if rng.randrange(3) == 0]
            return [what, rng.choice(AGENTS), {name: options[name] for name in chosen}]
        case "change" if rng.randrange(3) == 0:
            return ["permit", rng.choice(AGENTS), rng.choice([None, None, ["Add", "Put", "Mail"]])]
        case "change":
            changes = ["suspended", "resumed", "resumed", "removed", "removed"]
            return [what, rng.choice(AGENTS), rng.choice(changes)]
        case _:
            return [what, rng.choice(["mail", "fax"]), rng.choice([None, 1, 5, 50, 50])]


def random_trace(seed: int, steps: int = 120) -> list[Any]:
    """Generate a trace by seed."""
    rng = Random(seed)
    return [a_step(rng) for _ in range(steps)]


TRACES = st.builds(random_trace, st.integers(0, 2**32), st.integers(1, 40))
"""Drawn by seed, which is fast; a failing trace is shrunk by its number of steps."""


def run_trace(kernel: Kernel, trace: Sequence[Sequence[Any]], now: float = 0.0) -> list[Any]:
    """Run a trace from a time on; return the answer of each step."""
    answers = []
    for what, *rest in trace:
        if what in {"group", "step", "tick"}:
            now += rest[0]
        answers.append(_run_step(kernel, what, rest, now))
    return answers


def time_of(trace: Sequence[Sequence[Any]]) -> float:
    """Return the time at the end of a trace."""
    return float(sum(rest[0] for what, *rest in trace if what in {"group", "step", "tick"}))


def _run_step(kernel: Kernel, what: str, rest: Sequence[Any], now: float) -> Any:
    try:
        match what:
            case "group":
                group = [_resolved(batch, kernel.seq) for batch in rest[1]]
                return [verdict.as_dict() for verdict in kernel.decide_group(group, now)]
            case "step":
                group = [_resolved(batch, kernel.seq) for batch in rest[1]]
                dt = max(0.0, now - kernel.sim_time)
                return [verdict.as_dict() for verdict in kernel.step(dt, group)]
            case "tick":
                return kernel.tick(now)
            case "settle":
                effects = kernel.open_effects()
                return effects and kernel.settle(Settlement(effects[0].key, *rest))
            case "register":
                options = dict(rest[1])
                if "permissions" in options:  # a name of no kind is refused
                    known = kernel.registry.kinds
                    options["permissions"] = [k for k in options["permissions"] if k in known]
                return kernel.register_agent(rest[0], **options).generation
            case "change":
                return [verdict.as_dict() for _, verdict in kernel.change_agent(*rest)]
            case "permit":
                return kernel.set_agent_permissions(*rest)
            case _:
                return kernel.change_executor(*rest)
    except PlacetError as error:
        return str(error)


def _resolved(batch: dict[str, Any], seq: int) -> dict[str, Any]:
    intents = []
    for drawn in batch["intents"]:
        back = drawn["context_back"]
        context_seq = max(0, seq - back)
        intents.append({**drawn, "context_seq": context_seq})
        del intents[-1]["context_back"]
    return {**batch, "intents": intents}


def summary(kernel: Kernel, log: Sequence[bytes]) -> dict[str, Any]:
    """Return the digests at the end of a run."""
    return {
        "seq": kernel.seq,
        "digest": kernel.digest(),
        "world_digest": kernel.world_digest(),
        "chain": record_hash(log[-1]).hex(),
    }


if __name__ == "__main__":
    settings, story = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    records: list[bytes] = []
    world = kernel_of(sink=records, **SETTINGS[settings])
    run_trace(world, story)
    sys.stdout.write(json.dumps(summary(world, records)))
