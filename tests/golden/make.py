"""Makes the golden logs of this release: `python -m tests.golden.make`.

Small worlds that together have every type of record. They are made once for each release and kept:
today's code must fold them to the digests that are written beside them, and decide them again.
"""

import json
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from placet.domains.world import World
from placet.kernel import ColumnBatch, Domain, Kernel, KernelConfig
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.schemas.config import Leases
from placet.schemas.effect import Settlement
from placet.schemas.limits import Limits
from placet.schemas.log.record import (
    Changes,
    ForkAdopted,
    LogAppend,
    decode_record,
    encode_record,
    record_hash,
    record_type,
)
from placet.stores.url import open_event_log
from tests.golden.post import Post, Watchman
from tests.golden.square import Square

RELEASE = "0.1"
GOLDEN = Path(__file__).parent
DOMAINS: dict[str, Callable[[], Domain]] = {
    "town": lambda: World(
        objects={
            "apple": {"position": [1, 1], "price": 2},
            "lamp": {"position": [2, 1]},
            "well": {"position": [3, 3, 0], "portable": False, "depth": [1, {"m": 2.5}]},
        },
        bounds=[[0, 0], [9, 9]],
        max_step=4.0,
        interaction_range=3,
        inventory_max=1,
        cooldowns={"Custom": 0.5},
        teams=("red", "blue"),
    ),
    "post": lambda: Post(2),
}


def intent(agent_id: str, number: int, kind: str, payload: Any, **fields: Any) -> dict[str, Any]:
    """Make an intent of the sequence form."""
    return {
        "kind": kind,
        "payload": payload,
        "agent_id": agent_id,
        "req_id": f"{agent_id}:{number}",
        "context_seq": 0,
        "priority": 10,
        "schema_version": "1.0.0",
        **fields,
    }


def town(sink: list[bytes]) -> Kernel:
    """Agents that move, meet and speak: all kinds of the world, quotas, staleness, conflicts."""
    config = KernelConfig(
        world="golden",
        seed=11,
        quotas={"Speak": {"rate": 1, "burst": 2}, "*": {"rate": 50, "burst": 60}},
        world_quota={"rate": 900, "burst": 900},
        limits=Limits(checkpoint_groups=5, window_ids_max=6),
    )
    kernel = Kernel(DOMAINS["town"](), config, sink=sink.append)
    kernel.register_agent(
        "ann", position=[1, 1], team="red", quotas={"Move": {"rate": 9, "burst": 9}}
    )
    kernel.register_agent("bob", position=[1, 1], team="blue", priority_max=50, owner="ann")
    kernel.register_agent("cyd", position=[4, 4], permissions={"Move", "Speak", "Interact"})
    fresh = {"context_seq": kernel.seq}
    takes = {"target_id": "apple", "interaction_type": "pickup"}
    kernel.decide_group(
        [
            [
                intent("ann", 1, "Move", {"to": [2, 1]}, **fresh),
                intent("ann", 2, "Speak", {"text": "good day"}, priority=50, **fresh),
            ],
            [intent("bob", 1, "Interact", takes, **fresh)],
            [intent("cyd", 1, "Interact", {"target_id": "well"}, **fresh)],
        ],
        1.0,
    )
    lamp, fresh = {**takes, "target_id": "lamp"}, {"context_seq": kernel.seq}
    kernel.decide_group(
        [[intent(who, 9, "Interact", lamp, **fresh)] for who in ("ann", "bob")], 1.2
    )
    seq = kernel.seq
    kernel.decide([intent("ann", 3, "Move", {"to": [3, 1]}, context_seq=seq)], 1.5)
    kernel.patch([("world.agents", "bob", {"position": [2, 1, 0]}, False)], "pushed")
    give = {"target_id": "ann", "interaction_type": "give", "data": {"object_id": "apple"}}
    stale = intent("bob", 2, "Interact", give, context_seq=seq)
    kernel.decide([stale], 2.0)  # bob was moved since: refused, and tried again with a newer look
    kernel.decide([{**stale, "context_seq": kernel.seq}], 2.0)
    kernel.decide(
        [intent("ann", 4, "Custom", {"action": "wave", "at": None}, schema_version="1.7.0")]
    )
    kernel.decide([intent("ann", 5, "Move", {"to": [9, 9, 0]}, context_seq=kernel.seq)])
    kernel.decide(
        [
            intent("ann", 6, "Move", {"position": [2, 2]}, context_seq=kernel.seq),
            intent("bob", 3, "Move", {"to": [2, 2.5]}, context_seq=kernel.seq),
        ],
        3.0,
    )
    later = [intent("ann", 7, "Speak", {"text": "noon"}), intent("ann", 8, "Move", {"to": [2, 3]})]
    kernel.decide({"intents": later, "sim_time": 12}, 3.0)
    kernel.decide({"intents": [intent("cyd", 2, "Speak", {"text": "jump"})], "sim_time": 12})
    brief = intent("ann", 30, "Speak", {"text": "é"}, valid_until=5)
    kernel.decide({"intents": [brief], "sim_time": 11})
    kernel.decide({"intents": [intent("bob", 4, "Speak", {"text": "ho"})], "sim_time": 11})
    kernel.decide([intent("ann", 31, "Custom", {"action": "wave"}, context_seq=kernel.seq)], 4.0)
    kernel.decide([intent("ann", 32, "Custom", {"action": "wave"}, context_seq=kernel.seq)], 4.1)
    kernel.set_agent_permissions("cyd", {"Move"})
    kernel.change_agent("bob", "suspended")
    kernel.step(10.0)
    kernel.change_agent("bob", "resumed")
    kernel.change_agent("bob", "removed")
    kernel.register_agent("bob", position=[0, 0])
    for number in range(10, 20):
        kernel.decide(
            [intent("bob", number, "Move", {"to": [number % 3, 0]}, context_seq=kernel.seq)]
        )
    whisper = {"text": "to you", "channel": "private", "target_id": "ann"}
    kernel.decide([intent("bob", 20, "Speak", whisper, context_seq=kernel.seq)])
    return kernel


