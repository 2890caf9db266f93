"""The domain that the scenario in a log names is found where a person works, and said."""

import sys
from importlib import import_module
from shutil import move
from typing import Any

import pytest

import placet
from placet import Log
from placet.cli.app import run_command
from placet.history.bisect import bisect
from placet.history.diff import diff
from placet.history.explain import explain
from placet.history.fork import fork, replay_to
from placet.history.pack import pack
from placet.history.position import Position
from placet.history.verify_log import verify_log
from placet.lab import compare
from placet.scenarios.fork import fork_run
from placet.scenarios.recorded_domain import domains_of
from placet.stores.url import open_event_log

MODULE = """
from typing_extensions import TypedDict
from placet.kernel import Domain, Kind, refuse

class Meet(TypedDict):
    whom: str

class Epidemic(Domain):
    name, version = "contagion", "1"

    def __init__(self, beta: float = 0.3) -> None:
        self.beta = beta
        self.kinds = (Kind("Meet", Meet, self.meet),)

    def settings(self):
        return {"beta": self.beta}

    def on_register(self, draft, agent_id, attributes):
        draft.create("contagion.people", agent_id)
        draft.put("contagion.people", agent_id, "is_ill", agent_id.endswith("_1"))

    def meet(self, draft, intent):
        me, whom = intent["agent_id"], intent["payload"]["whom"]
        if draft.get("contagion.people", me, "is_ill"):
            return refuse("is_ill", "the ill stay at home")
        if draft.get("contagion.people", whom, "is_ill") and draft.draw("catch") < self.beta:
            draft.put("contagion.people", me, "is_ill", True)


class Unsaid(Epidemic):
    def settings(self):
        return None


def made(beta: float = 0.3):
    return Epidemic(beta)


ready = Epidemic(0.5)


def walk(view):
    whom = f"person_{view.randint_below(5, 'whom') + 1}"
    return [] if whom == view.agent_id else [{"kind": "Meet", "payload": {"whom": whom}}]
"""

SCENARIO = """
domain = "contagion_model:{name}"
ticks = 8
[settings]
{settings}
[agents.person]
count = 5
policy = "contagion_model:walk"
"""


def run_model(folder, monkeypatch, name="Epidemic", settings="beta = 0.5"):
    """Run the model in a folder, and forget its module; its log is `week/run.db`."""
    monkeypatch.chdir(folder)
    (folder / "contagion_model.py").write_text(MODULE)
    (folder / "model.toml").write_text(SCENARIO.format(name=name, settings=settings))
    (folder / "week").mkdir()
    assert run_command(["run", "./model.toml", "--store", "week/run.db", "--no-verify"]) == 0
    sys.modules.pop("contagion_model")


@pytest.fixture(autouse=True)
def forgotten():
    """Let no other test find the module as imported."""
    yield
    sys.modules.pop("contagion_model", None)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("Epidemic", "beta = 0.5"), ("Unsaid", "beta = 0.5"), ("made", "beta = 0.5"), ("ready", "")],
)
def test_a_log_is_verified_by_the_domain_of_its_scenario(
    tmp_path, monkeypatch, capsys, name, settings
):
    run_model(tmp_path, monkeypatch, name, settings)
    capsys.readouterr()
    assert run_command(["verify", "week/run.db"]) == 0
    said = capsys.readouterr()
    assert "is valid: " in said.out
    place = f"contagion_model:{name} of {tmp_path}/contagion_model.py"
    assert said.err == f"placet: the domain is {place}, which the scenario in the log names\n"
    sys.modules.pop("contagion_model")
    checked = Log("week/run.db").verify()
    assert (checked.is_ok, checked.batches > 10) == (True, True)
    assert str(checked).startswith("valid: ")


