"""Seed 000's `StateManager`: a design world over its own kernel, without an event loop.

Every change is a batch that the kernel decides; reads come from the kernel's state. Effects run as
soon as their batch is decided, because the host has no executors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from placet.kernel.kernel import Kernel
from placet.kernel.log.replay import Replayer
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig
from placet.schemas.errors import StoreError, error_of
from placet.schemas.event import Event
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.log.record import Header, decode_record, record_as_dict, record_type
from placet.schemas.verdict import Verdict
from placet_design import payloads
from placet_design.actions.normalize import NormalizedValue, normalize_set
from placet_design.actions.plans import intent_of
from placet_design.actions.protocol import StalePlanError
from placet_design.domain import Design
from placet_design.effects import EXECUTORS, run_effect
from placet_design.phase_results import ASSUMPTIONS
from placet_design.refinable_fields import RangePolicy
from placet_design.state.design_json import DesignState
from placet_design.state.parameters import lock_of
from placet_design.views import design_digest, locked_paths, read_design, version_of

HOST: Final = "host"
"""The operator that the calls on a `StateManager` act as."""

PLANNER: Final = "planner"
"""The agent that plans are submitted as, where no other is named."""

_OUTBOX_MAX: Final = 64
_BATCH_MAX: Final = 512
_LIMITS: Final = Limits(refusals_listed_max=_BATCH_MAX)

Listener = Callable[[], None]


class _Staging:
    """An open transaction: operations of a `StateManager` that are not committed yet.

    Attributes:
        version: The design's version when the transaction began.
        is_explicit: Opened by `begin`: locks and unlocks wait for the commit too.
        steps: Pairs of a kind and a payload, in order.
        values: Path -> value after the commit.
        unlocked: Paths that the commit unlocks.
    """

    __slots__ = ("is_explicit", "steps", "unlocked", "values", "version")

    def __init__(self, version: int, *, is_explicit: bool) -> None:
        self.version = version
        self.is_explicit = is_explicit
        self.steps: list[tuple[str, dict[str, Json]]] = []
        self.values: dict[str, Json] = {}
        self.unlocked: set[str] = set()

    def add(self, kind: str, payload: dict[str, Json]) -> None:
        """Append a step."""
        self.steps.append((kind, payload))
        if kind == "design.unlock":
            self.unlocked.add(payload["path"])


@explain_keywords
class StateManager:
    """One design and its log, in this process.

    Attributes:
        kernel: The kernel that decides every batch.
        design: The domain.
        records: The encoded log so far; pass it to `resume` to continue. Records passed in as a
            fold are not included.

    Args:
        state: Initial state of the design.
        design_id: Id of the design; None accepts plans for any.
        policy: `clamp` or `reject` values out of bounds.
        now: Returns the simulated time in seconds, for locks that expire; None keeps the time of
            the log.
        design: The domain, instead of `state`, `design_id` and `policy`.
        history: Records of an earlier run, or a `Replayer` that read them.
        config: Configuration of the kernel; None for the default seed and world name.
    """

    def __init__(
        self,
        state: DesignState | None = None,
        *,
        design_id: str | None = None,
        policy: RangePolicy = "clamp",
        now: Callable[[], float] | None = None,
        design: Design | None = None,
        history: Iterable[bytes] | Replayer = (),
        config: KernelConfig | None = None,
    ) -> None:
        self.design = design or Design(initial=state, design_id=design_id, policy=policy)
        self.records: list[bytes] = []
        self._log_bytes = 0
        self._now = now
        self._staging: _Staging | None = None
        self._listeners: list[Listener] = []
        past = history if isinstance(history, Replayer) else list(history)
        self.records += past if isinstance(past, list) else ()
        config = config or KernelConfig(limits=_LIMITS)
        self.kernel = Kernel(self.design, config, sink=self._keep, history=past)
        for kind in EXECUTORS:
            self.kernel.change_executor(kind, _OUTBOX_MAX)
        self.register(HOST, role=payloads.OPERATOR_ROLE)
        self.register(PLANNER)
        self._settle()

    @classmethod
    def resume(
        cls, records: Iterable[bytes], *, now: Callable[[], float] | None = None
    ) -> "StateManager":
        """Continue a log; the design has the settings that the log states.

        Raises:
            StoreError: The records are not the log of a design, or are damaged.
        """
        past = list(records)
        header = decode_record(past[0]) if past else None
        settings = header.settings.get("design") if isinstance(header, Header) else None
        if settings is None:
            raise StoreError("the records are no log of a design that can be set up from its data")
        return cls(design=Design(**settings), history=past, now=now)

    @classmethod
    def from_json(cls, text: str | bytes) -> "StateManager":
        """Start from the output of `to_json`.

        Raises:
            ValueError: The text is no valid design; the message names the place.
        """
        return cls(DesignState.from_json(text))

    # reading

    @property
    def tree(self) -> State:
        """The committed state, read only."""
        return self.kernel.tree

    @property
    def design_version(self) -> int:
        """The design's version: the number of commits."""
        return version_of(self.kernel.tree)

    @property
    def state(self) -> DesignState:
        """The committed design as one value. O(design)."""
        return read_design(self.kernel.tree, self._now_ns())

    def get(self, path: str, default: Json = None) -> Json:
        """Return a parameter's value, including this transaction's changes.

        `default` if it is unset.
        """
        if self._staging is not None and path in self._staging.values:
            value = self._staging.values[path]
        else:
            value = self.kernel.tree.get(payloads.PARAMETERS, path, "value")
        return default if value is None else value

    def get_strict(self, path: str) -> Json:
        """Return the value of a parameter that must be set.

        Raises:
            KeyError: The path is unknown, or the parameter is unset.
        """
        value = self.get(path)
        if value is None:
            is_path = self.kernel.tree.exists(payloads.PARAMETERS, path)
            raise KeyError(f"{path!r} is {'not set' if is_path else 'no path of a design'}")
        return value

    def exists(self, path: str) -> bool:
        """Return whether a parameter is set."""
        return self.get(path) is not None

    def is_locked(self, path: str) -> bool:
        """Return whether a parameter is locked."""
        return lock_of(self.kernel.tree, path, self._now_ns()) is not None

    def get_locked_parameters(self) -> set[str]:
        """Find all paths that are locked."""
        return locked_paths(self.kernel.tree, self._now_ns())

    def digest(self) -> str:
        """Hash parameters and locks: equal content has an equal digest, whatever the version."""
        return design_digest(self.kernel.tree)

    def diff(self, other: "StateManager | DesignState | None" = None) -> dict[str, Json]:
        """List the paths whose values differ, with both values.

        Args:
            other: Another design, for pairs `(here, there)`; None compares with the open
                transaction: `(before, after)`.
        """
        here = self.state.parameters
        if other is None:
            there = {**here, **({} if self._staging is None else self._staging.values)}
        else:
            there = (other.state if isinstance(other, StateManager) else other).parameters
        paths = dict.fromkeys([*here, *there])
        pairs = {path: (here.get(path), there.get(path)) for path in paths}
        return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}

    def to_json(self) -> str:
        """Return the committed design as strict JSON."""
        return self.state.to_json()

    # transactions

    def begin(self) -> None:
        """Open a transaction based on the current version.

        Raises:
            ValueError: A transaction is open already.
        """
        if self._staging is not None:
            raise ValueError("a transaction is open; commit it or roll it back first")
        self._staging = _Staging(self.design_version, is_explicit=True)

    def set(self, path: str, value: Json, unit: str | None = None) -> None:
        """Add a value to the transaction; opens a transaction if none is open.

        Raises:
            ValidationError: The path, the unit or the value is invalid, or the path is locked.
        """
        staging = self._staging or _Staging(self.design_version, is_explicit=False)
        kind = "design.assume" if path in ASSUMPTIONS else "design.set"
        payload: dict[str, Json] = {"path": path, "value": value}
        if unit is not None:
            payload["unit"] = unit
        used = self._value_of_step(kind, payload, staging)
        staging.add(kind, payload)
        staging.values[path] = used
        self._staging = staging

    def patch(self, values: Mapping[str, Json]) -> None:
        """Add several values to the transaction, by path or by section.

        Raises:
            ValidationError: A value is invalid; the values before it stay in the transaction.
        """
        for name, value in values.items():
            if isinstance(value, Mapping):
                self.patch({f"{name}.{leaf}": inner for leaf, inner in value.items()})
            else:
                self.set(name, value)

    def commit(self) -> int:
        """Commit the transaction; return the design's version.

        An empty transaction changes nothing, and the version stays.

        Raises:
            StalePlanError: Another commit was made since the transaction began.
            ValidationError: The design would violate a rule; the transaction stays open.
        """
        staging = self._staging
        if staging is not None and staging.steps:
            if staging.version != self.design_version:
                raise StalePlanError(
                    f"the transaction is stale: it began at design_version={staging.version}, "
                    f"current={self.design_version}; roll back and begin anew",
                    current_design_version=self.design_version,
                )
            self.propose(staging.steps)
        self._staging = None
        return self.design_version

    def rollback(self) -> None:
        """Drop the transaction; no effect if none is open."""
        self._staging = None

    def undo(self) -> int:
        """Revert the latest commit by a new commit; return the version.

        Raises:
            ValidationError: There is nothing to undo, or it would change a locked parameter.
        """
        self.propose([("design.undo", {})])
        return self.design_version

    def redo(self) -> int:
        """Restore the reverted commit by a new commit; return the version.

        Raises:
            ValidationError: There is nothing to redo, or it would change a locked parameter.
        """
        self.propose([("design.redo", {})])
        return self.design_version

    def lock_parameter(
        self, path: str, reason: str | None = None, *, for_s: float | None = None
    ) -> None:
        """Lock a parameter as an operator: at once, or in an explicit transaction at its commit.

        Raises:
            ValidationError: The path is unknown.
        """
        payload: dict[str, Json] = {"path": path}
        payload |= {"reason": reason, "for_s": None if for_s is None else float(for_s)}
        self._lock("design.lock", payload)

    def unlock_parameter(self, path: str) -> None:
        """Unlock a parameter as an operator: at once, or in an explicit transaction at its commit.

        Raises:
            ValidationError: The path is unknown.
        """
        self._lock("design.unlock", {"path": path})

    def _lock(self, kind: str, payload: dict[str, Json]) -> None:
        if self._staging is not None and self._staging.is_explicit:
            self.propose([(kind, payload)], dry_run=True)
            self._staging.add(kind, payload)
        else:
            self.propose([(kind, payload)])

    def _value_of_step(self, kind: str, payload: dict[str, Json], staging: _Staging) -> Json:
        """Return the value that a step results in; the gate refuses what can never pass.

        Invariants of the whole design are checked at the commit, when all steps are known.
        """
        path = payload["path"]
        setup = self.design.setup
        field = setup.fields.get(path)
        is_free = path in staging.unlocked or not self.is_locked(path)
        if field is not None and is_free:
            normalized = normalize_set(field, payload, setup.policy)
            if isinstance(normalized, NormalizedValue):
                return normalized.value
        verdict = self.propose([(kind, payload)], dry_run=True)
        return verdict.results[0].normalized["value"]

    # deciding

    def propose(
        self,
        steps: Sequence[tuple[str, Mapping[str, Json]]],
        *,
        dry_run: bool = False,
    ) -> Verdict:
        """Decide a batch of the host's intents.

        Args:
            steps: Pairs of a kind and a payload, in order.
            dry_run: Decide without any change.

        Raises:
            PlacetError: The batch was refused.
        """
        first = self.kernel.record_count * _BATCH_MAX
        intents = [
            intent_of(kind, payload, HOST, f"{HOST}:{first + n}", self.kernel.seq)
            for n, (kind, payload) in enumerate(steps)
        ]
        verdict = self.decide({"intents": intents, "dry_run": dry_run})
        if not verdict.admitted:
            raise error_of(verdict)
        return verdict

    def decide(self, batch: object) -> Verdict:
        """Decide a batch, run its effects, and call the listeners.

        Raises:
            StoreError: The log in memory has reached its bound.
        """
        if self._log_bytes > _LIMITS.log_bytes_max:
            raise StoreError(f"the log in memory is full at {_LIMITS.log_bytes_max} bytes")
        verdict = self.kernel.decide(batch, None if self._now is None else self._now())
        self._settle()
        for listener in self._listeners:
            listener()
        return verdict

    def register(self, agent_id: str, *, role: str = payloads.DESIGNER_ROLE) -> None:
        """Register an agent that works on the design; no effect if it is registered.

        Raises:
            AgentError: The id is invalid or reserved.
        """
        if agent_id not in self.kernel.ledger.agents:
            self.kernel.register_agent(agent_id, role=role)

    # the log

    def events(self, since: int = 0, *, first: int = 0) -> list[Event]:
        """Read the log from record `first` on, without the events up to seq `since`."""
        read = []
        for number in range(first, len(self.records)):
            record = decode_record(self.records[number])
            if record.seq > since or (since == 0 and record.seq == 0):
                seconds = record.now_ns / SECOND_NS
                data = record_as_dict(record)
                read.append(Event(record.seq, number, record_type(record), seconds, data))
        return read

    def listen(self, listener: Listener) -> None:
        """Call `listener` after every batch, when its records are in `records`."""
        self._listeners.append(listener)

    def _keep(self, data: bytes) -> None:
        self.records.append(data)
        self._log_bytes += len(data)

    def _settle(self) -> None:
        while self.kernel.ledger.outbox:
            for effect in self.kernel.open_effects():
                self.kernel.settle(run_effect(effect))

    def _now_ns(self) -> int:
        latest = self.kernel.sim_time
        return round(max(latest, latest if self._now is None else self._now()) * SECOND_NS)
