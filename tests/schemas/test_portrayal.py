"""`Portrayal`: the fields that set the marks of a map."""

from placet.schemas.portrayal import Portrayal


def test_the_marks_are_the_chosen_fields_besides_the_color():
    assert Portrayal(color="state").marks == {}
    chosen = Portrayal(color="state", size="energy", label="name")
    assert chosen.marks == {"size": "energy", "label": "name"}
    assert Portrayal(marker="sort").marks == {"marker": "sort"}
