"""Laws of the phases: no value makes one raise, and results follow physical laws."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.design.phases.chain import run_all

from placet_design.phases import PHASES
from placet_design.phases.compliance import criteria
from placet_design.phases.hydrodynamics import holtrop
from placet_design.phases.hydrodynamics.hull_form import HullForm
from placet_design.phases.hydrodynamics.powering import attainable_speed_kts
from placet_design.phases.stability import (
    deck_edge_angle_deg,
    gm_m,
    righting_area_m_rad,
    righting_lever_m,
    roll_period_s,
)
from placet_design.phases.weight import (
    lightship,
)
from placet_design.refinable_fields import REFINABLE_SCHEMA
from tests.levels import examples

CODES = {
    "input_missing",
    "input_invalid",
    "out_of_range",
    "inconsistent",
    "not_assessable",
    "not_met",
}
READINGS = {
    path: reading
    for phase in PHASES.values()
    for reading in phase.readings
    for path in (reading.path, reading.instead)
    if path and ":" not in path
}


def a_value(path):
    """Anything within the bounds of a field, or of an assumption."""
    field, reading = REFINABLE_SCHEMA.get(path), READINGS[path]
    if field is None:
        return st.floats(reading.low, reading.high)
    if field.values:
        return st.sampled_from(field.values)
    assert field.min_value is not None
    assert field.max_value is not None
    if field.type == "int":
        return st.integers(int(field.min_value), int(field.max_value))
    return st.floats(field.min_value, field.max_value)


DESIGNS = st.fixed_dictionaries(
    {path: a_value(path) for path in READINGS if not path.startswith("assumptions.")},
    optional={path: a_value(path) for path in READINGS if path.startswith("assumptions.")},
)


def assert_sound(outcomes):
    for name, outcome in outcomes.items():
        assert outcome.has_outputs or outcome.flags
        assert {flag.code for flag in outcome.flags} <= CODES
        assert all(flag.at and flag.message for flag in outcome.flags)
        assert outcome.method == PHASES[name].method
        assert all(map(math.isfinite, leaves(outcome.outputs)))


def leaves(value):
    """Return every number in the outputs."""
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, list):
        return [leaf for part in value for leaf in leaves(part)]
    return [value] if isinstance(value, float) else []


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(DESIGNS)
def test_no_design_within_bounds_makes_a_phase_raise(state):
    assert_sound(run_all(state))


@pytest.mark.soak
@settings(max_examples=examples(2000), suppress_health_check=[HealthCheck.too_slow])
@given(DESIGNS)
def test_no_design_within_bounds_makes_a_phase_raise_in_a_long_run(state):
    assert_sound(run_all(state))


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)


@settings(max_examples=examples(200))
@given(st.data())
def test_no_value_at_all_makes_a_phase_raise(data):
    phase = data.draw(st.sampled_from(list(PHASES.values())))
    values = {path: data.draw(ANYTHING) for path in phase.inputs}
    assert_sound({phase.name: phase.run(values)})


@settings(max_examples=examples(200))
@given(st.data())
def test_extreme_results_of_other_phases_do_not_make_a_phase_raise(data):
    phase = data.draw(st.sampled_from(list(PHASES.values())))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    values = {path: data.draw(numbers) for path in phase.inputs}
    assert_sound({phase.name: phase.run(values)})


def forms():
    """Ships within the customary range of Holtrop & Mennen."""

    def make(length, ratio, draft_ratio, prismatic, midship):
        beam = length / ratio
        draft = beam / draft_ratio
        volume = prismatic * midship * length * beam * draft
        return HullForm(
            length_m=length,
            beam_m=beam,
            draft_fore_m=draft,
            draft_aft_m=draft,
            displaced_volume_m3=volume,
            midship_coefficient=midship,
            waterplane_coefficient=(1 + 2 * prismatic * midship) / 3,
        )

    return st.builds(
        make,
        st.floats(30, 300),
        st.floats(4.0, 12.0),
        st.floats(2.1, 4.0),
        st.floats(0.56, 0.80),
        st.floats(0.85, 0.99),
    )


@given(forms(), st.floats(0.05, 0.30), st.floats(1.01, 1.2), st.sampled_from([1982, 1984]))
def test_more_speed_takes_more_power(form, fn, factor, year):
    """Resistance itself has humps and hollows; the power rises over a step of 1 % and more."""
    speed = fn * math.sqrt(9.81 * form.length_m)
    slow, fast = (holtrop.resistance(form, speed * k, year) for k in (1.0, factor))
    assert fast.effective_power_kw > slow.effective_power_kw
    assert fast.frictional_kn > slow.frictional_kn


@given(forms(), st.floats(0.05, 0.40), st.sampled_from([1982, 1984]))
def test_every_component_of_the_resistance_is_positive_or_zero(form, fn, year):
    found = holtrop.resistance(form, fn * math.sqrt(9.81 * form.length_m), year)
    assert found.form_factor > 1
    assert min(found.frictional_kn, found.wave_kn, found.total_kn) >= 0
    assert found.bulb_kn == found.transom_kn == found.appendage_kn == 0


@given(forms(), st.floats(1.0, 60.0))
def test_appendages_add_resistance(form, area):
    speed = 0.2 * math.sqrt(9.81 * form.length_m)
    bare = holtrop.resistance(form, speed)
    assert holtrop.resistance(replace(form, appendage_area_m2=area), speed).total_kn > bare.total_kn


@given(st.floats(0.1, 30), st.floats(0, 30), st.floats(0.01, 5))
def test_gm_falls_as_the_center_of_gravity_rises(km, kg, rise):
    assert gm_m(km, kg + rise) < gm_m(km, kg)


@given(st.floats(0.15, 3), st.floats(0.5, 10), st.floats(1, 55))
def test_the_area_is_the_integral_of_the_lever(gm, bm, angle):
    steps = 400
    width = math.radians(angle) / steps
    levers = (righting_lever_m((k + 0.5) * angle / steps, gm, bm) for k in range(steps))
    assert righting_area_m_rad(angle, gm, bm) == pytest.approx(sum(levers) * width, rel=1e-3)


@given(st.floats(0.1, 3), st.floats(1.01, 3), st.floats(0.3, 0.6), st.floats(2, 40))
def test_a_stiffer_ship_rolls_faster(gm, factor, coefficient, beam):
    assert roll_period_s(coefficient, beam, gm * factor) < roll_period_s(coefficient, beam, gm)


@given(st.floats(-1, 20), st.floats(1, 40), st.floats(0.01, 5))
def test_more_freeboard_keeps_the_deck_dry_to_a_larger_angle(freeboard, beam, more):
    assert deck_edge_angle_deg(freeboard + more, beam) > deck_edge_angle_deg(freeboard, beam)


@given(st.floats(20, 300), st.floats(1.01, 1.5))
def test_a_longer_ship_is_heavier(length, factor):
    ship = {
        "beam_m": 12,
        "draft_m": 3.6,
        "depth_m": 6,
        "block_coefficient": 0.52,
        "installed_power_kw": 3000,
        "steel_factor": 0.045,
        "outfit_t_per_m2": 0.25,
        "weight_margin": 0.05,
    }
    short, long = (lightship(length_m=length * k, **ship)["lightship_t"] for k in (1, factor))
    assert long > short


@given(st.floats(2.0, 59.0), st.floats(2.0, 4.0))
def test_the_attainable_speed_takes_exactly_the_installed_power(speed, exponent):
    def required(kts):
        return kts**exponent

    assert attainable_speed_kts(required, required(speed)) == pytest.approx(speed, rel=1e-9)


def test_of_several_speeds_with_the_same_power_the_lowest_is_attained():
    def humped(kts):
        return {True: 10 * kts, False: 5 * kts}[kts < 12] if kts < 30 else 10 * kts

    assert attainable_speed_kts(humped, 100) == pytest.approx(10)


@given(st.floats(-1, 5), st.floats(0.1, 10), st.floats(-10, 80), st.floats(0.15, 5))
def test_a_criterion_is_asserted_only_where_the_formula_holds(gm, bm, edge, required):
    found = {criterion.name: criterion for criterion in criteria(gm, bm, edge, required)}
    assert found["gm"].status == ("met" if gm >= max(0.15, required) else "not_met")
    for name, angle in (("area_0_30", 30), ("area_0_40", 40), ("gz_from_30", 30)):
        assert (found[name].status == "not_assessable") == (edge < angle)
    assert (found["angle_of_max_gz"].status == "met") == (gm > 0 and edge >= 25)


def test_a_deep_hull_is_assessed_to_forty_degrees():
    outcome = run_all(hull__depth=9.0, hull__beam=12.5)["compliance"]
    assert outcome.outputs["status"] == "met"
    assert outcome.flags == ()
