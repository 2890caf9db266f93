"""Scenes of the noninterference law: a domain, its payloads, and traces drawn from a seed.

A trace here is longer than those of the property tests, and its names and places are few, so that
agents meet, hide and collide.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from tests.program.programs import begin, connect, exported, gone, result

from placet.domains.memory import Memory
from placet.domains.session import RECORDER, Sessions
from placet.domains.world import World
from placet.kernel.plugin.domain import Domain
from placet.testing.trace import (
    Batch,
    Join,
    Leave,
    Proposal,
    Propose,
    Settle,
    Step,
    Trace,
    Wait,
)
from placet_design import Design
from placet_design.refinable_fields import REFINABLE_SCHEMA
from placet_files import Files
from placet_program import Program
from tests.noninterference.own_domains import ROOMS, Bids, Rooms

Payload = Callable[[Random], dict[str, Any]]

AGENTS = ("ann", "bob", "cyd")
STEPS = 24


class Scene(NamedTuple):
    """A domain and what its agents do.

    Attributes:
        factory: Makes the domain.
        payloads: Kind -> draws a payload.
        attributes: Draws the keywords of a registration.
        agents: The observer, and the others.
        opening: Steps before the drawn ones, after the registrations.
    """

    factory: Callable[[], Domain]
    payloads: Mapping[str, Payload]
    attributes: Payload = lambda _: {}
    agents: Sequence[str] = AGENTS
    opening: Sequence[Step] = ()

    def trace(self, seed: int, count: int = STEPS) -> Trace:
        """Draw the trace of a seed, of a number of steps after the registrations."""
        random = Random(f"{seed}")
        steps: list[Step] = [Join(name, self.attributes(random)) for name in self.agents]
        steps += self.opening
        steps += [self._step(random) for _ in range(count)]
        return tuple(steps)

    def _step(self, random: Random) -> Step:
        others = self.agents[1:]
        match random.choices(range(6), (60, 14, 4, 4, 6, 6))[0]:
            case 0:
                return Propose(random.choice((0.0, 0.0, 0.5)), (self._batch(random, 1),))
            case 1:
                count = random.randint(2, 3)
                return Propose(0.0, tuple(self._batch(random, 2) for _ in range(count)))
            case 2:
                return Join(random.choice(others), self.attributes(random))
            case 3:
                return Leave(random.choice(others))
            case 4:
                return Wait(random.choice((0.5, 3.0)))
            case _:
                return Settle(random.random() < 0.7, None)

    def _batch(self, random: Random, intents_max: int) -> Batch:
        who = random.choice(self.agents)
        return tuple(self._proposal(random, who) for _ in range(random.randint(1, intents_max)))

    def _proposal(self, random: Random, who: str) -> Proposal:
        kind = random.choice(list(self.payloads))
        return Proposal(who, kind, self.payloads[kind](random), random.choice((0, 0, 0, 1, 4, 9)))


def _some(random: Random, **fields: Sequence[Any]) -> dict[str, Any]:
    """Choose a value of each field; a field whose values begin with `...` may be left out."""
    chosen: dict[str, Any] = {}
    for name, values in fields.items():
        is_optional = values[0] is ...
        if not is_optional or random.random() < 0.5:
            chosen[name] = random.choice(values[1:] if is_optional else values)
    return chosen


PLACES = [[0, 0], [1, 0], [2, 0], [0, 4], [4, 4]]
TARGETS = ["lamp", "well", "coin", "ann", "bob", "cyd", "nothing"]


def _interact(random: Random) -> dict[str, Any]:
    what = ("examine", "pickup", "pickup", "drop", "use", "give", "dance")
    payload = _some(random, target_id=TARGETS, interaction_type=what)
    if payload["interaction_type"] == "give":
        payload["data"] = _some(random, object_id=["lamp", "coin", "nothing"])
    return payload


def _speak(random: Random) -> dict[str, Any]:
    payload = _some(random, text=["hi", "psst"], channel=["public", "team", "private"])
    if payload["channel"] == "private":
        payload["target_id"] = random.choice(TARGETS)
    return payload


WORLD_PAYLOADS: Mapping[str, Payload] = {
    "Move": partial(_some, to=PLACES),
    "Interact": _interact,
    "Speak": _speak,
    "Custom": partial(_some, action=["wave"]),
}
OBJECTS: dict[str, dict[str, Any]] = {
    "lamp": {"position": [1, 0]},
    "coin": {"position": [4, 4]},
    "well": {"position": [0, 4], "portable": False},
}


def world(**settings: Any) -> Scene:
    """Return the scene of a world with these settings."""
    return Scene(
        partial(World, objects=OBJECTS, teams=["red", "blue"], **settings),
        WORLD_PAYLOADS,
        partial(_some, position=[..., *PLACES], team=[..., "red", "blue"]),
    )


NAMES, NODES = ["f", "g"], ["a", "b"]


def _mutation(random: Random) -> dict[str, Any]:
    name, node = random.choice(NAMES), random.choice(NODES)
    value = {"op": "const", "value": random.choice((0, 1))}
    call = {"op": "call", "target": random.choice(NAMES), "inputs": []}
    return random.choice(
        (
            begin(name),
            exported(name, "int", x="int"),
            {"op": "remove_function", "name": name},
            {"op": "set_node", "function": name, "name": node, "node": value},
            {"op": "set_node", "function": name, "name": node, "node": call},
            gone(name, node),
            connect(name, node, random.choice(NODES), 0),
            result(name, node),
        )
    )


PROGRAM_PAYLOADS: Mapping[str, Payload] = {
    "program.mutate_batch": lambda random: {
        "mutations": [_mutation(random) for _ in range(random.randint(1, 4))]
    },
    "program.verify": partial(_some, function=[..., *NAMES]),
    "program.compile": partial(_some, entry=NAMES),
    "program.simulate": partial(_some, function=NAMES),
    "program.inspect": partial(_some, what=["overview", "function"], function=NAMES),
    "program.history_query": lambda random: random.choice(
        ({"op": "list"}, {"op": "diff", "from_seq": random.randint(0, 9)})
    ),
    "program.restore": partial(_some, to_seq=list(range(12))),
}

PATHS = [*sorted(REFINABLE_SCHEMA)[:3], "no.such.path"]
DESIGN_PAYLOADS: Mapping[str, Payload] = {
    "design.set": partial(_some, path=PATHS, value=[1, 2, 3.5]),
    "design.increase": partial(_some, path=PATHS, amount=[..., 1, 2]),
    "design.lock": partial(_some, path=PATHS, for_s=[..., 1.0]),
    "design.unlock": partial(_some, path=PATHS),
    "design.create": partial(_some, name=["a", "b"]),
    "design.undo": lambda _: {},
    "design.redo": lambda _: {},
    "design.noop": lambda _: {},
    "design.run_phases": lambda _: {},
    "design.set_access": partial(
        _some, owner=["bob", "cyd"], editors=[[], ["cyd"], ["ann"]], readers=[[], [], ["ann"]]
    ),
}
CLOSED_DESIGN = Propose(
    0.0,
    ((Proposal("bob", "design.set_access", {"owner": "bob", "editors": ["cyd"], "readers": []}),),),
)

SESSIONS = ["s", "t"]


def _approval(random: Random) -> dict[str, Any]:
    chosen = _some(random, approval_id=["s.1", "t.1"], session=SESSIONS, proposer=["ann", "bob"])
    plan = {"goal": "", "base_seq": 0, "actions": [{"kind": "x"}], "needs": "confirm"}
    return {**chosen, **plan, "foreseen": "", "role": "", "digest": "d" * 16, "seconds": 5.0}


SESSION_PAYLOADS: Mapping[str, Payload] = {
    "session.turn": partial(
        _some, session=SESSIONS, turn=[1, 2, 3], agent=["ann", "bob"], mode=["assisted"],
        route=["agent"], message=["m", "n"],
    ),
    "session.ask": partial(
        _some, session=SESSIONS, turn=[1, 2], attempt=[1], adapter=["x"], digest=["d"]
    ),
    "session.end": partial(
        _some, session=SESSIONS, turn=[1, 2], outcome=["done"], stop=["done"], text=["t"],
        results=[[]],
    ),
    "session.request_approval": _approval,
    "session.resolve": partial(
        _some, approval_id=["s.1", "t.1"], decision=["approve", "deny"], by=["eve"], role=[""],
        digest=["d" * 16],
    ),
    "session.grant": partial(
        _some, grant=["g", "h"], proposer=["ann", "bob"], kinds=["x"], equals=[{}], uses=[1, 2],
        seconds=[5.0], by=["eve"],
    ),
    "session.use": partial(_some, grant=["g", "h"], proposer=["ann", "bob"], uses=[1]),
    "session.guard": partial(_some, seq=[1, 5]),
}  # fmt: skip

KEYS = ["a", "b", "c"]
SCOPES = [..., "project", "principal", "principal"]
FILES = ["a", "a/b", "c.txt", "../x"]

SCENES: Mapping[str, Scene] = {
    "world, all visible": world(),
    "world, near": world(observation={"distance": 3}, interaction_range=2.0),
    "world, near or team": world(
        observation={"any_of": [{"distance": 2}, {"team": True}]}, inventory_max=1
    ),
    "world, hidden fields": world(
        observation={"hidden_fields": ["position", "inventory"]},
        interaction_range=3.0,
        inventory_max=1,
    ),
    "world, near with hidden fields": world(
        observation={"distance": 5, "hidden_fields": ["position", "inventory", "team"]},
        inventory_max=1,
        interaction_range=2.0,
        max_step=4.0,
        cooldowns={"Interact": 1.0},
        private_reach="anywhere",
    ),
    "memory": Scene(
        partial(Memory, facts_max=2),
        {
            "memory.remember": partial(_some, key=KEYS, value=[1, 2], scope=SCOPES),
            "memory.forget": partial(_some, key=KEYS, scope=SCOPES),
        },
    ),
    "session": Scene(
        partial(Sessions, turns_kept=2, approvals_kept=2, grants_kept=1),
        SESSION_PAYLOADS,
        agents=("ann", RECORDER, "bob"),
    ),
    "program": Scene(Program, PROGRAM_PAYLOADS),
    "program, verified": Scene(partial(Program, verify_exported=True), PROGRAM_PAYLOADS),
    "design, open": Scene(Design, DESIGN_PAYLOADS),
    "design, closed to the observer": Scene(
        Design,
        DESIGN_PAYLOADS,
        partial(_some, role=[..., "designer", "operator"]),
        opening=(CLOSED_DESIGN,),
    ),
    "files": Scene(
        partial(Files, files_max=2, bytes_max=12),
        {
            "files.create_file": partial(
                _some, filename=FILES, content=["x", "xy"], overwrite=[..., True]
            ),
            "files.analyze_text": partial(_some, path=FILES),
            "files.inspect_zip": partial(_some, zip_path=FILES),
        },
    ),
    "rooms": Scene(
        Rooms,
        {
            "Go": partial(_some, room=[*ROOMS, "moon"]),
            "SetDown": partial(_some, box=["a", "b"]),
            "Open": partial(_some, box=[f"{room}.{box}" for room in ROOMS for box in "ab"]),
        },
        partial(_some, room=[..., *ROOMS]),
    ),
    "bids": Scene(
        Bids,
        {
            "Bid": partial(_some, lot=["vase", "clock", "hat"], amount=[1, 2, 3]),
            "Close": partial(_some, lot=["vase", "clock"]),
        },
    ),
}  # fmt: skip
