"""`Tools`: functions of a program, declared as tools of one domain."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from placet.kernel.plugin.domain import Risk, Rule
from placet.schemas.codec import Json
from placet.schemas.effect import Delivery
from placet.schemas.name_suggestions import did_you_mean
from placet_tools.domain import ToolsDomain
from placet_tools.tool import (
    KEY_PARAMETER,
    OUTPUT_PARAMETER,
    OWN_PARTS,
    DeclaredTool,
    Function,
    ToolError,
    make_tool,
)

_F = TypeVar("_F", bound=Function)
_R = TypeVar("_R", bound=Rule)

_NAME_CHARS_MAX: Final = 32


class Tools:
    """The tools of a program: functions that run only when the gate admits a call.

        tools = Tools("shop")

        @tools.tool(risk="high", once="refund:{order}")
        def refund(order: str, euro: int) -> dict: ...

    Args:
        name: Name of the domain: prefix of kinds, collections and refusal codes.

    Raises:
        ToolError: The name is not a lower-case identifier of at most 32 characters.
    """

    def __init__(self, name: str) -> None:
        is_text = isinstance(name, str)
        if not (
            is_text and name.isidentifier() and name.islower() and len(name) <= _NAME_CHARS_MAX
        ):
            raise ToolError(
                f"the name of tools must be a lower-case identifier of at most {_NAME_CHARS_MAX} "
                f"characters, got {name!r}"
            )
        self.name = name
        self.by_name: dict[str, DeclaredTool] = {}

    def __repr__(self) -> str:
        return f"<Tools {self.name}: {', '.join(self.by_name) or 'none yet'}>"

    def tool(
        self,
        *,
        risk: Risk = "medium",
        once: str = "",
        delivery: Delivery | None = None,
        quota: Mapping[str, float] | None = None,
        undo: Function | str = "",
        not_done: tuple[type[BaseException], ...] = (),
        seconds_max: float | None = None,
    ) -> Callable[[_F], _F]:
        """Decorate a function as a tool; the function itself is unchanged.

        Its parameters need annotations that pydantic knows, and the first line of its docstring is
        its summary. It may be async; a plain one runs in a thread.

        Args:
            risk: Greatest harm that a call can do: `read` changes nothing outside, `high` needs a
                person's approval.
            once: Template of the consequence that happens once, such as `refund:{order}`. While a
                call with the same consequence runs, is in doubt, or is done, another is refused.
            delivery: Result of a second execution outside. None: `keyed` with a parameter
                `idempotency_key`, `pure` for the risk `read`, else `at_most_once`.
            quota: `{"rate": calls per second, "burst": count}` of each agent.
            undo: The tool that undoes a call, when another call of its plan failed. Its parameters
                are parameters of this function, or `output`.
            not_done: Exceptions that say that the work was certainly not done, as `NotDone` does: a
                tuple of classes. After any other exception an `at_most_once` call is in doubt.
            seconds_max: Time limit of one execution, in seconds.

        Raises:
            ToolError: The signature or an option does not fit, or the name is taken.
        """
        undo_name = undo if isinstance(undo, str) else getattr(undo, "__name__", None)
        if not isinstance(undo_name, str):
            raise ToolError(f"undo must be a tool or its name, got {undo!r}")

        def declare(function: _F) -> _F:
            tool = make_tool(
                function,
                risk=risk,
                once=once,
                delivery=delivery,
                quota=quota,
                undo=undo_name,
                not_done=not_done,
                seconds_max=seconds_max,
            )
            if tool.undo:
                self._require_undo(tool)
            self._add(tool)
            return function

        return declare

    def add_schema(
        self,
        name: str,
        schema: Mapping[str, Json],
        function: Function,
        *,
        summary: str = "",
        risk: Risk = "high",
        once: str = "",
        delivery: Delivery | None = None,
        quota: Mapping[str, float] | None = None,
        seconds_max: float | None = None,
        definition: str = "",
    ) -> None:
        """Declare a tool by the JSON schema of its arguments, such as a tool of another program.

        Args:
            name: Name of the tool, of any characters.
            schema: JSON schema of an object. Defaults in it are not filled in.
            function: Called with the arguments as a dict, and the key of the call; plain or async.
            summary: One line about the tool.
            risk: Greatest harm that a call can do.
            once: Template of the consequence that happens once; it names required properties.
            delivery: Result of a second execution outside. None: `at_most_once`.
            quota: `{"rate": calls per second, "burst": count}` of each agent.
            seconds_max: Time limit of one execution, in seconds.
            definition: Text of the whole declaration, which `PinnedTools` pins; empty for none.

        Raises:
            ToolError: The schema or an option does not fit, or the name is taken.
            ImportError: The extra `gateway` is not installed.
        """
        from placet_tools.schema_tool import make_schema_tool  # noqa: PLC0415  # the extra

        tool = make_schema_tool(
            name,
            schema,
            function,
            summary=summary or name,
            risk=risk,
            once=once,
            delivery=delivery,
            quota=quota,
            seconds_max=seconds_max,
            definition=definition,
        )
        self._add(tool)

    def _add(self, tool: DeclaredTool) -> None:
        if tool.name in self.by_name or (tool.kind or tool.name) in OWN_PARTS:
            raise ToolError(f"the name {tool.name!r} is taken; rename the function")
        self.by_name[tool.name] = tool

    def rule(self, tool: str) -> Callable[[_R], _R]:
        """Decorate a rule of a tool: of `(draft, intent)`, it returns a refusal or None.

        It runs before each call of the tool is admitted, and may read and write the state in the
        same batch. `refuse("approval_required", why, role="manager")` asks for an approval.

        Raises:
            ToolError: There is no such tool.
        """
        declared = self._declared(tool)

        def add(rule: _R) -> _R:
            if not callable(rule):
                raise ToolError(
                    f"a rule of {tool} must be a function of (draft, intent), got {rule!r}"
                )
            declared.rules.append(rule)
            return rule

        return add

    def domain(
        self,
        *,
        approve_from: str = "high",
        policy: Mapping[str, Json] | None = None,
        runs_on_workers: bool = False,
    ) -> ToolsDomain:
        """Return the domain of the tools.

        Args:
            approve_from: Least risk of a tool that needs an approval: `read`, `low`, `medium`,
                `high` or `never`.
            policy: A policy over the calls, as the plain values of its TOML file.
            runs_on_workers: The functions run in the programs that call, by `Gate(url=...)`, and
                not in the server of the log.

        Raises:
            ToolError: `approve_from` is no risk.
            ToolPolicyError: The policy does not fit the tools.
        """
        return ToolsDomain(
            self.name,
            self.by_name,
            approve_from=approve_from,
            policy=policy,
            runs_on_workers=runs_on_workers,
        )

    def __call__(
        self, *, approve_from: str = "high", policy: Mapping[str, Json] | None = None
    ) -> ToolsDomain:
        """Return the domain of the tools, with the settings that a log has.

        So `placet verify LOG --domain module:tools` decides each part of a log by its own policy.
        """
        return self.domain(approve_from=approve_from, policy=policy)

    def _declared(self, name: object) -> DeclaredTool:
        if not isinstance(name, str) or name not in self.by_name:
            raise ToolError(f"there is no tool {name!r}; {did_you_mean(name, list(self.by_name))}")
        return self.by_name[name]

    def _require_undo(self, tool: DeclaredTool) -> None:
        """Check that a call of a tool has the arguments of the tool that undoes it."""
        undo = self._declared(tool.undo)
        unknown = [
            name
            for name in undo.payload.model_fields
            if name not in tool.payload.model_fields and name != OUTPUT_PARAMETER
        ]
        if unknown:
            raise ToolError(
                f"tool {tool.name} is undone by {undo.name}, whose parameter {unknown[0]!r} is "
                f"neither one of {tool.name}, nor {OUTPUT_PARAMETER!r}, nor {KEY_PARAMETER!r}"
            )
        for name in undo.payload.model_fields:
            if type(undo.marks.get(name)) is not type(tool.marks.get(name)):
                raise ToolError(
                    f"tool {tool.name} is undone by {undo.name}: mark the parameter {name!r} of "
                    "both in the same way, as Secret, as Personal, or not at all"
                )
