"""The runs of a sweep: scenarios times seeds, each with a key under which its row is found."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice

from placet.scenarios.scenario import Scenario, as_text, from_text
from placet.schemas.codec import without_numpy
from placet.schemas.documents import DocumentError, parse_json
from placet.schemas.limits import SEED_MAX, SWEEP_RUNS_MAX
from placet.sweeps.code_version import CodeReader, CodeVersion
from placet.sweeps.columns import clash_among, collected_clash
from placet.sweeps.errors import LabError
from placet.sweeps.outcome import HERE


@dataclass(frozen=True, slots=True)
class PlannedScenario:
    """A scenario of a sweep.

    Attributes:
        scenario: The scenario; its seed is that of the run when `seeds` of the plan is None.
        text: The scenario as JSON, with seed 0.
        digest: Hash of `text` without name and title, 16 hexadecimal digits.
        code: Version of the code that it runs.
    """

    scenario: Scenario
    text: str
    digest: str
    code: CodeVersion

    def key(self, seed: int) -> str:
        """Return the key of the run with a seed."""
        return run_key(self.code.digest, self.digest, seed)


def run_key(code: str, scenario: str, seed: int) -> str:
    """Return the key of a run, which is also the name of its log."""
    return f"{code}-{scenario}-{seed}"


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The runs of one call of a sweep.

    Attributes:
        scenarios: In the order of the call; equal scenarios share their runs.
        seeds: Seeds of every scenario; None: each scenario has its own.
        outcomes: Outcome functions, as `module:function`.
    """

    scenarios: Sequence[PlannedScenario]
    seeds: Sequence[int] | None
    outcomes: tuple[str, ...]

    def runs(self) -> dict[str, tuple[PlannedScenario, int]]:
        """Return each run by its key, scenario by scenario."""
        return {
            planned.key(seed): (planned, seed)
            for planned in self.scenarios
            for seed in self.seeds_of(planned)
        }

    def keys(self) -> list[list[str]]:
        """Return the keys of the runs of each scenario."""
        return [
            [planned.key(seed) for seed in self.seeds_of(planned)] for planned in self.scenarios
        ]

    def seeds_of(self, planned: PlannedScenario) -> Sequence[int]:
        """Return the seeds of a scenario."""
        return (planned.scenario.seed,) if self.seeds is None else self.seeds


def plan_sweep(
    scenarios: Iterable[Scenario],
    *,
    replications: int | None = None,
    seeds: Iterable[int] | None = None,
    outcomes: Sequence[str] = (),
) -> SweepPlan:
    """Return the plan of a sweep; check every scenario, its domain, policies and outcomes.

    Args:
        scenarios: The scenarios.
        replications: Number of runs of each scenario, with the seeds 1, 2, ...
        seeds: Seeds of the runs of each scenario, instead of `replications`. With neither, each
            scenario runs once with its own seed.
        outcomes: Outcome functions, as `module:function`.

    Raises:
        LabError: There is no scenario, a seed is invalid, there are too many runs, or an outcome
            function or a collected one would overwrite a column.
        ScenarioError: A domain or a policy does not exist, or rejects its settings.
    """
    chosen = _seeds(replications, seeds)
    distinct = tuple(dict.fromkeys(outcomes))
    reader = CodeReader([spec for spec in distinct if not spec.startswith(HERE)])
    clash = clash_among(distinct)
    if clash is not None:
        raise LabError(f"{clash}: rename the function")
    planned: list[PlannedScenario] = []
    for scenario in scenarios:
        if not isinstance(scenario, Scenario):
            raise LabError(
                f"expected scenarios, as Scenario.load(...).product(...) returns, got {scenario!r}"
            )
        text = as_text(replace(scenario, seed=0))
        code = reader.version_of(scenario)
        column = None if scenario.collect is None else collected_clash(scenario.collect)
        if column is not None:
            raise LabError(
                f"{scenario.name} collects {column!r}, and the collected rows of a sweep have a "
                "column of that name already, of the run: rename it in [collect.world]; a field "
                f"of the agents is named with its collection, as world.agents/{column}"
            )
        try:
            planned.append(PlannedScenario(scenario, text, scenario_digest(text), code))
        except DocumentError as error:
            raise LabError(f"the scenario {scenario.name} fits into no study: {error}") from None
        _require_bounded(len(planned) * (1 if chosen is None else len(chosen)))
    _require_own_seeds_used(planned, is_chosen=chosen is not None)
    if not planned:
        raise LabError("a sweep needs at least one scenario, got none")
    return SweepPlan(tuple(planned), chosen, distinct)


def _require_own_seeds_used(planned: Iterable[PlannedScenario], *, is_chosen: bool) -> None:
    """Refuse seeds for all scenarios if scenarios of one name differ in their seeds.

    Raises:
        LabError: The seeds of a data frame or of an axis would be ignored.
    """
    seeds: dict[str, int] = {}
    for scenario in (each.scenario for each in planned):
        own = seeds.setdefault(scenario.name, scenario.seed)
        if is_chosen and own != scenario.seed:
            raise LabError(
                f"scenarios of {scenario.name} have the seeds {own}, {scenario.seed} ..., "
                "which `seeds` or `replications` would replace: leave out one of the two"
            )


def scenario_digest(text: str) -> str:
    """Return the hash of a scenario's JSON text, without its name, title and seed.

    Raises:
        DocumentError: The text exceeds a bound of documents.
    """
    raw = {**parse_json(text)}
    for key in ("name", "title", "seed"):
        raw.pop(key, None)
    return sha256(json.dumps(raw, separators=(",", ":")).encode()).hexdigest()[:16]


def scenario_of(text: str, seed: int) -> Scenario:
    """Return the scenario of a run, from its JSON text and its seed."""
    return replace(from_text("the sweep", text), seed=seed)


def _require_bounded(runs: int) -> None:
    if runs > SWEEP_RUNS_MAX:
        raise LabError(
            f"a sweep has at most {SWEEP_RUNS_MAX} runs, and this one has more: make several "
            "sweeps of it, each into another folder"
        )


def _seeds(replications: int | None, seeds: Iterable[int] | None) -> tuple[int, ...] | None:
    if seeds is not None and replications is not None:
        raise LabError("give `replications` or `seeds`, not both")
    if replications is not None:
        if type(replications) is not int or replications < 1:
            raise LabError(
                f"replications must be at least 1, got {replications!r}; expected an int"
            )
        _require_bounded(replications)
        return tuple(range(1, replications + 1))
    if seeds is None:
        return None
    chosen = tuple(map(without_numpy, islice(seeds, SWEEP_RUNS_MAX + 1)))
    _require_bounded(len(chosen))
    if not chosen:
        raise LabError("`seeds` is empty; give at least one seed, or leave it out")
    for seed in chosen:
        if type(seed) is not int or not 0 <= seed <= SEED_MAX:
            raise LabError(f"a seed must be an integer from 0 to {SEED_MAX}, got {seed!r}")
    if len(set(chosen)) < len(chosen):
        twice = next(seed for seed in chosen if chosen.count(seed) > 1)
        raise LabError(f"the seed {twice} is given twice, and a run is its scenario and its seed")
    return chosen
