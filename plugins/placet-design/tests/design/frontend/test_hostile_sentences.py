"""`placet design` prints no unseen character of a sentence or of a log."""

import pytest

from tests.cli.hostile import TEXT
from tests.cli.test_hostile_texts import assert_printable


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_hostile_sentence_is_printed_without_unseen_characters(placet, more):
    done = placet("design", f"set length to {TEXT}", *more)
    assert_printable(done.out)
    assert_printable(done.err)
    assert done.out or done.err.startswith("placet: ")
