"""`placet log`, `replay`, `verify` and `kinds`, and their shared options."""

import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from placet.domains.world import World
from placet.history.reader import check_integrity, config_of, fold
from placet.history.selection import Selection, require_named, selected_records
from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.replay import Divergence
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.log.record import LogAppend, agents_of
from placet.schemas.printable import printable
from placet.stores.memory import MemoryEventLog
from placet.stores.url import file_of, open_event_log
from tests.cli.command_line import as_lines, move, run_process
from tests.cli.test_verify import stored
from tests.kernel.builders import kernel_of
from tests.kernel.domains import Nursery


def memory_log(config=None):
    """A log of two agents, a batch of two, a refusal and a tick; and its kernel."""
    log = MemoryEventLog()
    records: list[bytes] = []
    epoch = log.open()
    kernel = Kernel(World(bounds=[[0, 0], [9, 9]]), config or KernelConfig(), sink=records.append)
    kernel.register_agent("ann", position=[0, 0])
    kernel.register_agent("bob", position=[0, 0])
    kernel.decide([move(number=0), move(number=1, to=(2.0, 2.0, 0.0))], 1.0)
    kernel.decide([move("bob", to=(10.0, 0.0, 0.0))], 1.5)
    kernel.tick(2.0)
    log.append(LogAppend(0, 0, kernel.seq, tuple(records)), epoch)
    return log, kernel


def test_an_agent_that_a_rule_registered_is_selected_by_its_name():
    """It has no intent; its birth and its death are of ticks."""
    records: list[bytes] = []
    kernel = kernel_of([Nursery()], sink=records)
    for _ in range(5):
        kernel.step(1.0)
    log = MemoryEventLog()
    log.append(LogAppend(0, 0, kernel.seq, tuple(records)), log.open())
    selection = Selection(agents=frozenset({"dora"}))
    require_named(log, selection)
    selected = [record for _, record in selected_records(log, selection)]
    assert [agents_of(record)[0].is_removed for record in selected] == [False, True] * 2
    with pytest.raises(PlacetError, match="did you mean 'dora'"):
        require_named(log, Selection(agents=frozenset({"dorra"})))


# log


def test_log_prints_a_line_for_each_record(town):
    outcome = town("log", "town.db")
    head, *lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert head.split() == ["record", "seq", "time", "what"]
    assert "header" in lines[0]
    assert "world 'town', seed 1, domains world 2" in lines[0]
    assert "registered" in lines[2]
    assert any("Move {" in line for line in lines)
    assert lines[-1].split()[4] in {"tick", "checkpoint"}


def test_log_prints_all_records_as_one_json_array(town):
    events = town("log", "town.db", "--json").json()
    records = [event["record"] for event in events]  # the batches of a group share a record
    assert records == sorted(records)
    assert sorted(set(records)) == list(range(records[-1] + 1))
    assert len(records) > 2 * records[-1]
    assert events[0]["type"] == "header"
    assert events[-1]["seq"] == town.report["seq"]


def test_log_range_includes_its_ends(town):
    events = town("log", "town.db", "--from", "3", "--to", "5", "--json").json()
    assert [event["seq"] for event in events] == [3, 4, 5]
    assert town("log", "town.db", "--from", "99999", "--json").json() == []


def test_batch_is_in_a_range_if_any_of_its_intents_is():
    log, _ = memory_log()
    for seq in (4, 5):
        types = [type(record).__name__ for _, record in selected_records(log, Selection(seq, seq))]
        assert types[0] == "Admitted"
    assert [r.seq for _, r in selected_records(log, Selection(6))] == [6]
    assert [type(r).__name__ for _, r in selected_records(log, Selection(5))] == [
        "Admitted",
        "Refused",
        "Tick",
    ]


