"""An agent of a run: its policy, and the intents that it builds."""

from placet.runtime.agent_handle import AgentHandle
from placet.scenarios.policies import ScriptedPolicy, make_policy
from placet.scenarios.scenario import Member, Scenario, ScenarioError
from placet.scenarios.ticks import REQ_IDS, req_id_of
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View


class ScenarioAgent:
    """An agent of a scenario: its handle and its policy."""

    __slots__ = ("_member", "_next", "_policy", "_scenario", "handle")

    def __init__(self, handle: AgentHandle, member: Member, scenario: Scenario) -> None:
        self.handle = handle
        self._member = member
        self._scenario = scenario
        self._next = 0
        try:
            self._policy: ScriptedPolicy = make_policy(member, scenario, self._intent)
        except ScenarioError:
            raise
        except Exception as error:
            problem = f"raised {error!r} as it was made for {member.agent_id}"
            raise self._fault(problem) from error

    def _intent(self, kind: str, /, **payload: Json) -> Intent:
        """Create an intent; its req_id depends on the tick, not on the process."""
        intent = self.handle.intent(kind, **payload)
        intent["req_id"] = req_id_of(self._next)
        self._next += 1
        return intent

    def propose(self, view: View, tick: int) -> list[Intent]:
        """Return the policy's batch for a view."""
        self.handle.view_seq = view.view_seq
        self._next = tick * REQ_IDS
        try:
            return list(self._policy.propose(view))
        except Exception as error:
            # The policy may be user code. Stop the run: without this agent it would be another one.
            problem = f"raised {error!r} for {view.agent_id} at {view.sim_time} s"
            raise self._fault(problem) from error

    def _fault(self, problem: str) -> ScenarioError:
        return ScenarioError(self._scenario.name, f"agents.{self._member.cohort}.policy", problem)
