"""The kernel of one world: batch in, decision out, with no event loop around it.

    from placet.kernel import Kernel
    kernel = Kernel(domain, KernelConfig(seed=7))
    kernel.register_agent("alice")
    verdict = kernel.decide(batch, now=0.0)

Times at this face are simulated seconds; inside they are integer nanoseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from placet.kernel.commit.commit import Applier
from placet.kernel.commit.journal import Journal, RecordSink
from placet.kernel.control.control import Control, require_owner
from placet.kernel.control.operator_patch import Amends
from placet.kernel.control.outbox import KeepsOutbox, Outbox
from placet.kernel.decide import Answer, Decision, decide_batch
from placet.kernel.domain import Domain
from placet.kernel.gate.context import GateContext
from placet.kernel.gate.dedup import remembered_verdict
from placet.kernel.gate.domain_rules import DomainRules, EffectValidator
from placet.kernel.ledger.dedup_entry import unpack
from placet.kernel.ledger.ledger import Agent, GateSettings, Ledger
from placet.kernel.ledger.schedule import batches_of, due_batches
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer, folded
from placet.kernel.order import execution_order
from placet.kernel.registry import Registry
from placet.kernel.rules_version import Rules, require_compatible, rules_in, rules_of
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State, WorldState
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, canonical, from_canonical
from placet.schemas.config import KernelConfig, QuotaSpec, permitted_kinds
from placet.schemas.errors import StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS, SIM_TIME_NS_MAX
from placet.schemas.log.record import Header
from placet.schemas.verdict import NOT_KEPT, Verdict

_SECONDS_MAX: Final = SIM_TIME_NS_MAX / SECOND_NS


class Kernel(KeepsOutbox, Amends):
    """The one writer of one world's state. Not thread-safe: it has one caller at a time.

    Args:
        domain: A domain, or several.
        config: Seed, policy and limits.
        effect_validator: The host's rule, called before each domain rule.
        sink: Takes each record of the log, encoded, as it is made.
        history: Records of an existing log in order, or the replayer that folded them, which the
            kernel takes over; the world continues where they end.
        durability: Durability level of the sink, named in verdicts.
        origin: Description of how the world was started, for programs that start it again; goes
            into the header of a new log.

    Attributes:
        ledger: The books, for reading.

    Raises:
        ValueError: A domain or the configuration is unsound.
        StoreError: `history` is damaged or is another world's.
    """

    def __init__(
        self,
        domain: Domain | Sequence[Domain],
        config: KernelConfig | None = None,
        *,
        effect_validator: EffectValidator | None = None,
        sink: RecordSink | None = None,
        history: Iterable[bytes] | Replayer = (),
        durability: str = NOT_KEPT,
        origin: Mapping[str, Json] | None = None,
    ) -> None:
        self.config = config = config or KernelConfig()
        domains = list(domain) if isinstance(domain, Sequence) else [domain]
        self.registry = Registry(domains)
        from placet.kernel.gate.structure import Structure  # noqa: PLC0415  # and pydantic with it

        self._structure = Structure(self.registry, config.limits)
        self._rules = DomainRules(effect_validator)
        self._validator = effect_validator
        past = history if isinstance(history, Replayer) else folded(history)
        self.history_end = (past.ledger.seq, past.journal.count)
        """Seq and record count of `history`; what was written since is new."""
        self._take_over(past.state, past.ledger, past.journal)
        self._batches = past.batches_seen
        self._groups, self._group_seq = past.groups, past.group_seq
        self._journal.sink, self._journal.durability = sink, durability
        policy, rules = GateSettings.of(config), rules_of(self.registry, effect_validator)
        if past.header is None:
            self._control.begin(config.world, config.seed, origin or {}, rules)
            self._control.configure(policy)
            return
        if self._validate_header(past.header, past.ledger) != rules:
            self._control.change_rules(rules)
        if past.ledger.policy != policy:
            self._control.configure(policy)
        self._sync_validator()

    def _take_over(self, state: State, ledger: Ledger, journal: Journal) -> None:
        self._state, self.ledger, self._journal = state, ledger, journal
        self._draft = Transaction(state, self.config.seed, ledger.executors)
        self._context = GateContext(self.registry, self._structure, ledger, state, self._draft)
        self._applier = Applier(self._context, journal, self.config.world)
        self._control = Control(self._context, journal, self._rules)
        self._outbox = Outbox(self._context, journal, self._control)

    def _validate_header(self, header: Header, ledger: Ledger) -> Rules:
        """Check that this world may continue a log; return the rules that decided it."""
        config, then = self.config, rules_in(header)
        ours = [domain.name for domain in self.registry.domains]
        theirs = [name for name, _ in header.domains]
        if ours != theirs:
            raise StoreError(f"the log is of the domains {theirs}, the world is opened with {ours}")
        if (header.world, header.seed) != (config.world, config.seed):
            raise StoreError(
                f"the log is of world {header.world!r} with seed {header.seed}, it is opened as "
                f"{config.world!r} with seed {config.seed}; open it with its own"
            )
        require_compatible(then, ledger.scheduled.values(), self.registry)
        return then

    # reading

    @property
    def state(self) -> WorldState:
        """The state as a read-only mapping, live."""
        return WorldState(self._state)

    @property
    def tree(self) -> State:
        """The state tree itself, for reading with `get`, `entity` and `ids`."""
        return self._state

    @property
    def rules(self) -> DomainRules:
        """The domain stage; set `rules.on_fault` to receive the exceptions of rules."""
        return self._rules

    @property
    def seq(self) -> int:
        """Sequence number of the world."""
        return self.ledger.seq

    @property
    def record_count(self) -> int:
        """How many records the log has."""
        return self._journal.count

    @property
    def sim_time(self) -> float:
        """Latest simulated time seen, seconds; never before the latest record's."""
        return self._context.now_ns / SECOND_NS

    def digest(self) -> str:
        """Return the state digest in hexadecimal. O(entities changed since the last)."""
        return self._state.digest().hex()

    def world_digest(self) -> str:
        """Return the digest of state and books in hexadecimal. O(world)."""
        return snapshots.world_digest(self._state, self.ledger).hex()

    # deciding

    def check(self, batch: object, submitter: str = OPERATOR) -> CheckedBatch | Verdict:
        """Pass a batch through the structure stage: pure, and for the submitter's own turn."""
        self._batches += 1
        batch_id = f"b{self._batches}"
        checked = self._structure.check(batch, submitter, batch_id)
        if isinstance(checked, CheckedBatch):
            return checked
        listed = tuple(checked[: self.config.limits.refusals_listed_max])
        verdict = Verdict(batch_id, False, None, self.ledger.seq, self.sim_time, listed)
        verdict.dry_run = type(batch) is dict and batch.get("dry_run") is True
        return verdict

    def decide(
        self, batch: object, now: float | None = None, *, submitter: str = OPERATOR
    ) -> Verdict:
        """Decide one batch at a simulated time; None is the latest time seen."""
        now_ns = self._ns(now)
        checked = batch if isinstance(batch, CheckedBatch) else self.check(batch, submitter)
        if isinstance(checked, Verdict):
            self.decide_checked((), now_ns)  # what is due is due all the same
            return checked
        answers = self.decide_checked((checked,), now_ns).answers
        return next(verdict for decided, verdict in answers if decided is checked)

    def decide_group(
        self, batches: Sequence[object], now: float | None = None, *, submitter: str = OPERATOR
    ) -> list[Verdict]:
        """Decide batches that are due at the same moment, in the kernel's own fair order.

        Args:
            batches: Batches as submitted, or checked ones.
            now: Simulated seconds; time never goes back.
            submitter: Submitter of the batches that are not checked yet.

        Returns:
            A verdict for each, in the order given.
        """
        return self._decide_all(batches, self._ns(now), submitter)

    def _decide_all(
        self, batches: Sequence[object], now_ns: int, submitter: str = OPERATOR
    ) -> list[Verdict]:
        checked = [b if isinstance(b, CheckedBatch) else self.check(b, submitter) for b in batches]
        sound = [batch for batch in checked if isinstance(batch, CheckedBatch)]
        answers: dict[CheckedBatch, list[Verdict]] = {}
        for batch, verdict in self.decide_checked(sound, now_ns).answers:
            answers.setdefault(batch, []).append(verdict)
        # One batch may have been handed in twice: the first answer is the first one's.
        return [b if isinstance(b, Verdict) else answers[b].pop(0) for b in checked]

    def decide_checked(
        self, batches: Sequence[CheckedBatch], now_ns: int, *, release_intents: bool = False
    ) -> Decision:
        """Decide a group of checked batches, and those of the schedule that are due by now.

        Args:
            batches: The group.
            now_ns: Simulated nanoseconds; time never goes back.
            release_intents: Nobody reads the batches' intents afterwards (`CheckedBatch.release`).
        """
        now_ns = self._context.now_ns = max(now_ns, self._context.now_ns)
        due = due_batches(self.ledger, now_ns)
        return self._decide_group(
            [*due, *batches] if due else batches, release_intents=release_intents
        )

    def _decide_group(
        self, batches: Sequence[CheckedBatch], *, release_intents: bool = False
    ) -> Decision:
        ledger, context, applier = self.ledger, self._context, self._applier
        context.group_seq = ledger.seq
        self._draft.open_group(context.now_ns)
        applier.effects = []
        written = self._journal.count
        rules = self._rules
        answers: list[Answer] = []
        try:
            for batch in execution_order(batches, ledger, self.config.seed, context.now_ns):
                answers.append((batch, decide_batch(batch, context, rules, applier)))
                if release_intents:
                    batch.release()
        finally:  # whoever interrupts a group leaves the batches before as they are in the log
            is_written = self._journal.count != written
            if is_written:  # else not even the time is remembered
                ledger.now_ns = context.now_ns
                if context.group_seq != self._group_seq:  # as a fold can tell: from the records
                    self._group_seq = context.group_seq
                    self._groups += 1
        if is_written and self._groups >= self.config.limits.checkpoint_groups:
            self._groups = 0
            self._control.checkpoint()
        return Decision(answers, applier.effects)

    def verdict_of(self, agent_id: str, req_id: str) -> Verdict | None:
        """Return the remembered answer to a request; None if there is none (any more)."""
        agent = self.ledger.agents.get(agent_id)
        answered = None if agent is None or agent.window is None else agent.window.find(req_id)
        if answered is None:
            return None
        verdict = remembered_verdict(unpack(answered), self._context)
        verdict.durability = self._journal.durability
        return verdict

    # control

    def register_agent(
        self,
        agent_id: str,
        *,
        permissions: Iterable[str] | None = None,
        owner: str | None = None,
        priority_max: int = 100,
        quotas: Mapping[str, Mapping[str, float] | QuotaSpec] | None = None,
        **attributes: Json,
    ) -> Agent:
        """Register an agent; the domains place it by the remaining keywords.

        Registering a registered name changes its permissions where they are given, and nothing
        else; an owner that is given must be the one it has.

        Raises:
            AgentError: The name is no identity, reserved or another owner's; too many agents.
            ValidationError: The attributes are not plain, or a domain refused it.
            ValueError: The permissions, the priority or a quota are unsound.
        """
        permitted = permitted_kinds(permissions)
        agent = self.ledger.agents.get(agent_id)
        require_owner(agent, owner)
        if agent is None:
            agent = self._control.register_agent(
                agent_id, permitted, owner, priority_max, quotas or {}, attributes
            )
            self._tell_validator(agent_id, agent.permissions)
        elif permitted is not None and permitted != agent.permissions:
            self.set_agent_permissions(agent_id, permitted)
        return agent

    def set_agent_permissions(self, agent_id: str, permissions: Iterable[str] | None) -> None:
        """Return which kinds an agent may propose: None is all, the empty set nothing.

        Raises:
            AgentError: There is no such agent.
        """
        permitted = permitted_kinds(permissions)
        self._control.change_agent(agent_id, "permissions", permitted)
        self._tell_validator(agent_id, permitted)

    def change_agent(self, agent_id: str, what: str) -> list[Answer]:
        """Make an agent `suspended`, `resumed` or `removed`.

        Scheduled batches of a removed agent are refused now: later, its name may belong to another
        agent.

        Returns:
            The verdicts of the batches refused so.

        Raises:
            AgentError: There is no such agent.
            ValueError: `what` is none of these.
        """
        if what not in {"suspended", "resumed", "removed"}:
            raise ValueError(f"what must be suspended, resumed or removed, got {what!r}")
        self._control.change_agent(agent_id, what)
        left = batches_of(self.ledger, agent_id) if what == "removed" else []
        return self._decide_group(left).answers if left else []

    def tick(self, now: float) -> None:
        """Advance simulated time to `now`, and run the `on_tick` hooks."""
        self._context.now_ns = self._ns(now)
        self._control.tick()

    def step(self, dt: float, batches: Sequence[object] = ()) -> list[Verdict]:
        """Advance simulated time by `dt` seconds.

        Decide scheduled batches and the given ones, then tick.

        Raises:
            ValueError: `dt` is negative or not finite.
        """
        if not 0 <= dt < _SECONDS_MAX:
            raise ValueError(f"dt must be a finite number of seconds >= 0, got {dt!r}")
        now_ns = self._context.now_ns + round(dt * SECOND_NS)
        if now_ns >= SIM_TIME_NS_MAX:
            raise ValueError(
                f"simulated time ends at {_SECONDS_MAX:g} s, a step of {dt!r} passes it"
            )
        verdicts = self._decide_all(batches, now_ns)
        self._control.tick()
        return verdicts

    def snapshot(self) -> bytes:
        """Return the whole world as bytes: state, books, and place in the log. O(world)."""
        world = snapshots.dump(self._state, self.ledger)
        journal = self._journal
        place = [journal.prev, journal.count, self._batches, self._groups, self._group_seq]
        return canonical([world, self._context.now_ns, *place])

    def restore(self, data: bytes) -> None:
        """Go on from a snapshot; the policy stays this kernel's own.

        Raises:
            ValueError: The bytes are no snapshot of a known version.
        """
        ledger = Ledger(self.ledger.policy)
        journal = Journal(self._journal.sink, self._journal.durability)
        try:
            world, now_ns, prev, count, batches, groups, group_seq = from_canonical(data)
            state = snapshots.load(world, ledger, ledger.policy.limits.tombstones_max)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no snapshot of a known version: {error!r}") from error
        journal.prev, journal.count = prev, count
        self._batches, self._groups, self._group_seq = batches, groups, group_seq
        self._take_over(state, ledger, journal)
        self._context.now_ns = now_ns
        self._sync_validator()

    def _ns(self, now: float | None) -> int:
        latest = self._context.now_ns
        if now is None:
            return latest
        if not -_SECONDS_MAX < now < _SECONDS_MAX:
            raise ValueError(f"now must be seconds below {_SECONDS_MAX:g}, got {now!r}")
        return max(latest, round(now * SECOND_NS))

    def _sync_validator(self) -> None:
        for agent_id, agent in self.ledger.agents.items():
            self._tell_validator(agent_id, agent.permissions)

    def _tell_validator(self, agent_id: str, permissions: frozenset[str] | None) -> None:
        tell = getattr(self._validator, "set_agent_permissions", None)
        if tell is not None:
            tell(agent_id, set(self.registry.kinds if permissions is None else permissions))
