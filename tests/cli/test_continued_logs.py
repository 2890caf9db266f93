"""A log that one command wrote is continued by another with its domain, settings, seed, quotas."""

import json
import re
import signal
from contextlib import closing
from time import monotonic

import pytest

from placet.kernel.ledger.ledger import GateSettings
from placet.runtime.recorded_world import recorded_world
from placet.schemas.errors import StoreError
from placet.schemas.log.record import Configured, Header, RulesChanged, Tick, decode_record
from placet.stores.url import open_event_log
from tests.cli.command_line import Process, move, run_process
from tests.server.process import LATEST_SECONDS, running

RUN = ("run", "town", "--agents", "8", "--ticks", "120", "--seed", "5")
OUTSIDE = (121.0, 60.0, 0.0)
OTHER_CLOCK = 'town.db: clock is "realtime" from now on, it was "stepped"'


def records_of(store):
    with closing(open_event_log(str(store))) as log:
        return [decode_record(data) for _, data in log.read()]


def settings_records(store):
    """Return the records that say by what is decided."""
    return [r for r in records_of(store) if isinstance(r, Header | Configured | RulesChanged)]


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory):
    """The log of a run that was killed after some ticks."""
    folder = tmp_path_factory.mktemp("killed")
    with Process(*RUN, "--store", "town.db", folder=folder) as process:
        latest = monotonic() + LATEST_SECONDS
        while written(folder / "town.db") < 200:
            assert monotonic() < latest
            assert process._popen.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    return folder / "town.db"


def written(path):
    try:
        with closing(open_event_log(str(path))) as log:
            return log.count()
    except StoreError:  # it is not there yet
        return 0


@pytest.fixture
def killed(killed_run, tmp_path):
    for path in killed_run.parent.glob("town.db*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / "town.db"


@pytest.mark.slow
def test_serve_continues_the_log_of_a_killed_run_with_its_bounds_and_quotas(killed):
    before = recorded_world(str(killed))
    assert before is not None
    assert before.config.seed == 5
    with running(killed.parent, "--store", "town.db") as server:
        assert server.told["world"] == "town"

        def post(path, body):
            return server.client.post(f"/api/v1/worlds/town/{path}", json=body)

        attributes = {"agent_id": "edge", "attributes": {"position": [119.5, 60.0]}}
        assert post("agents", attributes).status_code == 201
        outside = post("batches", [move("edge", 1, OUTSIDE)]).json()
        assert [r["code"] for r in outside["refusals"]] == ["world.out_of_bounds"]
        said = [
            post("batches", [{**move("edge", n), "kind": "Speak", "payload": {"text": "a"}}]).json()
            for n in range(2, 7)
        ]
        assert [one["admitted"] for one in said][:3] == [True] * 3
        assert "quota_exceeded" in [r["code"] for one in said for r in one["refusals"]]
        server.process.send_signal(signal.SIGTERM)
        outcome = server.process.end()
    assert outcome.code == 143
    assert outcome.err.splitlines() == [
        "placet serve: town.db: limits.loop_lag_ms_max is 600000 from now on, it was 1000",
        f"placet serve: {OTHER_CLOCK}",
    ]
    after = recorded_world(str(killed))
    assert after is not None
    assert after.rules == before.rules
    changed = settings_records(killed)[2:]
    assert [type(record) for record in changed] == [Configured]  # the limit of the test's server
    assert run_process("verify", "town.db", folder=killed.parent).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["gate", "run"])
def test_gate_and_run_continue_a_log_without_a_record_of_other_settings(killed, command):
    if command == "gate":
        lines = b'{"register": "edge", "position": [119.5, 60.0]}\n'
        lines += json.dumps(move("edge", 1, OUTSIDE)).encode() + b"\n"
        done = run_process("gate", "--store", "town.db", folder=killed.parent, stdin=lines)
        assert "world.out_of_bounds" in done.out
        assert done.err == f"placet gate: {OTHER_CLOCK}\n"
    else:
        done = run_process("run", "--resume", "town.db", "--json", folder=killed.parent)
        assert done.json()["verified"]
        whole = run_process(*RUN, "--store", "whole.db", "--json", folder=killed.parent)
        assert done.json()["digest"] == whole.json()["digest"]
        assert done.err == ""
    assert done.code == 0
    assert len(settings_records(killed)) == 2


