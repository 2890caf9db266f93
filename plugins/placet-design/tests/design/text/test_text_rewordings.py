"""Rewordings: the user's text with the missing word, each of them parsed before it is offered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet_design.refinable_fields import REFINABLE_SCHEMA, RefinableField
from placet_design.text import Clarification, parse_text, rewordings

REWORDED = [
    ("60 m ferry, 25 knots",
     ["60 m ferry, max speed 25 knots", "60 m ferry, cruise speed 25 knots"]),
    ("set speed to 25 knots", ["set max speed to 25 knots", "set cruise speed to 25 knots"]),
    ("increase speed by 5 knots",
     ["increase max speed by 5 knots", "increase cruise speed by 5 knots"]),
    ("lock Speed", ["lock max speed", "lock cruise speed"]),
    ("set beem to 9 m", ["set beam to 9 m"]),
    # the number stands elsewhere too: there it is not what was asked about
    ("loa 25 m, 25 knots",
     ["loa 25 m, max speed 25 knots", "loa 25 m, cruise speed 25 knots"]),
    ("loa 125 m, 25 knots",
     ["loa 125 m, max speed 25 knots", "loa 125 m, cruise speed 25 knots"]),
    # what comes after may be unclear too
    ("25 knots, then 12 widgets", ["max speed 25 knots, then 12 widgets",
                                   "cruise speed 25 knots, then 12 widgets"]),
    # it is no field that is missing
    ("set beam to 9", []),
    ("increase beam 2 m", []),
    ("lock spead", []),
    ("run the keel phase", []),
    ("never mind", []),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ways"), REWORDED, ids=[text for text, _ in REWORDED])
def test_a_text_is_reworded_for_each_candidate(text, ways):
    asked = parse_text(text)
    assert isinstance(asked, Clarification)
    assert list(rewordings(asked)) == ways


def test_a_percentage_is_reworded_by_the_known_values():
    current = {"mission.max_speed_kts": 20.0}
    asked = parse_text("increase speed by 10 %", current=current)
    assert isinstance(asked, Clarification)
    assert rewordings(asked, current=current) == ("increase max speed by 10 %",)


def test_custom_fields_are_reworded_by_their_keywords():
    fields = {
        path: RefinableField(path, "float", "m", ("m",), keywords=(word,))
        for path, word in (("rig.mast", "mast height"), ("rig.boom", "boom"))
    }
    asked = parse_text("9 m", fields=fields)
    assert isinstance(asked, Clarification)
    assert rewordings(asked, fields=fields) == ("mast height 9 m", "boom 9 m")


WORDS = st.sampled_from(
    ["set", "speed", "25", "knots", "9", "m", "lock", ",", "to", "by", "power", "(", "[a-z]", "1.5"]
    + [word for field in REFINABLE_SCHEMA.values() for word in field.keywords]
)


@given(st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=40))
def test_a_rewording_is_clearer_than_its_text(text):
    asked = parse_text(text)
    if not isinstance(asked, Clarification):
        return
    count = len(asked.understood)
    for way in rewordings(asked):
        read = parse_text(way)
        known = read.understood if isinstance(read, Clarification) else read.actions
        assert known[:count] == asked.understood
        assert known[count].path in asked.candidates
