"""The example ship of the specification, and all phases run over it."""

from placet_design.phases import PHASES

SHIP = {
    "hull.lwl": 57.0,
    "hull.beam": 12.0,
    "hull.draft": 3.6,
    "hull.depth": 6.0,
    "hull.cb": 0.52,
    "hull.cm": 0.88,
    "propulsion.num_propellers": 2,
    "propulsion.propeller_diameter_m": 2.4,
    "propulsion.total_installed_power_kw": 3000.0,
    "mission.cruise_speed_kts": 13.0,
    "mission.max_speed_kts": 15.0,
    "mission.range_nm": 3000.0,
    "mission.crew_berthed": 20,
    "mission.passengers": 12,
    "assumptions.lcb_percent": -1.0,
    "assumptions.appendage_area_m2": 25.0,
    "assumptions.appendage_factor": 2.0,
    "assumptions.pitch_ratio": 1.0,
    "assumptions.sfc_g_per_kwh": 205.0,
    "assumptions.steel_factor": 0.045,
    "assumptions.outfit_t_per_m2": 0.25,
    "assumptions.double_bottom_m": 1.0,
    "assumptions.shaft_efficiency": 0.97,
    "assumptions.sea_margin": 0.15,
    "assumptions.mcr_fraction": 0.90,
}


def run_all(state=None, **changes):
    """Run every phase in order; a change's dots are written as double underscores."""
    values = {**(SHIP if state is None else state)}
    values |= {path.replace("__", "."): value for path, value in changes.items()}
    outcomes = {}
    for phase in PHASES.values():
        outcomes[phase.name] = outcome = phase.run(
            {path: values.get(path) for path in phase.inputs}
        )
        values |= {f"{phase.name}:{name}": value for name, value in outcome.outputs.items()}
    return outcomes


def flags(outcome):
    """Return the flags as (code, at)."""
    return [(flag.code, flag.at) for flag in outcome.flags]
