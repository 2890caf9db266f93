"""Savitsky's planing hull against the worked example of his paper, and beside Holtrop's."""

import math

import pytest
from tests.design.phases.chain import SHIP, flags, run_all

from placet_design.phases.hydrodynamics.savitsky import (
    flat_lift_coefficient,
    planing,
    wetted_length_ratio,
)
from placet_design.phases.phase import OutOfRangeError

POUND_T = 0.45359237e-3
FOOT_M = 0.3048
BOAT = {
    "displacement_t": 60_000 * POUND_T,
    "beam_m": 14 * FOOT_M,
    "gravity_from_transom_m": 29 * FOOT_M,
    "deadrise_deg": 10.0,
    "speed_m_per_s": 40 * 1852 / 3600,
}


def test_the_worked_example_of_1964_is_reproduced():
    """The paper's hull at 40 knots. It reads C_L0 = 0.085 off a figure; the equation has 0.0821."""
    found, remarks = planing(**BOAT)
    assert remarks == ()
    assert found.speed_coefficient == pytest.approx(3.18, rel=1e-3)
    assert found.wetted_length_ratio == pytest.approx(3.43, rel=5e-3)
    assert found.flat_lift_coefficient == pytest.approx(0.085, rel=0.04)
    assert found.trim_deg == pytest.approx(2.30, rel=0.04)


def test_the_equilibrium_carries_the_weight_at_the_center_of_gravity():
    found, _ = planing(**BOAT)
    ratio, speed, trim = found.wetted_length_ratio, found.speed_coefficient, found.trim_deg
    flat = trim**1.1 * (0.0120 * ratio**0.5 + 0.0055 * ratio**2.5 / speed**2)
    lift = flat - 0.0065 * 10 * flat**0.6
    newtons = lift * 0.5 * 1025 * BOAT["speed_m_per_s"] ** 2 * BOAT["beam_m"] ** 2
    assert newtons == pytest.approx(BOAT["displacement_t"] * 9810, rel=1e-9)
    lever = (0.75 - 1 / (5.21 * speed**2 / ratio**2 + 2.39)) * ratio * BOAT["beam_m"]
    assert lever == pytest.approx(BOAT["gravity_from_transom_m"], rel=1e-9)
    assert found.total_kn > BOAT["displacement_t"] * 9.81 * math.tan(math.radians(trim))
    assert found.effective_power_kw == pytest.approx(found.total_kn * BOAT["speed_m_per_s"])


def test_without_deadrise_the_lift_is_that_of_a_flat_plate():
    assert flat_lift_coefficient(0.07, 0.0) == pytest.approx(0.07)
    assert flat_lift_coefficient(0.07, 20.0) > flat_lift_coefficient(0.07, 10.0) > 0.07


def test_resistance_of_the_hull_in_kn():
    """Weight times tan τ, 10.4 kN, and the friction of the bottom: about 41 kN, 9 100 lbf."""
    assert planing(**BOAT)[0].total_kn == pytest.approx(40.7, rel=2e-3)


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"gravity_from_transom_m": 10.7}, ["trim_deg", "wetted_length_ratio"]),
        ({"speed_m_per_s": 40.0, "gravity_from_transom_m": 10.0}, ["trim_deg"]),
        ({"displacement_t": 10.0, "speed_m_per_s": 90.0}, ["speed_coefficient", "trim_deg"]),
    ],
)
def test_outside_savitskys_range_every_bound_is_named(change, at):
    _, remarks = planing(**{**BOAT, **change})
    assert [flag.at for flag in remarks] == at
    assert all("Savitsky 1964 holds from" in flag.message for flag in remarks)


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"gravity_from_transom_m": 500.0}, "wetted_length_ratio"),
        ({"displacement_t": 1e6}, "lift_coefficient"),
        ({"gravity_from_transom_m": 0.5, "speed_m_per_s": 5.0}, "trim_deg"),
        ({"gravity_from_transom_m": 1.0, "speed_m_per_s": 10.0}, "trim_deg"),
    ],
)
def test_a_hull_that_cannot_plane_is_refused_with_the_quantity(change, at):
    with pytest.raises(OutOfRangeError) as caught:
        planing(**{**BOAT, **change})
    assert caught.value.at == at


def test_a_ratio_of_wetted_lengths_rises_with_speed_for_the_same_center():
    assert wetted_length_ratio(2.0, 1.0) > wetted_length_ratio(2.0, 5.0)


PLANING_SHIP = {
    **SHIP,
    "hull.lwl": 20.0,
    "hull.beam": 5.0,
    "hull.draft": 1.0,
    "hull.depth": 2.5,
    "hull.cb": 0.45,
    "hull.cm": 0.75,
    "hull.hull_type": "planing",
    "hull.deadrise_deg": 15.0,
    "mission.max_speed_kts": 35.0,
    "propulsion.propeller_diameter_m": 0.9,
    "assumptions.appendage_area_m2": 2.0,
}


def test_a_planing_hull_with_deadrise_has_savitsky_and_holtrop_results():
    outcome = run_all(PLANING_SHIP)["propulsion"]
    beside = outcome.outputs["planing"]
    assert beside["method"] == "savitsky-1964"
    assert 2 < beside["trim_deg"] < 15
    assert ("out_of_range", "froude") in flags(outcome)  # ... of Holtrop, at 35 kts


@pytest.mark.parametrize("change", [{"hull__hull_type": "monohull"}, {"hull__deadrise_deg": None}])
def test_other_hulls_have_no_planing_result(change):
    assert "planing" not in run_all(PLANING_SHIP, **change)["propulsion"].outputs


def test_a_planing_hull_that_cannot_plane_is_flagged():
    outcome = run_all(PLANING_SHIP, mission__max_speed_kts=1.0)["propulsion"]
    assert outcome.outputs["planing"] is None
    assert any(flag.message.startswith("planing: ") for flag in outcome.flags)
