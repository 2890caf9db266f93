"""Kinds with a rule of rows: what they may not have, and what their rule may not do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.plugin.refusals import refuse
from placet.kernel.plugin.rows import Rows
from placet.schemas.errors import DomainError
from placet.schemas.identity import Ref

N = 6
PAYLOAD = {"x": Field("i4")}
PEOPLE, SPOTS = "bank.people", "bank.spots"


def nothing(rows: Rows) -> None:
    rows.refuse(rows.payload["x"] < 0, "below")


def kind(rows: Any = nothing, /, **parts: Any) -> Kind:
    return Kind(**{"name": "Do", "payload": PAYLOAD, "rows": rows, "table": PEOPLE, **parts})


class Bank(Domain):
    """A domain of one kind of rows, and of what a test adds."""

    name, version = "bank", "1"

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds
        fields = {"money": Field("i4", default=5, low=0, high=9), "share": Field("f8")}
        self.tables = (
            Table(PEOPLE, fields),
            Table(SPOTS, {"who": Field("i4"), "is_open": Field("b1")}, rows=N),
        )


class Mine(Domain):
    """Another domain with a table."""

    name, version = "mine", "1"
    kinds = ()
    tables = (Table("mine.shafts", {"depth": Field("i4")}, rows=2),)


def world(rule: Any, *others: Domain, **options: Any) -> Kernel:
    kernel = Kernel([Bank(kind(rule)), *others], KernelConfig(**options), sink=RecordList())
    kernel.register_population("people", N, table=PEOPLE)
    return kernel


def batch(x: Any = range(N), **parts: Any) -> ColumnBatch:
    return ColumnBatch("Do", "people", {"x": list(x)}, parts.pop("req_id", "a:0"), **parts)


async def later(rows: Rows) -> None:
    """An asynchronous rule, which nothing awaits."""


PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "effects": ({"effects": ("ring",)}, "has a rule of rows, and so no effects; see docs/"),
    "reads": ({"reads": lambda intent: []}, "and so no reads;"),
    "revalidates": ({"revalidates": lambda intent: []}, "and so no revalidates;"),
    "upcasters": ({"upcasters": {"0": dict}}, "and so no upcasters;"),
    "work": ({"work": 3}, "and so no work;"),
    "broadcast": ({"broadcast": True}, "and so no broadcast;"),
    "risk_of": ({"risk_of": lambda payload, state: "low"}, "and so no risk_of;"),
    "read_only": ({"read_only": True}, "and so no read_only;"),
    "risk": ({"risk": "read"}, "and so no risk 'read';"),
    "when_stale": ({"when_stale": "revalidate"}, "and so no when_stale 'revalidate';"),
    "rule": ({"rule": lambda draft, intent: None}, "has both a rule and a rule of rows"),
    "no table": ({"table": None}, r"name the table of its agents: table='\.\.\.'"),
    "another reads_self": ({"reads_self": SPOTS}, "its reads_self is that table or None"),
    "payload": ({"payload": dict}, r"payload of kind 'Do' must map names to Field\(\.\.\.\)"),
    "payload's names": ({"payload": {"a b": Field("i4")}}, r"must map names to Field\(\.\.\.\)"),
    "payload's fields": ({"payload": {"x": "i4"}}, r"must map names to Field\(\.\.\.\)"),
    "rows": ({"rows": 3}, r"the rows of kind 'Do' must be a function of \(rows\), got 3"),
    "class": ({"rows": Rows}, r"must be a function of \(rows\), got <class"),
    "arguments": ({"rows": lambda a, b: None}, r"must be a function of \(rows\), got \(a, b\)"),
    "async": ({"rows": later}, "that is not async"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_rule_of_rows_refuses_parts_that_it_would_not_use(name: str) -> None:
    parts, message = PARTS[name]
    with pytest.raises(ValueError, match=message):
        kind(**parts)


def test_a_table_without_a_rule_of_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="has a table and no rule of rows"):
        Kind("Do", dict[str, int], lambda draft, intent: None, table=PEOPLE)


def test_a_copy_of_a_kind_keeps_its_fields_or_takes_others() -> None:
    first = kind()
    assert replace(first, summary="x").fields == PAYLOAD
    other = {"y": Field("f8", 2)}
    assert replace(first, payload=other).fields == other
    assert replace(kind(payload={}), summary="x").fields == {}


def test_the_table_of_a_kind_is_a_table_of_agents_of_its_domain() -> None:
    for table, hint in (("bank.poeple", "did you mean 'bank.people'?"), (SPOTS, "bank.people")):
        with pytest.raises(DomainError, match=rf"the table of kind 'Do' is '{table}'; .*{hint}"):
            Kernel(Bank(kind(table=table)))


class Finishing(Bank):
    """A domain that finishes each batch."""

    def on_batch(self, draft: Any) -> None:
        """Do nothing."""


class Checking(Bank):
    """A domain whose invariants depend on what `reads` names."""

    reads: Any = None

    def __init__(self, *kinds: Kind) -> None:
        super().__init__(*kinds)
        self.invariant_reads = self.reads

    def invariants(self, state: Any, changed: Any) -> Any:
        return [refuse("never", "no state is good")] if changed else []


class CheckingOwn(Checking):
    """A domain with an invariant of its table."""

    reads = (Ref(SPOTS, None),)


class CheckingOthers(Checking):
    """A domain with an invariant of another collection."""

    reads = (Ref("bank.rates", "today"),)


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (Finishing, "domain 'bank' has on_batch, and its kind 'Do' has a rule of rows"),
        (Checking, r"has invariants of any entity \(set `invariant_reads`\), and its kind 'Do'"),
        (CheckingOwn, "has invariants that read its table 'bank.spots', and its kind 'Do'"),
    ],
)
def test_hooks_that_a_column_batch_would_not_call_are_refused(domain: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Kernel(domain(kind()))


def test_invariants_of_other_collections_stand_beside_a_rule_of_rows() -> None:
    kernel = Kernel(CheckingOthers(kind()))
    kernel.register_population("people", N, table=PEOPLE)
    assert kernel.decide_columns(batch()).admitted.all()


class Validator:
    """A rule of the host, which refuses all."""

    def validate_intent(self, intent: Any, world_state: Any) -> object:
        return False


def test_a_world_with_an_effect_validator_opens_without_rules_of_rows() -> None:
    with pytest.raises(DomainError, match="'Do' has a rule of rows, so its world takes no effect"):
        Kernel(Bank(kind()), effect_validator=Validator())


# faults of a rule


def write_payload(rows: Any) -> None:
    rows.payload["x"][:] = 0


def write_own(rows: Any) -> None:
    rows.own["money"][:] = 0


def write_numbers(rows: Any) -> None:
    rows.numbers[:] = 0


def write_table(rows: Any) -> None:
    rows.table(SPOTS)["who"][:] = 0


FAULTS: dict[str, tuple[Any, str]] = {
    "write payload": (write_payload, "read-only"),
    "write own": (write_own, "read-only"),
    "write numbers": (write_numbers, "read-only"),
    "write a table": (write_table, "read-only"),
    "read no field": (lambda rows: rows.own["mony"], "mony"),
    "read no table": (lambda rows: rows.table("bank.spot"), "did you mean 'bank.spots'?"),
    "claim of no table": (lambda rows: rows.claim("bank.spot", 1), "did you mean 'bank.spots'?"),
    "write no field": (lambda rows: rows.write("mony", 1), "did you mean 'money'?"),
    "write another domain": (
        lambda rows: rows.add("mine.shafts", 0, "depth", 1),
        "of domain 'bank' changes its own tables, got 'mine.shafts'",
    ),
    "mask of numbers": (lambda rows: rows.refuse(rows.payload["x"], "a"), "refuse takes booleans"),
    "mask of another shape": (lambda rows: rows.refuse([True, True], "a"), "refuse takes booleans"),
    "code that is no name": (lambda rows: rows.refuse(False, 3), "refuse takes a code and a mess"),
    "empty code": (lambda rows: rows.refuse(False, ""), "refuse takes a code and a message"),
    "too many refusals": (
        lambda rows: [rows.refuse(False, f"c{n}") for n in range(241)],
        "refuses at most 240 times",
    ),
    "keys of floats": (lambda rows: rows.claim(SPOTS, 0.5), "numbers of rows are integers"),
    "values of another shape": (
        lambda rows: rows.write("money", [1, 2, 3]),
        "takes one value a row, of",
    ),
    "keys of another shape": (lambda rows: rows.claim(SPOTS, [1, 2, 3]), "one number a row"),
    "values of floats": (lambda rows: rows.write("money", 0.5), "bank.people.money takes i4"),
    "bools of ints": (
        lambda rows: [rows.claim(SPOTS, 0), rows.put(SPOTS, 0, "is_open", 1)],
        "bank.spots.is_open takes b1",
    ),
    "sum of floats": (lambda rows: rows.add(PEOPLE, 0, "share", 1), "add is of integers"),
    "amounts of bools": (lambda rows: rows.add(PEOPLE, 0, "money", True), "money takes i4"),
    "amounts beyond i8": (
        lambda rows: rows.add(PEOPLE, 0, "money", np.full(rows.n, 2**63, "u8")),
        r"is at most 2\*\*63 - 1",
    ),
    "a field in two ways": (
        lambda rows: [rows.write("money", 1), rows.add(PEOPLE, 0, "money", 1)],
        "is changed by write and by add; choose one",
    ),
    "a draw of no bound": (lambda rows: rows.randint_below(0, "a"), r"a bound in 1\.\.2\*\*32"),
}


@pytest.mark.parametrize("uses_arrays", [True, False])
@pytest.mark.parametrize("name", FAULTS)
def test_a_mistake_of_a_rule_is_raised_with_its_kind_and_row(name: str, uses_arrays: bool) -> None:
    rule, message = FAULTS[name]
    kernel = world(rule, Mine(), on_rule_error="raise")
    kernel.uses_arrays = uses_arrays
    with pytest.raises((ValueError, KeyError), match=message) as raised:
        kernel.step(1.0, [batch()])
    (note, *_) = raised.value.__notes__
    assert note.startswith("raised by the rule of Do for people:0; it changed nothing")


def fails_at_two(rows: Rows) -> None:
    if (rows.payload["x"] == 2).any():
        raise LookupError("two")
    rows.write("money", 1)


@pytest.mark.parametrize("uses_arrays", [True, False])
def test_a_rule_that_raises_to_the_caller_decides_nothing(uses_arrays: bool) -> None:
    kernel = world(fails_at_two, on_rule_error="raise")
    kernel.uses_arrays = uses_arrays
    before = (kernel.record_count, kernel.seq, kernel.digest(), kernel.world_digest())
    with pytest.raises(LookupError) as raised:
        kernel.decide_columns(batch([0, 1, 0, 2, 2, 0]))
    assert "rule of Do for people:3" in raised.value.__notes__[0]
    assert (kernel.record_count, kernel.seq, kernel.digest(), kernel.world_digest()) == before
    assert kernel.decide_columns(batch([0] * N)).admitted.all()


@pytest.mark.parametrize("uses_arrays", [True, False])
def test_the_first_fault_of_a_batch_is_reported(uses_arrays: bool) -> None:
    kernel = world(fails_at_two)
    kernel.uses_arrays = uses_arrays
    reported: list[tuple[str, BaseException]] = []
    kernel.rules.on_fault = lambda where, error: reported.append((where, error))
    verdict = kernel.decide_columns(batch([0, 2, 2, 2, 2, 0]))
    assert verdict.counts() == {"admitted": 2, "rule_error": 4}
    ((where, error),) = reported
    assert where == "rule of Do for people:1"
    assert isinstance(error, LookupError)


def test_a_rule_is_not_called_without_rows() -> None:
    def first(rows: Rows) -> None:
        rows.write("money", rows.payload["x"][0])

    kernel = world(first, on_rule_error="raise")
    for number in range(N):
        kernel.change_agent(f"people:{number}", "suspended")
    assert kernel.decide_columns(batch()).counts() == {"agent_suspended": N}


def choosy(rows: Rows) -> None:
    """Raise for some rows, and make other calls where a number is there."""
    if (rows.payload["x"] == 5).any():
        raise LookupError
    if (rows.payload["x"] > 2).any():
        rows.refuse(rows.payload["x"] == 3, "three")
    rows.write("money", 1)


@pytest.mark.parametrize("uses_arrays", [True, False])
def test_other_calls_for_other_rows_are_an_error_and_no_wrong_record(uses_arrays: bool) -> None:
    kernel = world(choosy)
    kernel.uses_arrays = uses_arrays
    reported: list[BaseException] = []
    kernel.rules.on_fault = lambda where, error: reported.append(error)
    verdict = kernel.decide_columns(batch())
    assert verdict.counts() == {"rule_error": N}
    texts = list(map(str, reported))
    assert len(texts) == 1


def test_unequal_calls_say_what_to_write_instead() -> None:
    def odd(rows: Rows) -> None:
        if rows.payload["x"].any():
            rows.refuse(False, "never")

    kernel = world(odd, on_rule_error="raise")
    kernel.uses_arrays = False
    with pytest.raises(Exception, match="makes other calls for other rows; call refuse, claim, wr"):
        kernel.decide_columns(batch())


def test_a_row_of_no_member_is_refused_as_an_ordinary_intent() -> None:
    kernel = world(nothing)
    kernel.register_agent("guest")
    verdict = kernel.decide([kernel.intent("Do", {"x": 1}, agent="guest")])
    assert verdict.refusals[0].code == "bank.no_row"
    assert "guest has no row in bank.people; Do is of the members" in verdict.refusals[0].message
