"""Declarations of fields and tables: what they take, and what they say of a mistake."""

from typing import Any

import pytest

from placet.kernel import Domain, Field, Kernel, Kind, Table
from placet.kernel.arrays.authors import BY_OPERATOR, BY_SYSTEM, NAMED, SEVERAL, Authors
from placet.kernel.arrays.field import dtype_limits
from placet.schemas.errors import DomainError
from placet.schemas.identity import OPERATOR, SYSTEM


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"dtype": "f2"}, "dtype of a field is one of b1, i1, .* got 'f2'"),
        ({"dtype": "i4", "shape": 0}, "shape of a field is made of ints above 0, got 0"),
        ({"dtype": "i4", "shape": (2, 2.0)}, r"made of ints above 0, got \(2, 2.0\)"),
        ({"dtype": "i4", "shape": (8, 9)}, r"at most 64 numbers a row, got \(8, 9\)"),
        ({"dtype": "i4", "low": 3, "high": 2, "default": 3}, "low <= high, got 3 and 2"),
        ({"dtype": "i4", "low": 3}, "the default 0 is not within 3 and 2147483647"),
        ({"dtype": "i4", "high": 2**31}, "the high of a field of i4 does not fit: 2147483648"),
        ({"dtype": "u1", "low": -1}, "the low of a field of u1 does not fit: -1"),
        ({"dtype": "i4", "default": 0.5}, "the default of a field of i4 does not fit: 0.5"),
        ({"dtype": "f8", "high": float("inf")}, "the high of a field of f8 does not fit: inf"),
        ({"dtype": "f8", "low": "0"}, "the low of a field of f8 does not fit: '0'"),
        ({"dtype": "i4", "low": "0"}, "the low of a field of i4 does not fit: '0'"),
    ],
)
def test_a_field_that_does_not_fit_is_refused(parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Field(**parts)


def test_a_field_has_the_bounds_of_its_dtype_where_it_declares_none() -> None:
    assert Field("i1").limits == (-128, 127)
    assert Field("u8", high=9).limits == (0, 9)
    assert Field("b1").limits == (0, 1)
    assert dtype_limits("f4")[1] == 3.4028234663852886e38
    assert (Field("f4", 3).components, Field("f4", (2, 3)).components) == (3, 6)
    assert Field("i4", default=2.0).default == 2


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"name": "cells"}, "named <domain>.<rows>, such as 'city.cells', got 'cells'"),
        ({"name": 3}, "named <domain>.<rows>, .* got 3"),
        ({"fields": {}}, "the table 'a.b' needs at least one field"),
        ({"fields": {"a b": Field("i4")}}, "names and Field.* got 'a b'"),
        ({"fields": {"a": "i4"}}, "names and Field.* got 'a': 'i4'"),
        ({"rows": 0}, "has `rows` >= 1 or None, got 0"),
        ({"rows": True}, "has `rows` >= 1 or None, got True"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(parts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Table(**{"name": "a.b", "fields": {"a": Field("i4")}, **parts})


class Place(Domain):
    """A domain of the tables that a test names."""

    name, version = "place", "1"
    kinds = (Kind("Do", dict[str, int], lambda draft, intent: None),)

    def __init__(self, tables: Any) -> None:
        self.tables = tables


FIELDS = {"a": Field("i4")}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (3, "tables of domain 'place' must be a sequence"),
        ((FIELDS,), "tables of domain 'place' must be a sequence"),
        ((Table("other.rows", FIELDS),), "is of domain 'place'; name it 'place.rows'"),
        ((Table("place.rows", FIELDS), Table("place.rows", FIELDS)), "two tables are called"),
    ],
)
def test_tables_of_a_domain_are_checked(tables: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Kernel(Place(tables))


def test_authors_are_numbered_through_all_populations() -> None:
    authors = Authors()
    assert (authors.add("birds", 3), authors.add("fish", 2)) == (0, 3)
    numbers = {"birds:2": 2, "fish:0": 3, "fish:1": 4, SYSTEM: BY_SYSTEM, OPERATOR: BY_OPERATOR}
    for name, number in numbers.items():
        assert authors.number_of(name) == number
        assert authors.name_of(number) == name
    for name in ("ann", "birds:3", "cats:0"):
        assert authors.number_of(name) == NAMED
    assert authors.name_of(SEVERAL) == ""
    with pytest.raises(IndexError, match="there is no member 5"):
        authors.name_of(5)
