"""The form of a column batch: names, shapes, dtypes and numbers, checked before a decision."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from placet.kernel.arrays.field import Field
from placet.kernel.arrays.values import as_array, fitted
from placet.kernel.arrays.words import Array, content_hash
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.columns.population import PopulationHandle
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.members import Members
from placet.kernel.plugin.domain import Kind
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rows import Rows64, read_only
from placet.kernel.prng import mix64, mix_word, name_hash
from placet.schemas.identity import is_identity
from placet.schemas.limits import UNLIMITED, Limits
from placet.schemas.name_suggestions import did_you_mean

_NAMES_MAX: Final = 1_024
"""Names of kind, population and submitter that are kept: about 300 bytes each."""


PRESENT: Final = -1
"""Context of a batch that is based on the state at which it is decided."""


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
        contexts: `context_seq` of all rows, or i8 of each; `PRESENT` until it is decided.
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


def at_present(batch: CheckedColumns, seq: int) -> CheckedColumns:
    """Return a batch with the seq of its decision where it names no context."""
    if isinstance(batch.contexts, int) and batch.contexts == PRESENT:
        return CheckedColumns(*batch[:-2], seq, batch[-1])
    return batch


def checked(batch: ColumnBatch, ledger: Ledger, registry: Registry) -> CheckedColumns:
    """Return the checked batch. Its arrays are views of the batch's, which the caller must keep.

    Raises:
        ValueError: Its kind has no rule of rows, a name, an array or a number does not fit, or it
            is larger than the world's limits; nothing was decided.
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
            raise ValueError(f"the {name} of a column batch must be a name, got {value!r:.80}")
    numbers, is_whole = _numbers_of(batch, members)
    _require_size(kind, len(numbers), ledger.policy.limits)
    payload = _payload_of(batch, kind.fields, len(numbers))
    contexts = _contexts_of(batch, len(numbers))
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
    # The hash of no bytes is 0, which stands for all members.
    rows = 0 if numbers is None else content_hash(numbers) if len(numbers) else 1
    mixed = mix_word(_state_of(kind, population, submitter), rows)
    for name in sorted(payload):
        mixed = mix_word(mixed, content_hash(payload[name]))
    return mixed


@lru_cache(maxsize=_NAMES_MAX)
def _state_of(kind: str, population: str, submitter: str) -> int:
    """Return the state of a fingerprint after the names, the same at each tick."""
    return mix64(*map(name_hash, (kind, population, submitter)))


def _kind_of(batch: ColumnBatch, registry: Registry) -> Kind:
    name: object = batch.kind
    kind = registry.kinds.get(name) if isinstance(name, str) else None
    if kind is None or kind.rows is None:
        known = [each.name for each in registry if each.rows is not None]
        what = f"there is no kind {name!r:.80}"
        if kind is not None:
            what = f"the kind {name!r} has no rule of rows, so its intents come one by one"
        raise ValueError(f"{what}; of the kinds with a rule of rows, {did_you_mean(name, known)}")
    return kind


def _members_of(batch: ColumnBatch, ledger: Ledger) -> Members:
    given = batch.population
    name: object = given.name if isinstance(given, PopulationHandle) else given
    members = ledger.populations.get(name) if isinstance(name, str) else None
    if members is None:
        hint = did_you_mean(name, ledger.populations)
        if not ledger.populations:
            hint = "register it by register_population"
        raise ValueError(f"there is no population {name!r:.80}; {hint}")
    return members


def _numbers_of(batch: ColumnBatch, members: Members) -> tuple[Rows64, bool]:
    """Return the numbers of the members of the rows, and whether they are all, in order."""
    if batch.agents is None:
        return members.all, True
    what = f"agents of the population {members.name!r}"
    given = as_array(what, batch.agents)
    if given.ndim != 1:
        raise ValueError(f"{what} must be a list of numbers, got an array of shape {given.shape}")
    if not given.size:  # numpy makes floats of an empty list
        return np.zeros(0, np.int64), False
    if given.dtype.kind not in "iu":
        hint = "; write np.flatnonzero(mask)" if given.dtype.kind == "b" else ""
        raise ValueError(f"{what} must be integers, got {given.dtype}{hint}")
    is_member = (given >= 0) & (given < members.count)
    if not is_member.all():
        wrong = given[~is_member][0]
        raise ValueError(f"{what} must be numbers 0..{members.count - 1}, got {wrong}")
    numbers = np.array(given, np.int64)
    seen = np.zeros(members.count, np.bool_)
    seen[numbers] = True
    if np.count_nonzero(seen) < len(numbers):
        twice = int(np.bincount(numbers).argmax())
        raise ValueError(f"{what} must name each member once, and {twice} is there twice")
    return numbers, False


def _require_size(kind: Kind, count: int, limits: Limits) -> None:
    """Check the rows of a batch, and the bytes of their payload, against the world's limits."""
    if count > limits.column_rows_max:
        raise ValueError(
            f"a column batch has at most {limits.column_rows_max} rows "
            f"(limits.column_rows_max), got {count}; split it by agents"
        )
    widths = [int(one.dtype[1]) * one.components for one in kind.fields.values()]
    size = count * sum(widths)
    if size > limits.column_bytes_max:
        raise ValueError(
            f"the payload of a column batch has at most {limits.column_bytes_max} bytes "
            f"(limits.column_bytes_max), and {count} rows of {kind.name} have {size}; "
            "split it by agents"
        )


def _payload_of(batch: ColumnBatch, fields: Mapping[str, Field], count: int) -> dict[str, Array]:
    given: object = batch.payload
    if not isinstance(given, Mapping):
        raise ValueError(
            f"the payload of {batch.kind} must map {sorted(fields)} to arrays, got {given!r:.80}"
        )
    for name in given:
        if name not in fields:
            hint = did_you_mean(name, fields)
            raise ValueError(f"the payload of {batch.kind} has no field {name!r:.80}; {hint}")
    missing = sorted(set(fields) - set(given))
    if missing:
        raise ValueError(f"the payload of {batch.kind} lacks the field {missing[0]!r}")
    return {
        name: read_only(_column_of(f"{name} of {batch.kind}", fields[name], given[name], count))
        for name in sorted(fields)
    }


def _column_of(what: str, field: Field, values: object, count: int) -> Array:
    """Return the values of a field; a list without items fits a batch without rows."""
    if not count and isinstance(values, list | tuple) and not values:
        values = np.zeros((0, *field.sizes), field.dtype)
    return fitted(what, field, values, count)


def _contexts_of(batch: ColumnBatch, count: int) -> "int | Rows64":
    given = batch.context_seq
    if given is None:
        return PRESENT
    array = as_array("context_seq", given)
    is_one = array.shape == ()
    if array.dtype.kind not in "iu" or array.shape not in {(), (count,)}:
        raise ValueError(
            f"context_seq must be a seq, or one of each of the {count} rows, "
            f"got {array.dtype} of shape {array.shape}"
        )
    is_seq = (array >= 0) & (array < UNLIMITED)
    if not is_seq.all():
        wrong = array[~is_seq].flat[0]
        raise ValueError(f"context_seq must be a seq of the world, >= 0, got {wrong}")
    return int(array) if is_one else np.array(array, np.int64)
