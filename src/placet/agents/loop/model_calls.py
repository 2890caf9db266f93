"""Asking a proposer, durably: the call is an effect, and its answer is in the log.

A call with an answer in the log is never repeated: not by a replay, not after a crash. A call whose
process died before the answer came is not repeated either; its turn ends, and the user asks again.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import anyio

from placet.agents.ports import WorldPort
from placet.agents.proposal.adapter import (
    Adapter,
    PlannerInput,
    PlannerOutput,
    PlannerOverBudget,
    PlannerTimedOut,
    PlannerUnavailable,
    Usage,
)
from placet.agents.proposal.codes import Code
from placet.agents.proposal.plan_parser import Call
from placet.domains.session import PROPOSE
from placet.schemas.codec import Json, to_json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.intent import Intent
from placet.schemas.json_value import TooLarge, to_json_value
from placet.schemas.refusal import STAGE_OF, RefusalCode, Stage

_Key: TypeAlias = tuple[str, int, int]

_TEXT_CHARS_MAX: Final = 32_000
_NAME_CHARS_MAX: Final = 200
_DEPTH_MAX: Final = 48
_ANSWER_BYTES_MAX: Final = 60 * 1024
"""The log keeps no larger outcome of an effect than 64 KiB."""
_COUNT_MAX: Final = 2**53
_CALLS_MAX: Final = 1_024
_SECONDS_MAX: Final = 7 * 86_400.0
"""A turn has bounds of its own; these are for a world's worth of turns."""
_SETTLE_SECONDS: Final = 5.0
"""Besides the proposer's own time: for the answer to become durable."""


class ModelCalls:
    """The calls of proposers (models, scripts, people) in one world, recorded as effects.

    Attributes:
        turns: The unfinished turns of this process, as `(session, turn)`.
    """

    def __init__(self) -> None:
        self._waiting: dict[_Key, tuple[Adapter, PlannerInput, anyio.CancelScope]] = {}
        self.turns: set[tuple[str, int]] = set()
        self._registering = anyio.Lock()
        self._is_registered = False

    @classmethod
    async def of(cls, world: WorldPort, mark: Callable[[Any], object]) -> "ModelCalls":
        """Return the one `ModelCalls` of a world; the first call registers its executor.

        Args:
            world: The world.
            mark: Marks a handler that a fork may run too.
        """
        calls = _OF_WORLDS.setdefault(world, cls())
        await calls.make_possible(world, mark)
        return calls

    async def make_possible(self, world: WorldPort, mark: Callable[[Any], object]) -> None:
        """Register the executor of model calls, if it is not registered yet.

        If the first caller was canceled, the next one does it.

        Args:
            world: The world.
            mark: Marks a handler that a fork may run too.

        Raises:
            ValueError: Another object executes this world's model calls.
        """
        async with self._registering:
            if not self._is_registered:
                await world.register_executor(
                    PROPOSE,
                    mark(self._run),
                    delivery="at_most_once",
                    concurrency=_CALLS_MAX,
                    seconds_max=_SECONDS_MAX,
                    on_in_doubt=_given_up,
                )
                self._is_registered = True

    async def ask(
        self,
        world: WorldPort,
        ask: Intent,
        adapter: Adapter,
        context: PlannerInput,
        with_intents: Sequence[Intent] = (),
    ) -> PlannerOutput:
        """Call an adapter, and return its answer once the answer is durable in the log.

        Canceling this call cancels the adapter too.

        Args:
            world: The world whose log records the call.
            ask: The intent `session.ask` of this call.
            adapter: The adapter to call.
            context: The planner input.
            with_intents: Further intents of the recorder; without them the call is not made.

        Raises:
            PlannerUnavailable: The adapter could not answer, or not in time.
            BudgetExceeded: The world's quota of calls, or an account, is used up.
        """
        payload = ask["payload"]
        key = (payload["session"], payload["turn"], payload["attempt"])
        asking = anyio.CancelScope()
        self._waiting[key] = (adapter, context, asking)
        try:
            verdict = await world.submit([*with_intents, ask])
            if not verdict.admitted:
                refusal = verdict.refusals[0]
                is_spent = STAGE_OF.get(refusal.code) is Stage.QUOTA
                is_spent = is_spent or refusal.code == RefusalCode.BUDGET_EXCEEDED
                raise (BudgetExceeded if is_spent else PlannerUnavailable)(refusal.message)
            outcomes = await world.gateway.outcomes(
                verdict, seconds_max=context.seconds_left + _SETTLE_SECONDS
            )
        finally:
            self._waiting.pop(key, None)
            asking.cancel()
        if not outcomes or outcomes[0].succeeded is None:
            raise PlannerTimedOut("it did not answer in time")
        return raw_of(outcomes[0].output, outcomes[0].succeeded)

    async def _run(self, effect: Effect) -> Json:
        payload = effect.payload
        waiting = self._waiting.get((payload["session"], payload["turn"], payload["attempt"]))
        if waiting is None:
            return {"unavailable": "the process that asked is gone"}
        adapter, context, asking = waiting
        try:
            with asking, anyio.move_on_after(context.seconds_left) as turn:
                return json_of(await adapter.propose(context))
        except PlannerUnavailable as error:
            timed_out = isinstance(error, PlannerTimedOut)
            failure: dict[str, Json] = {"unavailable": str(error), "timed_out": timed_out}
            if isinstance(error, PlannerOverBudget):
                failure["over_budget"] = error.code
            return {**failure, **_usage_json(error.usage)} if error.usage.requests else failure
        except Exception as error:  # noqa: BLE001  # a provider's own; its text may hold keys
            return {"unavailable": type(error).__name__}
        if turn.cancelled_caught:
            return {"unavailable": "it did not answer in time", "timed_out": True}
        return {"unavailable": "the turn was stopped"}


