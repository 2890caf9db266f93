"""Output of `placet design`: a table for a person, a document for a program."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from placet.cli.terminal import Line, TextTable
from placet.schemas.codec import Json
from placet_design import (
    Action,
    ActionType,
    DesignState,
    ExecutionResult,
    PhaseState,
    RefinableField,
    StateManager,
)
from placet_design.actions.plans import action_as_dict
from placet_design.payloads import EXPORTS
from placet_design.phase_results import shown_phases
from placet_design.phases.phase import INPUT_MISSING
from placet_design.text import Clarification, ParsedText

_Fields = Mapping[str, RefinableField]

_NOTHING: Final = "-"
_LOCKS: Final = frozenset({ActionType.LOCK, ActionType.UNLOCK})
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


class Report(NamedTuple):
    """The result of a `placet design` request, for a person and for a program.

    Attributes:
        is_done: The request took effect, or would; False for a refusal or a question.
        version: Version of the design that the report describes.
        document: Report for a program.
        lines: Report for a person.
        is_well: False if the request failed, or if a phase that ran has failed.
    """

    is_done: bool
    version: int
    document: dict[str, Json]
    lines: Sequence[Line]
    is_well: bool = True


def access_report(access: Mapping[str, Json], version: int) -> Report:
    """Return the report of the access to a design."""
    names = {"owner": [access["owner"]], "editors": access["editors"], "readers": access["readers"]}
    rows = [[field, ", ".join(listed) or _NOTHING] for field, listed in names.items()]
    return Report(True, version, {"answer": "access", **access}, [TextTable(rows)])


def plan_report(result: ExecutionResult, manager: StateManager) -> Report:
    """Return the report of a plan that was executed or refused."""
    fields = manager.design.setup.fields
    version = result.plan.design_version_before
    document = {"answer": "executed" if result.success else "rejected", **result.as_dict()}
    if not result.success:
        return Report(False, version, document, list(_rejected(result)))
    by_type = {str(action.action_type): action for action in result.plan.actions}
    document["actions"] = [
        {**change, "warnings": list(outcome.warnings)}
        for change, outcome in zip(_changes(result), result.action_results, strict=True)
    ]
    lines: list[Line] = [_from_to(version, result.design_version_after), *_done(result, fields)]
    failed: list[str] = []
    if ActionType.RUN_PHASES in by_type:
        document["phases"] = shown_phases(manager.tree)
        failed = _failed(result, document["phases"])
        document |= {"success": not failed, "phases_failed": failed}
        lines += ["", _phases(manager)]
        if failed:
            rest = "; the other changes were made" if len(result.plan.actions) > 1 else ""
            lines += ["", f"failed: {', '.join(failed)}{rest}"]
    if ActionType.EXPORT in by_type:
        written = str(by_type[ActionType.EXPORT].format)
        document["export"] = manager.tree.get(EXPORTS, written, "content")
        exported = document["export"].splitlines()
        lines = exported if len(result.plan.actions) == 1 else [*lines, "", *exported]
    return Report(True, version, document, lines, not failed)


def clarification_report(
    clarification: Clarification, texts: Sequence[str], version: int
) -> Report:
    """Return the report of an unclear text: its unclear part, the rest, and rewordings."""
    document: dict[str, Json] = {
        "answer": "clarification",
        "question": clarification.question,
        "candidates": list(clarification.candidates),
        "understood": [action_as_dict(action) for action in clarification.understood],
        "rewordings": list(texts),
        "design_version": version,
    }
    lines: list[Line] = [f"unclear, nothing was changed: {clarification.question}"]
    if clarification.understood:
        rows = [(action.path or "", _action_text(action)) for action in clarification.understood]
        lines += ["", "understood so far", TextTable(rows)]
    if texts:
        lines += ["", "say, for example", *(f"  {text}" for text in texts)]
    return Report(False, version, document, lines)


def question_report(parsed: ParsedText, version: int) -> Report:
    """Return the report for a question, which proposes nothing."""
    message = "that is a question, and nothing was changed; `--show` shows the design"
    document: dict[str, Json] = {
        "answer": "query",
        "intent_type": str(parsed.intent.intent_type),
        "design_version": version,
    }
    return Report(False, version, document, [message])


def undo_report(before: DesignState, after: DesignState, fields: _Fields) -> Report:
    """Return the report of an undo: the restored values."""
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
    lines: list[Line] = [f"undone: {_from_to(*versions)}", "", TextTable(rows, head)]
    return Report(True, versions[0], document, lines)


def design_report(manager: StateManager) -> Report:
    """Return the report of a design."""
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
    lines: list[Line] = [f"{name}version {state.design_version}", "", TextTable(rows)]
    if unset:
        lines += [f"  {unset} of {len(fields)} parameters are not set"]
    lines += ["", _phases(manager)]
    return Report(True, state.design_version, document, lines)


def _from_to(before: int, after: int) -> str:
    return f"version {before} -> {after}" if after != before else f"version {before}, as before"


def _rejected(result: ExecutionResult) -> Iterator[Line]:
    version = result.plan.design_version_before
    yield f"refused: nothing was changed, the design stays at version {version}"
    yield ""
    rows = []
    for rejection in result.rejections:
        index = rejection.index
        action_text = "" if index is None else _action_text(result.plan.actions[index])
        rows.append(
            (rejection.path, action_text, rejection.code, _of(rejection.path, rejection.reason))
        )
    yield TextTable(rows)


def _changes(result: ExecutionResult) -> Iterator[dict[str, Json]]:
    """Return each action as requested, with the values before it and after it."""
    for action, outcome in zip(result.plan.actions, result.action_results, strict=True):
        yield {**action_as_dict(action), "before": outcome.before, "after": outcome.after}


def _failed(result: ExecutionResult, phases: Mapping[str, Json]) -> list[str]:
    """Return the phases that were to run and have failed."""
    runs = [a for a in result.plan.actions if a.action_type is ActionType.RUN_PHASES]
    requested = {name for run in runs for name in run.phases or phases}
    return [
        name
        for name, phase in phases.items()
        if name in requested and phase["status"] == PhaseState.FAILED
    ]


def _done(result: ExecutionResult, fields: _Fields) -> Iterator[Line]:
    rows = []
    for action, outcome in zip(result.plan.actions, result.action_results, strict=True):
        if action.path is None:
            continue
        before, used = "", f"{action.action_type}ed"
        if action.action_type not in _LOCKS:
            before = _shown(outcome.before, fields, action.path)
            used = _shown(outcome.after, fields, action.path)
        notes = "; ".join(_of(action.path, text) for text in outcome.warnings)
        rows.append((action.path, before, _action_text(action), used, notes))
    if rows:
        yield ""
        yield TextTable(rows, ("", "before", "asked for", "used", ""))


def _phases(manager: StateManager) -> TextTable:
    """Return a table with the state of each phase, its main outputs, and its remarks."""
    rows = []
    for name, phase in shown_phases(manager.tree).items():
        outputs, flags = phase["outputs"] or {}, phase["flags"] or ()
        heads = [f"{n} {_number(outputs[n])}" for n in _HEADLINES.get(name, ()) if n in outputs]
        remarks = [", ".join(heads)] if heads else []
        missing = [flag["at"] for flag in flags if flag["code"] == INPUT_MISSING]
        unset = [path for path in missing if ":" not in path]
        awaited = dict.fromkeys(path.partition(":")[0] for path in missing if ":" in path)
        if unset:
            remarks.append(f"not set: {', '.join(unset)}")
        if awaited:
            remarks.append(f"waits for {', '.join(awaited)}")
        remarks += [f"{f['code']}: {f['message']}" for f in flags if f["code"] != INPUT_MISSING]
        rows += [
            (name if n == 0 else "", phase["status"] if n == 0 else "", remark)
            for n, remark in enumerate(remarks or [""])
        ]
    return TextTable(rows)


def _of(path: str, sentence: str) -> str:
    """Remove from a sentence the path, which its row shows."""
    return sentence.removeprefix(f"{path} ")


def _action_text(action: Action) -> str:
    """Return an action as text, without its path."""
    kind = action.action_type
    if kind is ActionType.SET:
        return _measured(action.value, action.unit)
    if kind in _SIGNS:
        amount = "a step" if action.amount is None else _measured(action.amount, action.unit)
        return f"{_SIGNS[kind]}{amount}"
    if kind is ActionType.RUN_PHASES:
        return f"run {', '.join(action.phases) if action.phases else 'all phases'}"
    return f"export {action.format}" if kind is ActionType.EXPORT else str(kind)


def _shown(value: Json, fields: _Fields, path: str) -> str:
    if value is None:
        return _NOTHING
    return _measured(value, fields[path].kernel_unit if path in fields else "")


def _measured(value: Json, unit: str | None) -> str:
    return f"{_number(value)} {unit or ''}".rstrip()


def _number(value: Json) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
