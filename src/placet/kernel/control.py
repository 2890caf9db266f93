"""What happens to a world besides batches: agents and executors come and go, time passes, effects
settle. Each is a record with a seq of its own, in the same chain.
"""

from collections.abc import Callable, Iterable, Mapping

from placet.kernel import booking
from placet.kernel.domain import RuleRefusal
from placet.kernel.gate.context import GateContext
from placet.kernel.gate.diagnosis import NotPlain, to_plain
from placet.kernel.gate.domain_rules import DomainRules
from placet.kernel.journal import Journal
from placet.kernel.ledger import Agent, Ledger, Policy
from placet.schemas.codec import Json
from placet.schemas.config import Quota, QuotaSpec
from placet.schemas.effect import Effect, Settlement
from placet.schemas.errors import AgentError, ValidationError
from placet.schemas.identity import RESERVED_IDS, SYSTEM, is_identity
from placet.schemas.record import (
    AgentChanged,
    Changes,
    Checkpoint,
    Configured,
    ExecutorChanged,
    Header,
    Registered,
    Settled,
    Tick,
)
from placet.schemas.record import FORMAT_VERSION as FORMAT


class Control:
    """Writes the records that are not about batches. One per kernel."""

    __slots__ = ("_context", "_journal", "_rules")

    def __init__(self, context: GateContext, journal: Journal, rules: DomainRules) -> None:
        self._context = context
        self._journal = journal
        self._rules = rules

    @property
    def _ledger(self) -> Ledger:
        return self._context.ledger

    def begin(self, world: str, seed: int) -> None:
        """Write the header, with what the domains begin with."""
        registry = self._context.registry
        changes = self._draft(
            "on_open", [lambda d=domain: d.on_open(self._context.draft) for domain in registry.domains]
        )
        self._journal.write(
            Header(
                prev=self._journal.prev,
                seq=0,
                now_ns=0,
                format_version=FORMAT,
                world=world,
                seed=seed,
                domains=[(domain.name, domain.version) for domain in registry.domains],
                fingerprint=registry.fingerprint,
                changes=changes,
            )
        )

    def configure(self, policy: Policy) -> None:
        """Decide by another policy from here on."""
        ledger = self._ledger
        record = Configured(
            prev=self._journal.prev,
            seq=ledger.seq + 1,
            now_ns=ledger.now_ns,
            staleness_threshold=policy.staleness_threshold,
            quotas={kind: tuple(quota) for kind, quota in policy.quotas.items()},
            world_quota=None if policy.world_quota is None else tuple(policy.world_quota),
            default_permissions=(
                None if policy.default_permissions is None else sorted(policy.default_permissions)
            ),
            limits={name: getattr(policy.limits, name) for name in policy.limits.__slots__},
        )
        booking.book_configured(ledger, record)
        ledger.seq += 1
        self._journal.write(record)

    def register_agent(
        self,
        agent_id: str,
        permissions: Iterable[str] | None,
        owner: str | None,
        priority_max: int,
        quotas: Mapping[str, Mapping[str, float] | QuotaSpec],
        placing: Mapping[str, Json],
    ) -> Agent:
        """Enter a new agent and let every domain place it.

        Raises:
            AgentError: The name is no identity, is reserved, or there are too many agents.
            ValidationError: A domain refused the placing.
        """
        ledger = self._ledger
        self._check_name(agent_id)
        placing = _plain(placing, "placing")
        if permissions is None:
            permissions = ledger.policy.default_permissions
        draft = self._context.draft
        changes = self._draft(
            "on_register",
            [
                lambda d=domain: d.on_register(draft, agent_id, placing)
                for domain in self._context.registry.domains
            ],
            agent_id,
        )
        record = Registered(
            prev=self._journal.prev,
            seq=ledger.seq + 1,
            now_ns=ledger.now_ns,
            agent_id=agent_id,
            owner=owner or agent_id,
            permissions=None if permissions is None else sorted(permissions),
            priority_max=priority_max,
            quotas={kind: tuple(Quota.of(spec)) for kind, spec in quotas.items()},
            placing=placing,
            changes=changes,
        )
        booking.book_registered(ledger, record)
        ledger.seq += 1
        self._journal.write(record)
        return ledger.agents[agent_id]

    def change_agent(
        self, agent_id: str, what: str, permissions: Iterable[str] | None = None
    ) -> None:
        """Change an agent's standing: `permissions`, `suspended`, `resumed` or `removed`.

        Raises:
            AgentError: There is no such agent.
        """
        ledger = self._ledger
        if agent_id not in ledger.agents:
            raise AgentError(f"agent {agent_id!r} is not registered; nothing was changed")
        hooks: list[Callable[[], object]] = []
        if what == "removed":
            draft = self._context.draft
            hooks = [
                lambda d=domain: d.on_remove(draft, agent_id)
                for domain in self._context.registry.domains
            ]
        record = AgentChanged(
            prev=self._journal.prev,
            seq=ledger.seq + 1,
            now_ns=ledger.now_ns,
            agent_id=agent_id,
            what=what,
            permissions=None if permissions is None else sorted(permissions),
            changes=self._draft("on_remove", hooks, agent_id, is_contained=True),
        )
        booking.book_agent_changed(ledger, record)
        ledger.seq += 1
        self._journal.write(record)

    def change_executor(self, kind: str, depth_max: int | None) -> None:
        """Note an executor of an effect kind and the bound of its outbox; None takes it away."""
        ledger = self._ledger
        if ledger.executors.get(kind) == depth_max:
            return
        record = ExecutorChanged(
            prev=self._journal.prev,
            seq=ledger.seq + 1,
            now_ns=ledger.now_ns,
            kind=kind,
            depth_max=depth_max,
        )
        booking.book_executor(ledger, record)
        ledger.seq += 1
        self._journal.write(record)

    def tick(self, now_ns: int) -> None:
        """Let simulated time reach `now_ns`, and what moves by itself move."""
        ledger, draft = self._ledger, self._context.draft
        ledger.now_ns = max(ledger.now_ns, now_ns)
        sim_time = ledger.now_ns / 1e9
        changes = self._draft(
            "on_tick",
            [
                lambda d=domain: d.on_tick(draft, sim_time)
                for domain in self._context.registry.ticking
            ],
            is_contained=True,
        )
        record = Tick(
            prev=self._journal.prev, seq=ledger.seq + 1, now_ns=ledger.now_ns, changes=changes
        )
        ledger.seq += 1
        self._journal.write(record)

    def settle(self, settlement: Settlement) -> bool:
        """Take in the outcome of an effect, once; False if it is settled already or unknown.

        It passes the gate as an intent of `system`: its output must be plain (structure), its key
        must be open (dedup), and the domains take it in (domain).
        """
        ledger, draft, key = self._ledger, self._context.draft, settlement.key
        pending = ledger.outbox.get((key.seq, key.k))
        if pending is None:
            return False
        settlement = _sound(settlement)
        effect = Effect(key, pending.kind, pending.payload, pending.agent_id)
        changes = self._draft(
            "on_settle",
            [
                lambda d=domain: d.on_settle(draft, effect, settlement)
                for domain in self._context.registry.domains
            ],
            is_contained=True,
        )
        record = Settled(
            prev=self._journal.prev,
            seq=ledger.seq + 1,
            now_ns=ledger.now_ns,
            effect_seq=key.seq,
            k=key.k,
            succeeded=settlement.succeeded,
            output=settlement.output,
            changes=changes,
        )
        booking.book_settled(ledger, record)
        ledger.seq += 1
        self._journal.write(record)
        return True

    def checkpoint(self) -> None:
        """Record the state digest."""
        ledger = self._ledger
        self._journal.write(
            Checkpoint(
                prev=self._journal.prev,
                seq=ledger.seq,
                now_ns=ledger.now_ns,
                state_digest=self._context.state.digest(),
            )
        )

    def _check_name(self, agent_id: str) -> None:
        ledger = self._ledger
        if not is_identity(agent_id) or agent_id in RESERVED_IDS:
            raise AgentError(
                "an agent_id must be 1 to 128 characters without control characters and not one of "
                f"{sorted(RESERVED_IDS)}, got {agent_id!r}"
            )
        agents_max = ledger.policy.limits.agents_max
        if len(ledger.agents) >= agents_max:
            raise AgentError(
                f"agent {agent_id!r} does not fit: {agents_max} agents are registered, which is "
                "the limit `agents_max`; remove one or raise it"
            )

    def _draft(
        self,
        what: str,
        hooks: list[Callable[[], object]],
        by: str = SYSTEM,
        *,
        is_contained: bool = False,
    ) -> Changes:
        """Run domains' hooks in a draft and make it final, or undo it.

        A hook that refuses or raises undoes all; contained, the world goes on without its changes.
        """
        context, draft = self._context, self._context.draft
        draft.open_batch()
        draft.now_ns = context.ledger.now_ns
        draft.begin(0, context.ledger.seq + 1, by)
        try:
            for hook in hooks:
                answer = hook()
                if isinstance(answer, RuleRefusal):
                    raise ValidationError(f"{what}: {answer.message}")  # noqa: TRY301  # undone below
        except Exception as error:  # noqa: BLE001  # the rule boundary
            draft.undo()
            if not is_contained:
                raise
            self._rules.on_fault(what, error)
            return Changes()
        changes = draft.changes()
        for collection in changes.collections:
            context.state.trim(collection.collection)
        return changes


def _sound(settlement: Settlement) -> Settlement:
    """Hold an outcome to the structure stage: what is not plain JSON is a failure that says so."""
    try:
        output = to_plain(settlement.output, depth_max=64)
    except NotPlain as error:
        return Settlement(settlement.key, succeeded=False, output=f"output is not JSON: {error}")
    return Settlement(settlement.key, settlement.succeeded, output)


def _plain(value: Mapping[str, Json], what: str) -> dict[str, Json]:
    try:
        plain: dict[str, Json] = to_plain(value, depth_max=64)
    except NotPlain as error:
        raise ValidationError(f"{what} must be plain JSON: {error} at {error.at or '/'}") from None
    return plain