def test_every_type_of_record_has_a_line(placet):
    from placet.cli.commands.log import _summary
    from placet.kernel import Domain, Kind
    from placet.schemas.effect import Settlement
    from placet.schemas.log.record import Checkpoint, decode_record

    class Mailer(Domain):
        name, version = "mailer", "1"
        kinds = (
            Kind(
                "Mail", dict[str, int], lambda draft, _: draft.emit("mail", {}), effects=("mail",)
            ),
        )

    records: list[bytes] = []
    config = KernelConfig(
        quotas={"Mail": {"rate": 0.5, "burst": 3}, "*": {"rate": 10, "burst": 9}},
        world_quota={"rate": 4, "burst": 8},
    )
    kernel = Kernel(Mailer(), config, sink=records.append)
    kernel.register_agent("ann")
    kernel.change_executor("mail", 3)
    kernel.decide([move(kind="Mail", payload={})], 1.0)
    kernel.decide({"intents": [move(kind="Mail", payload={}, number=1)], "sim_time": 9.0}, 1.0)
    kernel.settle(Settlement(kernel.open_effects()[0].key, succeeded=True, output="sent"))
    kernel.change_executor("mail", None)
    kernel.decide([move(kind="Mail", payload={}, number=2)], 2.0)
    kernel.change_agent("ann", "suspended")
    kernel.set_agent_permissions("ann", None)
    kernel.set_agent_permissions("ann", {"Mail"})
    kernel.tick(3.0)
    lines = [_summary(decode_record(data)) for data in records]
    assert lines[1] == (
        "quotas all kinds 10/s (burst 9), Mail 0.5/s (burst 3), all agents together 4/s (burst 8)"
    )
    assert lines[3] == "effects of mail: an executor, at most 3 open"
    assert lines[4] == "b1 ann: ann:0 Mail {}"
    assert lines[5] == "b2 ann: ann:1 Mail {} - due at 9 s"
    assert lines[6] == 'effect 4.0 succeeded: "sent"'
    assert lines[7] == "effects of mail: no executor"
    assert lines[8].startswith("b3 ann: ann:2 Mail {} - domain/tool_unregistered: ")
    assert lines[9:12] == ["ann suspended", "ann may propose all kinds", "ann may propose Mail"]
    assert lines[12] == "0 entities changed"
    checkpoint = Checkpoint(prev=b"", seq=1, now_ns=0, state_digest=b"\x01")
    assert _summary(checkpoint) == "state digest 01"


def test_refused_batch_has_no_seq_in_the_log_and_is_explained_by_its_req_id(placet):
    records: list[bytes] = []
    kernel = Kernel(World(bounds=[[0, 0], [9, 9]]), sink=records.append)
    kernel.register_agent("ann", position=[0, 0])
    kernel.decide([move(to=(20.0, 0.0, 0.0))], 1.0)
    stored(placet.folder / "a.db", records)
    line = placet("log", "a.db").out.splitlines()[-1].split()
    assert line[1:5] == ["-", "1.000", "s", "refused"]
    assert "refused by domain" in placet("explain", "a.db", "ann", line[7]).out
    assert "registered at seq 2" in placet("explain", "a.db", "--seq", str(kernel.seq)).out


def test_control_characters_are_escaped():
    assert printable("good day, é 猫") == "good day, é 猫"
    assert printable("\x1b[2J\u202e") == "\\x1b[2J\\u202e"


