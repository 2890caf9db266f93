"""Scenario values: which agents take part, with which attributes and settings, for how long.

A scenario is an immutable value. Random values, such as the agents' first positions, are
drawn from its seed by name, so adding an agent does not move the others.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field

from placet.actors.admission.queue import Backpressure
from placet.actors.admission.time_scaled_queue import FACTOR_MIN, WAIT_MS
from placet.kernel.prng import random_unit
from placet.runtime.config import ClockName
from placet.schemas.codec import Json
from placet.schemas.config import OnRuleError, Quota
from placet.schemas.errors import PlacetError
from placet.schemas.json_value import to_json_value
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SCENARIO_AGENTS_MAX, SCENARIO_TICKS_MAX, SEED_MAX


def _checked_quota(quota: dict[str, Json]) -> dict[str, Json]:
    Quota.of(quota)
    return quota


def _checked_table(table: Mapping[str, Json]) -> Mapping[str, Json]:
    to_json_value(table, _DEPTH_MAX, sys.maxsize)
    return table


_DEPTH_MAX: Final = 64
_Table = Annotated[Mapping[str, Json], AfterValidator(_checked_table)]
"""Plain JSON, because the log stores the scenario as JSON: a date or a NaN would change."""
_Count = Annotated[int, Field(strict=True, ge=0, le=SCENARIO_AGENTS_MAX)]
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Corner = Annotated[tuple[_Number, ...], Field(min_length=2, max_length=3)]
_Quota = Annotated[dict[str, Json], AfterValidator(_checked_quota)]
Area: TypeAlias = Annotated[tuple[_Corner, ...], Field(min_length=2, max_length=2)]
"""Two corners, lowest first; positions are drawn uniformly between them."""


class ScenarioError(PlacetError, ValueError):
    """A scenario cannot be used.

    Attributes:
        source: The file, or the bundled name.
        key: Dotted path of the invalid value; empty where the whole file is invalid.
    """

    def __init__(self, source: str, key: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, key, problem) if part))
        self.source = source
        self.key = key


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCohort:
    """Agents of a scenario with the same policy, attributes and permissions.

    Attributes:
        count: Number of agents; their ids are `<cohort>_1`, `<cohort>_2`, ...
        policy: Name of a bundled policy, or `module:attribute`.
        area: Where they start; None leaves it to the domain.
        attributes: Further keywords of `register_agent`.
        permissions: Kinds that they may use; None is all.
        options: Options of the policy.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    count: _Count
    policy: str
    area: Area | None = None
    attributes: _Table = field(default_factory=dict)
    permissions: tuple[str, ...] | None = None
    options: _Table = field(default_factory=dict)


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSort:
    """Objects of one sort, with ids `<sort>_1`, `<sort>_2`, ..., placed at random in `area`."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    count: _Count
    area: Area
    fields: _Table = field(default_factory=dict)


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """The rows that a run collects while it runs (`placet.lab.Collector`).

    Attributes:
        every: Ticks between two rows.
        ends: Take rows of the beginning and of the last tick too; None: if `every` is above 1.
        agents: Fields of the agents: `position`, or `world.agents/position` with its collection.
        refusals: Collect each refusal.
        world: Name of a column -> `module:function` of the state.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    every: Annotated[int, Field(strict=True, ge=1)] = 1
    ends: bool | None = None
    agents: tuple[str, ...] = ()
    refusals: bool = False
    world: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One agent of a scenario: its id, its cohort, and the keywords of its registration."""

    agent_id: str
    cohort: str
    attributes: Mapping[str, Json]
    permissions: frozenset[str] | None


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A world to run.

    Attributes:
        name: Its name: the file's name without the ending.
        title: One line of description.
        domain: Name of the domain, or `module:attribute`.
        seed: Seed of ties, random draws, positions and policies.
        ticks: Number of steps.
        tick_s: Simulated seconds of one step.
        settings: Keywords of the domain.
        quotas: Kind -> `{"rate": per second, "burst": count}`.
        staleness_threshold: As in `OrchestratorConfig`; None is off.
        clock: As in `OrchestratorConfig`. `stepped`: a tick begins when all verdicts of the last
            are known, and a seed has one outcome. Otherwise every agent acts once per tick, and
            time does not wait for it.
        backpressure: As in `OrchestratorConfig`; with `dilation_wait_ms` and
            `dilation_factor_min` for `dilate`.
        on_rule_error: `raise`: an exception of a rule or a hook ends the run, and its tick leaves
            no record, so the run is resumed at this tick once the rule is mended. `refuse`: the
            batch of the rule is refused as `rule_error`, and the run continues.
        agents: Cohorts of agents, by name.
        objects: Sorts of objects, by name; passed to the domain as its keyword `objects`.
        collect: The rows to collect while it runs; None is none. Needs `clock = "stepped"`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    title: str = ""
    domain: str = "world"
    seed: Annotated[int, Field(strict=True, ge=0, le=SEED_MAX)] = 0
    ticks: Annotated[int, Field(strict=True, ge=0, le=SCENARIO_TICKS_MAX)]
    tick_s: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 1.0
    settings: _Table = field(default_factory=dict)
    quotas: Mapping[str, _Quota] = field(default_factory=dict)
    staleness_threshold: Annotated[int, Field(strict=True, ge=0)] | None = None
    clock: ClockName = "stepped"
    backpressure: Backpressure = "reject"
    dilation_wait_ms: int = WAIT_MS
    dilation_factor_min: float = FACTOR_MIN
    on_rule_error: OnRuleError = "raise"
    agents: Mapping[str, AgentCohort]
    objects: Mapping[str, ObjectSort] = field(default_factory=dict)
    collect: Collect | None = None

    @property
    def agents_count(self) -> int:
        """Return the number of agents of all cohorts."""
        return sum(cohort.count for cohort in self.agents.values())

    def with_agents(self, count: int) -> "Scenario":
        """Return the same scenario with `count` agents, divided among the cohorts in proportion.

        If all cohorts are empty, each gets an equal share.

        Raises:
            ScenarioError: There is no cohort, or the count is out of bounds.

        Source: the largest-remainder method (Hamilton); ties go to the cohort that stands first.
        """
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
            permissions = None if cohort.permissions is None else frozenset(cohort.permissions)
            for agent_id in ids_of(name, cohort.count):
                attributes = dict(cohort.attributes)
                if cohort.area is not None:
                    attributes["position"] = self._place(agent_id, cohort.area)
                yield Member(
                    agent_id=agent_id, cohort=name, attributes=attributes, permissions=permissions
                )

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


def ids_of(name: str, count: int) -> Iterator[str]:
    """Yield the ids of the members of a cohort, or of the objects of a sort."""
    return (f"{name}_{number}" for number in range(1, count + 1))
