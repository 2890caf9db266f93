"""Forks a world at a position of its log: a new log, which shares no byte that can change.

The fork's log is the parent's up to there, record by record, so that it can be verified, replayed
and explained from the beginning; then comes the record of the fork with its initial changes. The
parent is only read, and may be running. A fork is written under a temporary name and renamed once
complete: a partial fork is never opened as the parent.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from errno import EEXIST
from functools import partial
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Final

from placet.actors.ports import EventLog
from placet.history.counterfactual import (
    CounterfactualReplay,
    CounterfactualReport,
    registry_of,
)
from placet.history.patch import parse_patch
from placet.history.position import Cut, Position, cut_at, position_of
from placet.kernel.control.operator_patch import require_fork, with_origin
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.gate.structure import Structure
from placet.kernel.log.replay import Divergence, Replayer
from placet.kernel.log.sandbox import Sandbox
from placet.kernel.log.verify import Maker
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import rules_in, rules_of
from placet.plugins.domains import remake
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.log.cut import batches_in
from placet.schemas.log.record import (
    Changes,
    ForkAdopted,
    LogAppend,
    RulesChanged,
    encode_record,
    record_hash,
)
from placet.schemas.names import path_part_fault
from placet.stores.files import Disk, make_folder, quoted
from placet.stores.reading import Store, as_log
from placet.stores.snapshots.files import SnapshotFiles, SnapshotStore, files_beside, snapshots_of
from placet.stores.snapshots.recovery import (
    Upto,
    decode,
    read_on,
    recover,
    trusted_snapshots,
    why_not,
)
from placet.stores.sqlite.file import whole_log
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import file_of, open_event_log

_APPEND_RECORDS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The result of forking a world: identity and start of the fork.

    Attributes:
        store: URL of the fork's log.
        world: Name of the fork, with which it must be opened.
        parent: Name of the parent world.
        seq: Seq of the parent at which the fork begins.
        record: Ordinal number of the record that starts the fork.
        seed: Seed of the fork.
        chain: Hash of the parent's record before the fork, hexadecimal.
        digest: State digest of the fork at its start, hexadecimal.
        effects: `refuse` or `simulate`, see `ForkOptions`.
        open_effects: Number of effects that were not settled in the parent; they stay open.
        counterfactual: Result of the counterfactual replay, if one was requested.
    """

    store: str
    world: str
    parent: str
    seq: int
    record: int
    seed: int
    chain: str
    digest: str
    effects: str
    open_effects: int
    counterfactual: CounterfactualReport | None = None

    def as_dict(self) -> dict[str, Json]:
        """Return the result as plain JSON."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "counterfactual": self.counterfactual and self.counterfactual.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions:
    """The differences of a fork from its parent world.

    Attributes:
        world: Name of the fork; None generates a unique one. It is part of every effect key, so
            that no effect of the fork is mistaken for one of the parent.
        seed: Seed of tie-breaks and random draws, 0..2**64-1; None is the parent's.
        effects: `refuse`: no kind of effect has an executor. `simulate`: the gate behaves as if the
            parent's executors were there, and no effect runs until the host provides a handler.
        put: Initial changes, path -> value: `collection/entity/field` with a value, or
            `collection/entity` with all fields of the entity, or with None to delete it.
        dropped: Names of agents to remove at the start; a member of a population is suspended.
        is_replayed: Re-execute the parent's later inputs in the fork.
        origin: How a program continues the fork, as `OrchestratorConfig.origin`; None is the
            parent's.
        decided_by: Domains that decide in the fork, such as those of the parent with other
            settings; empty are the parent's.
    """

    world: str | None = None
    seed: int | None = None
    effects: str = "refuse"
    put: Mapping[str, Json] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    is_replayed: bool = False
    origin: Mapping[str, Json] | None = None
    decided_by: Sequence[Domain] = ()


def fork(
    log: Store,
    to: str,
    options: ForkOptions | None = None,
    *,
    at: int | Position | None = None,
    domains: Sequence[Domain] | Maker = remake,
    validator: EffectValidator | None = None,
    files: SnapshotStore | None = None,
) -> Fork:
    """Copy a world's log up to a position into a new log, as a separate world. O(copied records).

    Args:
        log: The parent's log, or its path or URL; it is only read.
        to: Path or `sqlite:///` URL of the new log; no file may exist there.
        options: Differences from the parent; None is an exact copy.
        at: Seq at which to fork, which must be the end of a batch; or another position. None is
            the end of the log.
        domains: Domains to use if values are set, agents dropped or inputs re-executed. By default
            they are recreated from the log.
        validator: The host's effect validator, if the parent had one.
        files: Snapshots to begin the replay from; None are the snapshots of the log.

    Raises:
        StoreError: The log cannot be read, was compacted beyond `at`, `at` is inside a batch or
            not there, or the new log cannot be written.
        ValidationError, AgentError: A change is invalid.
        ValueError: The world's name or the seed is invalid.
    """
    at = position_of(at)
    log, options = as_log(log), options or ForkOptions()
    path = _new_path(to)
    try:
        _require_free(log, path)
    except FileExistsError:
        raise _taken(path) from None
    cut = _cut(log, at)
    replay = partial(_replay, log, cut, files)
    past = replay()
    seq, record, chain = past.ledger.seq, past.journal.count, past.journal.prev
    parent = past.known_header.world
    world = options.world or _name_after(parent, seq)
    require_fork(world, parent, options.effects, options.seed)
    first = _first_record(replay, past, world, options, domains)
    past.apply(first)
    rules = _other_rules(past, options.decided_by) if options.decided_by else []
    seed = past.known_header.seed
    digest, open_effects = past.state.digest().hex(), len(past.ledger.outbox)
    rerun = None
    if options.is_replayed:
        rerun = CounterfactualReplay(
            past,
            domains,
            dropped=options.dropped,
            is_refusing_effects=options.effects == "refuse",
            validator=validator,
        )
    with _whole_fork(log, path) as name, closing(_Draft(name)) as draft:
        draft.copy(log, cut, chain)
        draft.append(seq + len(rules), [first, *rules])
        if rerun is not None:
            _live(rerun, log, cut, draft)
        draft.keep(log, cut.records)
    return Fork(
        store=f"sqlite:///{quoted(path)}",
        world=world,
        parent=parent,
        seq=seq,
        record=record,
        seed=seed,
        chain=chain.hex(),
        digest=digest,
        effects=options.effects,
        open_effects=open_effects,
        counterfactual=None if rerun is None else rerun.report,
    )


def _name_after(parent: str, seq: int) -> str:
    """Return a new name for a fork, which tells its parent's if the rule for names permits that."""
    ending = f"@{seq}-{token_hex(4)}"
    name = parent.partition("@")[0] + ending
    return f"world{ending}" if path_part_fault(name) else name


