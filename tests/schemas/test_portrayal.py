"""`Portrayal`: the fields that set the marks of a map."""

import pytest

from placet.schemas.portrayal import Portrayal


def test_the_marks_are_the_chosen_fields_besides_the_color():
    assert Portrayal(color="state").marks == {}
    chosen = Portrayal(color="state", size="energy", label="name")
    assert chosen.marks == {"size": "energy", "label": "name"}
    assert Portrayal(marker="sort").marks == {"marker": "sort"}


@pytest.mark.parametrize("width", [0, -3, 2.0, True, "8"])
def test_the_width_of_a_grid_is_a_number_of_cells(width):
    assert Portrayal(width=8).width == 8
    with pytest.raises(ValueError, match="an int of cells above 0, got"):
        Portrayal(width=width)
