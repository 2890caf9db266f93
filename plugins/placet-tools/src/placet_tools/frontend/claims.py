"""Claims: a worker may run an admitted call until a deadline, and settles it.

The executor of a tool waits until a worker claims the call, and then until the worker settles it. A
call without a claim has certainly not run. After the deadline of a claim the call is in doubt, or
is tried again; a later settlement is refused.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from placet.kernel.plugin.domain import EffectHandler
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, OutcomeUnknown
from placet_tools.domain import ToolsDomain
from placet_tools.tool import DeclaredTool, NotDone

CLAIM_SECONDS: Final = 60.0
"""Real seconds in which a worker settles a call, if its tool has no time limit."""

UNCLAIMED_SECONDS_MAX: Final = 3_600.0
"""Real seconds for which an admitted call waits for a worker; then it fails, and has not run."""

GRACE_SECONDS: Final = 10.0
"""Seconds by which a claim is longer than the time limit of the function: for the answer."""

_RUNS_MAX: Final = 10_000

Ending: TypeAlias = Literal["done", "not_done", "doubt"]
"""End of a function: it returned, it was certainly not done, or it may have been done."""


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that one worker runs.

    Attributes:
        id: Secret of the claim.
        key: Key of the call.
        tool: Name of the tool.
        args: Arguments of the call.
        seconds: Real seconds in which the worker must settle it.
    """

    id: str
    key: str
    tool: str
    args: Mapping[str, Json]
    seconds: float


class _Run:
    """One attempt at a call, which waits for a worker."""

    def __init__(self, tool: DeclaredTool, payload: Mapping[str, Json]) -> None:
        loop = asyncio.get_running_loop()
        self.tool = tool
        self.payload = payload
        self.claimed: asyncio.Future[Claim] = loop.create_future()
        self.settled: asyncio.Future[tuple[Ending, Json]] = loop.create_future()


class Claims:
    """The admitted calls of one world that wait for workers, or are run by them."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._added = asyncio.Event()

    async def run(self, tool: DeclaredTool, payload: Mapping[str, Json]) -> Json:
        """Wait until a worker has run a call, and return the output.

        Raises:
            NotDone: The call was certainly not done.
            OutcomeUnknown: The call may have been done.
        """
        key, run = payload["key"], _Run(tool, payload)
        self._runs[key] = run
        self._wake()
        try:
            claim = await _within(UNCLAIMED_SECONDS_MAX, run.claimed)
            if claim is None:
                raise NotDone("no worker asked for the call, so nothing ran")
            settled = await _within(claim.seconds, run.settled)
        finally:
            if self._runs.get(key) is run:
                del self._runs[key]
        ending, output = settled or ("doubt", "the worker did not answer in time")
        if ending == "done":
            return output
        if ending == "not_done" or tool.delivery == "pure":
            raise NotDone(str(output))
        raise OutcomeUnknown(str(output))  # in doubt, or tried again if it may be repeated

    def take(self, keys: Iterable[str]) -> list[Claim]:
        """Claim the calls of these keys that wait for a worker."""
        claims = []
        for key in keys:
            run = self._runs.get(key)
            if run is not None and not run.claimed.done():
                seconds = (run.tool.seconds_max or CLAIM_SECONDS) + GRACE_SECONDS
                claim = Claim(uuid4().hex, key, run.tool.name, run.payload["args"], seconds)
                run.claimed.set_result(claim)
                claims.append(claim)
        return claims

    async def wait(self, keys: Iterable[str]) -> list[Claim]:
        """Claim the calls of these keys, as soon as one waits for a worker."""
        keys = list(keys)
        while not (claims := self.take(keys)):
            added = self._added
            await added.wait()
        return claims

    def settle(self, key: str, claim: str, ending: Ending, output: Json) -> bool:
        """Settle a call; return False if the claim is over, or is another worker's."""
        run = self._runs.get(key)
        if run is None or not run.claimed.done() or run.claimed.result().id != claim:
            return False
        if not run.settled.done():
            run.settled.set_result((ending, output))
        return True

    def _wake(self) -> None:
        """Wake the requests of workers that wait for a call."""
        added, self._added = self._added, asyncio.Event()
        added.set()


_OF_DOMAINS: "WeakKeyDictionary[ToolsDomain, Claims]" = WeakKeyDictionary()
"""The claims of worlds: the executors of a domain receive the domain alone."""


def claims_of(domain: ToolsDomain) -> Claims:
    """Return the claims of the world of a domain."""
    return _OF_DOMAINS.setdefault(domain, Claims())


def executors_of(domain: ToolsDomain) -> dict[str, EffectHandler | None]:
    """Return the executor of each tool, which waits for a worker."""
    return {domain.kind_of(tool.name): _executor(domain, tool) for tool in domain.tools.values()}


def _executor(domain: ToolsDomain, tool: DeclaredTool) -> EffectHandler:
    async def run(effect: Effect) -> Json:
        return await claims_of(domain).run(tool, effect.payload)

    seconds = UNCLAIMED_SECONDS_MAX + (tool.seconds_max or CLAIM_SECONDS) + 2 * GRACE_SECONDS
    return EffectHandler(
        handler=run,
        delivery=tool.delivery,
        attempts_max=1 if tool.delivery == "pure" else None,
        seconds_max=seconds,
        concurrency=_RUNS_MAX,
    )


async def _within(seconds: float, future: "asyncio.Future[_T]") -> "_T | None":
    """Return the result of a future; None if it takes longer."""
    await asyncio.wait([future], timeout=seconds)
    return future.result() if future.done() else None
