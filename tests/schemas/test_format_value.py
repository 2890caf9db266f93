"""Values in messages are shown as JSON, short, and without raising; those of numpy are plain."""

from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from placet.schemas.codec import from_numpy
from placet.schemas.json_value import format_value, message_for


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (7, "7"),
        ("a 'word'", '''"a 'word'"'''),
        ("word", "'word'"),
        ({"a": None, "b": [True, "x"]}, '{"a": null, "b": [true, "x"]}'),
        ((1, "é"), '[1, "é"]'),
        ([{}], "[{}]"),
        (object(), "<object>"),
        ([object()], "[<object>]"),
        (["\ud800"], '["\\ud800"]'),
    ],
)
def test_a_value_is_shown_as_json_and_a_string_in_single_quotes(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize("value", ["x" * 500, ["x" * 500], {"k" * 500: 1}, list(range(500))])
def test_a_long_value_is_cut(value):
    assert len(format_value(value)) <= 80
    assert "..." in format_value(value) or format_value(value).endswith("…")


def test_a_value_whose_repr_raises_is_named_by_its_type():
    def raising(_: object) -> int:
        raise ZeroDivisionError

    hostile = type("list", (list,), {"__len__": raising})
    assert format_value(hostile()) == "<list that raises ZeroDivisionError>"


class One(BaseModel):
    kind: Literal["one"]
    items: list[int] = []


class Two(BaseModel):
    kind: Literal["two"]


SHAPE: TypeAdapter[One | Two] = TypeAdapter(Annotated[One | Two, Field(discriminator="kind")])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "input should be an object, got 5"),
        ({}, "field 'kind' is required"),
        ({"kind": "three"}, "field 'kind' must be one of 'one', 'two', got 'three'"),
        ({"kind": "one", "items": {"a": 1}}, 'input should be an array, got {"a": 1}'),
        ({"kind": "one", "items": ["x"]}, "input should be a valid integer, unable to parse"),
    ],
    ids=str,
)
def test_validation_messages_use_json_terms(given, says):
    with pytest.raises(ValidationError) as raised:
        SHAPE.validate_python(given)
    (detail,) = raised.value.errors()
    assert message_for(detail).startswith(says)


def test_a_missing_field_does_not_show_the_rest():
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(One).validate_python({"items": [1, 2, 3]})
    assert message_for(raised.value.errors()[0]) == "field required"


def test_values_of_numpy_become_python_values_and_others_stay():
    values = [np.float64(0.5), np.array([1, 2]), "text"]
    assert [from_numpy(value) for value in values] == [0.5, [1, 2], "text"]
