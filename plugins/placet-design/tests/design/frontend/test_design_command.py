"""`placet design`: sentences in; tables, refusals with reasons, or a question out."""

import io
import os
import subprocess
from shlex import split

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.history.reader import fold
from placet.stores.url import open_event_log
from placet_design import Design
from placet_design.views import version_of
from tests.cli.command_line import PLACET, TOWN

FERRY = "60 m aluminum catamaran ferry, 12 m beam"
SHIP = (
    "60 m steel ferry, beam 12 m, waterline length 57 m, draft 3.6 m, depth 6 m, cb 0.52, cm 0.88, "
    "power 3 MW, 2 propellers, propeller diameter 2.4 m, max speed 15 knots, "
    "cruise speed 13 knots, range 300 nm, crew 20, 300 passengers"
)
STORE = ("--store", "sqlite:///ferry.db")


@pytest.fixture
def ferry(placet):
    """A store with a ferry of 60 m by 12 m, at version 1."""
    assert placet("design", FERRY, *STORE).code == 0
    return placet


def state_of(placet):
    """The design as the store has it."""
    return placet("design", "--show", *STORE, "--json").json()


def record_count(placet):
    return open_event_log(str(placet.folder / "ferry.db")).count()


def table_of(text):
    """The lines of a result by their first words, without their layout."""
    pairs = (" ".join(line.split()).partition(" ") for line in text.splitlines())
    return {first: rest for first, _, rest in pairs if first}


def test_a_sentence_becomes_one_commit_and_is_shown_as_a_table(ferry):
    outcome = ferry("design", "set beam to 30 ft, lock hull length", *STORE)
    assert outcome.code == 0
    rows = table_of(outcome.out)
    assert rows["version"] == "1 -> 2"
    assert rows["hull.beam"] == "12 m 30 ft 9.144 m converted from ft to m"
    assert rows["hull.loa"] == "lock locked"
    assert "placet design --show --store sqlite:///ferry.db" in outcome.err
    design = state_of(ferry)
    assert (design["design_version"], design["hull"]["beam"]) == (2, 9.144)
    assert design["locked_parameters"] == ["hull.loa"]


def test_json_output_has_the_plan_and_its_answer(ferry):
    told = ferry("design", "increase beam by 200 m", *STORE, "--json").json()
    assert (told["answer"], told["success"], told["dry_run"]) == ("executed", True, False)
    assert (told["design_version_before"], told["design_version_after"]) == (1, 2)
    (action,) = told["actions"]
    assert (action["action_type"], action["amount"], action["unit"]) == ("increase", 200, "m")
    assert (action["before"], action["after"]) == (12.0, 100.0)
    assert "clamped from 212 to 100 m" in action["warnings"][0]


def test_an_unclear_sentence_is_answered_with_its_clear_part_and_rewordings(placet):
    outcome = placet("design", f"{FERRY}, 25 knots", *STORE)
    assert outcome.code == 1
    assert "25 kts could be mission.max_speed_kts or mission.cruise_speed_kts" in outcome.out
    assert table_of(outcome.out)["hull.loa"] == "60 m"
    assert f"  {FERRY}, max speed 25 knots" in outcome.out.splitlines()
    assert f"  {FERRY}, cruise speed 25 knots" in outcome.out.splitlines()
    assert not (placet.folder / "ferry.db").exists()


def test_a_suggested_rewording_is_executed(placet):
    told = placet("design", f"{FERRY}, 25 knots", "--json").json()
    assert told["answer"] == "clarification"
    assert [action["path"] for action in told["understood"]][-1] == "hull.beam"
    for way in told["rewordings"]:
        assert placet("design", way, "--json").json()["answer"] == "executed"


def test_a_question_proposes_nothing(ferry):
    outcome = ferry("design", "what is the beam?", *STORE)
    assert outcome.code == 1
    assert "--show" in outcome.out
    assert ferry("design", "how long is it", *STORE, "--json").json()["answer"] == "query"


@pytest.mark.parametrize(
    ("before", "text", "path", "code"),
    [
        ("lock beam", "beam 11 m", "hull.beam", "locked"),
        ("cb 0.5", "waterline length 70 m", "hull.lwl", "invariant_violated"),
        ("cb 0.5", "increase draft by 1 m", "hull.draft", "delta_on_unset"),
    ],
)
def test_a_refusal_has_a_reason_changes_nothing_and_is_logged(ferry, before, text, path, code):
    ferry("design", before, *STORE)
    design, records = state_of(ferry), record_count(ferry)
    outcome = ferry("design", text, *STORE)
    assert outcome.code == 1
    assert outcome.out.startswith("refused: nothing was changed")
    row = table_of(outcome.out)[path]
    assert code in row
    assert len(row.split()) > 5
    assert "Saved" not in outcome.err
    assert state_of(ferry) == design
    assert record_count(ferry) == records + 1
    told = ferry("design", text, *STORE, "--json").json()
    assert (told["answer"], told["rejections"][0]["code"]) == ("rejected", code)


