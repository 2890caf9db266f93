"""`placet.Log`: read a finished or growing log; only its Arrow tables need an extra.

    log = placet.Log("town.db")
    log.at(tick=10).state["world.agents"]["folk_1"]["position"]
    codes = Counter(refusal["code"] for refusal in log.refusals)
    log.tables()["intents"].to_pandas()

A `Log` only reads: it takes no fence and changes no file, so a writer is not disturbed. Each call
reads the log up to its present end.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from placet.history.fork import replay_to
from placet.history.position import Position
from placet.history.selection import Selection, require_named, selected_records
from placet.kernel.log.replay import Replayer
from placet.kernel.state.tree import WorldState
from placet.schemas.errors import PlacetError
from placet.schemas.event import Event
from placet.schemas.html_table import html_table
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import record_as_dict, record_type
from placet.schemas.printable import printable, printable_html
from placet.stores.reading import log_to_read

if TYPE_CHECKING:
    from placet.history.verify_log import Verification
    from placet.kernel.log.verify import Maker
    from placet.plugins.domains import GivenDomain
    from placet.schemas.explanation import Explanation
    from placet.tables.plan import TablePlan
    from placet.tables.table import LogRows, Tables


class PastWorld:
    """A world as it was at a position of its log.

    Attributes:
        state: The state, read-only: `state["world.agents"]["alice"]["position"]`.
        seq: Sequence number of the world.
        sim_time: Simulated time, seconds.
        agents: Ids of the registered agents, sorted.
    """

    def __init__(self, past: Replayer) -> None:
        self._past = past
        self.state = WorldState(past.state)
        self.seq = past.ledger.seq
        self.sim_time = past.ledger.now_ns / SECOND_NS
        self.agents = tuple(sorted(past.ledger.agents))

    def digest(self) -> str:
        """Return the digest of the state, hexadecimal."""
        return self._past.state.digest().hex()

    def __repr__(self) -> str:
        return f"<PastWorld at seq {self.seq}, {self.sim_time} s: {self.state!r}>"

    def _repr_html_(self) -> str:
        rows = ((name, len(rows)) for name, rows in self.state.items())
        caption = f"world at seq {self.seq}, {self.sim_time} s"
        return html_table(caption, ("collection", "entities"), rows)


@explain_keywords
class Log:
    """The log of a world, for reading.

    Args:
        store: A path such as `town.db`, a packed log, or the URL of a store.
        domain: What decided the log, for `verify` and `explain`, where it is neither installed nor
            the domain of a scenario in the current folder: `module:attribute`, a class, a function
            that makes it, a domain, or a list of these.

    Raises:
        StoreError: The store does not exist, or is in memory.
    """

    def __init__(
        self, store: str | Path, domain: "GivenDomain | Sequence[GivenDomain] | None" = None
    ) -> None:
        self._domain = domain
        self._log = log_to_read(str(store))
        self._log.count()  # a missing file is an error now, and not at the first use

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._log.url

    def __len__(self) -> int:
        """Return the number of records ever appended, compacted ones included."""
        return self._log.count()

    def close(self) -> None:
        """Release the store; a second call does nothing."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def records(
        self,
        from_seq: int = 0,
        to_seq: int | None = None,
        *,
        agent: str | Iterable[str] = (),
        kind: str | Iterable[str] = (),
        refused: bool = False,
        grep: str | None = None,
    ) -> Iterator[Event]:
        """Yield the records of the log, one for each batch.

        Args:
            from_seq: First seq.
            to_seq: Last seq; None is the end of the log.
            agent: Yield only records of this agent, or of these agents.
            kind: Yield only batches with an intent of this kind, or of these kinds.
            refused: Yield only refused batches.
            grep: Yield only records in whose JSON this regular expression is found.

        Raises:
            PlacetError: `grep` is no regular expression, or the log has no such agent or kind.
            StoreError: The log cannot be read, or is damaged.
        """
        try:
            wanted = None if grep is None else re.compile(grep)
        except re.error as error:
            raise PlacetError(f"grep={grep!r} is no regular expression: {error}") from None
        chosen = Selection(from_seq, to_seq, _names(agent), _names(kind), refused, wanted)
        require_named(self._log, chosen)
        for ordinal, record in selected_records(self._log, chosen, end=self._log.count()):
            sim_time = record.now_ns / SECOND_NS
            type_, data = record_type(record), record_as_dict(record)
            yield Event(record.seq, ordinal, type_, sim_time, data)

    def at(self, seq: int | None = None, *, tick: int | None = None) -> PastWorld:
        """Return the world at a seq, after a number of ticks, or without both at the end.

        O(state + the records after the nearest snapshot); finding a tick is O(log).

        Raises:
            StoreError: The log has no such position, cannot be read, or was compacted beyond it.
            ValueError: Both a seq and a tick are named.
        """
        return PastWorld(replay_to(self._log, Position(seq=seq, tick=tick)))

    @property
    def intents(self) -> "LogRows":
        """The admitted intents, in order of execution."""
        return self._rows("intents")

    @property
    def refusals(self) -> "LogRows":
        """The recorded refusals of intents."""
        return self._rows("refusals")

    @property
    def changes(self) -> "LogRows":
        """The changed fields, with their values before and after."""
        return self._rows("changes")

    def entities(self, every: int | None = None) -> "LogRows":
        """Return the entities after every `every`-th tick, or without it at the end of the log."""
        return self._rows("entities", every)

    def tables(self, *names: str, every: int | None = None) -> "Tables":
        """Return Arrow tables in memory. For a long log, `placet export` writes files instead.

        Args:
            names: Names of the tables; none is all.
            every: LogRows of `entities` after every `every`-th tick; None is the end of the log.

        Raises:
            MissingExtraError: pyarrow is not installed.
            StoreError: The log cannot be read.
        """
        from placet.tables.table import read_tables  # noqa: PLC0415  # only tables need it

        return read_tables(self._plan(names, every))

    def verify(self, domain: "GivenDomain | Sequence[GivenDomain] | None" = None) -> "Verification":
        """Check the chain and the digests, and re-execute every decision. O(log).

        `log.verify().is_ok` is true if every decision was re-executed and is right, and None if
        the chain is right and some decisions were not re-executed, as without their domain.

        Args:
            domain: What decided the log; None is that of `Log(store, domain=...)`.

        Raises:
            DomainNotRemade: The given domain is not of the log.
            StoreError: The log cannot be read.
        """
        from placet.history.verify_log import verify_log  # noqa: PLC0415  # pydantic

        return verify_log(self._log, self._domains(domain))

    def explain(
        self,
        agent_id: str | None = None,
        req_id: str | None = None,
        *,
        seq: int | None = None,
        domain: "GivenDomain | Sequence[GivenDomain] | None" = None,
    ) -> "Explanation":
        """Return an explanation of the answer to a request, or of the decision that took a seq.

        Args:
            agent_id: Agent of the request.
            req_id: Id of the request.
            seq: Sequence number of the decision, instead of a request.
            domain: What decided the log; None is that of `Log(store, domain=...)`.

        Raises:
            StoreError: The log cannot be read, or has no such seq.
            ValueError: Neither a request nor a seq is named, or both are.
        """
        from placet.history.explain import explain, explain_seq  # noqa: PLC0415  # pydantic

        if seq is not None and agent_id is None and req_id is None:
            return explain_seq(self._log, seq, self._domains(domain), reads=True)
        if seq is None and agent_id is not None and req_id is not None:
            return explain(self._log, agent_id, req_id, self._domains(domain), reads=True)
        raise ValueError("name a request, explain(agent_id, req_id), or a seq, explain(seq=...)")

    def __repr__(self) -> str:
        return printable(f"<Log {self.url}: {len(self)} records>")

    def _repr_html_(self) -> str:
        last = self.at()
        return (
            f"<p><b>{printable_html(self.url)}</b>: {len(self)} records, seq {last.seq}, "
            f"{last.sim_time} s</p>{last._repr_html_()}"
        )

    def _domains(self, given: "GivenDomain | Sequence[GivenDomain] | None") -> "Maker":
        from placet.scenarios.recorded_domain import domains_of  # noqa: PLC0415  # pydantic

        return domains_of(self._log, given=self._domain if given is None else given)

    def _plan(self, names: tuple[str, ...], every: int | None) -> "TablePlan":
        from placet.tables.plan import TableOptions, TablePlan  # noqa: PLC0415  # only tables

        return TablePlan(self._log, TableOptions(names=names, every=every))

    def _rows(self, name: str, every: int | None = None) -> "LogRows":
        from placet.tables.table import LogRows  # noqa: PLC0415  # only tables need it

        if every is not None and every < 1:
            raise PlacetError(f"every must be a number of ticks from 1 on, got {every}")
        return LogRows(name, lambda: self._plan((name,), every))


def _names(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset((names,) if isinstance(names, str) else names)
