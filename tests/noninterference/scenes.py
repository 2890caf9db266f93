"""The scenes of placet's own domains, and of the applications that are installed."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from random import Random
from typing import Any

from placet.domains.memory import Memory
from placet.domains.session import RECORDER, Sessions
from placet.domains.world import World
from placet.kernel import Draft
from placet.plugins.domains import domain_names
from placet.schemas.intent import Intent
from tests.noninterference.drawn import Payload, Scene, some
from tests.noninterference.own_domains import ROOMS, Bids, Rooms

PLACES = [[0, 0], [1, 0], [2, 0], [0, 4], [4, 4]]
TARGETS = ["lamp", "well", "coin", "ann", "bob", "cyd", "nothing"]


def _interact(random: Random) -> dict[str, Any]:
    what = ("examine", "pickup", "pickup", "drop", "use", "give", "dance")
    payload = some(random, target_id=TARGETS, interaction_type=what)
    if payload["interaction_type"] == "give":
        payload["data"] = some(random, object_id=["lamp", "coin", "nothing"])
    return payload


def _speak(random: Random) -> dict[str, Any]:
    payload = some(random, text=["hi", "psst"], channel=["public", "team", "private"])
    if payload["channel"] == "private":
        payload["target_id"] = random.choice(TARGETS)
    return payload


WORLD_PAYLOADS: Mapping[str, Payload] = {
    "Move": partial(some, to=PLACES),
    "Interact": _interact,
    "Speak": _speak,
    "Custom": partial(some, action=["wave"]),
}
OBJECTS: dict[str, dict[str, Any]] = {
    "lamp": {"position": [1, 0]},
    "coin": {"position": [4, 4]},
    "well": {"position": [0, 4], "portable": False},
}


def dance(_draft: Draft, _intent: Intent) -> None:
    """Apply an interaction that depends on its target: a later change makes it stale."""


def world(**settings: Any) -> Scene:
    """Return the scene of a world with these settings."""
    own = {"dance": dance}
    return Scene(
        partial(World, objects=OBJECTS, teams=["red", "blue"], interactions=own, **settings),
        WORLD_PAYLOADS,
        partial(some, position=[..., *PLACES], team=[..., "red", "blue"]),
        paths=[
            *(f"world.agents/{name}" for name in ("bob", "cyd")),
            *("world.agents/bob/position", "world.agents/cyd/inventory/0", "world.agents/bob/team"),
            *("world.objects/coin", "world.objects/lamp/holder", "world.objects/well/uses"),
        ],
    )


SESSIONS = ["s", "t"]


SESSION_PAYLOADS: Mapping[str, Payload] = {
    "session.turn": partial(
        some, session=SESSIONS, turn=[1, 2, 3], agent=["ann", "bob"], mode=["assisted"],
        route=["agent"], message=["m", "n"],
    ),
    "session.ask": partial(
        some, session=SESSIONS, turn=[1, 2], attempt=[1], adapter=["x"], digest=["d"]
    ),
    "session.end": partial(
        some, session=SESSIONS, turn=[1, 2], outcome=["done"], stop=["done"], text=["t"],
        results=[[]], approval_id=[..., "h"], ended=[..., ["h"]],
    ),
    "session.grant": partial(
        some, grant=["g", "h"], proposer=["ann", "bob"], kinds=["x"], equals=[{}], uses=[1, 2],
        seconds=[5.0], by=["eve"],
    ),
    "session.use": partial(some, grant=["g", "h"], proposer=["ann", "bob"], uses=[1]),
    "session.guard": partial(some, seq=[1, 5]),
}  # fmt: skip

KEYS = ["a", "b", "c"]
SCOPES = [..., "project", "principal", "principal"]

_OWN: Mapping[str, Scene] = {
    "world, all visible": world(),
    "world, near": world(observation={"distance": 3}, interaction_range=2.0)._replace(
        is_opened=True
    ),
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
    )._replace(is_opened=True),
    "memory": Scene(
        partial(Memory, facts_max=2),
        {
            "memory.remember": partial(some, key=KEYS, value=[1, 2], scope=SCOPES),
            "memory.forget": partial(some, key=KEYS, scope=SCOPES),
        },
        is_opened=True,
    ),
    "session": Scene(
        partial(Sessions, turns_kept=2, grants_kept=1),
        SESSION_PAYLOADS,
        agents=("ann", RECORDER, "bob"),
    ),
    "rooms": Scene(
        Rooms,
        {
            "Go": partial(some, room=[*ROOMS, "moon"]),
            "SetDown": partial(some, box=["a", "b"]),
            "Open": partial(some, box=[f"{room}.{box}" for room in ROOMS for box in "ab"]),
        },
        partial(some, room=[..., *ROOMS]),
        is_opened=True,
    ),
    "bids": Scene(
        Bids,
        {
            "Bid": partial(some, lot=["vase", "clock", "hat"], amount=[1, 2, 3]),
            "Close": partial(some, lot=["vase", "clock"]),
        },
        is_opened=True,
    ),
}  # fmt: skip


def _of_applications() -> dict[str, Scene]:
    """Return the scenes that installed applications bring, as `SCENES` of `tests.<name>.scenes`."""
    found: dict[str, Scene] = {}
    for name in domain_names():
        try:
            module = import_module(f"tests.{name}.scenes")
        except ModuleNotFoundError:
            continue
        found |= module.SCENES
    return found


SCENES: Mapping[str, Scene] = {**_OWN, **_of_applications()}
