"""Compiled source behaves like a run: the same values and the same traps in the same order."""

import random
from itertools import product
from typing import Any

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

from placet_program.diagnostics import errors_of
from placet_program.execution.compiler import Compiled, compile_function
from placet_program.execution.simulation import run
from placet_program.functions import Functions, hash_of
from placet_program.operations import OVERLOADS

EDGES: dict[str, list[Any]] = {
    "int": [0, 1, -1, 7, -3, 2**63 - 1, 2**256 - 1, -(2**256) + 1],
    "float": [0.0, -0.0, 1.0, -2.5, 1e308, -1e308, 5e-324, 1e16],
    "bool": [True, False],
    "str": ["", "a", "\u00e9", "b" * 65_536, "'\\"],
}


def loaded(source):
    namespace: dict[str, Any] = {}
    exec(compile(source, "<artifact>", "exec"), namespace)  # what a reader of it does
    return namespace


def outcome_of_source(namespace, arguments):
    try:
        return repr(namespace["entry"](*arguments))
    except namespace["Trap"] as trap:
        return trap.args[0]


def outcome_of_run(functions, entry, arguments, fuel=100_000):
    function = functions.find(entry)
    told = run(functions, function, dict(zip(function.params, arguments, strict=True)), fuel)
    return f"program.{told.code}" if told.code else repr(told.value)


def source_of(driver, entry):
    compiled = compile_function(Functions(driver.kernel.tree), entry)
    assert isinstance(compiled, Compiled)
    return compiled.source


def both(driver, entry):
    """Return the two ways to run a function."""
    functions = Functions(driver.kernel.tree)
    assert not errors_of(functions, entry)
    namespace = loaded(source_of(driver, entry))
    return (
        lambda *arguments: outcome_of_run(functions, entry, arguments),
        lambda *arguments: outcome_of_source(namespace, arguments),
    )


def test_the_calculator_agrees_on_2000_inputs():
    driver, chance = ProgramDriver(), random.Random(1)
    driver.mutate(*calculator())
    simulated, compiled = both(driver, "calc")
    traps = 0
    for _ in range(2000):
        op = chance.choice(["add", "sub", "mul", "div", "pow", ""])
        a, b = (chance.choice([0.0, 1e308, chance.uniform(-9, 9)]) for _ in "ab")
        assert simulated(op, a, b) == compiled(op, a, b)
        traps += simulated(op, a, b).startswith("program.")
    assert 100 < traps < 1000


@pytest.mark.parametrize("op", OVERLOADS)
def test_each_operation_agrees_at_the_edges_of_its_types(op):
    for number, overload in enumerate(OVERLOADS[op]):
        driver, ports = ProgramDriver(), len(overload.ports)
        params = {f"p{i}": kind for i, kind in enumerate(overload.ports)}
        made = [put("f", name, "param", target=name) for name in params]
        driver.mutate(
            begin("f", overload.result, **params),
            *made,
            put("f", "r", op, *params),
            result("f", "r"),
        )
        simulated, compiled = both(driver, "f")
        for values in product(*[EDGES[kind] for kind in overload.ports]):
            assert simulated(*values) == compiled(*values), (number, ports, values)


