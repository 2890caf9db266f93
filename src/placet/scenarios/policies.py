"""The seam between a scenario and its agents: a policy looks at a view and proposes intents.

A bundled policy is scripted, and a function of its view, its name and the seed alone: it keeps no
memory and draws by name, so that a run is the same again however its agents are scheduled.
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
    """Makes an intent of the agent's own; `AgentHandle.intent` is one."""

    def __call__(self, kind: str, /, **payload: Json) -> Intent:
        """Fill in all but kind and payload: agent, req_id, context_seq, priority, version."""


class ScriptedPolicy(Protocol):
    """Decides for one agent; an `AgentActor` takes it as a policy too."""

    def propose(self, view: View) -> Iterable[Intent]:
        """Propose the agent's next batch, or nothing. Look only at what you need: it is O(that)."""


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
    """Find a bundled policy, or one's own as `module:attribute`.

    Raises:
        LookupError: There is no such policy, or its module cannot be imported.
    """
    path = BUNDLED.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon:
        near = get_close_matches(name, BUNDLED, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"bundled are {', '.join(BUNDLED)}"
        raise LookupError(f"there is no policy {name!r}; {hint}; one's own is module:attribute")
    try:
        found = getattr(import_from_here(module_name), attribute, None)
    except ImportError as error:
        raise LookupError(f"policy {name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise LookupError(f"policy {name!r}: {module_name} has no callable {attribute!r}")
    factory: PolicyFactory = found
    return factory


def make_policy(member: Member, scenario: Scenario, intent: IntentFactory) -> ScriptedPolicy:
    """Make the policy of one agent, which proposes what `intent` makes."""
    return find_policy(scenario.agents[member.group].policy)(member, scenario, intent)
