"""`placet gate`: any bytes in, one answer for each line out, each durable before it is shown."""

import io
import json
import os
import re
import signal
import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.cli.commands.gate import InputStream, LineSplitter, _converse
from placet.cli.commands.gate_session import GateSession
from placet.cli.signals import StopSignals
from placet.domains.world import World
from placet.history.reader import check_integrity, fold
from placet.kernel import Domain, Kernel, Kind
from placet.runtime.verdict_json import verdict_line
from placet.schemas.codec import to_json
from placet.schemas.errors import StoreError
from placet.schemas.refusal import Notice
from placet.stores.memory import MemoryEventLog
from placet.stores.snapshots.files import SnapshotFiles, snapshots_of
from placet.stores.snapshots.writer import take_snapshot
from placet.stores.sqlite.log import SqliteEventLog
from placet.stores.url import open_event_log
from tests.cli.command_line import Process, as_lines, move, run_process

ANN = {"register": "ann", "position": [0, 0]}


@pytest.fixture
def session():
    return GateSession(World())


def ask(session, value):
    """Answer one line, given as a value."""
    return json.loads(session.answer(json.dumps(value).encode()))


def test_a_line_may_leave_out_priority_context_and_version(session):
    ask(session, ANN)
    line = {"kind": "Move", "payload": {"to": [1, 0]}, "agent_id": "ann", "req_id": "r"}
    assert ask(session, line)["admitted"]
    del line["agent_id"]
    (refusal,) = ask(session, line)["refusals"]
    assert refusal["details"]["missing"] == ["agent_id"]


def test_an_unknown_minor_version_is_logged_once(session, capsys):
    ask(session, ANN)
    for number, version in enumerate(("1.7.0", "1.7.0", "1.0.0", "1.8.0")):
        line = {**move(number=number, to=(1, 0)), "schema_version": version}
        assert ask(session, line)["admitted"]
    logged = capsys.readouterr().err
    assert logged.count("unknown schema_version") == 2
    assert logged.count("1.7.0") == logged.count("1.8.0") == 1


@pytest.mark.parametrize("given", [b"", b"\n \n"])
def test_without_a_line_a_domain_and_a_log_the_gate_says_what_to_do(tmp_path, given):
    done = run_process("gate", folder=tmp_path, stdin=given)
    assert (done.code, done.out) == (2, "")
    assert "`echo '" in done.err
    assert "placet gate --domain world" in done.err
    assert not [*tmp_path.iterdir()]
    assert run_process("gate", "--domain", "world", folder=tmp_path, stdin=given) == (0, "", "")


# lines


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 200)))
def test_lines_do_not_depend_on_the_chunks_of_the_stream(lines, cuts):
    stream = b"\n".join(lines)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter, split = LineSplitter(8), []
    for start, end in pairwise(bounds):
        split += splitter.feed(stream[start:end])
    split += splitter.end()
    expected = stream.split(b"\n")
    if not expected[-1]:
        expected.pop()
    kept = [line if len(line) <= 8 else None for line in expected]
    if kept and kept[0]:
        kept[0] = kept[0].removeprefix(b"\xef\xbb\xbf")
    assert split == kept


def test_line_beyond_the_limit_is_not_buffered():
    splitter = LineSplitter(10)
    for _ in range(1000):
        assert splitter.feed(b"x" * 10) == []
        assert sum(map(len, splitter._parts)) <= 10
    assert splitter.feed(b"\n1\n") == [None, b"1"]


def test_byte_order_mark_is_dropped_once_at_the_beginning():
    assert LineSplitter(9).feed(b"\xef\xbb\xbf1\n\xef\xbb\xbf2\n") == [b"1", b"\xef\xbb\xbf2"]
    splitter = LineSplitter(9)
    splitter.feed(b"\xef\xbb")
    splitter.feed(b"\xbf1")
    assert splitter.end() == [b"1"]


# answers


def test_intent_array_and_batch_object_are_batches(session):
    ask(session, ANN)
    for number, batch in enumerate(
        [move(number=0), [move(number=1)], {"intents": [move(number=2)], "dry_run": False}]
    ):
        verdict = ask(session, batch)
        assert (verdict["admitted"], verdict["results"][0]["req_id"]) == (True, f"ann:{number}")


