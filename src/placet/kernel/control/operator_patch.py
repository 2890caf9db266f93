"""Patches by the operator: values overwritten, or a fork adopted.

No kind is involved, because the operator is no agent. The domains check the patch (`on_patch`),
then the invariants; one that fails undoes all of it. The record holds the patched values, so
`verify` can execute it again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from placet.kernel.context import GateContext
from placet.kernel.control.control import Control
from placet.kernel.control.registrar import plain_fields
from placet.kernel.plugin.domain import Domain, RuleRefusal
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig
from placet.schemas.errors import AgentError, ValidationError
from placet.schemas.identity import OPERATOR, is_identity
from placet.schemas.log.operator_records import Given
from placet.schemas.log.record import Changes, ForkAdopted, ForkWithOrigin, Patched
from placet.schemas.names import path_part_fault

EFFECTS: Final = ("refuse", "simulate")
"""How a fork treats effects; the default first."""

_OTHER_NAME: Final = "a fork needs another name, which is part of the key of every effect: it"


class OperatorPatch:
    """The writer of the records of operator patches and of forks. One per kernel."""

    __slots__ = ("_context", "_control")

    def __init__(self, context: GateContext, control: Control) -> None:
        self._context = context
        self._control = control

    def patch(self, given: Given, cause: str) -> None:
        """Overwrite state values for the operator, as one change with one seq.

        Args:
            given: `(collection, entity, fields, is_whole)` of each entity; fields None delete it,
                and `is_whole` replaces all of its fields, or creates it.
            cause: Reason of the patch, for the log.

        Raises:
            ValidationError: An entity does not exist, a value is not plain JSON, or a domain
                refuses the patch; nothing was changed.
        """
        plain = self._plain(given)

        def patched(changes: Changes) -> Patched:
            return Patched(*self._control.next_head(), cause=cause, given=plain, changes=changes)

        put = partial(_put_all, self._context.transaction, plain)
        hooks: list[Callable[[], object]] = [put, self._judge]
        self._control.write(*self._control.act("patch", hooks, patched, OPERATOR))

    def fork(  # noqa: PLR0917  # the fields of its record
        self,
        world: str,
        parent: str,
        effects: str,
        given: Given,
        dropped: Sequence[str],
        seed: int | None = None,
        origin: Mapping[str, Json] | None = None,
    ) -> None:
        """Adopt a fork as another world; takes no seq, as a header takes none.

        Args:
            world: Name of the new world.
            parent: Name of the world it was forked from.
            effects: One of `EFFECTS`.
            given: Values to overwrite, as in `patch`.
            dropped: Agents to remove; a member of a population is suspended instead.
            seed: Seed of the new world; None is the parent's.
            origin: Origin of the new world, as in a header; None is the parent's.

        Raises:
            AgentError: An agent to drop is not registered.
            ValidationError: An entity does not exist, a value is not plain JSON, or a domain
                refuses the patch; nothing was changed.
            ValueError: The new world's name is not an identity, or is the parent's; or the seed is
                out of range.
        """
        ledger, plain, draft = self._context.ledger, self._plain(given), self._context.transaction
        _require_other(world, parent, effects, seed)
        dropped = [*dict.fromkeys(dropped)]
        for agent_id in dropped:
            if agent_id not in ledger.agents:
                raise AgentError(f"agent {agent_id!r} is not registered and cannot be dropped")

        def fork_adopted(changes: Changes) -> ForkAdopted:
            adopted = ForkAdopted(
                *self._control.next_head(seqs=0),
                world=world,
                parent=parent,
                effects=effects,
                given=plain,
                dropped=dropped,
                changes=changes,
                seed=seed,
            )
            return adopted if origin is None else with_origin(adopted, origin)

        hooks: list[Callable[[], object]] = [
            partial(_leave, domain, draft, agent_id)
            for agent_id in dropped
            if not ledger.agents[agent_id].is_member
            for domain in self._context.registry.concerned(agent_id)
        ]
        hooks += [partial(_put_all, draft, plain), self._judge]
        made = self._control.act("fork", hooks, fork_adopted, OPERATOR, seq=ledger.seq)
        self._control.write(*made)

    def _judge(self) -> RuleRefusal | None:
        """Run the domains' `on_patch`, then their invariants; return the first refusal."""
        context = self._context
        for domain in context.registry.domains:
            try:
                refusal = domain.on_patch(context.transaction, context.transaction.changed())
            except Exception as error:
                raise ValidationError(f"on_patch of {domain.name} raised {error!r}") from error
            if refusal is not None:
                return refusal
        for domain in context.registry.with_invariants:
            try:
                changed = context.transaction.changed()
                breach = next(iter(domain.invariants(context.state, changed)), None)
            except Exception as error:
                raise ValidationError(f"invariants of {domain.name} raised {error!r}") from error
            if breach is not None:
                return breach
        return None

    def _plain(self, given: Given) -> Given:
        limits = self._context.ledger.policy.limits
        return [
            (name, key, None if new is None else plain_fields(new, limits, "a value"), is_whole)
            for name, key, new, is_whole in given
        ]


