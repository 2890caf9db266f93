"""Messages of a child arrive in order, however the pipe splits them."""

import os

import pytest

from tests.crash.process_forker import ChildProcess, Report


def test_messages_of_one_read_are_yielded_in_order():
    ours, theirs = os.pipe()
    report = Report(theirs)
    report.send("began", pid=1)
    for what in ("opened", "answer", "answer", "sent"):
        report.send(what)
    os.close(theirs)
    child = ChildProcess(ours)
    for what in ("opened", "answer", "answer", "sent"):
        assert child.wait_for(what) == {"what": what}
    with pytest.raises(AssertionError, match="no message 'sent' was received"):
        child.wait_for("sent")
    assert child.is_over
    assert len(child.wait()) == 5
