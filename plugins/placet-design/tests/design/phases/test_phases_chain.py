"""All phases over the example ship: results, read sets and failures."""

import math

import pytest
from tests.design.phases.chain import SHIP, flags, run_all

from placet_design.phases import PHASES, stale_by
from placet_design.phases.phase import Flag, OutOfRangeError, PhaseOutcome, declare, required
from placet_design.phases.weight import structure_weight_t
from placet_design.refinable_fields import REFINABLE_SCHEMA

# phase, output (a point of the power curve before the dot), value
TABLE_B = [
    ("mission", "endurance_h", 230.769),
    ("mission", "froude_cruise", 0.28282),
    ("mission", "froude_max", 0.32633),
    ("mission", "complement", 32),
    ("hull", "prismatic_coefficient", 0.590909),
    ("hull", "displaced_volume_m3", 1280.45),
    ("hull", "displacement_t", 1312.46),
    ("hull", "waterplane_coefficient", 0.68),
    ("hull", "waterplane_area_m2", 465.12),
    ("hull", "tonnes_per_cm", 4.76748),
    ("hull", "center_of_buoyancy_m", 2.08235),
    ("hull", "transverse_inertia_coefficient", 0.041688),
    ("hull", "metacentric_radius_m", 3.20677),
    ("hull", "metacenter_height_m", 5.28912),
    ("hull", "longitudinal_inertia_coefficient", 0.03244),
    ("hull", "longitudinal_metacentric_radius_m", 56.3021),
    ("hull", "wetted_surface_denny_m2", 704.52),
    ("hull", "trim_moment_t_m_per_cm", 12.5454),
    ("hull", "freeboard_m", 2.4),
    ("propulsion", "wetted_surface_m2", 688.89),
    ("propulsion", "cruise.form_factor", 1.2356),
    ("propulsion", "cruise.frictional_coefficient", 0.0017718),
    ("propulsion", "cruise.frictional_kn", 27.978),
    ("propulsion", "cruise.wave_kn", 26.552),
    ("propulsion", "cruise.appendage_kn", 2.0306),
    ("propulsion", "cruise.correlation_kn", 10.175),
    ("propulsion", "cruise.total_kn", 73.329),
    ("propulsion", "cruise.effective_power_kw", 490.40),
    ("propulsion", "cruise.wake_fraction", 0.09182),
    ("propulsion", "cruise.thrust_deduction", 0.10017),
    ("propulsion", "cruise.relative_rotative_efficiency", 0.97854),
    ("propulsion", "cruise.hull_efficiency", 0.99081),
    ("propulsion", "cruise.open_water_efficiency", 0.69524),
    ("propulsion", "cruise.quasi_propulsive_coefficient", 0.67406),
    ("propulsion", "cruise.shaft_power_kw", 750.04),
    ("propulsion", "cruise.required_brake_power_kw", 958.38),
    ("propulsion", "max.wave_kn", 54.065),
    ("propulsion", "max.total_kn", 115.42),
    ("propulsion", "max.effective_power_kw", 890.69),
    ("propulsion", "max.quasi_propulsive_coefficient", 0.66338),
    ("propulsion", "max.shaft_power_kw", 1384.2),
    ("propulsion", "max.required_brake_power_kw", 1768.7),
    ("propulsion", "attainable_speed_kts", 16.633),
    ("weight", "equipment_numeral_m2", 1005.48),
    ("weight", "block_at_depth", 0.573333),
    ("weight", "structure_weight_t", 510.535),
    ("weight", "machinery_weight_t", 371.097),
    ("weight", "outfit_weight_t", 171.0),
    ("weight", "margin_t", 52.632),
    ("weight", "lightship_t", 1105.26),
    ("weight", "fuel_t", 42.845),
    ("weight", "fresh_water_t", 52.308),
    ("weight", "crew_and_effects_t", 5.44),
    ("weight", "provisions_t", 3.077),
    ("weight", "spare_deadweight_t", 103.53),
    ("stability", "kg_hull_m", 2.924),
    ("stability", "kg_machinery_m", 2.75),
    ("stability", "kg_outfit_m", 7.25),
    ("stability", "kg_lightship_m", 3.56542),
    ("stability", "kg_m", 3.46968),
    ("stability", "gm_m", 1.71536),
    ("stability", "roll_coefficient", 0.425157),
    ("stability", "roll_period_s", 7.7908),
    ("stability", "deck_edge_angle_deg", 21.80),
]


