"""Remarks about texts that look like other texts."""

import pytest

from placet.schemas.look_alikes import remarks


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("pay zoe 5 €", []),
        ({"city": "Zürich", "sum": [1, None]}, []),
        ("оплатить счёт", []),
        ("北京 and Paris", []),
        ("z\u043ee", ["letters of Latin and Cyrillic: \u043e U+043E"]),
        ({"z\u043ee": 1}, ["letters of Latin and Cyrillic: \u043e U+043E"]),
        (["\u0430"], ["Cyrillic letters that look like Latin ones: \u0430 U+0430"]),
        ("cafe\u0301", ["composed in another way than usual, not in Unicode NFC"]),
        ("\uff41dmin", ["characters that are no plain letters or digits: \uff41 U+FF41"]),
        ("a\xa0b", ["characters that look like a space, or have no shape: \xa0 U+00A0"]),
    ],
)
def test_a_text_that_looks_like_another_one_has_a_remark(value, words):
    assert remarks(value) == words
