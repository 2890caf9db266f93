"""The error of a key that a mapping does not have suggests one that it has."""

import pytest

from placet.schemas.missing_key import MissingKeyError


@pytest.mark.parametrize(
    ("key", "known", "text"),
    [
        ("shelv", ["shelf", "till"], "there is no shop 'shelv'; did you mean 'shelf'?"),
        ("zzz", ["shelf", "till"], "there is no shop 'zzz'; there are shelf, till"),
        (
            "zzz",
            list("abcdefghij"),
            "there is no shop 'zzz'; there are a, b, c, d, e, f, g, h, ...",
        ),
        ("zzz", [], "there is no shop 'zzz'; there is none"),
        (5, ["shelf"], "there is no shop 5; there are shelf"),
    ],
)
def test_the_text_names_the_nearest_key_or_the_keys(key, known, text):
    error = MissingKeyError(key, "shop", known)
    assert str(error) == text
    assert repr(error) == f"MissingKeyError({text!r})"
    assert error.args == (key,)
