"""A tool: one function of the user, with its declaration.

The payload of its kind is made of the signature, with the defaults filled in: the log and the
person who approves see all arguments.
"""

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from placet.kernel.plugin.domain import RISKS, Risk, Rule
from placet.schemas.codec import Json
from placet.schemas.config import Quota
from placet.schemas.effect import DELIVERIES, Delivery, DoNotRetry
from placet.schemas.identity import is_kind_name
from placet.schemas.name_suggestions import did_you_mean, nearest
from placet_tools.parts.marks import (
    FormOfOutput,
    Mark,
    MarkMisplaced,
    Personal,
    Secret,
    form_type,
    split_mark,
)

Function: TypeAlias = Callable[..., object]

KEY_PARAMETER: Final = "idempotency_key"
"""Parameter of a function that passes the key of a call on, so that a repetition is harmless."""

OUTPUT_PARAMETER: Final = "output"
"""Parameter of a function that undoes a tool: the output of the call that is undone."""

OWN_PARTS: Final = frozenset(
    {"count_calls", "erase", "note_time", "pin", "plan", "refuse_calls", "release", "undo"}
)
"""Last parts of the kinds of a domain of tools that are no tools."""

_OF_GATE: Final = frozenset({"agent", "key", "self", "tool"})
_SEVERAL: Final = 2
_CONVERSIONS: Final = frozenset({None, "r", "s", "a"})
_NO_FIELDS: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


