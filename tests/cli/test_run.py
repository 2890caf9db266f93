"""`placet run`: its report, the files it writes, and how it is stopped."""

import re
import signal
import socket
import sys
from contextlib import closing

import pytest

from placet.cli.terminal import CommandError
from placet.scenarios.failure_note import failure_of
from placet.stores.reading import log_to_read
from placet.stores.sqlite.log import SqliteEventLog
from tests.cli.command_line import TOWN, Process, run_process

KEYS = {
    "scenario",
    "seed",
    "agents",
    "ticks",
    "resumed_at",
    "sim_time",
    "intents",
    "refusals",
    "fairness",
    "batches",
    "seq",
    "digest",
    "head",
    "seconds",
    "intents_per_second",
    "silent",
    "thinking_us",
    "verdict_ms",
    "store",
    "time",
    "verified",
    "interrupted",
    "collected",
}

OWN_SCENARIO = """
ticks = 50
[agents.walker]
count = 3
policy = "people:Walker"
"""

OWN_POLICY = """
import os, signal

class Walker:
    def __init__(self, member, scenario, intent):
        self.intent, self.name = intent, member.agent_id

    def propose(self, view):
        if view.sim_time == 3 and self.name == "walker_2":
            {at_three}
        x, y, z = view.state["world.agents"][self.name]["position"]
        return [self.intent("Move", to=[x + 1, y, z])]
"""


@pytest.fixture
def own(tmp_path):
    """Write a scenario with a custom policy that runs the given code at tick 3."""

    def write(at_three):
        (tmp_path / "own.toml").write_text(OWN_SCENARIO)
        (tmp_path / "people.py").write_text(OWN_POLICY.format(at_three=at_three))
        return tmp_path

    return write


def test_report_as_json_has_the_documented_keys_and_adds_up(placet):
    outcome = placet("run", *TOWN, "--json")
    report = outcome.json()
    assert outcome.code == 0
    assert report.keys() == KEYS
    assert (report["scenario"], report["seed"], report["agents"]) == ("town", 1, 20)
    assert (report["ticks"], report["sim_time"]) == (5, 5.0)
    intents = report["intents"]
    assert intents["submitted"] == intents["admitted"] + intents["refused"] > 0
    assert report["seq"] == 1 + 20 + intents["admitted"] + report["ticks"]
    assert report["verdict_ms"].keys() == {"p50", "p99"}
    assert (report["store"], report["verified"]) == ("sqlite:///town.db", True)
    assert report["interrupted"] is False


def test_report_as_text_has_the_outcome_and_the_next_commands(placet):
    outcome = placet("run", *TOWN)
    assert (outcome.code, outcome.err) == (0, "")
    for said in (
        "20 agents, 5 ticks",
        "submitted in",
        "log town.db is verified",
        "placet log town",
    ):
        assert said in outcome.out
    looked = placet("replay", "town.db", "--path", "world.agents/folk_1", "--json")
    assert looked.json()["digest"] in outcome.out


def test_commands_in_the_report_work(placet):
    (placet.folder / "a town.toml").write_text(OWN_SCENARIO.replace("people:Walker", "child"))
    outcome = placet("run", "a town.toml", "--ticks", "2")
    commands = [line.split() for line in outcome.out.splitlines() if line.startswith("    placet ")]
    assert [words[1] for words in commands] == ["log", "replay", "play", "report", "verify"]
    for _, *words in commands:
        if words[0] != "play":  # it serves until it is stopped
            assert placet(*words).code == 0


def test_a_second_run_needs_a_new_file(placet):
    stores = [placet("run", *TOWN, "--json").json()["store"] for _ in range(3)]
    assert stores == ["sqlite:///town.db", "sqlite:///town-2.db", "sqlite:///town-3.db"]


def test_store_with_a_world_is_refused_unchanged(placet):
    placet("run", *TOWN)
    before = (placet.folder / "town.db").read_bytes()
    outcome = placet("run", *TOWN, "--store", "town.db", "--json")
    assert (outcome.code, outcome.out) == (1, "")
    assert "town.db already has a world" in outcome.err
    assert "leave out --store" in outcome.err
    assert (placet.folder / "town.db").read_bytes() == before


def test_empty_file_is_accepted_as_a_new_store(placet):
    (placet.folder / "mine.db").touch()
    assert placet("run", *TOWN, "--store", "sqlite:///mine.db").code == 0
    assert placet("verify", "mine.db").code == 0


def test_log_in_memory_is_reported_as_not_kept(placet):
    report = placet("run", *TOWN, "--store", "memory://", "--json").json()
    assert (report["store"], report["verified"]) == ("memory://", None)
    assert "gone" in placet("run", *TOWN, "--store", "memory://").out
    assert list(placet.folder.iterdir()) == []


