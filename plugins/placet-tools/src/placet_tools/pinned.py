"""Tools of another program, whose declarations are pinned in the log.

A tool is pinned when it is first declared. A tool whose declaration differs from the pinned one is
held: each call needs a person, whose approval of one call pins the new declaration. The request
shows the old and the new text, because they are changes of the state.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from placet.kernel.plugin.approved import APPROVAL_REQUIRED, is_approved
from placet.kernel.plugin.domain import Risk, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.effect import Delivery
from placet.schemas.intent import Intent
from placet_tools.domain import ToolsDomain
from placet_tools.tool import DeclaredTool, Function, NotDone
from placet_tools.tools import Tools

NAME: Final = "mcp"
"""Name of the domain of a gateway's tools, by which its logs are verified."""

PIN: Final = "pin"
PINS: Final = "pins"
_SUMMARY_CHARS_MAX: Final = 200


class PinToolsPayload(TypedDict):
    """Payload of `pin`: tools that are declared for the first time."""

    tools: Annotated[list[str], Field(min_length=1, max_length=1_024)]


class PinnedTools(Tools):
    """Tools of another program: a tool whose declaration changed is held.

    Declare them by `declare`, or by `add_schema` with a `definition`.

    Args:
        name: Name of the domain.

    Raises:
        ToolError: The name is not a lower-case identifier of at most 32 characters.
    """

    def domain(
        self,
        *,
        approve_from: str = "high",
        policy: Mapping[str, Json] | None = None,
        runs_on_workers: bool = False,
    ) -> "PinnedToolsDomain":
        """Return the domain of the tools.

        Args:
            approve_from: Least risk of a tool that needs an approval.
            policy: A policy over the calls, as the plain values of its TOML file.
            runs_on_workers: As for `Tools.domain`.

        Raises:
            ToolError: `approve_from` is no risk.
            ToolPolicyError: The policy does not fit the tools.
        """
        return PinnedToolsDomain(
            self.name,
            self.by_name,
            approve_from=approve_from,
            policy=policy,
            runs_on_workers=runs_on_workers,
        )

    def declare(
        self,
        name: str,
        definition: str,
        function: Function,
        *,
        risk: Risk,
        once: str = "",
        delivery: Delivery = "at_most_once",
        seconds_max: float | None = None,
    ) -> None:
        """Declare a tool by the JSON text of its MCP declaration, which is pinned.

        Args:
            name: Name of the tool.
            definition: JSON object with `inputSchema` and `description`.
            function: Called with the arguments as a dict, and the key of the call.
            risk: Greatest harm that a call can do.
            once: Template of the consequence that happens once.
            delivery: Result of a second execution.
            seconds_max: Time limit of one execution, in seconds.

        Raises:
            ToolError: The schema or an option does not fit, or the name is taken.
        """
        parts = parts_of(definition)
        schema, description = parts.get("inputSchema"), parts.get("description")
        lines = description.strip().splitlines() if isinstance(description, str) else []
        self.add_schema(
            name,
            schema if isinstance(schema, Mapping) else {},
            function,
            summary=lines[0][:_SUMMARY_CHARS_MAX] if lines else name,
            risk=risk,
            once=once,
            delivery=delivery,
            seconds_max=seconds_max,
            definition=definition,
        )


class PinnedToolsDomain(ToolsDomain):
    """The domain of tools of another program. Make it by `PinnedTools.domain`.

    Args:
        name: Name of the domain.
        tools: Its tools by name.
        approve_from: Least risk that needs an approval.
        policy: The policy over the calls; None for none.
        runs_on_workers: The functions run in the programs that call.

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
        runs_on_workers: bool = False,
    ) -> None:
        super().__init__(
            name, tools, approve_from=approve_from, policy=policy, runs_on_workers=runs_on_workers
        )
        self.pins = f"{name}.{PINS}"
        self.collections = (*self.records, self.pins)
        pin = self._own_kind(
            PIN, PinToolsPayload, self._pin, "Tools are declared for the first time."
        )
        self.kinds = (*self.kinds, pin)

    def settings(self) -> Mapping[str, Json]:
        """Return the keywords of `recorded_tools` that make the domain again."""
        tools = {
            tool.name: {
                "definition": tool.definition,
                "risk": tool.risk,
                "once": tool.once,
                "delivery": tool.delivery,
            }
            for tool in self.tools.values()
        }
        return {**super().settings(), "tools": tools}

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
        if refusal is None:
            return refuse(APPROVAL_REQUIRED, changed)
        asks = f"{refusal.details.get('asks', refusal.message)}; {changed}"
        return refusal._replace(details={**refusal.details, "asks": asks})

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


def recorded_tools(
    *,
    approve_from: str = "high",
    policy: Mapping[str, Json] | None = None,
    tools: Mapping[str, Mapping[str, str]] | None = None,
) -> PinnedToolsDomain:
    """Return the domain `mcp` of a log, as its settings have it: its calls cannot run.

    Args:
        approve_from: Least risk that needs an approval.
        policy: The policy over the calls; None for none.
        tools: Declarations by tool.

    Raises:
        ToolError, ToolPolicyError: The settings do not fit.
    """
    made = PinnedTools(NAME)
    for name, declared in (tools or {}).items():
        made.declare(name, function=_not_connected, **declared)  # type: ignore[arg-type]  # of a log
    return made.domain(approve_from=approve_from, policy=policy)


def _not_connected(*_: object) -> None:
    raise NotDone("the domain is made of a log, and has no connection to a server")


def parts_of(definition: str) -> dict[str, Json]:
    """Return the declaration of a tool by its text."""
    parts: dict[str, Json] = json.loads(definition)
    return parts


def _entity(tool: DeclaredTool) -> str:
    """Return the entity of the pin of a tool: its name may be no name of an entity."""
    return tool.kind or tool.name


def digest_of_definition(definition: str) -> str:
    """Return the digest of a declaration, hexadecimal."""
    return blake2b(definition.encode("utf-8", "replace"), digest_size=16).hexdigest()
