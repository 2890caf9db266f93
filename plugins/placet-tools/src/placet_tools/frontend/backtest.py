"""Backtest of a policy: its answers to the recorded calls of a log.

The log is replayed. Each batch with calls is first decided by the new policy, as a dry run at the
recorded state; then its recorded changes are applied. So each call is judged after the recorded
outcomes of the earlier calls, whatever the new policy answers to these.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Final

from placet.actors.ports import EventLog
from placet.history.reader import oldest_snapshot
from placet.kernel.decide.batches import decide_batch
from placet.kernel.gate.structure import Structure
from placet.kernel.log.replay import Replayer
from placet.kernel.log.sandbox import Sandbox
from placet.kernel.log.snapshot import resume
from placet.kernel.plugin.approved import DECIDE
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import rules_in
from placet.kernel.recorded_batch import recorded_batch
from placet.plugins.domains import DomainNotRemade, remake
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.config import Quota
from placet.schemas.errors import StoreError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import batches_of
from placet.schemas.log.record import (
    Admitted,
    Configured,
    Header,
    Record,
    Refused,
    RulesChanged,
    SingleBlock,
    encode_record,
)
from placet.stores.snapshots.recovery import read_on
from placet_tools.domain import UNDO
from placet_tools.frontend.call_answers import CallAnswer, answers_of, plain_refusals
from placet_tools.frontend.judged_tools import JudgedTools
from placet_tools.frontend.policy_file import PolicySource
from placet_tools.tool import OWN_PARTS
from placet_tools.tools import Tools

CHANGED_MAX: Final = 10_000
"""Maximum number of changed calls that a report lists; all of them are counted."""


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call to which the new policy gives another answer.

    Attributes:
        record: Ordinal of its record in the log, from 0.
        sim_time: Simulated time of the decision, seconds.
        agent: The agent.
        tool: The tool.
        arguments: Its arguments.
        was: The recorded answer.
        now: The answer of the new policy.
    """

    record: int
    sim_time: float
    agent: str
    tool: str
    arguments: dict[str, Json]
    was: CallAnswer
    now: CallAnswer

    def as_dict(self) -> dict[str, Json]:
        """Return the call as plain JSON."""
        return {
            "record": self.record,
            "sim_time": self.sim_time,
            "agent": self.agent,
            "tool": self.tool,
            "arguments": self.arguments,
            "was": self.was.status,
            "was_codes": list(self.was.codes),
            "now": self.now.status,
            "now_codes": list(self.now.codes),
            "why": self.now.message or self.was.message,
        }


@dataclass(slots=True)
class BacktestReport:
    """The result of a backtest.

    Attributes:
        calls: Number of recorded calls that were judged.
        changes: `(recorded, new)` answer -> number of calls with these different answers.
        changed: The calls with another answer, in order, at most `CHANGED_MAX`.
        notes: Sentences on parts of the log that could not be judged.
    """

    calls: int = 0
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    changed: list[ChangedCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Json]:
        """Return the report as plain JSON."""
        return {
            "calls": self.calls,
            "same": self.calls - self.changes.total(),
            "changes": [
                {"was": was, "now": now, "calls": count}
                for (was, now), count in sorted(self.changes.items())
            ],
            "changed": [one.as_dict() for one in self.changed],
            "notes": self.notes,
        }


def backtest(
    log: EventLog, tools: Tools, policy: PolicySource, *, domains: Sequence[str] = ()
) -> BacktestReport:
    """Judge each recorded call of a log by a policy, at the state of its decision. O(log).

    Not judged: refusals that are not in the log, such as those of quotas; calls that undo other
    calls; batches of a person's decision; scheduled batches, which a note of the report names.

    Args:
        log: The log; it is only read.
        tools: The tools.
        policy: The policy.
        domains: Other domains of the log that are not installed, as `module:attribute`.

    Raises:
        ToolPolicyError: The policy cannot be read, or does not fit the tools.
        StoreError: The log cannot be read, or a plug-in raised an exception.
        DomainNotRemade: The log is not of these tools, or another domain of it cannot be made.
    """
    judged = JudgedTools(tools, policy)
    is_cut = log.start().record > 0
    past = resume(oldest_snapshot(log)) if is_cut else Replayer()
    replay = _Backtest(past, judged, domains)
    if is_cut:
        note = f"the log was compacted: calls before record {past.journal.count} do not count"
        replay.report.notes.append(note)
    for _, data in read_on(log, past.journal.count):
        replay.apply(data)
    return replay.report


