"""A worker: calls the policies of its share of the agents on its copy of the state.

It calls `ScenarioAgent.propose` with a view by `Viewer`, the code of a run without workers. The
attributes of a policy are a cache: a worker that is replaced makes its policies anew.
"""

import traceback
from collections.abc import Sequence
from time import thread_time

from placet.scenarios.scenario_agent import PolicyError, ScenarioAgent, batches_of
from placet.scenarios.setup import populations_of
from placet.scenarios.values import ScenarioError
from placet.scenarios.workers.copies import Copy
from placet.scenarios.workers.job import Job, column_policies_in, policies_in, registry_of
from placet.scenarios.workers.messages import PolicyFault, Share, ThinkAnswer, ThinkRequest
from placet.scenarios.workers.pickling import dumps, loads


class Worker:
    """Calls policies for a run.

    Args:
        job: The run; `problem_of` has found no problem with it here.
    """

    def __init__(self, job: Job) -> None:
        self._scenario = job.scenario
        self._policies = policies_in(job)
        self._populations = populations_of(job.scenario, {}, column_policies_in(job))
        self._copy = Copy(registry_of(job), job.declared, job.scenario.seed)
        self._share = Share((), ())
        self._agents: dict[int, ScenarioAgent] = {}

    def think(self, request: ThinkRequest, changes: bytes) -> bytes:
        """Call the policies of the share, and return the pickled `ThinkAnswer`."""
        answer = ThinkAnswer()
        began = thread_time()
        self._copy.take(request.since, request.cut, loads(changes))
        answer.taking_s = thread_time() - began
        if request.share is not None:
            self._share = request.share
        self._make_agents(answer)
        if not answer.unmade:
            began = thread_time()
            self._call_agents(request, answer)
            answer.thinking_s = thread_time() - began
            self._call_populations(request, answer)
        return self._pickled(answer, request.tick)

    def _make_agents(self, answer: ThinkAnswer) -> None:
        """Make the policies of new agents; forget those of agents that are no more of the share."""
        known, self._agents = self._agents, {}
        for place, (number, member) in enumerate(self._share.agents):
            made = known.get(number)
            if made is None:
                try:
                    made = ScenarioAgent(member, self._scenario, self._policies[member.cohort])
                except ScenarioError as error:
                    answer.unmade[place] = _fault(error)
                    continue
            self._agents[number] = made

    def _call_agents(self, request: ThinkRequest, answer: ThinkAnswer) -> None:
        agents = list(self._agents.values())
        first, last = 0, len(agents)
        if request.only is not None:
            first, last = request.only, min(request.only + 1, last)
        view, kernel = self._copy.viewer.view, self._copy.kernel
        chosen = agents[first:last]
        views = (view(kernel, agent.agent_id) for agent in chosen)
        for place, batch in enumerate(batches_of(chosen, views, request.tick), first):
            if isinstance(batch, PolicyError):
                answer.faults[place] = _fault(batch)
            elif batch:
                answer.batches[place] = batch

    def _call_populations(self, request: ThinkRequest, answer: ThinkAnswer) -> None:
        for place, name in enumerate(self._share.populations, len(self._share.agents)):
            if request.only not in {None, place}:
                continue
            assert self._populations is not None, "a share names populations of the scenario"
            try:
                answer.columns[name] = list(self._populations.batches_of(self._copy.kernel, name))
            except PolicyError as error:
                answer.column_faults[name] = _fault(error)

    def _pickled(self, answer: ThinkAnswer, tick: int) -> bytes:
        """Return an answer as bytes; what cannot be pickled is a fault of its policy."""
        try:
            return dumps(answer)
        except Exception:  # noqa: BLE001  # whatever an object of a policy raises
            agents = list(self._agents.values())
            for place, batch in list(answer.batches.items()):
                if problem := _unpicklable(batch):
                    del answer.batches[place]
                    answer.faults[place] = _fault(agents[place].unsendable(problem, tick))
            for name, columns in list(answer.columns.items()):
                if (problem := _unpicklable(columns)) and self._populations is not None:
                    del answer.columns[name]
                    error = self._populations.unsendable(name, problem, tick)
                    answer.column_faults[name] = _fault(error)
            return dumps(answer)


def _unpicklable(batch: Sequence[object]) -> str:
    try:
        dumps(batch)
    except Exception as error:  # noqa: BLE001  # as above
        return str(error)
    return ""


def _fault(error: ScenarioError) -> PolicyFault:
    cause = error.__cause__ or error
    return PolicyFault(error, "".join(traceback.format_exception(cause)))
