"""The type of a column is joined over all values; no value fails later, and none is changed."""

import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.tables.arrow import arrow_array, json_text
from placet.tables.column_types import ColumnType
from placet.tables.parts import converted


def type_of(*values):
    known = ColumnType()
    for value in values:
        known.add(value)
    return known.name


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), "null"),
        ((None,), "null"),
        ((None, True), "bool"),
        ((1, None), "int64"),
        ((1, 2.5), "float64"),
        ((2**63 - 1,), "int64"),
        ((2**63,), "json"),
        ((-(2**63) - 1,), "json"),
        ((2**53 + 1, 0.5), "json"),
        ((2**53 + 2, 0.5), "float64"),
        (("a", None), "string"),
        (("a", 1), "json"),
        ((True, 1), "json"),
        (([1, 2], None), "list<int64>"),
        (([1], [2.5]), "list<float64>"),
        ((["a"],), "list<string>"),
        (([],), "list<null>"),
        (([], [True]), "list<bool>"),
        (([1, "a"],), "json"),
        (([[1]],), "json"),
        (([1], 1), "json"),
        (({"a": 1},), "json"),
        (((1, 2.5),), "list<float64>"),
    ],
)
def test_a_column_has_the_narrowest_type_that_holds_its_values(values, expected):
    assert type_of(*values) == expected
    assert type_of(*reversed(values)) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "int64"),
        ({"type": "number"}, "float64"),
        ({"type": ["string", "null"]}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "int64"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "json"),
        ({"enum": ["a", "b"]}, "string"),
        ({"const": 3}, "int64"),
        ({"type": "array", "items": {"type": "number"}}, "list<float64>"),
        ({"type": "array", "prefixItems": [{"type": "integer"}] * 2}, "list<int64>"),
        ({"type": "array", "items": {"type": "array"}}, "json"),
        ({"type": "object"}, "json"),
        ({"$ref": "#/$defs/Name"}, "string"),
        ({"$ref": "#/$defs/Loop"}, "null"),
        ({}, "null"),
    ],
)
def test_a_json_schema_gives_the_type(schema, expected):
    known = ColumnType()
    root = {"$defs": {"Name": {"type": "string"}, "Loop": {"$ref": "#/$defs/Loop"}}}
    known.add_schema(schema, root)
    assert known.name == expected


scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
values = scalars | st.lists(scalars) | st.dictionaries(st.text(), scalars)


@given(st.lists(values))
def test_many_values_at_once_have_the_type_of_one_by_one(column):
    known = ColumnType()
    known.add_all(column)
    assert known.name == type_of(*column)


@given(st.lists(values))
@example([2**53 + 2, 0.5])
@example([[2**60], [None, 0.5], None])
def test_every_value_survives_in_a_column_of_the_joined_type(column):
    """The law: the column can be built, and each value is read back equal, by value."""
    name = type_of(*column)
    back = arrow_array(column, name).to_pylist()
    expected = [None if v is None or name != "json" else json_text(v) for v in column]
    if name == "json":
        assert back == expected
    else:
        assert back == column


@pytest.mark.parametrize("later", [[0.5], ["text"], [[1, 2]], [2**70], [None]])
@pytest.mark.parametrize("part", [[1, 2**53 + 2, None], [None], [True], [[2**60], [1]], [[]]])
def test_part_of_a_narrower_type_keeps_its_values_in_the_joined_type(part, later):
    known, joined = ColumnType(), ColumnType()
    known.add_all(part)
    joined.add_all([*part, *later])
    column = pyarrow.chunked_array([arrow_array(part, known.name)])
    expected = arrow_array(part, joined.name)
    assert converted(column, joined.name).to_pylist() == expected.to_pylist()
    assert converted(column, joined.name).type == expected.type
