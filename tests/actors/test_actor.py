"""An actor handles one message at a time, also when its handler waits in the middle."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from placet.actors.actor import Actor, ActorStatistics, MailboxFull
from placet.schemas.errors import ClosedError
from tests.actors.virtual_time import in_virtual_time, turns

INCREMENTS = 100


class Account:
    """A counter that awaits between its read and its write: the classic race."""

    def __init__(self) -> None:
        self.value = 0

    async def increment(self, amount: int) -> int:
        value = self.value
        await asyncio.sleep(0)
        self.value = value + amount
        return self.value


async def increment_all(increment: Callable[[int], Awaitable[int]]) -> list[int]:
    return await asyncio.gather(*(increment(1) for _ in range(INCREMENTS)))


@in_virtual_time
async def test_a_hundred_concurrent_increments_through_an_actor_give_a_hundred():
    account = Account()
    actor = Actor("account", account.increment)
    async with asyncio.TaskGroup() as group:
        group.create_task(actor.run())
        answers = await increment_all(actor.ask)
        actor.close()
    assert account.value == INCREMENTS
    assert answers == list(range(1, INCREMENTS + 1))
    assert actor.statistics() == ActorStatistics(handled=INCREMENTS, failed=0, waiting=0)


@in_virtual_time
async def test_the_same_increments_without_an_actor_are_lost():
    """The control: the race is real, so the test above can fail."""
    account = Account()
    await increment_all(account.increment)
    assert account.value == 1


async def refuse_odd(message: int) -> int:
    await asyncio.sleep(0)
    if message % 2:
        raise ZeroDivisionError(message)
    return message * 10


@in_virtual_time
async def test_an_exception_of_the_handler_is_raised_to_the_asker_and_the_actor_continues():
    actor = Actor("even", refuse_odd)
    async with asyncio.TaskGroup() as group:
        group.create_task(actor.run())
        answers = await asyncio.gather(*map(actor.ask, range(4)), return_exceptions=True)
        actor.close()
    assert [repr(answer) for answer in answers] == [
        "0",
        "ZeroDivisionError(1)",
        "20",
        "ZeroDivisionError(3)",
    ]
    assert actor.statistics() == (2, 2, 0)


@in_virtual_time
async def test_an_exception_for_a_message_without_an_asker_ends_run():
    actor = Actor("even", refuse_odd)
    actor.tell(1)
    answer = asyncio.ensure_future(actor.ask(2))
    await turns(1)
    with pytest.raises(ZeroDivisionError):
        await actor.run()
    assert actor.statistics() == (0, 1, 1)
    assert not answer.done()
    async with asyncio.TaskGroup() as group:  # its supervisor runs it again: what waited is kept
        group.create_task(actor.run())
        assert await answer == 20
        actor.close()


@in_virtual_time
async def test_a_full_mailbox_refuses_with_signal_value_and_limit():
    actor = Actor("even", refuse_odd, mailbox_max=2)
    actor.tell(0)
    actor.tell(2)
    for send in (lambda: actor.tell(4), lambda: actor.ask(4).send(None)):
        with pytest.raises(MailboxFull, match="is 2, the limit is 2") as caught:
            send()
        assert (caught.value.value, caught.value.limit) == (2, 2)
    actor.close()


@in_virtual_time
async def test_close_handles_queued_messages_and_accepts_no_more():
    actor = Actor("even", refuse_odd)
    answers = [asyncio.ensure_future(actor.ask(message)) for message in (0, 2, 4)]
    run = asyncio.ensure_future(actor.run())
    await turns(1)  # the first is in the handler
    actor.close()
    with pytest.raises(ClosedError, match="'even' has stopped"):
        actor.tell(6)
    with pytest.raises(ClosedError):
        await actor.ask(6)
    await run
    assert [await answer for answer in answers] == [0, 20, 40]


@in_virtual_time
async def test_close_while_the_last_message_is_handled_ends_the_run():
    actor = Actor("even", refuse_odd)
    actor.tell(0)
    run = asyncio.ensure_future(actor.run())
    await turns(1)
    assert actor.statistics() == (0, 0, 0)
    actor.close()
    await run
    assert actor.statistics() == (1, 0, 0)


@in_virtual_time
async def test_canceling_an_actor_fails_pending_asks():
    actor = Actor("even", refuse_odd)
    answers = [asyncio.ensure_future(actor.ask(message)) for message in (0, 2)]
    run = asyncio.ensure_future(actor.run())
    await turns(1)  # the first is in the handler
    run.cancel()
    for answer in answers:
        with pytest.raises(ClosedError, match="does not answer"):
            await answer
    with pytest.raises(ClosedError):
        actor.tell(4)


@in_virtual_time
async def test_closing_an_actor_that_never_ran_fails_pending_asks():
    actor = Actor("even", refuse_odd)
    answer = asyncio.ensure_future(actor.ask(0))
    await turns(1)
    actor.close()
    with pytest.raises(ClosedError):
        await answer


@in_virtual_time
async def test_a_message_whose_sender_was_canceled_is_not_handled():
    handled = []

    async def note(message: int) -> None:
        handled.append(message)

    actor = Actor("notes", note)
    gone = asyncio.ensure_future(actor.ask(1))
    stays = asyncio.ensure_future(actor.ask(2))
    await turns(1)
    gone.cancel()
    await turns(1)
    async with asyncio.TaskGroup() as group:
        group.create_task(actor.run())
        await stays
        actor.close()
    assert handled == [2]


@in_virtual_time
async def test_canceling_a_sender_during_handling_does_not_affect_the_actor():
    actor = Actor("even", refuse_odd)
    async with asyncio.TaskGroup() as group:
        group.create_task(actor.run())
        for message in (0, 1):
            gone = asyncio.ensure_future(actor.ask(message))
            await turns(2)
            gone.cancel()
        assert await actor.ask(2) == 20
        actor.close()
    assert actor.statistics() == (2, 1, 0)
