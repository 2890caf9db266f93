"""The rules of the world domain: moving, speaking and custom actions.

Rules are made for the settings of one world, so a disabled check costs nothing. Each rule checks
first and writes last.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Final

from placet.domains.world.payloads import AGENTS, SPEECH, Position
from placet.domains.world.settings import ANYWHERE, Bounds, WorldSettings
from placet.kernel.plugin.domain import Rule, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.visibility.protocols import VisibilityPolicy
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import seconds_until

_SLACK: Final = 1 + 1e-9
"""A way computed in floats to be just as long as is allowed is not refused for its last bit."""


def move_rule(settings: WorldSettings) -> Rule:
    """Build the rule that applies an intent of kind `Move`."""
    checks: list[Rule] = []
    if settings.bounds is not None:
        checks.append(_within_bounds(settings, settings.bounds))
    if settings.max_step is not None:
        checks.append(_within_step(settings.max_step))
    return _checked_move(tuple(checks)) if checks else move


def move(draft: Draft, intent: Intent) -> None:
    """Apply `Move` in a world without limits: set the agent's position."""
    draft.put(AGENTS, intent["agent_id"], "position", intent["payload"]["to"])


def _checked_move(checks: tuple[Rule, ...]) -> Rule:
    def checked_move(draft: Draft, intent: Intent) -> RuleRefusal | None:
        for check in checks:
            refusal = check(draft, intent)
            if refusal is not None:
                return refusal
        draft.put(AGENTS, intent["agent_id"], "position", intent["payload"]["to"])
        return None

    return checked_move


def _within_bounds(settings: WorldSettings, bounds: Bounds) -> Rule:
    (x0, y0, z0), (x1, y1, z1) = bounds

    def within_bounds(_: Draft, intent: Intent) -> RuleRefusal | None:
        x, y, z = to = intent["payload"]["to"]
        if x0 <= x <= x1 and y0 <= y <= y1 and z0 <= z <= z1:
            return None
        return settings.outside(to, "/to")

    return within_bounds


def _within_step(max_step: float) -> Rule:
    def within_step(draft: Draft, intent: Intent) -> RuleRefusal | None:
        here: Position = draft.get(AGENTS, intent["agent_id"], "position")
        to: Position = intent["payload"]["to"]
        if is_within(here, to, max_step):
            return None
        length = distance(here, to)
        return refuse(
            "step_too_long",
            f"from {list(here)} to {list(to)} is {length:g}, at most {max_step:g} is allowed in "
            "one Move; take a nearer point on the way",
            at="/to",
            distance=length,
            max_step=max_step,
        )

    return within_step


def is_within(here: Position, there: Position, reach: float) -> bool:
    """Return whether the distance between two points is at most `reach`.

    Compares squares, because `math.dist` may differ in its last bit between Python versions.
    """
    dx, dy, dz = there[0] - here[0], there[1] - here[1], there[2] - here[2]
    limit = reach * _SLACK
    return dx * dx + dy * dy + dz * dz <= limit * limit


def distance(here: Position, there: Position) -> float:
    """Return the distance for a message; always finite, so that a refusal can contain it."""
    dx, dy, dz = there[0] - here[0], there[1] - here[1], there[2] - here[2]
    return min(sqrt(dx * dx + dy * dy + dz * dz), 1e308)


def speak_rule(settings: WorldSettings, sight: VisibilityPolicy | None = None) -> Rule:
    """Build the rule that applies an intent of kind `Speak`.

    Args:
        settings: Settings of the world.
        sight: Visibility policy of the agent, which also limits whom it may address; None for
            all agents.
    """
    is_anywhere = settings.private_reach == ANYWHERE

    def may_address(draft: Draft, agent_id: str, target_id: Json) -> bool:
        return draft.exists(AGENTS, target_id) and (
            sight is None or sight.may_see(draft.state, agent_id, Ref(AGENTS, target_id))
        )

    def speak(draft: Draft, intent: Intent) -> RuleRefusal | None:
        agent_id, payload = intent["agent_id"], intent["payload"]
        target_id = payload.get("target_id")
        is_free = target_id is None or (is_anywhere and payload["channel"] == "private")
        if not is_free and not may_address(draft, agent_id, target_id):
            return refuse(
                "target_unknown",
                f"there is no agent {target_id!r} to speak to; name one that is in the world",
                at="/target_id",
            )
        _say(draft, agent_id, payload)
        return None

    return speak


def _say(draft: Draft, agent_id: str, payload: Mapping[str, Json]) -> None:
    """Store the agent's last message."""
    fields = dict(payload)
    if payload["channel"] == "team":
        fields["team"] = draft.get(AGENTS, agent_id, "team")
        if fields["team"] is None:
            draft.warn(
                "team_missing",
                f"{agent_id!r} is in no team, so no agent would hear it; use the public channel",
                at="/channel",
            )
    if draft.exists(SPEECH, agent_id):
        draft.put(SPEECH, agent_id, "said", fields)
    else:
        draft.create(SPEECH, agent_id, {"said": fields})


def custom(_draft: Draft, _intent: Intent) -> None:
    """Apply `Custom`: change nothing; the effect validator defines its meaning."""


def with_cooldown(kind: str, wait_ns: int | None, rule: Rule) -> Rule:
    """Return a rule that refuses an agent's next intent of a kind for some simulated time.

    Args:
        kind: The kind.
        wait_ns: Minimum simulated nanoseconds between two admitted intents of one agent; None
            returns the rule itself.
        rule: The rule to wrap.
    """
    if wait_ns is None:
        return rule
    field = f"ready_ns.{kind}"

    def limited_rule(draft: Draft, intent: Intent) -> RuleRefusal | None:
        agent_id = intent["agent_id"]
        ready_ns, now_ns = draft.get(AGENTS, agent_id, field, 0), draft.now_ns
        if ready_ns > now_ns:
            return refuse(
                "cooldown",
                f"{agent_id!r} may {kind} once in {wait_ns / SECOND_NS:g} s; "
                f"wait {(ready_ns - now_ns) / SECOND_NS:g} s",
                retry_after=seconds_until(ready_ns, now_ns),
            )
        refusal = rule(draft, intent)
        if refusal is None:
            draft.put(AGENTS, agent_id, field, now_ns + wait_ns)
        return refusal

    return limited_rule
