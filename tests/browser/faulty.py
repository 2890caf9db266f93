"""A domain whose rule, executor and policy raise, with the text of somebody who forges a page."""

from collections.abc import Iterator
from typing import Any

from typing_extensions import TypedDict

from placet.kernel import Domain, Draft, Kind
from placet.kernel.plugin.domain import EffectHandler
from placet.schemas.effect import Effect
from placet.schemas.intent import Intent

FORGED = "<b id='forged'>\u202eok</b>"
POST = "faulty.post"


class Nothing(TypedDict):
    """Payload of every kind here."""


def post(_effect: Effect) -> None:
    """Raise, as an executor."""
    raise ConnectionError(f"no answer {FORGED}")


def executors(_domain: Domain) -> dict[str, EffectHandler]:
    """Return the executor that raises, which tries once."""
    return {POST: EffectHandler(handler=post, delivery="idempotent", attempts_max=1)}


class Faulty(Domain):
    """Agents count, spoil, which raises, and send, of which the effect fails."""

    name, version = "faulty", "1"
    executors = "tests.browser.faulty:executors"

    def __init__(self) -> None:
        self.kinds = (
            Kind("Count", Nothing, self._count),
            Kind("Spoil", Nothing, self._spoil),
            Kind("Send", Nothing, self._send, effects=(POST,)),
        )

    def on_register(self, draft: Draft, agent_id: str, attributes: Any) -> None:
        draft.create("faulty.counts", agent_id, {"count": 0})

    @staticmethod
    def _count(draft: Draft, intent: Intent) -> None:
        agent = intent["agent_id"]
        draft.put("faulty.counts", agent, "count", draft.get("faulty.counts", agent, "count") + 1)

    @staticmethod
    def _spoil(draft: Draft, intent: Intent) -> None:
        raise RuntimeError(f"the cask of {intent['agent_id']} {FORGED}")

    @staticmethod
    def _send(draft: Draft, intent: Intent) -> None:
        draft.emit(POST, {})


def tire(view: Any, intent: Any) -> Iterator[Any]:
    """Count four times, and raise."""
    if view.state["faulty.counts"][view.agent_id]["count"] >= 4:
        raise ValueError(f"{view.agent_id} is tired {FORGED}")
    yield intent("Count")
