"""Laws of random draws: functions of six words, the same one by one, in lanes and in arrays."""

from collections import Counter
from hashlib import blake2b
from itertools import groupby, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel import randint_below, random_u64, random_unit
from placet.kernel.prng import (
    LANE_BYTES,
    MomentDraws,
    agent_key,
    draw_state,
    mix64,
    mix_lanes,
    mix_word,
)
from placet.schemas.errors import describe_error
from placet.schemas.view import View

WORDS = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]))
AGENT_IDS = NAMES | st.builds("{}:{}".format, NAMES, st.integers(0, 10**18))


def test_a_draw_is_the_same_in_every_release():
    """The numbers are part of the format: logs that hold them must verify in years."""
    assert mix64() == 0x9E3779B97F4A7C15
    assert mix64(1, 2) == 0x848A139037105040
    assert agent_key("ann") == 0x8D3ADF6ABF23F3A5
    assert agent_key("ant:7") == mix64(agent_key("ant"), 7)
    assert random_u64(7, 3, 1_500_000_000, 2, "dice", "ann") == 0xB00572413BC10A51
    assert (
        random_u64(2**64 - 1, 2**40, 2**62, 512, "", "ant:999999999999999999") == 0x368E5B613086FF0F
    )


def test_every_word_of_a_draw_counts():
    words = (7, 3, 1_500, 2, "dice", "ann")
    others = (8, 4, 1_501, 3, "coin", "bob")
    drawn = {random_u64(*words)}
    for place in range(6):
        changed = (*words[:place], others[place], *words[place + 1 :])
        drawn.add(random_u64(*changed))  # type: ignore[arg-type]  # each word keeps its type
    drawn |= {random_u64(a, b, c, d, "dice", "ann") for a, b, c, d in permutations((1, 2, 3, 4))}
    assert len(drawn) == 7 + 24


@given(NAMES, st.integers(0, 10**18 - 1))
def test_the_key_of_a_numbered_name_is_that_of_its_stem_and_the_number(stem, number):
    whole = int.from_bytes(blake2b(stem.encode(), digest_size=8).digest(), "big")
    assert agent_key(f"{stem}:{number}") == mix64(whole, number)
    for other in (f"{stem}:0{number}", f"{stem}:+{number}", f"{stem}:{number}" + "0" * 18):
        assert agent_key(other) != mix64(whole, number)


@given(WORDS, st.lists(WORDS, max_size=40))
def test_lanes_are_the_scalar_rounds(state, keys):
    lanes = [key.to_bytes(LANE_BYTES, "little") for key in keys]
    assert mix_lanes(state, lanes) == [mix_word(state, key) for key in keys]


@pytest.mark.parametrize("count", [511, 512, 513, 1_300])
def test_lanes_are_the_scalar_rounds_in_groups_of_any_size(count):
    keys = [mix64(number) for number in range(count)]
    lanes = [key.to_bytes(LANE_BYTES, "little") for key in keys]
    assert mix_lanes(5, lanes) == [mix_word(5, key) for key in keys]


@given(WORDS, WORDS, st.integers(0, 2**63), st.integers(0, 600), st.lists(AGENT_IDS, max_size=9))
def test_arrays_give_the_same_draws(seed, tick, now_ns, n, agent_ids):
    """The rounds as numpy computes them, wrapping at 64 bits."""
    keys = np.array([agent_key(agent_id) for agent_id in agent_ids], dtype=np.uint64)
    state = np.uint64(draw_state(seed, tick, now_ns, n, "dice"))
    with np.errstate(over="ignore"):
        mixed = (state ^ keys) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    key = (seed, tick, now_ns, n, "dice")
    assert mixed.tolist() == [random_u64(*key, agent_id) for agent_id in agent_ids]
    units = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    assert units.tolist() == [random_unit(*key, agent_id) for agent_id in agent_ids]


def test_draws_are_in_their_range_and_about_even():
    rolls = Counter(randint_below(6, 0, 0, 0, n, "die", "alice") for n in range(3000))
    assert set(rolls) == set(range(6))
    assert max(rolls.values()) < 600
    rolls = Counter(randint_below(6, 0, 0, 0, 0, "die", f"alice:{n}") for n in range(3000))
    assert max(rolls.values()) < 600
    assert all(0 <= random_unit(0, tick, 0, 0, "u", "alice") < 1 for tick in range(300))
    assert randint_below(1, 0, 0, 0, 0, "", "") == 0
    with pytest.raises(ValueError, match="a draw needs a bound of at least 1, an int, got 0"):
        randint_below(0, 0, 0, 0, 0, "", "")


def test_mixing_is_spread_and_depends_on_every_word():
    words = [mix64(a, b) for a in range(30) for b in range(30)]
    assert len(set(words)) == 900
    assert all(0 <= word < 2**64 for word in words)
    tops = [len(list(same)) for _, same in groupby(sorted(word >> 61 for word in words))]
    assert len(tops) == 8
    assert max(tops) < 150


def test_the_draws_of_a_moment_are_those_before_any_intent():
    draws = MomentDraws(7, 3, 1_500_000_000)
    words = 7, 3, 1_500_000_000, 0, "dice", "ann"
    assert draws.random("dice", "ann") == random_unit(*words)
    assert draws.randint_below(6, "dice", "ann") == randint_below(6, *words)
    assert draws.randint_below(np.int64(6), "dice", "ann") in range(6)  # type: ignore[arg-type]  # a policy may pass it
    view = View(0, 0.0, "ann", {}, draws=draws)
    assert view.random("dice") == draws.random("dice", "ann")
    assert view.randint_below(6, "dice") == draws.randint_below(6, "dice", "ann")
    with pytest.raises(ValueError, match="was made by hand and has no random numbers"):
        View(0, 0.0, "ann", {}).random("dice")


@pytest.mark.parametrize(
    ("draw", "why"),
    [
        (lambda view: view.randint_below("way", 4), r"got randint_below\('way', 4\)"),
        (lambda view: view.random(4), "the purpose of a draw is its name, such as 'way', got 4"),
    ],
)
def test_a_draw_with_swapped_or_other_arguments_is_a_type_error(draw, why):
    with pytest.raises(TypeError, match=why):
        draw(View(0, 0.0, "ann", {}, draws=MomentDraws(7, 3, 1)))


def test_a_misspelled_draw_of_a_view_is_answered_with_the_nearest():
    view = View(0, 0.0, "ann", {}, draws=MomentDraws(7, 3, 1))
    with pytest.raises(AttributeError, match="a view has no 'random_unit'; did you mean 'random'"):
        view.random_unit("way")
    with pytest.raises(AttributeError) as raised:
        view.random.choice([1, 2])  # type: ignore[attr-defined]  # as of Python's module
    assert "view.random" in describe_error(raised.value)


def test_the_settings_of_a_view_are_answered_with_where_a_policy_reads_them():
    view = View(0, 0.0, "ann", {})
    with pytest.raises(AttributeError, match="a view has no 'settings': a policy that is a class"):
        view.settings  # noqa: B018 # the attribute is asked for
