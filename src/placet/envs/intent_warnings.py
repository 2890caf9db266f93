"""Warnings of intents of an adapter that the gate refuses in every state.

A misspelled field of a payload is refused at each step, and in the infos it looks like any action
that a learner should not take. So the first such intent of each kind is a warning.
"""

import warnings
from collections.abc import Mapping, Sequence

from placet.kernel.plugin.registry import Registry
from placet.runtime.api.signatures import signature_of
from placet.schemas.codec import Json
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict


class IntentWarning(UserWarning):
    """The warning of an intent of an adapter that the gate refuses in every state.

        warnings.simplefilter("ignore", IntentWarning)  # or "error", to stop at the first

    It is given for the first intent of each kind. Later ones are in the infos alone.
    """


class IntentWarnings:
    """Warns of the intents of one environment.

    Args:
        method: Name of the method that returns the intents: `Walk.to_intent()`.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self._kinds: set[str] = set()

    def check(
        self,
        registry: Registry,
        batches: Mapping[str, Sequence[Mapping[str, Json]]],
        verdicts: Mapping[str, Verdict],
    ) -> None:
        """Warn of the batches of a step, by agent; called by the `step` of the environment."""
        for agent, verdict in verdicts.items():
            wrong = [one for one in verdict.refusals if one.stage == Stage.STRUCTURE]
            if not wrong:
                continue
            index = wrong[0].index
            kind = str(batches[agent][index or 0]["kind"])
            of_intent = [one for one in wrong if one.index == index]
            self.warn(registry, kind, of_intent, depth=4)

    def warn(
        self, registry: Registry, kind: str, refusals: Sequence[Refusal], *, depth: int
    ) -> None:
        """Warn of an intent, if it is the first of its kind.

        Args:
            registry: The kinds of the world.
            kind: Kind of the intent.
            refusals: Its refusals.
            depth: Calls from here to the caller of `step`, whose line the warning names.
        """
        if kind in self._kinds:
            return
        self._kinds.add(kind)
        why = "; ".join(_explained(registry, kind, one) for one in refusals)
        warnings.warn(
            f"{self._method} returned an intent that the gate refuses in every state: {why}. Later "
            f"ones of {kind} are in infos alone. No warning: warnings.simplefilter('ignore', "
            "placet.envs.IntentWarning)",
            IntentWarning,
            stacklevel=depth,
        )


def _explained(registry: Registry, kind: str, refusal: Refusal) -> str:
    """Return the message of a refusal, with the nearest field where one of a payload is unknown."""
    *place, name = refusal.at.split("/")
    known = signature_of(registry, kind).names
    is_field = refusal.code == RefusalCode.PAYLOAD_INVALID and place[3:] == ["payload"]
    if not is_field or name in known or not known:
        return refusal.message
    return f"{refusal.message}; {did_you_mean(name, known)}"
