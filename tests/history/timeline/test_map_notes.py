"""A map without a portrayal says what it draws, or why it draws nothing and what to write."""

import pytest

from placet.history.timeline.fold import PlayedState
from placet.history.timeline.map_notes import ModelSpaces, map_note
from placet.history.timeline.moments import map_of
from placet.schemas.portrayal import Portrayal
from tests.history.timeline.played_logs import log_of, world_records
from tests.history.timeline.test_timeline import played

FOX = {"forest.foxes": {"fox_1": {"cell": 9}}}
WIDTH = {"forest.foxes": Portrayal(width=7)}


def note(collections, given=(), spaces=ModelSpaces()):  # noqa: B008  # immutable
    state = PlayedState()
    state.collections.update(collections)
    drawn = map_of(state, portrayals={**spaces.portrayals, **dict(given)})
    return map_note(state, drawn["map"], dict(given), spaces)


def test_the_note_names_collections_drawn_by_the_grid_of_the_model():
    assert note(FOX, spaces=ModelSpaces(WIDTH)) == (
        "forest.foxes: drawn by the grid of the model, 7 cells wide."
    )


@pytest.mark.parametrize("problem", ["", "The model is not at hand: no module"])
def test_a_cell_without_a_width_says_which_portrayal_to_write(problem):
    told = note(FOX, spaces=ModelSpaces(problem=problem))
    assert told.startswith("Not drawn: forest.foxes. The field `cell` is a place once the width")
    assert 'write [portrayal."forest.foxes"] with `width = ...`' in told
    assert problem in told


def test_a_state_without_places_says_what_a_place_is():
    told = note({"town.people": {"ann": {"age": 3}}})
    assert told.startswith("No map: town.people has no field `position` of two or three numbers.")
    assert '[portrayal."town.people"]' in told


def test_positions_given_portrayals_and_an_empty_state_have_no_note():
    assert note({"town.people": {"ann": {"position": [1, 2]}}}) == ""
    assert note(FOX, given=WIDTH) == ""
    assert note({}) == ""


def test_the_note_names_collections_of_agents_without_a_place_alone():
    timeline = played(log_of(world_records()))

    def look(moment):
        state = moment.state
        state.agents["zoe"] = state.agents["ann"]
        state.collections["world.spirits"] = {"zoe": {"age": 3}}
        state.collections["world.speech"] = {"ann": {"text": "x"}}
        return map_note(state, map_of(state)["map"], {}, ModelSpaces())

    told = timeline.look(timeline.at_seq(10), look)
    assert told.startswith("Not drawn: world.spirits has no field `position`")