def test_only_the_owner_of_a_lock_unlocks(ferry):
    ferry("design", "lock beam", *STORE, "--agent", "ann")
    refused = ferry("design", "unlock beam", *STORE, "--agent", "bob")
    assert (refused.code, "not_owner" in refused.out) == (1, True)
    assert ferry("design", "unlock beam", *STORE, "--agent", "ann").code == 0


def test_a_percentage_is_relative_to_the_stored_value(ferry):
    told = ferry("design", "increase beam by 25 %", *STORE, "--json").json()
    assert told["actions"][0]["after"] == 15.0


def test_a_change_without_effect_keeps_the_version(ferry):
    outcome = ferry("design", "beam 12 m", *STORE)
    assert outcome.out.startswith("version 1, as before")
    assert "is 12 already" in outcome.out


def test_a_dry_run_has_the_real_answer_and_writes_nothing(ferry):
    before = (ferry.folder / "ferry.db").read_bytes()
    dry = ferry("design", "beam 200 m, run mission", *STORE, "--dry-run", "--json").json()
    assert (ferry.folder / "ferry.db").read_bytes() == before
    done = ferry("design", "beam 200 m, run mission", *STORE, "--json").json()
    for told in (dry, done):
        del told["plan_id"], told["dry_run"]
        for phase in told["phases"].values():
            del phase["run"]
    assert dry == done


def test_a_dry_run_creates_no_store(placet):
    outcome = placet("design", FERRY, *STORE, "--dry-run")
    assert (outcome.code, outcome.err) == (0, "\nNothing was kept: it was a dry run.\n")
    assert list(placet.folder.iterdir()) == []


def test_without_a_store_nothing_is_kept_and_a_note_is_printed(placet):
    outcome = placet("design", FERRY)
    assert (outcome.code, outcome.err) == (0, "\nNothing was kept: there is no --store.\n")
    assert list(placet.folder.iterdir()) == []


def test_undo_restores_values_and_locks(ferry):
    ferry("design", "beam 11 m, lock hull length", *STORE)
    outcome = ferry("design", "--undo", *STORE)
    assert outcome.code == 0
    rows = table_of(outcome.out)
    assert rows["undone:"] == "version 2 -> 3"
    assert rows["hull.beam"] == "11 m 12 m"
    assert rows["hull.loa"] == "locked -"
    assert state_of(ferry)["locked_parameters"] == []
    told = ferry("design", "--undo", *STORE, "--json").json()
    assert {"path": "hull.loa", "before": 60.0, "after": None} in told["changes"]


def test_undoing_an_unlock_restores_the_lock(ferry):
    ferry("design", "lock beam", *STORE)
    ferry("design", "unlock beam", *STORE)
    rows = table_of(ferry("design", "--undo", *STORE).out)
    assert rows["hull.beam"] == "- locked"


def test_an_undo_without_history_is_refused_and_logged(ferry):
    ferry("design", "--undo", *STORE)
    records = record_count(ferry)
    outcome = ferry("design", "--undo", *STORE)
    assert (outcome.code, "no commit is left to undo" in outcome.err) == (1, True)
    assert record_count(ferry) == records + 1


def test_phases_are_shown_with_results_flags_and_missing_inputs(placet):
    placet("design", "60 m ferry", *STORE)
    failed = placet("design", "--run-phases", *STORE)
    assert failed.code == 1
    assert "failed: mission, hull, propulsion, weight, stability, compliance" in failed.out
    assert "Saved." in failed.err
    lacking = table_of(failed.out)
    assert lacking["hull"].startswith("failed not set: hull.beam, hull.draft")
    assert lacking["compliance"] == "failed waits for stability, hull"
    assert placet("design", SHIP, *STORE).code == 0
    outcome = placet("design", "--run-phases", *STORE)
    assert outcome.code == 0
    assert table_of(outcome.out)["hull"].startswith("completed displacement_t 1312.46, ")
    assert "not_assessable: area_0_30" in outcome.out
    told = placet("design", "range 200 nm, run mission", *STORE, "--json").json()
    assert told["phases"]["mission"]["status"] == "completed"
    assert (told["success"], told["phases_failed"]) == (True, [])
    assert told["phases"]["weight"]["status"] == "stale"
    shown = placet("design", "--show", *STORE)
    assert table_of(shown.out)["stability"].startswith("stale kg_m")


