"""Parts of a scenario: cohorts, populations, sorts of objects, rows to collect, and their error.

They are immutable values without a look at files, domains or policies.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from placet.schemas.codec import Json
from placet.schemas.config import Leases, Quota
from placet.schemas.errors import PlacetError
from placet.schemas.json_value import to_json_value
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SCENARIO_AGENTS_MAX, SCENARIO_MEMBERS_MAX
from placet.tables.statistic import statistic_named


def _checked_quota(quota: dict[str, Json]) -> dict[str, Json]:
    Quota.of(quota)
    return quota


def _made_leases(leases: object) -> object:
    if not isinstance(leases, dict):
        return leases
    try:
        return Leases(**leases)
    except TypeError as error:  # an unknown key
        raise ValueError(str(error)) from error


def _checked_table(table: Mapping[str, Json]) -> Mapping[str, Json]:
    to_json_value(table, _DEPTH_MAX, sys.maxsize)
    return table


_DEPTH_MAX: Final = 64
Table = Annotated[Mapping[str, Json], AfterValidator(_checked_table)]
"""Plain JSON, because the log stores the scenario as JSON: a date or a NaN would change."""
_Count = Annotated[int, Field(strict=True, ge=0, le=SCENARIO_AGENTS_MAX)]
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Corner = Annotated[tuple[_Number, ...], Field(min_length=2, max_length=3)]
QuotaTable = Annotated[dict[str, Json], AfterValidator(_checked_quota)]
LeasesTable = Annotated[Leases, BeforeValidator(_made_leases)]
Area: TypeAlias = Annotated[tuple[_Corner, ...], Field(min_length=2, max_length=2)]
"""Two corners, lowest first; positions are drawn uniformly between them."""


class ScenarioError(PlacetError, ValueError):
    """A scenario cannot be used.

    Attributes:
        source: The file, or the bundled name.
        key: Dotted path of the invalid value; empty where the whole file is invalid.
        problem: The message without source and key.
    """

    def __init__(self, source: str, key: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, key, problem) if part))
        self.source = source
        self.key = key
        self.problem = problem


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
    attributes: Table = field(default_factory=dict)
    permissions: tuple[str, ...] | None = None
    options: Table = field(default_factory=dict)

    def member(self, name: str, agent_id: str, attributes: Mapping[str, Json]) -> "Member":
        """Return an agent of this cohort, which has a name, with its own attributes."""
        permissions = None if self.permissions is None else frozenset(self.permissions)
        return Member(
            agent_id=agent_id, cohort=name, attributes=attributes, permissions=permissions
        )


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPopulation:
    """Agents of a scenario whose fields are columns of a table, and that share one policy.

    Attributes:
        count: Number of agents; their ids are `<population>:0`, `<population>:1`, ...
        table: Name of the table of agents, such as `flock.birds`.
        policy: `module:function`, called once a tick with a `PopulationView`; it returns the
            payload arrays of each kind.
        columns: Initial value of each field, the same for all; the others are left to the domain.
        permissions: Kinds that they may use; None is all.
        quotas: Quotas of each agent, as `quotas` of the scenario.
        options: Options of the policy.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    count: Annotated[int, Field(strict=True, ge=1, le=SCENARIO_MEMBERS_MAX)]
    table: str
    policy: str
    columns: Table = field(default_factory=dict)
    permissions: tuple[str, ...] | None = None
    quotas: Mapping[str, QuotaTable] = field(default_factory=dict)
    options: Table = field(default_factory=dict)


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSort:
    """Objects of one sort, with ids `<sort>_1`, `<sort>_2`, ..., placed at random in `area`."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    count: _Count
    area: Area
    fields: Table = field(default_factory=dict)


@explain_keywords
@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """The rows that a run collects while it runs (`placet.lab.Collector`).

    Attributes:
        every: Ticks between two rows.
        ends: Take rows of the beginning and of the last tick too; None: if `every` is above 1.
        agents: Fields of the agents: `position`, or `world.agents/position` with its collection.
        refusals: Collect each refusal.
        optional: Collect nothing, instead of an error, where pyarrow is not installed or the clock
            does not wait for ticks; and nothing of a run without a file for its log, unless a
            folder is named.
        world: Name of a column -> `module:function` of the state, or a statistic of a field such as
            `mean(flock.birds/energy)`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    every: Annotated[int, Field(strict=True, ge=1)] = 1
    ends: bool | None = None
    agents: tuple[str, ...] = ()
    refusals: bool = False
    optional: bool = False
    world: Mapping[str, str] = field(default_factory=dict)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of `world`, as `module:function`, without its statistics of fields."""
        return tuple(name for name in self.world.values() if statistic_named(name) is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One agent of a scenario: its id, its cohort, and the keywords of its registration."""

    agent_id: str
    cohort: str
    attributes: Mapping[str, Json]
    permissions: frozenset[str] | None


def ids_of(name: str, count: int) -> Iterator[str]:
    """Yield the ids of the members of a cohort, or of the objects of a sort."""
    return (f"{name}_{number}" for number in range(1, count + 1))
