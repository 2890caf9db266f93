"""Tools of another program, whose declarations are pinned in the log.

A tool is pinned when it is first declared. A tool whose declaration differs from the pinned one is
held: each call needs a person, whose approval of one call pins the new declaration. The request
shows the old and the new text, because they are changes of the state.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from placet.kernel.plugin.approved import is_approved
from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet_tools.domain import APPROVAL_REQUIRED, ToolsDomain
from placet_tools.tool import DeclaredTool
from placet_tools.tools import Tools

PIN: Final = "pin"
PINS: Final = "pins"


class PinPayload(TypedDict):
    """Payload of `pin`: tools that are declared for the first time."""

    tools: Annotated[list[str], Field(min_length=1, max_length=1_024)]


class PinnedTools(Tools):
    """Tools of another program: a tool whose declaration changed is held.

    Declare them by `add_schema` with a `definition`. Args and Raises: as of `Tools`.
    """

    def domain(
        self, *, approve_from: str = "high", policy: Mapping[str, Json] | None = None
    ) -> "PinnedToolsDomain":
        """Return the domain of the tools.

        Args:
            approve_from: Least risk of a tool that needs an approval.
            policy: A policy over the calls, as the plain values of its TOML file.

        Raises:
            ToolError: `approve_from` is no risk.
            ToolPolicyError: The policy does not fit the tools.
        """
        return PinnedToolsDomain(self.name, self.by_name, approve_from=approve_from, policy=policy)


class PinnedToolsDomain(ToolsDomain):
    """The domain of tools of another program. Make it by `PinnedTools.domain`.

    Args:
        name: Name of the domain.
        tools: Its tools by name.
        approve_from: Least risk that needs an approval.
        policy: The policy over the calls; None for none.

    Attributes:
        pins: Collection of the pinned declarations: last part of the kind of a tool -> `tool`,
            `digest`, `definition`.
    """

    def __init__(
        self,
        name: str,
        tools: Mapping[str, DeclaredTool],
        *,
        approve_from: str,
        policy: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(name, tools, approve_from=approve_from, policy=policy)
        self.pins = f"{name}.{PINS}"
        self.collections = (*self.records, self.pins)
        pin = self._own_kind(PIN, PinPayload, self._pin, "Tools are declared for the first time.")
        self.kinds = (*self.kinds, pin)

    def _judge(
        self, draft: Draft, tool: DeclaredTool, intent: Intent, call: Mapping[str, Json]
    ) -> RuleRefusal | None:
        """Return the refusal of a call; approved calls pin a changed tool."""
        refusal = super()._judge(draft, tool, intent, call)
        if refusal is not None and refusal.code != APPROVAL_REQUIRED:
            return refusal
        entity = _entity(tool)
        pinned = draft.get(self.pins, entity, "digest")
        if pinned == digest_of_definition(tool.definition):
            return refusal
        if is_approved(draft, intent):
            self._put(draft, tool)
            return refusal
        what = "was not pinned" if pinned is None else "has changed since it was pinned"
        changed = f"the declaration of {tool.name} {what}; a person must approve a call of it"
        return refusal or refuse(APPROVAL_REQUIRED, changed)

    def _pin(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        names = intent["payload"]["tools"]
        draft.charge(5 * len(names))
        for name in names:
            tool = self.tools.get(name)
            if tool is None or draft.exists(self.pins, _entity(tool)):
                return refuse("pin_exists", f"the tool {name!r} is unknown, or is pinned already")
            self._put(draft, tool)
        return None

    def _put(self, draft: Draft, tool: DeclaredTool) -> None:
        entity = _entity(tool)
        if not draft.exists(self.pins, entity):
            draft.create(self.pins, entity, {"tool": tool.name})
        draft.put(self.pins, entity, "digest", digest_of_definition(tool.definition))
        draft.put(self.pins, entity, "definition", tool.definition)


def _entity(tool: DeclaredTool) -> str:
    """Return the entity of the pin of a tool: its name may be no name of an entity."""
    return tool.kind or tool.name


def digest_of_definition(definition: str) -> str:
    """Return the digest of a declaration, hexadecimal."""
    return blake2b(definition.encode("utf-8", "replace"), digest_size=16).hexdigest()
