"""The ingress of a queue that is tested by itself."""

from collections.abc import Callable

from placet.actors.admission.overload import Overload
from placet.actors.admission.queue import BatchQueue
from placet.actors.queued_batch import QueuedBatch
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import Refusal
from placet.schemas.verdict import Verdict


class FakeAdmission:
    """A fake `Admission`: priorities are as claimed, up to a cap for each agent."""

    def __init__(self, on_shed: Callable[[QueuedBatch], None]) -> None:
        self.caps: dict[str, int] = {}
        self._on_shed = on_shed

    def overload_of(self, queue: BatchQueue, submitter: str) -> Overload | None:
        return None

    def refuse(self, refusal: Refusal, is_dry_run: bool = False) -> Verdict:
        raise AssertionError(f"no batch was to be refused: {refusal}")

    def priority_of(self, batch: CheckedBatch) -> int:
        return min(batch.priority, self.caps.get(batch.agents[0], 100))

    def priority_cap(self, submitter: str) -> int:
        return 100

    def answer_shed(self, waiting: QueuedBatch, priority: int, load: Overload) -> None:
        self._on_shed(waiting)