def test_the_folder_of_a_log_below_the_current_one_is_searched_and_no_other(tmp_path, monkeypatch):
    run_model(tmp_path, monkeypatch)
    move("contagion_model.py", "week/contagion_model.py")
    assert Log("week/run.db").verify().is_ok
    sys.modules.pop("contagion_model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    checked = Log("../week/run.db").verify()
    assert (checked.is_ok, checked.integrity.is_ok, checked.batches) == (None, True, 0)
    assert "contagion_model" not in sys.modules
    said = str(checked)
    assert "0 batches of 0 intents were re-executed, and the decisions of records 2 to" in said
    assert "--domain module:attribute of a command, `domain=` in Python" in said
    assert "names 'contagion_model:Epidemic': work in the folder of contagion_model.py" in said
    assert "did you mean" not in said


def test_a_name_in_a_log_imports_no_installed_module(tmp_path, monkeypatch):
    run_model(tmp_path, monkeypatch)
    data = (tmp_path / "week" / "run.db").read_bytes()
    log = Log("week/run.db")
    named = sys.modules["placet.scenarios.recorded_domain"].__dict__["_place_of"]
    for module in ("antigravity", "this", "pip.__main__", "numpy.testing"):
        assert module in sys.modules or named(module, open_event_log("week/run.db")) is None
    assert (tmp_path / "week" / "run.db").read_bytes() == data
    log.close()


def test_a_module_that_cannot_be_imported_is_named_with_the_reason(tmp_path, monkeypatch):
    run_model(tmp_path, monkeypatch)
    (tmp_path / "contagion_model.py").write_text("import numpi\n")
    checked = Log("week/run.db").verify()
    assert checked.is_ok is None
    assert "contagion_model.py, which cannot be imported: No module named 'numpi'" in str(checked)


def test_a_domain_of_the_program_is_given_to_a_log(tmp_path, monkeypatch):
    run_model(tmp_path, monkeypatch)
    move("contagion_model.py", "elsewhere.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    elsewhere = import_module("elsewhere")
    for domain in (elsewhere.Epidemic, elsewhere.ready, "elsewhere:Epidemic", [elsewhere.Epidemic]):
        assert Log("week/run.db", domain=domain).verify().is_ok, domain
        assert Log("week/run.db").verify(domain).is_ok
    assert Log("week/run.db", domain=elsewhere.Epidemic).explain("person_1", "run:0").rules
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"a class, a function or a domain, got 3"):
        Log("week/run.db").verify(wrong)
    sys.modules.pop("elsewhere")


def test_every_function_that_needs_the_domain_finds_it(tmp_path, monkeypatch, capsys):
    run_model(tmp_path, monkeypatch)
    forked = fork_run("week/run.db", tmp_path / "f.db", {"beta": 0.9}, at=Position(tick=3))
    assert (forked.ticks, forked.scenario.settings) == (3, {"beta": 0.9})
    seeded = fork_run("week/run.db", "g.db", {"settings.beta": 0.9}, at=forked.made.seq, seed=7)
    assert (seeded.made.seed, seeded.scenario.seed) == (7, 7)
    assert Log("f.db").verify().is_ok
    assert compare("week/run.db", "f.db").settings[0].key == "settings.beta"
    sys.modules.pop("contagion_model")
    assert run_command(["explain", "week/run.db", "person_1", "run:0"]) == 0
    assert run_command(["bisect", "week/run.db", "f.db"]) == 1
    command = ["fork", "week/run.db", "h.db", "--at-tick", "2", "--drop-agent", "person_1"]
    assert run_command(command) == 0
    said = capsys.readouterr()
    assert said.err.count("placet: the domain is contagion_model:Epidemic") == 3


MEANT = r"expected a log: a path such as town\.db, a URL, a placet\.Log or an open log, got 7"


def test_a_log_is_named_by_its_path_wherever_one_is_taken(tmp_path, monkeypatch):
    run_model(tmp_path, monkeypatch)
    by_path, opened = "week/run.db", placet.Log("week/run.db")
    maker = domains_of(open_event_log("week/run.db"))
    calls = {
        "fork": lambda log, n: fork(log, f"fork{n}.db", at=Position(tick=2)),
        "fork_run": lambda log, n: fork_run(log, f"run{n}.db", {"beta": 0.1}, at=Position(tick=2)),
        "replay_to": lambda log, n: replay_to(log, None),
        "diff": lambda log, n: diff(log, log),
        "bisect": lambda log, n: bisect(log, log, maker),
        "explain": lambda log, n: explain(log, "person_1", "run:0", maker),
        "verify_log": lambda log, n: verify_log(log, maker),
        "pack": lambda log, n: pack(log, f"week{n}.pack"),
        "compare": lambda log, n: compare(log, log),
    }
    for name, call in calls.items():
        for number, log in enumerate(
            (by_path, tmp_path / by_path, opened, open_event_log(by_path))
        ):
            assert call(log, number) is not None, name
        with pytest.raises(TypeError, match=MEANT):
            call(7, 9)


@pytest.mark.parametrize("at", ["20", -1, 3.5, True])
def test_a_position_that_is_none_is_refused_before_the_log_is_read(at):
    for call in (fork, lambda log, to, at: fork_run(log, to, {}, at=at)):
        with pytest.raises(TypeError, match=r"at must be a seq such as 1200, or a position"):
            call("there is no such log.db", "new.db", at=at)


def test_the_domain_stage_shows_what_the_rule_read_and_who_had_changed_it(
    tmp_path, monkeypatch, capsys
):
    run_model(tmp_path, monkeypatch)
    capsys.readouterr()
    assert run_command(["explain", "week/run.db", "person_1", "run:0"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "submitted by the run for its agents, decided at 1 s" in said
    assert (
        "intent 0: rule Meet of contagion 1 intent 0 read contagion.people/person_1/is_ill" in said
    )
    assert "is_ill = true (its entity last changed at seq 2, by person_1)" in said
    read = Log("week/run.db").explain("person_1", "run:0").stages[-1].compared[1]
    assert read == {
        "index": 0,
        "read": "contagion.people/person_1/is_ill",
        "value": True,
        "changed_seq": 2,
        "changed_by": "person_1",
    }
    log = open_event_log("week/run.db")
    by_default = explain(log, "person_1", "run:0", domains_of(log)).stages[-1].compared
    assert all("read" not in compared for compared in by_default), "an agent may be shown these"
