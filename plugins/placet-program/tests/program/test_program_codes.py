"""Every code, by the smallest proposal that has it; the page lists the same codes."""

import math
import re
from pathlib import Path

import pytest
from tests.program.programs import (
    ProgramDriver,
    begin,
    calculator,
    chain,
    factorial,
    put,
    result,
)

import placet_program
from placet_program.payloads import NODES_MAX, NODES_OF_FUNCTION_MAX

ROOT = Path(__file__).parents[4]
LONG = "n" * 44


def driver_with(*mutations):
    driver = ProgramDriver()
    driver.mutate(begin("f", "float", a="int", x="float", s="str"), *mutations)
    return driver


def leaf(name):
    kinds = {"a": "int", "x": "float", "s": "str"}
    assert name in kinds
    return put("f", name, "param", target=name)


BATCHES = {
    "duplicate_function": [begin("f")],
    "duplicate_param": [
        {
            "op": "add_function",
            "name": "g",
            "params": [{"name": "a", "type": "int"}] * 2,
            "returns": "int",
        }
    ],
    "unknown_function": [put("g", "a", "const", value=1)],
    "unknown_node": [put("f", "n", "neg", "a")],
    "unknown_param": [put("f", "b", "param", target="b")],
    "unknown_port": [
        leaf("a"),
        put("f", "n", "neg", "a"),
        {"op": "connect", "function": "f", "source": "a", "target": "n", "port": 1},
    ],
    "too_many_inputs": [leaf("a"), put("f", "n", "neg", "a", "a")],
    "const_without_value": [put("f", "c", "const")],
    "cycle": [put("f", "p", "neg", "q"), put("f", "q", "neg", "p")],
    "type_mismatch": [leaf("a"), leaf("x"), put("f", "sum", "add", "a", "x")],
}


@pytest.mark.parametrize("code", BATCHES)
def test_a_refusal_has_the_index_of_the_faulty_mutation(code):
    refusal = driver_with().refused(*BATCHES[code])
    assert refusal.code == f"program.{code}"
    assert refusal.at.startswith(f"/intents/0/payload/mutations/{len(BATCHES[code]) - 1}")


def function_in_use():
    driver = ProgramDriver()
    driver.mutate(*calculator())
    refusal = driver.refused({"op": "remove_function", "name": "div"})
    assert refusal.details["callers"] == ["calc"]
    return refusal


def too_many_functions():
    driver = ProgramDriver()
    names = [f"f{i}" for i in range(256)]
    driver.mutate(*map(begin, names[:128]))
    driver.mutate(*map(begin, names[128:]))
    driver.mutate({"op": "remove_function", "name": "f0"}, begin("g0"))
    return driver.refused(begin("g1"))


def consts(driver, function, count, width=0, **value):
    for first in range(0, count, 100):
        numbers = range(first, min(count, first + 100))
        names = [f"{'n' * width}c{i}" for i in numbers]
        driver.mutate(*[put(function, name, "const", **value) for name in names])


def too_many_nodes():
    driver = driver_with()
    consts(driver, "f", NODES_OF_FUNCTION_MAX, value=1)
    driver.mutate(put("f", "c0", "const", value=2))
    return driver.refused(put("f", "more", "const", value=1))


