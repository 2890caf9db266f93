"""The payload of each kind of the design domain, and the collections of its state.

Payloads are checked for shape here and for meaning in the rules: a value of the wrong type is then
a named refusal about a path, instead of a malformed batch.
"""

from hashlib import blake2b
from typing import Annotated, Any, Final, NotRequired, TypeAlias, cast

from pydantic import ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from placet.schemas.identity import ID_CHARS_MAX
from placet_design.phases.states import PhaseState

PREFIX: Final = "design."

ABOUT: Final = "design.about"
"""One entity, `design`: `design_id` `name` `version` `paths`, and `counts`: the number of the
oldest commit that can be undone, of the next to be made, of the one after the last that can be
redone, and of plans. They are one field, because every plan moves them."""

DESIGN: Final = "design"

PARAMETERS: Final = "design.parameters"
"""Path -> `value`, in the kernel's unit; None while it is unset. One entity a path, so that every
path has a stamp of its own: phases store the seqs of what they read."""

LOCKS: Final = "design.locks"
"""Path -> `lock`: None, or `owner` `reason` `until_ns` (None is for good)."""

HISTORY: Final = "design.history"
"""Ring of commits that can be undone: slot -> `paths` `values` `locked` `locks`: what was."""

PLANS: Final = "design.plans"
"""Ring of the latest plans: slot -> `plan` (its id), `version` after it, `warnings`."""

VERSION_NOTICE: Final = "design_version"
"""Code of the notice that tells the version to which a plan led: `design_version is <n>`."""

PHASE_RESULTS: Final = "design.phases"
"""Phase -> `status` `source` `reason` `is_by_hand`, and what its latest run gave."""

EXPORTS: Final = "design.exports"
"""Format -> `version` `content`: the latest of each."""

ACCESS: Final = "design.access"
"""One entity, `design`, once an access was set: `owner`, and sorted `editors` and `readers`."""

ACCESS_NAMES_MAX: Final = 64
"""Of editors, and of readers."""

ROLES: Final = "design.roles"
"""Agent -> `role`: `designer` or `operator`."""

OPERATOR_ROLE: Final = "operator"
DESIGNER_ROLE: Final = "designer"

RUN_EFFECT: Final = "design.run_phases"
EXPORT_EFFECT: Final = "design.export"

PLAN_ID_CHARS_MAX: Final = 120
"""Leaves room for `:511`, so that the ids of a plan's intents are identities."""

_PATH_CHARS_MAX: Final = 128
_TEXT_CHARS_MAX: Final = 4_000
_PHASES_MAX: Final = 64

_CLOSED: Final = ConfigDict(extra="forbid", strict=True)

_Path = Annotated[str, Field(max_length=_PATH_CHARS_MAX)]
_Name = Annotated[str, Field(min_length=1, max_length=ID_CHARS_MAX)]
_Names = Annotated[list[_Name], Field(max_length=ACCESS_NAMES_MAX)]
_Text = Annotated[str, Field(max_length=_TEXT_CHARS_MAX)]
_Unit = Annotated[str, Field(max_length=16)]
_Word = Annotated[str, Field(max_length=64)]


class _OneError:
    """Report the expected forms of a union once, instead of once per member."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema: Any = handler(source)
        schema["custom_error_type"] = "scalar"
        schema["custom_error_message"] = "Input should be a finite number, a boolean or a string"
        return cast("CoreSchema", schema)


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Scalar = _Finite | bool | int | Annotated[str, Field(max_length=256)]
Scalar: TypeAlias = Annotated[_Scalar, _OneError()]


def retry_key(plan_id: str, version: int) -> str:
    """Return the stem of the req_ids of a plan that was stale and comes again on another version.

    A stem that is too long for a req_id is hashed.
    """
    key = f"{plan_id}@{version}"
    if len(key) <= PLAN_ID_CHARS_MAX:
        return key
    return blake2b(key.encode(), digest_size=16).hexdigest()


class PlanHead(TypedDict):
    """Payload of `design.plan`, the first intent of a plan: its base version and its origin.

    Attributes:
        plan_id: Id of the plan, chosen by its author.
        intent_id: Id of the request that the plan answers.
        design_id: Id of the design.
        design_version_before: Version of the design that the plan was made for.
        proposed_at: Time of the proposal, as its author writes it.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    plan_id: Annotated[str, Field(min_length=1, max_length=PLAN_ID_CHARS_MAX)]
    intent_id: _Name
    design_id: _Name
    design_version_before: Annotated[int, Field(ge=0, lt=2**63)]
    proposed_at: NotRequired[_Word | None]


