"""Seed 004's contract: an intent becomes an action, and an action is executed by a tool.

Three rules, each an error and never a guess: an intent that is not in the catalogue, a parameter
that is missing or unexpected, a tool that is not registered. `FileTool` is a front end of the
domain `files`: its actions pass that domain's gate, in a separate world.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

import anyio
from anyio import to_thread

from placet.agents.adapters import as_adapter
from placet.agents.adapters.scripted import plan_of
from placet.agents.loop.planning_loop import read
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput, PlannerUnavailable
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.codes import TABLE, Code
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.modes import MODES
from placet.agents.proposal.tools import error_prompt
from placet.kernel import Kernel, KernelConfig
from placet.schemas.codec import Json
from placet.schemas.effect import Settlement
from placet.schemas.errors import PlacetError
from placet_files import Files

if TYPE_CHECKING:
    from placet.kernel.plugin.domain import EffectHandler
    from placet.schemas.intent import Intent

CATALOGUE: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "create_file": ("CREATE_FILE", "FileTool", ("filename", "content")),
    "analyze_text": ("ANALYZE_TEXT", "FileTool", ("path",)),
    "inspect_zip": ("INSPECT_ZIP", "FileTool", ("zip_path",)),
}
"""name of an intent -> type of action, tool, parameters that it must have."""

_SNAKE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_AGENT: Final = "codi"
_OUTBOX_MAX: Final = 16


@dataclass
class Action:
    """A concrete instruction to one tool.

    Attributes:
        type: `CREATE_FILE`, `ANALYZE_TEXT` or `INSPECT_ZIP`.
        tool: Name of a registered tool.
        params: Arguments of the tool.
    """

    type: str
    tool: str
    params: dict[str, Json] = field(default_factory=dict)


class ActionBuilder:
    """A converter of intents, as JSON, to actions."""

    def build(self, intent: Mapping[str, Json]) -> Action:
        """Convert an intent `{"name": …, "params": {…}}` to an action.

        Raises:
            ValueError: The intent is malformed, its name is not in the catalogue, or a parameter is
                missing or unknown.
        """
        proposal: object = intent
        if not isinstance(proposal, Mapping) or set(proposal) != {"name", "params"}:
            raise ValueError(f"an intent has exactly a name and params, got {proposal!r:.200}")
        name, params = proposal["name"], proposal["params"]
        if not isinstance(name, str) or not _SNAKE.fullmatch(name):
            raise ValueError(f"the name of an intent is snake_case, got {name!r:.200}")
        if not isinstance(params, Mapping):
            raise ValueError(f"the params of {name!r} are an object, got {params!r:.200}")
        if name not in CATALOGUE:
            raise ValueError(f"there is no intent {name!r}; there are {', '.join(CATALOGUE)}")
        kind, tool, required = CATALOGUE[name]
        missing = [param for param in required if param not in params]
        if missing:
            raise ValueError(f"{name!r} needs {', '.join(missing)}")
        if len(params) > len(required):
            more = sorted(str(param) for param in params if param not in required)
            raise ValueError(f"{name!r} takes {', '.join(required)} and not {', '.join(more)}")
        return Action(kind, tool, dict(params))


class Tool(Protocol):
    """The interface of a tool, which executes actions."""

    def execute(self, action: Action) -> Json:
        """Execute an action and return its result; raise if it cannot be executed."""


class ToolManager:
    """The registered tools, by name."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def register(self, name: str, tool: Tool) -> None:
        """Register a tool under a name.

        Raises:
            ValueError: A tool of this name is registered.
        """
        if name in self._tools:
            raise ValueError(f"there is a tool {name!r} already")
        self._tools[name] = tool

    def execute(self, action: Action) -> Json:
        """Execute an action with the tool that it names, and return the result.

        Raises:
            ToolUnregistered: The tool is not registered.
            Exception: Any exception of the tool.
        """
        tool = self._tools.get(action.tool)
        if tool is None:
            raise ToolUnregistered(f"the tool {action.tool!r} of {action.type} is not registered")
        return tool.execute(action)


class ToolUnregistered(PlacetError, LookupError):  # noqa: N818  # the code's own name
    """The error of an action whose tool is not registered."""


class ToolFailed(PlacetError):  # noqa: N818  # the name states the fault
    """The error of a tool that could not execute an action; the message begins with the code."""