def _live(rerun: CounterfactualReplay, log: EventLog, cut: Cut, draft: "_Draft") -> None:
    """Re-execute the parent's later records in the fork, and append the results."""
    there = recover(log).past
    for ordinal, data in read_on(log, cut.records):
        decided = batches_in(cut.part) if cut.part and ordinal == cut.records else 0
        if not rerun.live(ordinal, data, decided):
            break
        if len(rerun.records) >= _APPEND_RECORDS:
            draft.append(rerun.seq, rerun.records)
            rerun.records.clear()
    if rerun.records:
        draft.append(rerun.seq, rerun.records)
    rerun.report.parent_seq = there.ledger.seq
    rerun.report.parent_digest = there.state.digest().hex()
    rerun.report.seq, rerun.report.digest = rerun.seq, rerun.digest


def _new_path(to: str) -> Path:
    """Check that a fork may be made there.

    Raises:
        StoreError: It is in no file, or something is there.
    """
    into = open_event_log(to if "://" in to or to.endswith(".db") else f"{to}.db")
    path = file_of(into)
    if path is None:
        raise StoreError(f"a fork is a separate log in a file: give a path, got {to!r}", store=to)
    if os.path.lexists(path):
        raise _taken(path)
    if not path.absolute().parent.is_dir():
        raise StoreError(f"cannot fork into {path}: there is no such directory", store=to)
    return path


