"""Fifty thousand broken proposals: the parser returns a plan or issues for each."""

import json
from random import Random
from typing import Any

import pytest

from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.plan_parser import ISSUES_MAX, Call, parse, parse_calls
from placet.domains.world import World

WORLD = Catalogue(World())
SEEDS = [
    json.dumps(
        {
            "version": "placet.plan/1",
            "goal": "go to the mill",
            "base_seq": 7,
            "actions": [
                {"id": "a", "kind": "Move", "payload": {"to": [1.5, 2]}, "why": "far"},
                {"kind": "Speak", "payload": {"text": "hi", "channel": "private", "target_id": 1}},
            ],
            "notes": "",
        }
    ),
    json.dumps(
        {
            "version": "placet.plan/1",
            "goal": "g",
            "base_seq": 0,
            "stop": {"code": "unsafe_goal", "message": "no", "choices": ["a", "b"]},
        }
    ),
]
SCRAPS = [
    "null", "true", "-1", "1e999", "9" * 40, "NaN", '"', "{", "}", "[", "]", ",", ":", "\\u0000",
    "\\ud800", "\ud800", "😀", "confirmed", '"role": "admin",', "[" * 200, "Move", "Moove", "\x00",
]  # fmt: skip


def broken(chance: Random) -> str:
    """Mutate a valid plan: truncate, duplicate, swap and insert parts."""
    text = chance.choice(SEEDS)
    for _ in range(chance.randrange(1, 5)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.randrange(12))
        piece = chance.choice(["", text[start:end] * 2, chance.choice(SCRAPS), text[end:start]])
        text = text[:start] + piece + text[end:]
    return text


def shaken(value: Any, chance: Random) -> Any:
    """Replace a part of a valid value by an invalid one."""
    if chance.random() < 0.15:
        return chance.choice([None, True, -1, 1e300, "x" * 600, [], {}, [[]], {"a": {}}, 2**70])
    if isinstance(value, dict):
        return {
            chance.choice([name, name, name, name, "role"]): shaken(one, chance)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [shaken(one, chance) for one in value] * chance.choice([1, 1, 1, 2])
    return value


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_broken_proposal_makes_the_parser_raise(seed: int) -> None:
    chance = Random(seed)
    sound = [json.loads(text) for text in SEEDS]
    read = 0
    for number in range(12_500):
        if number % 3 == 0:
            plan, issues = parse(broken(chance), domain=WORLD)
        elif number % 3 == 1:
            plan, issues = parse(shaken(chance.choice(sound), chance), domain=WORLD)
        else:
            names = ["Move", "Speak", "stop", "ask_clarification", "Fly"]
            calls = [Call(chance.choice(names), broken(chance)) for _ in range(chance.randrange(3))]
            plan, issues = parse_calls(calls, goal="g", base_seq=0, domain=WORLD)
        assert (plan is None) == bool(issues)
        assert len(issues) <= ISSUES_MAX
        read += plan is not None
    assert read > 100, "some of it is sound, so that all of the parser is tried"