class Composer:
    """Writes random programs that verify: nodes of each type, connected at random."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.made = []
        self.signatures = {}

    def program(self):
        for number in range(self.chance.randint(1, 4)):
            self.function(f"f{number}")
        return self.made, f"f{len(self.signatures) - 1}", self.signatures

    def function(self, name):
        chance = self.chance
        kinds = [chance.choice(list(EDGES)) for _ in range(chance.randint(0, 3))]
        params = {f"p{i}": kind for i, kind in enumerate(kinds)}
        there: dict[str, list[str]] = {kind: [] for kind in EDGES}
        nodes = []
        for param, kind in params.items():
            there[kind].append(param)
            nodes.append(put(name, param, "param", target=param))
        for kind in EDGES:
            value = chance.choice(EDGES[kind][:6]) if kind != "str" else chance.choice("ab")
            there[kind].append(f"c_{kind}")
            nodes.append(put(name, f"c_{kind}", "const", value=value))
        for number in range(chance.randint(1, 25)):
            node, kind = self.node(name, f"n{number}", there)
            nodes.append(node)
            there[kind].append(f"n{number}")
        returns = chance.choice([kind for kind in EDGES if len(there[kind]) > 1] or ["int"])
        chance.shuffle(nodes)
        self.made += [begin(name, returns, **params), *nodes, result(name, there[returns][-1])]
        self.signatures[name] = (tuple(params.values()), returns)

    def node(self, function, name, there):
        chance = self.chance
        if self.signatures and chance.random() < 0.15:
            target = chance.choice(list(self.signatures))
            ports, kind = self.signatures[target]
            op, more = "call", {"target": target}
        else:
            op = "select" if chance.random() < 0.35 else chance.choice(list(OVERLOADS))
            (ports, kind), more = chance.choice(OVERLOADS[op]), {}
        inputs = [chance.choice(there[port][-4:]) for port in ports]
        return put(function, name, op, *inputs, **more), kind


def some(chance, kind):
    wild: dict[str, Any] = {
        "int": chance.randint(-9, 9),
        "float": chance.uniform(-9, 9),
        "bool": chance.random() < 0.5,
        "str": "x" * chance.randint(0, 5),
    }
    return wild[kind] if chance.random() < 0.6 else chance.choice(EDGES[kind][:6])


def compare_programs(seeds):
    values = traps = 0
    for seed in seeds:
        composer = Composer(seed)
        mutations, entry, signatures = composer.program()
        driver = ProgramDriver()
        for first in range(0, len(mutations), 128):
            driver.mutate(*mutations[first : first + 128])
        simulated, compiled = both(driver, entry)
        for _ in range(8):
            arguments = [some(composer.chance, kind) for kind in signatures[entry][0]]
            here, there = simulated(*arguments), compiled(*arguments)
            assert here == there, (seed, arguments)
            traps += here.startswith("program.")
            values += not here.startswith("program.")
    return values, traps


def test_random_programs_agree():
    values, traps = compare_programs(range(60))
    assert values > 150
    assert traps > 25


@pytest.mark.soak
def test_a_thousand_random_programs_agree():
    values, traps = compare_programs(range(1000, 2000))
    assert values > 2500
    assert traps > 500


def test_recursion_agrees_up_to_its_maximum_depth():
    driver = ProgramDriver()
    driver.mutate(*factorial())
    simulated, compiled = both(driver, "fact")
    for n in (-1, 0, 1, 20, 57, 58, 150, 200, 201, 10_000):
        assert simulated(n) == compiled(n), n


def test_a_shared_branch_is_compiled_once():
    """s1 = select(c, s0 + 1, s0), s2 = select(c, s1 + 1, s1), ...: it must not double."""
    driver, made = ProgramDriver(), [begin("f", a="int"), put("f", "s0", "param", target="a")]
    made += [put("f", "one", "const", value=1)]
    for i in range(1, 41):
        before = f"s{i - 1}"
        made += [
            put("f", f"c{i}", "lt", before, "one"),
            put("f", f"t{i}", "add", before, "one"),
            put("f", f"s{i}", "select", f"c{i}", f"t{i}", before),
        ]
    driver.mutate(*made[:120])
    driver.mutate(*made[120:], result("f", "s40"))
    simulated, compiled = both(driver, "f")
    for n in (-50, -40, 0, 3):
        assert simulated(n) == compiled(n)
    assert source_of(driver, "f").count("checked(") < 60


def test_a_chain_of_1020_nodes_compiles_to_a_straight_line():
    driver = ProgramDriver()
    for batch in chain("f", 1020, "max"):
        driver.mutate(*batch)
    simulated, compiled = both(driver, "f")
    assert simulated(3) == compiled(3) == "3"


def test_the_artifact_depends_on_the_graph_and_not_on_its_history():
    one, other = ProgramDriver(), ProgramDriver()
    one.mutate(*calculator())
    for mutation in calculator():
        other.mutate(mutation, by="bob")
    told = one.ask("compile", entry="calc")
    assert told == other.ask("compile", entry="calc")
    assert one.ask("compile", entry="calc", by="eve") == told
    artifact = one.kernel.state["program.artifacts"]["calc"]
    assert artifact["source"] == told["source"]
    assert artifact["hash"] == told["hash"] == hash_of(told["source"].encode())
    hashes = one.kernel.state["program.functions"]
    assert artifact["functions"] == {name: hashes[name]["hash"] for name in hashes}


def test_text_values_are_escaped_in_compiled_code():
    text = "'''\n\"\"\"); import os #\\\u2028{}{0}\x00\U0001f600"
    driver = ProgramDriver()
    driver.mutate(begin("f", "str"), put("f", "c", "const", value=text), result("f", "c"))
    driver.mutate(begin("g", "str"), put("g", "r", "call", target="f"), result("g", "r"))
    simulated, compiled = both(driver, "g")
    assert simulated() == compiled() == repr(text)
    assert driver.ask("compile", entry="g")["source"].isascii()


def test_a_changed_function_is_recompiled_and_its_artifact_removed_with_it():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "c", "const", value=1), result("f", "c"))
    before = driver.ask("compile", entry="f")["hash"]
    driver.mutate(put("f", "c", "const", value=2))
    assert driver.ask("compile", entry="f")["hash"] != before
    assert driver.ask("inspect", what="function", function="f")["artifact"] != before
    driver.mutate({"op": "remove_function", "name": "f"})
    assert "f" not in driver.kernel.state.get("program.artifacts", {})


def test_an_artifact_lists_current_function_hashes_when_its_source_is_unchanged():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "c", "const", value=1), result("f", "c"))
    before = driver.ask("compile", entry="f")
    driver.mutate(put("f", "idle", "const", value=2))
    assert driver.ask("compile", entry="f") == before
    hashed = driver.kernel.state["program.functions"]["f"]["hash"]
    assert driver.kernel.state["program.artifacts"]["f"]["functions"] == {"f": hashed}
