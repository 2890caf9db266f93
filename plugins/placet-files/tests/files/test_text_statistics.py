"""The figures of a text, from its bytes."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.schemas.codec import to_json
from placet.schemas.limits import Limits
from placet_files import FileRefused
from placet_files.text_statistics import WORD_CHARS_MAX, text_figures


def test_lines_words_and_the_most_frequent_of_them_are_counted():
    data = "Hello wide world\nhello\n\nÉtude, étude!".encode()
    assert text_figures(data) == {
        "bytes": len(data),
        "chars": 37,
        "lines": 4,
        "longest_line": 16,
        "words": 6,
        "unique_words": 4,
        "top_words": [["hello", 2], ["étude", 2], ["wide", 1], ["world", 1]],
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def test_an_empty_text_has_zero_counts():
    figures = text_figures(b"")
    assert (figures["lines"], figures["longest_line"], figures["top_words"]) == (0, 0, [])


def test_a_byte_order_mark_is_not_counted():
    assert text_figures("\ufeffhi".encode())["chars"] == 2


def test_the_ten_most_frequent_words_are_listed_with_ties_in_alphabetical_order():
    text = " ".join(f"w{n:02}" for n in range(30, 0, -1)) + " w17"
    expected = ["w17", *(f"w{n:02}" for n in range(1, 10))]
    assert [word for word, _ in text_figures(text.encode())["top_words"]] == expected


@pytest.mark.parametrize("data", [b"\xff\xfe\0", b"a\xc3", b"\xed\xa0\x80", b"a\0b"])
def test_a_file_that_is_not_text_is_refused(data):
    with pytest.raises(FileRefused, match="not_text: ") as raised:
        text_figures(data)
    assert raised.value.code == "not_text"


def test_a_very_long_word_is_listed_shortened():
    [[word, count]] = text_figures(b"x" * (1 << 20))["top_words"]
    assert (word, count) == ("x" * WORD_CHARS_MAX, 1)


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_every_text_has_figures_that_fit_into_an_outcome(text):
    figures = text_figures(text.encode())
    assert figures["unique_words"] <= figures["words"]
    assert len(to_json(figures)) < Limits().payload_bytes_max
