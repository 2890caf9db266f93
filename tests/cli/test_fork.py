"""`placet fork`, `diff`, `pack` and `check`, as a person types them."""

import pytest


def test_fork_creates_a_world_that_verifies_and_names_its_parent(town):
    made = town("fork", "town.db", "fork.db", "--at", "60")
    assert made.code == 0
    assert "fork of town.db at seq " in made.out
    assert "parent   town, up to record" in made.out
    assert town("verify", "fork.db").code == 0
    assert "forked from 'town' here" in town("log", "fork.db").out
    told = town("fork", "town.db", "b2.db", "--at", "60", "--world", "mine", "--json").json()
    assert (told["world"], told["effects"], told["counterfactual"]) == ("mine", "refuse", None)


def test_fork_replay_lists_the_decisions_that_change(town):
    made = town(
        *("fork", "town.db", "fork.db", "--at", "40", "--replay", "--drop-agent", "folk_3"),
        *("--set", "world.agents/folk_4/position=[0,0,0]"),
    )
    assert made.code == 0
    assert "Agents do not react." in made.out
    assert "folk_4" in made.out
    assert "admitted -> refused: " in made.out
    assert "left out" in made.out
    assert "effects  simulate" in made.out
    assert town("verify", "fork.db").code == 0
    forked = town("log", "fork.db").out
    assert "1 value set, without folk_3" in forked
    differing = town("diff", "town.db", "fork.db")
    assert differing.code == 1
    for word in ("State: ", "Ledger: 1", "Decisions: ", "agents/folk_3", "no verdict in the log"):
        assert word in differing.out
    told = town("diff", "town.db", "fork.db", "--json").json()
    assert told["shared_records"] > 0
    assert {"agent_id", "req_ids", "first", "second"} == set(told["decisions"][0])


def test_bisect_of_a_fork_and_its_parent_names_the_command_that_compares_them(town):
    assert town("fork", "town.db", "fork.db", "--at", "60", "--world", "mine").code == 0
    parting = town("bisect", "town.db", "fork.db")
    assert parting.code == 1
    assert "fork.db was forked here; `placet diff town.db fork.db` compares" in parting.out


def test_diff_of_a_world_with_itself_is_empty(town):
    same = town("diff", "town.db", "town.db")
    assert (same.code, "No differences." in same.out) == (0, True)
    for path in ("world.agents", "/world.agents/folk_4", "world.agents/folk_4/position"):
        assert town("diff", "town.db", "town.db", "--at", "50", "--path", path).code == 0


@pytest.mark.parametrize("path", ["agents", "world.agents/nobody", "world.agents/folk_4/hat"])
def test_diff_at_a_path_in_neither_world_is_reported(town, path):
    failed = town("diff", "town.db", "town.db", "--path", path)
    assert (failed.code, failed.out) == (2, "")
    assert f"neither of the two worlds has a value at {path}" in failed.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--set", "world.agents/folk_4"), 2, "P=JSON"),
        (("--set", "world.agents/folk_4/x=nope"), 2, "needs JSON after its '='"),
        (("--set", "world.agents/nobody/x=1"), 1, "no entity world.agents/nobody"),
        (("--drop-agent", "nobody"), 1, "cannot be dropped"),
        (("--world", "town"), 1, "needs another name"),
        (("--effects", "live"), 2, "refuse or simulate, got 'live'"),
        (("--at", "99999"), 1, "it ends at seq"),
        (("--at-tick", "6"), 1, "it ends after tick 5"),
        (("--at-record", "99999"), 1, "has no record 99999"),
        (("--at", "9", "--at-tick", "1"), 2, "one of --at, --at-tick and --at-record"),
        (("--seed", "-1"), 2, "--seed"),
    ],
)
def test_an_impossible_fork_prints_the_reason_on_stderr(town, options, code, said):
    failed = town("fork", "town.db", "fork.db", *options)
    assert (failed.code, failed.out) == (code, "")
    assert said in failed.err
    assert not (town.folder / "fork.db").exists()


