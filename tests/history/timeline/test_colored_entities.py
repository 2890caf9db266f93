"""Colors of entities on the map: by a field, by the portrayal, and along steps."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from placet.history.timeline import moments
from placet.history.timeline.fold import PlayedState
from placet.history.timeline.timeline import Place, PlayedStep
from placet.schemas.portrayal import Portrayal

PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"position": [0, 0], "health": "S", "age": 30, "tags": ["a"]},
    "bob": {"position": [1, 0], "health": "I", "age": 4},
    "cem": {"position": [2, 0]},
}


AT: Any = SimpleNamespace(state=PlayedState(collections={"town.people": PEOPLE}))
"""A moment of these people."""


def colored(color=None, **portrayals):
    return moments.map_of(
        AT.state, color, portrayals={f"town.{key}": one for key, one in portrayals.items()}
    )


def test_short_values_of_entities_are_offered_and_lists_are_not():
    assert colored()["colors"] == ["town.people/health", "town.people/age"]
    assert "color" not in colored()["map"][0]


def test_a_portrayal_colors_by_default_and_the_reader_chooses_another():
    by = Portrayal(color="health")
    found = colored(people=by)
    assert found["color"] == "town.people/health"
    assert found["map"][0]["color"] == {
        "field": "health",
        "form": "category",
        "values": ["S", "I", None],
        "names": [],
    }
    other = colored("town.people/age", people=by)["map"][0]["color"]
    assert (other["form"], other["values"]) == ("number", [30, 4, None])
    assert "color" not in colored("none", people=by)["map"][0]


def test_numbers_with_names_are_categories():
    found = colored(people=Portrayal(color="age", names=("young", "old")))["map"][0]["color"]
    assert (found["form"], found["names"]) == ("category", ["young", "old"])


def test_a_field_that_no_entity_has_is_named_with_the_nearest():
    (sentence,) = colored(people=Portrayal(color="helth"))["unknown"]
    assert sentence.startswith("portrayal of town.people: no field 'helth'; did you mean 'health'")
    assert colored(people=Portrayal(color="health"))["unknown"] == []


def test_a_size_is_a_number_a_marker_a_category_and_a_label_a_short_text():
    found = colored(people=Portrayal(size="age", marker="health", label="tags"))
    (layer,) = found["map"]
    assert layer["size"] == {"field": "age", "values": [30, 4, None]}
    assert layer["marker"] == {"field": "health", "values": ["S", "I", None]}
    assert layer["label"] == {"field": "tags", "values": ['["a"]', None, None]}
    assert "color" not in layer
    assert found["unknown"] == []


def test_a_size_without_numbers_is_named_and_each_field_once():
    found = colored(people=Portrayal(size="health", marker="helth", label="helth"))["unknown"]
    assert found[0] == "portrayal of town.people: the field 'health' has no numbers for a size"
    assert len(found) == 2
    assert "no field 'helth'; did you mean 'health'" in found[1]


def test_a_step_has_the_marks_of_the_collections_that_it_wrote_in_any_color():
    portrayals = {"town.people": Portrayal(size="age")}
    (layer,) = moments.portrayed(AT, {"town.people"}, "none", portrayals)
    assert layer["size"]["values"] == [30, 4, None]


def test_a_step_has_the_colors_of_the_collections_that_it_wrote():
    portrayals = {"town.people": Portrayal(color="health")}
    (layer,) = moments.portrayed(AT, {"town.people"}, None, portrayals)
    assert (layer["ids"], layer["color"]["values"]) == (["ann", "bob", "cem"], ["S", "I", None])
    assert moments.portrayed(AT, {"town.people"}, "none", portrayals) == []
    assert moments.portrayed(AT, set(), None, portrayals) == []


FOXES: dict[str, dict[str, Any]] = {
    "rix": {"cell": 13, "position": [7, 7]},
    "rox": {"cell": 0},
    "rex": {"cell": "den"},
    "rax": {"position": [1, 1]},
}


def test_entities_with_a_cell_are_placed_where_the_grid_has_a_width():
    at: Any = PlayedState(collections={"forest.foxes": FOXES})
    portrayals = {"forest.foxes": Portrayal(width=5)}
    (layer,) = moments.map_of(at, portrayals=portrayals)["map"]
    assert layer["ids"] == ["rix", "rox"]
    assert list(zip(layer["x"], layer["y"], strict=True)) == [(3, 2), (0, 0)]
    (layer,) = moments.map_of(at)["map"]
    assert layer["ids"] == ["rix", "rax"]


def test_a_step_moves_entities_by_their_cell_where_the_grid_has_a_width():
    foxes, birds = "forest.foxes", "forest.birds"
    step = PlayedStep(
        Place(3),
        moved={(birds, "tit"): [1, 2], (foxes, "rix"): [7, 7], (foxes, "rox"): None},
        cells={(foxes, "rix"): 11, (foxes, "rox"): None, (birds, "tit"): 3},
    )
    portrayals = {foxes: Portrayal(width=5)}
    assert moments.step_json(step, portrayals)["moved"] == {
        birds: [["tit", (1, 2)]],
        foxes: [["rix", (1, 2)], ["rox", None]],
    }


@pytest.mark.parametrize(
    ("fields", "portrayal", "why"),
    [
        ({"cell": 3}, Portrayal(), "no entity has a field `position` .*; give `width` where"),
        ({"hue": 3}, Portrayal(), "no entity has a field `position` of two or three numbers$"),
        ({"cell": "den"}, Portrayal(width=4), "no entity has a field `cell` with the number"),
    ],
)
def test_a_portrayal_of_entities_without_a_place_is_explained(fields, portrayal, why):
    collections: Any = {"forest.foxes": {"rix": fields}, "town.people": PEOPLE}
    at: Any = PlayedState(collections=collections)
    (sentence,) = moments.map_of(at, portrayals={"forest.foxes": portrayal})["unknown"]
    assert re.search(f"^portrayal of forest.foxes: {why}", sentence)
    collections["forest.foxes"] = {}
    assert moments.map_of(at, portrayals={"forest.foxes": portrayal})["unknown"] == []