def test_log_lines_are_truncated_to_the_width_of_a_terminal(town, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PAGER", "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = town("log", "town.db").out.splitlines()
    assert max(map(len, lines)) == 60
    monkeypatch.setenv("COLUMNS", "90")
    refused = town("log", "town.db", "--refused").out.splitlines()[1]
    assert " Interact - domain/world." in refused, "without the payload, up to the reason"


# replay


def test_replay_prints_seq_and_digest_without_the_state(town):
    outcome = town("replay", "town.db", "--json")
    assert outcome.json() == {"seq": town.report["seq"], "digest": town.report["digest"]}


def test_replay_to_the_middle_of_a_batch_omits_the_batch():
    log, kernel = memory_log()
    assert fold(log, 4).ledger.seq == 3
    assert fold(log, 5).ledger.seq == 5
    assert fold(log).state.digest().hex() == kernel.digest()


@pytest.mark.parametrize(
    ("path", "depth"),
    [("", 0), ("/", 0), ("world.agents", 1), ("world.agents/folk_1", 2), ("/world.agents/", 1)],
)
def test_replay_shows_the_state_at_a_path(town, path, depth):
    state = town("replay", "town.db", "--path", path, "--json").json()["state"]
    for step in ("world.agents", "folk_1")[depth:]:
        state = state[step]
    assert state.keys() == {"inventory", "position", "team"}
    field = town("replay", "town.db", "--path", "world.agents/folk_1/position", "--json").json()
    assert field["state"] == state["position"]


def test_replay_as_text_has_the_same_values(town):
    out = town("replay", "town.db", "--path", "world.agents/folk_1/team").out
    assert town.report["digest"] in out
    assert out.endswith("state   world.agents/folk_1/team\n  null\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--path", "nix"], "expected a collection; there are world.agents, world.objects"),
        (["--path", "world.agents/zoe"], "expected an entity of world.agents; there are child_1"),
        (["--path", "world.agents/folk_1/hat"], "expected a field of world.agents/folk_1"),
        (["--to", "99999"], "ends at seq"),
    ],
)
def test_replay_of_a_missing_store_or_path_is_an_error(town, arguments, said):
    outcome = town("replay", "town.db", *arguments, "--json")
    assert (outcome.code, outcome.out) == (1, "")
    assert said in outcome.err


# verify


def test_verify_reports_the_end_of_the_log(town):
    assert town("verify", "town.db", "--replay-only", "--json").json() == {
        "ok": True,
        "records": town("log", "town.db", "--json").json()[-1]["record"] + 1,
        "seq": town.report["seq"],
        "digest": town.report["digest"],
        "head": town.report["head"],
    }
    assert town.report["digest"] in town("verify", "town.db").out


