"""Law: a kernel that goes back to a mark is as one that never went on from there, now and later."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.actors.observation.viewer import Viewer
from placet.domains.world import World
from placet.kernel import Domain, Kernel, KernelConfig, Kind, RecordList, RollbackMark
from placet.kernel.ledger.dedup_window import dump_entry
from placet.kernel.ledger.schedule import due_batches, room_at_ns
from placet.kernel.log.replay import folded
from placet.schemas.codec import canonical, from_canonical
from placet.schemas.effect import Settlement
from placet.schemas.errors import PlacetError, RollbackError
from placet.schemas.limits import SECOND_NS, UNLIMITED
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.decide.single.lives import Life
from tests.kernel.domains import COUNTS, Lab, Nursery
from tests.levels import examples


class Rewound(Life):
    """Two worlds with one life: the first also goes on to futures that it undoes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dice = random.Random(seed)
        self.viewer = Viewer(self.kernels[0])

    def _group(self) -> str | None:
        if self.dice.random() < 0.7:
            self._undone(depth=0)
        return super()._group()

    def _undone(self, depth: int) -> None:
        """Live a future of the first world and go back; nest marks in it."""
        kernel = self.kernels[0]
        life = self.rng, self.number, self.past, self.agents, self.codes.copy()
        before, faults = _everything(kernel), list(self.faults[0])
        log, mark = list(self.logs[0]), kernel.mark()
        self.rng, self.past = self.dice, list(self.past)
        passed = mark
        for _ in range(2):  # a mark is there to go back to it again
            for _ in range(self.dice.randrange(1, 4)):
                self._act(kernel)
                if depth < 2 and self.dice.random() < 0.3:
                    self._undone(depth + 1)
            passed = kernel.mark()
            kernel.rollback(mark)
            assert _everything(kernel) == before
            assert self.logs[0] == log
        with pytest.raises(RollbackError, match="undone"):
            kernel.rollback(passed)
        self.rng, self.number, self.past, self.agents, self.codes = life
        self.faults[0][:] = faults

    def _act(self, kernel: Kernel) -> None:
        """Change the world in one of the ways in which a program does."""
        dice, name = self.dice, f"a{self.dice.randrange(self.agents)}"
        marks: tuple[Any, ...] = ("started", "in_doubt")
        acts: tuple[Callable[[], object], ...] = (
            lambda: kernel.step(dice.choice([0, 1.0, 9.0]), [self.batch() for _ in range(12)]),
            lambda: kernel.step(1.0, [kernel.intent("Gamble", agent=name) for _ in range(3)]),
            lambda: kernel.decide(self.batch(), kernel.sim_time + dice.choice([0, 2.5])),
            lambda: kernel.remove_agent(dice.choice([name, "k0", "k1", "k2"])),
            lambda: self._schedule(kernel, (name, name, "k0", "k1")),
            lambda: kernel.register_agent(name, position=[3, 3], owner="other"),
            lambda: kernel.register_agent(f"late{self.number}", position=[1, 1]),
            lambda: kernel.set_agent_permissions(name, {"Move"}),
            lambda: kernel.change_agent(name, dice.choice(["suspended", "resumed"])),
            lambda: kernel.change_executor("mail", dice.choice([None, 1, 9])),
            lambda: [kernel.mark_effect(e.key, dice.choice(marks)) for e in kernel.open_effects()],
            lambda: [kernel.settle(Settlement(e.key, True, 1)) for e in kernel.open_effects()[::2]],
            lambda: kernel.patch([("odd.cells", "c1", {"owner": "x"}, False)], "to see"),
            lambda: kernel.patch([("odd.things", f"p{n}", {"n": n}, True) for n in (1, 2, 3)], ""),
            lambda: kernel.patch([("odd.things", f"p{n}", None, True) for n in (3, 1, 2)], ""),
            lambda: kernel.tick(kernel.sim_time + 1),
            lambda: (kernel.digest(), self.viewer.view(kernel, name).state.get("odd.cells")),
        )
        with suppress(PlacetError):
            dice.choice(acts)()

    def _schedule(self, kernel: Kernel, names: Sequence[str]) -> None:
        """Schedule batches of agents in another order than the order of their times."""
        for name in names:
            due = kernel.sim_time + self.dice.choice([0.5, 3, 20])
            kernel.decide({"intents": [kernel.intent("Gamble", agent=name)], "sim_time": due})


