"""A planner's way from nothing to a calculator that runs, as one batch; and seed 001's phrases."""

import pytest
from tests.program.programs import ProgramDriver, begin, calculator, put, result

from placet.agents.session.message_route import parse_command
from placet.kernel import Kernel
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet_program import Program

PLAN = [
    ("mutate_batch", {"mutations": calculator()}),
    ("verify", {}),
    ("compile", {"entry": "calc"}),
    ("simulate", {"function": "calc", "inputs": {"op": "add", "a": 2, "b": 3}}),
    ("inspect", {"what": "overview"}),
    ("history_query", {"op": "list"}),
]


def plan(driver, actions):
    batch = [driver.intent("ann", f"program.{kind}", **payload) for kind, payload in actions]
    return driver.kernel.decide(batch)


def test_a_plan_of_six_actions_creates_and_runs_a_calculator():
    driver = ProgramDriver()
    assert len(PLAN[0][1]["mutations"]) == 42
    verdict = plan(driver, PLAN)
    assert verdict.admitted, verdict.refusals
    changed, checked, compiled, run, overview, past = [one.output for one in verdict.results]
    assert list(changed["functions"]) == ["add", "sub", "mul", "div", "calc"]
    assert (checked["ok"], checked["errors"], checked["warnings"]) == (True, 0, 0)
    assert compiled["source"].endswith("entry = f_calc\n")
    assert (run["ok"], run["value"], run["type"]) == (True, 5.0, "float")
    assert [one["name"] for one in overview["functions"]] == ["add", "calc", "div", "mul", "sub"]
    [commit] = past["commits"]
    first = verdict.results[0].seq
    assert (commit["seq"], commit["by"], commit["op"]) == (first, "ann", "mutate")


@pytest.mark.parametrize(
    ("op", "a", "b", "value"),
    [
        ("add", 2.0, 3.0, 5.0),
        ("sub", 2.0, 3.0, -1.0),
        ("mul", 2, 3, 6.0),
        ("div", 3, 2, 1.5),
        ("pow", 1.0, 1.0, 0.0),
    ],
)
def test_the_calculator_returns_correct_results(op, a, b, value):
    driver = ProgramDriver()
    driver.mutate(*calculator())
    assert driver.run("calc", op=op, a=a, b=b)["value"] == value


def test_one_invalid_action_refuses_the_whole_plan():
    driver = ProgramDriver()
    before = driver.kernel.digest()
    verdict = plan(driver, [*PLAN[:-1], ("simulate", {"function": "clac"})])
    assert verdict.codes == ("program.unknown_function",)
    assert verdict.refusals[0].suggestions == ("calc",)
    assert driver.kernel.digest() == before


def test_the_last_mutation_of_a_batch_undoes_the_first():
    driver = ProgramDriver()
    bad = put("calc", "s_add", "select", "is_add", "k_add", "s_sub")
    refusal = driver.refused(*calculator(), bad)
    assert refusal.code == "program.type_mismatch"
    assert refusal.at == "/intents/0/payload/mutations/42"
    assert driver.ask("inspect", what="overview")["count"] == 0


def test_the_log_has_the_outputs_and_replays_to_the_same_state():
    log: list[bytes] = []
    kernel = Kernel(Program(), sink=log.append)
    kernel.register_agent("ann")
    driver = ProgramDriver(agents=["ann"])
    batch = [driver.intent("ann", f"program.{kind}", **payload) for kind, payload in PLAN]
    assert kernel.decide(batch).admitted
    assert b"entry = f_calc" in log[-1]
    assert folded(log).state.digest().hex() == kernel.digest()
    again = Verifier([Program()])
    for record in log:
        again.apply(record)  # raises where it comes out otherwise


# seed 001's phrases

PHRASES = ["create hello world program", "compile program", "run program"]


def say(driver, message):
    said = parse_command(message, Program().commands)
    assert said is not None
    assert not said.error
    return driver.ask(said.kind.removeprefix("program."), **said.payload)


def test_the_three_phrases_are_executed_in_a_row():
    driver = ProgramDriver()
    created, compiled, run = [say(driver, phrase) for phrase in PHRASES]
    assert list(created["functions"]) == ["main"]
    assert "return 'Hello, world!'" in compiled["source"]
    assert run["value"] == "Hello, world!"


def test_a_phrase_is_case_insensitive():
    assert say(ProgramDriver(), "Create Hello World program")


@pytest.mark.parametrize(
    "message",
    [
        "create a hello world program",
        "please create hello world program",
        "create hello world program now",
        "create hello world programs",
        "compile the program",
        "compile program main",
        "recompile program",
        "run programs",
        "prune the list and run program",
        "run  program",
        "run program\ncompile program",
        "",
    ],
)
def test_a_near_miss_is_not_a_phrase(message):
    assert parse_command(message, Program().commands) is None


def test_the_second_hello_is_refused_and_changes_nothing():
    driver = ProgramDriver()
    say(driver, PHRASES[0])
    refusal = driver.refused(begin("main", "str"), put("main", "hello", "const", value="?"))
    assert refusal.code == "program.duplicate_function"
    assert driver.ask("simulate", function="main")["value"] == "Hello, world!"
    assert driver.mutate(put("main", "hello", "const", value="Bye!"), result("main", "hello"))
    assert driver.ask("simulate", function="main")["value"] == "Bye!"