@pytest.fixture(scope="module")
def ship():
    return run_all()


@pytest.mark.parametrize(("phase", "output", "expected"), TABLE_B)
def test_the_example_ship_has_the_specified_results(ship, phase, output, expected):
    found = ship[phase].outputs
    for name in output.split("."):
        found = found[name]
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_deck_edge_leaves_the_areas_of_the_example_not_assessable(ship):
    outcome = ship["compliance"]
    found = {row["name"]: row for row in outcome.outputs["criteria"]}
    assert found["area_0_30"]["actual"] == pytest.approx(0.263, abs=5e-4)
    assert found["area_0_40"]["actual"] == pytest.approx(0.516, abs=5e-4)
    assert [row["status"] for row in found.values()] == ["met"] + 5 * ["not_assessable"]
    assert outcome.outputs["status"] == "not_assessable"
    assert flags(outcome) == [("not_assessable", name) for name in found if name != "gm"]
    assert "21.8 deg" in outcome.flags[0].message


def test_the_example_ship_has_no_other_flag(ship):
    assert [name for name, outcome in ship.items() if outcome.flags] == ["compliance"]
    assert all(outcome.has_outputs for outcome in ship.values())


# ------------------------------------------------------------------ what is read


def test_the_registry_is_in_the_order_in_which_phases_depend_on_each_other():
    assert list(PHASES) == ["mission", "hull", "propulsion", "weight", "stability", "compliance"]
    seen: list[str] = []
    for name, phase in PHASES.items():
        assert phase.name == name
        results = {path.split(":")[0] for path in phase.inputs if ":" in path}
        assert set(phase.after) | results <= set(seen)
        seen.append(name)


@pytest.mark.parametrize(
    ("path", "stale"),
    [
        ("hull.beam", ["hull", "propulsion", "weight", "stability", "compliance"]),
        ("mission.range_nm", ["mission", "weight", "stability", "compliance"]),
        ("hull.lwl", list(PHASES)),
        ("hull.loa", list(PHASES)),
        ("mission.max_speed_kts", list(PHASES)[0:1] + list(PHASES)[2:]),
        ("propulsion.total_installed_power_kw", list(PHASES)[2:]),
        ("assumptions.double_bottom_m", ["stability", "compliance"]),
        ("mission.gm_required_m", ["compliance"]),
        ("mission.vessel_type", []),
    ],
)
def test_a_change_makes_exactly_the_phases_that_read_it_stale(path, stale):
    assert list(stale_by([path])) == stale


def test_a_phase_reads_only_parameters_assumptions_and_results(ship):
    for phase in PHASES.values():
        for path in phase.inputs:
            source, _, output = path.partition(":")
            known = output in ship[source].outputs if output else path in REFINABLE_SCHEMA
            assert known or path.startswith("assumptions."), path
        assert len(set(phase.inputs)) == len(phase.inputs)


def test_undeclared_fields_do_not_affect_a_phase():
    values = {**SHIP, "assumptions.color": 1, "hull.paint": "red"}
    assert run_all(values) == run_all()


# A ship with everything on it, so that every input matters; two screws, then one.
EVERYTHING = {
    **SHIP,
    "hull.loa": 60.0,
    "hull.hull_type": "planing",
    "hull.deadrise_deg": 10.0,
    "mission.max_speed_kts": 24.0,
    "mission.gm_required_m": 0.3,
    "mission.range_nm": 20_000.0,  # more fuel than the ship carries: the spare deadweight counts
    "assumptions.bulb_area_m2": 2.0,
    "assumptions.bulb_center_m": 1.5,
    "assumptions.transom_area_m2": 5.0,
    "assumptions.stern_shape": 5.0,
    "assumptions.payload_t": 10.0,
    "assumptions.superstructure_m2": 50.0,
}


@pytest.mark.parametrize(
    ("phase", "path"),
    [
        (name, path)
        for name, phase in PHASES.items()
        for path in phase.inputs
        if path not in {"hull.loa", "hull.cp", "structural_design.hull_material"}
    ],
)
def test_every_declared_input_is_used(phase, path):
    """An unused input would make results stale without a reason."""
    changed = []
    for screws in (1, 2):
        values = {**EVERYTHING, "propulsion.num_propellers": screws}
        for name, outcome in run_all(values).items():
            values |= {f"{name}:{output}": value for output, value in outcome.outputs.items()}
        run = PHASES[phase].run
        declared = {reading.path: reading for reading in PHASES[phase].readings}
        before = values.get(path, declared[path].default)
        after = (
            before * 1.01
            if isinstance(before, float)
            else {"planing": "swath", 1: 2, 2: 1}.get(before, 99)
        )
        found = [run(values), run({**values, path: after})]
        changed.append(found[0].outputs.keys() and without_assumptions(found))
    assert any(changed)