def _taken(path: Path) -> StoreError:
    message = f"cannot fork into {path}: it is there already; give a new path"
    return StoreError(message, store=str(path))


def replay_to(
    log: Store, at: int | Position | None, files: SnapshotStore | None = None
) -> Replayer:
    """Replay a log up to a position, and return the replayed world; an int is a seq.

    Raises:
        StoreError: The log has no such position, or the position is inside a batch.
    """
    at, log = position_of(at), as_log(log)
    return _replay(log, _cut(log, at), files)


def _cut(log: EventLog, at: Position) -> Cut:
    if not log.count():
        raise StoreError(f"{log.url} is empty: there is no world in it", store=log.url)
    return cut_at(log, at)


def _replay(log: EventLog, cut: Cut, files: SnapshotStore | None) -> Replayer:
    past = recover(log, to_record=cut.records, files=files).past
    if cut.part is not None:
        past.apply(cut.part)
    return past


def _first_record(
    replay: Callable[[], Replayer],
    past: Replayer,
    world: str,
    options: ForkOptions,
    domains: Sequence[Domain] | Maker,
) -> bytes:
    """Build the record that starts the fork. The changes are tried on a separate replay."""
    record = ForkAdopted(
        prev=past.journal.prev,
        seq=past.ledger.seq,
        now_ns=past.ledger.now_ns,
        world=world,
        parent=past.known_header.world,
        effects=options.effects,
        given=[parse_patch(past.state, name, value) for name, value in options.put.items()],
        dropped=list(options.dropped),
        changes=Changes(),
        seed=options.seed,
    )
    if options.origin is not None:
        record = with_origin(record, options.origin)
    if not (record.given or record.dropped):
        return encode_record(record)
    trial = replay()
    registry = registry_of(domains, rules_in(trial.known_header))
    structure = Structure(registry, trial.ledger.policy.limits)
    sandbox = Sandbox(registry, structure, trial.state, trial.ledger, trial.known_header)
    sandbox.start(record.prev, record.now_ns)
    sandbox.execute(record)
    made = sandbox.produced_record()
    assert made is not None, "a fork is a record"
    return made


def _other_rules(past: Replayer, domains: Sequence[Domain]) -> list[bytes]:
    """Put the rules of domains in force, and return the record of it; none if they are already."""
    then = rules_in(past.known_header)
    registry = Registry(domains, has_leases=past.ledger.policy.leases is not None)
    rules = rules_of(registry)._replace(validator=then.validator)
    if rules == then:
        return []
    head = past.journal.prev, past.ledger.seq + 1, past.ledger.now_ns
    record = encode_record(RulesChanged(*head, **rules._asdict()))
    past.apply(record)
    return [record]


@contextmanager
def _whole_fork(log: EventLog, path: Path) -> Iterator[Path]:
    """Yield the path of a fork's draft; log and snapshots get their names at the block's end.

    A compacted log cannot be opened without its snapshots, so they are moved first, into the folder
    that a fork which was cut off may have left. The fork exists once the log has its name.

    Raises:
        StoreError: Another file has taken the name meanwhile, or the disk failed.
    """
    folder = files_beside(path).folder
    try:
        with whole_log(path) as draft:
            drafts = files_beside(draft).folder
            try:
                yield draft
                if drafts.exists():
                    _require_free(log, path)
                    make_folder(folder)
                    for snapshot in drafts.iterdir():
                        snapshot.replace(folder / snapshot.name)
                    Disk().sync_dir(folder)
            finally:
                rmtree(drafts, ignore_errors=True)
    except OSError as error:
        is_late = isinstance(error, FileExistsError)
        why = "another process made it meanwhile; give a new path" if is_late else str(error)
        raise StoreError(f"cannot fork into {path}: {why}", store=str(path)) from error


