"""Ctrl-C in a command that waits: an error that follows it is no error of the command."""

import signal
from contextlib import suppress

import pytest

from placet.cli.signals import terminated_as_interrupted


def fail(message):
    raise RuntimeError(message)


def fail_after_ctrl_c():
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    fail("a library was interrupted within")


def test_an_error_after_ctrl_c_ends_as_an_interrupt():
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
        fail_after_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_error_stays_what_it_is():
    with pytest.raises(RuntimeError, match="alone"), terminated_as_interrupted():
        fail("alone")
