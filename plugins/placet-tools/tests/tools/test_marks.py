"""A mark is of a parameter as a whole; a mark that would be without effect is refused."""

from typing import Annotated

import pytest
from pydantic import BaseModel
from tests.tools.shop import QUIET

from placet_tools import Gate, Personal, Secret, ToolError, Tools


def optional(word: Annotated[str, Secret] | None = None) -> None: ...
def in_a_list(words: list[Annotated[str, Personal("a")]]) -> None: ...
def twice(word: Annotated[str, Secret, Personal("a")]) -> None: ...
def number(pin: Annotated[int, Secret]) -> None: ...
def default(word: Annotated[str, Secret] = "none") -> None: ...
def misspelled(order: str, to: Annotated[str, Personal(subject="ordre")]) -> None: ...
def of_nobody(to: Annotated[str, Personal(subject="")]) -> None: ...
def of_a_secret(word: Annotated[str, Secret], to: Annotated[str, Personal("word")]) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (optional, "around the whole type"),
        (in_a_list, "around the whole type"),
        (twice, "one mark"),
        (number, "must be a str"),
        (default, "no default"),
        (misspelled, "did you mean 'order'?"),
        (of_nobody, "is no parameter"),
        (of_a_secret, "is a secret"),
    ],
)
def test_a_mark_that_cannot_hold_is_refused(function, words):
    with pytest.raises(ToolError, match=words):
        Tools("shop").tool()(function)


def test_a_mark_in_a_model_is_refused():
    with pytest.raises(TypeError, match="around the whole type"):

        class Account(BaseModel):
            password: Annotated[str, Secret]


@pytest.mark.parametrize("mark", [Secret, Personal("person")])
def test_the_tool_that_undoes_a_call_marks_the_same_parameters(mark):
    tools = Tools("shop")

    @tools.tool()
    def take_back(to: str) -> None: ...

    with pytest.raises(ToolError, match="mark the parameter 'to' of both"):

        @tools.tool(undo=take_back)
        def send(to: Annotated[str, mark]) -> None: ...


def test_a_log_without_a_place_beside_it_has_no_marks():
    tools = Tools("shop")
    Gate(tools, store="postgresql://user@localhost/db?world=town", config=QUIET)

    @tools.tool()
    def login(password: Annotated[str, Secret]) -> None: ...

    with pytest.raises(ToolError, match="got postgresql, so name a store such as"):
        Gate(tools, store="postgresql://user@localhost/db?world=town", config=QUIET)


def test_models_are_shown_the_type_of_a_value_and_the_log_has_its_form(room):
    tool = room.tools.by_name["login"]
    shown, logged = tool.payload.model_json_schema(), tool.logged.model_json_schema()
    assert shown["properties"]["password"]["minLength"] == 4
    assert logged["properties"]["password"]["pattern"].startswith("^secret")
