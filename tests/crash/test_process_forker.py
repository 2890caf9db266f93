"""What a life tells is heard, however it comes."""

import os

import pytest

from tests.crash.process_forker import Life, Report


def test_lines_that_come_at_once_are_heard_one_after_the_other():
    ours, theirs = os.pipe()
    report = Report(theirs)
    report.tell("began", pid=1)
    for what in ("opened", "answer", "answer", "sent"):
        report.tell(what)
    os.close(theirs)
    life = Life(ours)
    for what in ("opened", "answer", "answer", "sent"):
        assert life.wait_for(what) == {"what": what}
    with pytest.raises(AssertionError, match="no 'sent' was told"):
        life.wait_for("sent")
    assert life.is_over
    assert len(life.wait()) == 5