def test_lines_are_decided_in_sequence(session):
    """A registration takes effect at its line, and not for the lines before it."""
    lines = as_lines(move(), ANN, move(), move()).splitlines()
    first, registered, second, again = (json.loads(session.answer(line)) for line in lines)
    assert first["refusals"][0]["code"] == "agent_unknown"
    assert registered == {"registered": "ann", "new": True, "seq": 2}
    assert (second["admitted"], second["replayed"]) == (True, False)
    assert (again["admitted"], again["replayed"]) == (True, True)


def test_verdict_is_encoded_like_its_dict():
    kernel = Kernel(World(bounds=[[0, 0], [9, 9]]))
    kernel.register_agent("ann", position=[0, 0])
    legacy = move(number=5, schema_version="1.9.0", unknown_field=1)
    verdicts = [
        kernel.decide([move(number=0), move(number=1)]),
        kernel.decide([move(number=2, to=(99.0, 0.0, 0.0)), move("bob")]),
        kernel.decide([move(number=3, to=(99.0, 0.0, 0.0))]),
        kernel.decide({"intents": [move(number=4)], "sim_time": 5.0}),
        kernel.decide([legacy]),
        kernel.decide({"intents": [move(number=6)], "dry_run": True}),
    ]
    verdicts[0]._notices = {1: (Notice("a", "b", "/c"),)}
    assert {verdict.admitted for verdict in verdicts} == {True, False}
    for verdict in verdicts:
        assert verdict_line(verdict) == to_json(verdict.as_dict())


@pytest.mark.parametrize(
    "line",
    [
        b"junk",
        b"\xff\xfe",
        b'{"a":',
        b"[" * 100_000,
        b"1 2",
        b"NaN",
        b'"\\ud800"',
        b"1e999",
        b"42",
        b"null",
        b"[]",
        b"{}",
        b'[{"kind":"Move"}]',
        b'{"kind":123456789012345678901234567890}',
        None,
    ],
)
def test_line_that_is_not_a_batch_is_refused_by_structure(session, line):
    verdict = json.loads(session.answer(line))
    assert verdict["admitted"] is False
    assert {refusal["stage"] for refusal in verdict["refusals"]} == {"structure"}
    assert verdict.keys() == Kernel(World()).decide([]).as_dict().keys()


def test_line_that_is_not_json_is_reported_with_its_number_and_the_expected_form(session):
    session.answer(b"1")
    message = json.loads(session.answer(b"junk"))["refusals"][0]["message"]
    assert message.startswith("line 2 must be an intent, an array of intents")


@given(st.binary(max_size=200))
def test_no_line_makes_the_gate_raise(line):
    json.loads(SHARED.answer(line))


SHARED = GateSession(World())


def test_registering_again_changes_only_given_permissions(session):
    ask(session, {**ANN, "permissions": ["Move"]})
    assert ask(session, ANN) == {"registered": "ann", "new": False, "seq": 2}
    speak = {**move(), "kind": "Speak", "payload": {"text": "hello"}}
    assert ask(session, speak)["refusals"][0]["code"] == "permission_denied"
    ask(session, {**ANN, "permissions": ["Speak"]})
    assert ask(session, speak)["admitted"] is True


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"register": 5}, "must be the name of an agent"),
        ({"register": ""}, "agent_id must be"),
        ({"register": "system"}, "agent_id must be"),
        ({"permissions": "Move"}, "'permissions' must be an array of kinds"),
        ({"permissions": [1]}, "'permissions' must be an array of kinds"),
        ({"position": "here"}, "position"),
        ({"hat": 1}, "'hat'"),
        ({"agent_id": "bob"}, "a registration has no 'agent_id'"),
        ({"self": 1}, "a registration has no 'self'"),
        ({"quotas": 3}, "'quotas' must be an object"),
        ({"quotas": {"Move": 3}}, "'quotas' must be an object"),
        ({"quotas": {"Move": {"rate": -1, "burst": 1}}}, "rate must be > 0"),
        ({"owner": 3}, "owner"),
        ({"priority_max": "high"}, "priority_max"),
    ],
)
def test_invalid_registration_is_an_error_on_its_line(session, more, said):
    answer = ask(session, {"register": "ann", **more})
    assert answer.keys() == {"registered", "error"}
    assert answer["registered"] is None
    assert answer["error"].startswith("line 1: ")
    assert said in answer["error"]
    assert ask(session, ANN)["new"] is True


def fail(draft, intent):
    raise ZeroDivisionError