def test_log_of_another_world_is_not_reported_as_verified(placet, monkeypatch):
    placet("run", *TOWN, "--seed", "2")
    from placet.cli.commands import run_session as command
    from placet.stores.reading import log_to_read

    monkeypatch.setattr(command, "read_log", lambda *_: log_to_read("town.db"))
    outcome = placet("run", *TOWN)
    assert outcome.code == 1
    assert "is not of this run" in outcome.err
    assert CommandError.__name__ not in outcome.err


def test_damaged_log_is_reported_and_fails(placet, monkeypatch):
    from placet.cli.commands import run_session as command
    from placet.history.reader import IntegrityReport

    broken = IntegrityReport(
        *(False, 3, 2, "00", "ff", "town"), {"record": 3, "seq": 2, "why": "it is torn"}
    )
    monkeypatch.setattr(command, "check_integrity", lambda _: broken)
    outcome = placet("run", *TOWN)
    assert outcome.code == 1
    assert "is NOT valid from record 3 on: it is torn" in outcome.out


def test_options_change_the_scenario(placet):
    report = placet("run", *TOWN, "--seed", "7", "--set", "settings.max_step=2", "--json").json()
    assert report["seed"] == 7
    other = placet("run", *TOWN, "--seed", "7", "--json").json()
    assert report["digest"] != other["digest"]


@pytest.mark.slow
def test_same_seed_gives_the_same_digest_on_any_hash_seed_and_any_store(tmp_path):
    digests = {
        run_process(
            *("run", "town", "--agents", "40", "--ticks", "20", "--json", "--store", store),
            folder=tmp_path,
            PYTHONHASHSEED=hash_seed,
        ).json()["digest"]
        for hash_seed, store in (("0", "memory://"), ("1", "one.db"), ("random", "two.db"))
    }
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_run_after_the_current_tick(own, number, code):
    folder = own(f"os.kill(os.getpid(), signal.{number.name})")
    outcome = run_process("run", "own.toml", "--json", folder=folder)
    assert (outcome.code, outcome.err) == (code, "")
    report = outcome.json()
    assert (report["ticks"], report["interrupted"], report["verified"]) == (4, True, True)
    verified = run_process("verify", "own.db", "--json", folder=folder).json()
    assert (verified["ok"], verified["seq"], verified["digest"]) == (
        True,
        report["seq"],
        report["digest"],
    )


def test_report_of_a_stopped_run_has_the_tick_of_the_stop(placet, own, monkeypatch):
    monkeypatch.delitem(sys.modules, "people", raising=False)
    own("os.kill(os.getpid(), signal.SIGTERM)")
    outcome = placet("run", "own.toml")
    assert outcome.code == 143
    assert "stopped by SIGTERM after tick 4 of 50; the log has all of them" in outcome.out
    assert re.search(r"\n  Resume it:\n    placet run --resume \S+\n", outcome.out)
    assert "own.db is verified" in outcome.out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_stopped_run_in_memory_is_not_reported_as_kept(placet, own, monkeypatch):
    monkeypatch.delitem(sys.modules, "people", raising=False)
    own("os.kill(os.getpid(), signal.SIGTERM)")
    outcome = placet("run", "own.toml", "--store", "memory://")
    assert "stopped by SIGTERM after tick 4 of 50\n" in outcome.out
    assert "The log was in memory and is gone" in outcome.out


def test_run_without_agents_or_ticks_succeeds(placet):
    for nothing in ("--agents", "--ticks"):
        outcome = placet("run", "town", "--agents", "3", "--ticks", "2", nothing, "0")
        assert outcome.code == 0
        assert "0 submitted in 0 batches" in outcome.out


@pytest.mark.slow
def test_signal_from_another_process_ends_the_run(tmp_path):
    arguments = ("run", "town", "--ticks", "1000000", "--store", "t.db", "--metrics-port", "0")
    with Process(*arguments, folder=tmp_path) as running:
        assert running.err.readline().startswith(b"metrics at http://127.0.0.1:")
        running.send_signal(signal.SIGTERM)
        outcome = running.end()
    assert (outcome.code, outcome.err) == (143, "")
    assert "stopped by SIGTERM after tick" in outcome.out
    assert "t.db is verified" in outcome.out


def test_policy_that_raises_is_named(placet, own, monkeypatch):
    own("1 / 0")
    monkeypatch.delitem(sys.modules, "people", raising=False)
    outcome = placet("run", "own.toml")
    assert outcome.code == 1
    assert outcome.err.startswith(
        "placet: own: agents.walker.policy: raised ZeroDivisionError: division by zero in tick 4 "
        "(3 s) for walker_2 (people.py, line "
    )
    noted = failure_of(log_to_read(str(placet.folder / "own.db")))
    assert noted is not None
    assert f"placet: {noted.message}\n" == outcome.err
    assert noted.place.startswith(f"{placet.folder / 'people.py'}:")
    assert "1 / 0" in noted.traceback