def test_a_failed_phase_fails_the_command_after_the_rest_was_applied(ferry):
    outcome = ferry("design", "beam 11 m, run hull", *STORE, "--json")
    told = outcome.json()
    assert (outcome.code, told["answer"], told["success"]) == (1, "executed", False)
    assert told["phases_failed"] == ["hull"]
    assert state_of(ferry)["hull"]["beam"] == 11
    assert ferry("design", "beam 12 m", *STORE).code == 0  # what failed before is not asked for


def test_show_lists_values_locks_and_how_much_is_unset(ferry):
    ferry("design", "lock beam, lock draft, set max speed to 25 knots", *STORE)
    shown = ferry("design", "--show", *STORE)
    rows = table_of(shown.out)
    assert rows["version"] == "2"
    assert rows["hull.beam"] == "12 m locked"
    assert rows["hull.draft"] == "- locked"
    assert rows["mission.max_speed_kts"] == "25 kts"
    assert "16 of 22 parameters are not set" in shown.out
    assert shown.err == ""


def test_an_export_prints_the_document_only(ferry):
    exported = ferry("design", "export csv", *STORE).out.splitlines()
    assert exported[0] == "path,value,unit,locked"
    assert "hull.beam,12.0,m,no" in exported
    both = ferry("design", "beam 11 m, export markdown", *STORE)
    assert "| hull.beam | 11.0 | m |  |" in both.out.splitlines()
    assert both.out.startswith("version 1 -> 2")
    told = ferry("design", "export json", *STORE, "--json").json()
    assert '"beam":11.0' in told["export"]


def test_a_log_of_commands_verifies_and_continues_after_compaction(ferry):
    for n in range(8):
        assert ferry("design", f"beam {10 + n / 2} m", *STORE).code == 0
    assert ferry("verify", "ferry.db").code == 0
    assert ferry("compact", "ferry.db", "--keep", "4").code == 0
    told = ferry("design", "increase beam by 1 m", *STORE, "--json").json()
    assert told["actions"][0]["before"] == 13.5
    assert ferry("verify", "ferry.db").code == 0


async def test_an_orchestrator_continues_the_store(ferry):
    config = OrchestratorConfig(store=str(ferry.folder / "ferry.db"))
    async with Orchestrator(Design(), config) as world:
        assert await world.query(lambda kernel: version_of(kernel.tree)) == 1


async def test_an_orchestrators_store_is_continued_with_its_own_configuration(placet):
    store = str(placet.folder / "ferry.db")
    quotas = {"design.set": {"rate": 0.01, "burst": 1}}
    config = OrchestratorConfig(store=store, world="yard", seed=7, quotas=quotas)
    async with Orchestrator(Design(), config):
        pass
    assert placet("design", "beam 9 m", *STORE).code == 0
    refused = placet("design", "beam 10 m", *STORE)
    assert (refused.code, "may propose design.set" in refused.err) == (1, True)


def test_a_design_keeps_its_stored_settings(placet):
    line = b'{"register": "planner"}\n'
    (placet.folder / "strict.py").write_text(
        "from placet_design import Design\n"
        "def strict(): return Design(policy='reject', design_id='ferry')\n"
    )
    command = [*PLACET, "gate", "--domain", "strict:strict", *STORE]
    subprocess.run(command, input=line, cwd=placet.folder, check=True, capture_output=True)
    told = placet("design", "beam 200 m", *STORE, "--json").json()
    assert told["rejections"][0]["code"] == "out_of_bounds"
    assert placet("design", "beam 20 m", *STORE).code == 0
    assert placet("design", "--show", *STORE).out.startswith("design ferry, version 1")


def test_a_store_of_another_domain_is_refused(placet):
    placet("run", *TOWN, "--store", "town.db")
    for arguments in (("--show",), ("beam 9 m",)):
        outcome = placet("design", *arguments, "--store", "town.db")
        assert outcome.code == 1
        assert "holds a world of world, and no design" in outcome.err


def test_a_store_with_sessions_is_refused_with_the_command_to_use(placet, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("set beam to 9 m\n"))
    assert placet("chat", "--domain", "design", *STORE).code == 0
    for arguments in (("--show",), ("beam 9 m",)):
        outcome = placet("design", *arguments, *STORE)
        assert outcome.code == 1
        assert (
            "holds a world of design, session, approvals, and `placet design` takes" in outcome.err
        )
        assert "with `placet chat`" in outcome.err


def test_show_and_undo_need_an_existing_design(placet):
    for mode in ("--show", "--undo"):
        assert placet("design", mode).code == 1
        outcome = placet("design", mode, *STORE)
        assert (outcome.code, "there is no design in" in outcome.err) == (1, True)
    assert list(placet.folder.iterdir()) == []