@pytest.mark.slow
def test_overrides_are_listed_and_other_settings_stay(killed):
    before = recorded_world(str(killed))
    assert before is not None
    lines = b'{"register": "edge", "position": [119.5, 60.0]}\n'
    done = run_process(
        *("gate", "--store", "town.db", "--set", "settings.max_step=1.5"),
        *("--set", "limits.batch_intents_max=7", "--set", "settings.bounds=[[0,0],[120,120]]"),
        folder=killed.parent,
        stdin=lines,
    )
    assert done.code == 0
    assert done.err.splitlines() == [
        "placet gate: town.db: settings.max_step is 1.5 from now on, it was 4.0",
        "placet gate: town.db: limits.batch_intents_max is 7 from now on, it was 512",
        f"placet gate: {OTHER_CLOCK}",
    ]
    after = recorded_world(str(killed))
    assert after is not None
    assert after.rules.settings["world"]["max_step"] == 1.5
    assert after.rules.settings["world"]["bounds"] == before.rules.settings["world"]["bounds"]
    assert after.config.limits.batch_intents_max == 7
    assert GateSettings.of(after.config).quotas.keys() == {"Speak"}
    resumed = run_process("run", "--resume", "town.db", "--json", folder=killed.parent)
    assert resumed.json()["verified"]
    again = recorded_world(str(killed))
    assert again is not None
    assert (again.rules, again.config) == (after.rules, after.config)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "seed=9"), "world 'town' with seed 5.*leave out seed.*placet fork"),
        (("--set", "world=other"), "world 'town' with seed 5.*leave out world"),
        (("--set", "settings.max_stpe=1"), "no setting 'max_stpe'; did you mean 'max_step'"),
        (("--domain", "memory"), "domains world, and 'memory'"),
    ],
)
@pytest.mark.parametrize("command", ["gate", "serve"])
def test_options_that_contradict_a_log_are_refused_with_the_command_to_continue(
    killed, placet, monkeypatch, command, arguments, said
):
    monkeypatch.chdir(killed.parent)
    before = killed.read_bytes()
    failed = placet(command, "--store", "town.db", *arguments)
    assert (failed.code, failed.out) == (1, "")
    assert re.search(said, failed.err), failed.err
    assert killed.read_bytes() == before


@pytest.mark.slow
def test_conversations_continue_a_log_with_its_settings(tmp_path):
    settings = ("--set", "world=tales", "--set", "seed=4", "--set", "settings.max_step=2.0")
    first = run_process(
        *("chat", "--domain", "world", "--store", "tales.db", *settings),
        folder=tmp_path,
        stdin=b"/help\n",
    )
    assert first.code == 0
    before = recorded_world(f"sqlite:///{tmp_path / 'tales.db'}")
    assert before is not None
    assert (before.config.world, before.config.seed) == ("tales", 4)
    again = run_process("chat", "--store", "tales.db", folder=tmp_path, stdin=b"/help\n")
    assert (again.code, again.err) == (0, first.err)
    with running(tmp_path, "--store", "tales.db") as server:  # conversations are in the log
        answer = server.client.get("/api/v1/worlds/tales/sessions")
        assert answer.status_code == 405  # and not 404: they are made by POST
    after = recorded_world(f"sqlite:///{tmp_path / 'tales.db'}")
    assert after is not None
    assert after.rules == before.rules


