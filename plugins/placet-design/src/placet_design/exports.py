"""Convert a design to text for people and other programs: the pure executor of EXPORT.

Writing files is the task of another executor, which takes its text from here.
"""

from collections.abc import Callable, Mapping
from typing import Final

from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json, thaw, to_json
from placet.schemas.printable import printable
from placet_design.payloads import EXPORTS
from placet_design.phases import PHASES
from placet_design.refinable_fields import REFINABLE_SCHEMA


def _as_json(design: Mapping[str, Json]) -> str:
    return to_json(thaw(design)).decode()


def _as_csv(design: Mapping[str, Json]) -> str:
    lines = ["path,value,unit,locked"]
    locked = design["locked_parameters"]
    for path, value, unit in _rows(design):
        lines.append(f"{path},{_cell(value)},{unit},{'yes' if path in locked else 'no'}")
    return "\r\n".join(lines) + "\r\n"  # RFC 4180


def _as_markdown(design: Mapping[str, Json]) -> str:
    locked = design["locked_parameters"]
    name = printable(design["design_id"] or "(unnamed)")
    lines = [
        f"# Design {name}, version {design['design_version']}",
        "",
        "| parameter | value | unit | locked |",
        "|---|---|---|---|",
    ]
    for path, value, unit in _rows(design):
        lines.append(f"| {path} | {_cell(value)} | {unit} | {'yes' if path in locked else ''} |")
    phases = design.get("phases", {})
    for name in filter(phases.__contains__, PHASES):
        result = phases[name]
        lines += ["", f"## {name}: {result['status']}", ""]
        if result.get("method"):
            lines += [f"Method: {result['method']}", ""]
        for output, value in (result.get("outputs") or {}).items():
            if not isinstance(value, Mapping):
                lines.append(f"- {output}: {_cell(value)}")
        lines += [f"- {flag['code']}: {flag['message']}" for flag in result.get("flags") or ()]
    return "\n".join(lines) + "\n"


FORMATS: Final[Mapping[str, Callable[[Mapping[str, Json]], str]]] = {
    "json": _as_json,
    "csv": _as_csv,
    "markdown": _as_markdown,
}
"""Format -> what writes a design in it."""


def write_out(payload: Mapping[str, Json]) -> dict[str, Json]:
    """Convert the design that an effect holds to text; return its output.

    The executor of the effect: a pure function of the payload.
    """
    design = payload["design"]
    content = FORMATS[payload["format"]](design)
    return {"format": payload["format"], "version": design["design_version"], "content": content}


def keep_export(draft: Draft, output: Mapping[str, Json]) -> None:
    """Store an export in the state, in place of the last one of its format."""
    format_name = output["format"]
    if not draft.exists(EXPORTS, format_name):
        draft.create(EXPORTS, format_name)
    draft.put(EXPORTS, format_name, "version", output["version"])
    draft.put(EXPORTS, format_name, "content", output["content"])


def _rows(design: Mapping[str, Json]) -> list[tuple[str, Json, str]]:
    """List path, value and unit: in the order of the whitelist, then the design's own fields."""
    values_by_path = {
        f"{section}.{name}": value
        for section, values in design.items()
        if section not in {"phases", "assumptions"} and isinstance(values, Mapping)
        for name, value in values.items()
    }
    rows = [
        (path, values_by_path.pop(path), field.kernel_unit)
        for path, field in REFINABLE_SCHEMA.items()
        if path in values_by_path
    ]
    return rows + [(path, value, "") for path, value in values_by_path.items()]


def _cell(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
