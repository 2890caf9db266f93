"""Make a table, or a population with its table, by its record: live and in replay."""

from collections.abc import Mapping, Sequence

import numpy as np

from placet.kernel.arrays.authors import Authors
from placet.kernel.arrays.field import Field
from placet.kernel.arrays.values import required
from placet.kernel.arrays.words import Array
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.members import Directory, Members
from placet.kernel.state.table import TableData
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.config import Quota
from placet.schemas.errors import ValidationError
from placet.schemas.log.column_records import TableMade
from placet.schemas.name_suggestions import did_you_mean


def columns_given(
    stem: str, fields: Mapping[str, Field], given: Mapping[str, object], count: int
) -> dict[str, Array]:
    """Check the given initial columns of a table, and return them; a constant fills all rows.

    Raises:
        ValueError: A name is no field, or values do not fit.
    """
    columns: dict[str, Array] = {}
    for name, values in sorted(given.items()):
        if name not in fields:
            raise ValueError(f"{stem!r} has no field {name!r}; {did_you_mean(name, fields)}")
        one = fields[name]
        columns[name] = required(f"{name} of {stem!r}", one, _of_each(one, values, count), count)
    return columns


def _of_each(field: Field, values: object, count: int) -> object:
    """Return a constant as a column that has it in each row; other values as they are."""
    try:
        given = np.asarray(values)
        if given.ndim > len(field.sizes):
            return values
        return np.broadcast_to(given, (count, *field.sizes))
    except ValueError:  # of values that fit no field, which `required` refuses
        return values


def require_given(made: TableMade, given: frozenset[str]) -> None:
    """Check that no hook wrote a column that was given with the registration.

    Raises:
        ValidationError: One did.
    """
    written = {write.field for write in made.written if write.table == made.table}
    for change in made.changes.entities:
        if change.collection == made.table:
            written.update(change.fields or ())
    for field in sorted(written & given):
        raise ValidationError(
            f"on_populate wrote {field!r} of {made.table}, which was given with the registration "
            f"of {made.stem!r}; leave it out there, or write it only if it is not in "
            "population.given"
        )


def table_of(record: TableMade, authors: Authors) -> TableData:
    """Return the table of a record with its initial values."""
    fields = {
        name: Field(dtype, tuple(shape), default, low, high)  # type: ignore[arg-type]  # a record's dtype is checked here
        for name, dtype, shape, default, low, high in record.fields
    }
    columns = {
        name: np.frombuffer(data, fields[name].dtype).reshape(record.count, *fields[name].sizes)
        for name, data in record.columns
    }
    return TableData(authors, record.table, fields, record.stem, record.count, columns, record.seq)


def make_table(state: State, record: TableMade) -> None:
    """Add the table of a record to the state, with its initial values."""
    table = table_of(record, state.authors)
    if record.members is not None:
        state.authors.add(record.stem, record.count)
    state.add_table(table)


def load_members(ledger: Ledger, dumped: Sequence[Json]) -> None:
    """Add the populations of a dump to an empty ledger."""
    first = 0
    for each in dumped:
        members = Members.load(first, ledger.now_ns, each)
        first += members.count
        ledger.add_population(members, Directory(ledger.agents, ledger.populations))
        ledger.dedup.count += sum(window.count for window in members.windows.values())


def add_members(ledger: Ledger, record: TableMade) -> None:
    """Add the population of a record to the ledger, if it is of one."""
    if record.members is None:
        return
    owner, permissions, quotas, priority_max = record.members
    first = sum(members.count for members in ledger.populations.values())
    members = Members(
        record.stem,
        record.table,
        record.count,
        first,
        owner=owner,
        permissions=None if permissions is None else frozenset(permissions),
        priority_max=priority_max,
        quotas={kind: Quota(*pair) for kind, pair in quotas.items()},
    )
    agents = ledger.agents
    if not isinstance(agents, Directory):
        agents = Directory(agents, ledger.populations)
    ledger.add_population(members, agents)