class _Backtest(Replayer):
    """A replay that judges the calls of each batch before it applies the batch.

    Attributes:
        report: The result so far.
    """

    def __init__(self, past: Replayer, judged: JudgedTools, domains: Sequence[str]) -> None:
        super().__init__()
        self.__dict__.update(vars(past))
        self.report = BacktestReport()
        self._given = domains
        self._judged = judged
        self._sandbox: Sandbox | None = None
        self._of: tuple[Header | None, object] = (None, None)
        self._group: tuple[int, int] | None = None
        if self.header is not None:
            self._note_rules(self.header)
            self._set_quotas()

    def _fold(self, record: Record, data: bytes) -> None:
        if isinstance(record, SingleBlock):
            for batch in batches_of(record):
                self._fold(batch, encode_record(batch))
                self.ledger.seq = batch.seq
            return
        if isinstance(record, Admitted | Refused):
            self._judge(record)
        elif isinstance(record, Header | RulesChanged):
            self._note_rules(record)
        super()._fold(record, data)
        self._judged.history.note(record)
        if isinstance(record, Configured):
            self._set_quotas()

    def _note_rules(self, record: Header | RulesChanged) -> None:
        """Use the `approve_from` of the log, which applies where the new policy has none.

        Raises:
            DomainNotRemade: The log does not have the domain of the tools.
        """
        names, domain = [name for name, _ in record.domains], self._judged.domain
        if domain.name not in names:
            raise DomainNotRemade(
                f"the log has the domains {', '.join(names)}, but the tools are {domain.name!r}"
            )
        settings = record.settings.get(domain.name, {})
        domain.approve_from = settings.get("approve_from", domain.approve_from)

    def _judge(self, record: Admitted | Refused) -> None:
        """Judge the calls of a batch, and note each call with another answer."""
        batch, domain = recorded_batch(record), self._judged.domain
        kinds = [intent["kind"] for intent in batch.intents]
        tools = [_tool_of(kind, domain.name) for kind in kinds]
        positions = [place for place, tool in enumerate(tools) if tool]
        if not positions or {DECIDE, domain.prefixed(UNDO)} & set(kinds):
            return
        if record.due_of is not None:
            self.report.notes.append(f"record {self.journal.count}: scheduled calls are not judged")
            return
        found = []
        if isinstance(record, Refused):
            found = [(index, code, message) for index, _, code, message in record.refusals]
        was = answers_of(found, len(kinds), domain.name)
        now = self._decide(record, batch, len(kinds))
        for place in positions:
            self.report.calls += 1
            if was[place].status != now[place].status:
                self._note(record, batch, place, was[place], now[place])

    def _note(
        self,
        record: Admitted | Refused,
        batch: CheckedBatch,
        place: int,
        was: CallAnswer,
        now: CallAnswer,
    ) -> None:
        self.report.changes[was.status, now.status] += 1
        if len(self.report.changed) < CHANGED_MAX:
            intent = batch.intents[place]
            self.report.changed.append(
                ChangedCall(
                    self.journal.count,
                    record.now_ns / SECOND_NS,
                    intent["agent_id"],
                    _tool_of(intent["kind"], self._judged.domain.name),
                    intent["payload"],
                    was,
                    now,
                )
            )

    def _decide(
        self, record: Admitted | Refused, batch: CheckedBatch, count: int
    ) -> list[CallAnswer]:
        """Return the answers of the new policy, by a dry run of a recorded batch."""
        sandbox, name = self._ready(), self._judged.domain.name
        self._judged.enforced.forget()
        sandbox.start(self.journal.prev, record.now_ns)
        context = sandbox.context
        if (record.tick, record.group) != self._group:
            self._group = (record.tick, record.group)
            sandbox.recorder.open_group()
            context.group_seq, context.group = record.group_seq, record.group
        assert self.header is not None, "a log begins with its header"
        batch.dry_run = True
        try:
            unsound = context.check_recorded(batch, self.header.kinds)
        except PluginError as error:
            raise StoreError(f"{error.where} raised {error.error!r}") from error
        if unsound is not None:
            return answers_of(plain_refusals(unsound), count, name)
        verdict = decide_batch(batch, context, sandbox.rules, sandbox.recorder)
        return answers_of(plain_refusals(verdict.refusals), count, name)

    def _ready(self) -> Sandbox:
        """Return the sandbox that decides by the new policy, and by the other rules of the log."""
        limits = self.ledger.policy.limits
        if self._sandbox is not None and self._of == (self.header, limits):
            return self._sandbox
        assert self.header is not None, "a log begins with its header"
        rules, domain = rules_in(self.header), self._judged.domain
        names = [name for name, _ in rules.domains]
        versions = dict(rules.domains)
        if versions[domain.name] != domain.version:
            note = "the tools have changed since the log: calls are judged by those of today"
            if note not in self.report.notes:
                self.report.notes.append(note)
        other = [pair for pair in rules.domains if pair[0] != domain.name]
        remade = iter(remake(rules._replace(domains=other), self._given))
        made = [domain if name == domain.name else next(remade) for name in names]
        registry = Registry(made, has_leases=self.ledger.policy.leases is not None)
        structure = Structure(registry, limits)
        self._sandbox = Sandbox(registry, structure, self.state, self.ledger, self.header)
        self._of = (self.header, limits)
        return self._sandbox

    def _set_quotas(self) -> None:
        """Replace the quotas of the tools by those of the new policy."""
        settings, domain = self.ledger.policy, self._judged.domain
        kept = {name: one for name, one in settings.quotas.items() if domain.tool_of(name) is None}
        own = {name: Quota.of(spec) for name, spec in domain.quotas.items()}
        self.ledger.set_policy(replaced(settings, quotas={**kept, **own}))


def _tool_of(kind: str, domain: str) -> str:
    """Return the tool of a kind, also of a tool that no longer exists; empty for other kinds."""
    name, _, tool = kind.partition(".")
    return tool if name == domain and tool not in OWN_PARTS else ""
