"""The bars of the time line: fine for a short run, and bounded for a long one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.history.timeline import frames
from placet.history.timeline.frames import Stretch
from tests.history.timeline.played_logs import log_of, world_records
from tests.history.timeline.test_timeline import played
from tests.levels import examples


def test_the_bars_of_a_short_run_are_a_seq_each():
    timeline = played(log_of(world_records()))
    width, bars = timeline.bars()
    assert width == 1
    assert [number for number, _, _ in bars] == sorted({number for number, _, _ in bars})
    assert len(bars) > 1


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 9), st.integers(0, 9))))
@settings(max_examples=examples(100))
def test_bars_that_double_their_width_lose_no_intent(added):
    stretch = Stretch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "STRETCH_BARS_MAX", 8)
        for seq, admitted, refused in sorted(added):
            stretch.count(seq, admitted, refused)
    firsts = [first for first, _, _ in stretch.bars]
    assert len(firsts) <= 8
    assert all(first % stretch.bar_seqs == 0 for first in firsts)
    assert firsts == sorted(set(firsts))
    for place in (1, 2):
        assert sum(bar[place] for bar in stretch.bars) == sum(bar[place] for bar in added)
