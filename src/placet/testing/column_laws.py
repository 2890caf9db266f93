"""The laws of column batches, for the rules of rows of a user's domain.

Law A: a batch decided as arrays, or row by row in plain Python, leaves the same record and state.

Law B, of kinds whose rule reads the agent's own row alone, and there no field that it adds to: a
column batch and ordinary intents of one group get the same codes and leave the same state.

A rule breaks law A where it is not row-wise, or not deterministic: where its effect on a row
depends on which rows are in the call.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from placet.kernel import Domain
from placet.schemas.keywords import explain_keywords
from placet.schemas.name_suggestions import did_you_mean

if TYPE_CHECKING:
    from placet.testing.column_worlds import ColumnsOf

WORLDS: Final = 20
BATCHES: Final = 10
MEMBERS_MAX: Final = 12


@explain_keywords
def check_columns(
    domain: Domain | Sequence[Domain],
    *,
    kinds: Collection[str] | None = None,
    columns: "ColumnsOf | None" = None,
    payload: "ColumnsOf | None" = None,
    worlds: int = WORLDS,
    batches: int = BATCHES,
    members_max: int = MEMBERS_MAX,
    seed: int = 0,
) -> dict[str, dict[str, int]]:
    """Hold the kinds of a domain that have a rule of rows to the laws of column batches.

        counts = check_columns(Flock())
        assert counts["Fly"]["admitted"]

    Each world has one population for each table of agents, named by the last part of the table's
    name, and gets random batches with random payloads within the bounds of their Fields.

    Args:
        domain: The domain, or several.
        kinds: Kinds to check; None is all with a rule of rows.
        columns: Function of a generator, the name of a table and the numbers of its members that
            returns their initial values; None starts with the defaults and `on_populate`.
        payload: Function of a generator, a kind and the numbers of the members of a batch that
            returns its payload; None draws one. Fields that it leaves out are drawn.
        worlds: Number of worlds.
        batches: Number of batches in each world.
        members_max: Maximum number of members of a population.
        seed: Seed of the first world; the others have the following ones.

    Returns:
        Number of rows by code, of each kind: a test should check that rows were admitted.

    Raises:
        ColumnViolation: A law is broken; the message has seed, kind, row and difference.
        ValueError: There is no kind with a rule of rows, or none of a given name.
    """
    from placet.testing.column_worlds import ColumnWorlds  # noqa: PLC0415  # numpy is an extra

    domains = list(domain) if isinstance(domain, Sequence) else [domain]
    known = [kind.name for each in domains for kind in each.kinds if kind.rows is not None]
    if not known:
        raise ValueError(f"no kind of {[each.name for each in domains]} has a rule of rows")
    for name in kinds or ():
        if name not in known:
            raise ValueError(f"no rule of rows has the kind {name!r}; {did_you_mean(name, known)}")
    chosen = [name for name in known if kinds is None or name in kinds]
    counts: dict[str, dict[str, int]] = {name: {} for name in chosen}
    for number in range(seed, seed + worlds):
        ColumnWorlds(domains, chosen, columns, payload, members_max, number).run(batches, counts)
    return counts
