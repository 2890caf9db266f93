"""A design and its log for one command: open, handle one request, write.

A request without changes (a view, a dry run) works on a copy: the store is only read, next to its
writer. A change takes the fence, and is durable before it is printed.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

from placet.actors.ports import EventLog
from placet.cli.terminal import CommandError, complain
from placet.history.reader import config_from
from placet.kernel.log.replay import Replayer
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.rules_version import rules_in
from placet.plugins.domains import find_domain, remake
from placet.runtime.clock import RealtimeClock
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import LogAppend
from placet.stores.append_rules import NoWorldError
from placet.stores.snapshots.recovery import Recovery, recover
from placet.stores.url import open_event_log
from placet_design import (
    Action,
    ActionExecutor,
    ActionPlan,
    ActionType,
    Design,
    Intent,
    StalePlanError,
    StateManager,
)
from placet_design.access import access_fault, shown_access
from placet_design.frontend import report
from placet_design.text import Clarification, parse_text, rewordings

DESIGN: Final = "design"


class DesignSession:
    """One request of the command `placet design`: opens a design, applies the request, stores it.

    Args:
        store: URL or path of the log; None is a new design that is not stored.
        agent_id: Agent that proposes.
        writes: Write changes to the store.
        must_exist: Require that the store holds a design.

    Raises:
        StoreError: The store cannot be opened, or its log is damaged.
        CommandError: The store holds something other than a design.
    """

    def __init__(
        self, store: str | None, agent_id: str, *, writes: bool, must_exist: bool = False
    ) -> None:
        self._agent_id = agent_id
        self._log = None if store is None else open_event_log(store)
        self._writes = writes
        self._must_exist = must_exist
        self._epoch: int | None = None
        self._has_acted = False
        try:
            self.manager = self._opened()
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None or isinstance(error, PlacetError):  # a refusal is in the log too
                self._commit()
        finally:
            self._close()

    # requests

    def say(self, text: str, version: int | None = None) -> report.Report:
        """Parse and execute a text; return the report of its plan, or of its unclear part.

        Args:
            text: Sentence about the design.
            version: Required version of the design; None accepts any.

        Raises:
            PlacetError: The design has another version, or the gate refused the plan.
        """
        manager, key = self.manager, token_hex(8)
        current = manager.state.parameters
        fields = manager.design.setup.fields
        parsed = parse_text(
            text,
            fields=fields,
            current=current,
            intent_id=f"intent-{key}",
            design_id=self._design_id,
            parsed_at=_now(),
        )
        if isinstance(parsed, Clarification):
            ways = rewordings(parsed, fields=fields, current=current)
            return report.clarification_report(parsed, ways, manager.design_version)
        if not parsed.actions:
            return report.question_report(parsed, manager.design_version)
        return self._execute(list(parsed.actions), key, version, parsed.intent)

    def run_phases(self, version: int | None = None) -> report.Report:
        """Run all phases and return the report.

        Raises:
            PlacetError: The gate refused the plan.
        """
        return self._execute([Action(ActionType.RUN_PHASES)], token_hex(8), version)

    def undo(self, version: int | None = None) -> report.Report:
        """Revert the latest commit, as the design's operator, and return the report.

        Raises:
            PlacetError: There is nothing to undo, or it would change a locked parameter.
        """
        before = self.manager.state
        if version not in {None, before.design_version}:
            raise StalePlanError(
                f"the design now has version {before.design_version}, not {version}; "
                "show it again before undoing",
                current_design_version=before.design_version,
            )
        self._has_acted = True
        self.manager.undo()
        return report.undo_report(before, self.manager.state, self.manager.design.setup.fields)

    def set_access(self, change: Mapping[str, Json]) -> report.Report:
        """Replace parts of the access, as the design's operator, and return the report of it.

        Args:
            change: The new `owner`, `editors` or `readers`; an empty one only reads.

        Raises:
            PlacetError: The gate or the rule for names refused a name.
        """
        manager = self.manager
        if change:
            shown = shown_access(manager.kernel)
            if fault := access_fault(shown, change):
                raise CommandError(fault)
            self._has_acted = True
            whole = {**shown, **change}
            manager.propose([("design.set_access", whole)])
        return report.access_report(shown_access(manager.kernel), manager.design_version)

    def show(self) -> report.Report:
        """Return the report of the design."""
        return report.design_report(self.manager)

    def _execute(
        self, actions: list[Action], key: str, version: int | None, intent: Intent | None = None
    ) -> report.Report:
        manager = self.manager
        plan = ActionPlan(
            f"plan-{key}",
            f"intent-{key}",
            self._design_id,
            actions,
            manager.design_version if version is None else version,
            _now(),
        )
        self._has_acted = True
        executor = ActionExecutor(manager, agent_id=self._agent_id)
        return report.plan_report(executor.execute(plan, intent=intent), manager)

    @property
    def _design_id(self) -> str:
        return self.manager.state.design_id or DESIGN

    # the store

    def _opened(self) -> StateManager:
        recovery = self._recovered()
        for sentence in recovery.skipped:
            complain(sentence)
        past = recovery.past
        clock = RealtimeClock(past.ledger.now_ns)
        return StateManager(
            design=_design_of(past),
            history=past,
            config=config_from(past),
            now=lambda: clock.now_ns() / SECOND_NS,
        )

    def _recovered(self) -> Recovery:
        log = self._log
        if log is None:
            return Recovery(Replayer())
        if _is_new(log):
            if self._must_exist:
                raise CommandError(
                    f"there is no design in {log.url}; begin one: "
                    'placet design "60 m ferry" --store URL'
                )
            return Recovery(Replayer())  # no file for a request without an effect
        if self._writes:
            self._epoch = log.open()  # fences other writers before the first read
        return recover(log)

    def _commit(self) -> None:
        """Make the changes of this command durable, in one group."""
        records = self.manager.records
        if self._log is None or not (self._writes and self._has_acted and records):
            return
        epoch = self._log.open() if self._epoch is None else self._epoch
        kernel = self.manager.kernel
        seq, count = kernel.history_end
        self._log.append(LogAppend(count, seq, kernel.seq, tuple(records)), epoch)

    def _close(self) -> None:
        if self._log is not None:
            self._log.close()


def _design_of(past: Replayer) -> Design:
    """Make the design that a log's header describes; a new one for an empty log."""
    made: list[Domain] = (
        [find_domain(DESIGN)()] if past.header is None else remake(rules_in(past.header))
    )
    names = ", ".join(domain.name for domain in made)
    designs = [domain for domain in made if isinstance(domain, Design)]
    if not designs:
        raise CommandError(f"the store holds a world of {names}, and no design; name another store")
    if len(made) > 1:
        raise CommandError(
            f"the store holds a world of {names}, and `placet design` takes a design alone; "
            "continue this world with `placet chat` or `placet serve`, or show it with "
            "`placet replay`"
        )
    return designs[0]


def _is_new(log: EventLog) -> bool:
    """Return whether the store has no log yet: a writer would start a new one."""
    try:
        log.count()
    except NoWorldError:
        return True
    return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
