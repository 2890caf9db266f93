"""A pending verdict: its repr before and after its batch is decided."""

import asyncio

from placet.runtime.pending_verdict import PendingVerdict
from placet.schemas.errors import StoreError
from placet.schemas.verdict import Verdict


def future() -> asyncio.Future[Verdict]:
    return asyncio.get_running_loop().create_future()


async def test_a_pending_verdict_shows_whether_it_is_decided():
    pending = PendingVerdict(future(), False)
    assert repr(pending) == "<PendingVerdict undecided>"
    pending.cancel()
    assert repr(pending) == "<PendingVerdict withdrawn>"


async def test_a_pending_verdict_shows_the_error_of_a_failed_world():
    failed = future()
    failed.set_exception(StoreError("disk full"))
    assert "disk full" in repr(PendingVerdict(failed, False))
