"""Selects the files that travel to the workers of a sweep: modules, and `--ship`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from placet.scenarios.on_ray.errors import RayUnusable
from placet.scenarios.on_ray.staging import Staged, stage_modules
from placet.scenarios.scenario import Scenario
from placet.sweeps.code_version import named_modules
from placet.sweeps.errors import LabError
from placet.sweeps.plan import SweepPlan

if TYPE_CHECKING:
    from types import ModuleType


def stage(plan: SweepPlan, ship: Iterable[Path] = ()) -> Staged:
    """Return what travels to the workers for the runs of a plan.

    Args:
        plan: The plan.
        ship: Files and folders that the scenario reads, below the current folder.

    Raises:
        LabError: A file to ship does not exist, or is not below the current folder.
    """
    named = set().union(*(_modules_of(one.scenario, plan.outcomes) for one in plan.scenarios))
    try:
        staged = stage_modules(named)
    except RayUnusable as error:
        raise LabError(str(error)) from error
    files = dict(staged.files)
    for path in ship:
        files |= _shipped(path, Path.cwd())
    return replace(staged, files=files)


def _modules_of(scenario: Scenario, outcomes: Sequence[str]) -> "set[ModuleType]":
    collected = () if scenario.collect is None else scenario.collect.functions
    return named_modules(scenario.domain, scenario.policy_names, [*outcomes, *collected])


def _shipped(path: Path, here: Path) -> dict[str, Path]:
    whole = path.absolute()
    if not whole.exists():
        raise LabError(f"--ship {path}: there is no such file or folder")
    if not whole.is_relative_to(here):
        raise LabError(
            f"--ship {path}: it is not below the current folder {here}; a worker finds a file "
            "under the path that it has from there"
        )
    sources: Sequence[Path] = (
        [file for file in sorted(whole.rglob("*")) if file.is_file()] if whole.is_dir() else [whole]
    )
    return {str(source.relative_to(here)): source for source in sources}
