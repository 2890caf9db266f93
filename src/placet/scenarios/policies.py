"""Scripted policies: the interface between a scenario and its agents.

A bundled policy is a function of its view, its agent's name and the seed. It has no memory and
draws random values by name, so a run is reproducible in whatever order its agents are scheduled.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from placet.runtime.plugins import import_from_here
from placet.scenarios.scenario import Member, Scenario
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View


class IntentFactory(Protocol):
    """Creates an intent of one agent; `AgentHandle.intent` is one."""

    def __call__(self, kind: str, /, **payload: Json) -> Intent:
        """Return an intent with all fields but kind and payload filled in."""


class ScriptedPolicy(Protocol):
    """Protocol of a policy that decides for one agent of a scenario.

    An `AgentActor` accepts it as a policy too.
    """

    def propose(self, view: View) -> Iterable[Intent]:
        """Return the agent's next batch, which may be empty.

        The cost depends on the parts of the view that it reads.
        """


PolicyFactory: TypeAlias = Callable[[Member, Scenario, IntentFactory], ScriptedPolicy]

BUNDLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "townsfolk": "placet.scenarios.builtin.town:Townsfolk",
        "merchant": "placet.scenarios.builtin.town:Merchant",
        "child": "placet.scenarios.builtin.town:Child",
        "crier": "placet.scenarios.builtin.town:Crier",
        "grabber": "placet.scenarios.builtin.rush:Grabber",
    }
)


def find_policy(name: str) -> PolicyFactory:
    """Return a bundled policy by name, or any other as `module:attribute`.

    Raises:
        LookupError: The policy does not exist, or its module cannot be imported.
    """
    path = BUNDLED.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        near = get_close_matches(name, BUNDLED, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"bundled are {', '.join(BUNDLED)}"
        raise LookupError(f"there is no policy {name!r}; {hint}; your own is module:attribute")
    try:
        policy = getattr(import_from_here(module_name), attribute, None)
    except ImportError as error:
        raise LookupError(f"policy {name!r} cannot be imported: {error}") from error
    if not callable(policy):
        raise LookupError(f"policy {name!r}: {module_name} has no callable {attribute!r}")
    factory: PolicyFactory = policy
    return factory


def make_policy(member: Member, scenario: Scenario, intent: IntentFactory) -> ScriptedPolicy:
    """Create the policy of one agent, which builds its intents with `intent`."""
    return find_policy(scenario.agents[member.cohort].policy)(member, scenario, intent)
