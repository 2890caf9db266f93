"""The scenes of programs for the noninterference law (`tests/noninterference/scenes.py`)."""

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

from tests.program.programs import begin, connect, exported, gone, result

from placet_program import Program
from tests.noninterference.drawn import Payload, Scene, some

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
    "program.verify": partial(some, function=[..., *NAMES]),
    "program.compile": partial(some, entry=NAMES),
    "program.simulate": partial(some, function=NAMES),
    "program.inspect": partial(some, what=["overview", "function"], function=NAMES),
    "program.history_query": lambda random: random.choice(
        ({"op": "list"}, {"op": "diff", "from_seq": random.randint(0, 9)})
    ),
    "program.restore": partial(some, to_seq=list(range(12))),
}

SCENES: Mapping[str, Scene] = {
    "program": Scene(Program, PROGRAM_PAYLOADS, is_opened=True),
    "program, verified": Scene(partial(Program, verify_exported=True), PROGRAM_PAYLOADS),
}
