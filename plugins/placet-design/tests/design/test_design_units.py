"""Units: every pair against pint, the specified pairs by name, and invalid pairs."""

import re

import pint
import pytest

from placet_design.units import (
    DIMENSIONS,
    UnitConversionError,
    UnitConverter,
    clamp_to_bounds,
)

PINT = {
    "nm": "nautical_mile", "nmi": "nautical_mile", "kts": "knot", "kn": "knot", "km/h": "km/hour",
    "mph": "mile/hour", "hp": "horsepower", "PS": "metric_horsepower", "t": "metric_ton",
    "mt": "metric_ton", "lb": "pound", "m2": "m**2", "ft2": "ft**2", "m3": "m**3", "gal": "gallon",
    "in": "inch", "deg": "degree", "rad": "radian", "l": "liter",
}  # fmt: skip
PAIRS = [(a, b) for known in DIMENSIONS.values() for a in known for b in known if a != b]

# 44 pairs between the units that the seed and its table name.
SEED_PAIRS_TEXT = """
m>ft ft>m m>mm mm>m ft>mm mm>ft m>km km>m nm>km km>nm nm>m m>nm in>m m>in in>mm mm>in
kts>m/s m/s>kts kts>km/h km/h>kts m/s>km/h km/h>m/s mph>kts kts>mph
MW>kW kW>MW hp>kW kW>hp hp>MW MW>hp W>kW kW>W
mt>kg kg>mt t>kg kg>t lb>kg kg>lb
deg>rad rad>deg m2>ft2 ft2>m2 l>m3 m3>l
"""
SEED_PAIRS = SEED_PAIRS_TEXT.split()


@pytest.fixture(scope="module")
def oracle():
    return pint.UnitRegistry()


@pytest.mark.parametrize(("from_unit", "to_unit"), PAIRS, ids=lambda unit: unit)
def test_pair_agrees_with_pint(oracle, from_unit, to_unit):
    wide = oracle.Quantity(1.0, PINT.get(from_unit, from_unit)).to(PINT.get(to_unit, to_unit))
    assert UnitConverter.factor(from_unit, to_unit) == pytest.approx(wide.magnitude, rel=1e-12)
    assert UnitConverter.convert(7.3, from_unit, to_unit) == pytest.approx(
        7.3 * wide.magnitude, rel=1e-12
    )


def test_all_44_pairs_of_the_seed_exist():
    assert len(set(SEED_PAIRS)) == 44
    for pair in SEED_PAIRS:
        assert UnitConverter.can_convert(*pair.split(">")), pair


@pytest.mark.parametrize(
    ("value", "from_unit", "to_unit", "expected"),
    [
        (1, "MW", "kW", 1000), (1, "hp", "kW", 0.7457), (1, "ft", "m", 0.3048),
        (1, "nm", "km", 1.852), (1, "kts", "m/s", 0.514444), (1, "mt", "kg", 1000),
        (1, "deg", "rad", 0.017453),
    ],
)  # fmt: skip
def test_factor_is_as_specified(value, from_unit, to_unit, expected):
    assert UnitConverter.normalize(value, from_unit, to_unit) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("from_unit", "to_unit"), PAIRS, ids=lambda unit: unit)
def test_converting_there_and_back_returns_the_value(from_unit, to_unit):
    there = UnitConverter.convert(123.456, from_unit, to_unit)
    assert UnitConverter.convert(there, to_unit, from_unit) == pytest.approx(123.456, rel=1e-15)


def test_a_unit_converts_to_itself_exactly():
    for unit in UnitConverter.get_supported_units():
        assert UnitConverter.convert(0.1, unit, unit) == 0.1


def test_units_are_as_specified():
    assert " ".join(UnitConverter.get_supported_units()) == (
        "m ft mm in km nm nmi m/s km/h kts kn mph W kW MW hp PS kg t mt lb m2 ft2 m3 l gal "
        "Pa kPa bar psi rad deg"
    )
    assert len(DIMENSIONS) == 8


@pytest.mark.parametrize(
    ("from_unit", "to_unit", "says"),
    [
        ("MW", "m", "'MW' does not convert to 'm'; it converts to W, kW, MW, hp, PS"),
        ("mW", "kW", "unit 'mW' is unknown"),
        ("m", "", "unit '' is unknown"),
    ],
)
def test_an_unknown_pair_of_units_is_refused(from_unit, to_unit, says):
    assert not UnitConverter.can_convert(from_unit, to_unit)
    for ask in (UnitConverter.factor, lambda a, b: UnitConverter.convert(1.0, a, b)):
        with pytest.raises(UnitConversionError, match=re.escape(says)) as raised:
            ask(from_unit, to_unit)
        assert (raised.value.from_unit, raised.value.to_unit) == (from_unit, to_unit)


def test_clamp_keeps_values_within_the_bounds():
    assert clamp_to_bounds(150, 0, 100) == (100, True)
    assert clamp_to_bounds(-1.0, 0.0, 100.0) == (0.0, True)
    assert clamp_to_bounds(100, 0, 100) == (100, False)
    assert clamp_to_bounds(1e9, 0, None) == (1e9, False)
    assert clamp_to_bounds(-1e9, None, 0) == (-1e9, False)
