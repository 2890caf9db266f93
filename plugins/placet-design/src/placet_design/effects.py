"""The effects of a design, and the pure functions that run them.

A `StateManager` runs them at once. In an orchestrator they run on executors, which are registered
when the world is opened (`Design.executors`).
"""

from collections.abc import Callable, Mapping
from typing import Final

from placet.kernel.plugin.domain import Domain, EffectHandler
from placet.schemas.codec import Json, thaw
from placet.schemas.effect import Effect, Settlement
from placet_design.exports import write_out
from placet_design.payloads import EXPORT_EFFECT, RUN_EFFECT
from placet_design.phase_results import run_phases

EXECUTORS: Final[Mapping[str, Callable[[Mapping[str, Json]], dict[str, Json]]]] = {
    RUN_EFFECT: run_phases,
    EXPORT_EFFECT: write_out,
}
"""Kind of effect -> what runs it, from the effect's payload to its output."""


def executors_of(_: Domain) -> Mapping[str, EffectHandler]:
    """Return the executor of each kind of effect of the design domain.

    Each has one attempt, because a pure function would fail again.
    """
    return {
        kind: EffectHandler(handler=_handle, delivery="pure", attempts_max=1) for kind in EXECUTORS
    }


def _handle(effect: Effect) -> Json:
    return EXECUTORS[effect.kind](thaw(effect.payload))


def run_effect(effect: Effect) -> Settlement:
    """Run an effect and return its settlement, which is failed if the executor raised."""
    try:
        output = EXECUTORS[effect.kind](thaw(effect.payload))
    except Exception as error:  # noqa: BLE001  # the executor boundary: a failure is an outcome
        return Settlement(effect.key, succeeded=False, output=f"{type(error).__name__}: {error}")
    return Settlement(effect.key, succeeded=True, output=output)
