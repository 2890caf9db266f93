"""Batches of mutations: valid contents, results, and references to removed nodes."""

import pytest
from tests.program.programs import (
    ProgramDriver,
    begin,
    calculator,
    chain,
    connect,
    exported,
    gone,
    put,
    result,
)

from placet.schemas.codec import canonical
from placet_program import Program
from placet_program.payloads import OUTPUT_BYTES_MAX


def test_a_node_may_be_connected_before_it_is_created_in_the_batch():
    driver = ProgramDriver()
    driver.mutate(
        begin("f", a="int"),
        result("f", "r"),
        put("f", "r", "add", "x", "y"),
        put("f", "x", "param", target="a"),
        put("f", "y", "neg"),
        connect("f", "x", "y", 0),
    )
    assert driver.run("f", a=3)["value"] == 0


def test_a_missing_node_is_refused_at_the_mutation_that_needs_it():
    refusal = ProgramDriver().refused(
        begin("f"), put("f", "r", "neg", "ghost"), put("f", "s", "neg")
    )
    assert refusal.code == "program.unknown_node"
    assert refusal.at == "/intents/0/payload/mutations/1"
    refusal = ProgramDriver().refused(begin("f"), put("f", "goat", "neg"), result("f", "goats"))
    assert (refusal.code, refusal.suggestions) == ("program.unknown_node", ("goat",))


@pytest.mark.parametrize(
    "mutation",
    [
        gone("f", "ghost"),
        connect("f", "a", "ghost", 0),
        gone("ghost", "a"),
        connect("ghost", "a", "a", 0),
        result("ghost", "a"),
        put("f", "c", "call", target="ghost"),
        {"op": "remove_function", "name": "ghost"},
    ],
)
def test_a_referenced_function_or_node_must_exist(mutation):
    refusal = ProgramDriver().refused(
        begin("f", a="int"), put("f", "a", "param", target="a"), mutation
    )
    assert refusal.code in {"program.unknown_node", "program.unknown_function"}
    assert refusal.at.startswith("/intents/0/payload/mutations/2/")


def test_removing_a_node_opens_its_ports_and_clears_the_result():
    driver = ProgramDriver()
    driver.mutate(
        begin("f", a="int"),
        put("f", "a", "param", target="a"),
        put("f", "r", "add", "a", "a"),
        result("f", "r"),
    )
    driver.mutate(gone("f", "a"))
    told = driver.ask("inspect", what="function", function="f")
    assert [row["inputs"] for row in told["nodes"]] == [(None, None)]
    assert told["result"] == "r"
    driver.mutate(gone("f", "r"))
    assert driver.ask("inspect", what="function", function="f")["result"] is None


def test_a_function_may_be_removed_and_recreated_in_one_batch():
    driver = ProgramDriver()
    driver.mutate(begin("f", "int", a="int"), put("f", "c", "const", value=1))
    remove = {"op": "remove_function", "name": "f"}
    driver.mutate(remove, begin("f", "str", s="str"), put("f", "c", "param", target="s"))
    told = driver.ask("inspect", what="function", function="f")
    assert told["params"] == ({"name": "s", "type": "str"},)
    assert driver.mutate(remove, begin("g"), begin("f"), remove)["functions"].keys() == {"f", "g"}
    assert driver.mutate(begin("f"), put("f", "n", "neg"), remove)["functions"] == {}
    assert driver.ask("inspect", what="overview")["count"] == 1


def test_a_caller_removed_in_the_same_batch_does_not_count():
    driver = ProgramDriver()
    driver.mutate(*calculator())
    gone_calc = {"op": "remove_function", "name": "calc"}
    assert driver.mutate(gone_calc, {"op": "remove_function", "name": "add"})
    call = put("sub", "c", "call", "a", "b", target="mul")
    refusal = driver.refused(call, {"op": "remove_function", "name": "mul"})
    assert refusal.details["callers"] == ["sub"]


def test_a_call_removed_in_the_same_batch_does_not_count():
    driver = ProgramDriver()
    driver.mutate(begin("f"), begin("g"), put("g", "c", "call", target="f"))
    drop = {"op": "remove_function", "name": "f"}
    assert driver.mutate(gone("g", "c"), drop)["functions"].keys() == {"f", "g"}
    assert not driver.kernel.tree.count("program.calls")