def test_a_skipped_snapshot_is_reported(ferry):
    for n in range(8):
        ferry("design", f"beam {10 + n / 2} m", *STORE)
    ferry("compact", "ferry.db", "--keep", "4")
    newest = max((ferry.folder / "ferry.db.snapshots").iterdir())
    newest.write_bytes(newest.read_bytes()[:-9])
    shown = ferry("design", "--show", *STORE)
    assert (shown.code, "is not used" in shown.err) == (0, True)


@pytest.mark.parametrize("arguments", [(), ("--show", "--undo"), ("beam 9 m", "--run-phases")])
def test_only_one_option_is_accepted_at_a_time(placet, arguments):
    outcome = placet("design", *arguments)
    assert (outcome.code, "give one of TEXT" in outcome.err) == (2, True)


class Person:
    """A person at a terminal who confirms the plan."""

    def __init__(self, folder, *arguments):
        self._own, theirs = os.openpty()
        self._process = subprocess.Popen(
            [*PLACET, "design", *arguments, *STORE],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.read = ""

    def read_until(self, words):
        while words not in self.read:
            self.read += os.read(self._own, 4096).decode()

    def answer(self, text):
        os.write(self._own, f"{text}\n".encode())

    def end(self):
        try:
            while data := os.read(self._own, 4096):
                self.read += data.decode()
        except OSError:  # the other side is closed
            pass
        os.close(self._own)
        return self._process.wait()


@pytest.mark.slow
def test_a_person_is_shown_the_plan_and_asked_first(ferry):
    for answer, code, beam in (("n", 1, 12.0), ("y", 0, 9.0)):
        person = Person(ferry.folder, "beam 9 m")
        person.read_until("Do it?")
        assert "12 m" in person.read
        assert state_of(ferry)["hull"]["beam"] == 12.0
        person.answer(answer)
        assert person.end() == code
        assert state_of(ferry)["hull"]["beam"] == beam


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("beam 9 m",), ("--undo",)])
def test_a_design_changed_before_the_confirmation_refuses(ferry, arguments):
    person = Person(ferry.folder, *arguments)
    person.read_until("Do it?")
    assert ferry("design", "beam 11 m", *STORE).code == 0
    person.answer("y")
    assert person.end() == 1
    assert "placet: " in person.read
    assert state_of(ferry)["hull"]["beam"] == 11.0


@pytest.mark.slow
def test_a_person_may_confirm_in_advance(ferry):
    person = Person(ferry.folder, "beam 9 m", "--yes")
    assert person.end() == 0
    assert "Do it?" not in person.read


def test_an_answer_is_printed_after_it_is_durable(ferry):
    told = ferry("design", "beam 9 m", *STORE, "--json").json()
    past = fold(open_event_log(str(ferry.folder / "ferry.db")))
    assert version_of(past.state) == told["design_version_after"]


def test_the_access_of_a_stored_design_is_shown_and_set(ferry):
    shown = ferry("design", "--access", *STORE)
    assert table_of(shown.out) == {"owner": "operator", "editors": "planner", "readers": "-"}
    done = ferry("design", "--owner", "ann", "--editors", "bob, carol", *STORE, "--yes")
    assert (done.code, table_of(done.out)["editors"]) == (0, "bob, carol")
    shown = ferry("design", "--access", *STORE, "--json").json()
    assert (shown["owner"], shown["editors"], shown["readers"]) == ("ann", ["bob", "carol"], [])
    refused = ferry("design", "beam 11 m", *STORE, "--yes")
    assert (refused.code, "no_access" in refused.out) == (1, True)
    assert ferry("design", "beam 11 m", *STORE, "--yes", "--agent", "bob").code == 0
    invalid = ferry("design", "--readers", "system", *STORE, "--yes")
    assert (invalid.code, "design.name_invalid" in invalid.err) == (1, True)
    unseen = ferry("design", "--readers", "alice\u202e", *STORE, "--yes")
    assert (unseen.code, "a name in 'readers' must have no control" in unseen.err) == (1, True)


def test_a_dry_run_of_an_access_changes_nothing(ferry):
    count = record_count(ferry)
    trial = ferry("design", "--owner", "ann", *STORE, "--dry-run")
    assert (trial.code, table_of(trial.out)["owner"]) == (0, "ann")
    assert record_count(ferry) == count


def test_the_command_that_shows_a_design_is_quoted_for_the_shell(placet):
    begun = placet("design", "beam 9 m", "--store", "a ferry.db").err
    (_, hint) = begun.split("Saved. To show it: placet ")
    assert placet(*split(hint)).code == 0
