"""The report of a run: its counts, its refusals, its fairness, and the digest at its end."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from placet.actors.admission.column_batches import refusals_of
from placet.kernel.ledger.leases import LEASE_KINDS
from placet.scenarios.fairness import FairnessStats
from placet.scenarios.scenario import Scenario
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.printable import printable
from placet.schemas.verdict import Verdict
from placet.tables.collector import Collector

if TYPE_CHECKING:
    from placet.kernel.columns.verdict import ColumnVerdict
    from placet.scenarios.scenario_agent import ScenarioAgent
    from placet.scenarios.thinking import TickProposals


class CohortActs(NamedTuple):
    """The intents of a cohort, without requests and releases of leases."""

    submitted: int
    admitted: int


@dataclass(slots=True, repr=False)
class RunReport:
    """The result of a run.

    Attributes:
        ticks: Completed ticks; fewer than the scenario's if the run was stopped or ended.
        resumed_at: Ticks completed before this run resumed; None if it did not resume.
        sim_time: Simulated time at the end, seconds.
        submitted: Intents; every intent of a refused batch counts as refused.
        refusals: Count for each `stage/code`.
        examples: The first message of each `stage/code`.
        seconds: Real seconds from opening the world to the last verdict.
        fairness: How evenly decisions and contested resources were distributed.
        verdict_ms: `p50` and `p99` from submission to decision; None where nothing was submitted.
        head: Hash of the last record, to which the chain of the log leads.
        time: How simulated time ran: `clock`, and with dilation its factors.
        is_stopped: The run was stopped before its last tick.
        has_ended: The condition of the scenario ended the run, `Scenario.until`.
        rule_errors: Number of exceptions of rules and hooks that were contained, with
            `on_rule_error = "refuse"`; each is logged.
        acts: By cohort, in a run whose time does not wait for the agents: there a slow agent may
            lose to fast ones. Empty in a stepped run.
        calls: Number of policies of agents that were called, in the ticks of a stepped run.
        thinking_s: CPU seconds of these calls, with the making of the views.
        proposers: Names of the agents that have proposed something.
        silent: Number of agents that have proposed nothing; None before the end, and where the
            run is not stepped.
    """

    scenario: Scenario
    ticks: int = 0
    resumed_at: int | None = None
    sim_time: float = 0.0
    submitted: int = 0
    admitted: int = 0
    batches: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    fairness: FairnessStats = field(default_factory=FairnessStats)
    seq: int = 0
    digest: str = ""
    head: str = ""
    seconds: float = 0.0
    verdict_ms: dict[str, float | None] = field(default_factory=dict)
    store: str = ""
    time: dict[str, Json] = field(default_factory=dict)
    is_stopped: bool = False
    has_ended: bool = False
    rule_errors: int = 0
    acts: dict[str, CohortActs] = field(default_factory=dict)
    calls: int = 0
    thinking_s: float = 0.0
    proposers: set[str] = field(default_factory=set)
    silent: int | None = None

    def __repr__(self) -> str:
        with_others = self.refused_with_others
        more = f" ({with_others} of them with another intent of their batch)" if with_others else ""
        first = (
            f"<RunReport of {self.scenario.name!r}, seed {self.scenario.seed}: "
            f"{self.agents} agents, {self.ticks} ticks, {self.submitted} intents: "
            f"{self.admitted} admitted, {self.refused} refused{more}; seq {self.seq}, "
            f"digest {self.digest}, {self.seconds:.2f} s>"
        )
        reasons = (
            f"  refused {count} times: {key}, first as: {self.examples.get(key, '')}"
            for key, count in self.refusals.most_common()
        )
        return "\n".join(map(printable, (first, *reasons)))

    @property
    def agents(self) -> int:
        """Number of agents, those of populations included."""
        return self.scenario.agents_count + self.scenario.members_count

    @property
    def refused(self) -> int:
        """Number of intents in refused batches."""
        return self.submitted - self.admitted

    @property
    def refused_with_others(self) -> int:
        """Number of refused intents that no code was about: others of their batches were refused.

        A batch is admitted or refused as a whole.
        """
        return max(0, self.refused - self.refusals.total())

    @property
    def intents_per_second(self) -> float:
        """Return the submitted intents per real second of the whole run."""
        return self.submitted / self.seconds if self.seconds else 0.0

    @property
    def thinking_us(self) -> float | None:
        """Mean CPU time of a policy's call with its view, microseconds; None without calls."""
        return 1e6 * self.thinking_s / self.calls if self.calls else None

    def count_thinking(self, proposed: "TickProposals") -> None:
        """Add the calls of the policies in a tick to the totals."""
        self.calls += proposed.calls
        self.thinking_s += proposed.thinking_s
        if len(self.proposers) < proposed.calls:  # in most runs, until all have
            self.proposers.update(agent.agent_id for agent, _ in proposed.batches)

    def silent_of(self, agents: "Sequence[ScenarioAgent]") -> int | None:
        """Return the number of agents that have proposed nothing; None if none was asked."""
        if not self.calls:
            return None
        return sum(agent.agent_id not in self.proposers for agent in agents)

    def count_tick(
        self,
        batches: Sequence[Sequence[Intent]],
        verdicts: Sequence[Verdict],
        collector: Collector | None,
    ) -> None:
        """Complete a tick: add its batches, which are one group, and their verdicts to the totals.

        A collector notes them too.
        """
        self.fairness.begin_group()
        agents = []  # of the batches of one intent that are admitted: almost all
        for batch, verdict in zip(batches, verdicts, strict=True):
            if verdict.admitted and len(batch) == 1:
                agents.append(batch[0]["agent_id"])
            else:
                self.count(batch, verdict)
        self.batches += len(agents)
        self.submitted += len(agents)
        self.admitted += len(agents)
        self.fairness.decided.update(agents)
        if collector is not None:
            for batch, verdict in zip(batches, verdicts, strict=True):
                collector.note(batch, verdict, self.ticks)
        self.ticks += 1

    def count_columns(self, verdicts: Sequence["ColumnVerdict"]) -> None:
        """Add column batches to the totals: each row is an intent."""
        for verdict in verdicts:
            population = self.scenario.populations.get(verdict.population)
            if population is not None:
                self.fairness.count_columns(verdict, population.count)
            self.batches += 1
            self.submitted += len(verdict)
            self.admitted += len(verdict)
            for count, refusal in refusals_of(verdict):
                self.admitted -= count
                key = f"{refusal.stage}/{refusal.code}"
                self.refusals[key] += count
                self.examples.setdefault(key, refusal.message)

    def count(self, batch: Sequence[Intent], verdict: Verdict) -> None:
        """Add a batch and its verdict to the totals of the report."""
        self.batches += 1
        self.submitted += len(batch)
        if verdict.admitted:
            self.admitted += len(batch)
        for refusal in verdict.refusals:
            key = f"{refusal.stage}/{refusal.code}"
            self.refusals[key] += 1
            self.examples.setdefault(key, refusal.message)
        self.fairness.count(batch, verdict)

    def count_acts(self, cohort: str, batch: Sequence[Intent], verdict: Verdict) -> None:
        """Add a batch and its verdict to the acts of its cohort."""
        count = sum(intent["kind"] not in LEASE_KINDS for intent in batch)
        if count:
            acts = self.acts.get(cohort, CohortActs(0, 0))
            admitted = acts.admitted + count * verdict.admitted
            self.acts[cohort] = CohortActs(acts.submitted + count, admitted)

    def as_dict(self) -> dict[str, Json]:
        """Return the report as the command line prints it with `--json`."""
        return {
            "scenario": self.scenario.name,
            "seed": self.scenario.seed,
            "agents": self.agents,
            "ticks": self.ticks,
            "resumed_at": self.resumed_at,
            **({"has_ended": self.has_ended} if self.scenario.until is not None else {}),
            "sim_time": self.sim_time,
            "intents": {
                "submitted": self.submitted,
                "admitted": self.admitted,
                "refused": self.refused,
            },
            "refusals": dict(sorted(self.refusals.items())),
            **(
                {"rule_errors": self.rule_errors} if self.scenario.on_rule_error == "refuse" else {}
            ),
            **({"acts": {n: a._asdict() for n, a in self.acts.items()}} if self.acts else {}),
            "fairness": self.fairness.as_dict(self.agents),
            "batches": self.batches,
            "seq": self.seq,
            "digest": self.digest,
            "head": self.head,
            "seconds": round(self.seconds, 6),
            "intents_per_second": round(self.intents_per_second, 1),
            "verdict_ms": self.verdict_ms,
            "thinking_us": None if self.thinking_us is None else round(self.thinking_us, 1),
            "silent": self.silent,
            "time": self.time,
            "store": self.store,
        }
