"""Select records of a log: by seq, agent, kind, refusal, or a pattern in their text.

A `SingleBlock` is taken apart first (`expanded`), so that a selection matches single batches.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from re import Pattern

from placet.actors.ports import EventLog
from placet.history.batch_outcomes import is_held, noted_in
from placet.history.column_rows import refused_count, row_of
from placet.schemas.batch import sequence_form
from placet.schemas.codec import to_json
from placet.schemas.errors import PlacetError
from placet.schemas.log.expand import expanded
from placet.schemas.log.intents import decode_intents
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Columns,
    Header,
    Record,
    Refused,
    RulesChanged,
    Scheduled,
    SingleBlock,
    TableMade,
    agents_of,
    record_as_dict,
    record_type,
)
from placet.schemas.name_suggestions import did_you_mean
from placet.stores.snapshots.recovery import decode, recover


@dataclass(frozen=True, slots=True)
class Selection:
    """The records to read; the default selects every record.

    Attributes:
        from_seq: First seq. A record that takes no seq, such as a refusal, belongs to the seq at
            which it was made.
        to_seq: Last seq; None is the end of the log.
        agents: Agents whose batches, registrations and changes are selected; empty is all.
        kinds: Kinds of intents; a batch with one of them is selected. Empty is all.
        refused: Select refused batches and notes of refusals only; no batch that is held for a
            person.
        grep: Pattern that the type of the record and its content as JSON must contain.
    """

    from_seq: int = 0
    to_seq: int | None = None
    agents: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    refused: bool = False
    grep: Pattern[str] | None = None

    @property
    def is_by_content(self) -> bool:
        """Return whether records are selected by more than their seq."""
        return bool(self.agents or self.kinds or self.refused or self.grep is not None)

    def matches(self, record: Record) -> bool:
        """Return whether the content of a record, no `SingleBlock`, is selected. O(intents)."""
        if self.refused and not _is_refused(record):
            return False
        if (self.agents or self.kinds) and not self._matches_parties(record):
            return False
        if self.grep is None:
            return True
        text = f"{record_type(record)} {to_json(record_as_dict(record)).decode()}"
        return self.grep.search(text) is not None

    def _matches_parties(self, record: Record) -> bool:
        """Return whether a record is of a selected agent and of a selected kind."""
        if isinstance(record, Columns):
            return (not self.kinds or record.kind in self.kinds) and (
                not self.agents or any(row_of(record, name) is not None for name in self.agents)
            )
        if isinstance(record, Admitted | Refused | Scheduled) and any(
            self.includes(agent_id, kind)
            for agent_id, _, kind, _, _ in decode_intents(record.encoded)
        ):
            return True
        changed = [change.agent_id for change in agents_of(record)]
        if isinstance(record, AgentChanged):
            changed.append(record.agent_id)
        return not self.kinds and any(map(self.agents.__contains__, changed))

    def includes(self, agent_id: str, kind: str) -> bool:
        """Return whether an intent is of a selected agent and of a selected kind."""
        return (not self.agents or agent_id in self.agents) and (
            not self.kinds or kind in self.kinds
        )


def selected_records(
    log: EventLog, selection: Selection, *, from_record: int | None = None, end: int | None = None
) -> Generator[tuple[int, Record], None, None]:
    """Yield the selected `(ordinal, record)` pairs of a log, one for each batch.

    Args:
        log: The log; it is only read, and may be written meanwhile.
        selection: The records to yield.
        from_record: Ordinal number of the first record to read; None is that of the first seq.
        end: Ordinal number after the last record to read; None is the end of the log.

    Raises:
        StoreError: The log cannot be read.
    """
    start = log.find_seq(selection.from_seq) if from_record is None else from_record
    for ordinal, data in log.read(start):
        record = decode(data, ordinal)
        is_after = selection.to_seq is not None and first_seq(record) > selection.to_seq
        if is_after or (end is not None and ordinal >= end):
            return
        for chosen in selected_of(record, selection):
            yield ordinal, chosen


def require_named(log: EventLog, selection: Selection) -> None:
    """Check that a log has the agents and the kinds of a selection, as a typo would select nothing.

    The kinds of a log are in its header and the agents are registered, so this reads the log up to
    the last name that is looked for. Of a compacted log, the names in its state are known too.

    Raises:
        PlacetError: A name is nowhere in the log; the message suggests the nearest one.
        StoreError: The log cannot be read.
    """
    agents: dict[str, None] = {}
    kinds: dict[str, None] = {}
    for ordinal, data in log.read():
        if selection.agents <= agents.keys() and selection.kinds <= kinds.keys():
            return
        for record in expanded(decode(data, ordinal)):
            _add_names(record, agents, kinds)
            if isinstance(record, TableMade) and record.members is not None:
                agents.update(dict.fromkeys(_members_among(selection.agents, record)))
    if log.start().record:
        past = recover(log).past
        agents.update(dict.fromkeys((*past.ledger.agents, *past.ledger.gone)))
        agents.update(dict.fromkeys(filter(past.ledger.agents.__contains__, selection.agents)))
        kinds.update(dict.fromkeys(past.header.kinds if past.header else ()))
    for name in sorted(selection.agents - agents.keys()):
        raise PlacetError(f"{log.url} has no agent {name!r}; {did_you_mean(name, agents)}")
    for name in sorted(selection.kinds - kinds.keys()):
        raise PlacetError(f"{log.url} has no kind {name!r}; {did_you_mean(name, kinds)}")


def _is_refused(record: Record) -> bool:
    """Return whether a record is or notes a refusal, or is a column batch with a refused row.

    A batch that is held for a person has a record of the same type, and is not refused.
    """
    if isinstance(record, Columns):
        return bool(refused_count(record))
    if isinstance(record, Refused):
        return not is_held(record)
    return any(noted_in(record))


def _members_among(names: Iterable[str], record: TableMade) -> Iterator[str]:
    """Yield the names that are members of the population of a record."""
    for name in names:
        form = sequence_form(name)
        if form is not None and form[0] == record.stem and form[1] < record.count:
            yield name


def _add_names(record: Record, agents: dict[str, None], kinds: dict[str, None]) -> None:
    """Add the names of agents and kinds in a record."""
    if isinstance(record, Header | RulesChanged):
        kinds.update(dict.fromkeys(record.kinds))
    agents.update(dict.fromkeys(change.agent_id for change in agents_of(record)))
    if isinstance(record, Admitted | Refused | Scheduled):
        for agent_id, _, kind, _, _ in decode_intents(record.encoded):
            agents[agent_id] = kinds[kind] = None


def selected_of(record: Record, selection: Selection) -> Iterator[Record]:
    """Yield the selected records of the batches that a record holds, or the record itself."""
    is_by_content, to_seq = selection.is_by_content, selection.to_seq
    for part in expanded(record):
        is_in_range = to_seq is None or first_seq(part) <= to_seq
        is_in_range = is_in_range and part.seq >= selection.from_seq
        if is_in_range and (not is_by_content or selection.matches(part)):
            yield part


def first_seq(record: Record) -> int:
    """Return the seq at which a record begins: a batch has one for each intent."""
    if isinstance(record, SingleBlock):
        return record.seq - max(len(record.puts) - 1, 0)
    return record.seq - len(record.contexts) + 1 if isinstance(record, Admitted) else record.seq
