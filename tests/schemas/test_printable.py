import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.printable import (
    defused,
    escaped_json,
    printable,
    printable_html,
    printable_json,
    unseen_characters,
)

UNSEEN = [
    *("\x00", "\x07", "\t", "\n", "\r", "\x1b", "\x7f", "\x85", "\x9b"),
    *("\xad", "\u034f", "\u061c", "\u115f", "\u180e", "\u200b", "\u200e", "\u200f"),
    *("\u2028", "\u2029", "\u202a", "\u202e", "\u2060", "\u2066", "\u2069", "\u3164"),
    *("\ufe00", "\ufeff", "\ufffb", "\U0001d173", "\U000e0001", "\U000e0041", "\U000e0100"),
]


@pytest.mark.parametrize("character", UNSEEN)
def test_an_unseen_character_is_an_escape_in_every_form(character):
    text = f"a{character}b"
    assert unseen_characters(text) == character
    escaped = character.encode("unicode_escape").decode()
    assert printable(text) == f"a{escaped}b"
    assert printable_html(text) == f"a{escaped}b"
    encoded = printable_json({text: [text]})
    assert not unseen_characters(encoded)
    assert json.loads(encoded) == {text: [text]}


@pytest.mark.parametrize("text", ["", "plain", "é中文", "a\u3000b\xa0c", "❤️", "नि", "عربى"])
def test_letters_of_every_script_marks_and_spaces_stay(text):
    assert printable(text) == text
    assert unseen_characters(text) == ""
    assert printable_json(text) == json.dumps(text, ensure_ascii=False)


SEEN = [
    *((0x600, 0x605), (0x6DD, 0x6DD), (0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2)),
    *((0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1345F)),
]
"""Signs before a number in Arabic, Syriac and Kaithi, and the joiners of hieroglyphs."""


def test_every_control_and_format_character_is_unseen_but_signs_of_a_script():
    seen = {code for first, last in SEEN for code in range(first, last + 1)}
    missed = {
        f"{code:x}"
        for code in {*range(0x110000)} - seen
        if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        and not unseen_characters(chr(code))
    }
    assert not missed


def test_json_that_is_written_already_keeps_its_escapes():
    assert escaped_json('"\\n\\u202e\u202e"') == '"\\n\\u202e\\u202e"'


def test_a_lone_surrogate_is_printable():
    assert printable("town-\udcff.db") == "town-\\udcff.db"


def test_html_has_neither_markup_nor_unseen_characters():
    shown = printable_html('<img onerror="a">\u202e\'&')
    assert shown == "&lt;img onerror=&quot;a&quot;&gt;\\u202e&#x27;&amp;"


@pytest.mark.parametrize("text", ["=cmd|'/C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_spreadsheet_runs_no_defused_text(text):
    assert defused(text) == f"'{text}"
    assert defused(f"x{text}") == f"x{text}"


@given(st.lists(st.text("'=+-@\t\r\nab", max_size=3), min_size=1))
def test_texts_that_were_defused_are_found_again(texts):
    shown = [defused(text) for text in texts]
    assert not [text for text in shown if text[:1] in {*"=+-@\t\r\n"}]
    assert [text.removeprefix("'") for text in shown] == texts
