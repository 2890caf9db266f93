"""The outcomes of the calls of an approved request, from the log: done, failed, or in doubt.

The batch of an approval is durable before its effects run, so the request alone says no more than
"approved". The outcome of a call is the settlement of the effect that its intent emitted.
"""

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.approved import REQUESTS, key_of
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.approval import Approval
from placet.schemas.codec import Json
from placet.schemas.errors import PositionError
from placet.schemas.event import Event

RECORDS_MAX: Final = 4_096
"""Records after an approval in which the outcomes of its calls are searched."""

CallStatus: TypeAlias = Literal["running", "done", "failed", "doubt", "unknown"]

_EffectKey: TypeAlias = tuple[int, int]


class CallOutcome(NamedTuple):
    """The outcome of one call of an approved request.

    Attributes:
        status: `done` also for an intent without effects, which its batch has applied; `unknown`
            where the log no longer has the outcome, or has it more than `RECORDS_MAX` records
            after the approval.
        output: Output of the effect, the reason of its failure, or of the doubt.
    """

    status: CallStatus
    output: Json = None


async def outcomes_of(world: Orchestrator, approval: Approval) -> tuple[list[CallOutcome], int]:
    """Return the outcome of each own intent of an approved request, and how many records it read.

    Args:
        world: The world of the request.
        approval: A request in the state `approved`.

    Raises:
        ClosedError, StoreError: The world is closed, or has failed.
    """

    def approved_at(kernel: Kernel) -> tuple[int, int]:
        stamp = kernel.tree.stamp(REQUESTS, approval.id)
        return (0 if stamp is None else stamp.seq), kernel.record_count

    seq, end = await world.query(approved_at)
    open_effects = {(one.key.seq, one.key.effect_index): one for one in await world.effects()}
    own = [one["key"] for one in approval.own_intents]
    search = _Search(own)
    if seq == 0 or seq <= (await world.log_start()).seq:
        return [CallOutcome("unknown")] * len(own), 0
    read = 0
    try:
        async for page in world.event_pages(seq - 1):
            read += len(page)
            is_found = search.read(page, open_effects.keys())
            if is_found or read >= RECORDS_MAX or page[-1].record >= end - 1:
                break
    except PositionError:  # compacted meanwhile
        pass
    for key, status in open_effects.items():
        is_doubt = status.state in {"in_doubt", "dead"}
        why = status.why if is_doubt else None
        search.settle(key, CallOutcome("doubt" if is_doubt else "running", why))
    return search.outcomes(), read


class _Search:
    """The search for the effects of some intents in the events after their approval."""

    def __init__(self, own: list[str]) -> None:
        self._own = own
        # Effects by intent, in the order of the batch; empty until its event was read.
        self._effects: dict[str, list[_EffectKey]] = {}
        self._found: dict[_EffectKey, CallOutcome] = {}
        self._is_batch_read = False

    def read(self, page: Sequence[Event], unsettled: Collection[_EffectKey]) -> bool:
        """Read events; return whether every effect of the batch is settled or known to be open."""
        for event in page:
            if not self._is_batch_read:
                self._is_batch_read = True
                self._read_batch(event)
            elif event.type == "settled":
                status: CallStatus = "done" if event.data["succeeded"] else "failed"
                key = (event.data["effect_seq"], event.data["effect_index"])
                self.settle(key, CallOutcome(status, event.data["output"]))
        known = {*self._found, *unsettled}
        return all(key in known for keys in self._effects.values() for key in keys)

    def _read_batch(self, event: Event) -> None:
        intents = event.data.get("intents", ())
        first = event.seq - len(intents) + 1
        names = {first + k: key_of(one["req_id"]) for k, one in enumerate(intents)}
        self._effects = {name: [] for name in names.values()}
        for index, (seq, *_) in enumerate(event.data.get("effects", ())):
            if seq in names:
                self._effects[names[seq]].append((seq, index))

    def settle(self, key: _EffectKey, outcome: CallOutcome) -> None:
        """Note the outcome of an effect; the first is kept."""
        self._found.setdefault(key, outcome)

    def outcomes(self) -> list[CallOutcome]:
        """Return the outcome of each intent: the worst of its effects."""
        return [self._outcome(name) for name in self._own]

    def _outcome(self, name: str) -> CallOutcome:
        if name not in self._effects:
            return CallOutcome("unknown")
        found = [self._found.get(key, CallOutcome("unknown")) for key in self._effects[name]]
        return max(found, key=lambda one: _WORSE.index(one.status), default=CallOutcome("done"))


_WORSE: Final[tuple[CallStatus, ...]] = ("done", "unknown", "running", "failed", "doubt")
