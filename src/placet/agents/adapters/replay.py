"""ReplayAdapter: repeats a session from the answers recorded in its log.

A recorded answer is reused only for an equal request. Requests are compared by hash: without a live
adapter by the hash of the planner input, with one by the hash of the request that this adapter
would send (model, messages, tools, settings).
"""

from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from placet.agents.adapters.conversion import as_adapter
from placet.agents.loop.model_calls import digest_of, raw_of, request_digest
from placet.agents.proposal.adapter import (
    PlannerInput,
    PlannerOutput,
    PlannerUnavailable,
)
from placet.domains.session import PROPOSE
from placet.schemas.codec import Json
from placet.schemas.event import Event


class RecordedCall(NamedTuple):
    """A model call in a log.

    Attributes:
        digest: Hash of its planner input.
        request: Hash of the whole request.
        answer: The answer, or the failure, which is raised again.
    """

    digest: str
    request: str
    answer: PlannerOutput | PlannerUnavailable


class ReplayCounts(NamedTuple):
    """Counts of the requests to a `ReplayAdapter`.

    Attributes:
        reused: Requests that were answered from the recording.
        requested: Requests without a recorded answer that the live adapter answered.
        refused: Requests without a recorded answer, and without a live adapter.
        unused: Recorded answers that no request has reused so far.
    """

    reused: int
    requested: int
    refused: int
    unused: int


class ReplayAdapter:
    """An adapter that answers from a recording; a live adapter may answer other requests.

    Args:
        calls: The recorded calls, oldest first. Equal requests get their answers in this order.
        adapter: Answers the requests that the recording does not have; None refuses them.

    Raises:
        TypeError: The adapter is no adapter.
    """

    def __init__(self, calls: Iterable[RecordedCall], *, adapter: object = None) -> None:
        self._adapter = None if adapter is None else as_adapter(adapter)
        self._calls: dict[str, deque[RecordedCall]] = {}
        for call in calls:
            key = call.digest if adapter is None else call.request
            self._calls.setdefault(key, deque()).append(call)
        self._reused = self._requested = self._refused = 0

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"<ReplayAdapter: {counts.reused} reused, {counts.requested} requested, "
            f"{counts.refused} refused, {counts.unused} unused>"
        )

    @classmethod
    async def of(
        cls,
        events: AsyncIterator[Event],
        until_seq: int,
        session: str,
        *,
        adapter: object = None,
    ) -> "ReplayAdapter":
        """Build an adapter from the answers of a session that a world's log has recorded.

        Args:
            events: `world.events(since=0)`.
            until_seq: Last seq to read, such as the world's present seq.
            session: Name of the session.
            adapter: Answers the requests that the recording does not have; None refuses them.

        Raises:
            TypeError: The adapter is no adapter.
        """
        # In the order in which they were asked: one that was stopped may end after the next.
        calls: dict[tuple[int, int], RecordedCall] = {}
        async for event in events:
            if event.type == "batch":
                for k, (seq, kind, payload, _) in enumerate(event.data["effects"]):
                    if kind == PROPOSE and payload["session"] == session:
                        calls[seq, k] = RecordedCall(
                            payload.get("digest", ""),
                            payload.get("request", ""),
                            PlannerUnavailable("there was no answer"),
                        )
            elif event.type == "settled":
                key = (event.data["effect_seq"], event.data["effect_index"])
                if key in calls:
                    answer = _answered(event.data["output"], event.data["succeeded"])
                    calls[key] = calls[key]._replace(answer=answer)
            if event.seq >= until_seq:
                break
        return cls(calls.values(), adapter=adapter)

    @property
    def counts(self) -> ReplayCounts:
        """The numbers of requests that were reused, requested of the live adapter, and refused."""
        unused = sum(map(len, self._calls.values()))
        return ReplayCounts(self._reused, self._requested, self._refused, unused)

    @property
    def is_priced(self) -> bool:
        """Whether the cost of an answer is known: that of the live adapter, if there is one."""
        return getattr(self._adapter, "is_priced", True)

    def request_digest(self, context: PlannerInput) -> str:
        """Return the hash of a whole request; without a live adapter, the recorded one if any."""
        if self._adapter is not None:
            return request_digest(self._adapter, context)
        calls = self._calls.get(digest_of(context))
        return calls[0].request if calls else request_digest(None, context)

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Return the recorded answer to an equal request, or ask the live adapter.

        Raises:
            PlannerUnavailable: The recording has no answer to this request, or it has a failure.
        """
        adapter = self._adapter
        key = digest_of(context) if adapter is None else request_digest(adapter, context)
        calls = self._calls.get(key)
        if calls:
            self._reused += 1
            answer = calls.popleft().answer
            if isinstance(answer, PlannerUnavailable):
                raise answer
            return answer
        if adapter is not None:
            self._requested += 1
            return await adapter.propose(context)
        self._refused += 1
        raise PlannerUnavailable(self._why())

    def _why(self) -> str:
        unused = self.counts.unused
        if not unused:
            return "the recording is over; pass adapter= to ask a model from here on"
        return (
            f"the recording has no answer to this request: {unused} unused "
            f"{'answer is' if unused == 1 else 'answers are'} to other requests, which differ in "
            "message, view, conversation, kinds or limits; pass adapter= to ask a model instead"
        )


def _answered(output: Json, succeeded: bool) -> PlannerOutput | PlannerUnavailable:
    try:
        return raw_of(output, succeeded)
    except PlannerUnavailable as error:
        return error