def _everything(kernel: Kernel) -> list[Any]:
    """Return all that a kernel is made of, also what a snapshot leaves out."""
    ledger, outbox = kernel.ledger, kernel.open_effects()
    shares = sorted(ledger.schedule_shares.items())
    windows = {name: a.window for name, a in ledger.agents.items() if a.window is not None}
    return [
        kernel.snapshot(),
        (kernel.digest(), kernel.world_digest(), kernel.tree.as_dict()),
        (kernel.seq, kernel.record_count, kernel.sim_time, kernel.ledger.next_due_ns),
        [(effect.key, effect.kind) for effect in outbox],
        ({kind: depth for kind, depth in ledger.outbox_depth.items() if depth}, dict(ledger.owned)),
        {name: {i: dump_entry(e) for i, e in w.ids.items()} for name, w in windows.items()},
        {n: {k: [*map(dump_entry, r)] for k, r in w.ranges.items()} for n, w in windows.items()},
        (ledger.dedup.count, sum(w.count for w in windows.values()), dict(kernel._intents)),
        {name: agent.cohort for name, agent in ledger.agents.items()},
        ({name: (s.count, s.size) for name, s in shares}, ledger.schedule_size),
        [(batch.due_of, batch.sim_time_ns) for batch in due_batches(ledger, UNLIMITED)],
        [room_at_ns(ledger, s.heap, places, 0) for _, s in shares for places in (1, 2, 3)],
        (dict(ledger.outbox_shares), list(ledger.scheduled)),
    ]


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 10**9))
def test_a_world_that_went_back_is_as_one_that_never_went_on(seed):
    assert Rewound(seed).compare(groups=8) is None


class Plain(Domain):
    """A domain whose batches need no check as a whole."""

    name, version = "plain", "1"
    kinds = (Kind("Wait", dict[str, int], lambda *_: None),)


@pytest.mark.parametrize("ids_max", [2, 1024])
def test_plain_batches_of_a_group_are_undone_with_what_they_evict(ids_max):
    kernel = kernel_of(Plain(), limits={"window_ids_max": ids_max})

    def step() -> None:
        names = ("alice", "bob", "alice")
        steps = [kernel.intent("Wait", agent=name) for name in names]
        assert all(verdict.admitted for verdict in kernel.step(1.0, [[one] for one in steps]))

    step()
    before, mark = _everything(kernel), kernel.mark()
    for _ in range(2):
        for _ in range(3):
            step()
        kernel.rollback(mark)
        assert _everything(kernel) == before


# a mark


def frame(kernel: Kernel, to: list[float], number: int) -> None:
    kernel.step(1.0, [[kernel.intent("Move", agent="ann", to=to)]])


def town(**options: Any) -> Kernel:
    kernel = Kernel(World(), KernelConfig(seed=7), **options)
    kernel.register_agent("ann", position=[0, 0])
    return kernel


def test_state_and_views_show_the_moment_of_the_mark():
    kernel = town()
    viewer, state = Viewer(kernel), kernel.state
    positions = state["world.agents"]
    mark = kernel.mark()
    frame(kernel, [9, 9], 1)
    assert viewer.view(kernel, "ann").state["world.agents"]["ann"]["position"] == (9, 9, 0)
    kernel.rollback(mark)
    frame(kernel, [2, 0], 1)  # at the seq of the view before
    seen = viewer.view(kernel, "ann").state
    for shown in (seen, state, kernel.state, {"world.agents": positions}):
        assert shown["world.agents"]["ann"]["position"] == (2, 0, 0)


def test_changes_are_kept_as_long_as_a_mark_could_undo_them():
    kernel = town()
    first, second = kernel.mark(), kernel.mark()
    frame(kernel, [1, 0], 1)
    del second
    frame(kernel, [2, 0], 2)
    assert kernel.tree.replaced is not None
    kernel.rollback(first)
    assert kernel.tree.get("world.agents", "ann", "position") == (0, 0, 0)
    del first
    kept: list[object] = [kernel.tree.replaced, kernel.ledger.undo]
    assert kept == [None, None]
    frame(kernel, [3, 0], 3)


def test_a_mark_of_a_dropped_kernel_state_does_not_stop_a_later_one():
    kernel = town()
    old = kernel.mark()
    kernel.restore(kernel.snapshot())
    mark = kernel.mark()
    del old
    frame(kernel, [1, 0], 1)
    kernel.rollback(mark)
    assert kernel.tree.get("world.agents", "ann", "position") == (0, 0, 0)


