"""Notices of new requests for approval, sent to the configured channels beside the gate.

A notice never delays a batch: the requests are read from the log, as a subscriber reads it, and
each channel has a separate bounded queue and senders. A notice is sent at least once: after a
start, or after a world was opened again, the open requests are sent again under the same ids.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from placet.kernel.plugin.approved import REQUESTS
from placet.runtime.inbox import Inbox
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.approval import Approval, ApprovalUnknown
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.event import Event
from placet.server.approvals.channels import Channel, NotSent

if TYPE_CHECKING:
    from prometheus_client import Metric

_QUEUE_MAX: Final = 1_000
_SENDERS: Final = 4
"""Notices of one channel that are sent at a time: a slow one delays few others."""

ATTEMPT_PAUSES_S: Final = (1.0, 4.0, 15.0, 60.0)
"""Pauses between the attempts to send a notice; after the last attempt it is given up."""

_PREFIX: Final = f"{REQUESTS}/"
_OUTCOMES: Final = ("sent", "retried", "failed", "dropped")

Describe: TypeAlias = Callable[[str, Orchestrator, Approval], Awaitable[Json]]
"""Returns a request of a world as JSON."""


class _Notice(NamedTuple):
    """A notice that waits to be sent: the world of the request, and its id."""

    world: str
    request: str


def new_requests(page: Sequence[Event]) -> list[str]:
    """Return the ids of the requests that the events of a page opened, in order."""
    return [
        change["entity"].removeprefix(_PREFIX)
        for event in page
        if event.type == "batch"
        for change in event.data["changes"]
        if change["entity"].startswith(_PREFIX) and _is_opened(change)
    ]


def _is_opened(change: Mapping[str, Json]) -> bool:
    fields: Mapping[str, Json] = change["fields"] or {}
    return bool(change["whole"]) and fields.get("state") == "open"


class _Sender:
    """The queue and the senders of one channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.counts: Counter[str] = Counter()
        self.is_failing = False
        self.queue: deque[_Notice] = deque()
        self.has_notice = asyncio.Event()

    def put(self, notice: _Notice) -> bool:
        """Add a notice; return False if the oldest one was dropped for it."""
        is_full = len(self.queue) >= _QUEUE_MAX
        if is_full:
            self.queue.popleft()
            self.counts["dropped"] += 1
        self.queue.append(notice)
        self.has_notice.set()
        return not is_full

    async def next(self) -> _Notice:
        """Wait for the oldest notice, and remove it."""
        while not self.queue:
            self.has_notice.clear()
            await self.has_notice.wait()
        return self.queue.popleft()


class NoticeMetrics:
    """The collector of the numbers of notices, by channel and outcome."""

    def __init__(self, senders: Sequence[_Sender]) -> None:
        self._senders = senders

    def collect(self) -> "Iterator[Metric]":
        """Yield the counter `placet_approval_notices_total`."""
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415  # slow

        family = CounterMetricFamily(
            "placet_approval_notices",
            "Notices of requests for approval, of all worlds of the server.",
            labels=["channel", "outcome"],
        )
        for sender in self._senders:
            for outcome in _OUTCOMES:
                family.add_metric([sender.channel.name, outcome], sender.counts[outcome])
        yield family


class Notices:
    """Sends notices of the new requests of a server's worlds.

    Args:
        channels: Where to send them; with none, nothing is followed.
        find: Returns the open world of a name.
        describe: Returns a request as JSON.
        pauses_s: Pauses between the attempts to send one, real seconds.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        find: Callable[[str], Orchestrator | None],
        describe: Describe,
        *,
        pauses_s: Sequence[float] = ATTEMPT_PAUSES_S,
    ) -> None:
        self._senders = [_Sender(channel) for channel in channels]
        self._find = find
        self._describe = describe
        self._pauses_s = pauses_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._followers: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start the senders."""
        for sender in self._senders:
            for _ in range(_SENDERS):
                self._start(self._send_all(sender))

    def follow(self, name: str) -> None:
        """Follow the requests of a world that was opened, or opened again."""
        world = self._find(name)
        if world is None or not self._senders:
            return
        if not any(domain.name == "approvals" for domain in world.domains):
            return
        earlier = self._followers.pop(name, None)
        if earlier is not None:
            earlier.cancel()
        world.metrics_registry.register(NoticeMetrics(self._senders))
        self._followers[name] = self._start(self._follow(name, world))

    async def close(self) -> None:
        """Stop; notices that were not sent are sent after the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for sender in self._senders:
            await sender.channel.close()

    async def _follow(self, name: str, world: Orchestrator) -> None:
        """Queue the open requests of a world, and then each that is opened."""
        try:
            position = world.records
            for approval in await Inbox(world).open():
                self._put(world, _Notice(name, approval.id))
            async for page in world.event_pages(from_record=position):
                for request in new_requests(page):
                    self._put(world, _Notice(name, request))
        except (ClosedError, StoreError):
            return  # once it is open again, `follow` is called

    def _put(self, world: Orchestrator, notice: _Notice) -> None:
        for sender in self._senders:
            if not sender.put(notice) and sender.counts["dropped"] == 1:
                _warn(world, f"{sender.channel.name}: {_QUEUE_MAX} wait, the oldest is dropped")

    async def _send_all(self, sender: _Sender) -> None:
        while True:
            notice = await sender.next()
            world = self._find(notice.world)
            try:
                if world is not None:
                    await self._send(sender, notice, world)
            except (ClosedError, StoreError, ApprovalUnknown):
                continue  # the request is gone, or the world, which is followed again once open
            except Exception as error:  # noqa: BLE001  # a supervisor: the other notices are sent
                sender.counts["failed"] += 1
                if world is not None:
                    _warn(world, f"{sender.channel.name} of request {notice.request}: {error!r}")

    async def _send(self, sender: _Sender, notice: _Notice, world: Orchestrator) -> None:
        """Send a notice, with pauses between the attempts; a request that is decided needs none."""
        for pause in (*self._pauses_s, None):
            approval = await Inbox(world).get(notice.request)
            if approval.state != "open":
                return
            described = await self._describe(notice.world, world, approval)
            body: Json = {"world": notice.world, "approval": described}
            try:
                await sender.channel.send(
                    notice.request, to_json({"type": "approval.requested", "data": body})
                )
            except NotSent as error:
                is_over = pause is None or error.is_final
                sender.counts["failed" if is_over else "retried"] += 1
                if is_over or not sender.is_failing:
                    what = "is given up" if is_over else "is sent again"
                    _warn(
                        world,
                        f"the {sender.channel.name} of approvals failed: {error}; the notice of "
                        f"request {notice.request} {what}",
                    )
                sender.is_failing = True
                if pause is None or error.is_final:
                    return
                await asyncio.sleep(pause)
            else:
                sender.is_failing = False
                sender.counts["sent"] += 1
                return

    def _start(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _warn(world: Orchestrator, message: str) -> None:
    config = world.config
    WorldLogger(config.log_format, config.log_level, config.world).warning(message)
