"""The members of a population in the ledger: arrays in the place of `Agent` objects.

`Ledger.agents` makes an `Agent` of a member when one is asked for, so every stage of the gate, and
every reader, finds a member as it finds an agent.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.words import row_keys
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.dedup_window import Window
from placet.kernel.ledger.undo import restore_item
from placet.kernel.prng import LANE_BYTES
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json
from placet.schemas.config import Quota
from placet.schemas.limits import Limits
from placet.schemas.log.column_records import ColumnReason

Rows: TypeAlias = NDArray[np.int64]

_SUSPENDED: Final = "\x01suspended"
_COUNTS: Final = "\x01counts"
"""Names of arrays among the buckets; no bucket begins like them."""


class Remembered(NamedTuple):
    """The verdict on a column batch, kept under its req_id.

    Attributes:
        fingerprint: 64-bit hash of its content.
        seq: Seq of the batch; None if no row was admitted.
        codes: Code of each row, as in its record; empty: all admitted.
        reasons: Reasons of the codes of the rule.
        winners: Winner of each row that lost a claim, as in its record.
    """

    fingerprint: int
    seq: int | None
    codes: bytes
    reasons: list[ColumnReason]
    winners: bytes


class MembersVersion(NamedTuple):
    """A version of the members of a population, to which `Members.go_back` returns.

    It has no windows: `Ledger.undo` has a call for each change of a window. Its arrays are never
    written.

    Attributes:
        suspended: `Members.suspended`.
        tats: `Members.tats`.
        remembered: `Members.remembered`.
        forgotten: `Members.forgotten`.
        counted_ns: Moment of `counts`, nanoseconds.
        counts: Number of admitted rows of each member at that moment.
    """

    suspended: NDArray[np.bool_] | None
    tats: dict[str, NDArray[np.int64]]
    remembered: dict[str, Remembered]
    forgotten: dict[str, int]
    counted_ns: int
    counts: int | NDArray[np.int32]


class Members:
    """The members of one population: agents `<name>:0`, `<name>:1` and on.

    Attributes:
        name: Name of the population.
        table: Name of its table.
        count: Number of members.
        owner: Submitter that may submit for them, besides each member and the operator.
        permissions: Kinds that they may propose; None is all.
        priority_max: Cap on the priority of their batches.
        quotas: Quotas of each member by kind, besides the world's.
        numbers: Number of each member among all members of the world.
        all: `0..count - 1`.
        keys: Key of each name, as `prng.agent_key`.
        suspended: Mask of the suspended members; None if none is.
        tats: Bucket -> theoretical arrival time of each member, nanoseconds.
        windows: Dedup windows of the members that sent ordinary intents, by number.
        remembered: The latest verdicts on column batches, by req_id, oldest first.
        forgotten: Stem of a sequence of req_ids -> highest number of it that was forgotten.
    """

    def __init__(
        self,
        name: str,
        table: str,
        count: int,
        first: int,
        *,
        owner: str,
        permissions: frozenset[str] | None,
        priority_max: int,
        quotas: Mapping[str, Quota],
    ) -> None:
        self.name, self.table, self.count, self.owner = name, table, count, owner
        self.permissions, self.priority_max, self.quotas = permissions, priority_max, dict(quotas)
        self.numbers: NDArray[np.int32] = np.arange(first, first + count, dtype=np.int32)
        self.all: Rows = np.arange(count)
        self.all.flags.writeable = False  # users hold it, as `numbers` of the population
        self.keys = row_keys(name, count)
        self.suspended: NDArray[np.bool_] | None = None
        self.tats: dict[str, NDArray[np.int64]] = {}
        self.windows: dict[int, Window] = {}
        self.remembered: dict[str, Remembered] = {}
        self.forgotten: dict[str, int] = {}
        self._counted_ns = 0
        self._counts: int | NDArray[np.int32] = 0
        self._shared: frozenset[str] = frozenset()
        """Names of the arrays that a mark holds: `_SUSPENDED`, `_COUNTS`, and buckets."""

    def suspended_mask(self) -> "NDArray[np.bool_]":
        """Return whether each member is suspended."""
        return np.zeros(self.count, np.bool_) if self.suspended is None else self.suspended.copy()

    def suspend(self, number: int, *, is_suspended: bool) -> None:
        """Suspend or resume a member."""
        if self.suspended is None or _SUSPENDED in self._shared:
            self.suspended = self.suspended_mask()
            self._shared -= {_SUSPENDED}
        self.suspended[number] = is_suspended
        if not is_suspended and not self.suspended.any():
            self.suspended = None

    def dump(self, now_ns: int) -> list[Json]:
        """Return the population, for snapshots and the world digest of a moment."""
        counts = self.ordinals(now_ns)
        return [
            self.name,
            self.table,
            self.count,
            self.owner,
            None if self.permissions is None else sorted(self.permissions),
            self.priority_max,
            {kind: list(quota) for kind, quota in self.quotas.items()},
            None if self.suspended is None else self.suspended.tobytes(),
            # A bucket without charges may be there or not: it says nothing of the world.
            [[name, tats.tobytes()] for name, tats in sorted(self.tats.items()) if tats.any()],
            [[number, window.dump()] for number, window in sorted(self.windows.items())],
            [[req_id, *answer] for req_id, answer in self.remembered.items()],
            list(self.forgotten.items()),
            counts if isinstance(counts, int) else counts.tobytes(),
        ]

    @classmethod
    def load(cls, first: int, now_ns: int, dumped: Sequence[Json]) -> "Members":
        """Return the population of a dump, whose first member has a number among all members."""
        name, table, count, owner, permissions, priority_max, quotas, suspended, *rest = dumped
        tats, windows, remembered, forgotten, counts = rest
        members = cls(
            name,
            table,
            count,
            first,
            owner=owner,
            permissions=None if permissions is None else frozenset(permissions),
            priority_max=priority_max,
            quotas={kind: Quota(*pair) for kind, pair in quotas.items()},
        )
        if suspended is not None:
            members.suspended = np.frombuffer(suspended, np.bool_).copy()
        members.tats = {bucket: np.frombuffer(data, np.int64).copy() for bucket, data in tats}
        members.windows = {number: Window.load(window) for number, window in windows}
        for req_id, print_, seq, codes, reasons, winners in remembered:
            listed = [tuple(reason) for reason in reasons]
            members.remembered[req_id] = Remembered(print_, seq, codes, listed, winners)
        members.forgotten = dict(forgotten)
        members._counted_ns = now_ns  # its own
        members._counts = (
            counts if isinstance(counts, int) else np.frombuffer(counts, np.int32).copy()
        )
        return members

    # ordinals

    def ordinals(self, now_ns: int) -> "int | NDArray[np.int32]":
        """Return how many rows of each member were admitted in column batches at this moment."""
        return self._counts if now_ns == self._counted_ns else 0

    def end_tick(self) -> None:
        """Count from zero, at another tick."""
        self._counts = 0

    def count_admitted(self, now_ns: int, rows: Rows | None) -> None:
        """Count admitted rows, each member once; None is all members."""
        counts = self.ordinals(now_ns)
        if rows is None:
            counts = counts + 1
        elif isinstance(counts, int):
            more = counts + 1
            counts = np.full(self.count, counts, np.int32)
            counts[rows] = more
        else:
            if _COUNTS in self._shared:
                counts = counts.copy()
            counts[rows] += 1
        self._shared -= {_COUNTS}
        self._counted_ns, self._counts = now_ns, counts

    def ordinal_of(self, number: int, now_ns: int) -> int:
        """Return how many rows of one member were admitted in column batches at this moment."""
        counts = self.ordinals(now_ns)
        return counts if isinstance(counts, int) else int(counts[number])

    # quotas

    def over(
        self, bucket: str, quota: Quota, rows: Rows | None, now_ns: int
    ) -> "NDArray[np.bool_] | None":
        """Return the rows whose next intent is beyond the burst of a bucket; None if none is.

        Args:
            bucket: The bucket.
            quota: Its quota.
            rows: Numbers of members; None is all members.
            now_ns: The present time.
        """
        tats = self.tats.get(bucket)
        # One intent more is beyond the burst iff the bucket is beyond its burst less one: a
        # comparison in the place of an array of charges.
        latest = now_ns + (quota.burst - 1) * quota.interval_ns
        if tats is None or int(tats.max()) <= latest:
            return None
        return (tats if rows is None else tats.take(rows)) > latest

    def charge(self, bucket: str, quota: Quota, rows: Rows | None, now_ns: int) -> None:
        """Charge one intent of each row to a bucket; None is all."""
        tats = self.tats.get(bucket)
        if tats is None:
            self.tats_of(bucket)[slice(None) if rows is None else rows] = now_ns + quota.interval_ns
            return
        after = np.maximum(tats if rows is None else tats.take(rows), now_ns)
        after += quota.interval_ns
        if rows is None:
            self.tats[bucket] = after
            self._shared -= {bucket}
        else:
            self.tats_of(bucket)[rows] = after

    def tats_of(self, bucket: str) -> NDArray[np.int64]:
        """Return the arrival times of a bucket for writing."""
        tats = self.tats.get(bucket)
        if tats is None:
            tats = self.tats[bucket] = np.zeros(self.count, np.int64)
        elif bucket in self._shared:
            tats = self.tats[bucket] = tats.copy()
        self._shared -= {bucket}
        return tats

    # versions

    def share(self) -> MembersVersion:
        """Return the present version, whose arrays are copied before the next write."""
        self._shared = frozenset((_SUSPENDED, _COUNTS, *self.tats))
        return MembersVersion(
            self.suspended,
            dict(self.tats),
            dict(self.remembered),
            dict(self.forgotten),
            self._counted_ns,
            self._counts,
        )

    def go_back(self, version: MembersVersion) -> None:
        """Return to a version, which is held further. Dicts are copied, arrays stay shared."""
        self.suspended, self.tats = version.suspended, dict(version.tats)
        self.remembered, self.forgotten = dict(version.remembered), dict(version.forgotten)
        self._counted_ns, self._counts = version.counted_ns, version.counts
        self._shared = frozenset((_SUSPENDED, _COUNTS, *self.tats))

    # answers

    def remember(self, req_id: str, answer: Remembered, limits: Limits) -> None:
        """Keep the verdict on a column batch; forget the oldest ones.

        Of a forgotten request the number in its sequence is kept, such as 17 of `walk:17`; a
        forgotten name without a number is a new request.
        """
        self.remembered[req_id] = answer
        while len(self.remembered) > limits.column_batches_kept:
            oldest = next(iter(self.remembered))
            del self.remembered[oldest]
            form = sequence_form(oldest)
            if form is not None:
                highest = max(form[1], self.forgotten.pop(form[0], -1))
                self.forgotten[form[0]] = highest
        while len(self.forgotten) > limits.window_sequences_max:
            del self.forgotten[next(iter(self.forgotten))]

    def is_forgotten(self, req_id: str) -> bool:
        """Return whether a req_id is not above the highest forgotten one of its sequence."""
        form = sequence_form(req_id)
        return form is not None and form[1] <= self.forgotten.get(form[0], -1)


class MemberTats(MutableMapping[str, int]):
    """The token buckets of one member, as the dict of an `Agent`."""

    __slots__ = ("_members", "_number")

    def __init__(self, members: Members, number: int) -> None:
        self._members, self._number = members, number

    def __getitem__(self, bucket: str) -> int:
        return int(self._members.tats[bucket][self._number])

    def __setitem__(self, bucket: str, tat_ns: int) -> None:
        self._members.tats_of(bucket)[self._number] = tat_ns

    def __delitem__(self, bucket: str) -> None:
        self._members.tats_of(bucket)[self._number] = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._members.tats)

    def __len__(self) -> int:
        return len(self._members.tats)


class MemberAgent(Agent):
    """A member of a population as an `Agent`, made when one is asked for."""

    is_member = True

    __slots__ = ("_members", "_number")

    def __init__(self, members: Members, number: int) -> None:
        self._members, self._number = members, number
        self.agent_id = f"{members.name}:{number}"
        self.owner = members.owner
        self.generation = 1
        self.permissions, self.priority_max = members.permissions, members.priority_max
        self.quotas = members.quotas or None
        self.cohort = None
        self.order_key = int(members.keys[number]).to_bytes(LANE_BYTES, "little")

    # Agent has slots of these names; here the arrays of the population are the storage.
    tats = property(lambda self: MemberTats(self._members, self._number))
    is_suspended = property(
        lambda self: (
            self._members.suspended is not None and bool(self._members.suspended[self._number])
        ),
        lambda self, value: self._members.suspend(self._number, is_suspended=value),
    )
    window = property(
        lambda self: self._members.windows.get(self._number),
        lambda self, window: restore_item(self._members.windows, self._number, window),
    )


class Directory(dict[str, Agent]):
    """The agents of a world by name; a member of a population is made when it is asked for.

    It iterates over the agents that were registered by themselves, and counts those alone.
    """

    def __init__(self, agents: Mapping[str, Agent], populations: Mapping[str, Members]) -> None:
        super().__init__(agents)
        self._populations = populations

    def __missing__(self, name: str) -> Agent:
        form = sequence_form(name) if type(name) is str else None
        members = None if form is None else self._populations.get(form[0])
        if form is None or members is None or form[1] >= members.count:
            raise KeyError(name)
        return MemberAgent(members, form[1])

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as dict.get
        """Return an agent or a member, or the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]  # a mapping takes any key
        except KeyError:
            return False
        return True
