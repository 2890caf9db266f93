"""A conversation with the gate: a line in, a line out, one after the other.

Each line is decided by itself and in its turn, so that a file means the same however it is cut
into reads. Lines share a durable write: nothing that `answer` gave may be shown before `commit`.
There is no event loop here, and one thread: the kernel is asked directly, and a pipe that is full
is all the back-pressure there needs to be.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from placet.actors.ports import EventLog
from placet.history.reader import config_from
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.runtime.clock import RealtimeClock
from placet.runtime.verdict_json import verdict_line
from placet.schemas.codec import Json, from_json, to_json
from placet.schemas.config import KernelConfig
from placet.schemas.errors import PlacetError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import LogAppend
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.stores.snapshots.recovery import recover

if TYPE_CHECKING:
    from placet.runtime.telemetry.world_logger import WorldLogger

REGISTER: Final = "register"
_NOT_PLACING: Final = frozenset({"agent_id", "self"})


class GateSession:
    """The state of one run of `placet gate`: kernel, log, and verdicts not yet durable.

    Args:
        domain: The domain whose kinds may be proposed, or several.
        log: The log, opened here and closed by its creator; None keeps nothing.
        config: The configuration; None uses that of the log, or the default.
        take_over: Open the log even if another process writes it.
        monotonic_ns: Monotonic clock, nanoseconds.

    Raises:
        StoreError: The log cannot be opened, or is of other domains.
    """

    def __init__(
        self,
        domain: Domain | Sequence[Domain],
        log: EventLog | None = None,
        *,
        config: KernelConfig | None = None,
        take_over: bool = False,
        monotonic_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._log = log
        self._records: list[bytes] = []
        self._epoch = 0
        self._lines = 0
        if log is None:
            self._kernel = Kernel(domain, config)
        else:
            self._epoch = log.open(take_over=take_over)
            recovery = recover(log)
            self._kernel = Kernel(
                domain,
                config or config_from(recovery.past),
                sink=self._records.append,
                history=recovery.past,
                durability=log.durability,
            )
            for sentence in recovery.skipped:
                self._reports.warning(sentence)
        self._written = self._kernel.history_end
        self._kernel.rules.on_fault = self._report_fault
        self._clock = RealtimeClock(self._kernel.ledger.now_ns, monotonic_ns=monotonic_ns)
        self.commit()

    @property
    def line_bytes_max(self) -> int:
        """Maximum bytes of one input line: the size limit of a batch."""
        return self._kernel.config.limits.batch_bytes_max

    @property
    def lines_count(self) -> int:
        """Number of input lines so far."""
        return self._lines

    def answer(self, line: bytes | None) -> bytes:
        """Handle one input line, and return the line of output.

        None stands for a line that was too long. Never raises because of a line.
        """
        self._lines += 1
        if line is None:
            return self._refused(
                RefusalCode.BATCH_TOO_LARGE,
                f"line {self._lines} is longer than {self.line_bytes_max} bytes; split the batch",
            )
        try:
            raw = from_json(line)
        except ValueError as error:
            return self._refused(
                RefusalCode.FIELD_INVALID,
                f"line {self._lines} must be an intent, an array of intents, a batch object or a "
                f"registration, as JSON; {error}",
            )
        if type(raw) is dict and REGISTER in raw:
            return to_json(self._register(raw))
        return self._decide(raw)

    def commit(self) -> None:
        """Make all verdicts so far durable.

        Raises:
            StoreError: The store failed; no verdict since the last commit may be shown.
        """
        if not self._records or self._log is None:
            return
        seq, count = self._written
        append = LogAppend(count, seq, self._kernel.seq, tuple(self._records))
        self._log.append(append, self._epoch)
        self._written = (append.seq, count + len(append.records))
        self._records.clear()

    def seconds_until_due(self) -> float | None:
        """Return the seconds until a scheduled batch is due; None if none is scheduled."""
        due_ns = self._kernel.ledger.next_due_ns
        return None if due_ns is None else max(0, due_ns - self._clock.now_ns()) / SECOND_NS

    def decide_due(self) -> None:
        """Decide the scheduled batches that are due now; their verdicts are only in the log."""
        self._kernel.decide_checked([], self._clock.now_ns())

    def _decide(self, raw: Json) -> bytes:
        kernel = self._kernel
        checked = kernel.check(raw, fill_missing=True)
        if isinstance(checked, Verdict):
            return verdict_line(checked)
        if checked.notices:
            self._reports.unknown_versions(checked)
        decision = kernel.decide_checked([checked], self._clock.now_ns())
        verdict = next(verdict for batch, verdict in decision.answers if batch is checked)
        return verdict_line(verdict)

    def _register(self, raw: Mapping[str, Json]) -> dict[str, Json]:
        kernel = self._kernel
        attributes = {
            key: value for key, value in raw.items() if key not in {REGISTER, "permissions"}
        }
        try:
            agent_id, permissions = _named(raw)
            is_new = agent_id not in kernel.ledger.agents
            kernel.register_agent(agent_id, permissions=permissions, **attributes)
        except (PlacetError, TypeError, ValueError) as error:
            return {"registered": None, "error": f"line {self._lines}: {error}"}
        return {"registered": agent_id, "new": is_new, "seq": kernel.seq}

    def _refused(self, code: RefusalCode, message: str) -> bytes:
        refusal = Refusal(code.value, message, Stage.STRUCTURE)
        kernel = self._kernel
        return verdict_line(Verdict("", False, None, kernel.seq, kernel.sim_time, (refusal,)))

    def _report_fault(self, where: str, error: BaseException) -> None:
        self._reports.fault(where, error)

    @cached_property
    def _reports(self) -> "WorldLogger":
        from placet.runtime.telemetry.world_logger import WorldLogger  # noqa: PLC0415  # 209 ms

        return WorldLogger("console", "warning", self._kernel.config.world)


def _named(raw: Mapping[str, Json]) -> tuple[str, frozenset[str] | None]:
    """Parse a registration: the agent, and its permissions.

    Raises:
        ValueError: One of them is of the wrong type, or a key is not the line's to give.
    """
    agent_id, permissions = raw[REGISTER], raw.get("permissions")
    if not isinstance(agent_id, str):
        raise ValueError(f"'register' must be the name of an agent, got {agent_id!r}")
    for name in _NOT_PLACING & raw.keys():
        raise ValueError(f"a registration has no {name!r}; the agent is named by 'register'")
    quotas = raw.get("quotas", {})
    if not isinstance(quotas, dict) or not all(
        isinstance(quota, dict) for quota in quotas.values()
    ):
        raise ValueError(f"'quotas' must be an object of quotas by kind, got {quotas!r}")
    if permissions is None:
        return agent_id, None
    if not isinstance(permissions, list) or not all(isinstance(kind, str) for kind in permissions):
        raise ValueError(f"'permissions' must be an array of kinds, got {permissions!r}")
    return agent_id, frozenset(permissions)