def test_pack_writes_one_file_that_check_and_other_commands_read(town):
    made = town("pack", "town.db", "town.pack", "--json").json()
    assert made["about"]["world"] == "town"
    assert made["bytes"] == (town.folder / "town.pack").stat().st_size
    assert town("pack", "town.db", "late.pack", "--from", "60").code == 0
    for file in ("town.pack", "late.pack"):
        checked = town("check", file)
        assert (checked.code, f"{file} is valid" in checked.out) == (0, True)
        assert town("verify", file).code == 0
        assert town("log", file).code == 0
        assert town("diff", "town.db", file).code == 0
        assert town("replay", file, "--to", "70").code == 0
    assert town("check", "town.pack", "--json").json()["ok"] is True
    assert town("fork", "late.pack", "on.db").code == 0
    assert town("verify", "on.db").code == 0


def test_check_detects_changed_bytes(town):
    town("pack", "town.db", "town.pack")
    path = town.folder / "town.pack"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    damaged = town("check", "town.pack")
    assert (damaged.code, "fails its checksum" in damaged.err) == (1, True)
    other = town("check", "town.db")
    assert (other.code, "is not a packed log" in other.err) == (1, True)


@pytest.mark.parametrize("at", [("--at", "60"), ("--at-record", "29"), ("--at-tick", "3")])
def test_fork_resumed_ends_as_the_run_wherever_it_was_cut(town, at):
    made = town("fork", "town.db", "fork.db", *at)
    assert made.code == 0
    divided = "batches of a tick are decided together" in made.out
    assert divided == (at[0] != "--at-tick")
    resumed = town("run", "--resume", "fork.db", "--json").json()
    assert resumed["digest"] == town("replay", "town.db", "--json").json()["digest"]


def test_fork_with_another_seed_resumes_with_that_seed(town):
    told = town("fork", "town.db", "fork.db", "--at-tick", "2", "--seed", "9", "--json").json()
    assert told["seed"] == 9
    assert "seed 9" in town("log", "fork.db").out
    resumed = town("run", "--resume", "fork.db", "--json").json()
    assert resumed["seed"] == 9
    assert resumed["verified"]
    assert resumed["digest"] != town("replay", "town.db", "--json").json()["digest"]
    assert town("verify", "fork.db").code == 0


def test_fork_with_another_setting_says_how_to_run_it_on(town):
    made = town("fork", "town.db", "fork.db", "--at-tick", "2", "--setting", "max_step=2")
    assert (made.code, made.err) == (0, "")
    assert "settings.max_step  2" in made.out
    assert made.out.endswith("Run it on:\n  placet run --resume fork.db\n")
    resumed = town("run", "--resume", "fork.db")
    assert (resumed.code, "resumed at tick 2 of" in resumed.out) == (0, True)
    assert town("verify", "fork.db").code == 0
    differing = town("compare", "fork.db", "town.db", "--json").json()
    assert {row["key"]: row["first"] for row in differing["settings"]}["settings.max_step"] == 2


def test_fork_runs_on(town):
    options = ("--at-tick", "2", "--setting", "settings.max_step=2", "--seed", "7", "--run")
    ran = town("fork", "town.db", "fork.db", *options)
    assert ran.code == 0
    assert "fork.db is a fork of town.db" in ran.out
    assert "resumed at tick 2 of" in ran.out
    told = town("fork", "town.db", "b.db", *options, "--json").json()
    assert (told["resumed_at"], told["store"]) == (2, "sqlite:///b.db")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--setting", "max_step"), 2, "expected KEY=VALUE, such as settings.max_step=2"),
        (("--setting", "max_stop=2"), 1, "no such setting; did you mean 'settings.max_step'?"),
        (("--setting", "max_step=far"), 1, "expected a number as before"),
        (("--setting", "max_step=2", "--replay"), 2, "without --set, --drop-agent, --replay"),
        (("--replay", "--run"), 2, "--run continues a run"),
    ],
)
def test_a_setting_that_cannot_be_changed_makes_no_fork(town, options, code, said):
    failed = town("fork", "town.db", "fork.db", "--at-tick", "2", *options)
    assert failed.code == code
    assert said in " ".join(failed.err.split())
    assert town("verify", "fork.db").code == 1
