"""Words and sentences that a stranger may have to read twice.

`is_riddle` marks a docstring by patterns of literary English, `OPENINGS` the first words that no
programmer expects, `LITERARY_WORDS` the words that are no term of the field. The patterns
are hints: a plain sentence may match one, so a package has an allowance (`test_style.py`).
"""

import re

PATTERNS = [
    r"\b(whoever|who (?:comes|waits|asks|lives|wants|sleeps|is late|looks|thinks|proposes))\b",
    r"\bwho (?:stands|posted|tries|holds|took)\b",
    r"\bthose (who|that|which)\b",
    r"\b[Ww]hat (is|was|it|came|comes|became|becomes|may|an?|there|others?|waits|stands)\b",
    r"\b[Ww]hat (somebody|moves|of|the|they|fits|follows|runs)\b",
    r"\b(of (its|their|one's|his|our) own|one's own|the user's own)\b",
    r"\b(somebody|nobody|anybody|everybody)\b",
    r"\b(is|are|be|stand|puts?|something|whatever) otherwise\b|otherwise in",
    r"\b(lived|lives|live through|living it)\b",
    r"\b(goes by|go by|gone on|goes on|go on)\b",
    r"\bas (it|they) (came|come|comes|stands?|stood|lies)\b",
    r"\bto be (had|seen|told|gone)\b",
]
RIDDLES = [re.compile(pattern) for pattern in PATTERNS]
OPENINGS = re.compile(r"(Give|Gives|Tell|Tells|Say|Says|Let|Lets|What|Who|Whoever|Those)\b")
LITERARY_WORDS = frozenset(
    {
        "alarm", "asked", "begun", "booked", "booking", "books", "borne",
        "brought", "clerk", "company", "concerns", "contenders", "custody", "desk", "doings",
        "door", "doors", "eyes", "foresight", "glance", "guest", "guests",
        "house", "keeper", "life", "lived", "lives", "losers", "meant", "news", "nudge",
        "placing", "putting", "rehearsal", "roster", "scene", "sighting", "sleepers", "stand",
        "tally", "told", "voice",
    }
)  # fmt: skip


def is_riddle(docstring: str) -> bool:
    """Return whether a docstring matches a pattern of literary English."""
    return any(pattern.search(docstring) for pattern in RIDDLES)


def words_of(name: str) -> set[str]:
    """Return the words of an identifier in snake case or camel case, in lower case."""
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
