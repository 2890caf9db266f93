"""Writes the marks of earlier calls from the records of a log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Record, Settled
from placet_tools.domain import ToolsDomain, undo_key
from placet_tools.policy.marks import (
    MarkedCall,
    MarkStore,
    note_done,
    note_failed,
    note_started,
    note_undone,
)
from placet_tools.policy.rules import Marking

_UNDO_SUFFIX: Final = undo_key("")


@dataclass(frozen=True, slots=True)
class _StartedCall:
    """A call that has started.

    Attributes:
        tool: Name of its tool.
        call: The call.
    """

    tool: str
    call: MarkedCall


class CallHistory:
    """Reads the calls of tools from the records of a log, and writes their marks.

    Args:
        domain: The domain of the tools.
        markings: Tool -> the markings of its calls.
        marks: The store to which the marks are written.
    """

    def __init__(
        self,
        domain: ToolsDomain,
        markings: Mapping[str, tuple[Marking, ...]],
        marks: MarkStore,
    ) -> None:
        self._domain = domain
        self._markings = markings
        self._marks = marks
        self._running: dict[tuple[int, int], _StartedCall] = {}
        self._done: dict[str, _StartedCall] = {}  # calls that a tool can undo

    def note(self, record: Record) -> None:
        """Write the marks of one record; pass the records of a log in their order.

        Raises:
            InconsistentBlock: The record is a block that no world can have written.
        """
        if isinstance(record, Settled):
            self._note_settled(record)
            return
        for one in expanded(record):
            if isinstance(one, Admitted):
                self._note_admitted(one)

    def _note_admitted(self, record: Admitted) -> None:
        for index, (seq, kind, payload, agent) in enumerate(record.effects):
            tool = self._domain.tool_of(kind)
            if tool is None:
                continue
            call = MarkedCall(payload["key"], payload["args"], agent)
            note_started(self._markings.get(tool.name, ()), self._marks, call, record.now_ns)
            self._running[seq, index] = _StartedCall(tool.name, call)

    def _note_settled(self, record: Settled) -> None:
        started = self._running.pop((record.effect_seq, record.effect_index), None)
        if started is None:
            return
        tool, call = started.tool, started.call
        if not record.succeeded:
            note_failed(self._markings.get(tool, ()), self._marks, call)
            return
        note_done(self._markings.get(tool, ()), self._marks, call, record.output)
        undone = self._done.pop(call.key.removesuffix(_UNDO_SUFFIX), None)
        if undone is not None and self._domain.tools[undone.tool].undo == tool:
            note_undone(self._markings.get(undone.tool, ()), self._marks, undone.call)
        if self._domain.tools[tool].undo and self._markings.get(tool):
            self._done[call.key] = started
