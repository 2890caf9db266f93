"""A killed run resumes from its store and ends with the digest of an uninterrupted run."""

import asyncio
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest

from placet.history.reader import check_integrity, fold
from placet.kernel.log.snapshot import world_digest
from placet.runtime import world as open_world
from placet.scenarios import load
from placet.scenarios.resume import find_run
from placet.scenarios.scenario import as_text, from_text
from placet.scenarios.values import ScenarioError
from placet.stores.url import open_event_log
from tests.cli.command_line import run_process
from tests.scenarios.actors import by_actors
from tests.stores.snapshots.test_snapshots import InThisProcess

if TYPE_CHECKING:
    from pathlib import Path

AGENTS, TICKS = 24, 12
SCENARIO = load("town", overrides=[f"ticks={TICKS}"]).with_agents(AGENTS)

TOML = """
ticks = 8
[agents.walker]
count = 5
policy = "killable_agents:Walker"
[quotas]
Move = { rate = 0.8, burst = 3 }
"""
POLICY = """
import os, signal

def die_at(moment):
    if os.environ.get("DIE_AT") == moment:
        os.kill(os.getpid(), signal.SIGKILL)

class Walker:
    def __init__(self, member, scenario, intent):
        self.intent, self.name = intent, member.agent_id
        die_at(f"welcome {self.name}")

    def propose(self, view):
        die_at(f"{view.sim_time:g} {self.name}")
        x, y, z = view.state["world.agents"][self.name]["position"]
        return [self.intent("Move", to=[x + 1, y, z])]
"""


def whole_digest(store: str) -> tuple[bytes, bytes]:
    """Return the digest of the state, and that of state and ledger."""
    past = fold(open_event_log(store))
    return past.state.digest(), world_digest(past.state, past.ledger)


async def run(store: str, **options: Any) -> str:
    return (await by_actors(SCENARIO, store=store, **options).run()).digest


@pytest.fixture(params=[False, True], ids=["log alone", "snapshots and compaction"])
async def crashes(request, tmp_path, monkeypatch):
    """Copy the store after every group of a run, as a crash at that point would leave it."""
    options: dict[str, Any] = {}
    if request.param:
        monkeypatch.setattr(open_world, "SnapshotProcess", InThisProcess)
        options = {"snapshot_every_seqs": 30, "compact_log": True}
    (tmp_path / "live").mkdir()
    store = f"sqlite:///{tmp_path}/live/t.db?synchronous=off"
    images: list[Path] = []
    original = open_world.WorldRuntime._on_durable

    def copy_after_commit(world: Any, commit: Any) -> None:
        original(world, commit)
        if commit.append is not None:
            image = tmp_path / f"crash{len(images)}"
            while True:
                try:
                    shutil.copytree(tmp_path / "live", image)
                except shutil.Error:  # a snapshot was deleted during the copy: copy again
                    shutil.rmtree(image)
                else:
                    break
            images.append(image / "t.db")

    with monkeypatch.context() as patch:
        patch.setattr(open_world.WorldRuntime, "_on_durable", copy_after_commit)
        await run(store, **options)
    return images, store, options


@pytest.mark.slow
async def test_run_resumed_after_any_group_ends_with_the_same_digest(crashes):
    images, store, options = crashes
    whole = whole_digest(store)
    assert len(images) > TICKS
    resumed_at = set()
    for image in images:
        run_found = find_run(open_event_log(str(image)))
        assert run_found is not None
        assert run_found.scenario == SCENARIO
        resumed_at.add(run_found.ticks)
        digest = await run(f"sqlite:///{image}?synchronous=off", is_resumed=True, **options)
        assert digest == whole[0].hex()
        assert whole_digest(str(image)) == whole
        assert check_integrity(open_event_log(str(image))).is_ok
    assert resumed_at == set(range(TICKS + 1))


async def test_run_resumed_repeatedly_ends_with_the_same_digest(tmp_path):
    store = f"sqlite:///{tmp_path}/t.db?synchronous=off"
    whole = await run(f"sqlite:///{tmp_path}/whole.db?synchronous=off")
    reports = []
    for run_number in range(TICKS + 2):
        stop_answers = iter([False, False, True] if run_number else [False, True])
        runner = by_actors(
            SCENARIO,
            store=store,
            is_resumed=run_number > 0,
            is_stopped=lambda stop_answers=stop_answers: next(stop_answers, True),  # type: ignore[misc]
        )
        reports.append(await runner.run())
        if not reports[-1].is_stopped:
            break
    assert [report.resumed_at for report in reports[:3]] == [None, 0, 1]
    assert reports[-1].digest == whole
    assert (await by_actors(SCENARIO, store=store, is_resumed=True).run()).digest == whole


def test_scenario_is_read_back_with_its_groups_in_order():
    text = as_text(SCENARIO)
    again = from_text("here", text)
    assert again == SCENARIO
    assert list(again.agents) == list(SCENARIO.agents)
    assert list(again.members()) == list(SCENARIO.members())


def test_scenario_of_another_release_is_reported(monkeypatch):
    with pytest.raises(ScenarioError, match=r"here: wings: there is no such key"):
        from_text("here", as_text(SCENARIO)[:-1] + ', "wings": 2}')


# The command `placet run --resume`


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "killable.toml").write_text(TOML)
    (tmp_path / "killable_agents.py").write_text(POLICY)
    return tmp_path


SLOW, SOAK = pytest.mark.slow, pytest.mark.soak
AGAIN = ["welcome walker_1", "2 walker_4", "2 walker_4", "6 walker_2"]