def without_assumptions(outcomes):
    """Do two outcomes differ in more than the assumptions that they list?"""
    first, second = ({**outcome.outputs, "assumptions": None} for outcome in outcomes)
    return first != second or outcomes[0].flags != outcomes[1].flags


def test_machinery_weight_depends_on_the_installed_power():
    """In the example power and range are the same number."""
    found = run_all(propulsion__total_installed_power_kw=4000.0, mission__range_nm=2000.0)
    assert found["weight"].outputs["machinery_weight_t"] == pytest.approx(0.72 * 4000**0.78)
    assert found["mission"].outputs["endurance_h"] == pytest.approx(2000 / 13)


def test_every_assumption_is_listed_with_its_source_and_can_be_overridden(ship):
    for name, phase in PHASES.items():
        listed = ship[name].outputs["assumptions"]
        declared = {reading.name for reading in phase.readings if reading.source}
        assert set(listed) == declared - {"length_m"}
        assert all(row["source"] for row in listed.values())
    propulsion = ship["propulsion"].outputs["assumptions"]
    assert propulsion["lcb_percent"] == {
        "path": "assumptions.lcb_percent",
        "value": -1.0,
        "is_given": True,
        "source": "center of buoyancy amidships; percent of L",
    }
    assert propulsion["open_water_fraction"]["is_given"] is False
    other = run_all(assumptions__sfc_g_per_kwh=190.0)["weight"].outputs["fuel_t"]
    assert other == pytest.approx(ship["weight"].outputs["fuel_t"] * 190 / 205)


def test_a_missing_waterline_length_falls_back_to_length_overall_with_a_note():
    state = {**SHIP, "hull.loa": 57.0, "hull.lwl": None}
    outcome = run_all(state)["hull"]
    assert outcome.outputs["displacement_t"] == pytest.approx(1312.46, rel=1e-4)
    assert outcome.outputs["assumptions"]["length_m"]["value"] == 57.0
    assert "hull.loa" in PHASES["hull"].inputs


# ------------------------------------------------------------------ what cannot be computed


@pytest.mark.parametrize(
    ("phase", "path"),
    [
        (name, reading.path)
        for name, phase in PHASES.items()
        for reading in phase.readings
        if not reading.is_optional and reading.default is None and ":" not in reading.path
    ],
)
def test_a_missing_input_is_named(phase, path):
    outcome = run_all({**SHIP, path: None})[phase]
    assert not outcome.has_outputs
    assert ("input_missing", path) in flags(outcome)
    assert outcome.method == PHASES[phase].method


def test_a_failed_phase_is_named_by_the_phases_that_need_it():
    outcomes = run_all(hull__beam=None)
    assert flags(outcomes["stability"])[0] == ("input_missing", "hull.beam")
    missing = {flag.at: flag.message for flag in outcomes["compliance"].flags}
    assert (
        missing["stability:gm_m"] == "stability:gm_m has no value; run the phase 'stability' first"
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("hull.beam", True, "hull.beam must be a finite number, not a bool"),
        ("hull.beam", "12", "hull.beam must be a finite number, not a str"),
        ("hull.beam", math.nan, "hull.beam must be a finite number, not a float"),
        ("hull.beam", 10**400, "hull.beam must be a finite number, not a int"),
        ("hull.beam", -1, "hull.beam is -1 and must be at least 0.001"),
        ("hull.hull_type", 3, "hull.hull_type must be a word, not a int"),
        (
            "assumptions.density_t_per_m3",
            1000,
            "assumptions.density_t_per_m3 is 1000 and must be at most 1.05",
        ),
    ],
)
def test_an_invalid_input_is_named_with_its_bound(path, value, message):
    outcome = PHASES["hull"].run({**SHIP, path: value})
    assert outcome.outputs == {}
    assert outcome.flags == (Flag("input_invalid", message, path),)


def overflow(values):
    return PhaseOutcome({"power": math.exp(values["x"])}, (), "m")


def infinite(values):
    return PhaseOutcome({"power": [{"kw": values["x"] * 1e308}]}, (), "m")