def test_a_function_that_calls_itself_may_be_removed():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "r", "call", target="f"), result("f", "r"))
    driver.mutate({"op": "remove_function", "name": "f"})
    assert not driver.kernel.tree.count("program.calls")


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_a_cycle_of_any_length_is_refused(length):
    driver = ProgramDriver()
    [batch] = chain("f", length, "max")
    driver.mutate(*batch[:1], put("f", "x0", "neg"), *batch[2:])
    refusal = driver.refused(connect("f", f"x{length}", "x0", 0))
    assert refusal.code == "program.cycle"
    assert len(refusal.details["nodes"]) == length + 1
    refusal = driver.refused(connect("f", "x0", "x0", 0))
    assert refusal.details["nodes"] == ["x0"]


def test_a_cycle_broken_in_the_same_batch_is_accepted():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "a", "neg"), put("f", "b", "neg", "a"))
    driver.mutate(connect("f", "b", "a", 0), put("f", "b", "neg"))


def test_types_propagate_through_open_nodes():
    driver = ProgramDriver()
    driver.mutate(
        begin("f"),
        put("f", "i", "const", value=1),
        put("f", "s", "const", value="s"),
        put("f", "half", "add", "i"),
    )
    told = driver.ask("inspect", what="node", function="f", node="half")
    assert (told["type"], told["used_by"]) == ("int", ())
    assert driver.refused(put("f", "z", "concat", "half", "s")).code == "program.type_mismatch"
    driver.mutate(put("f", "open", "add"), put("f", "z", "max", "open", "i"))
    assert driver.ask("inspect", what="node", function="f", node="open")["type"] is None


def test_a_replaced_node_may_break_its_users_and_verify_reports_it():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "c", "const", value=1), put("f", "r", "neg", "c"))
    driver.mutate(put("f", "c", "const", value="text"), result("f", "r"))
    told = driver.ask("verify", function="f")
    assert told["diagnostics"][0]["code"] == "program.type_mismatch"


def test_a_call_must_match_the_signature():
    driver = ProgramDriver()
    driver.mutate(*calculator(), begin("f"), put("f", "i", "const", value=1))
    refusal = driver.refused(put("f", "c", "call", "i", target="add"))
    assert refusal.code == "program.type_mismatch"
    assert "gives int to 'a' of 'add', not float" in refusal.message
    assert driver.refused(put("f", "c", "call", "i", "i", "i", target="add")).code.endswith(
        "inputs"
    )


# payloads


@pytest.mark.parametrize(
    ("mutation", "at"),
    [
        (put("f", "n", "exec"), "/node/op"),
        (put("f", "n", "add", value=1), "/node/value"),
        (put("f", "n", "add", target="f"), "/node/target"),
        (put("f", "n", "param"), "/node/target"),
        (put("f", "n", "call"), "/node/target"),
        (put("f", "N", "add"), "/name"),
        (put("f", "__import__", "add"), "/name"),
        (put("f", "n\n", "add"), "/name"),
        (put("f", "n", "const", value="x" * 4097), "/node/value"),
        (put("f", "n", "const", value=[1]), "/node/value"),
        ({**result("f", "n"), "confirmed": True}, "/confirmed"),
        (put("f", "n", "const", value=float("nan")), "/node/value"),
        (put("f", "n", "const", value=2**64), "/node/value"),
        ({"op": "set_result", "function": "f"}, "/node"),
        ({"op": "grant"}, ""),
        ({}, ""),
        ("set_node", ""),
        ({"op": "connect", "function": "f", "source": "a", "target": "b", "port": -1}, "/port"),
    ],
)
def test_an_invalid_mutation_is_refused_with_its_path(mutation, at):
    verdict = ProgramDriver().propose(
        "ann", "program.mutate_batch", mutations=[begin("f"), mutation]
    )
    assert set(verdict.codes) == {"payload_invalid"}
    [refusal] = verdict.refusals
    assert refusal.at == f"/intents/0/payload/mutations/1{at}"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("mutate_batch", {"mutations": []}),
        ("mutate_batch", {"mutations": [begin("f")] * 129}),
        ("mutate_batch", {"mutations": [begin("f")], "expected": {"f": "short"}}),
        ("inspect", {"what": "function"}),
        ("inspect", {"what": "node", "function": "f"}),
        ("inspect", {"what": "search"}),
        ("inspect", {"what": "overview", "limit": 201}),
        ("simulate", {"function": "f", "fuel": 100_001}),
        ("simulate", {"function": "f", "inputs": {"a": None}}),
        ("history_query", {"op": "forget"}),
        ("restore", {"to_seq": -1}),
    ],
)
def test_an_invalid_payload_is_refused(kind, payload):
    verdict = ProgramDriver().propose("ann", f"program.{kind}", **payload)
    assert set(verdict.codes) == {"payload_invalid"}


