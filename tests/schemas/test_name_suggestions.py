"""Suggestions for misspelled names."""

from placet.schemas.name_suggestions import nearest


def test_the_most_similar_names_come_first():
    assert nearest("Mvoe", ["Speak", "Move", "Remove"]) == ("Move", "Remove")
    assert nearest("mvoe", ["Move"]) == ("Move",)
    assert nearest("xyz", ["Move"]) == ()


def test_of_many_names_those_beside_the_name_are_compared():
    names = [f"kind_{letter}{number}" for letter in "abcdefgh" for number in range(100)]
    assert nearest("kind_d57x", names, 1) == ("kind_d57",)
