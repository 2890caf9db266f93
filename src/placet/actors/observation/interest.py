"""Whom a change concerns: the followers of a world's domains, side by side.

A domain that is open concerns everyone, by what changes and by nothing else. One with a `sight` is
asked through its follower, so that a change costs what is near it. One that judges by itself
(`may_see` of its own) may judge by anything, so whatever changes, all is judged anew.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from placet.actors.observation.replica import Fields, ReadReplica, ReplicaEntity
from placet.kernel.domain import Domain, InterestIndex, VisibilityPolicy
from placet.kernel.registry import Registry
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.view import Change

AgentIds = Collection[str]


class Affected(NamedTuple):
    """What some agents are to look at again. `None` stands for everyone, and for everything."""

    agent_ids: AgentIds | None
    refs: Iterable[Ref] | None


class InterestManager:
    """The followers of one published state.

    Args:
        registry: Whose domains they are.
        is_indexed: Keep indexes; without them everything concerns everyone.
    """

    def __init__(self, registry: Registry, *, is_indexed: bool = True) -> None:
        self._ways = {
            d.name: _DomainIndex(d.sight) for d in registry.domains if d.sight is not None
        }
        self._names = frozenset(domain.name for domain in registry.domains)
        self._ways_of: dict[str, tuple[_DomainIndex | None, ...]] = {}
        self._is_judged_by_anything = not is_indexed or any(
            _judges_itself(domain) or (domain.sight is not None and domain.sight.depends_on is None)
            for domain in registry.domains
        )

    def begin(self, published: ReadReplica) -> None:
        """Index all there is. O(state), where there is an index."""
        if self._is_judged_by_anything:
            return
        for way in self._ways.values():
            mine = [ref for ref in published.refs() if way in self._following(ref.collection)]
            way.follower.update(published.state, mine)

    def join(self, state: State, agent_id: str) -> None:
        """Begin to follow how an agent looks."""
        for way in self._ways.values():
            way.looks[agent_id] = way.look_of(state, agent_id)

    def leave(self, agent_id: str) -> None:
        """Follow it no longer."""
        for way in self._ways.values():
            way.looks.pop(agent_id, None)

    def concerns(self, state: State, changed: Sequence[Ref]) -> Iterator[Affected]:
        """Say whom a change concerns; the state is that after it, and is then followed."""
        if self._is_judged_by_anything:
            yield Affected(None, None)
            return
        by_way: dict[_DomainIndex | None, list[Ref]] = {}
        for ref in changed:
            for way in self._following(ref.collection):
                by_way.setdefault(way, []).append(ref)
        for way, refs in by_way.items():
            if way is None:
                yield Affected(None, refs)
            else:
                yield from way.concerns(state, refs)

    def candidates_for(self, agent_id: str, published: ReadReplica) -> Iterator[Ref]:
        """Name what an agent may see at most."""
        near = (
            {}
            if self._is_judged_by_anything
            else {
                name: some
                for name, way in self._ways.items()
                if (some := way.follower.candidates_for(agent_id)) is not None
            }
        )
        for some in near.values():
            yield from sorted(some)
        for name, rows in published.state.collections.items():
            if name.partition(".")[0] not in near:
                for entity in rows.entities:
                    yield Ref(name, entity)

    def relevance(self, state: State, agent_id: str, ref: Ref) -> float:
        """Return how near an entity is to an agent, from 0 to 1; 1 where no sight can tell."""
        way = self._following(ref.collection)[0]
        return 1.0 if way is None else way.sight.relevance(state, agent_id, ref)

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Return how far an entity is from an agent; None where no sight can measure it."""
        way = self._following(ref.collection)[0]
        return None if way is None else way.sight.distance(state, agent_id, ref)

    def body_of(self, agent_id: str) -> Ref | None:
        """Name an agent's own entity; None where no sight knows of one."""
        bodies = (
            way.sight.agent_collection for way in self._ways.values() if way.sight.agent_collection
        )
        body = next(bodies, None)
        return None if body is None else Ref(body, agent_id)

    def listeners(self, agent_id: str) -> AgentIds | None:
        """Name who may see an agent's own entity, and so may hear it; None is everyone."""
        body = None if self._is_judged_by_anything else self.body_of(agent_id)
        if body is None:
            return None
        way = self._following(body.collection)[0]
        return None if way is None else way.follower.observers_of(body)

    def _following(self, collection: str) -> "tuple[_DomainIndex | None, ...]":
        """Return who follows a collection, its own domain first; None stands for what is open.

        A sight follows the agents' own entities, though they are another domain's, for it judges by
        them. What begins with no domain's name is judged by all sights, as the registry does.
        """
        known = self._ways_of.get(collection)
        if known is None:
            owner, ways = collection.partition(".")[0], [*self._ways.values()]
            if owner in self._names:
                own = self._ways.get(owner)
                others = (
                    way
                    for way in ways
                    if way.sight.agent_collection == collection and way is not own
                )
                known = (own, *others)
            else:
                known = (*ways, None)
            self._ways_of[collection] = known
        return known


