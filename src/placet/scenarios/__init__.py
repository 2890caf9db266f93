"""Scenarios: worlds described in TOML, and the scripted policies of their agents.

    loader (TOML, overrides) > scenario (validated values) > policies > runner

A runner opens the domain, registers the agents, and once per tick passes a view to every policy:

    scenario = load("town", overrides=["ticks=50"])
    domain = open_domain(scenario, World)
    for member in scenario.members():
        handle = await orchestrator.register_agent(member.agent_id, **member.attributes)
        policy = make_policy(member, scenario, handle.intent)
    ...
    intents = list(policy.propose(view))  # handle.intent fills in view.view_seq as context_seq
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

__all__ = [
    "AgentCohort",
    "IntentFactory",
    "Member",
    "ObjectSort",
    "Scenario",
    "ScenarioError",
    "ScriptedPolicy",
    "bundled",
    "load",
    "make_policy",
    "open_domain",
]