@pytest.mark.slow
def test_a_run_is_resumed_after_it_was_served_and_forked_where_it_was_served(killed):
    """Time that passed while it was served is no tick of the run."""
    ticks = len([r for r in records_of(killed) if isinstance(r, Tick)])
    with running(killed.parent, "--store", "town.db") as server:
        attributes = {"agent_id": "edge", "attributes": {"position": [60.0, 60.0]}}
        assert server.client.post("/api/v1/worlds/town/agents", json=attributes).status_code == 201
        moved = server.client.post(
            "/api/v1/worlds/town/batches", json=[move("edge", 1, (61.0, 60.0, 0.0))]
        ).json()
        assert moved["admitted"], moved
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait() == 143
    seq = str(moved["seq"])
    forked = run_process(
        "fork", "town.db", "f.db", "--at", seq, "--json", folder=killed.parent
    ).json()
    assert forked["seq"] == moved["seq"]  # not cut back: it is in no tick
    for store in ("town.db", "f.db"):
        resumed = run_process("run", "--resume", store, "--json", folder=killed.parent)
        report = resumed.json()
        assert report["verified"]
        assert report["resumed_at"] == ticks
        assert len([r for r in records_of(killed.parent / store) if isinstance(r, Tick)]) == 120
    again = run_process("run", "--resume", "town.db", "--json", folder=killed.parent)
    assert again.json()["resumed_at"] == 120


@pytest.mark.slow
def test_an_empty_file_and_a_missing_one_hold_no_world_to_continue(tmp_path):
    (tmp_path / "empty.db").touch()
    for name in ("empty.db", "missing.db"):
        assert recorded_world(f"sqlite:///{tmp_path / name}") is None
        done = run_process("gate", "--store", name, folder=tmp_path, stdin=b'{"register": "a"}\n')
        assert (done.code, done.err) == (0, "")
        assert recorded_world(f"sqlite:///{tmp_path / name}") is not None
    assert recorded_world("memory://") is None


def test_a_reader_overrides_nothing(killed, placet, monkeypatch):
    monkeypatch.chdir(killed.parent)
    failed = placet("serve", "--store", "town.db", "--read-only", "--set", "settings.max_step=1")
    assert (failed.code, failed.out) == (1, "")
    assert "shows town.db as it is written; leave out settings.max_step" in failed.err


def test_config_prints_the_values_of_the_log_with_their_source(killed, placet, monkeypatch):
    monkeypatch.chdir(killed.parent)
    printed = placet("config", "--set", "store=town.db", "--set", "limits.agents_max=9").out
    assert 'world = "town"  # town.db' in printed
    assert 'quotas = { "Speak" = { "rate" = 0.5, "burst" = 3 } }  # town.db' in printed
    assert "agents_max = 9  # --set limits.agents_max" in printed
    assert "max_step = 4.0  # town.db" in printed


@pytest.mark.slow
def test_a_domain_that_is_not_installed_is_asked_for(tmp_path):
    source = "from placet.domains.world import World\nclass Mine(World):\n    name = 'mine'\n"
    (tmp_path / "own_domain.py").write_text(source, "utf-8")
    line = b'{"register": "a"}\n'
    mine = ("--domain", "own_domain:Mine")
    begun = run_process("gate", "--store", "m.db", *mine, folder=tmp_path, stdin=line)
    assert (begun.code, begun.err) == (0, "")
    failed = run_process("gate", "--store", "m.db", folder=tmp_path, stdin=line)
    assert failed.code == 1
    assert "domain 'mine', which is not installed here; give it: --domain" in failed.err
    quotas = ("--set", "quotas={Speak={rate=0.5,burst=2}}", "--set", "default_permissions=['Move']")
    again = run_process("gate", "--store", "m.db", *mine, *quotas, folder=tmp_path, stdin=line)
    assert again.code == 0
    assert again.err.splitlines() == [
        'placet gate: m.db: quotas is {"Speak":{"rate":0.5,"burst":2}} from now on, it was {}',
        'placet gate: m.db: default_permissions is ["Move"] from now on, it was null',
    ]
