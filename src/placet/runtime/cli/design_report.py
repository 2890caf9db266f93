"""What `placet design` tells: a table for a person, a document for a program."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from placet.domains.design import (
    Action,
    ActionType,
    Clarification,
    DesignState,
    ExecutionResult,
    ParsedText,
    RefinableField,
    StateManager,
)
from placet.domains.design.phase_results import shown_phases
from placet.domains.design.vocabulary import EXPORTS
from placet.runtime.cli.terminal import table
from placet.schemas.codec import Json

_Fields = Mapping[str, RefinableField]

_NOTHING: Final = "-"
_SIGNS: Final = {ActionType.INCREASE: "+ ", ActionType.DECREASE: "- "}
_HEADLINES: Final[Mapping[str, tuple[str, ...]]] = {
    "mission": ("endurance_h", "complement", "froude_cruise", "regime_cruise"),
    "hull": ("displacement_t", "prismatic_coefficient", "freeboard_m"),
    "propulsion": ("cruise_service_power_kw", "attainable_speed_kts"),
    "weight": ("lightship_t", "fuel_t", "spare_deadweight_t"),
    "stability": ("kg_m", "gm_m", "roll_period_s"),
    "compliance": ("status",),
}
"""What a person looks for first in the outputs of a phase; a document has them all."""


class Told(NamedTuple):
    """An answer.

    Attributes:
        is_done: It was done, or could be; False is a refusal or a question.
        version: The design's version that it is about.
        document: For a program.
        lines: For a person.
    """

    is_done: bool
    version: int
    document: dict[str, Json]
    lines: list[str]


def answered(result: ExecutionResult, manager: StateManager) -> Told:
    """Tell what became of a plan."""
    fields = manager.design.setup.fields
    version = result.plan.design_version_before
    document = {"answer": "executed" if result.success else "rejected", **result.as_dict()}
    if not result.success:
        return Told(False, version, document, list(_rejected(result, fields)))
    wanted = {str(action.action_type): action for action in result.plan.actions}
    document["actions"] = [
        {**one, "warnings": list(outcome.warnings)}
        for one, outcome in zip(_changes(result), result.action_results, strict=True)
    ]
    lines = [f"version {version} -> {result.design_version_after}", "", *_done(result, fields)]
    if ActionType.RUN_PHASES in wanted:
        document["phases"] = shown_phases(manager.tree)
        lines += ["", *_phases(manager)]
    if ActionType.EXPORT in wanted:
        written = str(wanted[ActionType.EXPORT].format)
        document["export"] = manager.tree.get(EXPORTS, written, "content")
        lines += ["", *document["export"].splitlines()]
    return Told(True, version, document, lines)


def asked_back(asked: Clarification, ways: Sequence[str], version: int, fields: _Fields) -> Told:
    """Tell what is not clear, what is, and how to say the rest."""
    document: dict[str, Json] = {
        "answer": "clarification",
        "question": asked.question,
        "candidates": list(asked.candidates),
        "understood": [_plain(action) for action in asked.understood],
        "rewordings": list(ways),
        "design_version": version,
    }
    lines = [f"not clear, and nothing was changed: {asked.question}"]
    if asked.understood:
        rows = [(action.path or "", _asked_for(action, fields)) for action in asked.understood]
        lines += ["", "understood so far", *table(rows)]
    if ways:
        lines += ["", "say, for example", *(f"  {way}" for way in ways)]
    return Told(False, version, document, lines)


def not_answered(parsed: ParsedText, version: int) -> Told:
    """Tell that a question is no proposal."""
    said = "that is a question, and nothing was changed; `--show` shows the design"
    document: dict[str, Json] = {
        "answer": "query",
        "intent_type": str(parsed.intent.intent_type),
        "design_version": version,
    }
    return Told(False, version, document, [said])


def undone(before: DesignState, after: DesignState, fields: _Fields) -> Told:
    """Tell what an undo brought back."""
    paths = dict.fromkeys([*before.parameters, *after.parameters])
    pairs = {path: (before.parameters.get(path), after.parameters.get(path)) for path in paths}
    changes: list[dict[str, Json]] = [
        {"path": path, "before": was, "after": now}
        for path, (was, now) in pairs.items()
        if was != now
    ]
    versions = (before.design_version, after.design_version)
    locks = sorted(before.locked_parameters ^ after.locked_parameters)
    document: dict[str, Json] = {
        "answer": "undone",
        "design_version_before": versions[0],
        "design_version_after": versions[1],
        "changes": changes,
        "locked": [path for path in locks if path in after.locked_parameters],
        "unlocked": [path for path in locks if path in before.locked_parameters],
    }
    rows = [
        (c["path"], _shown(c["before"], fields, c["path"]), _shown(c["after"], fields, c["path"]))
        for c in changes
    ]
    rows += [(path, "locked", _NOTHING) for path in document["unlocked"]]
    rows += [(path, _NOTHING, "locked") for path in document["locked"]]
    head = ("", "was", "is again")
    lines = [f"undone: version {versions[0]} -> {versions[1]}", "", *table([head, *rows])]
    return Told(True, versions[0], document, lines)


def shown(manager: StateManager) -> Told:
    """Tell what a design is."""
    state, fields = manager.state, manager.design.setup.fields
    document: dict[str, Json] = {**state.as_dict(), "phases": shown_phases(manager.tree)}
    rows = [
        (path, _shown(value, fields, path), "locked" if path in state.locked_parameters else "")
        for path, value in (state.parameters | state.assumptions).items()
    ]
    rows += [
        (path, _NOTHING, "locked")
        for path in sorted(state.locked_parameters - state.parameters.keys())
    ]
    name = f"design {state.design_id}, " if state.design_id else ""
    unset = len(fields.keys() - state.parameters.keys())
    lines = [f"{name}version {state.design_version}", "", *table(rows)]
    if unset:
        lines += [f"  {unset} of {len(fields)} parameters are not set"]
    lines += ["", *_phases(manager)]
    return Told(True, state.design_version, document, lines)


def _rejected(result: ExecutionResult, fields: _Fields) -> Iterator[str]:
    yield f"refused: nothing was changed, the design stays at version {result.plan.design_version_before}"
    yield ""
    rows = []
    for rejection in result.rejections:
        asked = (
            ""
            if rejection.index is None
            else _asked_for(result.plan.actions[rejection.index], fields)
        )
        rows.append((rejection.path, asked, rejection.code, rejection.reason))
    yield from table(rows)


def _changes(result: ExecutionResult) -> Iterator[dict[str, Json]]:
    """Give each action as it was asked for, with the values before it and after it."""
    for asked, outcome in zip(result.plan.actions, result.action_results, strict=True):
        yield {**_plain(asked), "before": outcome.before, "after": outcome.after}


def _done(result: ExecutionResult, fields: _Fields) -> list[str]:
    rows = [("", "before", "asked for", "used", "")]
    for asked, outcome in zip(result.plan.actions, result.action_results, strict=True):
        path = asked.path or ""
        is_value = asked.value is not None or asked.action_type in _SIGNS
        before, used = (
            (_shown(value, fields, path) if is_value else "")
            for value in (outcome.before, outcome.after)
        )
        notes = "; ".join(text.removeprefix(f"{path} ") for text in outcome.warnings)
        rows.append((path, before, _asked_for(asked, fields), used, notes))
    return table(rows)


def _phases(manager: StateManager) -> list[str]:
    lines = []
    for name, kept in shown_phases(manager.tree).items():
        outputs = kept["outputs"] or {}
        heads = [
            f"{output} {_number(outputs[output])}"
            for output in _HEADLINES.get(name, ())
            if output in outputs
        ]
        lines.append((name, kept["status"], ", ".join(heads)))
        lines += [("", "", f"{flag['code']}: {flag['message']}") for flag in kept["flags"] or ()]
    return table(lines)


def _asked_for(action: Action, fields: _Fields) -> str:
    """Say an action without its path."""
    kind = action.action_type
    if kind is ActionType.SET:
        return _measured(action.value, action.unit)
    if kind in _SIGNS:
        amount = "a step" if action.amount is None else _measured(action.amount, action.unit)
        return f"{_SIGNS[kind]}{amount}"
    if kind is ActionType.RUN_PHASES:
        return f"run {', '.join(action.phases) if action.phases else 'all phases'}"
    return f"export {action.format}" if kind is ActionType.EXPORT else str(kind)


def _plain(action: Action) -> dict[str, Json]:
    """Give an action as it can be submitted: without what it does not use."""
    fields = ("path", "value", "amount", "unit", "phases", "format", "message")
    given = {name: getattr(action, name) for name in fields}
    return {
        "action_type": str(action.action_type),
        **{name: value for name, value in given.items() if value is not None},
    }


def _shown(value: Json, fields: _Fields, path: str) -> str:
    if value is None:
        return _NOTHING
    return _measured(value, fields[path].kernel_unit if path in fields else "")


def _measured(value: Json, unit: str | None) -> str:
    return f"{_number(value)} {unit or ''}".rstrip()


def _number(value: Json) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
