"""Runs: lazy, in a fixed order, and within their bounds whatever a planner sends."""

import pytest
from tests.program.programs import ProgramDriver, begin, chain, factorial, put, result

from placet.schemas.codec import canonical
from placet_program.execution.simulation import DEPTH_MAX
from placet_program.payloads import OUTPUT_BYTES_MAX, TRACE_MAX


def driver_with(*batches):
    driver = ProgramDriver()
    for batch in batches:
        driver.mutate(*batch)
    return driver


def one_function(returns, *mutations, last, **params):
    return driver_with([begin("f", returns, **params), *mutations, result("f", last)])


def test_only_the_chosen_branch_runs():
    driver = one_function(
        "int",
        put("f", "n", "param", target="n"),
        put("f", "zero", "const", value=0),
        put("f", "is_zero", "eq", "n", "zero"),
        put("f", "share", "div", "n", "n"),
        put("f", "r", "select", "is_zero", "zero", "share"),
        last="r",
        n="int",
    )
    assert driver.run("f", n=0)["value"] == 0
    assert driver.run("f", n=7)["value"] == 1


def test_a_trace_lists_every_node_once_in_execution_order():
    driver = driver_with(factorial())
    told = driver.ask("simulate", function="fact", inputs={"n": 2}, trace=True)
    at = [(row["at"], row["value"]) for row in told["trace"]]
    assert at == [
        ("fact.n", 2),
        ("fact.one", 1),
        ("fact.base", False),
        ("fact.less", 1),
        ("fact.n", 1),
        ("fact.one", 1),
        ("fact.base", True),
        ("fact.r", 1),
        ("fact.rest", 1),
        ("fact.t", 2),
        ("fact.r", 2),
    ]
    assert told["steps"] == len(at)
    assert told["truncated"] is False


def test_a_long_trace_is_truncated_and_marked():
    driver = driver_with(factorial())
    told = driver.ask("simulate", function="fact", inputs={"n": 60}, trace=True)
    assert len(told["trace"]) == TRACE_MAX
    assert told["steps"] > TRACE_MAX
    assert told["truncated"] is True


def test_a_trace_ends_at_the_trap():
    driver = one_function(
        "int",
        put("f", "a", "const", value=1),
        put("f", "b", "const", value=0),
        put("f", "r", "div", "a", "b"),
        last="r",
    )
    told = driver.ask("simulate", function="f", trace=True)
    assert [row["at"] for row in told["trace"]] == ["f.a", "f.b"]
    assert (told["code"], told["at"]) == ("program.divide_by_zero", "f.r")


@pytest.mark.parametrize(
    ("op", "values", "returns", "value"),
    [
        ("div", (-7, 2), "int", -3),
        ("mod", (-7, 2), "int", -1),
        ("mod", (7, -2), "int", 1),
        ("div", (-7.0, 2.0), "float", -3.5),
        ("mod", (-7.5, 2.0), "float", -1.5),
        ("to_int", (-2.9,), "int", -2),
        ("to_float", (2,), "float", 2.0),
        ("to_str", (2.0,), "str", "2.0"),
        ("to_str", (True,), "str", "true"),
        ("to_str", (-5,), "str", "-5"),
        ("len", ("h\u00e9llo",), "int", 5),
        ("lt", ("a", "b"), "bool", True),
        ("and", (True, False), "bool", False),
        ("min", (2, -3), "int", -3),
        ("neg", (2**62,), "int", -(2**62)),
    ],
)
def test_operations_behave_as_the_docs_page_states(op, values, returns, value):
    names = [f"c{i}" for i in range(len(values))]
    made = [put("f", n, "const", value=v) for n, v in zip(names, values, strict=True)]
    told = one_function(returns, *made, put("f", "r", op, *names), last="r").run("f")
    assert told["ok"], told
    assert told["value"] == value
    assert type(told["value"]) is type(value)