def test_a_batch_scheduled_after_a_rollback_is_decided_at_its_own_time():
    """It has the number of one that was undone, which was due earlier."""
    kernel = kernel_of()
    kernel.decide({"intents": [add("first")], "sim_time": 1.0}, 0)
    mark = kernel.mark()
    kernel.decide({"intents": [add("undone")], "sim_time": 5.0}, 0)
    kernel.rollback(mark)
    kernel.decide({"intents": [add("late")], "sim_time": 50.0}, 0)
    kernel.step(1)
    assert kernel.ledger.next_due_ns == 50 * SECOND_NS
    kernel.step(9)
    assert list(kernel.ledger.scheduled) == [2]
    kernel.step(40)
    assert not kernel.ledger.scheduled
    assert kernel.state[COUNTS]["alice"]["count"] == 2


@pytest.mark.parametrize(("kind", "things"), [("Bear", ("kid", "imp")), ("Bury", ("alice", "bob"))])
def test_removals_and_the_number_of_agents_show_that_the_agents_are_others(kind, things):
    kernel, seen = kernel_of([Nursery()]), set()
    mark, ledger = kernel.mark(), kernel.ledger
    for thing in things:
        one = intent(kind, {"thing": thing}, thing, context_seq=kernel.seq)
        for act in (lambda one=one: kernel.decide([one]), lambda: kernel.rollback(mark)):
            act()
            assert (ledger.removals, len(ledger.agents)) not in seen
            seen.add((ledger.removals, len(ledger.agents)))
    assert [*ledger.agents] == ["alice", "bob"]


class Permits:
    """A validator that notes the permissions of agents."""

    def __init__(self) -> None:
        self.permitted: dict[str, set[str]] = {}

    def validate_intent(self, intent, state):
        return True

    def set_agent_permissions(self, agent_id, permissions):
        self.permitted[agent_id] = permissions


def test_the_validator_gets_the_permissions_of_the_mark():
    validator = Permits()
    kernel = town(effect_validator=validator)
    mark, before = kernel.mark(), dict(validator.permitted)
    kernel.set_agent_permissions("ann", {"Speak"})
    kernel.rollback(mark)
    assert validator.permitted == before


def _rolled_past(kernel: Kernel) -> RollbackMark:
    mark = kernel.mark()
    frame(kernel, [1, 0], 1)
    later = kernel.mark()
    kernel.rollback(mark)
    return later


def _before_a_restore(kernel: Kernel) -> RollbackMark:
    mark = kernel.mark()
    kernel.restore(kernel.snapshot())
    return mark


def _with_a_listener(kernel: Kernel) -> RollbackMark:
    mark, kernel.on_tick = kernel.mark(), lambda _: None
    frame(kernel, [1, 0], 1)
    return mark


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_rolled_past, "was made after the mark of an earlier rollback"),
        (_before_a_restore, "of another kernel, or of this one before a `restore`"),
        (lambda _: town().mark(), "of another kernel"),
        (_with_a_listener, "`on_tick`, such as a collector, was called for tick 1"),
    ],
)
def test_a_mark_to_which_no_way_leads_is_refused(make, message):
    kernel = town()
    mark = make(kernel)
    before = kernel.snapshot()
    with pytest.raises(RollbackError, match=message):
        kernel.rollback(mark)
    assert kernel.snapshot() == before
    assert repr(mark).startswith("<RollbackMark at seq ")
    assert ("rolled past" in repr(mark)) == (make is _rolled_past)


def test_another_value_than_a_mark_is_refused():
    with pytest.raises(TypeError, match=r"expected a mark that Kernel\.mark returned, got b"):
        town().rollback(b"snapshot")  # type: ignore[arg-type]  # as a user may write


def test_a_read_only_kernel_makes_no_mark():
    log = RecordList()
    town(sink=log)
    reader = Kernel(World(), KernelConfig(seed=7), history=folded(log), read_only=True)
    with pytest.raises(RollbackError, match="read-only"):
        reader.mark()


# the log


def test_the_log_of_a_kernel_that_went_back_is_whole():
    log = RecordList()
    kernel = town(sink=log)
    mark = kernel.mark()
    frame(kernel, [9, 9], 1)
    kernel.rollback(mark)
    frame(kernel, [2, 0], 1)
    again = Kernel(World(), KernelConfig(seed=7), history=log)
    assert again.world_digest() == kernel.world_digest()