@pytest.mark.parametrize(
    ("moments", "resumed_at"),
    [
        pytest.param(["welcome walker_3"], 0, id="registering", marks=SOAK),
        pytest.param(["0 walker_1"], 0, id="first tick", marks=SOAK),
        pytest.param(["3 walker_5"], 3, id="a tick", marks=SLOW),
        pytest.param(["7 walker_1"], 7, id="last tick", marks=SOAK),
        pytest.param(AGAIN, 6, id="again and again", marks=SLOW),
    ],
)
@pytest.mark.parametrize("options", [(), ("--snapshot-every", "9", "--compact")], ids=["", "snap"])
def test_killed_run_is_resumed_from_its_store(folder, moments, resumed_at, options):
    run_process("run", "killable.toml", "--store", "whole.db", folder=folder)
    arguments = ["run", "killable.toml", "--store", "m.db", *options]
    for moment in moments:
        killed = run_process(*arguments, folder=folder, DIE_AT=moment)
        assert killed.code == -signal.SIGKILL
        arguments = ["run", "--resume", "m.db", *options]
    outcome = run_process(*arguments, "--json", folder=folder)
    assert (outcome.code, outcome.err) == (0, "")
    report = outcome.json()
    assert (report["resumed_at"], report["ticks"], report["verified"]) == (resumed_at, 8, True)
    assert whole_digest(f"{folder}/m.db") == whole_digest(f"{folder}/whole.db")
    assert report["digest"] == whole_digest(f"{folder}/whole.db")[0].hex()


@pytest.mark.slow
def test_policies_of_a_log_are_imported_to_resume_but_not_to_read(folder):
    run_process("run", "killable.toml", "--store", "m.db", folder=folder)
    (folder / "killable_agents.py").write_text("raise SystemExit('imported')")
    refused = run_process("run", "town", "--store", "m.db", folder=folder)
    assert (refused.code, "already has a world" in refused.err) == (1, True)
    assert run_process("verify", "m.db", folder=folder).code == 0
    (folder / "killable_agents.py").unlink()
    resumed = run_process("run", "--resume", "m.db", folder=folder)
    assert resumed.code == 1
    assert (
        "m.db: agents.walker.policy: policy 'killable_agents:Walker' cannot be imported"
        in resumed.err
    )


def stopped_town(placet) -> None:
    """Run a scenario that is stopped after its second tick."""
    stop_answers = iter([False] * 3)
    runner = by_actors(
        load("town", overrides=["ticks=5"]).with_agents(20),
        store="town.db",
        is_stopped=lambda: next(stop_answers, True),
    )
    asyncio.run(runner.run())


def test_store_with_an_unfinished_run_is_refused_with_the_resume_command(placet):
    stopped_town(placet)
    refused = placet("run", "town", "--store", "town.db")
    assert refused.code == 1
    assert "has an unfinished run of town, at tick 2 of 5" in refused.err
    assert "placet run --resume town.db" in refused.err
    outcome = placet("run", "--resume", "town.db")
    assert (outcome.code, outcome.err) == (0, "")
    assert "resumed at tick 2 of 5" in outcome.out
    assert "20 agents, 3 ticks (3 s)" in outcome.out
    whole = placet("run", "town", "--agents", "20", "--ticks", "5", "--json").json()
    assert whole["digest"] in outcome.out
    assert whole["store"] == "sqlite:///town-2.db"


def test_resuming_a_finished_run_changes_nothing(placet):
    whole = placet("run", "town", "--agents", "5", "--ticks", "2", "--json").json()
    again = placet("run", "--resume", "town.db", "--json").json()
    assert (again["digest"], again["seq"]) == (whole["digest"], whole["seq"])
    assert (again["resumed_at"], again["ticks"], again["batches"]) == (2, 2, 0)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_fork_of_a_run_is_resumed_by_its_own_store(placet, is_compacted):
    stopped_town(placet)
    if is_compacted:
        placet("compact", "town.db", "--keep", "1")
    placet("fork", "town.db", "same.db")
    placet("fork", "town.db", "fewer.db", "--drop-agent", "folk_1")
    assert placet("run", "--resume", "town.db").code == 0
    assert placet("run", "--resume", "same.db").code == 0
    assert placet("diff", "town.db", "same.db").code == 0
    fewer = placet("run", "--resume", "fewer.db", "--json").json()
    assert (fewer["resumed_at"], fewer["verified"]) == (2, True)
    assert placet("replay", "fewer.db", "--path", "world.agents/folk_1").code != 0


def test_log_that_no_run_wrote_cannot_be_resumed(placet):
    run_process("gate", "--store", "g.db", folder=placet.folder, stdin=b'{"register":"ann"}\n')
    outcome = placet("run", "--resume", "g.db")
    assert outcome.code == 1
    assert "its first record names no scenario" in outcome.err
    assert placet("run", "town", "--store", "g.db").code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected a SCENARIO such as town, or --resume STORE"),
        (("town", "--resume", "a.db"), "takes no SCENARIO"),
        (("--resume", "a.db", "--seed", "3"), "--seed"),
        (("--resume", "a.db", "--set", "seed=3"), "or --set"),
    ],
)
def test_contradictory_arguments_are_a_usage_error(placet, arguments, message):
    outcome = placet("run", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_missing_store_cannot_be_resumed(placet):
    outcome = placet("run", "--resume", "gone.db")
    assert outcome.code == 1
    assert "there is no file" in outcome.err
    assert list(placet.folder.iterdir()) == []


def test_new_store_does_not_touch_snapshots_of_another(placet):
    (placet.folder / "town.db.snapshots").mkdir()
    report = placet("run", "town", "--agents", "2", "--ticks", "1", "--json").json()
    assert report["store"] == "sqlite:///town-2.db"
