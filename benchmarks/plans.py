"""What the benchmarks of designs plan."""

PARAMETERS = {
    "hull.loa": 100.0,
    "hull.beam": 15.0,
    "hull.draft": 3.0,
    "hull.cb": 0.5,
    "hull.deadrise_deg": 10.0,
    "mission.range_nm": 1000.0,
    "mission.max_speed_kts": 30.0,
    "mission.gm_required_m": 1.0,
    "propulsion.total_installed_power_kw": 2000.0,
    "propulsion.propeller_diameter_m": 2.0,
}
"""Ten parameters of a ferry: a plan sets all of them, each a little otherwise than before."""