# questions


def test_inspect_has_four_queries():
    driver = ProgramDriver()
    driver.mutate(*calculator())
    overview = driver.ask("inspect", what="overview", limit=2)
    assert (overview["count"], len(overview["functions"]), overview["truncated"]) == (5, 2, True)
    function = driver.ask("inspect", what="function", function="div")
    assert (function["called_by"], function["calls"]) == (("calc",), ())
    assert {row["name"]: row["type"] for row in function["nodes"]}["r"] == "float"
    node = driver.ask("inspect", what="node", function="calc", node="op")
    assert (node["type"], node["target"]) == ("str", "op")
    assert node["used_by"] == ("is_add", "is_div", "is_mul", "is_sub")
    found = driver.ask("inspect", what="search", text="div")["found"]
    assert found[0]["function"] == "calc"
    assert {one.get("node") for one in found} == {None, "r", "k_div", "is_div", "do_div", "s_div"}
    for what in ("function", "node"):
        refusal = driver.refusal("inspect", what=what, function="no", node="x")
        assert refusal.code == "program.unknown_function"
    refusal = driver.refusal("inspect", what="node", function="calc", node="zeros")
    assert refusal.suggestions == ("zero",)


def test_answers_are_bounded():
    driver = ProgramDriver()
    driver.mutate(begin("f"))
    for first in range(4):
        names = [f"c{first}_{i}" for i in range(15)]
        driver.mutate(*[put("f", name, "const", value="x" * 4000) for name in names])
    for question in ({"what": "function", "function": "f"}, {"what": "search", "text": "xx"}):
        told = driver.ask("inspect", **question)
        assert told["truncated"] is True
        assert len(canonical(told)) <= OUTPUT_BYTES_MAX
    told = driver.ask("history_query", op="diff", from_seq=0)
    assert told["truncated"] is True
    assert len(canonical(told)) <= OUTPUT_BYTES_MAX


def test_one_fault_is_reported_once():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "a", "add"), put("f", "b", "neg", "a"), result("f", "b"))
    told = driver.ask("verify", function="f")
    at = [(one["code"], one["node"], one["port"]) for one in told["diagnostics"]]
    assert at == [("program.missing_input", "a", 0), ("program.missing_input", "a", 1)]


def test_verify_lists_errors_before_warnings():
    driver = ProgramDriver()
    driver.mutate(begin("a", "int", x="int"), put("a", "c", "const", value=1), result("a", "c"))
    driver.mutate(begin("b"))
    told = driver.ask("verify")
    assert [one["severity"] for one in told["diagnostics"]] == ["error", "warning"]
    assert (told["errors"], told["warnings"]) == (1, 1)
    assert driver.refusal("verify", function="c").code == "program.unknown_function"


# exported functions


def test_an_exported_function_must_verify_under_the_setting():
    driver = ProgramDriver(Program(verify_exported=True))
    refusal = driver.refused(exported("f"), put("f", "c", "const", value="text"), result("f", "c"))
    assert refusal.code == "invariant_violated"
    assert refusal.details["invariant"] == "program.not_verified"
    driver.mutate(begin("draft"))
    driver.mutate(exported("f"), put("f", "c", "const", value=1), result("f", "c"))
    assert driver.refused(put("f", "c", "const", value=1.5)).code == "invariant_violated"
    assert driver.mutate(put("draft", "c", "neg"))


def test_functions_called_by_an_exported_function_must_verify():
    driver = ProgramDriver(Program(verify_exported=True))
    driver.mutate(
        begin("inner"),
        put("inner", "c", "const", value=1),
        result("inner", "c"),
        exported("f"),
        put("f", "r", "call", target="inner"),
        result("f", "r"),
    )
    refusal = driver.refused({"op": "remove_node", "function": "inner", "name": "c"})
    assert refusal.details["function"] == "f"
    assert "no result" in refusal.message


def test_without_the_setting_an_exported_function_may_be_a_draft():
    ProgramDriver().mutate(exported("f"))
    with pytest.raises(ValueError, match="verify_exported"):
        Program(verify_exported=1)  # type: ignore[arg-type]  # what a configuration may say
    assert Program(verify_exported=True).settings() == {"verify_exported": True}
    assert Program().settings() == {}
    assert Program().version != Program(verify_exported=True).version
