"""The rule for names that are registered: of worlds, agents, owners, sessions, scenarios.

A new name has no character that a reader does not see, and one that becomes a part of a path or of
an address cannot lead out of its folder. The rule holds for new names only: a log with other names
is read, verified and continued. Entity ids and texts may hold anything; they are shown escaped.
"""

import re
from typing import Final

from placet.schemas.identity import ID_CHARS_MAX, is_identity
from placet.schemas.printable import UNSEEN, unseen_characters

NAME_PATTERN: Final = f"^[^{UNSEEN}]+$"
PATH_PART_PATTERN: Final = rf"^(?!\.)[^/\\{UNSEEN}]*[^/\\. {UNSEEN}]$"
"""The rule as a pattern of JSON Schema; characters beyond U+FFFF and devices are not in it."""

DEVICE: Final = re.compile(
    r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.IGNORECASE
)
"""Names that are devices on Windows, with any ending."""


def name_fault(name: object) -> str:
    """Return why a value cannot be a new name, as `must ..., got ...`; empty if it can be one."""
    unseen = unseen_characters(name) if isinstance(name, str) else ""
    if unseen:
        return (
            "must have no control, bidirectional, zero-width or separator character, got "
            f"{unseen!a} in {name!a}; leave them out"
        )
    if not is_identity(name):
        return f"must be 1 to {ID_CHARS_MAX} characters, got {name!a:.200}"
    return ""


def path_part_fault(name: object) -> str:
    """Return why a value cannot be a new name in a path; empty if it can be one."""
    fault = name_fault(name)
    if fault:
        return fault
    text = str(name)
    if "/" in text or "\\" in text:
        expected = "have no '/' and no '\\'"
    elif text.startswith("."):
        expected = "not begin with a dot"
    elif text[-1] in ". ":
        expected = "not end in a dot or a space"
    elif DEVICE.fullmatch(text):
        expected = "not be a device of some system"
    else:
        return ""
    return f"must {expected}, because it is a part of a path, got {text!a}"
