"""The kind `<name>.erase`: personal data of a subject were erased.

The state keeps the ids of erased subjects, which are random: neither the id nor a digest of
erased data leads back to a person.
"""

from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from placet.kernel.plugin.domain import RuleRefusal
from placet.kernel.state.draft import Draft
from placet.schemas.intent import Intent

ERASE: Final = "erase"

EraseRule: TypeAlias = Callable[[Draft, Intent], RuleRefusal | None]


class ErasePayload(TypedDict):
    """Payload of `erase`: id of a subject in the part store."""

    subject: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]


def erase_rule(collection: str) -> EraseRule:
    """Return the rule that records erased subjects in a collection."""

    def rule(draft: Draft, intent: Intent) -> RuleRefusal | None:
        subject = intent["payload"]["subject"]
        if not draft.exists(collection, subject):
            draft.create(collection, subject)
        return None

    return rule
