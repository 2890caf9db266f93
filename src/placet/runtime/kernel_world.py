"""An open world without an event loop: a kernel, its log and its snapshots, for one thread.

    KernelWorld.step > Kernel.step > the log > the caller

It opens stores and continues logs as an `Orchestrator` does, and writes in the caller's thread: a
step returns once its records are durable. It has no queue, no observers and no executors.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from placet.actors.metrics import Counters
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.world import snapshot_scheduler
from placet.runtime.world_opener import WorldOpener
from placet.schemas.config import OnRuleError
from placet.schemas.errors import INTERRUPTS, ClosedError, StoreError
from placet.schemas.log.record import LogAppend, record_hash
from placet.schemas.verdict import Verdict
from placet.stores.url import open_event_log


class KernelWorld:
    """A world that its caller steps; open from its construction until `close`.

    Args:
        domain: A domain, or several.
        config: Configuration; of the options that only actors have, such as `backpressure`, none
            has an effect.
        validator: The host's own rule, called before each domain rule; None for none.
        on_fault: Called with the name of a part that raised, such as a rule or the snapshots, and
            its exception; the world continues.
        on_rule_error: As in `KernelConfig`. With `raise`, a step whose rule raises is undone as a
            whole, and the world may be stepped again.

    Attributes:
        kernel: The kernel. A caller that changes it calls `flush` afterwards.
        log: The log.
        skipped: A sentence for each snapshot that was not used to open the log: why.

    Raises:
        StoreError: The store cannot be opened, another process writes it, or its log is damaged or
            of another world.
        ValueError: The domain or the configuration is invalid.
    """

    def __init__(
        self,
        domain: Domain | Sequence[Domain],
        config: OrchestratorConfig,
        *,
        validator: EffectValidator | None = None,
        on_fault: Callable[[str, BaseException], None],
        on_rule_error: OnRuleError = "refuse",
    ) -> None:
        self.log = open_event_log(config.store, config.kernel_config().limits)
        self._failure: StoreError | None = None
        self._is_open = True
        try:
            opener = WorldOpener(domain, config, validator)
            loaded = opener.load(self.log, on_rule_error=on_rule_error)
            self._epoch, self.kernel, self._records, recovery = loaded
            self._seq, self._count = self.kernel.history_end
            self._head = self.kernel.history_head
            self.skipped = recovery.skipped
            self.kernel.rules.on_fault = on_fault
            self._snapshots = snapshot_scheduler(
                config, self.log, self._epoch, Counters([]), recovery, on_fault
            )
            self.flush()
        except BaseException:
            self.log.close()
            raise

    def __repr__(self) -> str:
        return f"<KernelWorld on {self.log.url}: {self.kernel!r}>"

    @property
    def head(self) -> str:
        """The hash of the last durable record, hexadecimal."""
        return self._head.hex()

    def step(self, dt: float, batches: Sequence[object] = ()) -> list[Verdict]:
        """Advance time by `dt` seconds, decide the batches, and return their durable verdicts.

        With `on_rule_error="raise"` an exception of a rule undoes the step and is raised.

        An interrupt during the step ends it: the batches that are decided by then are written, and
        the world is not stepped any more, because its log ends inside a step.

        Raises:
            ClosedError, StoreError: The world is closed, or its log cannot be written.
            ValueError: `dt` is negative or not finite.
        """
        self._require_writable()
        self.flush()  # the step excludes earlier records
        try:
            verdicts = whole_step(self.kernel, dt, batches)
        except BaseException as error:
            if self._records:
                self.flush()
                self._failure = StoreError(
                    f"a step was interrupted by {type(error).__name__}, and the log ends inside "
                    f"it; open {self.log.url} again",
                    store=self.log.url,
                )
            raise
        self.flush()
        return verdicts

    def flush(self) -> None:
        """Write the records that the kernel has made since the last flush.

        Raises:
            ClosedError, StoreError: The world is closed, or its log cannot be written.
        """
        self._require_writable()
        if not self._records:
            return
        append = LogAppend(self._count, self._seq, self.kernel.seq, tuple(self._records))
        # Failed until proven durable, because an interrupt may end the append half way.
        self._failure = StoreError(
            f"writing to {self.log.url} failed, and it is unknown whether the last step is "
            "durable; open the log again",
            store=self.log.url,
        )
        try:
            self.log.append(append, self._epoch)
        except StoreError as error:
            self._failure = error
            raise
        self._failure = None
        self._head = record_hash(append.records[-1])
        self._seq, self._count = append.seq, self._count + len(append.records)
        self._records.clear()
        if self._snapshots is not None:
            self._snapshots.note(self._count, self._seq)

    def close(self) -> None:
        """Write the pending records, and release the store; harmless if called twice."""
        if not self._is_open:
            return
        try:
            if self._failure is None:
                self.flush()
        finally:
            self._is_open = False
            if self._snapshots is not None:
                self._snapshots.close()
            self.log.close()

    def _require_writable(self) -> None:
        if not self._is_open:
            raise ClosedError("the world is closed; open it again")
        if self._failure is not None:
            raise self._failure


def whole_step(kernel: Kernel, dt: float, batches: Sequence[object]) -> list[Verdict]:
    """Step a kernel; with `on_rule_error="raise"`, undo the step whose rule raises as a whole.

    An interrupt is no fault: the batches that are decided by then stay.

    Raises:
        ValueError: `dt` is negative or not finite.
    """
    if kernel.config.on_rule_error != "raise":
        return kernel.step(dt, batches)
    mark = kernel.mark()
    try:
        return kernel.step(dt, batches)
    except INTERRUPTS:
        raise
    except BaseException:
        kernel.rollback(mark)
        raise


@contextmanager
def delayed_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the end of a block, so that the block is done as a whole.

    A second Ctrl-C interrupts the block. It has no effect outside of the main thread, and where the
    host program handles SIGINT itself.
    """
    if (
        current_thread() is not main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    is_interrupted = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_interrupted:
        raise KeyboardInterrupt