def post(sink: list[bytes]) -> Kernel:
    """A post office: effects and their outcomes, draws, warnings, an upgrade, a host validator."""
    config = KernelConfig(world="golden-post", seed=5, staleness_threshold=40)
    kernel = Kernel(DOMAINS["post"](), config, effect_validator=Watchman(), sink=sink.append)
    kernel.change_executor("mail", 9)
    kernel.register_agent("ann")
    kernel.register_agent("bob")
    for number in range(4):
        kernel.decide([intent("ann", number, "Send", {"to": "bob", "weight": number * 3})], number)
    kernel.decide([intent("bob", 0, "Send", {"to": "mars", "weight": 1})])
    kernel.decide([intent("bob", 1, "Send", {"to": "ann", "weight": 77})])
    first, second, *_ = kernel.open_effects()
    kernel.settle(Settlement(first.key, succeeded=True, output={"stamp": [1, "é"]}), 5.0)
    kernel.settle(Settlement(second.key, succeeded=False, output="lost"), 6.0)
    kernel.tick(7.0)
    kernel.decide(
        {"intents": [intent("ann", 9, "Send", {"to": "bob", "weight": 2})], "sim_time": 9}
    )
    upgraded = Kernel(Post(3), config, sink=sink.append, history=tuple(sink))
    upgraded.decide([intent("ann", 10, "Send", {"to": "bob", "grams": 5})], 8.0)
    upgraded.step(2.0)
    upgraded.change_executor("mail", None)
    upgraded.decide([intent("bob", 11, "Send", {"to": "ann", "grams": 5})])
    return upgraded