class _DomainIndex:
    """One domain's sight, followed."""

    def __init__(self, sight: VisibilityPolicy) -> None:
        self.sight = sight
        self.follower: InterestIndex = sight.follower()
        self.looks: dict[str, tuple[Json, ...]] = {}
        self._fields = sorted(sight.depends_on or ())

    def look_of(self, state: State, agent_id: str) -> tuple[Json, ...]:
        """Return what an agent's sight is judged by."""
        body = self.sight.agent_collection
        return tuple(state.get(body, agent_id, field) for field in self._fields)

    def concerns(self, state: State, changed: Sequence[Ref]) -> Iterator[Affected]:
        """Ask before and after the change: who saw it, and who sees it now."""
        refs = dict.fromkeys(changed)
        for ref in changed:
            refs.update(dict.fromkeys(self.sight.dependents_of(state, ref)))
        turned = self._turned(state, changed)
        within = self.follower.candidates_for
        before = {agent_id: within(agent_id) for agent_id in turned}
        yield from self._audiences(refs)
        self.follower.update(state, refs)
        yield from self._audiences(refs)
        for agent_id, has_moved_only in turned.items():
            then, now = before[agent_id], within(agent_id)
            if then is None or now is None:
                yield Affected((agent_id,), None)
            elif has_moved_only:
                yield Affected((agent_id,), [ref for ref in then if ref not in now])
                yield Affected((agent_id,), [ref for ref in now if ref not in then])
            else:
                yield Affected((agent_id,), then)
                yield Affected((agent_id,), now)

    def _turned(self, state: State, changed: Sequence[Ref]) -> dict[str, bool]:
        """Name the observers whose own sight changed: they moved (alone), or changed sides."""
        turned = {}
        for collection, agent_id in changed:
            if agent_id in self.looks and collection == self.sight.agent_collection:
                look = self.look_of(state, agent_id)
                if look != self.looks[agent_id]:
                    pairs = zip(self._fields, look, self.looks[agent_id], strict=True)
                    fields = {field for field, new, old in pairs if new != old}
                    turned[agent_id] = fields <= self.sight.indexed_by
                    self.looks[agent_id] = look
        return turned

    def _audiences(self, refs: Iterable[Ref]) -> Iterator[Affected]:
        for ref in refs:
            yield Affected(self.follower.observers_of(ref), (ref,))


def _judges_itself(domain: Domain) -> bool:
    kind = type(domain)
    return kind.may_see is not Domain.may_see or kind.hidden_fields is not Domain.hidden_fields


class VisibleState:
    """One published copy, as agents see it.

    Attributes:
        published: The copy.
        interest: Whom its changes concern.
    """

    __slots__ = ("_registry", "interest", "published")

    def __init__(self, registry: Registry, published: ReadReplica) -> None:
        self._registry = registry
        self.published = published
        self.interest = InterestManager(registry)
        self.interest.begin(published)

    def seen(self, agent_id: str, ref: Ref, row: ReplicaEntity) -> Fields | None:
        """Give what an agent may see of an entity; None if nothing. O(1)."""
        state, registry = self.published.state, self._registry
        if not registry.hiding(ref.collection):
            return row.fields
        if not registry.may_see(state, agent_id, ref):
            return None
        return row.without(registry.hidden_fields(state, agent_id, ref))

    def candidates_for(self, agent_id: str) -> Iterable[Ref]:
        """Name what an agent may see at most."""
        return self.interest.candidates_for(agent_id, self.published)

    def relevance(self, agent_id: str, ref: Ref) -> float:
        """Say how near an entity is to an agent: 1 is here, 0 is infinitely far."""
        return self.interest.relevance(self.published.state, agent_id, ref)

    def distance(self, agent_id: str, ref: Ref) -> float | None:
        """Say how far an entity is from an agent; None where that is not known."""
        return self.interest.distance(self.published.state, agent_id, ref)

    def body_of(self, agent_id: str) -> Ref | None:
        """Name an agent's own entity; None where agents have none."""
        return self.interest.body_of(agent_id)

    def left(self, ref: Ref) -> Change:
        """Say that an entity is out of sight; nothing of why, which may be hidden."""
        return Change(f"{ref.collection}/{ref.entity}", "leave", self.published.seq, "", None)

    def judge_all_anew(self) -> None:
        """Do without indexes from here on: a judgement in them has raised."""
        self.interest = InterestManager(self._registry, is_indexed=False)
