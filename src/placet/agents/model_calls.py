"""Asking a proposer, durably: the call is an effect, and its answer is in the log.

What the log has an answer to is never asked again: not by a replay, not after a crash. A call whose
process died before the answer came is not repeated either; its turn ends, and the user asks anew.
"""

import hashlib
from decimal import Decimal
from typing import Final
from weakref import WeakKeyDictionary

import anyio

from placet.agents.adapter import Adapter, Context, PlannerUnavailable, Raw, Usage
from placet.agents.contract import Call
from placet.agents.ports import World
from placet.domains.session import PROPOSE
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.intent import Intent

_TEXT_CHARS_MAX: Final = 300_000
_SETTLE_SECONDS: Final = 5.0
"""Besides the proposer's own time: for the answer to become durable."""


class ModelCalls:
    """The calls of one world that wait for an answer."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int, int], tuple[Adapter, Context]] = {}

    @classmethod
    async def of(cls, world: World) -> "ModelCalls":
        """Give the calls of a world; the first who asks makes them possible."""
        calls = _OF_WORLDS.get(world)
        if calls is None:
            calls = _OF_WORLDS[world] = cls()
            await world.register_executor(
                PROPOSE, calls._run, delivery="at_most_once", on_in_doubt=_given_up
            )
        return calls

    async def ask(
        self,
        world: World,
        ask: Intent,
        adapter: Adapter,
        context: Context,
    ) -> Raw:
        """Have a proposer asked, and give its answer once it is durable.

        Args:
            world: Where it is recorded.
            ask: The intent `session.ask`, made.
            adapter: Who is asked.
            context: What it is told.

        Raises:
            PlannerUnavailable: It could not be reached, or not in time.
        """
        payload = ask["payload"]
        key = (payload["session"], payload["turn"], payload["attempt"])
        self._waiting[key] = (adapter, context)
        try:
            verdict = await world.submit([ask])
            if not verdict.admitted:
                raise PlannerUnavailable(verdict.refusals[0].message)
            outcomes = await world.outcomes(
                verdict, seconds_max=context.seconds_left + _SETTLE_SECONDS
            )
        finally:
            self._waiting.pop(key, None)
        if not outcomes or outcomes[0].succeeded is None:
            raise PlannerUnavailable("it did not answer in time")
        output = outcomes[0].output
        if not outcomes[0].succeeded:
            raise PlannerUnavailable(str(output))
        if "unavailable" in output:
            raise PlannerUnavailable(output["unavailable"])
        return raw_of(output)

    async def _run(self, effect: Effect) -> Json:
        payload = effect.payload
        waiting = self._waiting.get((payload["session"], payload["turn"], payload["attempt"]))
        if waiting is None:
            return {"unavailable": "the process that asked is gone"}
        adapter, context = waiting
        try:
            with anyio.fail_after(context.seconds_left):
                return json_of(await adapter.propose(context))
        except PlannerUnavailable as error:
            return {"unavailable": str(error)}
        except TimeoutError:
            return {"unavailable": "TimeoutError"}
        except Exception as error:  # noqa: BLE001  # a provider's own; its text may hold keys
            return {"unavailable": type(error).__name__}


async def _given_up(effect: Effect) -> Settlement:
    """Settle a call whose process died before the answer came: it is not paid for twice."""
    return Settlement(effect.key, False, "the process that asked is gone")


_OF_WORLDS: Final[WeakKeyDictionary[World, ModelCalls]] = WeakKeyDictionary()


def json_of(raw: Raw) -> Json:
    """Write an answer as the log keeps it."""
    usage = raw.usage
    cost = None if usage.cost_usd is None else str(usage.cost_usd)
    return {
        "calls": [list(call) for call in raw.calls],
        "plan": raw.plan,
        "text": raw.text[:_TEXT_CHARS_MAX],
        "usage": [usage.requests, usage.input_tokens, usage.output_tokens, cost],
        "model": raw.model,
        "response": raw.response,
        "refused": raw.refused,
    }


def raw_of(output: Json) -> Raw:
    """Read an answer as the log keeps it."""
    requests, tokens_in, tokens_out, cost = output["usage"]
    return Raw(
        calls=tuple(Call(*call) for call in output["calls"]),
        plan=output["plan"],
        text=output["text"],
        usage=Usage(requests, tokens_in, tokens_out, None if cost is None else Decimal(cost)),
        model=output["model"],
        response=output["response"],
        refused=output["refused"],
    )


def digest_of(context: Context) -> str:
    """Name a context by its content, for the record of the call."""
    told = "\x00".join([context.text, context.message, str(context.base_seq), str(context.repairs)])
    return hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=16).hexdigest()