def test_policy_that_cannot_be_constructed_is_named(placet, own, monkeypatch):
    (own("pass") / "people.py").write_text("def Walker(*_):\n    raise KeyError('speed')\n")
    monkeypatch.delitem(sys.modules, "people", raising=False)
    outcome = placet("run", "own.toml", "--store", "memory://")
    assert outcome.code == 1
    assert outcome.err == (
        "placet: own: agents.walker.policy: raised KeyError: 'speed' as it was made for walker_1 "
        "(people.py, line 2, in Walker)\n"
    )


@pytest.mark.parametrize("proposed", ["[5]", "[{}]", "{'kind': 'Move'}", "[None]"])
def test_invalid_proposal_of_a_policy_is_refused(placet, own, monkeypatch, proposed):
    own(f"return {proposed}")
    monkeypatch.delitem(sys.modules, "people", raising=False)
    refuse = ("--set", "on_rule_error='refuse'")
    report = placet("run", "own.toml", "--store", "memory://", "--json", *refuse).json()
    assert report["intents"] == {"submitted": 150, "admitted": 149, "refused": 1}
    assert sum(n for code, n in report["refusals"].items() if code.startswith("structure/")) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["twn"], "did you mean 'town'?"),
        (["town", "--set", "agnts=3"], "did you mean 'agents'?"),
        (["town", "--set", "settings.max_stp=2"], "max_stp"),
        (["town", "--set", "bounds=2"], "A setting of its domain is set by settings.bounds"),
        (["town", "--set", "quotas.Speak={rate=1}"], "quotas.Speak: a quota is {'rate': per"),
        (["town", "--set", "agents.folk.permissions=1"], "input should be a list, got 1"),
        (["town", "--set", "domain=wrold"], "did you mean 'world'?"),
        (["town", "--set", "domain=demanding:Demanding"], "missing 1 required"),
        (["town", "--set", "agents.folk.attributes.hat=1"], "folk_1 cannot be registered: "),
        (["town", "--set", f"name={'x' * 200}"], "name: it must be 1 to 128 characters"),
        (["town", "--store", "ftp://x"], "there is no store 'ftp'"),
        (["town", "--store", "nowhere/x.db"], "there is no directory"),
        (["."], "."),
    ],
)
def test_invalid_scenario_is_a_one_line_error(placet, arguments, said):
    (placet.folder / "demanding.py").write_text(
        "class Demanding:\n"
        "    def __init__(self, hat, bounds, max_step, interaction_range, inventory_max,\n"
        "                 cooldowns, objects): ...\n"
    )
    outcome = placet("run", *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("placet: ")
    assert outcome.err.count("\n") == 1
    assert said in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["town", "--agents", "-1"],
        ["town", "--ticks", "x"],
        ["town", "--sed", "1"],
        ["town", "--set", "ticks"],
        ["town", "--set", ".x=1"],
    ],
)
def test_usage_errors_exit_with_2(placet, arguments):
    outcome = placet("run", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert "see `placet run --help`" in outcome.err


def test_progress_is_shown_on_a_terminal_only(placet, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    outcome = placet("run", *TOWN, "--json")
    assert outcome.json()["ticks"] == 5
    assert "town, 20 agents" in outcome.err


def test_a_run_that_is_not_verified_keeps_its_log_and_says_so(placet):
    ticks = ("--ticks", "3", "--agents", "6", "--json")
    verified = placet("run", "town", *ticks, "--store", "a.db").json()
    plain = placet("run", "town", *ticks, "--store", "b.db", "--no-verify").json()
    assert (verified["verified"], plain["verified"]) == (True, None)
    assert verified["digest"] == plain["digest"]
    assert placet("verify", "b.db", "--expect", plain["head"]).code == 0
    report = placet("run", "town", *ticks[:4], "--store", "c.db", "--no-verify").out
    assert "it was not verified (--no-verify)" in report


def test_a_run_names_the_commands_that_show_it(placet, tmp_path):
    ran = placet("run", *TOWN, "--store", "seen.db")
    assert "    placet play seen.db\n    placet report seen.db\n" in ran.out
    portrayal = '[portrayal."world.agents"]\nlabel = "holds"\n'
    (tmp_path / "drawn.toml").write_text(OWN_SCENARIO.replace("people:Walker", "child") + portrayal)
    ran = placet("run", "./drawn.toml", "--ticks", "1", "--store", "drawn.db")
    assert ran.code == 0, ran.err
    options = "--portrayal ./drawn.toml"
    assert f"    placet play drawn.db {options}\n    placet report drawn.db {options}\n" in ran.out


def test_a_run_that_cannot_start_leaves_no_note_beside_the_log(placet):
    placet("run", "town", "--ticks", "2", "--agents", "2", "--store", "t.db")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        outcome = placet("run", "--resume", "t.db", "--metrics-port", port)
    assert outcome.code == 1, outcome.out
    with closing(SqliteEventLog(placet.folder / "t.db")) as log:
        log.open()
        outcome = placet("run", "--resume", "t.db")
    assert outcome.code == 1
    assert not (placet.folder / "t.db.failure").exists()
