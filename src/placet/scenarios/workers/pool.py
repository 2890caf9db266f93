"""The workers of a run: each tick they are sent what changed, and their batches put in order.

A worker that ends, or is late, is replaced, sent the whole state, and asked again; so a death costs
the thinking of its share. If that ends three workers in one tick, the third time agent by agent,
the run ends with the agent's name, and the tick is not begun.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.kernel import Kernel
from placet.scenarios.population import Population
from placet.scenarios.scenario_agent import PolicyError, ScenarioAgent, first_of
from placet.scenarios.thinking import TickProposals
from placet.scenarios.values import ScenarioError
from placet.scenarios.workers.copies import NO_CUT, ChangeWriter
from placet.scenarios.workers.messages import Share, ThinkAnswer, ThinkRequest, error_of
from placet.scenarios.workers.pickling import loads
from placet.scenarios.workers.transport import Transport, WorkerLost

if TYPE_CHECKING:
    from placet.scenarios.populations import Populations

TRIES: Final = 3
"""Workers that one share may end in a tick; the last is asked for one agent at a time."""

_NOBODY: Final = Share((), ())

Value = TypeVar("Value")


class _Call(NamedTuple):
    """A request under way: its answer, and the monotonic time at which it is late."""

    answer: Future[bytes]
    deadline: float


class WorkerFailed(ScenarioError):  # noqa: N818  # the name states the fault
    """The policies of one share ended three workers in a tick, which was not begun.

    Attributes:
        tick: Number of the tick, from 1.
        agent_id: Agent or population whose policy was called last.
    """

    def __init__(self, source: str, key: str, problem: str, tick: int, agent_id: str) -> None:
        super().__init__(source, key, problem)
        self.tick = tick
        self.agent_id = agent_id


class WorkerThinkers:
    """Calls the policies of a run on workers.

    Args:
        transport: The processes.
        count: Their number.
        population: The agents of the run.
        populations: Its populations; None if there are none.
        source: Name of the scenario, for messages.
        timeout_s: Longest time of a call, seconds.
        on_notice: Called with a sentence when a worker was replaced.

    Attributes:
        path_s: CPU seconds of the slowest worker of each tick, summed.
        taking_s: CPU seconds of the workers for taking in changes, summed.
        sent_bytes: Bytes of changes that were sent.
    """

    def __init__(
        self,
        transport: Transport,
        count: int,
        population: Population,
        populations: "Populations | None",
        *,
        source: str,
        timeout_s: float,
        on_notice: Callable[[str], None],
    ) -> None:
        self._transport, self._population, self._populations = transport, population, populations
        self._source, self._timeout_s, self._on_notice = source, timeout_s, on_notice
        self._writer = ChangeWriter()
        self._acting: list[ScenarioAgent] | None = None
        self._numbers: dict[ScenarioAgent, int] = {}
        self._next_number = 0
        self._places: list[list[int]] = [[] for _ in range(count)]
        self._shares = [_NOBODY] * count
        self._shares_sent: list[Share | None] = [None] * count
        self._cuts = [NO_CUT] * count
        self._pending: list[_Call | None] = [None] * count
        self._tick = 0
        self._order: list[str] = []
        self._is_closed = False
        self.path_s = self.taking_s = 0.0
        self.sent_bytes = 0

    def propose(self, kernel: Kernel, tick: int) -> TickProposals:
        """Call the policies of the acting agents and of the populations, at the present state."""
        self.begin(kernel, tick)
        return self.finish()

    def begin(self, kernel: Kernel, tick: int) -> None:
        """Send the present state and the shares to the workers."""
        self._tick = tick
        self._order = [] if self._populations is None else self._populations.in_order(kernel)
        self._assign(self._population.acting(kernel))
        self._writer.take(kernel)
        for worker in range(len(self._shares)):
            self._pending[worker] = self._ask(worker)

    def finish(self) -> TickProposals:
        """Wait for the workers, and return their batches in the order of the agents.

        Raises:
            PolicyError: Policies failed: the error of the first, with the number of the others.
            WorkerFailed: The policies of a share ended three workers.
        """
        answers = [self._answer(worker) for worker in range(len(self._shares))]
        acting = self._acting or []
        thinking_s = sum(answer.thinking_s for answer in answers)
        self.taking_s += sum(answer.taking_s for answer in answers)
        self.path_s += max(answer.taking_s + answer.thinking_s for answer in answers)
        unmade = self._in_order([answer.unmade for answer in answers])
        if unmade:
            raise error_of(unmade[0][1])
        faults = [error_of(fault) for _, fault in self._in_order([a.faults for a in answers])]
        failures = [error for error in faults if isinstance(error, PolicyError)]
        if failures:
            raise first_of(failures)
        batches = self._in_order([answer.batches for answer in answers])
        proposed = [(acting[place], batch) for place, batch in batches]
        return TickProposals(proposed, self._columns(answers), len(acting), thinking_s)

    def close(self) -> None:
        """End the workers; harmless if called twice."""
        self._is_closed = True
        self._transport.close()

    def _assign(self, agents: Sequence[ScenarioAgent]) -> None:
        """Divide the agents: the one with number i belongs to worker i mod N."""
        if agents == self._acting:
            return
        known, self._numbers = self._numbers, {}
        for agent in self._population.agents:
            number = known.get(agent)
            if number is None:
                number, self._next_number = self._next_number, self._next_number + 1
            self._numbers[agent] = number
        count = len(self._shares)
        self._places = [[] for _ in range(count)]
        for place, agent in enumerate(agents):
            self._places[self._numbers[agent] % count].append(place)
        self._acting = list(agents)
        names = [] if self._populations is None else list(self._populations.policies)
        for worker, places in enumerate(self._places):
            mine = tuple((self._numbers[agents[p]], agents[p].member) for p in places)
            self._shares[worker] = Share(mine, tuple(names[worker::count]))

    def _ask(self, worker: int, only: int | None = None) -> "_Call | None":
        """Send a request to a worker; None if its share is empty."""
        share, writer = self._shares[worker], self._writer
        if not (share.agents or share.populations):
            return None
        has_cut = self._cuts[worker] in {writer.follows, writer.cut} - {NO_CUT}
        changes = writer.changes(is_whole=not has_cut)
        since = self._cuts[worker] if has_cut else NO_CUT
        sent = None if self._shares_sent[worker] is share else share
        # Its copy is unknown until it has answered: the call may be interrupted.
        self._cuts[worker], self._shares_sent[worker] = NO_CUT, None
        self.sent_bytes += len(changes)
        request = ThinkRequest(since, writer.cut, self._tick, sent, only)
        answer = self._transport.call(worker, request, changes)
        return _Call(answer, monotonic() + self._timeout_s)

    def _answer(self, worker: int) -> ThinkAnswer:
        pending, self._pending[worker] = self._pending[worker], None
        if pending is None:
            return ThinkAnswer()
        for number in range(1, TRIES):
            try:
                return self._received(worker, pending)
            except (WorkerLost, TimeoutError) as error:
                self._replace(worker, error, number)
            if number < TRIES - 1:
                again = self._ask(worker)
                assert again is not None, "it was asked before"
                pending = again
        return self._one_by_one(worker)

    def _received(self, worker: int, pending: "_Call") -> ThinkAnswer:
        left_s = max(0.0, pending.deadline - monotonic())
        data = pending.answer.result(left_s)
        try:
            answer: ThinkAnswer = loads(data)
        except Exception as error:  # whatever an object of a policy raises
            raise WorkerLost(f"its answer cannot be unpickled: {error}") from error
        self._cuts[worker] = self._writer.cut
        self._shares_sent[worker] = self._shares[worker]
        return answer

    def _replace(self, worker: int, error: Exception, number: int) -> None:
        if self._is_closed:  # by another thread, while this one waited
            raise error
        self._on_notice(
            f"{self._transport.where(worker)} was replaced in tick {self._tick + 1}: "
            f"{self._reason(error)}; its agents are asked again ({number} of {TRIES - 1})"
        )
        self._transport.restart(worker)

    def _reason(self, error: Exception) -> str:
        is_late = isinstance(error, TimeoutError)
        return f"it took longer than {self._timeout_s:g} s" if is_late else str(error)

    def _one_by_one(self, worker: int) -> ThinkAnswer:
        """Ask a worker for one agent after the other, so that its death names an agent."""
        share, whole = self._shares[worker], ThinkAnswer()
        names = [*(member.agent_id for _, member in share.agents), *share.populations]
        for place, name in enumerate(names):
            pending = self._ask(worker, place)
            assert pending is not None, "it was asked before"
            try:
                answer = self._received(worker, pending)
            except (WorkerLost, TimeoutError) as error:
                self._transport.restart(worker)
                raise self._failed(name, error) from error
            _add(whole, answer)
        return whole

    def _failed(self, name: str, error: Exception) -> WorkerFailed:
        member = next((a.member for a in self._acting or () if a.agent_id == name), None)
        key = f"populations.{name}" if member is None else f"agents.{member.cohort}"
        tick = self._tick + 1
        problem = (
            f"the policy of {name} ended its worker in tick {tick} ({self._reason(error)}), after "
            f"{TRIES - 1} workers had ended in that tick; the tick was not begun: mend the policy "
            "and resume the run"
        )
        return WorkerFailed(self._source, f"{key}.policy", problem, tick, name)

    def _in_order(self, answers: Sequence[dict[int, Value]]) -> list[tuple[int, Value]]:
        """Return values by their place among the acting agents, sorted."""
        found = [
            (places[place], value)
            for places, values in zip(self._places, answers, strict=True)
            for place, value in values.items()
        ]
        found.sort(key=lambda item: item[0])
        return found

    def _columns(self, answers: Sequence[ThinkAnswer]) -> list[ColumnBatch]:
        made: list[ColumnBatch] = []
        for name in self._order:
            for answer in answers:
                if name in answer.column_faults:
                    raise error_of(answer.column_faults[name])
                made += answer.columns.get(name, ())
        return made


def _add(whole: ThinkAnswer, answer: ThinkAnswer) -> None:
    """Add the answer for one agent to that of a share."""
    whole.batches |= answer.batches
    whole.columns |= answer.columns
    whole.unmade |= answer.unmade
    whole.faults |= answer.faults
    whole.column_faults |= answer.column_faults
    whole.taking_s += answer.taking_s
    whole.thinking_s += answer.thinking_s
