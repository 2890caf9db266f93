"""Batches for the fairground domain, drawn by seed: mostly valid, mostly of one agent.

`context_back` is the distance of an intent's context from the world's seq, `later` that of the
batch's time from the present.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

AGENTS = ("ann", "ben", "cid", "dee")
ABSENT = "zoe"

USUAL = ["Earn"] * 6 + ["Pay"] * 3 + ["Tend"] * 2 + ["Take"] * 5 + ["Look", "Glance", "Send"] * 2
UNUSUAL = ["Drop", "Burst", "Pay", "Send"]


def a_payload(rng: Random, kind: str) -> dict[str, Any]:
    match kind:
        case "Earn":
            return {"amount": rng.choice([1, 5, 9, 20])}
        case "Pay":
            return {"to": rng.choice([*AGENTS, ABSENT]), "amount": rng.choice([0, 0, 1, 3, 9])}
        case "Take" | "Drop":
            return {"stall": rng.choice("ppq")}
        case "Look" | "Glance":
            return {"stall": rng.choice(["p", "q", None])}
        case "Send":
            return {"count": rng.choice([0, 1, 1, 2])}
        case _:
            return {}


def an_intent(rng: Random, agents: Sequence[str], req_id: str) -> dict[str, Any]:
    kind = rng.choice(UNUSUAL if rng.randrange(16) == 0 else USUAL)
    made = {
        "kind": kind,
        "payload": a_payload(rng, kind),
        "agent_id": rng.choice(agents),
        "req_id": req_id,
        "context_back": rng.choice([0] * 12 + [1, 2, 3, 9, -1]),
        "priority": rng.choice([10, 10, 60]),
        "schema_version": "1.0.0",
    }
    if rng.randrange(16) == 0:
        made["valid_until"] = rng.randrange(20)
    return made


def a_batch_of(seed: int) -> dict[str, Any]:
    """Make a batch, mostly of one agent; now and then for later, dry, or no batch at all."""
    rng = Random(seed)
    agents = rng.choice([*[(agent,) for agent in AGENTS] * 2, AGENTS[:2], AGENTS[:3], AGENTS[1:]])
    ids = [*"xyz", *[f"{rng.choice('st')}:{rng.randrange(60)}" for _ in range(9)]]
    intents = [an_intent(rng, agents, rng.choice(ids)) for _ in range(rng.choice([1, 1, 2, 3, 4]))]
    batch: dict[str, Any] = {"intents": intents}
    match rng.randrange(32):
        case 0 | 1 | 2 | 3:
            batch["later"] = rng.choice([0, 0.5, 2, 5, 12])
        case 4 | 5:
            batch["dry_run"] = True
        case 6:
            intents[-1]["kind"] = "Fly"
        case 7:
            intents[-1] |= {"kind": "Earn", "payload": {"amount": "much"}}
        case 8:
            batch["intents"] = []
        case _:
            pass
    return batch
