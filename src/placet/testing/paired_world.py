"""One world of a paired run, with one agent, the observer, that observes each step.

`PairedWorld.knowledge` returns the observer's knowledge: its view, with the seq and author of each
visible entity's latest change, and the events delivered to it. Two worlds with equal knowledge must
return equal answers to the observer (`noninterference_property.py`).
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from placet.actors.observation.delayed_observer import Time
from placet.actors.observation.hub import ObserverHub
from placet.actors.observation.viewer import Viewer
from placet.kernel.kernel import Kernel
from placet.kernel.log.explain_record import explain_batch
from placet.kernel.log.verify import Verifier
from placet.kernel.state.collection import Stamp
from placet.schemas.codec import Json, canonical
from placet.schemas.identity import Ref
from placet.schemas.log.record import Admitted, LogAppend, Refused, decode_record
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict
from placet.schemas.view import Observation, View
from placet.testing.trace import AGENTS, Factory, Step, TraceRunner

if TYPE_CHECKING:
    from placet.actors.observation.observer import Observer

OBSERVER: Final = AGENTS[0]


class Idle(NamedTuple):
    """Part of a history: records without effect in place of a step that is left out.

    Attributes:
        records: Number of records, and of seqs.
        lines: Steps that they stand for: 0 or 1.
        now: Simulated seconds.
    """

    records: int
    lines: int
    now: float


Entry: TypeAlias = Step | Idle


class Knowledge(NamedTuple):
    """The observer's knowledge of a world, which is equal in both worlds of a pair.

    Attributes:
        view: The encoded view, with the latest change of each entity.
        events: The events delivered to it since the last step.
    """

    view: bytes
    events: tuple[Json, ...]


class PairedWorld:
    """A world in which the observer's observations are taken after each step.

    Args:
        factory: Makes the domain.
        runner: A runner that has run no step; None makes one.

    Attributes:
        runner: Runs the steps.
        history: Everything that was run.
        observation: The latest observation of the observer; None without one.
        hidden: Entities that the observer did not see at the end of a step.
    """

    def __init__(self, factory: Factory, runner: TraceRunner | None = None) -> None:
        self._factory = factory
        self.runner = TraceRunner(factory) if runner is None else runner
        self.history: list[Entry] = []
        self.observation: Observation | None = None
        self.hidden: set[Ref] = set()
        time = Time(lambda: 0, _never, nullcontext, 0)
        self._hub = ObserverHub(self.kernel.registry, lambda *_: None, time)
        self._observer: Observer | None = None
        self._records = self.kernel.record_count
        self._logged = 0
        self._knowledge: Knowledge | None = None
        self._viewer = Viewer(self.kernel)
        self._past = Verifier([factory()])

    @property
    def kernel(self) -> Kernel:
        """The kernel of the world."""
        return self.runner.kernel

    @property
    def is_observed(self) -> bool:
        """Whether the observer is registered."""
        return OBSERVER in self.kernel.ledger.agents

    def run(self, entry: Entry) -> list[Verdict]:
        """Run one entry, and return the verdicts of its batches."""
        self.history.append(entry)
        self._knowledge = None
        verdicts: list[Verdict] = []
        if isinstance(entry, Idle):
            self.runner.now = max(self.runner.now, entry.now)
            self.runner.story += [""] * entry.lines
            self.kernel.decide_group([], self.runner.now)  # its time is that of the other world
            for _ in range(entry.records):
                self.kernel.set_agent_permissions(OBSERVER, None)
        else:
            verdicts = self.runner.run(entry)
        self._publish()
        self.hidden.update(self._hidden_now())
        return verdicts

    def look(self) -> None:
        """Set `observation` to all changes since the last observation."""
        self._knowledge = None
        observer = self._observer
        if observer is None and self.is_observed:
            observer = self._observer = self._hub.observer(OBSERVER, self._begin)
            _finish(observer.__aenter__())
        self.observation = None if observer is None else observer.look()

    def copy(self, without: int = 0) -> "PairedWorld":
        """Return another world that has run this history without its last entries. O(history)."""
        other = PairedWorld(self._factory)
        for entry in self.history[: len(self.history) - without]:
            other.run(entry)
            other.look()
        return other

    def view(self) -> View:
        """Return the observer's view."""
        return self._viewer.view(self.kernel, OBSERVER)

    def knowledge(self) -> Knowledge:
        """Return the observer's knowledge. O(visible entities) after each entry."""
        if self._knowledge is None:
            self._knowledge = self._read_knowledge()
        return self._knowledge

    def _read_knowledge(self) -> Knowledge:
        kernel, state = self.kernel, self.view().state
        seen: dict[str, Json] = {
            f"{collection}/{entity}": [_stamp(kernel, collection, entity), dict(fields)]
            for collection, entities in state.items()
            for entity, fields in entities.items()
        }
        seen |= {ref: [stamp] for ref, stamp in self._known_stamps()}
        observation = self.observation
        events = () if observation is None else observation.events
        data = canonical([kernel.seq, kernel.ledger.now_ns, seen])
        return Knowledge(data, tuple([e.seq, e.agent_id, e.kind, e.payload] for e in events))

    def explanation(self) -> Json:
        """Return the stages that explain the latest entry; None if its record is no batch's.

        Without the depths of executors, which are load.
        """
        past, log = self._past, self.runner.log
        if not self._logged:
            return None
        past.is_folding = True
        while past.journal.count < len(log) - 1:
            past.apply(log[past.journal.count])
        past.is_folding = False
        record = decode_record(log[-1])
        if past.journal.count == len(log) or not isinstance(record, Admitted | Refused):
            return None
        explained = explain_batch(past, record, 0)
        stages = [stage.as_dict() for stage in explained.stages]
        return [
            explained.answer,
            [stage for stage in stages if stage["stage"] != Stage.BACKPRESSURE],
        ]

    def _publish(self) -> None:
        """Send the new records to the observer."""
        observer, new = self._observer, tuple(self.runner.log[self._records :])
        if observer is not None and new:
            self._hub.publish(LogAppend(self._records, 0, self.kernel.seq, new))
            if observer.end:
                self._hub.detach(observer)
                self._observer = None
        self._logged = len(new)
        self._records = self.kernel.record_count

    async def _begin(self, look: Callable[[Kernel], None]) -> None:
        look(self.kernel)

    def _hidden_now(self) -> Iterator[Ref]:
        """Yield the entities that the observer may not see."""
        registry, tree = self.kernel.registry, self.kernel.tree
        for collection, rows in tree.collections.items():
            if registry.hiding(collection):
                for entity in rows.entities:
                    ref = Ref(collection, entity)
                    if not registry.may_see(tree, OBSERVER, ref):
                        yield ref

    def _known_stamps(self) -> Iterator[tuple[str, Json]]:
        """Yield the stamps of collections and of deleted entities that the observer may know.

        These are the collections of which nothing is hidden, and the deleted entities that its
        domain shows and never hid from it.
        """
        registry, tree = self.kernel.registry, self.kernel.tree
        for collection, rows in tree.collections.items():
            if not registry.hiding(collection):
                yield collection, _known_part(self.kernel, rows)
            for entity, stamp in rows.tombstones.items():
                ref = Ref(collection, entity)
                if ref not in self.hidden and registry.may_see(tree, OBSERVER, ref):
                    yield f"{collection}/{entity} deleted", _known_part(self.kernel, stamp)


def _stamp(kernel: Kernel, collection: str, entity: str) -> Json:
    stamp = kernel.tree.stamp(collection, entity)
    assert stamp is not None, "an entity in a view is there"
    return _known_part(kernel, stamp)


def _known_part(kernel: Kernel, stamp: Stamp) -> Json:
    """Return the latest change, its author if known, and the latest change by another agent."""
    is_known = kernel.registry.may_know_agent(kernel.tree, OBSERVER, stamp.by)
    return [stamp.seq, stamp.by if is_known else None, stamp.changed_for(OBSERVER)]


def _finish(waiting: Coroutine[object, None, object]) -> None:
    """Run a coroutine that never waits."""
    try:
        waiting.send(None)
    except StopIteration:
        return
    raise AssertionError("nothing is waited for here")


async def _never(_due_ns: int) -> None:
    raise AssertionError("an observer without a latency does not sleep")