@pytest.mark.parametrize("compute", [overflow, infinite])
def test_float_overflow_is_an_out_of_range_result_not_an_exception(compute):
    phase = declare("p", "m", (), (required("a.x", "x"),), compute)
    assert phase.run({"a.x": 1}).has_outputs
    outcome = phase.run({"a.x": 1000})
    assert (outcome.outputs, flags(outcome)) == ({}, [("out_of_range", "m")])


FLAGGED = [
    ({"mission__cruise_speed_kts": 16}, "mission", ("inconsistent", "mission.cruise_speed_kts")),
    ({"hull__hull_type": "catamaran"}, "hull", ("out_of_range", "hull.hull_type")),
    ({"hull__cp": 0.5969}, "hull", ("inconsistent", "hull.cp")),
    ({"hull__cb": 0.9, "hull__cm": 0.8}, "hull", ("out_of_range", "prismatic_coefficient")),
    ({"hull__draft": 6.5}, "hull", ("inconsistent", "hull.draft")),
    ({"hull__beam": 16.0}, "propulsion", ("out_of_range", "length_to_beam")),
    (
        {"propulsion__num_propellers": 3},
        "propulsion",
        ("out_of_range", "propulsion.num_propellers"),
    ),
    (
        {"propulsion__total_installed_power_kw": 1700},
        "propulsion",
        ("not_met", "propulsion.total_installed_power_kw"),
    ),
    (
        {"propulsion__total_installed_power_kw": 0.1},
        "propulsion",
        ("out_of_range", "attainable_speed_kts"),
    ),
    (
        {"propulsion__total_installed_power_kw": 1e6},
        "propulsion",
        ("out_of_range", "attainable_speed_kts"),
    ),
    (
        {"structural_design__hull_material": "aluminum"},
        "weight",
        ("out_of_range", "structural_design.hull_material"),
    ),
    ({"mission__range_nm": 20_000}, "weight", ("not_met", "spare_deadweight_t")),
    ({"mission__range_nm": 20_000}, "stability", ("out_of_range", "weight:spare_deadweight_t")),
    ({"hull__beam": 7.5}, "stability", ("not_met", "gm_m")),
    (
        {"assumptions__double_bottom_m": 7.0},
        "stability",
        ("out_of_range", "assumptions.double_bottom_m"),
    ),
    ({"hull__lwl": 1100.0}, "stability", ("out_of_range", "roll_coefficient")),
    ({"mission__gm_required_m": 1.8}, "compliance", ("not_met", "gm")),
]


@pytest.mark.parametrize(("changes", "phase", "flag"), FLAGGED)
def test_a_result_outside_its_range_of_validity_is_flagged(changes, phase, flag):
    outcome = run_all(**changes)[phase]
    assert flag in flags(outcome)
    assert outcome.has_outputs
    assert flag not in flags(run_all()[phase])


def test_one_failed_criterion_makes_the_status_not_met():
    outcome = run_all(mission__gm_required_m=1.8)["compliance"]
    assert outcome.outputs["status"] == "not_met"


def test_a_given_prismatic_coefficient_may_differ_by_one_percent():
    assert flags(run_all(hull__cp=0.5965)["hull"]) == []


def test_beyond_a_hard_bound_there_are_no_outputs_and_the_bound_is_named():
    outcome = run_all(hull__cb=0.9, hull__cm=0.8)["propulsion"]
    assert (outcome.outputs, flags(outcome)) == ({}, [("out_of_range", "prismatic_coefficient")])
    assert "0.25 < Cp < 0.95" in outcome.flags[0].message


def test_a_material_with_an_assumed_factor_is_not_flagged():
    changes = {"structural_design__hull_material": "aluminum", "assumptions__steel_factor": 0.02}
    assert flags(run_all(**changes)["weight"]) == []


@pytest.mark.parametrize(("numeral", "block"), [(-1.0, 0.6), (1000.0, -1.4)])
def test_a_structure_without_a_positive_numeral_has_no_weight(numeral, block):
    with pytest.raises(OutOfRangeError) as caught:
        structure_weight_t(numeral, block, 0.045)
    assert caught.value.at == "equipment_numeral_m2"


def test_a_ship_without_stability_has_no_roll_period():
    outcome = run_all(hull__beam=7.5)["stability"]
    assert outcome.outputs["gm_m"] < 0
    assert outcome.outputs["roll_period_s"] is None
