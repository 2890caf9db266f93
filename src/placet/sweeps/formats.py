"""The formats of a study's manifest and rows: bounded and typed, before a reader has a value.

A study may be damaged, or made by another to be reported here. Every reader gets the manifest and
the rows from this module: each value has the type below, and each name leads to an entry. NaN and
the infinities are values of an outcome. Keys that no reader looks at are kept.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NotRequired, TypeAlias, cast

from msgspec import Meta
from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.documents import DocumentError, parse_json, typed
from placet.schemas.limits import (
    DOCUMENT_BYTES_MAX,
    OUTCOME_BITS_MAX,
    SEED_MAX,
    SWEEP_MANIFEST_BYTES_MAX,
    SWEEP_RUNS_MAX,
)
from placet.stores.files import opened_regular
from placet.sweeps.errors import LabError
from placet.sweeps.plan import run_key

Row: TypeAlias = dict[str, Json]
"""The row of a finished run: see `placet.sweeps.worker.run_task` for its keys."""

FORMAT: Final = "placet study 1"

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
_Seed: TypeAlias = Annotated[int, Meta(ge=0, le=SEED_MAX)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
_Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]+$")]


class _Scenario(TypedDict):
    values: dict[str, Any]
    code: dict[_Digest, tuple[str, str]]


class _Plan(TypedDict):
    scenarios: list[tuple[str, str]]
    seeds: list[_Seed] | None
    own_seeds: list[_Seed]


class _Manifest(TypedDict):
    id: Annotated[str, Meta(min_length=1)]
    parts: dict[str, dict[str, str]]
    scenarios: dict[_Digest, _Scenario]
    plans: list[_Plan]


class _Row(TypedDict):
    key: str
    code: str
    scenario: str
    seed: _Seed
    attempt: _Count
    error: str | None
    status: NotRequired[str]
    traceback: NotRequired[str | None]
    ticks: NotRequired[_Count]
    submitted: NotRequired[_Count]
    admitted: NotRequired[_Count]
    refused: NotRequired[_Count]
    refusals: NotRequired[dict[str, _Count]]
    rule_errors: NotRequired[_Count]
    ended_at: NotRequired[_Count | None]
    seq: NotRequired[_Count]
    digest: NotRequired[str]
    resumed_at: NotRequired[_Count | None]
    outcomes: NotRequired[dict[str, bool | int | float | str | None]]
    seconds: NotRequired[_Seconds]
    cpu_s: NotRequired[_Seconds]
    collected: NotRequired[dict[str, tuple[str, _Count, _Count]]]


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a study.

    Raises:
        FileNotFoundError: There is none.
        NotADirectoryError: The folder of the study is a file.
        LabError: It cannot be read, is of another format, or is damaged.
    """
    try:
        with opened_regular(path) as file:
            text = file.read(SWEEP_MANIFEST_BYTES_MAX + 1)
        manifest = parse_json(text, bytes_max=SWEEP_MANIFEST_BYTES_MAX)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, DocumentError) as error:
        raise LabError(f"cannot read the study's {path}: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise LabError(
            f"{path.parent} is not a study of this release: {path} has not the format "
            f"{FORMAT!r}; name another folder"
        )
    try:
        _require_consistent(typed(manifest, _Manifest))
    except DocumentError as error:
        raise LabError(
            f"the study's {path} is damaged: {error}. Restore the file from a copy, or name "
            "another folder"
        ) from None
    return manifest


def _require_consistent(manifest: _Manifest) -> None:
    """Check that each name in a manifest leads to an entry of it.

    Raises:
        DocumentError: One does not.
    """
    scenarios = manifest["scenarios"]
    for digest, scenario in scenarios.items():
        for code, (parts, _) in scenario["code"].items():
            if parts not in manifest["parts"]:
                raise DocumentError(f"the code {code} of the scenario {digest} has no `parts`")
    for number, plan in enumerate(manifest["plans"], 1):
        pairs, seeds = plan["scenarios"], plan["seeds"]
        if len(pairs) != len(plan["own_seeds"]):
            raise DocumentError(f"plan {number} has not one of `own_seeds` for each scenario")
        if len(pairs) * (1 if seeds is None else len(seeds)) > SWEEP_RUNS_MAX:
            raise DocumentError(f"plan {number} has more than {SWEEP_RUNS_MAX} runs")
        for digest, code in pairs:
            if digest not in scenarios or code not in scenarios[digest]["code"]:
                raise DocumentError(f"plan {number} names a scenario that is not in `scenarios`")


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file that were written whole.

    Raises:
        LabError: The file cannot be read, or a line is no row.
    """
    try:
        with opened_regular(path) as file:
            lines = iter(lambda: file.readline(DOCUMENT_BYTES_MAX + 2), b"")
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n") or len(line) > DOCUMENT_BYTES_MAX:
                    yield _row(path, number, line)
    except OSError as error:
        raise LabError(f"cannot read the rows of runs in {path}: {error}") from None


def _row(path: Path, number: int, line: bytes) -> Row:
    """Return the row of a line.

    Raises:
        LabError: The line is no row, or its key is not that of its code, scenario and seed.
    """
    try:
        row = parse_json(line.rstrip(b"\n"), integer_bits_max=OUTCOME_BITS_MAX)
        known = typed(row, _Row)
        if known["key"] != run_key(known["code"], known["scenario"], known["seed"]):
            raise DocumentError("`key` is not that of `code`, `scenario` and `seed`")
    except DocumentError as error:
        raise LabError(
            f"line {number} of {path} is no row of a run: {error}. Remove the line, and its run is "
            "run again"
        ) from None
    return cast("Row", row)
