"""`Scenario`: a world to run, read from TOML, changed by dotted keys, and checked as a whole.

    values (parts), loader (TOML, overrides), policies, samples (tables of values) < scenario

A scenario is an immutable value. Random values, such as the agents' first positions, are
drawn from its seed by name, so adding an agent does not move the others.

A dotted key is that of `--set`: `settings.max_step`, `agents.folk.count`, `ticks`. A key without a
dot that is no key of a scenario is a setting of the domain, so `max_step` is `settings.max_step`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from itertools import product as cartesian_product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from placet.actors.admission.queue import Backpressure
from placet.actors.admission.time_scaled_queue import FACTOR_MIN, WAIT_MS
from placet.kernel.prng import random_unit
from placet.runtime.config import ClockName
from placet.scenarios.loader import ENTRIES, override_value, read_table, set_value
from placet.scenarios.policies import policies_of
from placet.scenarios.samples import SCENARIO_COLUMN, axis_values, plain_like, rows_of
from placet.scenarios.values import (
    AgentCohort,
    Area,
    Collect,
    ColumnPopulation,
    LeasesTable,
    Member,
    ObjectSort,
    QuotaTable,
    ScenarioError,
    Table,
    ids_of,
)
from placet.schemas.codec import Json, without_numpy
from placet.schemas.config import OnRuleError
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SCENARIO_AGENTS_MAX, SCENARIO_TICKS_MAX, SEED_MAX, SWEEP_RUNS_MAX
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.names import path_part_fault
from placet.schemas.portrayal import Portrayal, Portrayals

_TABLES: Final[Mapping[str | int, type]] = {
    **ENTRIES,
    "collect": Collect,
    "portrayal": Portrayal,
}
_IN_TOML: Final = {"tuple_type": "input should be a list"}
"""Type of error -> message in terms of TOML, where pydantic names Python types."""

_UNKNOWN: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_TICK_S_MIN: Final = 1e-9
_LASTS_S_MAX: Final = 4.6e9
"""A kernel takes no later time: 2**62 nanoseconds, 146 years."""


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A world to run.

        scenario = Scenario.load("wealth", overrides=["seed=3", "populations.people.count=20"])
        report = run_scenario(scenario)
        print(report.ticks, report.admitted, report.digest)

    Attributes:
        name: Its name: the file's name without the ending.
        title: One line of description.
        domain: Name of the domain, or `module:attribute`.
        seed: Seed of ties, random draws, positions and policies.
        ticks: Number of steps.
        tick_s: Simulated seconds of one step.
        until: A function of the state, `module:function`: the run ends after the first tick at
            which it returns True. None: after the last tick. Needs `clock = "stepped"`.
        settings: Keywords of the domain.
        quotas: Kind -> `{"rate": per second, "burst": count}`.
        staleness_threshold: As in `OrchestratorConfig`; None is off.
        clock: As in `OrchestratorConfig`. `stepped`: a tick begins when all verdicts of the last
            are known, and a seed has one outcome. Otherwise every agent acts once per tick, and
            time does not wait for it.
        leases: As in `OrchestratorConfig`; needs `clock = "realtime"`.
        backpressure: As in `OrchestratorConfig`; with `dilation_wait_ms` and
            `dilation_factor_min` for `dilate`.
        on_rule_error: `raise`: an exception of a rule or a hook ends the run, and its tick leaves
            no record, so the run is resumed at this tick once the rule is mended. `refuse`: the
            batch of the rule is refused as `rule_error`, and the run continues.
        agents: Cohorts of agents, by name.
        populations: Populations of like agents, by name; needs `clock = "stepped"`.
        objects: Sorts of objects, by name; passed to the domain as its keyword `objects`.
        collect: The rows to collect while it runs; None is none. Needs `clock = "stepped"`.
        portrayal: How the player draws its collections and tables, by name. No log has it.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    title: str = ""
    domain: str = "world"
    seed: Annotated[int, Field(strict=True, ge=0, le=SEED_MAX)] = 0
    ticks: Annotated[int, Field(strict=True, ge=0, le=SCENARIO_TICKS_MAX)]
    tick_s: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 1.0
    until: str | None = None
    settings: Table = field(default_factory=dict)
    quotas: Mapping[str, QuotaTable] = field(default_factory=dict)
    staleness_threshold: Annotated[int, Field(strict=True, ge=0)] | None = None
    clock: ClockName = "stepped"
    leases: LeasesTable | None = None
    backpressure: Backpressure = "reject"
    dilation_wait_ms: int = WAIT_MS
    dilation_factor_min: float = FACTOR_MIN
    on_rule_error: OnRuleError = "raise"
    agents: Mapping[str, AgentCohort] = field(default_factory=dict)
    populations: Mapping[str, ColumnPopulation] = field(default_factory=dict)
    objects: Mapping[str, ObjectSort] = field(default_factory=dict)
    collect: Collect | None = None
    portrayal: Portrayals = field(default_factory=dict)

    @classmethod
    def load(cls, scenario: str | Path, *, overrides: Iterable[str] = ()) -> "Scenario":
        """Load a bundled scenario by name, or any scenario by the path of its TOML file.

        Args:
            scenario: Name or path. A bundled name wins; write `./town` for a file of that name.
            overrides: `key=value` with a dotted key and a TOML value: `agents.folk.count=20`.

        Raises:
            ScenarioError: The scenario does not exist, or is invalid.
        """
        source, raw = read_table(scenario)
        for override in overrides:
            override_value(raw, override, _keys())
        _require_name(source, raw.setdefault("name", Path(source).stem))
        return from_values(source, raw)

    @classmethod
    def from_dataframe(
        cls,
        samples: Any,  # noqa: ANN401  # of any library
        *,
        base: "Scenario | str | Path | None" = None,
    ) -> "list[Scenario]":
        """Return a scenario for each row of a table of values.

        Args:
            samples: A data frame of pandas or polars, an Arrow table, or a list of mappings. Its
                columns are dotted keys, as in `product`; a column `scenario` holds the name or
                path of each row's scenario.
            base: The scenario, its name or its path; None if `samples` has a column `scenario`.

        Raises:
            ScenarioError: A row has no scenario, a key does not exist, or a value is invalid.
            TypeError: `samples` is no table.
        """
        start = base if base is None or isinstance(base, Scenario) else cls.load(base)
        loaded: dict[str, Scenario] = {}
        scenarios = []
        for number, row in enumerate(rows_of(samples)):
            values, base_of_row = dict(row), start
            name = values.pop(SCENARIO_COLUMN, None)
            if name is not None:
                if str(name) not in loaded:
                    loaded[str(name)] = cls.load(str(name))
                base_of_row = loaded[str(name)]
            if base_of_row is None:
                problem = (
                    f"expected a column {SCENARIO_COLUMN!r}, or a scenario to start from: "
                    'from_dataframe(samples, base="town"); the row has '
                    f"{', '.join(map(str, values)) or 'no columns'}"
                )
                raise ScenarioError(f"row {number} of the data frame", "", problem)
            scenarios.append(base_of_row.with_values(values))
        return scenarios

    def with_values(
        self, values: Mapping[str, Json] | None = None, /, **settings: Json
    ) -> "Scenario":
        """Return the scenario with other values at dotted keys, such as `agents.folk.count`.

        A name without a dot that is no key of a scenario is a setting of its domain.

        Raises:
            ScenarioError: A key does not exist, or a value is invalid.
        """
        raw: dict[str, Json] = json.loads(as_text(self))
        for key, value in {**(values or {}), **settings}.items():
            path = full_key(key).split(".")
            set_value(raw, path, partial(plain_like, value), self.name, _keys())
        return replace(from_values(self.name, raw), name=self.name)

    def product(
        self, axes: Mapping[str, Iterable[Json]] | None = None, /, **settings: Iterable[Json]
    ) -> "list[Scenario]":
        """Return a scenario for each combination of values; the last key changes fastest.

        Args:
            axes: Dotted keys, such as `agents.folk.count`, and the values of each.
            settings: The same for keys without a dot: `max_step=[0.5, 1]`, `ticks=[10, 100]`.

        Raises:
            ScenarioError: A key does not exist, has no values, a value is invalid, or there are too
                many combinations.
        """
        given = {**(axes or {}), **settings}
        columns = {full_key(key): axis_values(self.name, key, v) for key, v in given.items()}
        count = prod(map(len, columns.values()))
        if count > SWEEP_RUNS_MAX:
            keys = ", ".join(columns)
            problem = f"{count} combinations of values, expected at most {SWEEP_RUNS_MAX}"
            raise ScenarioError(self.name, keys, problem)
        combinations = cartesian_product(*columns.values())
        return [self.with_values(dict(zip(columns, row, strict=True))) for row in combinations]

    @property
    def agents_count(self) -> int:
        """Return the number of agents of all cohorts."""
        return sum(cohort.count for cohort in self.agents.values())

    @property
    def members_count(self) -> int:
        """Return the number of members of all populations."""
        return sum(population.count for population in self.populations.values())

    @property
    def policy_names(self) -> tuple[str, ...]:
        """Return the name of the policy of each cohort and of each population."""
        cohorts = [cohort.policy for cohort in self.agents.values()]
        return (*cohorts, *[population.policy for population in self.populations.values()])

    def with_agents(self, count: int) -> "Scenario":
        """Return the same scenario with `count` agents, divided among the cohorts in proportion.

        If all cohorts are empty, each gets an equal share.

        Raises:
            ScenarioError: There is no cohort, or the count is out of bounds.

        Source: the largest-remainder method (Hamilton); ties go to the cohort that stands first.
        """
        count = without_numpy(count)
        if type(count) is not int or not 0 <= count <= SCENARIO_AGENTS_MAX:
            problem = f"expected 0 to {SCENARIO_AGENTS_MAX} agents, got {count!r}"
            raise ScenarioError(self.name, "agents", problem)
        if count and not self.agents:
            raise ScenarioError(
                self.name, "agents", f"there is no cohort for {count} agents; add one"
            )
        parts = {name: cohort.count for name, cohort in self.agents.items()}
        if not any(parts.values()):
            parts = dict.fromkeys(parts, 1)
        total = max(sum(parts.values()), 1)
        shares = {name: part * count for name, part in parts.items()}
        counts = {name: share // total for name, share in shares.items()}
        by_remainder = sorted(shares, key=lambda name: -(shares[name] % total))
        for name in by_remainder[: count - sum(counts.values())]:
            counts[name] += 1
        agents = {name: replace(cohort, count=counts[name]) for name, cohort in self.agents.items()}
        return replace(self, agents=agents)

    def members(self) -> Iterator[Member]:
        """Yield every agent, cohort by cohort."""
        for name, cohort in self.agents.items():
            for agent_id in ids_of(name, cohort.count):
                attributes = dict(cohort.attributes)
                if cohort.area is not None:
                    attributes["position"] = self._place(agent_id, cohort.area)
                yield cohort.member(name, agent_id, attributes)

    def domain_settings(self) -> dict[str, Json]:
        """Return the keywords with which the domain is created."""
        if not self.objects:
            return dict(self.settings)
        objects = {
            object_id: {
                "sort": name,
                **sort.fields,
                "position": self._place(object_id, sort.area),
            }
            for name, sort in self.objects.items()
            for object_id in ids_of(name, sort.count)
        }
        return {**self.settings, "objects": objects}

    def _place(self, name: str, area: Area) -> list[float]:
        """Draw a position, rounded to hundredths, because it is stored in many logs."""
        return [
            round(low + (high - low) * random_unit(self.seed, 0, 0, axis, "place", name), 2)
            for axis, (low, high) in enumerate(zip(*area, strict=True))
        ]


def _keys() -> tuple[str, ...]:
    """Return the keys of a scenario."""
    return tuple(each.name for each in fields(Scenario))


def _require_name(source: str, name: Json) -> None:
    """Check the name of a scenario, which is that of its world and of the files beside its log.

    Raises:
        ScenarioError: The rule for names in paths refuses it.
    """
    fault = path_part_fault(name) if isinstance(name, str) else ""
    if fault:
        raise ScenarioError(source, "name", f"it {fault}")


def from_values(source: str, raw: Mapping[str, Json]) -> Scenario:
    """Return the scenario of a table of plain values, such as a TOML file.

    Args:
        source: Its origin, for messages: a file, or the bundled name.
        raw: The table, with a key `name`.

    Raises:
        ScenarioError: It is invalid, or names a policy that does not exist.
    """
    scenario = build_scenario(source, raw)
    policies_of(source, scenario.agents)
    return scenario


def build_scenario(source: str, raw: Mapping[str, Json]) -> Scenario:
    """Return the scenario of a table of plain values, without a look at its policies.

    Raises:
        ScenarioError: It is invalid.
    """
    try:
        built = _scenario().validate_python(without_numpy(dict(raw)))
    except ValidationError as error:
        # Unknown keys first, because a misspelled key also makes another key missing.
        first = min(error.errors(), key=lambda detail: detail["type"] not in _UNKNOWN)
        raise _scenario_error(source, first) from None
    if "agents" not in raw and not raw.get("populations"):
        raise ScenarioError(source, "agents", "is missing; add it to the file, or populations")
    _require_once(source, built)
    return _checked(source, built)


def as_text(scenario: Scenario) -> str:
    """Return a scenario as JSON with all defaults, so that a run can be resumed from its log.

    It is text and not an object, because the order of agents and objects is part of a scenario.
    The portrayal is left out: a run does not depend on it. So is the default of `on_rule_error`:
    a run without exceptions does not depend on it. So are populations, leases, `until` and
    `collect.optional` where there are none: the log stays that of an earlier release.
    """
    left_out: dict[str, bool | set[str]] = {"portrayal": True}
    if scenario.on_rule_error == "raise":
        left_out["on_rule_error"] = True
    left_out |= {n: True for n in ("populations", "leases", "until") if not getattr(scenario, n)}
    if scenario.collect is not None and not scenario.collect.optional:
        left_out["collect"] = {"optional"}
    return _scenario().dump_json(scenario, exclude=left_out).decode()


def from_text(source: str, text: str) -> Scenario:
    """Read a scenario that `as_text` wrote, without importing its policies or its domain.

    Raises:
        ScenarioError: The text is not a scenario of this release.
    """
    try:
        scenario = _scenario().validate_json(text)
    except ValidationError as error:
        raise _scenario_error(source, error.errors()[0]) from None
    return _checked(source, scenario)


@cache
def _scenario() -> TypeAdapter[Scenario]:
    """Return the validator, built on first use: that takes 8 ms, and every command imports this."""
    return TypeAdapter(Scenario)


def full_key(key: str) -> str:
    """Return a dotted key; a name without a dot that no scenario has is a setting."""
    is_own = "." in key or key in _keys()
    return key if is_own else f"settings.{key}"


def leaves_of(scenario: Scenario) -> dict[str, Json]:
    """Return the values of a scenario by dotted key, without its name, title and seed.

    A list, and a table without keys, is one value.
    """
    leaves: dict[str, Json] = {}
    raw: dict[str, Json] = json.loads(as_text(scenario))
    for key in ("name", "title", "seed"):
        raw.pop(key, None)
    _collect_leaves(raw, "", leaves)
    return leaves


def _collect_leaves(table: Mapping[str, Json], prefix: str, leaves: dict[str, Json]) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            _collect_leaves(value, f"{prefix}{key}.", leaves)
        else:
            leaves[prefix + key] = value


def _scenario_error(source: str, detail: ErrorDetails) -> ScenarioError:
    place = detail["loc"]
    key = ".".join(str(step) for step in place)
    if detail["type"] in _UNKNOWN:
        known = [name.name for name in fields(_TABLES.get(place[0], Scenario))]
        return ScenarioError(
            source, key, f"there is no such key; {did_you_mean(str(place[-1]), known)}"
        )
    if detail["type"] in {"missing", "missing_argument"}:
        return ScenarioError(source, key, "is missing; add it to the file")
    if detail["type"] == "value_error":  # raised by placet: it names the value
        return ScenarioError(source, key, str(detail["ctx"]["error"]))
    message = _IN_TOML.get(detail["type"], detail["msg"])
    message = message[:1].lower() + message[1:]
    return ScenarioError(source, key, f"{message}, got {detail['input']!r}")


def _require_once(source: str, scenario: Scenario) -> None:
    """Refuse a value that the file sets in two places, because one would be ignored silently."""
    duplicates = []
    if scenario.objects and "objects" in scenario.settings:
        duplicates.append(("settings.objects", "objects"))
    for name, cohort in scenario.agents.items():
        if cohort.area is not None and "position" in cohort.attributes:
            duplicates.append((f"agents.{name}.attributes.position", f"agents.{name}.area"))
    for name, objects in scenario.objects.items():
        if "position" in objects.fields:
            duplicates.append((f"objects.{name}.fields.position", f"objects.{name}.area"))
    for key, other in duplicates:
        raise ScenarioError(source, key, f"{other!r} sets the same value; remove one of the two")


def _checked(source: str, scenario: Scenario) -> Scenario:
    _check_time(source, scenario)
    if scenario.populations and scenario.clock != "stepped":
        problem = f'populations act at ticks, which need clock = "stepped", got {scenario.clock!r}'
        raise ScenarioError(source, "clock", problem)
    if scenario.until is not None and scenario.clock != "stepped":
        problem = f'a run ends at a tick, which needs clock = "stepped", got {scenario.clock!r}'
        raise ScenarioError(source, "until", problem)
    if both := sorted(scenario.populations.keys() & scenario.agents.keys()):
        problem = f"there are agents and a population of the name {both[0]!r}; rename one"
        raise ScenarioError(source, f"populations.{both[0]}", problem)
    for name, cohort in scenario.agents.items():
        _check_area(source, f"agents.{name}.area", cohort.area)
    for name, objects in scenario.objects.items():
        _check_area(source, f"objects.{name}.area", objects.area)
    return scenario


def _check_time(source: str, scenario: Scenario) -> None:
    """Check that a tick is at least 1 ns, and that the last tick is within the kernel's range."""
    lasts_s = max(scenario.ticks, 1) * scenario.tick_s
    if not (scenario.tick_s >= _TICK_S_MIN and lasts_s <= _LASTS_S_MAX):
        raise ScenarioError(
            source,
            "tick_s",
            f"must be {_TICK_S_MIN:g} s at least, and all {scenario.ticks} ticks {_LASTS_S_MAX:g} "
            f"s at most, got {scenario.tick_s!r}",
        )


def _check_area(source: str, key: str, area: Sequence[Sequence[float]] | None) -> None:
    if area is None:
        return
    low, high = area
    if len(low) != len(high) or any(a > b for a, b in zip(low, high, strict=True)):
        problem = f"must be two corners, the lowest first, got {[list(low), list(high)]}"
        raise ScenarioError(source, key, problem)