class BudgetExceeded(Exception):  # noqa: N818  # the name states the fault
    """The error of a model call for which the world's quota or an account has too little."""


async def _given_up(effect: Effect) -> Settlement:
    """Settle a call whose process died before the answer came: it is not paid for twice."""
    return Settlement(effect.key, False, "the process that asked is gone")


_OF_WORLDS: Final[WeakKeyDictionary[WorldPort, ModelCalls]] = WeakKeyDictionary()


def json_of(raw: PlannerOutput) -> Json:
    """Return an adapter's answer as plain JSON for the log; unsupported values are described.

    Raises:
        ValueError: The cost is not a valid amount.
    """
    whole = {
        "calls": [list(call) for call in raw.calls],
        "plan": _well_formed(raw.plan),
        "text": _well_formed(raw.text[:_TEXT_CHARS_MAX]),
        **_usage_json(raw.usage),
        "model": raw.model,
        "response": raw.response,
        "refused": raw.refused,
    }
    if raw.unread is not None:
        whole["unread"] = list(raw.unread)
    unread = _unread(whole)
    if unread is not None and whole["response"] is not None:
        whole["response"] = None  # the proposer's own account goes first
        unread = _unread(whole)
    if unread is None:
        return whole
    unsaid = {"calls": [], "plan": None, "text": "", "response": None, "unread": unread}
    return {**whole, **unsaid, "model": str(raw.model)[:_NAME_CHARS_MAX]}


def _unread(answer: Json) -> list[str] | None:
    """Return why the log cannot keep an answer; None if it can."""
    try:
        to_json_value(answer, _DEPTH_MAX, _ANSWER_BYTES_MAX)
        size = len(to_json(answer))
    except TooLarge:
        size = _ANSWER_BYTES_MAX + 1
    except (ValueError, TypeError) as error:
        return [Code.JSON_INVALID, f"an answer is made of plain JSON values: {error}"[:500]]
    if size <= _ANSWER_BYTES_MAX:
        return None
    message = f"the answer is larger than {_ANSWER_BYTES_MAX} bytes; propose less"
    return [Code.PLAN_TOO_LARGE, message]


def _well_formed(text: Json) -> Json:
    """Remove invalid Unicode from a text: a lone surrogate is replaced."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


def raw_of(output: Json, succeeded: bool = True) -> PlannerOutput:
    """Convert an answer in the log back to an adapter's answer.

    Raises:
        PlannerUnavailable: The log has no answer, because the call failed.
    """
    if not succeeded:
        raise PlannerUnavailable(str(output))
    if "unavailable" in output:
        failure = _failure_of(output)
        if "usage" in output:
            failure.usage = _usage_of(output)
        raise failure
    unread = output.get("unread")
    return PlannerOutput(
        calls=tuple(Call(*call) for call in output["calls"]),
        plan=output["plan"],
        text=output["text"],
        usage=_usage_of(output),
        model=output["model"],
        response=output["response"],
        refused=output["refused"],
        unread=None if unread is None else (unread[0], unread[1]),
    )


def _failure_of(output: Mapping[str, Json]) -> PlannerUnavailable:
    text = output["unavailable"]
    if "over_budget" in output:
        return PlannerOverBudget(text, Code(output["over_budget"]))
    return PlannerTimedOut(text) if output.get("timed_out") else PlannerUnavailable(text)


def _usage_json(usage: Usage) -> dict[str, Json]:
    """Return the cost of an answer as fields of its record; no empty field is kept.

    Raises:
        ValueError: It is no cost; budgets would be counted by it.
    """
    counts = [usage.requests, usage.input_tokens, usage.output_tokens]
    cost = None if usage.cost_usd is None else Decimal(str(usage.cost_usd))
    is_paid = cost is None or (cost.is_finite() and cost >= 0)
    if not is_paid or any(
        type(count) is not int or not 0 <= count < _COUNT_MAX for count in counts
    ):
        raise ValueError(f"usage must be counts and money, got {usage!r}")
    record: dict[str, Json] = {"usage": [*counts, None if cost is None else str(cost)]}
    if usage.price:
        record["price"] = str(usage.price)[:_NAME_CHARS_MAX]
    if usage.is_estimated:
        record["is_estimated"] = True
    return record


def _usage_of(record: Mapping[str, Json]) -> Usage:
    requests, tokens_in, tokens_out, cost = record["usage"]
    return Usage(
        requests,
        tokens_in,
        tokens_out,
        None if cost is None else Decimal(cost),
        record.get("price", ""),
        record.get("is_estimated", False),
    )


def digest_of(context: PlannerInput) -> str:
    """Return a digest of a planner input: all of it that an answer may depend on, besides time."""
    media = [f"{item.sha256} {item.mime}" for item in context.media]
    parts = [context.text, context.message, str(context.base_seq), str(context.repairs), *media]
    if len(context.catalogue) > context.tools_max:  # the text names the kinds, without payloads
        parts.append(to_json(context.catalogue.schemas()).decode())
    return _digest("\x00".join(parts))


def request_digest(adapter: Adapter | None, context: PlannerInput) -> str:
    """Return the digest of a whole request, under which its answer is recorded.

    An adapter with a method `request_digest(context)` computes it from the request that it would
    send. For any other adapter its class and the planner input are hashed.
    """
    own = getattr(adapter, "request_digest", None)
    if own is not None:
        try:
            return str(own(context))
        except Exception:  # noqa: BLE001  # a provider's own; `propose` fails in the same way
            return ""
    return _digest(f"{type(adapter).__name__}\x00{digest_of(context)}")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
