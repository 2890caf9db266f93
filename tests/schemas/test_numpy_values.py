"""Numbers and arrays of numpy become Python's; numpy is no dependency of the pure packages."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from placet.schemas.codec import freeze, from_numpy, thaw, without_numpy
from placet.schemas.json_value import InvalidJsonValue, TooLarge, to_json_value

SCALARS = st.one_of(
    [
        arrays.from_dtype(np.dtype(name), allow_nan=False, allow_infinity=False)
        for name in ("?", "i1", "u1", "i2", "i4", "u4", "i8", "f2", "f4", "f8")
    ]
)
ARRAYS = arrays.arrays(
    st.sampled_from(["?", "i4", "i8", "f4", "f8"]),
    arrays.array_shapes(min_dims=0, max_dims=3, max_side=3),
    elements={"allow_nan": False, "allow_infinity": False},
)
NUMPY = SCALARS | ARRAYS
NESTED = st.recursive(
    NUMPY | st.integers(-9, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@given(NESTED)
def test_every_way_into_a_world_makes_the_same_plain_values_of_numpy(value):
    expected = plain(value)
    for made in (
        thaw(freeze(value)),
        to_json_value(value, 64, 10_000),
        without_numpy(value),
        without_numpy(("x", value))[1],
    ):
        assert repr(made) == repr(expected) or made == expected
        assert repr(without_numpy(made)) == repr(made)
        assert "np." not in repr(made)
        assert "array" not in repr(made)


@pytest.mark.parametrize(
    "value",
    [
        np.longdouble(1),
        np.datetime64("2026-01-01"),
        np.complex128(1j),
        np.array([object()]),
        np.random.default_rng(1),
        np.int64,
        np.add,
        np.bytes_(b"x"),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, '__name__', '')}",
)
def test_a_value_of_numpy_that_is_no_json_is_refused_at_once(value):
    with pytest.raises(TypeError, match=r"must be plain JSON, got .*; convert it to numbers"):
        freeze({"a": [value]})
    with pytest.raises(InvalidJsonValue, match="JSON has no"):
        to_json_value([value], 64, 10_000)


@pytest.mark.parametrize("value", [np.float64("nan"), np.array([np.inf])])
def test_a_number_of_numpy_must_be_finite(value):
    with pytest.raises(ValueError, match="must be finite"):
        freeze(value)
    with pytest.raises(InvalidJsonValue, match="must be finite"):
        to_json_value(value, 64, 10_000)


def test_a_huge_array_is_refused_before_it_becomes_a_list():
    huge = np.broadcast_to(np.float64(0), (10**9, 10**3))
    with pytest.raises(TooLarge):
        to_json_value({"a": huge}, 64, 10_000)


def test_a_value_without_numpy_stays_the_same_object():
    value = {"a": [1, (2.5, None)], "b": {"c": print}}
    assert without_numpy(value) is value
    cycle: list[object] = [np.int64(1)]
    cycle.append(cycle)
    assert without_numpy(cycle, 3)[0] == 1
    assert from_numpy(print) is print


def test_a_world_runs_where_there_is_no_numpy():
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from placet import Simulation\n"
        "from placet.lab import Scenario\n"
        "town = Scenario.load('town', overrides=['ticks=2']).with_agents(5)\n"
        "print(Simulation(town, seed=1).run().digest)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert len(done.stdout.strip()) == 32