class Executor:
    """An executor of actions, one after the other.

    Args:
        tool_manager: The tools that execute the actions.
    """

    def __init__(self, tool_manager: ToolManager) -> None:
        self._tools = tool_manager

    def run(self, actions: Sequence[Action]) -> list[Json]:
        """Execute actions in their order, and return their results.

        Raises:
            Exception: The error of the first action that fails; later actions are not executed.
        """
        return [self._tools.execute(action) for action in actions]


class FileTool:
    """A tool for files below one folder, with the rules and executors of the domain `files`.

    Args:
        root: The folder; it must exist.

    Raises:
        OSError, ValueError: The folder cannot be used.
    """

    def __init__(self, root: str) -> None:
        domain = Files(root)
        self._kernel = Kernel(domain, KernelConfig(world="codi"))
        self._numbers = count(1)
        module, _, name = domain.executors.partition(":")
        self._handlers: Mapping[str, EffectHandler] = getattr(import_module(module), name)(domain)
        for kind in self._handlers:
            self._kernel.change_executor(kind, _OUTBOX_MAX)
        self._kernel.register_agent(_AGENT)

    def execute(self, action: Action) -> Json:
        """Execute an action and return its result.

        Raises:
            ToolFailed: The action was refused, or failed.
        """
        kinds = {kind: f"files.{name}" for name, (kind, _, _) in CATALOGUE.items()}
        if action.type not in kinds:
            raise ToolFailed(f"kind_unknown: FileTool does no {action.type!r}")
        intent: Intent = {
            "kind": kinds[action.type],
            "payload": dict(action.params),
            "agent_id": _AGENT,
            "req_id": f"codi:{next(self._numbers)}",
            "context_seq": self._kernel.seq,
            "priority": 10,
            "schema_version": "1.0.0",
        }
        verdict = self._kernel.decide([intent])
        if not verdict.admitted:
            refusal = verdict.refusals[0]
            raise ToolFailed(f"{refusal.code}: {refusal.message}", verdict=verdict)
        [effect] = self._kernel.open_effects()
        try:
            output = self._handlers[effect.kind].handler(effect)
        except Exception as error:  # the executor boundary: it is settled, and said
            self._kernel.settle(Settlement(effect.key, succeeded=False, output=str(error)))
            raise ToolFailed(str(error)) from error
        self._kernel.settle(Settlement(effect.key, succeeded=True, output=output))
        return output


class AIPlanner:
    """A planner that converts an objective to intents with an adapter, and is an adapter itself.

    A custom planner subclasses it and overrides `plan`.

    Args:
        adapter: The adapter that proposes, such as a model or a script. None: `plan` raises.
    """

    is_priced = True

    def __init__(self, adapter: object = None) -> None:
        self._adapter = None if adapter is None else as_adapter(adapter)

    def plan(self, objective: str, files: Sequence[str] = ()) -> list[dict[str, Json]]:
        """Return a list of intents for an objective. It must not be called in a running event loop.

        Args:
            objective: The goal.
            files: Names of the files that the objective is about.

        Raises:
            ValueError: There is no adapter, or its answer is no list of intents of the catalogue.
        """
        if self._adapter is None:
            raise ValueError(f"planner_unconfigured: {TABLE[Code.PLANNER_UNCONFIGURED].text}")
        message = "\n".join([objective, *(f"file: {name}" for name in files)])
        context = PlannerInput(message, "", 0, Catalogue(Files()))
        raw = anyio.run(self._adapter.propose, context)
        if not raw.calls and raw.plan is None:
            raise ValueError(f"said: {TABLE[Code.SAID].text}")
        plan, issues = read(raw, context, MODES["autonomous"], AgentLimits())
        if plan is None:
            raise ValueError(error_prompt(issues))
        if plan.stop is not None:
            raise ValueError(f"{plan.stop.code}: {plan.stop.message}")
        return [
            {"name": action.kind.removeprefix("files."), "params": action.payload}
            for action in plan.actions
        ]

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Return the answer of the adapter, or of an overridden `plan`, called in a thread.

        Raises:
            PlannerUnavailable: There is no adapter.
            Exception: Any exception of the adapter.
        """
        if type(self).plan is not AIPlanner.plan:
            intents = await to_thread.run_sync(self.plan, context.message, abandon_on_cancel=True)
            actions = [(f"files.{entry['name']}", entry["params"]) for entry in intents]
            return PlannerOutput(plan=plan_of(context, actions))
        if self._adapter is None:
            raise PlannerUnavailable(TABLE[Code.PLANNER_UNCONFIGURED].text)
        return await self._adapter.propose(context)
