"""Statistics of a text. Pure: equal bytes have equal figures."""

import hashlib
import re
from collections import Counter
from typing import Final

from placet.schemas.codec import Json
from placet_files.payloads import FileRefused

TOP_WORDS: Final = 10
WORD_CHARS_MAX: Final = 64
"""A word is shown up to here: a text may be one word of a million letters."""

_WORD: Final = re.compile(r"\w+")


def text_figures(data: bytes) -> dict[str, Json]:
    """Return the statistics of a text: numbers of bytes, characters, lines and words, and more.

    A word is a run of letters and digits.

    Lines end where `str.splitlines` splits. Words are counted without regard to case.

    Raises:
        FileRefused: `not_text`: the data is not UTF-8, with or without a byte order mark, or
            contains NUL.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileRefused("not_text", f"byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise FileRefused("not_text", f"character {text.index(chr(0))} is NUL")
    lines = text.splitlines()
    words = Counter(match.group() for match in _WORD.finditer(text.casefold()))
    top = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:TOP_WORDS]
    return {
        "bytes": len(data),
        "chars": len(text),
        "lines": len(lines),
        "longest_line": max(map(len, lines), default=0),
        "words": words.total(),
        "unique_words": len(words),
        "top_words": [[word[:WORD_CHARS_MAX], count] for word, count in top],
        "sha256": hashlib.sha256(data).hexdigest(),
    }