def damage(path):
    """Flip a bit in the middle of the records, and make the row's checksum agree."""
    from placet.stores import rows as log_rows

    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM groups ORDER BY first_record").fetchall()
        *head, _, blob = rows[len(rows) // 2]
        at = len(blob) // 2
        blob = blob[:at] + bytes((blob[at] ^ 1,)) + blob[at + 1 :]
        checksum = log_rows._checksum(head, blob)
        connection.execute(
            "UPDATE groups SET crc32 = ?, blob = ? WHERE first_record = ?",
            (checksum, blob, head[0]),
        )
    connection.close()


def test_verify_names_the_first_divergent_record(town):
    damage(town.folder / "town.db")
    outcome = town("verify", "town.db", "--json")
    report = outcome.json()
    assert (outcome.code, report["ok"]) == (1, False)
    assert report["first_divergence"]["record"] == report["records"]
    assert report["first_divergence"]["why"]
    assert "is NOT valid from record" in town("verify", "town.db").out


def test_verify_of_a_torn_file_reports_the_last_valid_record(town):
    with sqlite3.connect(town.folder / "town.db") as connection:
        connection.execute("UPDATE groups SET blob = x'00' WHERE first_record > 3")
    connection.close()
    report = town("verify", "town.db", "--json").json()
    assert (report["ok"], report["records"] > 0) == (False, True)
    assert "checksum" in report["first_divergence"]["why"]
    outcome = town("log", "town.db", "--json")
    assert outcome.code == 1
    assert len(json.loads(outcome.out)) == report["records"]
    assert "checksum" in outcome.err


def test_record_of_an_unknown_format_is_a_divergence():
    log, _ = memory_log()
    log.append(LogAppend(log.count(), 6, 6, (b"junk",)), 1)
    verification = check_integrity(log)
    assert not verification.is_ok
    assert verification.as_dict()["first_divergence"]["record"] == log.count() - 1
    with pytest.raises(Divergence, match="no record of a known format"):
        list(selected_records(log, Selection()))


def test_empty_log_is_valid():
    log = MemoryEventLog()
    log.open()
    assert check_integrity(log).as_dict() == {
        "ok": True,
        "records": 0,
        "seq": 0,
        "digest": "0" * 32,
        "head": "0" * 32,
    }
    assert config_of(log) is None


# all readers


@pytest.mark.parametrize("command", ["log", "replay", "verify"])
@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("missing.db", "there is no file"),
        ("missing", "there is no file"),
        (".", "it is a directory"),
        ("notes.txt", "not a SQLite database"),
        ("other.db", "a SQLite database of another program"),
        ("memory://", "a log in memory ends with its process"),
        ("postgresql://127.0.0.1:1/x", "cannot be reached"),
    ],
)
def test_file_that_is_not_a_log_is_a_one_line_error(placet, command, store, said):
    (placet.folder / "notes.txt").write_text("not a log, and long enough to be a header " * 30)
    with sqlite3.connect(placet.folder / "other.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    for more in ([], ["--json"]):
        outcome = placet(command, store, *more)
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.count("\n") == 1
        assert said in outcome.err


def test_readers_change_neither_the_fence_nor_the_file(town):
    log = open_event_log("town.db")
    epoch = log.open()
    names = sorted(path.name for path in town.folder.iterdir())
    for command in ("log", "replay", "verify"):
        assert town(command, "town.db").code == 0
    kernel = Kernel(World(), config_of(log), history=(data for _, data in log.read()), sink=print)
    assert sorted(path.name for path in town.folder.iterdir()) == names
    seq, count = kernel.history_end
    log.append(LogAppend(count, seq, seq, (b"still the writer",)), epoch)
    log.close()


def test_configuration_round_trips_through_the_log():
    quotas: dict[str, dict[str, float]] = {
        "Move": {"rate": 3, "burst": 2},
        "*": {"rate": 1e9, "burst": 1},
    }
    config = KernelConfig(
        world="w",
        seed=5,
        staleness_threshold=7,
        quotas=quotas,
        world_quota={"rate": 7, "burst": 9},
        default_permissions=frozenset({"Move"}),
    )
    log, kernel = memory_log(config)
    again: list[bytes] = []
    reopened = Kernel(
        World(bounds=[[0, 0], [9, 9]]),
        config_of(log),
        sink=again.append,
        history=(data for _, data in log.read()),
    )
    assert again == []  # the same policy needs no record that changes it
    assert reopened.world_digest() == kernel.world_digest()


def test_header_alone_is_enough_to_continue():
    whole, _ = memory_log(KernelConfig(world="w", seed=5))
    log = MemoryEventLog()
    log.append(LogAppend(0, 0, 0, (next(whole.read())[1],)), log.open())
    assert config_of(log) == KernelConfig(world="w", seed=5)


def test_file_of_a_log_is_at_its_url():
    assert str(file_of(open_event_log("sqlite:///a%20b.db?synchronous=off"))) == "a b.db"
    assert file_of(open_event_log("memory://")) is None


def test_fold_beyond_the_end_is_an_error():
    log, _ = memory_log()
    with pytest.raises(StoreError, match="it ends at seq 6"):
        fold(log, 7)


# kinds


def test_kinds_shows_the_registry(placet):
    report = placet("kinds", "--json").json()
    (world,) = (domain for domain in report["domains"] if domain["name"] == "world")
    assert world["kinds"].keys() == {"Move", "Speak", "Interact", "Custom"}
    assert world["kinds"]["Speak"]["payload"]["type"] == "object"
    assert report["limits"]["batch_intents_max"] == 512
    out = placet("kinds").out
    for said in ("Move - Go to a place.", "'public' | 'team' | 'private'", "batch_bytes_max"):
        assert said in out


def test_kinds_shows_a_custom_domain(placet):
    (placet.folder / "pots.py").write_text(
        "from typing import Literal\n"
        "from pydantic import BaseModel\n"
        "from placet.kernel import Domain, Kind\n"
        "class Lid(BaseModel):\n    size: int\n"
        "class Fill(BaseModel):\n    lid: Lid\n    with_: Literal['tea'] = 'tea'\n"
        "    any: object = 1\n    many: list = []\n"
        "class Pots(Domain):\n"
        "    name, version = 'pots', '3'\n"
        "    kinds = (Kind('Fill', Fill, lambda draft, intent: None),)\n"
        "def broken():\n    raise ValueError('no clay')\n"
    )
    out = placet("kinds", "--domain", "pots:Pots").out
    assert out.startswith("domain pots 3\n\n  Fill\n      lid")
    assert "'tea', optional" in out
    assert "anything, optional" in out
    assert "array of anything" in out
    for spec, said in (
        ("pots:broken", "cannot be made without settings: no clay"),
        ("pots:Lid", "cannot be made without settings"),
        ("pots:nix", "no class 'nix'"),
        ("wrld", "did you mean 'world'?"),
        ("builtins:str", "makes no domain"),
    ):
        outcome = placet("kinds", "--domain", spec)
        assert outcome.code == 1
        assert said in outcome.err


def test_module_that_raises_on_import_is_a_one_line_error(placet):
    (placet.folder / "bad.py").write_text("1 / 0\n")
    outcome = placet("kinds", "--domain", "bad:Bad")
    assert outcome.code == 1
    assert "bad raised ZeroDivisionError" in outcome.err


# the command itself


def test_missing_subcommand_shows_the_help(placet):
    outcome = placet()
    assert outcome.code == 2
    assert "placet run town" in outcome.out
    for command in ("run", "gate", "log", "replay", "verify", "kinds"):
        assert f"\n  {command} " in outcome.out


def test_version_is_printed(placet, monkeypatch):
    from importlib.metadata import PackageNotFoundError

    assert placet("--version").out.startswith("placet ")

    def version(_):
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.version", version)
    assert placet("--version").out == "placet (source tree, not installed)\n"


def test_unknown_command_suggests_the_nearest(placet):
    outcome = placet("rnu")
    assert outcome.code == 2
    assert "'run'" in outcome.err


def test_interrupt_ends_quietly(placet, monkeypatch):
    from placet.cli.commands import verify as command

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "read_log", interrupted)
    outcome = placet("verify", "town.db")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "")


