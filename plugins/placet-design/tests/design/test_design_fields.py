"""The whitelist is the specification's table, path by path, and everything else is made of it."""

import pytest
from pydantic import ValidationError

from placet_design import REFINABLE_SCHEMA, Design, DesignState, RefinableField
from placet_design.refinable_fields import find_by_keyword, get_all_refinable_paths
from placet_design.state.design_json import design_model

# path, type, kernel unit, allowed units, least, greatest, keywords: as in the specification
TABLE = """
hull.loa | float | m | m, ft | 5 | 500 | length, loa, overall length, ship length
hull.lwl | float | m | m, ft | 4 | 500 | waterline length, lwl
hull.beam | float | m | m, ft | 1 | 100 | beam, width, breadth
hull.draft | float | m | m, ft | 0.3 | 30 | draft, draught
hull.depth | float | m | m, ft | 0.5 | 50 | depth, hull depth
hull.hull_type | enum | | | | | hull type, catamaran, monohull, trimaran
structural_design.hull_material | enum | | | | | material, aluminum, steel, composite, frp
mission.vessel_type | enum | | | | | vessel type, ferry, patrol, workboat, yacht
hull.cb | float | | | 0.3 | 0.95 | block coefficient, cb
hull.cp | float | | | 0.5 | 0.95 | prismatic coefficient, cp
hull.cm | float | | | 0.7 | 1.0 | midship coefficient, cm
hull.deadrise_deg | float | deg | deg, rad | 0 | 45 | deadrise, deadrise angle
propulsion.total_installed_power_kw | float | kW | kW, MW, hp | 10 | 100000 | power, installed power, propulsion power, engine power, megawatt, mw
propulsion.num_engines | int | | | 1 | 8 | engines, number of engines, engine count
propulsion.num_propellers | int | | | 1 | 8 | propellers, props, screws
propulsion.propeller_diameter_m | float | m | m, ft, mm | 0.3 | 15 | propeller diameter, prop diameter
mission.max_speed_kts | float | kts | kts, m/s, km/h | 1 | 60 | max speed, top speed, maximum speed
mission.cruise_speed_kts | float | kts | kts, m/s, km/h | 1 | 50 | cruise speed, cruising speed, service speed
mission.range_nm | float | nm | nm, km | 10 | 30000 | range, endurance range
mission.crew_berthed | int | | | 0 | 1000 | crew, crew size, berthed crew
mission.passengers | int | | | 0 | 5000 | passengers, pax
mission.gm_required_m | float | m | m, ft | 0.15 | 5.0 | gm, metacentric height, stability
"""  # as it is written there
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
VALUES = {
    "hull.hull_type": "monohull catamaran trimaran swath planing semi_planing displacement "
    "semi_displacement foil_assisted air_cushion",
    "structural_design.hull_material": "aluminum steel frp composite wood cfrp titanium "
    "hybrid_composite grp",
    "mission.vessel_type": "patrol ferry workboat yacht fishing cargo military research tug "
    "passenger offshore pilot sar crew_boat landing_craft other",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_field_is_as_specified(row):
    path, kind, unit, units, low, high, keywords = row
    field = REFINABLE_SCHEMA[path]
    assert (field.path, field.type, field.kernel_unit) == (path, kind, unit)
    assert ", ".join(field.allowed_units) == units
    bounds = tuple(float(bound) if bound else None for bound in (low, high))
    assert (field.min_value, field.max_value) == bounds
    assert ", ".join(field.keywords) == keywords
    assert " ".join(field.values) == VALUES.get(path, "")
    assert field.description


def test_no_field_is_unspecified():
    assert get_all_refinable_paths() == [row[0] for row in ROWS]


def test_longer_keywords_match_before_shorter_ones():
    assert [field.path for field in find_by_keyword("LWL")] == ["hull.lwl"]
    assert [field.path for field in find_by_keyword("  hull   depth ")] == ["hull.depth"]
    assert [field.path for field in find_by_keyword("length")] == ["hull.loa", "hull.lwl"]
    assert [field.path for field in find_by_keyword("hull.cb")] == ["hull.cb"]
    assert find_by_keyword("") == find_by_keyword("warp drive") == []


def test_the_json_schema_of_a_design_is_built_from_the_table():
    schema = design_model().model_json_schema()
    assert schema["$defs"]["hull"]["properties"]["loa"]["anyOf"][0] == {
        "type": "number",
        "description": "Length overall",
        "minimum": 5.0,
        "maximum": 500.0,
        "x-unit": "m",
    }
    described = REFINABLE_SCHEMA["hull.hull_type"].json_schema()
    assert described["enum"][0] == "monohull"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"path": "loa"}, "path"),
        ({"kernel_unit": "m"}, "allowed_units"),
        ({"kernel_unit": "m", "allowed_units": ("m", "kW")}, "does not convert"),
        ({"values": ("a",)}, "enum"),
        ({"type": "enum"}, "enum"),
        ({"min_value": 2, "max_value": 1}, "above"),
        ({"type": "bool", "min_value": 2}, "only a number"),
        ({"min_value": float("nan")}, "finite"),
        ({"steps": {"huge": 1}}, "a_bit"),
        ({"policy": "ignore"}, "clamp"),
    ],
)
def test_an_invalid_field_is_refused_at_its_declaration(wrong, says):
    with pytest.raises(ValidationError, match=says):
        RefinableField(**{"path": "hull.loa", "type": "float", **wrong})


def test_every_path_is_checked_settable_when_the_design_is_created():
    misplaced = {"hull.length": REFINABLE_SCHEMA["hull.loa"]}
    with pytest.raises(ValueError, match=r"hull\.loa.*under.*hull\.length"):
        Design(fields=misplaced)


def test_settings_are_refused_by_name():
    for wrong in ({"policy": "ignore"}, {"undo_max": 0}, {"design_id": "a\nb"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Design(**wrong)
    with pytest.raises(ValueError, match="loa"):
        Design(initial=DesignState(parameters={"hull.loa": 1e9}))


def test_settings_recreate_the_same_design():
    state = DesignState(2, {"hull.loa"}, "ship", {"hull.loa": 60.0})
    for keywords in ({}, {"design_id": "ship", "policy": "reject", "undo_max": 7},
                     {"initial": state}):  # fmt: skip
        design = Design(**keywords)
        given = design.settings()
        assert given is not None
        assert Design(**given).version == design.version
    assert Design().version == "1"
    own = {"hull.loa": REFINABLE_SCHEMA["hull.loa"]}
    assert Design(fields=own).settings() is None
    assert Design(fields=own).version != Design().version