class NotDone(DoNotRetry):
    """Raised by a tool if the work was certainly not done; any other exception leaves a doubt.

        if answer.status_code == 409:
            raise NotDone("the order was paid before")

    The outcome is `failed`, with its text as the reason.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class ToolError(ValueError):
    """The error of a tool that cannot be declared so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTool:
    """One tool.

    Attributes:
        name: Name of the function.
        function: The function, plain or async.
        payload: Model of its arguments, without `KEY_PARAMETER`.
        logged: Model of the payload of its intents, which has the forms of marked arguments.
        summary: First line of its docstring.
        risk: Greatest harm that a call can do.
        delivery: Result of a second execution outside.
        once: Template of the consequence that happens once, such as `refund:{order}`; or empty.
        not_done: Exceptions that say that the work was not done.
        quota: `{"rate": per second, "burst": count}` of each agent; None for none.
        undo: Name of the tool that undoes a call; empty if none does.
        seconds_max: Time limit of one execution, seconds; None for the world's.
        has_key: The function has `KEY_PARAMETER`.
        kind: Last part of the name of its kind; empty for the name of the tool.
        takes_mapping: The function takes the arguments as one mapping, and the key of the call.
        definition: Text of its declaration elsewhere, which is pinned (`PinnedTools`); or empty.
        marks: Marks of the parameters whose values the log does not hold.
        rules: Rules of the author, in order.
    """

    name: str
    function: Function
    payload: type[BaseModel]
    logged: type[BaseModel]
    summary: str
    risk: Risk
    delivery: Delivery
    once: str = ""
    not_done: tuple[type[BaseException], ...] = ()
    quota: Mapping[str, float] | None = None
    undo: str = ""
    seconds_max: float | None = None
    has_key: bool = False
    kind: str = ""
    takes_mapping: bool = False
    definition: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)

    def plain(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return arguments as the gate decides them: checked, with defaults, as plain JSON.

        Raises:
            pydantic.ValidationError: The arguments do not fit the signature.
        """
        return self.payload.model_validate(dict(arguments)).model_dump(mode="json")

    @property
    def parameters(self) -> Collection[str]:
        """Names of the arguments that are declared; of a JSON schema, its properties."""
        if self.takes_mapping:
            return frozenset(self.payload.model_json_schema().get("properties", {}))
        return self.payload.model_fields

    def unmarked(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return the declared arguments without a mark, whose values the log may have."""
        declared = self.parameters
        return {
            name: value
            for name, value in arguments.items()
            if name in declared and name not in self.marks
        }

    def typed(self, arguments: Mapping[str, Json]) -> dict[str, Any]:
        """Return the keywords of a call of the function, by the types of its signature.

        Raises:
            pydantic.ValidationError: The arguments do not fit the signature.
        """
        checked = self.payload.model_validate(dict(arguments))
        return {name: getattr(checked, name) for name in self.payload.model_fields}

    def consequence(self, arguments: Mapping[str, Json]) -> str:
        """Return the consequence of a call by its arguments; empty without a template.

        The marks between the fields of a template, such as `:`, are escaped inside of values: of
        `{to}:{text}`, the calls ("a:b", "c") and ("a", "b:c") have two consequences.
        """
        parts = list(Formatter().parse(self.once))
        if sum(field is not None for _, field, _, _ in parts) < _SEVERAL:
            return self.once.format(**arguments)
        marks = {"\\", *(mark for text, *_ in parts for mark in text if not mark.isalnum())}
        escaped = str.maketrans({mark: "\\" + mark for mark in marks})
        values = {
            name: value.translate(escaped) if isinstance(value, str) else value
            for name, value in arguments.items()
        }
        return self.once.format(**values)

    def undo_arguments(self, names: Mapping[str, object], call: Mapping[str, Json]) -> Json:
        """Return the arguments of the call that undoes a call of this tool.

        Args:
            names: Parameters of the tool that undoes it.
            call: The record of the call that is undone.
        """
        known = {**call["args"], OUTPUT_PARAMETER: call["output"]}
        return {name: known[name] for name in names}


def make_tool(
    function: Function,
    *,
    risk: Risk,
    once: str,
    delivery: Delivery | None,
    quota: Mapping[str, float] | None,
    undo: str,
    not_done: tuple[type[BaseException], ...],
    seconds_max: float | None,
) -> DeclaredTool:
    """Make a tool of a function.

    Raises:
        ToolError: The signature or an option does not fit.
    """
    name = getattr(function, "__name__", "")
    is_plain = isinstance(name, str) and is_kind_name(name) and "." not in name
    if not is_plain or not callable(function):
        raise ToolError(f"a tool needs a function with a plain name, got {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolError(f"tool {name}: a function with `yield` does its work later; return a list")
    require_risk(name, risk)
    require_quota(name, quota)
    require_seconds(name, seconds_max)
    _require_exceptions(name, not_done)
    fields, marks, has_key = _fields(name, function)
    require_known_fields(name, once, fields)
    summary = (inspect.getdoc(function) or name).split("\n")[0]
    return DeclaredTool(
        name=name,
        function=function,
        payload=_model(name, fields),
        logged=_model(name, _logged(fields, marks)),
        summary=summary,
        risk=risk,
        delivery=delivery_of(name, delivery, risk, has_key=has_key),
        once=once,
        not_done=not_done,
        quota=quota,
        undo=undo,
        seconds_max=seconds_max,
        has_key=has_key,
        marks=marks,
    )


def faults_of(error: ValidationError) -> dict[str, str]:
    """Return the kind of fault of each argument that does not fit; the values are left out."""
    faults = error.errors(include_input=False, include_context=False, include_url=False)
    return {str(one["loc"][0]): one["type"] for one in faults if one["loc"]}


def _model(name: str, fields: Mapping[str, Any]) -> type[BaseModel]:
    """Return the model of a payload.

    Raises:
        ToolError: A type has a mark inside.
    """
    config = ConfigDict(extra="forbid", protected_namespaces=())
    try:
        return create_model(name, __config__=config, **fields)
    except MarkMisplaced as error:
        raise ToolError(f"tool {name}: {error}") from None


def _logged(fields: Mapping[str, Any], marks: Mapping[str, Mark]) -> dict[str, Any]:
    """Return the fields of the payload of an intent: forms in the place of marked arguments."""
    logged = dict(fields)
    for name, mark in marks.items():
        logged[name] = (form_type(mark), ...)
    if OUTPUT_PARAMETER in fields and OUTPUT_PARAMETER not in marks:
        hint, default = fields[OUTPUT_PARAMETER]
        logged[OUTPUT_PARAMETER] = (Union[hint, FormOfOutput], default)  # noqa: UP007  # of any hint
    return logged


def _fields(name: str, function: Function) -> tuple[dict[str, Any], dict[str, Mark], bool]:
    """Return the fields of the payload, their marks, and whether there is `KEY_PARAMETER`."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    marks: dict[str, Mark] = {}
    has_key = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in _NO_FIELDS or parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolError(
                f"tool {name}: parameter {parameter} cannot be passed by name; write each "
                "parameter out"
            )
        if parameter.name == KEY_PARAMETER:
            has_key = True
            continue
        if parameter.name in _OF_GATE or hasattr(BaseModel, parameter.name):
            raise ToolError(
                f"tool {name}: a parameter cannot be called {parameter.name!r}, which the gate or "
                "pydantic uses; rename it"
            )
        if parameter.name not in hints:
            raise ToolError(
                f"tool {name}: parameter {parameter.name!r} has no type; annotate it, because the "
                "gate checks it and models are shown it"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        try:
            mark, hint = split_mark(hints[parameter.name])
        except MarkMisplaced as error:
            raise ToolError(f"tool {name}: parameter {parameter.name!r}: {error}") from None
        fields[parameter.name] = (hint, default)
        if mark is not None:
            marks[parameter.name] = mark
    for marked, mark in marks.items():
        _require_sound(name, marked, mark, fields, marks)
    return fields, marks, has_key


def _require_sound(
    name: str, marked: str, mark: Mark, fields: Mapping[str, Any], marks: Mapping[str, Mark]
) -> None:
    """Check that a marked parameter can be held apart from the log."""
    where = f"tool {name}: parameter {marked!r}"
    if isinstance(mark, Personal):
        near = nearest(mark.subject, fields, 1)
        if not mark.subject or (mark.subject not in fields and near):
            raise ToolError(
                f"{where}: subject={mark.subject!r} is no parameter, and a data subject by its own "
                f"name must not be like one; {did_you_mean(mark.subject, list(fields))}"
            )
        if isinstance(marks.get(mark.subject), Secret):
            raise ToolError(f"{where}: the subject {mark.subject!r} is a secret; name another")
        return
    hint, default = fields[marked]
    if (get_args(hint)[0] if get_origin(hint) is Annotated else hint) is not str:
        raise ToolError(f"{where}: a secret must be a str, got {hint!r}")
    if default is not ...:
        raise ToolError(f"{where}: a secret has no default, which models would be shown")


def _require_exceptions(name: str, not_done: object) -> None:
    """Check the exceptions that say that nothing was done.

    `isinstance` would refuse them only once the function has raised, and its work may be done.
    """
    found = not_done if isinstance(not_done, tuple) else (None,)
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in found):
        raise ToolError(
            f"tool {name}: not_done must be a tuple of exception classes, such as "
            f"(ConnectionRefusedError,), got {not_done!r}"
        )


def require_seconds(name: str, seconds_max: object) -> None:
    """Check the time limit of a tool; None is none.

    Raises:
        ToolError: It is no positive, finite number.
    """
    if seconds_max is None:
        return
    is_number = isinstance(seconds_max, int | float) and not isinstance(seconds_max, bool)
    if not (is_number and 0 < seconds_max < math.inf):  # type: ignore[operator]  # a number
        raise ToolError(
            f"tool {name}: seconds_max must be a number of seconds > 0, or None, got "
            f"{seconds_max!r}"
        )


def require_risk(name: str, risk: Risk) -> None:
    """Check the risk of a tool.

    Raises:
        ToolError: There is no such risk.
    """
    if risk not in RISKS:
        raise ToolError(f"tool {name}: risk must be one of {', '.join(RISKS)}, got {risk!r}")


def require_quota(name: str, quota: object) -> None:
    """Check the quota of a tool; None is none.

    Raises:
        ToolError: It is no quota.
    """
    if quota is None:
        return
    try:
        Quota.of(quota)
    except ValueError as error:
        raise ToolError(
            f"tool {name}: quota: {error}; five calls a minute are {{'rate': 5 / 60, 'burst': 5}}"
        ) from None


def require_known_fields(name: str, once: str, fields: Mapping[str, object]) -> None:
    """Check that a template names parameters alone.

    Raises:
        ToolError: It is no template, or names something else.
    """
    if not isinstance(once, str):
        raise ToolError(
            f"tool {name}: once must be a template such as 'refund:{{order}}', or '', got {once!r}"
        )
    try:
        parts = list(Formatter().parse(once))
        used = [part for _, part, _, _ in parts if part is not None]
        wrong = [sign for *_, sign in parts if sign not in _CONVERSIONS]
        if wrong:
            raise ValueError(f"there is no conversion !{wrong[0]}; leave it out")
    except ValueError as error:
        raise ToolError(f"tool {name}: once={once!r} is no template: {error}") from None
    for part in used:
        if part not in fields:
            raise ToolError(
                f"tool {name}: once={once!r} names {part!r}, which is no parameter; "
                f"{did_you_mean(part, list(fields))}"
            )


def delivery_of(name: str, delivery: Delivery | None, risk: Risk, *, has_key: bool) -> Delivery:
    """Return the delivery that is declared, or the safest that the signature permits.

    Raises:
        ToolError: There is no such delivery, or the function does not take the key that it needs.
    """
    if delivery is None:
        return "keyed" if has_key else "pure" if risk == "read" else "at_most_once"
    if delivery not in DELIVERIES:
        known = ", ".join(DELIVERIES)
        raise ToolError(f"tool {name}: delivery must be one of {known}, got {delivery!r}")
    if delivery == "keyed" and not has_key:
        raise ToolError(
            f"tool {name}: delivery 'keyed' needs a parameter {KEY_PARAMETER}, which the callee "
            "recognizes"
        )
    return delivery
