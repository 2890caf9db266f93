"""What a scenario says: who takes part, with what, for how long, under which settings.

A scenario is a value. Where it leaves something to chance - where an agent begins - the answer is
drawn from its seed by name, so that one agent more moves nobody else.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field

from placet.actors.admission.queue import Backpressure
from placet.actors.admission.time_scale import FACTOR_MIN, WAIT_MS
from placet.kernel.prng import random_unit
from placet.runtime.config import ClockName
from placet.schemas.codec import Json
from placet.schemas.config import Quota
from placet.schemas.errors import PlacetError
from placet.schemas.json_value import to_json_value
from placet.schemas.limits import SCENARIO_AGENTS_MAX, SCENARIO_TICKS_MAX


def _checked_quota(quota: dict[str, Json]) -> dict[str, Json]:
    Quota.of(quota)
    return quota


def _checked_table(table: Mapping[str, Json]) -> Mapping[str, Json]:
    to_json_value(table, _DEPTH_MAX, sys.maxsize)
    return table


_DEPTH_MAX: Final = 64
_Table = Annotated[Mapping[str, Json], AfterValidator(_checked_table)]
"""Plain JSON: the log keeps the scenario as that, so a date or a NaN would come back otherwise."""
_Count = Annotated[int, Field(strict=True, ge=0, le=SCENARIO_AGENTS_MAX)]
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Corner = Annotated[tuple[_Number, ...], Field(min_length=2, max_length=3)]
_Quota = Annotated[dict[str, Json], AfterValidator(_checked_quota)]
Area: TypeAlias = Annotated[tuple[_Corner, ...], Field(min_length=2, max_length=2)]
"""Two corners, lowest first; what is placed in it lies anywhere between them."""


class ScenarioError(PlacetError, ValueError):
    """A scenario cannot be used.

    Attributes:
        source: The file, or the bundled name.
        key: Dotted path of the value at fault; empty where it is the file as a whole.
    """

    def __init__(self, source: str, key: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, key, problem) if part))
        self.source = source
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGroup:
    """Agents who behave alike.

    Attributes:
        count: How many; they are called `<group>_1`, `<group>_2`, ...
        policy: Name of a bundled policy, or `module:attribute` of one's own.
        area: Where they begin; None leaves it to the domain.
        placing: Further keywords of `register_agent`.
        permissions: Kinds that they may use; None is all.
        options: What the policy wants to know.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    count: _Count
    policy: str
    area: Area | None = None
    placing: _Table = field(default_factory=dict)
    permissions: tuple[str, ...] | None = None
    options: _Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectGroup:
    """Objects of one sort, called `<group>_1`, `<group>_2`, ... and lying anywhere in `area`."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    count: _Count
    area: Area
    fields: _Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One agent of a scenario: its name, its group, and the keywords of its registration."""

    agent_id: str
    group: str
    placing: Mapping[str, Json]
    permissions: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A world to run.

    Attributes:
        name: How it is called: the file's name without its ending.
        title: One line for people.
        domain: Name of the domain, or `module:Class`.
        seed: Of ties, draws, places and policies.
        ticks: How many steps it lasts.
        tick_s: Simulated seconds of one step.
        settings: Keywords of the domain.
        quotas: Kind -> `{"rate": per second, "burst": count}`.
        staleness_threshold: As in the configuration of a world; None is off.
        clock: Likewise. `stepped`: a tick begins when all have answered the last, and a seed has
            one outcome. Else all act once per tick of a time that does not wait for them.
        backpressure: Likewise; and the two of `dilate`.
        agents: Groups of agents, by name.
        objects: Groups of objects, by name; given to the domain as its keyword `objects`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    title: str = ""
    domain: str = "world"
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0
    ticks: Annotated[int, Field(strict=True, ge=0, le=SCENARIO_TICKS_MAX)]
    tick_s: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 1.0
    settings: _Table = field(default_factory=dict)
    quotas: Mapping[str, _Quota] = field(default_factory=dict)
    staleness_threshold: Annotated[int, Field(strict=True, ge=0)] | None = None
    clock: ClockName = "stepped"
    backpressure: Backpressure = "reject"
    dilation_wait_ms: int = WAIT_MS
    dilation_factor_min: float = FACTOR_MIN
    agents: Mapping[str, AgentGroup]
    objects: Mapping[str, ObjectGroup] = field(default_factory=dict)

    @property
    def agents_count(self) -> int:
        """How many agents take part."""
        return sum(group.count for group in self.agents.values())

    def with_agents(self, count: int) -> "Scenario":
        """Return the same scenario with `count` agents, shared out among the groups as before.

        Where all groups are empty, each has an equal share.

        Raises:
            ScenarioError: There is no group.

        Source: the largest-remainder method (Hamilton); ties go to the group that stands first.
        """
        if count and not self.agents:
            raise ScenarioError(
                self.name, "agents", f"there is no group for {count} agents; add one"
            )
        parts = {name: group.count for name, group in self.agents.items()}
        if not any(parts.values()):
            parts = dict.fromkeys(parts, 1)
        total = max(sum(parts.values()), 1)
        shares = {name: part * count for name, part in parts.items()}
        counts = {name: share // total for name, share in shares.items()}
        by_remainder = sorted(shares, key=lambda name: -(shares[name] % total))
        for name in by_remainder[: count - sum(counts.values())]:
            counts[name] += 1
        agents = {name: replace(group, count=counts[name]) for name, group in self.agents.items()}
        return replace(self, agents=agents)

    def members(self) -> Iterator[Member]:
        """Return every agent, group by group."""
        for name, group in self.agents.items():
            permissions = None if group.permissions is None else frozenset(group.permissions)
            for agent_id in ids_of(name, group.count):
                placing = dict(group.placing)
                if group.area is not None:
                    placing["position"] = self._place(agent_id, group.area)
                yield Member(
                    agent_id=agent_id, group=name, placing=placing, permissions=permissions
                )

    def domain_settings(self) -> dict[str, Json]:
        """Return the keywords with which the domain is made."""
        if not self.objects:
            return dict(self.settings)
        objects = {
            object_id: {
                "sort": name,
                **group.fields,
                "position": self._place(object_id, group.area),
            }
            for name, group in self.objects.items()
            for object_id in ids_of(name, group.count)
        }
        return {**self.settings, "objects": objects}

    def _place(self, name: str, area: Area) -> list[float]:
        """Draw a place, to a hundredth: it will stand in many logs."""
        return [
            round(low + (high - low) * random_unit(self.seed, axis, name, "place"), 2)
            for axis, (low, high) in enumerate(zip(*area, strict=True))
        ]


def ids_of(group: str, count: int) -> Iterator[str]:
    """Name the members of a group."""
    return (f"{group}_{number}" for number in range(1, count + 1))
