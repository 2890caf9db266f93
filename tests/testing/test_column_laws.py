"""`check_columns` passes good domains, and finds each of several faulty rules of rows."""

from itertools import count
from typing import Any

import numpy as np
import pytest

from placet.kernel import Domain, Field, Kind, Table
from placet.testing import ColumnViolation, check_columns
from tests.kernel.columns.lab import Lab

PEOPLE = "pond.frogs"


class Pond(Domain):
    """Frogs with a place, coins and a color, and one kind."""

    name, version = "pond", "1"

    def __init__(self, rule: Any) -> None:
        self.tables = (
            Table(
                PEOPLE,
                {
                    "place": Field("f8", low=0, high=100),
                    "coins": Field("i4", default=3, low=0, high=9),
                    "color": Field("u1", high=9),
                },
            ),
        )
        payload = {"x": Field("f8", low=0, high=100), "to": Field("i4", low=0)}
        self.kinds = (Kind("Do", payload, rows=rule, table=PEOPLE),)


def jump(rows: Any) -> None:
    rows.refuse(rows.payload["x"] > 90, "too_far")
    rows.write("place", rows.payload["x"])


def pay(rows: Any) -> None:
    rows.add(PEOPLE, rows.numbers, "coins", -1)


def test_good_rules_pass_and_their_codes_are_counted() -> None:
    counts = check_columns(Pond(jump))["Do"]
    assert counts["admitted"] > counts["pond.too_far"] > 0
    assert check_columns(Pond(pay))["Do"]["pond.out_of_bounds"]


def test_a_domain_with_every_way_of_change_passes() -> None:
    def columns(rng: Any, table: str, numbers: Any) -> dict[str, Any]:
        return {
            "cell": rng.permutation(20)[: len(numbers)],
            "position": np.full((len(numbers), 2), 9),
        }

    def payload(rng: Any, kind: str, numbers: Any) -> dict[str, Any]:
        return {"to": rng.uniform(8.5, 9.5, (len(numbers), 2))} if kind == "Move" else {}

    counts = check_columns(Lab(12, 20), columns=columns, payload=payload, worlds=6)
    assert all(counts[kind].get("admitted") for kind in counts), counts


def centered(rows: Any) -> None:
    """Write a mean over the rows of the call."""
    rows.write("place", np.full(rows.n, rows.payload["x"].mean()))


def first_come(rows: Any) -> None:
    """Refuse all rows but the first of the call."""
    rows.refuse(np.arange(rows.n) > 0, "late")


def choosy(rows: Any) -> None:
    """Make another call where a row is far."""
    if (rows.payload["x"] > 50).any():
        rows.refuse(rows.payload["x"] > 95, "far")
    rows.write("place", rows.payload["x"])


CALLS = count()


def counting(rows: Any) -> None:
    """Write the number of the call."""
    rows.write("color", np.full(rows.n, next(CALLS) % 9, "u1"))


def ranked(rows: Any) -> None:
    """Write the place of the row in the call."""
    rows.write("color", np.arange(rows.n) % 9)


@pytest.mark.parametrize(
    ("rule", "finding"),
    [
        (
            centered,
            r"the number \d+ that the admitted rows put to pond.frogs.place is .* as arrays",
        ),
        (first_come, "row 1 is pond.late as arrays and admitted row by row; a rule does for a row"),
        (choosy, "is .* as arrays and rule_error row by row"),
        (counting, "pond.frogs.color is .* as arrays and .* row by row"),
        (
            ranked,
            "the number 1 that the admitted rows put to pond.frogs.color is 1 as arrays and 0",
        ),
    ],
)
def test_a_rule_that_is_not_row_wise_is_found(rule: Any, finding: str) -> None:
    with pytest.raises(ColumnViolation, match=finding) as broken:
        check_columns(Pond(rule))
    assert (broken.value.law, broken.value.kind) == ("A", "Do")
    assert f"in the world of seed {broken.value.seed}:" in str(broken.value)
    with pytest.raises(ColumnViolation, match=finding):
        check_columns(Pond(rule), seed=broken.value.seed, worlds=1)


class Peeking(Pond):
    """Frogs whose rule reads the others' places from the domain, past `rows`."""

    def __init__(self) -> None:
        self.seen: dict[int, float] = {}

        def peek(rows: Any) -> None:
            rows.write("color", np.array([len(self.seen) % 9] * rows.n, "u1"))
            self.seen.update(zip(rows.numbers.tolist(), rows.payload["x"].tolist(), strict=True))

        super().__init__(peek)


def test_a_rule_that_takes_an_array_for_one_number_gets_advice() -> None:
    def rule(rows: Any) -> None:
        rows.write("position", 5.0 if rows.payload["to"] > 3 else rows.payload["to"])

    class Walk(Domain):
        name, version = "walk", "1"
        tables = (Table("walk.people", {"position": Field("f8")}),)
        kinds = (Kind("Go", {"to": Field("f8")}, rows=rule, table="walk.people"),)

    with pytest.raises(ColumnViolation, match=r"ambiguous.*row-wise.*rows\.refuse\(mask"):
        check_columns(Walk())


def test_a_rule_with_memory_is_found() -> None:
    with pytest.raises(ColumnViolation, match=r"breaks law [AB]"):
        check_columns(Peeking())


def test_names_of_kinds_are_checked() -> None:
    with pytest.raises(
        ValueError, match=r"no rule of rows has the kind 'Do_'; did you mean 'Do'\?"
    ):
        check_columns(Pond(jump), kinds=["Do_"])
    with pytest.raises(ValueError, match=r"no kind of \['plain'\] has a rule of rows"):
        check_columns(Plain())
    with pytest.raises(TypeError, match="check_columns has no parameter 'world'"):
        check_columns(Pond(jump), world=3)  # type: ignore[call-arg]  # the mistake
    assert check_columns(Lab(4, 6), kinds=["Roll"], worlds=1).keys() == {"Roll"}


class Plain(Domain):
    """A domain of ordinary kinds."""

    name, version = "plain", "1"
    kinds = (Kind("Do", dict[str, int], lambda draft, intent: None),)
