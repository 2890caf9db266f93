"""Scenarios: worlds described in TOML, and the scripted policies of their agents.

    values < loader (TOML, overrides) < scenario > opening > setup > engine > report

`engine.run_scenario` runs a scenario by a kernel in the caller's thread (`kernel_runner`), or where
it needs actors by an `Orchestrator` (`runner`). Once per tick both pass a view to every policy.
`Simulation` is the kernel's runner for a program that brings its own domain and policies.
"""

from typing import Final

from placet.scenarios.loader import bundled
from placet.scenarios.opening import open_domain
from placet.scenarios.policies import IntentFactory, ScriptedPolicy
from placet.scenarios.scenario import Scenario
from placet.scenarios.scenario_agent import make_policy
from placet.scenarios.values import AgentCohort, Member, ObjectSort, ScenarioError
from placet.schemas.portrayal import Portrayal

load: Final = Scenario.load

__all__ = [
    "AgentCohort",
    "IntentFactory",
    "Member",
    "ObjectSort",
    "Portrayal",
    "Scenario",
    "ScenarioError",
    "ScriptedPolicy",
    "bundled",
    "load",
    "make_policy",
    "open_domain",
]
