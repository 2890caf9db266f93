"""Hooks that write columns: what they may write, how it is undone, recorded and folded."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.rules_version import rules_of
from placet.kernel.state.table import TableData
from placet.schemas.effect import Settlement
from placet.schemas.errors import ValidationError
from placet.schemas.log.record import (
    Header,
    SettledWithColumns,
    TableMade,
    Tick,
    TickWithAgents,
    TickWithColumns,
    decode_record,
    record_as_dict,
    record_type,
)
from tests.kernel.columns.lab import stamps

N = 12
BIRDS = {
    "at": Field("f8", 2, low=0, high=10),
    "age": Field("i2", default=1, low=0, high=99),
    "small": Field("f4"),
}
CELLS = {"heat": Field("f4", default=0.5), "who": Field("i4", default=-1)}

Hook = Callable[..., Any]


def age(rows: Any) -> None:
    rows.write("age", rows.payload["age"])


def call(draft: Any, intent: Any) -> None:
    draft.emit("call", {})


def look(draft: Any, intent: Any) -> None:
    draft.columns("sky.cells")


class Hooked(Domain):
    """A domain of birds and cells whose hooks are functions of a test."""

    name, version = "sky", "1"
    tables: tuple[Table, ...] = (
        Table("sky.birds", BIRDS),
        Table("sky.cells", CELLS, rows=N),
    )
    kinds = (
        Kind("Age", {"age": Field("i2", low=0, high=99)}, rows=age, table="sky.birds"),
        Kind("Call", dict, call, effects=("call",)),
        Kind("Look", dict, look),
    )

    def __init__(self, **hooks: Hook) -> None:
        self._hooks = hooks

    def _run(self, hook: str, draft: Any, *more: Any) -> Any:
        return self._hooks.get(hook, lambda *_: None)(draft, *more)

    def on_open(self, draft: Any) -> None:
        self._run("on_open", draft)

    def on_populate(self, draft: Any, population: Any) -> None:
        self._run("on_populate", draft, population)

    def on_tick(self, draft: Any, sim_time: float) -> None:
        self._run("on_tick", draft, sim_time)

    def on_settle(self, draft: Any, effect: Any, settlement: Any) -> None:
        self._run("on_settle", draft, effect, settlement)

    def on_register(self, draft: Any, agent_id: str, attributes: Any) -> None:
        self._run("on_register", draft, agent_id)


def opened(*domains: Domain, **hooks: Hook) -> tuple[Kernel, RecordList]:
    log = RecordList()
    kernel = Kernel([Hooked(**hooks), *domains], KernelConfig(seed=3), sink=log)
    kernel.register_population("birds", N, table="sky.birds")
    return kernel, log


def require_fold(kernel: Kernel, log: RecordList) -> None:
    """Check that the log folds to the world that was decided, without a domain."""
    past = folded(log)
    assert past.state.digest().hex() == kernel.digest()
    assert past.state.dump() == kernel.tree.dump()
    again = Kernel(Hooked(), kernel.config, history=past)
    assert again.world_digest() == kernel.world_digest()
    assert stamps(again) == stamps(kernel)


def ticking(write: Hook) -> tuple[Kernel, RecordList]:
    """Return a world of which one tick has run, whose `on_tick` writes by a function."""
    kernel, log = opened(on_tick=lambda draft, _: write(draft))
    kernel.rules.on_fault = lambda _where, error: pytest.fail(repr(error))
    kernel.tick(1.0)
    return kernel, log


def faults_of(kernel: Kernel) -> list[str]:
    faults: list[str] = []
    kernel.rules.on_fault = lambda _where, error: faults.append(f"{type(error).__name__}: {error}")
    return faults


# writing


def test_a_hook_writes_a_whole_column_and_rows_of_one() -> None:
    def write(draft: Any) -> None:
        birds = draft.columns("sky.birds")
        birds.set("age", np.arange(N))
        birds.set("age", 50, where=birds["age"] > 8)
        birds.set("at", [[1, 2], [3, 4]], where=[5, 2])

    kernel, log = ticking(write)
    birds = kernel.population("birds")
    assert birds["age"].tolist() == [*range(9), 50, 50, 50]
    assert kernel.state["sky.birds"]["birds:5"]["at"] == (1.0, 2.0)
    assert kernel.state["sky.birds"]["birds:2"]["at"] == (3.0, 4.0)
    record = decode_record(log[-1])
    assert isinstance(record, TickWithColumns)
    assert [(w.field, len(w.at), len(w.data)) for w in record.written] == [
        ("age", 0, 2 * N),
        ("at", 8, 32),
    ]
    assert record_as_dict(record)["written"] == [
        {"field": "sky.birds/age", "rows": None},
        {"field": "sky.birds/at", "rows": 2},
    ]
    assert record_type(record) == "tick"
    require_fold(kernel, log)


def test_written_rows_are_changed_by_system_at_the_seq_of_the_record() -> None:
    kernel, _ = opened(on_tick=lambda draft, _: draft.columns("sky.birds").set("age", 7, [3]))
    kernel.register_agent("ann")
    kernel.decide_columns(
        ColumnBatch("Age", "birds", {"age": np.full(N, 5)}, "a", context_seq=kernel.seq)
    )
    before = kernel.seq
    kernel.tick(1.0)
    stamp = kernel.tree.stamp("sky.birds", "birds:3")
    assert stamp is not None
    assert (stamp.seq, stamp.by, stamp.foreign_seq) == (kernel.seq, "system", before)
    other = kernel.tree.stamp("sky.birds", "birds:4")
    assert other is not None
    assert (other.seq, other.by) == (before, "birds:4")


def test_a_column_that_a_hook_has_read_stays_as_it_was() -> None:
    seen: list[Any] = []

    def write(draft: Any) -> None:
        birds = draft.columns("sky.birds")
        for value in (7, 8, 9):
            seen.append(birds["age"])
            birds.set("age", value, where=[0])
        with pytest.raises(ValueError, match="read-only"):
            birds["age"][0] = 4
        birds.set("age", birds["age"][::-1])

    kernel, _ = ticking(write)
    assert [int(column[0]) for column in seen] == [1, 7, 8]
    assert kernel.population("birds")["age"].tolist() == [1] * (N - 1) + [9]


def test_an_empty_choice_of_rows_writes_nothing() -> None:
    def write(draft: Any) -> None:
        draft.columns("sky.birds").set("age", 3, np.zeros(N, bool))
        draft.columns("sky.birds").set("age", [], [])

    kernel, log = ticking(write)
    assert type(decode_record(log[-1])) is Tick
    assert kernel.population("birds")["age"].tolist() == [1] * N


@pytest.mark.parametrize(
    ("field", "values", "where", "message"),
    [
        ("age", 100, None, "within 0 and 99"),
        ("age", 1.5, None, "fit into i2"),
        ("age", np.zeros(N - 1), None, "shape"),
        ("at", np.nan, None, "finite"),
        ("at", np.zeros(N), None, "shape"),
        ("wing", 1, None, "no field 'wing'"),
        ("age", 1, [N], r"rows 0\.\.11, got 12"),
        ("age", 1, [-1], r"rows 0\.\.11, got -1"),
        ("age", 1, [2, 2], "twice"),
        ("age", 1, [0.5], "mask or row numbers"),
        ("age", 1, [[1]], "mask or row numbers"),
        ("age", 1, np.zeros(N + 1, bool), r"shape \(12,\)"),
    ],
)
def test_a_write_that_does_not_fit_is_refused_and_the_hook_undone(
    field: str, values: Any, where: Any, message: str
) -> None:
    def write(draft: Any, _: float) -> None:
        draft.columns("sky.birds").set("age", 9)
        draft.columns("sky.birds").set(field, values, where)

    kernel, log = opened(on_tick=write)
    faults = faults_of(kernel)
    digest, before = kernel.digest(), stamps(kernel)
    kernel.tick(1.0)
    (fault,) = faults
    assert re.search(message, fault), fault
    assert (kernel.digest(), stamps(kernel)) == (digest, before)
    assert type(decode_record(log[-1])) is Tick
    require_fold(kernel, log)


# undoing


def mixed(seed: int) -> Hook:
    """Return a hook that puts single rows and writes columns in a random order."""

    def write(draft: Any) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(int(rng.integers(1, 9))):
            way, row = rng.random(), int(rng.integers(N))
            table, field = [("birds", "age"), ("birds", "small"), ("cells", "heat")][
                int(rng.integers(3))
            ]
            value = int(rng.integers(90))
            if way < 0.3:
                draft.put(f"sky.{table}", f"{table}:{row}", field, value)
            elif way < 0.4:
                draft.put("sky.birds", f"birds:{row}", "at", [value / 10, 0.5])
            elif way < 0.5 and not draft.exists("sky.notes", str(row)):
                draft.create("sky.notes", str(row), {"n": value})
            elif way < 0.6:
                draft.columns(f"sky.{table}").set(field, np.arange(N) + value % 10)
            elif way < 0.8:
                draft.columns(f"sky.{table}").set(field, value, rng.random(N) < 0.4)
            else:
                columns = draft.columns(f"sky.{table}")
                rows = rng.permutation(N)[:4]
                columns.set(field, columns[field][rows[::-1]], rows)

    return write


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_puts_and_column_writes_in_any_order_are_undone_and_folded(first: int) -> None:
    for seed in range(first, first + 30):
        is_failing = False

        def write(draft: Any, _: float, seed: int = seed) -> None:
            mixed(seed)(draft)
            if is_failing:  # noqa: B023  # it is of this seed
                raise ZeroDivisionError

        kernel, log = opened(on_tick=write)
        for tick in range(3):
            is_failing = bool((seed + tick) % 3 == 0)
            faults = faults_of(kernel)
            before, digest = kernel.tree.dump(), kernel.digest()
            kernel.tick(float(tick))
            assert len(faults) == is_failing, faults
            if is_failing:
                assert kernel.tree.dump() == before, seed
                assert kernel.digest() == digest, seed
            kernel.decide_columns(
                ColumnBatch(
                    "Age", "birds", {"age": np.full(N, tick)}, f"a:{tick}", context_seq=kernel.seq
                )
            )
        require_fold(kernel, log)


def test_the_law_sees_a_version_that_is_not_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableData, "go_back", lambda *_, **__: None)
    with pytest.raises(AssertionError):
        test_puts_and_column_writes_in_any_order_are_undone_and_folded(0)


def test_a_mark_goes_back_over_a_tick_with_columns() -> None:
    kernel, _ = opened(on_tick=lambda draft, _: mixed(5)(draft))
    before, digest = kernel.world_digest(), kernel.digest()
    mark = kernel.mark()
    for time in range(3):
        kernel.tick(float(time))
    kernel.rollback(mark)
    assert (kernel.world_digest(), kernel.digest()) == (before, digest)


def ticking_by_number(seed: int) -> tuple[Kernel, RecordList]:
    """Return a world whose hook writes by the number of the tick, and fails at every fifth."""

    def write(draft: Any, _: float) -> None:
        mixed(100 * seed + draft.tick)(draft)
        if draft.tick % 5 == 4:
            raise ZeroDivisionError

    return opened(on_tick=write)


def act(kernel: Kernel, number: int) -> None:
    """Tick, or decide a column batch of some members."""
    if number % 3:
        kernel.tick(kernel.sim_time + number % 2)
        return
    payload = {"age": np.full(N // 2, number)}
    agents = np.arange(number % 5, N)[: N // 2]
    kernel.decide_columns(
        ColumnBatch("Age", "birds", payload, f"a:{number}", agents=agents, context_seq=kernel.seq)
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_rollback_over_hooks_leaves_no_trace(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world, log = ticking_by_number(seed)
    marks, kept = [(world.mark(), 0)], list[int]()
    for number in range(20):
        chance = rng.random()
        if chance < 0.2:
            marks.append((world.mark(), len(kept)))
        elif chance < 0.4:
            place = int(rng.integers(len(marks)))
            mark, count = marks[place]
            world.rollback(mark)
            del marks[place + 1 :], kept[count:]
        elif chance < 0.5:
            world.tree.cut()
        else:
            act(world, number)
            kept.append(number)
    other, expected = ticking_by_number(seed)
    for number in kept:
        act(other, number)
    assert log == expected
    assert (world.digest(), world.world_digest()) == (other.digest(), other.world_digest())
    require_fold(world, log)


def test_a_hook_has_no_array_copied_after_it() -> None:
    kernel, _ = opened(on_tick=lambda draft, _: draft.columns("sky.birds").set("age", 4))
    table = kernel.tree.tables["sky.birds"]
    kernel.patch([("sky.birds", "birds:1", {"small": 1}, False)], "a test")
    small, seqs = table.columns["small"], table.seqs
    kernel.tick(1.0)
    age, stamped = table.columns["age"], table.seqs
    assert stamped is not seqs  # the version before the hook has the others
    kernel.patch([("sky.birds", "birds:1", {"small": 2, "age": 3}, False)], "a test")
    assert table.columns["small"] is small
    assert table.columns["age"] is age
    assert table.seqs is stamped
    cut = kernel.tree.cut()
    kernel.tick(1.0)
    kernel.patch([("sky.birds", "birds:1", {"small": 3}, False)], "a test")
    assert table.columns["small"] is not cut.tables["sky.birds"].columns["small"]
    assert cut.get("sky.birds", "birds:1", "small") == 2.0


# the other hooks


def test_columns_written_at_the_opening_are_in_the_record_of_the_table() -> None:
    def write(draft: Any) -> None:
        assert [*draft.columns("sky.cells")] == ["heat", "who"]
        draft.columns("sky.cells").set("heat", np.arange(N) / 4)
        draft.put("sky.cells", "cells:3", "heat", 9)
        draft.create("sky.notes", "a", {"n": 1})
        with pytest.raises(KeyError, match=r"no table 'sky\.birds' yet"):
            draft.columns("sky.birds")

    kernel, log = opened(on_open=write)
    assert kernel.state["sky.cells"]["cells:3"]["heat"] == 9.0
    header, _, made, *_ = map(decode_record, log)
    assert isinstance(header, Header)
    assert [change.collection for change in header.changes.entities] == ["sky.notes"]
    assert isinstance(made, TableMade)
    assert [name for name, _ in made.columns] == ["heat"]
    stamp = kernel.tree.stamp("sky.cells", "cells:3")
    assert stamp is not None
    assert (stamp.seq, stamp.by) == (made.seq, "operator")
    require_fold(kernel, log)
    verifier = Verifier([Hooked(on_open=write)])
    for data in log:
        verifier.apply(data)
    assert verifier.state.digest().hex() == kernel.digest()


def test_a_table_of_agents_is_not_there_before_its_population() -> None:
    kernel = Kernel(Before(on_tick=lambda draft, _: draft.columns("sky.birds")))
    faults = faults_of(kernel)
    kernel.tick(1.0)
    assert "no table 'sky.birds' yet" in faults[0]


def test_on_open_that_raises_opens_no_world() -> None:
    with pytest.raises(ValidationError, match="within 0 and 99"):
        opened(on_populate=lambda draft, _: draft.columns("sky.birds").set("age", 100))
    with pytest.raises(ValidationError, match="no field 'wing'"):
        opened(on_open=lambda draft: draft.columns("sky.cells").set("wing", 1))


def test_on_populate_writes_the_columns_of_its_population() -> None:
    def write(draft: Any, population: Any) -> None:
        rows = draft.columns(population.table)
        rows.set("age", np.arange(population.count))
        draft.columns("sky.cells").set("who", np.arange(population.count))
        draft.put("sky.birds", "birds:2", "small", 0.1)

    kernel, log = opened(on_populate=write)
    assert kernel.population("birds")["age"].tolist() == [*range(N)]
    made = decode_record(log[-1])
    assert isinstance(made, TableMade)
    assert [write.field for write in made.written] == ["age", "who"]
    require_fold(kernel, log)


def test_a_population_whose_hook_raises_leaves_other_tables_as_they_were() -> None:
    def write(draft: Any, population: Any) -> None:
        draft.columns("sky.cells").set("who", 1)
        draft.put("sky.birds", f"{population.name}:2", "age", 4)
        if population.name == "birds":
            raise ZeroDivisionError

    kernel = Kernel(Hooked(on_populate=write), KernelConfig(seed=3))
    before, digest = kernel.world_digest(), kernel.digest()
    with pytest.raises(ValidationError, match="on_populate"):
        kernel.register_population("birds", N, table="sky.birds")
    assert (kernel.world_digest(), kernel.digest()) == (before, digest)
    kernel.register_population("fish", N, table="sky.birds")
    assert kernel.state["sky.birds"]["fish:0"]["age"] == 1


def test_a_settlement_writes_columns() -> None:
    kernel, log = opened(
        on_settle=lambda draft, *_: draft.columns("sky.cells").set("heat", 2, [1, 3])
    )
    kernel.register_agent("ann")
    kernel.change_executor("call", 8)
    kernel.decide(kernel.intent("Call", {}, agent="ann"))
    (effect,) = kernel.open_effects()
    assert kernel.settle(Settlement(effect.key, True, None))
    assert isinstance(decode_record(log[-1]), SettledWithColumns)
    assert record_type(decode_record(log[-1])) == "settled"
    assert kernel.state["sky.cells"]["cells:3"]["heat"] == 2.0
    require_fold(kernel, log)


def test_a_tick_that_registers_agents_and_writes_columns_records_both() -> None:
    def write(draft: Any, _: float) -> None:
        draft.columns("sky.cells").set("heat", 2, [1])
        draft.register("bob")

    kernel, log = opened(
        on_tick=write,
        on_register=lambda draft, _: draft.put("sky.cells", "cells:1", "heat", 3),
    )
    kernel.tick(1.0)
    record = decode_record(log[-1])
    assert isinstance(record, TickWithColumns)
    assert [change.agent_id for change in record.agents] == ["bob"]
    stamp = kernel.tree.stamp("sky.cells", "cells:1")
    assert stamp is not None
    assert (stamp.by, stamp.foreign_seq) == ("bob", record.seq)
    require_fold(kernel, log)


def test_a_tick_without_columns_keeps_its_record() -> None:
    kernel, log = opened(on_tick=lambda draft, _: draft.register("bob"))
    kernel.tick(1.0)
    assert type(decode_record(log[-1])) is TickWithAgents


# elsewhere


def test_columns_elsewhere_are_refused() -> None:
    kept: list[Any] = []

    def write(draft: Any, _: float) -> None:
        kept.append(draft.columns("sky.cells"))
        draft.register("bob")

    def register(draft: Any, _: str) -> None:
        with pytest.raises(TypeError, match="on_open, on_populate, on_tick and on_settle"):
            draft.columns("sky.cells")
        with pytest.raises(TypeError, match="of a hook that does not run"):
            kept[0].set("heat", 1)

    kernel, _ = opened(on_tick=write, on_register=register)
    kernel.rules.on_fault = lambda _where, error: pytest.fail(repr(error))
    kernel.tick(1.0)
    assert "bob" in kernel.ledger.agents
    with pytest.raises(TypeError, match="of a hook that does not run"):
        kept[0]["heat"]
    faults = faults_of(kernel)
    verdict = kernel.decide(kernel.intent("Look", {}, agent="bob"))
    assert verdict.refusals[0].code == "rule_error"
    assert "draft.columns is for" in faults[0]


class Foreign(Domain):
    """A domain that writes columns of another one."""

    name, version = "mars", "1"
    kinds = (Kind("Wait", dict, lambda draft, intent: None),)

    def on_tick(self, draft: Any, sim_time: float) -> None:
        draft.columns("sky.cells").set("heat", 1)


class Friendly(Foreign):
    writes = ("sky",)


def test_a_domain_writes_columns_of_another_only_if_it_names_it() -> None:
    kernel, _ = opened(Foreign(), on_tick=lambda draft, _: draft.columns("sky.birds").set("age", 2))
    faults, before = faults_of(kernel), kernel.digest()
    kernel.tick(1.0)
    assert "domain 'mars' wrote columns of sky.cells" in faults[0]
    assert kernel.digest() == before
    kernel, _ = opened(Friendly())
    kernel.tick(1.0)
    assert kernel.state["sky.cells"]["cells:0"]["heat"] == 1.0


def test_verify_runs_the_hooks_that_wrote_columns_again() -> None:
    hooks: dict[str, Hook] = {
        "on_tick": lambda draft, _: mixed(7)(draft),
        "on_populate": lambda draft, _: draft.columns("sky.birds").set("age", 3),
        "on_settle": lambda draft, *_: draft.columns("sky.cells").set("heat", 2, [1, 3]),
    }
    kernel, log = opened(**hooks)
    kernel.register_agent("ann")
    kernel.change_executor("call", 8)
    kernel.decide(kernel.intent("Call", {}, agent="ann"))
    kernel.settle(Settlement(kernel.open_effects()[0].key, True, None))
    kernel.tick(1.0)
    verifier = Verifier([Hooked(**hooks)])
    for data in log:
        verifier.apply(data)
    assert verifier.hooks == 5
    assert verifier.state.digest().hex() == kernel.digest()
    require_fold(kernel, log)


@pytest.mark.parametrize("where", [None, [0, 1]])
def test_a_column_write_takes_the_author_of_a_named_row_over(where: Any) -> None:
    kernel, log = opened(
        on_register=lambda draft, _: draft.put("sky.cells", "cells:1", "heat", 3),
        on_tick=lambda draft, _: draft.columns("sky.cells").set("heat", 1, where),
    )
    kernel.register_agent("bob")
    assert kernel.tree.tables["sky.cells"].named == {1: "bob"}
    kernel.tick(1.0)
    assert kernel.tree.tables["sky.cells"].named == {}
    stamp = kernel.tree.stamp("sky.cells", "cells:1")
    assert stamp is not None
    assert (stamp.by, stamp.foreign_seq) == ("system", kernel.seq - 1)
    require_fold(kernel, log)


def test_the_columns_of_a_hook_have_a_text() -> None:
    texts: list[str] = []

    def write(draft: Any) -> None:
        columns = draft.columns("sky.cells")
        texts.append(f"{columns!r} {len(columns)}")

    ticking(write)
    assert texts == ["<DraftColumns of 'sky.cells': 12 rows> 2"]


@pytest.mark.parametrize("records", [1, 2])
def test_a_log_cut_before_its_tables_opens_them_again(records: int) -> None:
    write = {
        "on_open": lambda draft: draft.columns("sky.cells").set(
            "heat", [draft.draw(str(row)) for row in range(N)]
        )
    }
    whole, cut = RecordList(), RecordList()
    kernel = Kernel(Hooked(**write), KernelConfig(seed=3), sink=whole)
    cut.extend(whole[:records])
    again = Kernel(Hooked(**write), KernelConfig(seed=3), sink=cut, history=whole[:records])
    assert cut == whole
    assert again.world_digest() == kernel.world_digest()
    verifier = Verifier([Hooked(**write)])
    for data in cut:
        verifier.apply(data)
    assert verifier.state.digest().hex() == kernel.digest()


class Later(Hooked):
    """A later release of the domain."""

    version = "2"


def test_a_log_cut_before_its_tables_has_their_defaults_under_other_rules() -> None:
    write = {"on_open": lambda draft: draft.columns("sky.cells").set("heat", 9)}
    whole, cut = RecordList(), RecordList()
    old = rules_of(Kernel(Hooked(**write), KernelConfig(seed=3), sink=whole).registry)
    cut.extend(whole[:1])
    kernel = Kernel(Later(**write), KernelConfig(seed=3), sink=cut, history=whole[:1])
    assert kernel.state["sky.cells"]["cells:0"]["heat"] == 0.5
    verifier = Verifier(lambda rules: [(Hooked if rules == old else Later)(**write)])
    for data in cut:
        verifier.apply(data)
    assert verifier.state.digest().hex() == kernel.digest()


class Before(Hooked):
    """The domain before it had cells."""

    tables = (Hooked.tables[0],)


def test_a_table_that_a_later_release_declares_has_its_defaults() -> None:
    log = RecordList()
    kernel = Kernel(Before(), KernelConfig(seed=3), sink=log)
    old = rules_of(kernel.registry)
    kernel.register_population("birds", N, table="sky.birds")
    write = {"on_open": lambda draft: draft.columns("sky.cells").set("heat", 9)}
    kernel = Kernel(Hooked(**write), KernelConfig(seed=3), sink=log, history=[*log])
    assert kernel.state["sky.cells"]["cells:0"]["heat"] == 0.5
    require_fold(kernel, log)
    verifier = Verifier(lambda rules: [Before() if rules == old else Hooked(**write)])
    for data in log:
        verifier.apply(data)
    assert verifier.state.digest().hex() == kernel.digest()
