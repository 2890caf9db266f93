"""One file for a whole log: it packs and checks all records, and detects every change."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import ENOSPC, EPERM
from hashlib import blake2b
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from placet.history.bisect import bisect
from placet.history.diff import diff
from placet.history.explain import explain, explain_seq
from placet.history.pack import Check, check, pack
from placet.history.reader import config_of, fold
from placet.history.selection import Selection, selected_records
from placet.schemas.codec import canonical
from placet.schemas.errors import StoreError
from placet.schemas.log.pack import PACK_MAGIC, decode_pack, encode_pack
from placet.schemas.log.record import (
    Admitted,
    Changes,
    Configured,
    Header,
    LogAppend,
    Settled,
    decode_record,
    encode_record,
    intents_of,
    record_as_dict,
    record_hash,
)
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.files import Disk
from placet.stores.pack import PackEventLog, pack_at
from placet.stores.snapshots.files import SnapshotFiles, snapshots_of
from tests.history.forks import DOMAINS, log_of
from tests.kernel.builders import add, intent, kernel_of
from tests.kernel.traces import random_trace, run_trace
from tests.stores.snapshots.logs import cut_at, snapshot_at, write_log


def a_log(steps: int = 30) -> list[bytes]:
    log: list[bytes] = []
    run_trace(kernel_of(DOMAINS, sink=log), random_trace(12, steps))
    return log


def packed(log: list[bytes], path: Path, **options: Any) -> PackEventLog:
    pack(log_of(log), path, **options)
    return PackEventLog(path)


def checked(path: Path) -> Check:
    return check(PackEventLog(path), DOMAINS)


def test_packing_and_checking_preserve_records_digest_and_decisions(tmp_path):
    """Check ∘ pack = the log: records, digest, decisions."""
    log = a_log()
    done = pack(log_of(log), tmp_path / "w.pack")
    found = checked(tmp_path / "w.pack")
    assert found.is_ok
    assert (found.false, found.about) == ((), done.about)
    assert found.verification.unverified == ()
    assert found.verification.batches > 10
    reader = PackEventLog(tmp_path / "w.pack")
    assert [data for _, data in reader.read()] == log
    assert reader.count() == len(log)
    assert reader.size_bytes() == sum(map(len, log))
    assert diff(log_of(log), reader).is_empty
    assert done.size_bytes == (tmp_path / "w.pack").stat().st_size
    assert found.as_dict()["ok"] is True


def test_the_same_log_packs_to_the_same_bytes_from_any_store(tmp_path):
    log = a_log()
    packed(log, tmp_path / "one.pack")
    pack(write_log(tmp_path / "two.db", log), tmp_path / "two.pack")
    pack(PackEventLog(tmp_path / "one.pack"), tmp_path / "three.pack")
    kinds = {path.read_bytes() for path in tmp_path.glob("*.pack")}
    assert len(kinds) == 1


def test_a_pack_may_start_later_with_a_snapshot(tmp_path):
    log = a_log()
    seqs = [decode_record(data).seq for data in log]
    at = seqs[len(log) // 2]
    whole, late = packed(log, tmp_path / "all.pack"), packed(log, tmp_path / "l.pack", from_seq=at)
    assert late.start().record > 0
    assert late.count() == whole.count()
    assert checked(tmp_path / "l.pack").is_ok
    assert fold(late, at).state.digest() == fold(whole, at).state.digest()
    assert fold(late).state.digest() == fold(whole).state.digest()
    assert late.find_seq(at) >= late.start().record
    assert late.find_seq(10**6) == late.count()
    with pytest.raises(StoreError, match="was compacted up to"):
        fold(late, 2)
    early = packed(log, tmp_path / "early.pack", from_seq=0)
    assert early.start() == (0, 0)


def test_a_compacted_log_is_packed_from_its_first_record(tmp_path):
    records = a_log()
    log = write_log(tmp_path / "w.db", records)
    for at in (len(records) // 2, len(records)):
        snapshot_at(log, records, at)
    cut_at(log, len(records) // 2 - 1)
    pack(log, tmp_path / "w.pack")
    assert PackEventLog(tmp_path / "w.pack").start() == log.start()
    assert checked(tmp_path / "w.pack").is_ok
    files = snapshots_of(log)
    assert files is not None
    for place in files.places():
        (tmp_path / "w.db.snapshots" / place.name).unlink()
    with pytest.raises(StoreError, match="no snapshot of it is valid"):
        pack(log, tmp_path / "none.pack")


def test_a_snapshot_removed_during_packing_is_replaced_by_another(tmp_path, monkeypatch):
    records = a_log()
    log = write_log(tmp_path / "w.db", records)
    middle = len(records) // 2
    kept = [snapshot_at(log, records, at) for at in (middle, len(records))]
    cut_at(log, middle - 1)
    lists = [[SnapshotPosition(10**6, 10**6), *kept]]  # of a moment ago
    listed = SnapshotFiles.places

    def places(self: SnapshotFiles) -> list[SnapshotPosition]:
        return lists.pop() if lists else listed(self)

    monkeypatch.setattr(SnapshotFiles, "places", places)
    pack(log, tmp_path / "w.pack")
    assert checked(tmp_path / "w.pack").is_ok


def test_every_changed_byte_of_a_pack_is_detected(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    kernel.decide([add("a:0")])
    path = tmp_path / "w.pack"
    packed(log, path)
    data = path.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(ValueError, match=r"checksum|does not begin"):
            decode_pack(bytes(flipped))
        if place % 100 == 0:
            path.write_bytes(flipped)
            with pytest.raises(StoreError, match=r"checksum|does not begin"):
                checked(path)
    for cut in (0, 5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(StoreError, match="cannot read"):
            checked(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(StoreError, match="checksum"):
        checked(path)
    path.write_bytes(data)
    assert checked(path).is_ok


def forged(path: Path, **fields: Any) -> None:
    """Change a pack and recompute its checksum, as a forger would."""
    held = decode_pack(path.read_bytes())
    path.write_bytes(encode_pack(msgspec.structs.replace(held, **fields)))


def test_a_forged_pack_with_a_valid_checksum_is_detected_by_chain_and_rules(tmp_path):
    log = a_log(12)
    path = tmp_path / "w.pack"
    packed(log, path)
    sound = path.read_bytes()
    for place in range(1, len(log)):  # a record that is left out
        forged(path, records=[*log[:place], *log[place + 1 :]])
        assert not checked(path).is_ok
        path.write_bytes(sound)
    rich = rechained(log)
    forged(path, records=rich)
    found = checked(path)
    assert not found.is_ok
    assert found.verification.integrity.first_divergence is not None
    assert "re-executed" in found.verification.integrity.first_divergence["why"]
    path.write_bytes(sound)
    about = PackEventLog(path).pack.about
    for name in about:
        forged(path, about={**about, name: "false"})
        assert checked(path).false == (name,)
        assert not checked(path).is_ok
        path.write_bytes(sound)


def rechained(log: list[bytes]) -> list[bytes]:
    """Change the agent of one batch, and hash all later records again."""
    forgery: list[bytes] = []
    is_done = False
    for data in log:
        record: Any = decode_record(data)
        if forgery:
            record = msgspec.structs.replace(record, prev=record_hash(forgery[-1]))
        entities = getattr(getattr(record, "changes", None), "entities", None)
        if forgery and entities and not is_done and entities[0].fields:
            richer = msgspec.structs.replace(entities[0], fields={"count": 59})
            changes = msgspec.structs.replace(record.changes, entities=[richer, *entities[1:]])
            record, is_done = msgspec.structs.replace(record, changes=changes), True
        forgery.append(encode_record(record))
    assert is_done
    return forgery


def test_a_pack_is_a_read_only_store(tmp_path):
    log: list[bytes] = []
    kernel = kernel_of(DOMAINS, sink=log)
    kernel.decide([intent("Take", {"amount": 9}, "t")])
    reader = packed(log, tmp_path / "w.pack")
    assert explain(reader, "alice", "t", DOMAINS).answer == "refused"
    reader.close()
    append = LogAppend(len(log), kernel.seq, kernel.seq, log[:1])
    for write in (
        reader.open,
        lambda: reader.append(append, 1),
        lambda: reader.compact(1, 1, appends_max=1),
    ):
        with pytest.raises(StoreError, match="a packed log and read-only"):
            write()
    snapshots = snapshots_of(packed(log, tmp_path / "l.pack", from_seq=kernel.seq))
    assert snapshots is not None
    (place,) = snapshots.places()
    assert place == SnapshotPosition(len(log) - 1, kernel.seq)  # the refusal came after it
    with pytest.raises(OSError, match="a packed log is read-only"):
        snapshots.write(snapshots.read(place))
    with pytest.raises(OSError, match="a packed log is read-only"):
        snapshots.remove([])


# what a stranger has written, with a sound chain and a sound checksum

DEEP = b"\x91" * 20_000 + b"\xc0"
"""A value inside of a value, further than anybody reads."""


def with_batch(encoded: bytes, **fields: Any) -> Callable[[Any], bytes]:
    return lambda record: encode_record(replace(record, encoded=encoded, **fields))


FORGERIES: dict[str, tuple[type, Callable[[Any], bytes]]] = {
    "no record": (Admitted, lambda _: canonical(["nothing"])),
    "no batch": (Admitted, with_batch(canonical([True]))),
    "a req_id that is none": (Admitted, with_batch(canonical([["alice", [1], "Add", {}, 0]]))),
    "fewer intents than contexts": (Admitted, with_batch(canonical([]))),
    "a deep payload": (
        Admitted,
        with_batch(b"\x91\x95\xa1a\xa1r\xa1k\x81\xa1p" + DEEP + b"\x00"),
    ),
    "a deep record": (
        Settled,
        lambda r: encode_record(replace(r, output="deep")).replace(b"\xa4deep", DEEP),
    ),
    "a batch of no schedule": (Admitted, lambda r: encode_record(replace(r, due_of=-1))),
    "a policy that is none": (
        Configured,
        lambda record: encode_record(replace(record, staleness_threshold=-1)),
    ),
    "another beginning": (Header, lambda r: encode_record(replace(r, changes=Changes()))),
}


def forge(records: list[bytes], kind: type, alter: Callable[[Any], bytes]) -> Any:
    """Alter the last record of a kind, hash all later records again, and return the original."""
    place = max(i for i, data in enumerate(records) if isinstance(decode_record(data), kind))
    was: Any = decode_record(records[place])
    records[place] = alter(was)
    for later in range(place + 1, len(records)):
        record: Any = decode_record(records[later])
        records[later] = encode_record(replace(record, prev=record_hash(records[later - 1])))
    return was


@pytest.mark.parametrize("name", FORGERIES)
def test_a_file_that_is_not_a_log_is_an_error_in_every_reader(name, tmp_path):
    log = a_log()
    good = packed(log, tmp_path / "good.pack")
    was = forge(log, *FORGERIES[name])
    path = tmp_path / "forged.pack"
    path.write_bytes((tmp_path / "good.pack").read_bytes())
    forged(path, records=log)
    pack_ = PackEventLog(path)
    intents = intents_of(was) if isinstance(was, Admitted) else [{"agent_id": "a", "req_id": "r"}]
    asked = intents[0]["agent_id"], intents[0]["req_id"]
    readers: list[Callable[[], object]] = [
        lambda: fold(pack_),
        lambda: config_of(pack_),
        lambda: [record_as_dict(record) for _, record in selected_records(pack_, Selection())],
        lambda: explain(pack_, *asked, DOMAINS),
        lambda: explain_seq(pack_, was.seq, DOMAINS),
        lambda: diff(pack_, good),
        lambda: bisect(pack_, good, DOMAINS),
    ]
    for read in readers:
        with suppress(StoreError):  # and no other
            read()
    with suppress(StoreError):
        assert not checked(path).is_ok


def test_a_pack_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "w.pack"
    packed(a_log(3), path)
    body = path.read_bytes()[len(PACK_MAGIC) + 16 :]
    bent = body.replace(b"\xa5world\xa5world", b"\xa5world" + DEEP)
    assert bent != body
    path.write_bytes(PACK_MAGIC + blake2b(bent, digest_size=16).digest() + bent)
    with pytest.raises(StoreError, match="nested too deeply"):
        PackEventLog(path).count()


def test_a_pack_with_an_invalid_snapshot_is_an_error(tmp_path):
    path = tmp_path / "w.pack"
    log = a_log()
    packed(log, path, from_seq=decode_record(log[-1]).seq)
    forged(path, snapshots=[b"nothing"])
    for read in (checked, lambda path: fold(PackEventLog(path))):
        with pytest.raises(StoreError, match="a snapshot in the pack cannot be read"):
            read(path)


def test_a_pack_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_: Disk, path: Path, data: bytes) -> None:
        path.write_bytes(data[:100])
        raise OSError(ENOSPC, "no space left on device")

    monkeypatch.setattr(Disk, "write_new", full)
    with pytest.raises(StoreError, match=r"cannot pack into .* no space left"):
        packed(a_log(3), tmp_path / "w.pack")
    assert list(tmp_path.iterdir()) == []


def test_only_one_of_two_concurrent_packs_to_a_path_succeeds(tmp_path, monkeypatch):
    path, logs = tmp_path / "w.pack", [a_log(3), a_log(4)]
    both_wrote, fsync = Barrier(2, timeout=60), Disk.fsync

    def wrote(disk: Disk, draft: Path) -> None:
        fsync(disk, draft)
        both_wrote.wait()

    monkeypatch.setattr(Disk, "fsync", wrote)
    with ThreadPoolExecutor(2) as pool:
        failures = [pool.submit(pack, log_of(log), path) for log in logs]
        told = [one.exception() for one in failures]
    (failure,) = (one for one in told if one is not None)
    assert isinstance(failure, StoreError)
    assert str(failure).endswith("w.pack: another process made it meanwhile; give a new path")
    assert checked(path).is_ok
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("has_links", [True, False])
def test_rename_new_never_replaces_a_file_with_or_without_hard_links(
    tmp_path, monkeypatch, has_links
):
    def refuse(*_: object) -> None:
        raise OSError(EPERM, "no links here")

    if not has_links:
        monkeypatch.setattr("os.link", refuse)
    first, second, target = (tmp_path / name for name in ("a", "b", "c"))
    first.write_bytes(b"a")
    second.write_bytes(b"b")
    Disk().rename_new(first, target)
    with pytest.raises(FileExistsError):
        Disk().rename_new(second, target)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"b": b"b", "c": b"a"}


def test_a_pack_is_recognized_by_its_first_bytes(tmp_path):
    path = tmp_path / "w.pack"
    packed(a_log(3), path)
    assert pack_at(str(path)) is not None
    found = pack_at(f"pack:///{path}")
    assert found is not None
    assert found.url.startswith("pack:///")
    odd = path.rename(tmp_path / "a%41 ?.pack")
    for name in (str(odd), PackEventLog(odd).url):
        assert pack_at(name) is not None
    odd.rename(path)
    for text in (str(tmp_path), str(tmp_path / "none"), "a\0b", str(Path(__file__))):
        assert pack_at(text) is None
    with pytest.raises(StoreError, match="it is there already"):
        pack(log_of(a_log(3)), path)
    with pytest.raises(StoreError, match="cannot pack into"):
        pack(log_of(a_log(3)), tmp_path / "nowhere" / "w.pack")
    with pytest.raises(StoreError, match="there is no world"):
        pack(log_of([]), tmp_path / "empty.pack")
    forged(path, version=9)
    with pytest.raises(StoreError, match="pack version 9 is unknown"):
        PackEventLog(path).count()
    assert path.read_bytes().startswith(PACK_MAGIC)
