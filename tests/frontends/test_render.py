"""How the terminal shows values that a person decides about."""

from itertools import combinations

from placet.agents.proposal.turn_result import StateChange
from placet.frontends.render import action_line, changed
from placet.schemas.codec import Json
from placet.schemas.printable import printable

VALUES: tuple[Json, ...] = (
    *(None, "null", True, "true", 1, "1", 1.0, "1.0", -0.0, 0, "", [], "[]", {}, "{}", "a", "a "),
    *("a\u202eb", "a\\u202eb", "a\nb", "a\\nb", '"a"', [1], ["1"], "x" * 500 + "y", "x" * 501),
    *("e\u0301", "\xe9", "\u0430", "a\xa0b", "a b"),
)


def change(value):
    return StateChange(path="bank/zoe/sum", op="replace", old=value, new=value)


def test_different_values_of_a_change_have_different_lines():
    lines = [printable(changed(change(value), is_whole=True)) for value in VALUES]
    for one, other in combinations(lines, 2):
        assert one != other


def test_different_arguments_of_an_action_have_different_lines():
    lines = [
        printable(action_line({"kind": "bank.pay", "payload": {"to": value}})) for value in VALUES
    ]
    for one, other in combinations(lines, 2):
        assert one != other


def test_letters_that_look_like_others_have_a_remark():
    line = changed(change("z\u043ee"), is_whole=True)
    assert line.endswith("(letters of Latin and Cyrillic: \u043e U+043E)")
