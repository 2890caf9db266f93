"""Scenarios: worlds described in TOML, and the scripted policies of their agents.

    scenario (values) < loader (TOML, overrides) < variants; loader > setup > engine > report

`engine.run_scenario` runs a scenario by a kernel in the caller's thread (`kernel_runner`), or where
it needs actors by an `Orchestrator` (`runner`). Once per tick both pass a view to every policy.
`Simulation` is the kernel's runner for a program that brings its own domain and policies.
"""

from placet.scenarios.loader import bundled, load, open_domain
from placet.scenarios.policies import IntentFactory, ScriptedPolicy, make_policy
from placet.scenarios.scenario import (
    AgentCohort,
    Member,
    ObjectSort,
    Scenario,
    ScenarioError,
)
from placet.scenarios.variants import from_dataframe, product, with_values

__all__ = [
    "AgentCohort",
    "IntentFactory",
    "Member",
    "ObjectSort",
    "Scenario",
    "ScenarioError",
    "ScriptedPolicy",
    "bundled",
    "from_dataframe",
    "load",
    "make_policy",
    "open_domain",
    "product",
    "with_values",
]
