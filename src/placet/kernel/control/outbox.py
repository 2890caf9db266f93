"""Executors and effects: registered, started, in doubt, settled. Each change is a record.

A settlement is an intent of `system`, and passes separate stages here: its effect must be open
(dedup), its output becomes plain JSON (structure), and the domains update the state from it
(domain).
"""

from typing import Final

import msgspec

from placet.kernel.context import GateContext
from placet.kernel.control.control import Control
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.state.transaction import NO_CHANGES
from placet.schemas.codec import Json, freeze, thaw
from placet.schemas.effect import Effect, EffectKey, EffectMark, Settlement, unrecordable
from placet.schemas.errors import INTERRUPTS, ValidationError, describe_error
from placet.schemas.identity import SYSTEM
from placet.schemas.json_value import InvalidJsonValue, TooLarge, to_json_value
from placet.schemas.limits import Limits
from placet.schemas.log.record import (
    Changes,
    EffectChanged,
    ExecutorChanged,
    Settled,
    SettledWithColumns,
    SettlementFailed,
)
from placet.schemas.names import name_fault

_WHY_CHARS_MAX: Final = 1_000
_BEFORE: Final[dict[EffectMark, EffectMark | None]] = {"started": None, "in_doubt": "started"}
"""Mark -> the mark that must precede it. So no effect is started twice, and only a started effect
can be in doubt.
"""


class Outbox:
    """The writer of the records about executors and effects. One per kernel.

    Attributes:
        latest: Record of the latest settlement; None before the first one.
    """

    __slots__ = ("_context", "_control", "latest")

    def __init__(self, context: GateContext, control: Control) -> None:
        self._context = context
        self._control = control
        self.latest: Settled | None = None

    def change_executor(self, kind: str, depth_max: int | None) -> None:
        """Register the executor of an effect kind with the bound of its outbox; None removes it.

        Raises:
            ValueError: The kind is not a name, or the bound is not a positive int.
        """
        fault = name_fault(kind)
        if fault:
            raise ValueError(f"an effect kind {fault}")
        if depth_max is not None and (type(depth_max) is not int or depth_max < 1):
            raise ValueError(f"depth_max must be an int >= 1 or None, got {depth_max!r}")
        if self._context.ledger.executors.get(kind) != depth_max:
            self._control.write(ExecutorChanged(*self._control.next_head(), kind, depth_max))

    def mark(self, key: EffectKey, mark: EffectMark, why: str) -> bool:
        """Mark an at-most-once effect by a log record.

        Args:
            key: Key of the effect.
            mark: `started` before its attempt, or `in_doubt` if its outcome is unknown.
            why: Reason of the doubt.

        Returns:
            False if the effect is settled or unknown, or cannot get this mark after its present
            one; it must not run then.
        """
        ledger, place = self._context.ledger, (key.seq, key.effect_index)
        if place not in ledger.outbox or ledger.mark_of(*place) != _BEFORE[mark]:
            return False
        reason = why[:_WHY_CHARS_MAX].encode("utf-8", "replace").decode()
        self._control.write(EffectChanged(*self._control.next_head(), *place, mark, reason))
        return True

    def settle(
        self, settlement: Settlement, *, again: bool = False, author: str | None = None
    ) -> bool:
        """Record the outcome of an effect, once; return False if it is settled or unknown.

        If a domain's `on_settle` raises, the outcome is recorded without a change of the state, and
        the effect is a dead letter: it keeps its place in the outbox, and is not run again.

        Args:
            settlement: The outcome.
            again: Settle a dead letter too.
            author: Author of the changes, as an earlier record names it; None is the agent of the
                effect, which its own settlement then does not make stale.

        Raises:
            ValidationError: `on_settle` raised again for a dead letter; nothing was changed.
        """
        ledger, key = self._context.ledger, settlement.key
        place = (key.seq, key.effect_index)
        pending = ledger.outbox.get(place)
        is_dead = ledger.mark_of(*place) == "dead"
        if pending is None or (is_dead and not again):
            return False
        draft = self._context.transaction
        sound, lost = _recordable(settlement, ledger.policy.limits)
        if lost is not None:
            self._control.report_fault(f"output of executor {pending.kind}", lost)
        output = freeze(sound.output)
        if author is None:
            author = pending.agent_id if pending.agent_id in ledger.agents else SYSTEM
        effect = Effect(key, pending.kind, pending.payload, pending.agent_id)

        def settled(changes: Changes, error: str | None = None) -> Settled:
            fields = (*self._control.next_head(), *place, sound.succeeded, output, changes)
            if error is not None:
                return SettlementFailed(*fields, error)
            written = draft.written_columns()
            return SettledWithColumns(*fields, written) if written else Settled(*fields)

        hooks = [  # a copy for each: the record holds the received output
            self._control.hook_of(
                domain, "on_settle", draft, effect, Settlement(key, sound.succeeded, thaw(output))
            )
            for domain in self._context.registry.with_on_settle
        ]
        try:
            record, data = self._control.act("on_settle", hooks, settled, author=author)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # the rule boundary
            fault = error if isinstance(error, PluginError) else PluginError("on_settle", error)
            why = describe_error(fault.error)
            if is_dead:
                raise ValidationError(f"{fault.where} raised {why}") from fault.error
            self._control.report_fault(fault.where, fault.error)
            record, data = settled(NO_CHANGES, why), None
        self.latest = self._control.write(record, data)
        return True


def plain_output(output: object, limits: Limits) -> Json:
    """Return a copy of an executor's output as plain JSON, checked like a payload.

    Raises:
        InvalidJsonValue: It is not plain JSON, or is too large.
    """
    try:
        return to_json_value(output, limits.payload_depth_max, limits.payload_bytes_max)
    except TooLarge:
        why = f"output is larger than {limits.payload_bytes_max} bytes; return a reference to it"
        raise InvalidJsonValue(why) from None
    except Exception as error:
        reason = str(error) if isinstance(error, InvalidJsonValue) else type(error).__name__
        raise InvalidJsonValue(f"output is not JSON: {reason}") from error


def _recordable(settlement: Settlement, limits: Limits) -> tuple[Settlement, Exception | None]:
    """Return an outcome whose output a record can hold, and the fault of an output that was lost.

    The output never changes the outcome: a handler that returned did its work, and an outcome
    recorded as failed would be repaired by doing the work again. Values such as a datetime, a UUID,
    a Decimal, a set or a dataclass are recorded in their usual JSON form.
    """
    output, lost = settlement.output, None
    try:
        output = plain_output(output, limits)
    except InvalidJsonValue as error:
        try:
            output = plain_output(_converted(output), limits)
        except InvalidJsonValue:
            lost = error
            output = unrecordable(output, str(error)) if settlement.succeeded else str(error)
    return Settlement(settlement.key, bool(settlement.succeeded), output), lost


def _converted(output: object) -> object:
    """Return the usual JSON form of a value.

    Raises:
        InvalidJsonValue: A part of the value has none, or raises.
    """
    try:
        converted: object = msgspec.to_builtins(output, str_keys=True)
    except Exception as error:  # the executor boundary: a hostile object
        raise InvalidJsonValue(describe_error(error)) from error
    return converted