class Raising(Domain):
    """A domain of the user's, with a fault."""

    name, version = "raising", "1"
    kinds = (Kind("Move", dict[str, object], fail),)

    def on_register(self, draft, agent_id, attributes):
        if attributes:
            raise RuntimeError("no place")


def test_fault_of_a_domain_is_reported_and_the_gate_continues(capsys):
    session = GateSession(Raising())
    assert "on_register of raising raised RuntimeError: no place" in ask(session, ANN)["error"]
    ask(session, {"register": "ann"})
    assert ask(session, move())["refusals"][0]["code"] == "rule_error"
    assert "ZeroDivisionError" in capsys.readouterr().err


# durability


class Watched(MemoryEventLog):
    """A log that fails on demand and keeps the appended records."""

    def __init__(self):
        super().__init__()
        self.appended, self.is_full = 0, False

    def append(self, group, epoch):
        if self.is_full:
            raise StoreError("the disk is full")
        super().append(group, epoch)
        self.appended = self.count()


class Peer(io.BytesIO):
    """Reads the gate's output and compares each line with the durable records."""

    def __init__(self, log):
        super().__init__()
        self.log, self.answers, self.writes = log, [], 0

    def write(self, data):
        self.writes += 1
        for line in data.splitlines():
            answer = json.loads(line)
            self.answers.append(answer)
            if answer.get("admitted") or answer.get("new"):
                assert answer["seq"] <= fold(self.log).ledger.seq
                assert self.log.appended == self.log.count()
        return len(data)


def converse(session, data, peer):
    """Send data to a gate session through a pipe, until its end."""
    reading, writing = os.pipe()

    def write():
        os.write(writing, data)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        _converse(session, InputStream(reading, StopSignals()), peer)
    finally:
        writer.join()
        os.close(reading)


def test_no_answer_is_printed_before_it_is_durable():
    log = Watched()
    peer = Peer(log)
    converse(GateSession(World(), log), as_lines(ANN, *[move(number=n) for n in range(50)]), peer)
    assert [answer.get("seq") for answer in peer.answers] == list(range(2, 53))
    assert peer.answers[-1]["durability"] == "memory"
    assert check_integrity(log).seq == 52


def test_an_answer_without_a_record_does_not_claim_durability():
    session = GateSession(World(), MemoryEventLog())
    ask(session, ANN)
    assert ask(session, move(number=1))["durability"] == "memory"
    stranger = ask(session, {**move(number=2), "agent_id": "nobody"})
    assert (stranger["refusals"][0]["code"], stranger["durability"]) == ("agent_unknown", "none")


def test_flood_of_short_lines_is_answered_in_parts(monkeypatch):
    monkeypatch.setattr("placet.cli.commands.gate._SHOWN_BYTES_MAX", 10)
    log = Watched()
    peer = Peer(log)
    converse(GateSession(World(), log), as_lines(ANN, *[move(number=n) for n in range(9)]), peer)
    assert (peer.writes, len(peer.answers)) == (10, 10)


def test_failed_write_prints_no_answer_and_stops():
    log = Watched()
    session, peer = GateSession(World(), log), Peer(log)
    log.is_full = True
    with pytest.raises(StoreError, match="disk is full"):
        converse(session, as_lines(ANN), peer)
    assert peer.answers == []


def test_gate_without_a_store_prints_that_nothing_is_kept(session):
    ask(session, ANN)
    assert ask(session, move())["durability"] == "none"


def test_store_is_continued_with_its_own_configuration(tmp_path):
    path = tmp_path / "town.db"
    first = SqliteEventLog(path)
    session = GateSession(World(), first)
    ask(session, ANN)
    before = ask(session, move())
    session.commit()
    first.close()
    second = SqliteEventLog(path)
    session = GateSession(World(), second)
    assert ask(session, ANN) == {"registered": "ann", "new": False, "seq": 3}
    again = ask(session, move())
    assert (again["replayed"], again["seq"]) == (True, before["seq"])
    assert ask(session, move(number=1))["batch_id"] != before["batch_id"]
    session.commit()
    second.close()
    assert check_integrity(open_event_log(str(path))).seq == 4


def test_store_is_continued_with_its_own_domain_and_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    strict = SqliteEventLog("town.db")
    session = GateSession(World(max_step=1.0), strict)
    ask(session, ANN)
    session.commit()
    strict.close()
    far = as_lines(move(to=(9.0, 9.0, 0.0)))
    for more in ((), ("--domain", "world")):
        outcome = run_process("gate", "--store", "town.db", *more, folder=tmp_path, stdin=far)
        assert outcome.json()["refusals"][0]["code"] == "world.step_too_long"
        assert outcome.err == ""