def test_an_int_beyond_64_bits_is_returned_as_digits():
    driver = driver_with(*chain("f", 120, "add"))
    told = driver.run("f", n=3)
    assert (told["value"], told["type"]) == (str(3 << 120), "int")
    assert driver.ask("simulate", function="f", inputs={"n": 3}, trace=True)["ok"]


def test_a_long_text_is_truncated_and_marked():
    [batch] = chain("f", 4, "concat")
    batch[0] = begin("f", "str", n="str")
    driver = driver_with(batch)
    told = driver.run("f", n="\u00e9" * 4096)
    assert told["truncated"] is True
    assert "\u00e9" * 100 in told["value"]
    assert len(canonical(told)) <= OUTPUT_BYTES_MAX
    assert driver.run("f", n="ab")["value"] == "ab" * 16


def test_inputs_must_have_the_type_of_their_parameter():
    driver = one_function("float", put("f", "x", "param", target="x"), last="x", x="float")
    assert driver.run("f", x=2)["value"] == 2.0
    for wrong in (True, "2", 2**53 + 1):
        refusal = driver.refusal("simulate", function="f", inputs={"x": wrong})
        assert (refusal.code, refusal.at) == (
            "program.input_type",
            "/intents/0/payload/inputs/x",
        )


# what a naive one would not survive


def test_a_node_needed_twice_is_evaluated_once():
    driver = driver_with(*chain("f", 120, "max"))
    assert driver.ask("verify")["ok"]
    assert driver.run("f", n=3) == {
        "ok": True, "value": 3, "type": "int", "steps": 121, "truncated": False
    }  # fmt: skip


def test_a_chain_of_1020_nodes_needs_no_recursion():
    driver = driver_with(*chain("f", 1020, "max"))
    assert driver.ask("verify")["ok"]
    assert driver.run("f", n=3)["steps"] == 1021
    assert driver.ask("compile", entry="f")["truncated"]
    assert driver.ask("inspect", what="node", function="f", node="x1020")["type"] == "int"


def test_endless_recursion_ends_at_its_depth():
    driver = one_function("int", put("f", "r", "call", target="f"), last="r")
    told = driver.ask("simulate", function="f", fuel=100_000)
    assert (told["code"], told["at"]) == ("program.depth_exceeded", "f.r")
    driver = driver_with(factorial())
    deep = driver.run("fact", n=DEPTH_MAX)
    assert deep["code"] == "program.int_overflow", "the depth sufficed"
    assert driver.run("fact", n=DEPTH_MAX + 1)["code"] == "program.depth_exceeded"


def test_exponential_recursion_ends_when_the_fuel_is_used_up():
    driver = one_function(
        "int",
        put("f", "n", "param", target="n"),
        put("f", "one", "const", value=1),
        put("f", "base", "le", "n", "one"),
        put("f", "less", "sub", "n", "one"),
        put("f", "left", "call", "less", target="f"),
        put("f", "right", "call", "less", target="f"),
        put("f", "sum", "add", "left", "right"),
        put("f", "r", "select", "base", "one", "sum"),
        last="r",
        n="int",
    )
    assert driver.run("f", n=8)["value"] == 2**7
    told = driver.ask("simulate", function="f", inputs={"n": 100}, fuel=100_000)
    assert (told["code"], told["steps"]) == ("program.fuel_exhausted", 100_000)


def test_fuel_for_texts_grows_with_their_length():
    """100 000 steps of a long text each would be gigabytes."""
    batch = [begin("f", "str", s="str"), put("f", "s", "param", target="s")]
    batch += [put("f", f"x{i}", "concat", "s", "s") for i in range(100)]
    batch += [put("f", "r", "concat", "x98", "x99"), result("f", "r")]
    driver = driver_with(batch)
    light, heavy = driver.run("f", s="ab"), driver.run("f", s="x" * 2560)
    assert heavy["steps"] - light["steps"] == 20 + 20 + 40
