"""The form of a column batch: names, shapes, dtypes and numbers, checked before a decision."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from placet.kernel.arrays.field import Field
from placet.kernel.arrays.values import fitted
from placet.kernel.arrays.words import Array, content_hash
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.members import Members
from placet.kernel.plugin.domain import Kind
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rows import Rows64
from placet.kernel.prng import mix64, name_hash
from placet.schemas.identity import is_identity
from placet.schemas.limits import UNLIMITED
from placet.schemas.name_suggestions import nearest


class CheckedColumns(NamedTuple):
    """A column batch whose form is right.

    Attributes:
        kind: Its kind.
        domain: Name of the kind's domain.
        members: Its population.
        req_id: Its request.
        submitter: Its submitter.
        numbers: Number of the member of each row.
        is_whole: The rows are all members, in order.
        payload: Array of each field, `(rows, *field.sizes)`, in the field's dtype.
        contexts: `context_seq` of all rows, or i8 of each.
        fingerprint: 64-bit hash of its content.
    """

    kind: Kind
    domain: str
    members: Members
    req_id: str
    submitter: str
    numbers: Rows64
    is_whole: bool
    payload: dict[str, Array]
    contexts: "int | Rows64"
    fingerprint: int

    def __len__(self) -> int:
        return len(self.numbers)


def checked(batch: ColumnBatch, ledger: Ledger, registry: Registry) -> CheckedColumns:
    """Return the checked batch.

    Raises:
        ValueError: Its kind has no rule of rows, or a name, an array or a number does not fit;
            nothing was decided.
    """
    kind = _kind_of(batch, registry)
    members = _members_of(batch, ledger)
    if members.table != kind.table:
        raise ValueError(
            f"the kind {kind.name!r} is of the table {kind.table!r}, and the population "
            f"{members.name!r} has the table {members.table!r}"
        )
    for name, value in (("req_id", batch.req_id), ("submitter", batch.submitter)):
        if not is_identity(value):
            raise ValueError(f"the {name} of a column batch must be a name, got {value!r}")
    numbers, is_whole = _numbers_of(batch, members)
    payload = _payload_of(batch, kind.fields, len(numbers))
    contexts = _contexts_of(batch, ledger.seq, len(numbers))
    print_ = fingerprint_of(
        kind.name, members.name, batch.submitter, None if is_whole else numbers, payload
    )
    return CheckedColumns(
        kind, registry.domain_of[kind.name].name, members, batch.req_id, batch.submitter,
        numbers, is_whole, payload, contexts,
        print_,
    )  # fmt: skip


def fingerprint_of(
    kind: str, population: str, submitter: str, numbers: Rows64 | None, payload: Mapping[str, Array]
) -> int:
    """Return the 64-bit hash of a batch's content, which does not include its contexts."""
    names = [name_hash(name) for name in (kind, population, submitter)]
    parts = [0 if numbers is None else content_hash(numbers)]
    parts += [content_hash(payload[name]) for name in sorted(payload)]
    return mix64(*names, *parts)


def _kind_of(batch: ColumnBatch, registry: Registry) -> Kind:
    kind = registry.kinds.get(batch.kind)
    if kind is None or kind.rows is None:
        known = [each.name for each in registry if each.rows is not None]
        near = nearest(str(batch.kind), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"those that have are {known}"
        what = "there is no kind" if kind is None else "no rule of rows has the kind"
        raise ValueError(f"{what} {batch.kind!r}; {hint}")
    return kind


def _members_of(batch: ColumnBatch, ledger: Ledger) -> Members:
    name = batch.population if isinstance(batch.population, str) else batch.population.name
    members = ledger.populations.get(name)
    if members is None:
        near = nearest(str(name), ledger.populations, 1)
        hint = f"did you mean {near[0]!r}?" if near else "register it by register_population"
        raise ValueError(f"there is no population {name!r}; {hint}")
    return members


def _numbers_of(batch: ColumnBatch, members: Members) -> tuple[Rows64, bool]:
    """Return the numbers of the members of the rows, and whether they are all, in order."""
    if batch.agents is None:
        return members.all, True
    given = np.asarray(batch.agents)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and len(given)):
        raise ValueError(
            f"agents must be an array of numbers of members of {members.name!r}, got {given.dtype} "
            f"of shape {given.shape}"
        )
    numbers = np.array(given, np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= members.count):
        wrong = numbers[(numbers < 0) | (numbers >= members.count)][0]
        raise ValueError(
            f"agents must be 0..{members.count - 1} of the population {members.name!r}, got {wrong}"
        )
    seen = np.zeros(members.count, np.bool_)
    seen[numbers] = True
    if np.count_nonzero(seen) < len(numbers):
        twice = int(np.bincount(numbers).argmax())
        raise ValueError(f"the member {twice} of {members.name!r} is named twice in agents")
    return numbers, False


def _payload_of(batch: ColumnBatch, fields: Mapping[str, Field], count: int) -> dict[str, Array]:
    given: object = batch.payload
    if not isinstance(given, Mapping) or set(given) != set(fields):
        shown = sorted(given) if isinstance(given, Mapping) else given
        raise ValueError(
            f"the payload of {batch.kind} is arrays of {sorted(fields)}, got {shown!r:.200}"
        )
    return {
        name: fitted(f"{name} of {batch.kind}", fields[name], given[name], count)
        for name in sorted(fields)
    }


def _contexts_of(batch: ColumnBatch, seq: int, count: int) -> "int | Rows64":
    given = batch.context_seq
    if given is None:
        return seq
    if isinstance(given, np.integer):  # one of all rows is an int in the record
        given = int(given)
    if type(given) is int:
        contexts: int | Rows64 = given
        lowest = highest = given
    else:
        array = np.asarray(given)
        if array.dtype.kind not in "iu" or array.shape not in {(), (count,)}:
            raise ValueError(
                f"context_seq must be an int, or {count} ints, "
                f"got {array.dtype} of shape {array.shape}"
            )
        contexts = np.array(np.broadcast_to(array.astype(np.int64), (count,)))
        lowest, highest = int(contexts.min(initial=0)), int(contexts.max(initial=0))
    if lowest < 0 or highest >= UNLIMITED:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"context_seq must be a seq of the world, >= 0, got {wrong}")
    return contexts