def test_store_is_continued_from_its_snapshot(tmp_path, capsys):
    first = SqliteEventLog(tmp_path / "g.db")
    session = GateSession(World(), first)
    ask(session, ANN)
    session.commit()
    first.close()
    files = snapshots_of(first)
    assert isinstance(files, SnapshotFiles)
    take_snapshot(first, files)
    take_snapshot(first, files)
    (files.folder / "000000000001-000000000000.snapshot").write_bytes(b"damaged")
    (files.folder / "000000000999-000000000999.snapshot").write_bytes(b"damaged")
    again = SqliteEventLog(tmp_path / "g.db")
    session = GateSession(World(), again)
    assert ask(session, move())["admitted"]
    session.commit()
    again.close()
    said = capsys.readouterr()
    assert "000000000999-000000000999.snapshot in" in said.err + said.out
    assert "is not used" in said.err + said.out


# time


class Machine:
    """A clock that the test moves."""

    now_ns = 0

    def __call__(self):
        return self.now_ns


def test_scheduled_batch_is_decided_when_it_is_due():
    machine, log = Machine(), MemoryEventLog()
    session = GateSession(World(), log, monotonic_ns=machine)
    assert session.seconds_until_due() is None
    ask(session, ANN)
    later = ask(session, {"intents": [move(to=(7.0, 0.0, 0.0))], "sim_time": 5.0})
    assert (later["admitted"], later["scheduled"]) == (True, True)
    assert session.seconds_until_due() == 5.0
    machine.now_ns = 5_000_000_000
    assert session.seconds_until_due() == 0
    session.decide_due()
    session.commit()
    assert fold(log).state.get("world.agents", "ann", "position") == (7.0, 0.0, 0.0)
    assert session.seconds_until_due() is None


def test_batches_due_between_lines_do_not_replace_their_answers():
    machine = Machine()
    session = GateSession(World(), monotonic_ns=machine)
    ask(session, ANN)
    ask(session, {"intents": [move(number=0)], "sim_time": 5.0})
    machine.now_ns = 5_000_000_000
    assert ask(session, move(number=1))["results"][0]["req_id"] == "ann:1"


class Patient(InputStream):
    """A stream that has nothing to read until a batch is due, and then ends."""

    def __init__(self, session, first):
        super().__init__(0, StopSignals())
        self.session, self.chunks = session, [first, None, b""]

    def read(self, seconds_max):
        if self.chunks[0] is None:
            self.session._clock = Later()
        return self.chunks.pop(0)


class Later:
    def now_ns(self):
        return 10**12


def test_gate_waiting_for_input_decides_due_batches():
    log = Watched()
    session = GateSession(World(), log)
    lines = as_lines(ANN, {"intents": [move(to=(7.0, 0.0, 0.0))], "sim_time": 900.0})
    _converse(session, Patient(session, lines), Peer(log))
    assert fold(log).state.get("world.agents", "ann", "position") == (7.0, 0.0, 0.0)


def test_nothing_is_read_after_a_signal():
    stop = StopSignals()
    stop.number = signal.SIGTERM
    stream = InputStream(0, stop)
    assert stream.read(None) is None
    assert (stream.is_stopped, stop.exit_code) == (True, 143)


def test_a_hint_is_shown_at_a_terminal(placet, monkeypatch, tmp_path):
    (tmp_path / "typed").write_bytes(as_lines(ANN))
    with (tmp_path / "typed").open() as typed:
        monkeypatch.setattr("sys.stdin", typed)
        monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
        outcome = placet("gate")
    assert outcome.code == 0
    assert outcome.err == "placet gate: type JSON lines; Ctrl-D ends the input\n"


# the process


