"""The tables of the domains of a world, checked once at the start."""

from collections.abc import Sequence

from placet.kernel.arrays.field import Table, spec_of
from placet.kernel.plugin.domain import Domain, Kind, overrides
from placet.schemas.codec import Json
from placet.schemas.errors import DomainError
from placet.schemas.name_suggestions import nearest


def tables_of(domains: Sequence[Domain]) -> dict[str, Table]:
    """Return the tables of domains by name.

    Raises:
        DomainError: They are no tables, two have one name, or one is of another domain.
    """
    tables: dict[str, Table] = {}
    for domain in domains:
        given: object = domain.tables
        if not isinstance(given, Sequence) or not all(isinstance(one, Table) for one in given):
            raise DomainError(
                f"the tables of domain {domain.name!r} must be a sequence such as (Table(...),), "
                f"got {given!r}"
            )
        for table in domain.tables:
            if table.name.partition(".")[0] != domain.name:
                raise DomainError(
                    f"the table {table.name!r} is of domain {domain.name!r}; name it "
                    f"'{domain.name}.{table.stem}'"
                )
            if table.name in tables:
                raise DomainError(f"two tables are called {table.name!r}; a name may be used once")
            tables[table.name] = table
    return tables


def spec_of_table(table: Table) -> Json:
    """Return a table as plain JSON, for the fingerprint."""
    return [table.name, table.rows, [[name, *spec_of(one)] for name, one in table.fields.items()]]


def require_table(kind: Kind, domain: Domain) -> None:
    """Check the table of a kind with a rule of rows.

    Raises:
        DomainError: Its domain has no such table, or the table has no agents; or the domain has
            `on_batch`, or invariants of its tables, which a column batch does not call.
    """
    if kind.rows is None or kind.table is None:
        return
    own = [table.name for table in domain.tables if table.rows is None]
    if kind.table not in own:
        near = nearest(kind.table, own, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"its tables of agents are {own}"
        raise DomainError(f"the table of kind {kind.name!r} is {kind.table!r}; {hint}")
    hook = _hook_meeting_tables(domain)
    if hook is not None:
        raise DomainError(
            f"domain {domain.name!r} has {hook}, and its kind {kind.name!r} has a rule of rows: no "
            "hook of the domain runs for a column batch; let the rule refuse, or bound the field"
        )


def _hook_meeting_tables(domain: Domain) -> str | None:
    """Return the hook of a domain that depends on its tables, for a message; None if none does."""
    if overrides(domain, "on_batch"):
        return "on_batch"
    if not overrides(domain, "invariants"):
        return None
    if domain.invariant_reads is None:
        return "invariants of any entity (set `invariant_reads`)"
    tables = {table.name for table in domain.tables}
    met = sorted({ref[0] for ref in domain.invariant_reads} & tables)
    return f"invariants that read its table {met[0]!r}" if met else None
