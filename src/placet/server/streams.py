"""The open streams of an application: how many there are, their turns, and the texts they share.

A stream is a WebSocket, or a response of server-sent events.

A message is encoded once for all streams that show the same page of events to the same viewer at
the same seq. In one pass of the event loop only `_SENDS_PER_PASS` streams begin to send, so that a
request waits behind that many and not behind all.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import Final

from placet.schemas.limits import HttpLimits
from placet.server.http.problems import Problem

NO_MORE_STREAMS: Final = "the server takes no more streams; come back later"
_SENDS_PER_PASS: Final = 8
_TEXT_CHARS_MAX: Final = 4 * 1024 * 1024
"""Of all texts that are kept."""


class Streams:
    """The open streams of one application: their number, turns and shared texts.

    Attributes:
        turns: The queue in which a stream waits before it sends.
        texts: Cache of encoded pages of events.
        reopenings: How often each world was opened again. The log may have lost records at that, so
            a place in it is of one opening.

    Args:
        limits: Limits; `streams_max` for all, `streams_per_token_max` for one submitter.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.turns = SendTurns()
        self.texts = PageTexts()
        self.reopenings: Counter[str] = Counter()
        self._limits = limits
        self._of_submitter: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Number of open streams."""
        return self._of_submitter.total()

    def on_reopened(self, world: str) -> None:
        """Count a reopening of a world."""
        self.reopenings[world] += 1

    def enter(self, submitter: str) -> None:
        """Count a new stream of a submitter; `leave` must be called at its end.

        Raises:
            Problem: This submitter, or the server, has too many open streams.
        """
        count_max = self._limits.streams_per_token_max
        if self._of_submitter[submitter] >= count_max:
            raise Problem(
                "busy",
                f"{count_max} streams are open with the tokens of {submitter!r}, which is all; "
                "close one first",
            )
        if self.count >= self._limits.streams_max:
            raise Problem("unavailable", NO_MORE_STREAMS)
        self._of_submitter[submitter] += 1

    def leave(self, submitter: str) -> None:
        """Remove a stream of a submitter from the count."""
        self._of_submitter[submitter] -= 1
        if not self._of_submitter[submitter]:
            del self._of_submitter[submitter]


class SendTurns:
    """A queue of streams that want to send: a fixed number of them per pass of the event loop."""

    def __init__(self) -> None:
        # Streams that may still begin to send in this pass.
        self._left = _SENDS_PER_PASS
        self._waiting: deque[asyncio.Future[None]] = deque()
        # True iff `_begin_pass` will be called; so it is as long as a stream waits.
        self._is_scheduled = False

    async def take(self) -> None:
        """Wait until this stream may send; in order of arrival."""
        self._schedule()
        if self._left > 0 and not self._waiting:
            self._left -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_pass)

    def _begin_pass(self) -> None:
        self._is_scheduled = False
        self._left = _SENDS_PER_PASS
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # its stream has ended
                self._left -= 1
                turn.set_result(None)
        if self._waiting:
            self._schedule()


class PageTexts:
    """A cache of encoded events by page; bounded to `_TEXT_CHARS_MAX` characters."""

    def __init__(self) -> None:
        self._pages: OrderedDict[Hashable, Sequence[str]] = OrderedDict()
        self._chars = 0

    def get(self, key: Hashable) -> Sequence[str] | None:
        """Return the encoded messages of a page; None if they are not cached."""
        return self._pages.get(key)

    def put(self, key: Hashable, texts: Sequence[str]) -> None:
        """Add the encoded messages of a page; remove the oldest pages beyond the bound."""
        if key in self._pages:
            return
        self._pages[key] = texts
        self._chars += _size(texts)
        while self._chars > _TEXT_CHARS_MAX:
            _, oldest = self._pages.popitem(last=False)
            self._chars -= _size(oldest)


def _size(texts: Sequence[str]) -> int:
    return sum(len(text) for text in texts) + 1