def errands(sink: list[bytes]) -> Kernel:
    """A post office with at-most-once effects: started, in doubt, settled, open."""
    config = KernelConfig(world="golden-errands", seed=6)
    kernel = Kernel(Post(3), config, sink=sink.append)
    kernel.change_executor("mail", 9)
    kernel.register_agent("ann")
    kernel.register_agent("bob")
    for number in range(5):
        kernel.decide([intent("ann", number, "Send", {"to": "bob", "grams": number})], number)
    first, second, third, fourth, _ = kernel.open_effects()
    for effect in (first, second, third, fourth):
        kernel.mark_effect(effect.key, "started", now=5.0)
    kernel.settle(Settlement(first.key, succeeded=True, output="arrived"), 6.0)
    for effect in (second, third):
        kernel.mark_effect(effect.key, "in_doubt", "the carrier does not answer", 7.0)
    kernel.settle(Settlement(second.key, succeeded=False, output="found in a ditch"), 8.0)
    return kernel


def fork(sink: list[bytes]) -> Kernel:
    """A post office that was patched by hand, then forked, and continues under another name."""
    parent = Kernel(Post(3), KernelConfig(world="golden-parent", seed=7), sink=sink.append)
    parent.change_executor("mail", 9)
    parent.register_agent("ann")
    parent.register_agent("bob")
    parent.decide([intent("ann", 0, "Send", {"to": "bob", "grams": 10})], 1.0)
    parent.patch([("post.counts", "bob", {"sent": 3}, False)], "set right")
    past = folded(sink)
    first = ForkAdopted(
        prev=past.journal.prev,
        seq=past.ledger.seq,
        now_ns=past.ledger.now_ns,
        world="golden-branch",
        parent="golden-parent",
        effects="simulate",
        given=[],
        dropped=[],
        changes=Changes(),
    )
    sink.append(encode_record(first))
    config = KernelConfig(world="golden-branch", seed=7)
    kernel = Kernel(Post(3), config, sink=sink.append, history=tuple(sink))
    kernel.decide([intent("bob", 0, "Send", {"to": "ann", "grams": 10})], 2.0)
    return kernel


def square(sink: list[bytes]) -> Kernel:
    """Tables: column batches with refusals, claims and additions, and ordinary intents between."""
    config = KernelConfig(
        world="golden-square",
        seed=8,
        quotas={"Sing": {"rate": 0.25, "burst": 1}},
        staleness_threshold=6,
        limits=Limits(checkpoint_groups=4),
    )
    kernel = Kernel(Square(), config, sink=sink.append)
    kernel.register_agent("ann")
    place = np.arange(24, dtype=float).reshape(12, 2) / 4
    kernel.register_population(
        "sellers", 12, table="square.people", place=place, owner="ann",
        quotas={"Walk": {"rate": 1, "burst": 2}},
    )  # fmt: skip
    number, rows = np.arange(12), np.array([7, 0, 3, 11, 5, 9])

    def act(tick: int, kind: str, payload: dict[str, Any], **fields: Any) -> ColumnBatch:
        return ColumnBatch(kind, "sellers", payload, f"{kind}:{tick}", **fields)

    settled = {"stall": number * 5 % 7}
    kernel.step(1.0, [act(1, "Settle", settled), act(1, "Walk", {"to": place + 1.0})])
    kernel.change_agent("sellers:4", "suspended")
    fresh = kernel.seq
    kernel.patch([("square.people", "sellers:9", {"mood": 7}, False)], "a song")
    far = place[rows] + np.array([[1, 1], [9, 9], [np.nan, 0], [0, 0.5], [1.5, 1], [1, 1]])
    contexts = np.array([fresh, fresh, fresh, 0, fresh + 9, fresh])
    paid = {"stall": number % 3, "coins": number % 4}
    kernel.step(
        1.0,
        [
            act(2, "Pay", paid, submitter="ann"),
            [
                intent("sellers:7", 1, "Walk", {"to": [4.0, 4.0]}, context_seq=fresh),
                intent("sellers:8", 1, "Sing", {"loud": True}, context_seq=fresh),
            ],
            act(2, "Walk", {"to": far}, agents=rows, context_seq=contexts),
            act(2, "Pay", {"stall": paid["stall"] + 1, "coins": paid["coins"]}),
        ],
    )
    kernel.change_agent("sellers:4", "resumed")
    loud = {"loud": number > 5}
    for tick in (3, 4):
        kernel.step(1.0, [act(tick, "Sing", loud), act(1, "Settle", settled)])
    kernel.step(1.0, [act(5, "Trip", {"stone": number % 3}), act(5, "Sing", loud, submitter="bob")])
    kernel.step(1.0, [act(6, "Pay", {"stall": number % 8, "coins": np.ones(12, np.int8)})])
    again = Kernel(Square(), config, sink=sink.append, history=tuple(sink))
    moved = {"stall": np.array([8, 8, 8])}
    again.step(1.0, [act(7, "Settle", moved, agents=number[:3])])
    return again