@pytest.mark.slow
def test_python_dash_m_runs_the_command(tmp_path):
    outcome = run_process("--version", folder=tmp_path)
    assert (outcome.code, outcome.out[:7]) == (0, "placet ")


@pytest.mark.slow
def test_full_disk_and_closed_stdout_print_no_traceback(tmp_path):
    import subprocess

    from tests.cli.command_line import PLACET

    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PLACET, "kinds"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "placet: cannot write the output to stdout: No space left on device; "
        "redirect it elsewhere\n"
    )
    shell = ["sh", "-c", f"{' '.join(PLACET)} kinds >&-"]
    done = subprocess.run(shell, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_help_loads_neither_rich_nor_structlog(tmp_path):
    import subprocess

    listing = (
        "import sys; from placet.cli import main; sys.argv = ['placet', '--help']; main();"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    assert {"rich", "structlog"} & set(done.stderr.split()) == set()


@pytest.mark.slow
def test_unencodable_output_is_escaped(tmp_path):
    """Agents are named in any language, files by any bytes, and a pipe has any encoding."""
    file, pack = os.fsdecode(b"\xff.db"), os.fsdecode(b"\xfe.pack")
    given = as_lines({"register": "\u65e5\u672c", "position": [0, 0]})
    assert run_process("gate", "--store", file, folder=tmp_path, stdin=given).code == 0
    told = run_process("log", file, folder=tmp_path, PYTHONIOENCODING="latin-1")
    assert (told.code, told.err) == (0, "")
    assert "registered \\u65e5\\u672c" in told.out
    for more in ([], ["--json"]):
        told = run_process("pack", file, pack, *more, folder=tmp_path, PYTHONIOENCODING="utf-8")
        assert (told.code, told.err) == (0, "")
        assert "udcfe.pack" in told.out
        (tmp_path / pack).unlink()
    asked = run_process("explain", file, "a", os.fsdecode(b"\xff"), folder=tmp_path)
    assert asked.code == 2
    assert "AGENT and REQ_ID are UTF-8" in asked.err
