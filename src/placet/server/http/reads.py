"""Admits and counts the reads of callers, so that reads of one caller delay no other caller.

A read costs units of work, `READ_WORK` and others in `schemas/limits.py`: by the request, by the
bytes of the answer, and by the entities, events and records that it reads. The units are charged to
the name of a token. A caller with a debt beyond its burst gets 429 `busy` with `retry_after`, and a
request before that time is held for a moment. All callers together have a rate too, which refuses
callers that have a debt. A caller has one read in work, one question to the past, and few unsent
answers; further reads wait in order, like bodies (`fair_share.py`).

A long read runs in a thread (`Reads.in_thread`), one at a time: a thread that computes delays the
event loop by its turn at the interpreter's lock. Questions have separate threads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.actors.admission.debts import DebtMeter
from placet.schemas.limits import (
    QUESTION_WORK,
    READ_ENTITY_WORK,
    READ_KIB_WORK,
    READ_RECORD_WORK,
    READ_WORK,
    SECOND_NS,
    HttpLimits,
)
from placet.server.http.fair_share import Callers
from placet.server.http.problems import Problem, busy

T = TypeVar("T")

_CALLERS_MAX: Final = 100_000
_RETRY_SECONDS: Final = 1
_HELD_SECONDS_MAX: Final = 1
"""How long a request is held that comes before its caller may read again."""


class Reads:
    """The reads of the callers of one server.

    Args:
        limits: Bounds of the server.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._debts = {is_question: _meter(limits) for is_question in (False, True)}
        """Of reads, and apart from them of questions, each of which may be long."""
        self._held_ns: dict[str, int] = {}
        """Monotonic time before which the request of a refused caller is held."""
        waiting = limits.caller_waiting_max, limits.body_seconds_max
        self._reading = Callers(limits.reads_per_token_max, *waiting)
        self._computing = Callers(1, *waiting)
        self._asking = Callers(1, *waiting)
        self._thread = CapacityLimiter(1)
        self._questions = CapacityLimiter(limits.questions_max)

    def check(self, caller: str, *, is_question: bool = False) -> None:
        """Raise if a caller has read more than its rate, or asked more than that.

        Raises:
            Problem: The caller has a debt beyond its burst.
        """
        wait_ns = self._debts[is_question].wait_ns(caller, _now_ns())
        if wait_ns:
            raise _busy(
                f"the tokens of {caller!r} may read {self._limits.read_work_per_second_max} units "
                f"of work/s (burst {self._limits.read_work_burst_max}), those of all "
                f"{self._limits.all_read_work_per_second_max}",
                wait_ns / SECOND_NS,
            )

    async def require(self, caller: str, *, is_question: bool = False) -> None:
        """Raise if a caller has read more than its rate; late if it comes again too early.

        So connections that repeat refused requests at once take little time of others.

        Raises:
            Problem: The caller has a debt beyond its burst.
        """
        wait_ns = self._debts[is_question].wait_ns(caller, _now_ns())
        if not wait_ns:
            return
        if self._held_ns.get(caller, 0) > _now_ns():
            await asyncio.sleep(min(wait_ns / SECOND_NS, _HELD_SECONDS_MAX))
        self._held_ns[caller] = _now_ns() + self._debts[is_question].wait_ns(caller, _now_ns())
        self.check(caller, is_question=is_question)

    def charge(
        self,
        caller: str,
        *,
        size: int = 0,
        entities: int = 0,
        records: int = 0,
        requests: int = 0,
        is_question: bool = False,
    ) -> None:
        """Add to the debt of a caller.

        Args:
            caller: The name of a token.
            size: Bytes of answers, and of records that are read for them.
            entities: Entities or events of which is decided whether an agent sees them.
            records: Records that are replayed, searched or copied.
            requests: Requests that read, or ask.
            is_question: The debt is that of questions.
        """
        units = requests * (QUESTION_WORK if is_question else READ_WORK) + (
            size * READ_KIB_WORK >> 10
        )
        units += entities * READ_ENTITY_WORK + records * READ_RECORD_WORK
        self._debts[is_question].charge(caller, units, _now_ns())

    async def until_allowed(self, caller: str) -> None:
        """Wait until a caller may read: a stream is delayed, where a request is refused."""
        wait_ns = self._debts[False].wait_ns(caller, _now_ns())
        if wait_ns:
            await asyncio.sleep(wait_ns / SECOND_NS)

    @asynccontextmanager
    async def admitted(self, caller: str, *, is_question: bool) -> AsyncIterator[None]:
        """Admit a read of a caller, until its answer is sent.

        Raises:
            Problem: The caller has read more than its rate, or too many of its requests wait.
        """
        await self.require(caller, is_question=is_question)
        async with self._place(self._reading, caller):
            yield

    @asynccontextmanager
    async def turn(self, caller: str, *, is_question: bool) -> AsyncIterator[None]:
        """Wait until no other read of a caller is in work, or question, and charge the request.

        Raises:
            Problem: The caller has read more than its rate, or too many of its requests wait.
        """
        async with self._place(self._asking if is_question else self._computing, caller):
            self.check(caller, is_question=is_question)  # those before it were charged meanwhile
            self.charge(caller, requests=1, is_question=is_question)
            yield

    async def serve(
        self, app: ASGIApp, caller: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request by another application, as that of the Model Context Protocol.

        Request and bytes of the answer are charged as a read of the caller; the answer is 429 if it
        has read more than its rate.
        """
        try:
            await self.require(caller)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        self.charge(caller, requests=1)

        async def send_counted(message: Message) -> None:
            self.charge(caller, size=len(message.get("body", b"")))
            await send(message)

        await app(scope, receive, send_counted)

    async def in_thread(self, read: Callable[[], T]) -> T:
        """Call a function beside the event loop, and return its result; calls run one at a time."""
        return await to_thread.run_sync(read, limiter=self._thread)

    async def ask(self, question: Callable[[], T]) -> T:
        """Call a function that reads a log in a thread, `questions_max` at a time."""
        return await to_thread.run_sync(question, limiter=self._questions)

    @asynccontextmanager
    async def _place(self, callers: Callers, caller: str) -> AsyncIterator[None]:
        if not await callers.admit(caller, 1):
            raise _busy(f"too many reads of the tokens of {caller!r} wait", _RETRY_SECONDS)
        try:
            yield
        finally:
            callers.release(caller, 1)


def _meter(limits: HttpLimits) -> DebtMeter:
    return DebtMeter(
        limits.read_work_per_second_max,
        limits.read_work_burst_max,
        limits.all_read_work_per_second_max,
        limits.all_read_work_burst_max,
        _CALLERS_MAX,
    )


def _busy(rule: str, seconds: float) -> Problem:
    return busy(f"{rule}; retry in {seconds:.4f} s", seconds)


def _now_ns() -> int:
    return int(asyncio.get_running_loop().time() * SECOND_NS)
