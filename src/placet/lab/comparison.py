"""Compare two runs agent by agent: the agents that decided differently, and what followed.

Requests are matched by agent and req_id; in a scenario's run a req_id names the tick. An agent
*chose* differently if it proposed another intent, or none, under the same req_id; the gate
*decided* differently if the same intent has another outcome. Only outcomes with a record count:
refusals by load and quota leave none.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from placet.actors.ports import EventLog
from placet.history.bisect import FirstDifference, bisect
from placet.history.diff import Request, Requests, differences_of, entities_of, requests_from
from placet.history.reader import fold
from placet.plugins.domains import GivenDomain
from placet.scenarios.recorded_domain import domains_of
from placet.scenarios.scenario import from_text, leaves_of
from placet.scenarios.setup import ORIGIN
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json
from placet.schemas.keywords import explain_keywords
from placet.schemas.log.record import Header
from placet.schemas.printable import printable_html
from placet.stores.reading import Store, as_log
from placet.stores.snapshots.recovery import recover
from placet.tables.table import html_rows


@dataclass(slots=True)
class AgentDifference:
    """The differences of one agent between two runs.

    Attributes:
        agent_id: The agent.
        tick: Tick of its first difference.
        sim_time: Simulated time of its first difference, seconds.
        req_id: Request of its first difference.
        first: That request in the first run; None if it has none.
        second: That request in the second run; None if it has none.
        chose: Number of requests that it chose differently.
        decided: Number of equal requests that the gate decided differently.
    """

    agent_id: str
    tick: int
    sim_time: float
    req_id: str
    first: Request | None
    second: Request | None
    chose: int = 0
    decided: int = 0

    def as_dict(self) -> dict[str, Json]:
        """Return the difference as a row of a table."""
        return {
            "agent": self.agent_id,
            "tick": self.tick,
            "sim_time": self.sim_time,
            "req_id": self.req_id,
            "first": None if self.first is None else self.first.as_dict(),
            "second": None if self.second is None else self.second.as_dict(),
            "chose_differently": self.chose,
            "decided_differently": self.decided,
        }


@dataclass(slots=True)
class TickDifference:
    """The differences at one tick.

    Attributes:
        tick: Number of ticks before.
        agents: Number of agents that differ at this tick.
        agents_so_far: Number of agents that differ at this tick or before.
        chose: Number of requests that an agent chose differently.
        decided: Number of equal requests that the gate decided differently.
    """

    tick: int
    agents: int = 0
    agents_so_far: int = 0
    chose: int = 0
    decided: int = 0

    def as_dict(self) -> dict[str, Json]:
        """Return the tick as a row of a table."""
        return {name: getattr(self, name) for name in self.__slots__}


class KindCount(NamedTuple):
    """How often a kind was admitted and refused from the first difference on.

    Attributes:
        kind: The kind.
        admitted: Number of admitted intents in the first run and in the second.
        refused: Number of refused intents in the first run and in the second.
    """

    kind: str
    admitted: tuple[int, int]
    refused: tuple[int, int]

    def as_dict(self) -> dict[str, Json]:
        """Return the counts as a row of a table."""
        return {
            "kind": self.kind,
            "admitted_first": self.admitted[0],
            "admitted_second": self.admitted[1],
            "refused_first": self.refused[0],
            "refused_second": self.refused[1],
        }


class CollectionDifference(NamedTuple):
    """The difference of one collection at the ends of two runs.

    Attributes:
        collection: Its name.
        entities: Number of entities that differ.
        example: `entity/field` of one difference; the entity if only one run has it.
        first: Value there in the first run; None if there is none.
        second: Value there in the second run; None if there is none.
    """

    collection: str
    entities: int
    example: str
    first: Json
    second: Json

    def as_dict(self) -> dict[str, Json]:
        """Return the collection as a row of a table."""
        return self._asdict()


class SettingDifference(NamedTuple):
    """A setting with another value in each of two runs.

    Attributes:
        key: Its dotted key: of the scenario, or of the settings of a domain; or `seed`.
        first: Its value in the first run; None if it has none.
        second: Its value in the second run; None if it has none.
    """

    key: str
    first: Json
    second: Json

    def as_dict(self) -> dict[str, Json]:
        """Return the setting as a row of a table."""
        return self._asdict()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs, compared.

    Attributes:
        stores: The two logs.
        parting: The first record in which they differ; see `placet bisect`.
        agents: The agents that differ, by their first difference.
        ticks: The ticks with a difference, in order.
        kinds: Counts of the kinds from the first difference on.
        state: The collections that differ at the ends of the logs.
        settings: The settings that differ.
        ends: Number of ticks of the first run, and of the second. Where one has fewer, requests
            after its last tick are not compared; a run without ticks is compared whole.
        parted_at: Number of ticks before the first difference.
    """

    stores: tuple[str, str]
    parting: FirstDifference
    agents: tuple[AgentDifference, ...] = ()
    ticks: tuple[TickDifference, ...] = ()
    kinds: tuple[KindCount, ...] = ()
    state: tuple[CollectionDifference, ...] = ()
    settings: tuple[SettingDifference, ...] = ()
    ends: tuple[int, int] = (0, 0)
    parted_at: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether the logs agree, or one is the beginning of the other."""
        return self.parting.shared

    def tables(self) -> dict[str, list[dict[str, Json]]]:
        """Return the tables `agents`, `ticks`, `kinds` and `state` as rows, for data frames."""
        names = ("agents", "ticks", "kinds", "state")
        return {name: [row.as_dict() for row in getattr(self, name)] for name in names}

    def as_dict(self) -> dict[str, Json]:
        """Return the comparison as plain JSON."""
        return {
            "stores": list(self.stores),
            "equal": self.is_equal,
            "parting": self.parting.as_dict(),
            "settings": [row.as_dict() for row in self.settings],
            "ends": list(self.ends),
            **self.tables(),
        }

    def __repr__(self) -> str:
        if self.is_equal:
            return f"<Comparison: equal in all {self.parting.record} records that both have>"
        return (
            f"<Comparison: part at record {self.parting.record}; {len(self.agents)} agents differ>"
        )

    def _repr_html_(self) -> str:
        tables = (html_rows(name, rows) for name, rows in self.tables().items())
        return f"<p>{printable_html(repr(self))}</p>{''.join(tables)}"


@explain_keywords
def compare(
    first: Store, second: Store, *, domains: Sequence[GivenDomain] | GivenDomain = ()
) -> Comparison:
    """Compare two runs of one model: of two seeds, two options, or a fork and its parent. O(logs).

    Args:
        first: Path or URL of a log, a `placet.Log`, or an open log; it is only read.
        second: The other log; it is only read.
        domains: Domains to re-execute the first differing record with, where the logs do not have
            their settings: each as `module:attribute`, a class, a function or a domain. A domain
            that the scenario of a log names is found in the current folder.

    Raises:
        StoreError: A log cannot be read, or was compacted beyond the first difference.
    """
    logs = as_log(first), as_log(second)
    parting = bisect(*logs, domains_of(*logs, given=domains))
    stores = logs[0].url, logs[1].url
    if parting.shared:
        return Comparison(stores=stores, parting=parting)
    pasts = recover(logs[0]).past, recover(logs[1]).past
    ends = pasts[0].ledger.tick, pasts[1].ledger.tick
    last = min(ends) if all(ends) and ends[0] != ends[1] else None
    requests = (
        _requests(logs[0], parting.record, last),
        _requests(logs[1], parting.record, last),
    )
    agents, ticks = _differences(*requests)
    return Comparison(
        stores=stores,
        parting=parting,
        agents=tuple(agents),
        ticks=tuple(ticks),
        kinds=tuple(_kinds(*requests)),
        state=tuple(_collections(*logs)),
        settings=tuple(_settings(*(past.header for past in pasts))),
        ends=ends,
        parted_at=recover(logs[0], to_record=parting.record).past.ledger.tick,
    )


def _requests(log: EventLog, record: int, last: int | None) -> Requests:
    """Return the requests from a record on, those after a tick left out."""
    ticks = recover(log, to_record=record).past.ledger.tick
    found = requests_from(log, record, ticks=ticks)
    return found if last is None else {k: one for k, one in found.items() if one.tick < last}


def _settings(first: Header | None, second: Header | None) -> Iterator[SettingDifference]:
    before, after = _settings_of(first), _settings_of(second)
    for key in {**before, **after}:
        if before.get(key) != after.get(key):
            yield SettingDifference(key, before.get(key), after.get(key))


def _settings_of(header: Header | None) -> dict[str, Json]:
    """Return the seed and the settings of a run by dotted key: of its scenario, if it has one."""
    if header is None:
        return {}
    text = header.origin.get(ORIGIN)
    if isinstance(text, str):
        try:
            leaves = leaves_of(from_text(header.world, text))
            return {"seed": header.seed, **{k: v for k, v in leaves.items() if v != {}}}
        except ScenarioError:  # of another release
            pass
    settings = {
        f"{domain}.{key}": value
        for domain, values in header.settings.items()
        for key, value in values.items()
    }
    return {"seed": header.seed, **settings}


def _differences(
    firsts: Requests, seconds: Requests
) -> tuple[list[AgentDifference], list[TickDifference]]:
    agents: dict[str, AgentDifference] = {}
    ticks: dict[int, TickDifference] = {}
    at_tick: dict[int, set[str]] = {}
    for agent_id, req_id, first, second in _differing(firsts, seconds):
        either = first or second
        assert either is not None, "a request is of one of the runs"
        found = AgentDifference(agent_id, either.tick, either.sim_time, req_id, first, second)
        agent = agents.setdefault(agent_id, found)
        tick = ticks.setdefault(either.tick, TickDifference(either.tick))
        at_tick.setdefault(either.tick, set()).add(agent_id)
        is_choice = _is_choice(first, second)
        for row in (agent, tick):
            row.chose += is_choice
            row.decided += not is_choice
    so_far: set[str] = set()
    for number in sorted(ticks):
        so_far |= at_tick[number]
        ticks[number].agents, ticks[number].agents_so_far = len(at_tick[number]), len(so_far)
    by_time = sorted(agents.values(), key=lambda agent: (agent.sim_time, agent.agent_id))
    return by_time, [ticks[number] for number in sorted(ticks)]


def _differing(
    firsts: Requests, seconds: Requests
) -> Iterator[tuple[str, str, Request | None, Request | None]]:
    """Yield the requests that differ, by simulated time."""
    keys = [*firsts, *(key for key in seconds if key not in firsts)]
    keys.sort(key=lambda key: (firsts.get(key) or seconds[key]).sim_time)
    for key in keys:
        first, second = firsts.get(key), seconds.get(key)
        if _is_choice(first, second) or not (first and second and first.is_same_outcome(second)):
            yield *key, first, second


def _is_choice(first: Request | None, second: Request | None) -> bool:
    return first is None or second is None or not first.is_same_choice(second)


def _kinds(*runs: Requests) -> Iterator[KindCount]:
    admitted, refused = (
        [Counter(r.kind for r in run.values() if r.decision.passes is wanted) for run in runs]
        for wanted in (True, False)
    )
    for kind in sorted({request.kind for run in runs for request in run.values()}):
        pairs = ((counts[0][kind], counts[1][kind]) for counts in (admitted, refused))
        yield KindCount(kind, *pairs)


def _collections(*logs: EventLog) -> Iterator[CollectionDifference]:
    first, second = (entities_of(fold(log).state) for log in logs)
    for name, found in groupby(differences_of(first, second), lambda one: one.collection):
        one, *others = found
        count = len({difference.entity for difference in (one, *others)})
        yield CollectionDifference(name, count, one.place, one.first, one.second)