@pytest.mark.slow
def test_any_file_is_answered_line_by_line(tmp_path):
    good = json.dumps(move()).encode()
    register = json.dumps(ANN).encode()
    stdin = (
        b"\xef\xbb\xbf"
        + register
        + b"\r\n\n   \r\njunk\n"
        + b'"'
        + b"x" * 5_000_000
        + b'"\n'
        + good
    )
    outcome = run_process("gate", "--store", "g.db", folder=tmp_path, stdin=stdin)
    registered, junk, huge, moved = (json.loads(line) for line in outcome.out.splitlines())
    assert (outcome.code, outcome.err) == (0, "")
    assert registered["registered"] == "ann"
    assert junk["refusals"][0]["code"] == "field_invalid"
    assert huge["refusals"][0]["code"] == "batch_too_large"
    assert (moved["admitted"], moved["durability"]) == (True, "full")
    assert check_integrity(open_event_log(str(tmp_path / "g.db"))).seq == moved["seq"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_peer_is_answered_after_each_line_and_a_signal_ends_the_gate(tmp_path, number, code):
    answers = []
    with Process("gate", "--store", "g.db", folder=tmp_path) as running:
        for value in (ANN, move(number=0), move(number=1)):
            running.tell(value)
            answers.append(json.loads(running.out.readline()))  # or this test never ends
        running.send_signal(number)
        outcome = running.end()
    assert (outcome.code, outcome.err) == (code, "")
    assert check_integrity(open_event_log(str(tmp_path / "g.db"))).seq == answers[-1]["seq"]
    assert [path.name for path in tmp_path.iterdir()] == ["g.db"]


@pytest.mark.slow
def test_closed_reader_ends_the_gate_quietly(tmp_path):
    with Process("gate", folder=tmp_path) as running:
        running.out.close()
        running.tell(ANN)
        running.stdin.close()
        assert running.err.read() == b""
        assert running.wait() == 1


@pytest.mark.slow
def test_same_file_gives_the_same_world_on_any_hash_seed(tmp_path):
    lines = [ANN, {"register": "bob", "position": [1, 1]}]
    for number in range(50):
        lines += [move(number=number), move("bob", number)]
    for name, hash_seed in (("a.db", "0"), ("b.db", "1")):
        arguments = ("gate", "--store", name)
        run_process(*arguments, folder=tmp_path, stdin=as_lines(*lines), PYTHONHASHSEED=hash_seed)
    digests = {
        check_integrity(open_event_log(str(tmp_path / name))).digest for name in ("a.db", "b.db")
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--domain", "wrold"], "did you mean 'world'?"),
        (["--domain", "world", "--set", "quotas={Moev={rate=1,burst=1}}"], "did you mean 'Move'?"),
        (["--store", "ftp://x"], "there is no store 'ftp'"),
        (["--store", "nowhere/x.db"], "there is no directory"),
    ],
)
def test_gate_that_cannot_open_prints_one_line(placet, arguments, said):
    outcome = placet("gate", *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1
    assert said in outcome.err


def test_gate_without_stdin_is_an_error(placet, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    outcome = placet("gate")
    assert outcome.code == 1
    assert "no standard input" in outcome.err


def test_log_of_other_domains_is_not_continued(placet):
    (placet.folder / "faulty.py").write_text("from tests.cli.test_gate import Raising as Faulty\n")
    outcome = run_process("gate", "--store", "g.db", folder=placet.folder, stdin=as_lines(ANN))
    assert outcome.code == 0
    outcome = placet("gate", "--domain", "faulty:Faulty", "--store", "g.db")
    assert outcome.code == 1
    assert "domains" in outcome.err
    assert [p.name for p in placet.folder.iterdir() if p.suffix.startswith(".db")] == ["g.db"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [("gate",), ("serve", "--port", "0")], ids=["gate", "serve"])
def test_a_log_that_a_gate_writes_is_refused_to_another_command(tmp_path, command):
    with Process("gate", "--store", "a.db", folder=tmp_path) as first:
        first.tell({"register": "ann"})
        assert first.out.readline()
        refused = run_process(*command, "--store", "a.db", folder=tmp_path)
        assert refused.code == 1
        assert re.search(r"process \d+ at .* writes it, since 20", refused.err)
        assert "--take-over" in refused.err
        assert "Traceback" not in refused.err
        first.tell({"register": "ben"})
        assert b'"registered":"ben"' in first.out.readline()
        assert first.end().code == 0


@pytest.mark.slow
def test_a_gate_that_takes_over_fences_the_one_before(tmp_path):
    with Process("gate", "--store", "a.db", folder=tmp_path) as first:
        first.tell({"register": "ann"})
        assert first.out.readline()
        line = as_lines({"register": "ben"})
        second = run_process("gate", "--store", "a.db", "--take-over", folder=tmp_path, stdin=line)
        assert (second.code, second.err) == (0, "")
        first.tell({"register": "cid"})
        fenced = first.end()
    assert fenced.code == 1
    assert "this writer is fenced" in fenced.err
    assert b"cid" not in fenced.out.encode()