class LogIntent(TypedDict):
    """Payload of `design.intent`: a user's message and its interpretation, for the log.

    Attributes:
        intent_id: Id of the request.
        design_id: Id of the design.
        raw_text: The user's message, unchanged.
        intent_type: Type of the request, as the message was understood.
        confidence: How certain the reading is, 0 to 1.
        parsed_at: Time of the reading, as its author writes it.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    intent_id: _Name
    design_id: _Name
    raw_text: _Text
    intent_type: _Word
    confidence: Annotated[float, Field(ge=0, le=1)]
    parsed_at: NotRequired[_Word | None]


class Set(TypedDict):
    """Payload of `design.set`: a parameter's path and its new value.

    Attributes:
        path: Path of the parameter, such as `hull.beam`.
        value: The new value, in `unit`.
        unit: Unit of the value; the parameter's own unit if it is absent.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    path: _Path
    value: Scalar
    unit: NotRequired[_Unit | None]


class ParameterChange(TypedDict):
    """Payload of `design.increase` and `design.decrease`: a path and an amount.

    The amount is a positive number or a named step.

    Attributes:
        path: Path of the parameter, such as `hull.beam`.
        amount: A positive number, or the name of a step; the parameter's usual step if it is
            absent.
        unit: Unit of the amount; the parameter's own unit if it is absent.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    path: _Path
    amount: NotRequired[Scalar | None]
    unit: NotRequired[_Unit | None]


class Lock(TypedDict):
    """Payload of `design.lock`: a path, and simulated seconds; without them no time limit.

    Attributes:
        path: Path of the parameter.
        reason: Why it is locked, for people.
        for_s: Simulated seconds after which the lock ends; absent: it does not end.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    path: _Path
    reason: NotRequired[_Text | None]
    for_s: NotRequired[Annotated[float, Field(gt=0, lt=2**31)] | None]


class Unlock(TypedDict):
    """Payload of `design.unlock`: the path of a locked parameter.

    Attributes:
        path: Path of the parameter.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    path: _Path


class RunPhases(TypedDict):
    """Payload of `design.run_phases`: names of phases; None is all of them.

    They run in the order of their dependencies.

    Attributes:
        phases: Names of the phases to run.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    phases: NotRequired[Annotated[list[_Word], Field(max_length=_PHASES_MAX)] | None]


class Export(TypedDict):
    """Payload of `design.export`: the text format to export the design in.

    Attributes:
        format: Name of the format.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    format: _Word


class RequestClarification(TypedDict):
    """Payload of `design.request_clarification`: a question to the user, instead of a guess.

    Attributes:
        message: The question.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    message: Annotated[str, Field(min_length=1, max_length=_TEXT_CHARS_MAX)]


class Noop(TypedDict):
    """Payload of `design.noop`, `design.undo` and `design.redo`: empty."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic


class Create(TypedDict):
    """Payload of `design.create`: the id and the name of the world's design, set once.

    Attributes:
        design_id: Id of the design.
        name: Name of the design, for people.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    design_id: _Name
    name: NotRequired[_Text | None]


class SetAccess(TypedDict):
    """Payload of `design.set_access`: the agents that may read and change the design.

    The owner and the editors may do both, readers only read. The owner `operator` is no agent.

    Attributes:
        owner: Agent that may do both, and set who may.
        editors: Agents that may do both.
        readers: Agents that may only read.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    owner: _Name
    editors: _Names
    readers: _Names


class Assume(TypedDict):
    """Payload of `design.assume`: an input that the phases assume, and its value.

    Operators only. The value None restores the default.

    Attributes:
        path: Path of the assumption.
        value: The new value.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    path: _Path
    value: Scalar | None


class Transition(TypedDict):
    """Payload of `design.transition`: a phase, and the state to move it to by hand.

    Attributes:
        phase: Name of the phase.
        to: State to move it to.
        source: Name of the person or program that demands it.
        reason: Why, for people.
    """

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    phase: _Word
    to: PhaseState
    source: _Name
    reason: NotRequired[_Text | None]