def _written(log: RecordList) -> Callable[[bytes], None]:
    return log.append


@pytest.mark.parametrize(
    ("sink_of", "message"),
    [(_written, "no method `retract`"), (lambda log: log, "a record that was writ")],
)
def test_records_that_cannot_be_taken_back_are_final(sink_of, message):
    log = RecordList()
    kernel = town(sink=sink_of(log))
    mark = kernel.mark()
    kernel.rollback(mark)  # there is nothing to take back
    frame(kernel, [1, 0], 1)
    before, records = kernel.snapshot(), list(log)
    log.clear()
    with pytest.raises(RollbackError, match=message):
        kernel.rollback(mark)
    assert kernel.snapshot() == before
    frame(kernel, [2, 0], 2)
    assert folded([*records, *log]).state.digest().hex() == kernel.digest()


# snapshots


def test_restore_shows_in_the_live_state():
    kernel = town()
    state, saved = kernel.state, kernel.snapshot()
    positions = state["world.agents"]
    frame(kernel, [9, 9], 1)
    kernel.register_agent("bob", position=[1, 1])
    kernel.restore(saved)
    assert "bob" not in positions
    frame(kernel, [2, 0], 1)
    for shown in (state, kernel.state, {"world.agents": positions}):
        assert shown["world.agents"]["ann"]["position"] == (2, 0, 0)


class Newer(Lab):
    """The lab in another version."""

    version = "99"


class OtherKind(Domain):
    """A domain of the lab's name, with another kind."""

    name, version, kinds = "lab", Lab.version, (Kind("Sub", dict[str, int], lambda *_: None),)


@pytest.mark.parametrize(
    ("of", "into", "message"),
    [
        (World(bounds=[[0, 0], [9, 9]]), World(), "the settings of world were"),
        (World(), Lab(), "it was decided by world"),
        (Lab(), Newer(), "it was decided by lab"),
        (Lab(), OtherKind(), "not there"),
    ],
)
@pytest.mark.parametrize("is_older", [False, True], ids=["", "of an older release"])
def test_a_snapshot_of_another_world_is_refused(of, into, message, is_older):
    first, second = kernel_of(of), kernel_of(into)
    data = _older(first.snapshot()) if is_older else first.snapshot()
    if is_older and first.registry.domains[0].name == second.registry.domains[0].name:
        second.restore(data)  # it does not name settings and versions
        assert second.world_digest() == first.world_digest()
        return
    before = second.snapshot()
    message = "it holds world.agents, and \\['lab'\\] is given" if is_older else message
    with pytest.raises(RollbackError, match=message):
        second.restore(data)
    assert second.snapshot() == before


def _older(snapshot: bytes) -> bytes:
    """Return a snapshot as releases before 2026-11-26 made it: it does not name its rules."""
    return canonical(from_canonical(snapshot)[:-1])


def test_a_kind_that_was_added_does_not_refuse_a_snapshot():
    class More(Lab):
        kinds = (*Lab.kinds, Kind("More", dict[str, int], lambda *_: None))

    first, second = kernel_of(), kernel_of(More())
    first.decide([add("r")])
    second.restore(first.snapshot())
    assert second.world_digest() == first.world_digest()


@pytest.mark.parametrize("has_listener", [False, True])
def test_a_kernel_whose_log_or_collector_went_on_is_not_restored(has_listener):
    kernel = town() if has_listener else town(sink=RecordList())
    saved = kernel.snapshot()
    kernel.restore(saved)  # the very moment
    kernel.on_tick = (lambda _: None) if has_listener else None
    frame(kernel, [1, 0], 1)
    before = kernel.snapshot()
    with pytest.raises(RollbackError, match="on_tick" if has_listener else "the sink"):
        kernel.restore(saved)
    assert kernel.snapshot() == before


def test_a_listener_that_heard_no_later_tick_does_not_stop_going_back():
    kernel = Kernel(World())
    kernel.register_agent("ann", position=[0, 0])
    ticks: list[int] = []
    kernel.on_tick = lambda kernel: ticks.append(kernel.ledger.tick)
    kernel.step(1.0, [])
    snapshot, mark = kernel.snapshot(), kernel.mark()
    kernel.register_agent("bob", position=[1, 0])
    kernel.rollback(mark)
    assert kernel.snapshot() == snapshot
    kernel.register_agent("cyd", position=[1, 0])
    kernel.restore(snapshot)
    assert kernel.snapshot() == snapshot
    assert ticks == [1]
