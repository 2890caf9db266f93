"""Scenes of the noninterference law: a domain, its payloads, and traces drawn from a seed.

A trace here is longer than those of the property tests, and its names and places are few, so that
agents meet, hide and collide.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from placet.kernel.plugin.domain import Domain
from placet.schemas.condition import Condition, ConditionOp, steps_of
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
        is_opened: It is also run in an opened world: it has no effects, which that would run.
        paths: Paths of values on which intents have conditions; empty: none has.
    """

    factory: Callable[[], Domain]
    payloads: Mapping[str, Payload]
    attributes: Payload = lambda _: {}
    agents: Sequence[str] = AGENTS
    opening: Sequence[Step] = ()
    is_opened: bool = False
    paths: Sequence[str] = ()

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
        behind = random.choice((0, 0, 0, 1, 4, 9))
        return Proposal(who, kind, self.payloads[kind](random), behind, self._expect(random))

    def _expect(self, random: Random) -> list[Condition]:
        """Draw the conditions of an intent; of five intents four have none."""
        if not self.paths or random.random() < 0.8:
            return []
        path = steps_of(random.choice(self.paths))
        if random.random() < 0.5:
            return [{"path": path, "op": "exists" if random.random() < 0.5 else "absent"}]
        ops: Sequence[ConditionOp] = ("==", "!=", "<", "in")
        op = random.choice(ops)
        return [{"path": path, "op": op, "value": random.choice(([], [0, 0, 0], 1, "ann"))}]


def some(random: Random, **fields: Sequence[Any]) -> dict[str, Any]:
    """Choose a value of each field; a field whose values begin with `...` may be left out."""
    chosen: dict[str, Any] = {}
    for name, values in fields.items():
        is_optional = values[0] is ...
        if not is_optional or random.random() < 0.5:
            chosen[name] = random.choice(values[1:] if is_optional else values)
    return chosen