def too_many_nodes_of_all():
    driver = driver_with()
    for i in range(NODES_MAX // NODES_OF_FUNCTION_MAX):
        driver.mutate(begin(f"f{i}"))
        consts(driver, f"f{i}", NODES_OF_FUNCTION_MAX, value=1)
    return driver.refused(put("f", "more", "const", value=1))


def function_too_large():
    driver = driver_with()
    text = "x" * 4096
    for i in range(4):
        driver.mutate(*[put("f", f"c{i}_{k}", "const", value=text) for k in range(15)])
    return driver.refused(*[put("f", f"more_{k}", "const", value=text) for k in range(15)])


def source_too_large():
    driver = ProgramDriver()
    calls = None
    for name in ("g", "h", "i"):
        driver.mutate(begin(name, a="int"), put(name, f"{LONG}0", "param", target="a"))
        for first in range(1, 900, 100):
            numbers = range(first, first + 100)
            driver.mutate(*[put(name, f"{LONG}{i}", "neg", f"{LONG}{i - 1}") for i in numbers])
        last = f"{LONG}{900}"
        if calls is not None:
            driver.mutate(put(name, "call", "call", last, target=calls))
            last = "call"
        driver.mutate(result(name, last))
        calls = name
    return driver.refusal("compile", entry="i")


def stale():
    driver = driver_with(leaf("a"))
    return driver.refused(result("f", "a"), expected={"f": "0" * 16})


def not_verified():
    driver = driver_with(leaf("a"))
    assert driver.refusal("compile", entry="f").code == "program.not_verified"
    return driver.refusal("simulate", function="f", inputs={})


def inputs_mismatch():
    driver = ProgramDriver()
    driver.mutate(*factorial())
    return driver.refusal("simulate", function="fact", inputs={"m": 1})


def input_type():
    driver = ProgramDriver()
    driver.mutate(*factorial())
    assert driver.refusal("simulate", function="fact", inputs={"n": True}).code.endswith(
        "input_type"
    )
    return driver.refusal("simulate", function="fact", inputs={"n": 1.0})


def seq_unknown():
    driver = driver_with()
    assert driver.refusal("history_query", op="list", to_seq=99).at.endswith("/to_seq")
    return driver.refusal("restore", to_seq=driver.kernel.seq + 1)


def seq_too_old():
    driver = driver_with()
    for i in range(257):
        driver.mutate(put("f", "c", "const", value=i))
    assert driver.refusal("history_query", op="diff", from_seq=1).at.endswith("/from_seq")
    return driver.refusal("restore", to_seq=1)


REFUSALS = [
    function_in_use, too_many_functions, too_many_nodes, too_many_nodes_of_all, function_too_large,
    source_too_large, stale, not_verified, inputs_mismatch, input_type, seq_unknown, seq_too_old,
]  # fmt: skip


@pytest.mark.parametrize("make", REFUSALS, ids=lambda make: make.__name__)
def test_a_refusal_has_its_code(make):
    assert make().code == f"program.{make.__name__.removesuffix('_of_all')}"


# what verify says

DIAGNOSTICS = {
    "missing_input": ("error", [put("f", "n", "neg"), result("f", "n")]),
    "no_result": ("error", [leaf("x")]),
    "result_type_mismatch": ("error", [leaf("a"), result("f", "a")]),
    "dead_node": ("warning", [leaf("x"), leaf("a"), result("f", "x")]),
    "unused_param": ("warning", [leaf("x"), result("f", "x")]),
}


@pytest.mark.parametrize("code", DIAGNOSTICS)
def test_verify_reports_each_code(code):
    severity, mutations = DIAGNOSTICS[code]
    told = driver_with(*mutations).ask("verify", function="f")
    severities = {one["code"]: one["severity"] for one in told["diagnostics"]}
    assert severities[f"program.{code}"] == severity
    assert told["ok"] == (severity == "warning")


# what ends a run


def compute(op, *values, returns):
    driver = ProgramDriver()
    names = [f"c{i}" for i in range(len(values))]
    made = [put("f", n, "const", value=v) for n, v in zip(names, values, strict=True)]
    driver.mutate(begin("f", returns), *made, put("f", "r", op, *names), result("f", "r"))
    return driver.ask("simulate", function="f")


def divide_by_zero():
    assert compute("mod", 1, 0, returns="int")["code"] == "program.divide_by_zero"
    assert compute("div", 1.0, -0.0, returns="float")["code"] == "program.divide_by_zero"
    return compute("div", 1, 0, returns="int")


def int_overflow():
    driver = ProgramDriver()
    driver.mutate(*factorial())
    assert driver.run("fact", n=50)["value"] == str(math.factorial(50))
    assert compute("to_int", 1e300, returns="int")["code"] == "program.int_overflow"
    return driver.run("fact", n=150)


def float_not_finite():
    return compute("mul", 1e300, 1e300, returns="float")


def str_too_long():
    driver = ProgramDriver()
    [batch] = chain("f", 20, "concat")
    batch[0] = begin("f", "str", n="str")
    driver.mutate(*batch)
    short = driver.run("f", n="")
    assert (short["value"], short["steps"]) == ("", 21)
    return driver.run("f", n="x" * 4096)


def fuel_exhausted():
    driver = ProgramDriver()
    driver.mutate(*factorial())
    steps = driver.run("fact", n=20)["steps"]
    enough = {"function": "fact", "inputs": {"n": 20}, "fuel": steps}
    assert driver.ask("simulate", **enough)["ok"]
    return driver.ask("simulate", **{**enough, "fuel": steps - 1})


def depth_exceeded():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "r", "call", target="f"), result("f", "r"))
    return driver.ask("simulate", function="f", fuel=100_000)


TRAPS = [
    divide_by_zero,
    int_overflow,
    float_not_finite,
    str_too_long,
    fuel_exhausted,
    depth_exceeded,
]


@pytest.mark.parametrize("make", TRAPS, ids=lambda make: make.__name__)
def test_a_trapped_run_is_answered_with_a_code(make):
    told = make()
    assert told["ok"] is False
    assert told["code"] == f"program.{make.__name__}"
    assert told["at"]


# the lists agree

KNOWN = {*BATCHES, *DIAGNOSTICS, *(make.__name__ for make in (*REFUSALS, *TRAPS))}


def test_the_docs_page_and_the_source_list_the_tested_codes():
    tested = KNOWN - {"too_many_nodes_of_all"}
    page = (ROOT / "plugins" / "placet-program" / "docs" / "program.md").read_text()
    assert set(re.findall(r"^\| `program\.(\w+)` \| [rewt]", page, re.MULTILINE)) == tested
    folder = Path(placet_program.__file__).parent
    source = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    said = re.findall(r'\b(?:refuse|Trap|Diagnostic)\(\s*"(\w+)"', source)
    assert set(said) | {"unknown_function", "unknown_node", "unknown_param"} == tested