def with_origin(record: ForkAdopted, origin: Mapping[str, Json]) -> ForkWithOrigin:
    """Return the record of a fork that is continued with another origin."""
    return ForkWithOrigin(**structs.asdict(record), origin=dict(origin))


def require_fork(world: str, parent: str, effects: str, seed: int | None = None) -> None:
    """Check the name of a new fork, its treatment of effects and its seed.

    The rule for names is not checked when a log is re-executed: a fork with another name verifies.

    Raises:
        ValueError: The rule for names in paths refuses the name, or it is the parent's: their
            effects would have the same keys. Or the effects or the seed are invalid.
    """
    fault = path_part_fault(world)
    if fault:
        raise ValueError(f"{_OTHER_NAME} {fault}")
    _require_other(world, parent, effects, seed)


def _require_other(world: str, parent: str, effects: str, seed: int | None) -> None:
    if not is_identity(world) or world == parent:
        raise ValueError(f"{_OTHER_NAME} must be other than that of its parent, got {world!r}")
    if effects not in EFFECTS:
        raise ValueError(f"effects must be one of {', '.join(EFFECTS)}, got {effects!r}")
    if seed is not None:
        KernelConfig(seed=seed)


def _put_all(draft: Draft, given: Given) -> None:
    for collection, entity, fields, is_whole in given:
        is_there = draft.exists(collection, entity)
        if not is_there and not (is_whole and fields is not None):
            raise ValidationError(
                f"there is no entity {collection}/{entity}; give all its fields to make it"
            )
        try:
            _put_one(draft, collection, entity, fields, is_there=is_there, is_whole=is_whole)
        except (KeyError, TypeError, ValueError) as error:
            why = error.args[0] if error.args else error
            raise ValidationError(f"the patch of {collection}/{entity}: {why}") from error


def _put_one(
    draft: Draft,
    collection: str,
    entity: str,
    fields: dict[str, Json] | None,
    *,
    is_there: bool,
    is_whole: bool,
) -> None:
    if fields is None:
        draft.delete(collection, entity)
    elif not is_there:
        draft.create(collection, entity, fields)
    else:
        _put(draft, collection, entity, fields, is_whole)


def _put(
    draft: Draft, collection: str, entity: str, fields: dict[str, Json], is_whole: bool
) -> None:
    """Overwrite fields; create the entity anew only if a field must go.

    That would also change the collection's stamp, and make readers of the collection stale.
    """
    if is_whole and (draft.entity(collection, entity) or {}).keys() - fields.keys():
        draft.delete(collection, entity)
        draft.create(collection, entity, fields)
        return
    for name, value in fields.items():
        draft.put(collection, entity, name, value)


def _leave(domain: Domain, draft: Draft, agent_id: str) -> None:
    try:
        domain.on_remove(draft, agent_id)
    except Exception as error:
        raise ValidationError(f"on_remove of {domain.name} raised {error!r}") from error