def slow(sink: list[bytes]) -> Kernel:
    """Conditions, and leases: waited for, started, refused to others, ended by time and release."""
    config = KernelConfig(world="golden-slow", seed=9, leases=Leases(seconds_max=4, share=0.5))
    lamps = {name: {"position": [0, 0]} for name in ("lamp", "well")}
    kernel = Kernel(World(objects=lamps), config, sink=sink.append)
    for who in ("ann", "bob", "cyd"):
        kernel.register_agent(who, position=[0, 0])
    number = count()

    def act(who: str, kind: str, now: float, **fields: Any) -> None:
        payload = fields.pop("payload", {"target_id": "lamp", "interaction_type": "use"})
        request = intent(who, next(number), kind, payload, context_seq=kernel.seq, **fields)
        kernel.decide([request], now)

    uses, unused = ["world.objects", "lamp", "uses"], {"op": "absent"}
    act("ann", "Interact", 1.0, expect=[{"path": uses, **unused}])
    act("bob", "Interact", 1.0, expect=[{"path": uses, **unused}])
    act("bob", "Interact", 1.5, expect=[{"path": uses, "op": "<=", "value": 1}])
    later = intent("cyd", 50, "Speak", {"text": "later"}, expect=[{"path": uses, "op": "exists"}])
    kernel.decide({"intents": [later], "sim_time": 3}, 2.0)
    lease = {"refs": [["world.objects", "lamp"]], "seconds": 2}
    act("ann", "placet.lease", 2.0, payload=lease)
    act("bob", "placet.lease", 2.5, payload={**lease, "seconds": 1})
    act("cyd", "placet.lease", 2.6, payload={**lease, "begin": False})
    act("bob", "Interact", 2.7)
    act("ann", "Interact", 2.8)
    kernel.step(0.7)
    act("ann", "placet.release", 3.5, payload={})
    act("bob", "placet.lease", 5.1, payload=lease)
    act("cyd", "placet.lease", 5.2, payload={**lease, "seconds": 9})
    kernel.change_agent("bob", "suspended")
    act("ann", "placet.lease", 6.0, payload={**lease, "refs": [["world.objects", "well"]]})
    return kernel


WORLDS: dict[str, Callable[[list[bytes]], Kernel]] = {
    "town": town,
    "post": post,
    "errands": errands,
    "fork": fork,
    "square": square,
    "slow": slow,
}


def make(folder: Path) -> None:
    """Run each world, and write its log and its digests."""
    folder.mkdir(parents=True, exist_ok=True)
    digests: dict[str, Any] = {}
    for name, write in WORLDS.items():
        records: list[bytes] = []
        kernel = write(records)
        path = folder / f"{name}.db"
        path.unlink(missing_ok=True)
        log = open_event_log(f"sqlite:///{path}")
        log.append(LogAppend(0, 0, kernel.seq, tuple(records)), log.open())
        log.close()
        past = folded(records)
        digests[name] = {
            "records": len(records),
            "seq": kernel.seq,
            "chain": record_hash(records[-1]).hex(),
            "state_digest": kernel.digest(),
            "world_digest": world_digest(past.state, past.ledger).hex(),
            "types": sorted({record_type(decode_record(data)) for data in records}),
        }
    text = json.dumps(digests, indent=2, sort_keys=True) + "\n"
    (folder / "digests.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / RELEASE)