def _require_free(log: EventLog, path: Path) -> None:
    """Check that the path of a fork is free; copies of snapshots from a killed fork may be there.

    Raises:
        FileExistsError: A log is there, or snapshots that are not the parent's.
    """
    folder = files_beside(path).folder
    if os.path.lexists(path) or (os.path.lexists(folder) and not _is_leftover(log, folder)):
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))


def _is_leftover(log: EventLog, folder: Path) -> bool:
    """Return whether a folder holds nothing but copies of snapshots of the parent's log."""
    files = SnapshotFiles(folder)
    try:
        places = files.places()
        return (
            not folder.is_symlink()
            and len(places) == len(list(folder.iterdir()))
            and all(why_not(log, files.read(place)) is None for place in places)
        )
    except (OSError, ValueError):
        return False


class _Draft:
    """A log in preparation, under a name that no reader opens.

    Args:
        path: Path of the draft.
    """

    def __init__(self, path: Path) -> None:
        self._log = SqliteEventLog(path)
        self._files = files_beside(path)
        self._epoch = self._log.open()
        self._count = self._seq = 0

    def close(self) -> None:
        """Close the log, which is one file then."""
        self._log.close()

    def copy(self, log: EventLog, cut: Cut, chain: bytes) -> None:
        """Copy a log up to a position; the last record of the copy must have the given hash."""
        records = cut.records
        start = log.start()
        self._count, self._seq = start
        prev: bytes | None = None
        waiting: list[bytes] = []
        seq = start.seq
        for data in _first(log, start.record, records):
            record = decode(data, self._count + len(waiting))
            if prev is not None and record.prev != prev:
                raise Divergence(self._count + len(waiting), seq, "the chain is broken here")
            prev, seq = record_hash(data), record.seq
            waiting.append(data)
            if len(waiting) == _APPEND_RECORDS:
                self.append(seq, waiting)
                waiting = []
        if cut.part is not None:
            prev, seq = record_hash(cut.part), decode(cut.part, records).seq
            waiting.append(cut.part)
            records += 1
        if waiting:
            self.append(seq, waiting)
        if prev != chain or self._count != records:
            raise _compacted_meanwhile(log)

    def append(self, seq: int, records: Sequence[bytes]) -> None:
        """Write records that lead to a seq, as one append."""
        append = LogAppend(self._count, self._seq, seq, tuple(records))
        if self._count and not self._log.count():
            self._log.begin(append, self._epoch)
        else:
            self._log.append(append, self._epoch)
        self._count += len(records)
        self._seq = seq

    def keep(self, log: EventLog, records: int) -> None:
        """Copy the snapshots of the first records: a compacted log begins from the oldest.

        A parent that only refuses takes snapshots at the same seq, of records that are its alone.
        """
        files = snapshots_of(log)
        if files is None:
            return
        trusted = trusted_snapshots(log, files, upto=Upto(record=records), skipped=[])
        snapshots = [snapshot for _, snapshot in trusted]
        if not snapshots and self._log.start().record:  # they went since we read them
            raise _compacted_meanwhile(log)
        try:
            for snapshot in snapshots:
                self._files.write(snapshot)
        except OSError as error:
            raise StoreError(
                f"cannot copy the snapshots of {log.url}: {error}", store=log.url
            ) from error


def _first(log: EventLog, start: int, end: int) -> Iterator[bytes]:
    for expected, (ordinal, data) in enumerate(log.read(start), start):
        if expected >= end:
            return
        if ordinal != expected:
            raise _compacted_meanwhile(log)
        yield data


def _compacted_meanwhile(log: EventLog) -> StoreError:
    return StoreError(f"{log.url} was compacted while it was read; fork again", store=log.url)
