"""`EventDispatcher`: delivers the events of a design to subscribers.

Events are projected from the log after the commit, in its order. A failing subscriber is recorded,
and does not affect others. If a handler returns an awaitable, it is kept in `take_pending` for the
host, because this package cannot wait.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from placet_design.api.workspace import StateManager
from placet_design.events.events import KernelEvent, KernelEventType
from placet_design.events.projection import project

Handler: TypeAlias = Callable[[KernelEvent], object]
Wanted: TypeAlias = KernelEventType | type[KernelEvent] | None

PENDING_MAX: Final = 10_000
FAILURES_MAX: Final = 1_000


class Subscription(NamedTuple):
    """A handler and its event filter; pass it to `unsubscribe` to remove it."""

    wanted: Wanted
    handler: Handler

    def wants(self, event: KernelEvent) -> bool:
        """Return whether the filter matches an event."""
        if self.wanted is None:
            return True
        if isinstance(self.wanted, KernelEventType):
            return event.event_type is self.wanted
        return isinstance(event, self.wanted)


class Failure(NamedTuple):
    """The record of a handler that raised: its subscription, the event and the error."""

    subscription: Subscription
    event: KernelEvent
    error: Exception


class EventDispatcher:
    """Delivers the events of a design to subscribers, in the order of the log.

    Attributes:
        failures: The latest failures, at most 1 000.

    Args:
        state_manager: The design; None delivers only events passed to `dispatch`.
    """

    def __init__(self, state_manager: StateManager | None = None) -> None:
        self.failures: deque[Failure] = deque(maxlen=FAILURES_MAX)
        self._manager = state_manager
        self._subscriptions: list[Subscription] = []
        self._waiting: deque[KernelEvent] = deque()
        self._pending: deque[Awaitable[object]] = deque()
        self._is_telling = False
        self._read = 0
        if state_manager is not None:
            self._read = len(state_manager.records)
            state_manager.listen(self._tell_new)

    def subscribe(
        self, wanted: Wanted, handler: Handler, *, since: int | None = None
    ) -> Subscription:
        """Call `handler` with every future event that the filter matches; return the subscription.

        Args:
            wanted: A `KernelEventType`, a class of events, or None for all.
            handler: Called with the event; may be async, see `take_pending`.
            since: Deliver first all past events after this seq.
        """
        subscription = Subscription(wanted, handler)
        if since is not None and self._manager is not None:
            for event in filter(subscription.wants, self.events(since)):
                self._hand(subscription, event)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription. Safe inside a handler, and if it is removed already."""
        self._subscriptions = [s for s in self._subscriptions if s is not subscription]

    def events(self, since: int = 0) -> list[KernelEvent]:
        """Read the events after a seq from the log."""
        if self._manager is None:
            return []
        return [event for record in self._manager.events(since) for event in project(record)]

    def dispatch(self, event: KernelEvent) -> None:
        """Deliver an event; events that handlers cause are delivered after it."""
        self._waiting.append(event)
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._waiting:
                event = self._waiting.popleft()
                for subscription in self._subscriptions:
                    if subscription in self._subscriptions and subscription.wants(event):
                        self._hand(subscription, event)
        finally:
            self._is_telling = False

    def take_pending(self) -> list[Awaitable[object]]:
        """Return and clear the awaitables that async handlers returned, in order.

        The host awaits them.
        """
        taken = list(self._pending)
        self._pending.clear()
        return taken

    def _tell_new(self) -> None:
        assert self._manager is not None, "only a manager's records are listened to"
        first, self._read = self._read, len(self._manager.records)
        if not self._subscriptions:
            return
        for record in self._manager.events(-1, first=first):
            for event in project(record):
                self.dispatch(event)

    def _hand(self, subscription: Subscription, event: KernelEvent) -> None:
        try:
            returned = subscription.handler(event)
            if isinstance(returned, Awaitable):
                self._wait_for(returned)
        except Exception as error:  # noqa: BLE001  # the subscriber boundary
            self.failures.append(Failure(subscription, event, error))

    def _wait_for(self, returned: Awaitable[object]) -> None:
        if len(self._pending) < PENDING_MAX:
            self._pending.append(returned)
            return
        close = getattr(returned, "close", None)
        if close is not None:
            close()
        raise OverflowError(f"{PENDING_MAX} awaitables wait to be taken; take and await them")
