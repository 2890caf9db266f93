"""A mailbox is bounded, wakes its receiver for a message, and puts control messages first."""

import asyncio

import pytest

from placet.actors.mailbox import Mailbox, MailboxFull
from tests.actors.virtual_time import in_virtual_time, iterations, turns


def full_at(mailbox: Mailbox[str, str], message: str, size: int = 0) -> tuple[str, int, int]:
    with pytest.raises(MailboxFull) as caught:
        mailbox.post_nowait(message, size)
    return caught.value.signal, caught.value.value, caught.value.limit


def test_a_mailbox_is_bounded_by_count():
    mailbox: Mailbox[str, str] = Mailbox(2)
    mailbox.post_nowait("a")
    mailbox.post_nowait("b")
    assert full_at(mailbox, "c") == ("mailbox_batches", 2, 2)
    assert mailbox.take(9) == ["a", "b"]
    mailbox.post_nowait("c")
    assert len(mailbox) == 1


def test_a_mailbox_is_bounded_by_the_bytes_of_its_messages():
    mailbox: Mailbox[str, str] = Mailbox(9, bytes_max=10)
    mailbox.post_nowait("a", 4)
    mailbox.post_nowait("b", 6)
    assert full_at(mailbox, "c", 1) == ("mailbox_bytes", 11, 10)
    mailbox.post_nowait("nothing", 0)
    assert mailbox.take(1) == ["a"]
    mailbox.post_nowait("c", 4)
    assert full_at(mailbox, "d", 1) == ("mailbox_bytes", 11, 10)
    assert mailbox.statistics().waiting_bytes == 10


def test_an_empty_mailbox_accepts_a_message_of_any_size():
    mailbox: Mailbox[str, str] = Mailbox(9, bytes_max=10)
    mailbox.post_nowait("large", 11)
    assert full_at(mailbox, "small", 1) == ("mailbox_bytes", 12, 10)


def test_the_control_lane_overtakes_and_is_never_full():
    mailbox: Mailbox[str, str] = Mailbox(1)
    mailbox.post_nowait("a")
    for number in range(5):
        mailbox.post_control(f"control {number}")
    assert not mailbox.is_idle
    assert [mailbox.take_control() for _ in range(6)] == [*(f"control {n}" for n in range(5)), None]
    assert mailbox.take(1) == ["a"]
    assert mailbox.is_idle


def test_messages_are_taken_in_order_up_to_a_count():
    mailbox: Mailbox[int, None] = Mailbox(9)
    for number in range(6):
        mailbox.post_nowait(number)
    assert mailbox.oldest == 0
    assert mailbox.take(2) == [0, 1]
    assert mailbox.take(2) == [2, 3]
    assert mailbox.take(0) == []
    assert mailbox.oldest == 4
    assert mailbox.take(9) == [4, 5]
    assert [mailbox.oldest] == [None]
    assert mailbox.statistics() == (0, 0, 0, 6, 6)


@in_virtual_time
async def test_a_receiver_waits_without_polling_until_a_message_arrives():
    mailbox: Mailbox[str, str] = Mailbox(9)
    for post in (lambda: mailbox.post_nowait("a"), lambda: mailbox.post_control("stop")):
        waiting = asyncio.ensure_future(mailbox.wait())
        await turns(2)
        before = iterations()
        await asyncio.sleep(3600)
        assert iterations() - before <= 2
        assert not waiting.done()
        post()
        await waiting
        mailbox.take(1)
        mailbox.take_control()


@in_virtual_time
async def test_wait_returns_at_once_with_a_queued_message_and_on_wake():
    mailbox: Mailbox[str, str] = Mailbox(9)
    mailbox.wake()  # nobody waits: harmless, and not remembered
    waiting = asyncio.ensure_future(mailbox.wait())
    await turns()
    assert not waiting.done()
    mailbox.wake()
    mailbox.wake()
    await waiting
    mailbox.post_nowait("a")
    await mailbox.wait()


@in_virtual_time
async def test_a_receiver_that_is_canceled_leaves_the_mailbox_usable():
    mailbox: Mailbox[str, str] = Mailbox(9)
    waiting = asyncio.ensure_future(mailbox.wait())
    await turns(1)
    waiting.cancel()
    mailbox.post_nowait("a")
    await turns(1)
    assert waiting.cancelled()
    await mailbox.wait()
    assert mailbox.take(1) == ["a"]


@in_virtual_time
async def test_a_paused_mailbox_keeps_its_messages_and_lets_control_pass():
    mailbox: Mailbox[str, str] = Mailbox(2)
    mailbox.pause()
    waiting = asyncio.ensure_future(mailbox.wait())
    await turns(1)
    mailbox.post_nowait("a")
    await turns(2)
    assert mailbox.is_idle
    assert not waiting.done()
    assert mailbox.take(9) == []
    mailbox.post_control("go on")
    await waiting
    assert mailbox.take_control() == "go on"
    mailbox.is_paused = False
    assert [mailbox.is_idle] == [False]
    assert mailbox.take(9) == ["a"]


def test_take_all_empties_a_paused_mailbox():
    mailbox: Mailbox[str, str] = Mailbox(2)
    mailbox.post_nowait("a", 3)
    mailbox.pause()
    assert mailbox.take_all() == ["a"]
    assert (mailbox.statistics().waiting_bytes, mailbox.received) == (0, 1)
