"""A table of what placet makes on a disk, and a kill before each change of a file on the way.

A creator makes one thing in a folder; called again, it leaves a whole thing as it is. Its `found`
returns whether the thing is there, and raises if a part of one is.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any, Final, cast

from placet.cli.commands import new
from placet.domains.world import World
from placet.frontends.adapter_names import keep_price, read_kept_price
from placet.history.fork import fork
from placet.history.pack import check, pack
from placet.history.timeline.fold import PlayedState
from placet.history.timeline.frames import FrameFiles, FrameHead, Stretch, compressed, encode_state
from placet.history.timeline.ledgers import LedgerFrames
from placet.history.verify_log import verify_log
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import take
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.log.record import GENESIS, LogAppend, decode_record
from placet.schemas.log.snapshot import Snapshot
from placet.server.config import ServeConfig
from placet.server.player_page import PlayerPage
from placet.server.worlds import Worlds
from placet.stores import anchors
from placet.stores.append_rules import NoWorldError
from placet.stores.pack import PackEventLog
from placet.stores.salvage import salvage
from placet.stores.snapshots.files import SnapshotFiles, SnapshotStore
from placet.stores.snapshots.recovery import recover
from placet.stores.sqlite.heartbeat import Heartbeat
from placet.stores.sqlite.log import SqliteEventLog
from placet.sweeps.formats import FORMAT
from placet.sweeps.plan import run_key
from placet.sweeps.results import Results
from placet.sweeps.study import RowWriter, Study
from placet.tables.export import export
from placet.tables.parts import (
    FIXED,
    CollectedTable,
    CollectError,
    PartFolder,
    read_collected,
)
from placet.tables.plan import TableOptions
from tests.crash.process_forker import Report
from tests.crash.syscall_killer import changes_of, is_over_before
from tests.kernel.domains import Lab
from tests.stores.snapshots.logs import cut_at, records_of_adds, snapshot_at, write_log

RECORDS: Final = records_of_adds(12)
GROUP: Final = LogAppend(0, 0, 1, (RECORDS[0],))
TASTE: Final = "a taste of the text in a file\n" * 400


@dataclass(frozen=True)
class Creator:
    """How one thing is made, and looked for.

    Attributes:
        make: Makes the thing in a folder; another folder has the parent's log.
        found: Returns whether the thing is in the folder, whole.
    """

    make: Callable[[Path, Path], None]
    found: Callable[[Path], bool]


def prepare(parent: Path) -> None:
    """Make a compacted log with snapshots, and a damaged one."""
    log = write_log(parent / "w.db", RECORDS)
    snapshot_at(log, RECORDS, 6)
    snapshot_at(log, RECORDS, len(RECORDS))
    cut_at(log, 5)
    write_log(parent / "whole.db", RECORDS)
    with closing(log_at(parent / "bad.db")) as bad:
        epoch, seqs = bad.open(), [decode_record(data).seq for data in RECORDS]
        bad.append(LogAppend(0, 0, seqs[7], RECORDS[:8]), epoch)
        bad.append(LogAppend(8, seqs[7], seqs[-1], RECORDS[9:]), epoch)


def log_at(path: Path) -> SqliteEventLog:
    return SqliteEventLog(path)


def make_log(folder: Path, _parent: Path) -> None:
    with closing(log_at(folder / "a.db")) as log:
        epoch = log.open()
        if not log.count():
            log.append(GROUP, epoch)


def found_log(folder: Path) -> bool:
    try:
        return log_at(folder / "a.db").count() == 1
    except NoWorldError:
        return False


def make_snapshot(folder: Path, _parent: Path) -> None:
    SnapshotFiles(folder / "s").write(a_snapshot())


def a_snapshot() -> Snapshot:
    return take(folded(RECORDS))


def found_in(store: SnapshotStore) -> bool:
    return (
        [store.read(place) for place in store.places()]
        == [a_snapshot()] * len(store.places())
        != []
    )


def make_frame(folder: Path, _parent: Path) -> None:
    head = FrameHead(
        previous=0, record=4, seq=3, now_ns=0, chain=GENESIS, first_batch=None, stretch=Stretch()
    )
    FrameFiles(folder / "f").write(head, compressed(encode_state(PlayedState())))


def found_frame(folder: Path) -> bool:
    names = list((folder / "f").glob("*.frame"))
    heads = FrameFiles(folder / "f").heads()
    assert len(heads) == len(names), "a frame is there in part"
    return [FrameFiles(folder / "f").packed(head.record) for head in heads] != []


def make_pack(folder: Path, parent: Path) -> None:
    if not (folder / "p.pack").exists():
        pack(log_at(parent / "w.db"), folder / "p.pack")


def found_pack(folder: Path) -> bool:
    path = folder / "p.pack"
    return path.exists() and check(PackEventLog(path), [Lab()]).is_ok


def make_fork(folder: Path, parent: Path) -> None:
    if not (folder / "f.db").exists():
        fork(log_at(parent / "w.db"), str(folder / "f.db"))


def found_sound(path: Path) -> bool:
    if not path.exists():
        return False
    assert verify_log(log_at(path), [Lab()]).integrity.is_ok
    return True


def make_salvage(folder: Path, parent: Path) -> None:
    if not (folder / "s.db").exists():
        salvage(log_at(parent / "bad.db"), log_at(folder / "s.db"))


def found_salvage(folder: Path) -> bool:
    path = folder / "s.db"
    return path.exists() and recover(log_at(path)).past.journal.count == 8


def make_export(name: str) -> Callable[[Path, Path], None]:
    def make(folder: Path, parent: Path) -> None:
        if not (folder / name).exists():
            export(log_at(parent / "whole.db"), folder / name, TableOptions())

    return make


def found_folder(folder: Path) -> bool:
    from pyarrow import parquet  # an extra

    if not (folder / "e").exists():
        return False
    names = {path.name for path in (folder / "e").iterdir()}
    assert "_schema.json" in names
    tables = [parquet.read_table(folder / "e" / name) for name in names - {"_schema.json"}]
    return len(tables) > 3


def found_csv(folder: Path) -> bool:
    path = folder / "e.csv"
    if not path.exists():
        return False
    (table,) = json.loads((folder / "e_schema.json").read_text())["tables"].values()
    assert len(path.read_text().splitlines()) == table["rows"] + 1 > 2
    return True


KEY: Final = run_key("", "", 1)
"""Key of the row of the study that is made."""


def make_collected(folder: Path, _parent: Path) -> None:
    table = CollectedTable("world", FIXED["world"])
    parts = PartFolder(folder / "c", [table])
    try:
        parts.begin()
    except CollectError:  # it has rows: the run is resumed
        parts.continue_from(2)
    for tick in range(parts.last_tick + 1, 3):
        table.rows.append(
            tuple(float(tick) if column.type == "float64" else tick for column in table.columns)
        )
        parts.write(tick)
    parts.seal()


def found_collected(folder: Path) -> bool:
    if not (folder / "c" / "_schema.json").exists():
        return False
    assert read_collected(folder / "c")["world"].arrow["tick"].to_pylist() == [1, 2]
    return True


def make_study(folder: Path, _parent: Path) -> None:
    plan = cast("Any", SimpleNamespace(scenarios=[], seeds=[1]))
    with Study(folder / "st").locked() as study:
        study.add_plan(plan)
        writer = RowWriter(study.folder, study.session)
        with closing(writer):
            if not study.rows:
                row = {"key": KEY, "code": "", "scenario": "", "seed": 1, "error": None}
                writer.write({**row, "attempt": 0, "text": TASTE})


def found_study(folder: Path) -> bool:
    study = Study(folder / "st")
    if not study.manifest["plans"]:
        return False
    assert study.manifest["format"] == FORMAT
    rows = study.read_rows() if (folder / "st" / "results").exists() else {}
    return bool(rows) and rows[KEY]["text"] == TASTE


def make_page(folder: Path, _parent: Path) -> None:
    PlayerPage(TASTE, 1).save(folder / "p.html")


def found_text(name: str) -> Callable[[Path], bool]:
    def found(folder: Path) -> bool:
        if not (folder / name).exists():
            return False
        assert (folder / name).read_text() == TASTE, "it is there in part"
        return True

    return found


def make_results(folder: Path, _parent: Path) -> None:
    Results([{"seed": 1, "text": TASTE}], ["seed", "text"]).write(folder / "r.parquet")


def found_results(folder: Path) -> bool:
    from pyarrow import parquet  # an extra

    path = folder / "r.parquet"
    return path.exists() and parquet.read_table(path)["text"].to_pylist() == [TASTE]


def make_price(folder: Path, _parent: Path) -> None:
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    keep_price("host/model", [1.0, 2.0])


def found_price(folder: Path) -> bool:
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    return read_kept_price("host/model") == [1.0, 2.0]


def make_heartbeat(folder: Path, _parent: Path) -> None:
    Heartbeat(folder / "a.db").begin()


def found_heartbeat(folder: Path) -> bool:
    heartbeat = Heartbeat(folder / "a.db")
    writer = heartbeat.read()
    assert writer is None or writer.pid, "a heartbeat is there in part"
    return writer is not None


def make_anchor(folder: Path, _parent: Path) -> None:
    if not found_anchor(folder):
        head = f'{{"world":"w","seq":1,"record":0,"head":"{"0" * 32}","time":""}}\n'
        anchors._append(folder / "anchors", head.encode())  # has no shorter way


def found_anchor(folder: Path) -> bool:
    path = folder / "anchors"
    return path.exists() and len(anchors._all_anchors(path)) == 1  # as above


def make_starter(folder: Path, _parent: Path) -> None:
    names = ("README.md", "tests/test_x.py")
    new._write(folder / "x", {folder / "x" / name: TASTE for name in names})


def found_starter(folder: Path) -> bool:
    there = [path for path in (folder / "x").rglob("*") if path.is_file() and path.suffix]
    texts = [path.read_text() for path in there if not path.name.startswith(".placet-")]
    assert set(texts) <= {TASTE}
    return len(texts) == 2


def make_world(folder: Path, _parent: Path) -> None:
    if not (folder / "w" / "extra.db").exists():
        asyncio.run(_create_world(folder))


async def _create_world(folder: Path) -> None:
    config = OrchestratorConfig(store=f"sqlite:///{folder / 'w.db'}")
    worlds = Worlds(Orchestrator(World(), config), ServeConfig())
    worlds.make = lambda _name: [World()]
    await worlds.open()
    assert not worlds.unopened

    async def prepare(world: Orchestrator) -> None:
        await world.register_agent("alice", position=[0, 0])

    try:
        await worlds.create("extra", prepare=prepare)
    finally:
        await worlds.close()


def found_world(folder: Path) -> bool:
    path = folder / "w" / "extra.db"
    if not path.exists():
        return False
    assert list(recover(log_at(path)).past.ledger.agents) == ["alice"]
    return True


CREATORS: Final = {
    "log": Creator(make_log, found_log),
    "snapshot": Creator(make_snapshot, lambda folder: found_in(SnapshotFiles(folder / "s"))),
    "ledger": Creator(
        lambda folder, _: cast("None", LedgerFrames(folder / "l", None).write(a_snapshot())),
        lambda folder: found_in(LedgerFrames(folder / "l", None)),
    ),
    "frame": Creator(make_frame, found_frame),
    "pack": Creator(make_pack, found_pack),
    "fork": Creator(make_fork, lambda folder: found_sound(folder / "f.db")),
    "salvage": Creator(make_salvage, found_salvage),
    "export": Creator(make_export("e"), found_folder),
    "export to a file": Creator(make_export("e.csv"), found_csv),
    "collected": Creator(make_collected, found_collected),
    "study": Creator(make_study, found_study),
    "page": Creator(make_page, found_text("p.html")),
    "results": Creator(make_results, found_results),
    "price": Creator(make_price, found_price),
    "heartbeat": Creator(make_heartbeat, found_heartbeat),
    "anchor": Creator(make_anchor, found_anchor),
    "starter": Creator(make_starter, found_starter),
    "world": Creator(make_world, found_world),
}


def make_in_place(folder: Path, _parent: Path) -> None:
    """Make a file as no code of placet may: the control."""
    with (folder / "p.html").open("w") as file:
        for start in range(0, len(TASTE), 2_000):
            file.write(TASTE[start : start + 2_000])
            file.flush()


BROKEN: Final = Creator(make_in_place, found_text("p.html"))


def killed_creations(report: Report, name: str, folder: str, kills_max: int) -> None:
    """Kill creations, each before another change of a file; report the faults.

    Args:
        report: The parent's.
        name: Name of the creator; empty for the one that is wrong.
        folder: An empty folder.
        kills_max: Kill before every change, or before every n-th if that is more.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # these children are waited for
    creator, parent, work = CREATORS.get(name, BROKEN), Path(folder, "parent"), Path(folder, "work")
    parent.mkdir()
    prepare(parent)
    work.mkdir()
    changes = changes_of(lambda: creator.make(work, parent))
    for call in range(1, changes + 1, 1 + changes // kills_max):
        rmtree(work)
        work.mkdir()
        is_over = is_over_before(call, lambda: creator.make(work, parent))
        if fault := _fault_after(creator, work, parent, is_over=is_over):
            left = sorted(str(path.relative_to(work)) for path in work.rglob("*"))
            report.send("fault", call=call, fault=fault, left=left)
    report.send("done", changes=changes)


def _fault_after(creator: Creator, work: Path, parent: Path, *, is_over: bool) -> str:
    """Return what is wrong after a kill, or after a whole creation; empty for nothing."""
    try:
        is_there = creator.found(work)
        assert is_there or not is_over, "it was made, and is not there"
        creator.make(work, parent)
        assert creator.found(work), "it was made again, and is not there"
        names = (path for path in work.rglob("*") if path.is_file() and ".placet-" not in str(path))
        shared = [path.name for path in names if path.stat().st_mode & 0o077]
        assert not shared, f"others may read {shared}"
    except Exception as error:  # noqa: BLE001  # each is a finding of the test
        return f"{type(error).__name__}: {error}"
    return ""
