"""History of a program: list, diff and restore, per function, and bounded."""

import random

import pytest
from tests.program.programs import ProgramDriver, begin, calculator, put, result

from placet_program.history import since
from placet_program.payloads import COMMITS_MAX, HISTORY_BYTES_MAX


def functions(driver):
    return driver.kernel.tree.as_dict().get("program.functions", {})


def calls(driver):
    return set(driver.kernel.tree.as_dict().get("program.calls", {}))


def as_seen(driver):
    """All of the program that a planner sees, and the calls that belong to it."""
    return functions(driver), calls(driver)


def remove(name):
    return {"op": "remove_function", "name": name}


def test_restore_returns_to_an_old_program_by_a_new_commit():
    driver = ProgramDriver()
    driver.mutate(*calculator())
    seq, before = driver.kernel.seq, as_seen(driver)
    driver.mutate(put("calc", "zero", "const", value=9.0), put("add", "r", "sub", "a", "b"))
    driver.mutate(begin("extra"), remove("calc"), remove("div"))
    after = as_seen(driver)
    told = driver.ask("restore", to_seq=seq)
    assert sorted(told["functions"]) == ["add", "calc", "div", "extra"]
    assert told["functions"]["extra"] is None
    assert as_seen(driver) == before
    assert driver.run("calc", op="add", a=2, b=3)["value"] == 5.0
    undone = driver.ask("history_query", op="list")["commits"][-1]
    assert (undone["op"], undone["seq"]) == ("restore", driver.kernel.seq - 2)
    driver.ask("restore", to_seq=undone["seq"] - 1)  # undo of the undo
    assert as_seen(driver) == after


def test_restore_to_the_present_is_no_commit():
    driver = ProgramDriver()
    driver.mutate(*calculator())
    before = driver.kernel.digest()
    assert driver.ask("restore", to_seq=driver.kernel.seq)["functions"] == {}
    assert driver.kernel.digest() == before


def test_any_version_can_be_restored_from_any_other():
    chance, driver = random.Random(3), ProgramDriver()
    seen = {driver.kernel.seq: as_seen(driver)}
    for number in range(40):
        name, there = chance.choice("fgh"), functions(driver)
        if name not in there:
            batch = [begin(name), put(name, "c", "const", value=number), result(name, "c")]
        elif chance.random() < 0.2:
            batch = [remove(name)]
        else:
            target = chance.choice(list(there))
            batch = [
                put(name, "call", "call", target=target),
                put(name, "c", "const", value=number),
            ]
        verdict = driver.propose("ann", "program.mutate_batch", mutations=batch)
        if verdict.admitted:
            seen[driver.kernel.seq] = as_seen(driver)
    assert len(seen) > 25
    for seq in chance.sample(list(seen), 20):
        driver.ask("restore", to_seq=seq)
        assert as_seen(driver) == seen[seq]


def test_int_1_and_float_1_0_are_distinct_values():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "c", "const", value=1), result("f", "c"))
    first = driver.kernel.seq
    driver.mutate(put("f", "c", "const", value=1.0))
    assert driver.ask("verify")["diagnostics"][0]["code"] == "program.result_type_mismatch"
    [change] = driver.ask("history_query", op="diff", from_seq=first)["changes"]
    assert (change["path"], type(change["new"]["value"])) == ("f/nodes/c", float)
    driver.ask("restore", to_seq=first)
    assert type(functions(driver)["f"]["nodes"]["c"]["value"]) is int


def test_repeating_a_mutation_is_no_commit():
    driver = ProgramDriver()
    driver.mutate(*calculator())
    before = driver.kernel.digest()
    assert driver.mutate(result("calc", "s_add"))["functions"] == {}
    assert driver.kernel.digest() == before


def test_a_diff_lists_each_changed_part():
    driver = ProgramDriver()
    driver.mutate(begin("f"), put("f", "c", "const", value=1), put("f", "d", "const", value=1))
    first = driver.kernel.seq
    gone = {"op": "remove_node", "function": "f", "name": "d"}
    driver.mutate(gone, put("f", "c", "const", value=2), result("f", "c"), begin("g"), by="bob")
    told = driver.ask("history_query", op="diff", from_seq=first)
    assert [(one["path"], one["op"]) for one in told["changes"]] == [
        ("f", "replace"),
        ("f/nodes/c", "replace"),
        ("f/nodes/d", "remove"),
        ("g", "add"),
    ]
    assert told["changes"][0]["new"]["result"] == "c"
    back = driver.ask("history_query", op="diff", from_seq=told["to_seq"], to_seq=first)
    assert [one["op"] for one in back["changes"]] == ["replace", "replace", "add", "remove"]
    assert driver.ask("history_query", op="diff", limit=2, from_seq=first)["truncated"]


def test_a_list_has_the_latest_commits_in_order():
    driver = ProgramDriver()
    for number in range(5):
        driver.mutate(begin(f"f{number}"), by="ann" if number % 2 else "bob")
    told = driver.ask("history_query", op="list", limit=3)
    assert [one["functions"] for one in told["commits"]] == [("f2",), ("f3",), ("f4",)]
    assert [one["by"] for one in told["commits"]] == ["bob", "ann", "bob"]
    assert told["truncated"]
    seqs = [one["seq"] for one in told["commits"]]
    some = driver.ask("history_query", op="list", from_seq=seqs[0], to_seq=seqs[1])
    assert [one["seq"] for one in some["commits"]] == seqs[:2]


# bounds


def test_the_history_is_bounded_in_commits():
    driver = ProgramDriver()
    driver.mutate(begin("f"))
    seqs = []
    for number in range(COMMITS_MAX + 40):
        driver.mutate(put("f", "c", "const", value=number))
        seqs.append(driver.kernel.seq)
    tree = driver.kernel.tree
    assert tree.count("program.commits") == tree.count("program.versions") == COMMITS_MAX
    assert since(tree) == seqs[39]
    driver.ask("restore", to_seq=since(tree))
    assert functions(driver)["f"]["nodes"]["c"]["value"] == 39


def test_the_history_is_bounded_in_bytes():
    driver = ProgramDriver()
    driver.mutate(begin("f"))
    for number in range(4):
        names = [f"c{number}_{i}" for i in range(15)]
        driver.mutate(*[put("f", name, "const", value="x" * 4096) for name in names])
    for number in range(60):
        driver.mutate(put("f", "n", "const", value=number))
    tree = driver.kernel.tree
    kept = [tree.get("program.commits", one, "bytes") for one in tree.ids("program.commits")]
    assert HISTORY_BYTES_MAX - 256 * 1024 < sum(kept) <= HISTORY_BYTES_MAX
    driver.ask("restore", to_seq=since(tree))
    assert functions(driver)["f"]["nodes"]["n"]["value"] < 60


def test_the_latest_commit_is_kept_at_any_size(monkeypatch):
    monkeypatch.setattr("placet_program.history.HISTORY_BYTES_MAX", 10)
    driver = ProgramDriver()
    driver.mutate(*calculator())
    for number in range(3):
        driver.mutate(put("calc", "zero", "const", value=float(number + 1)))
    seq, before = driver.kernel.seq, as_seen(driver)
    driver.mutate(put("calc", "zero", "const", value=9.0))
    assert since(driver.kernel.tree) == seq
    driver.ask("restore", to_seq=seq)
    assert as_seen(driver) == before


# staleness is per function


def test_a_mutation_of_a_function_changed_since_is_stale():
    driver = ProgramDriver()
    driver.mutate(*calculator())
    seen = driver.kernel.seq
    driver.mutate(put("calc", "zero", "const", value=1.0), by="bob")
    refusal = driver.refused(put("calc", "zero", "const", value=2.0), context_seq=seen)
    assert refusal.code == "stale_context"
    [change] = refusal.changed
    assert (change["entity"], change["by"]) == ("program.functions/calc", "bob")
    assert driver.mutate(put("add", "c", "const", value=2.0), context_seq=seen)


def test_changed_functions_are_named_in_the_order_of_the_batch():
    driver = ProgramDriver()
    names = [f"f{i}" for i in (3, 1, 4, 5, 9, 2, 6)]
    driver.mutate(*map(begin, names))
    seen = driver.kernel.seq
    driver.mutate(*[put(name, "c", "const", value=1) for name in sorted(names)], by="bob")
    batch = [put(name, "c", "const", value=2) for name in [*names, *names]]
    refusal = driver.refused(*batch, context_seq=seen)
    assert [one["entity"] for one in refusal.changed] == [f"program.functions/{n}" for n in names]


def test_calling_a_function_changed_since_is_stale():
    driver = ProgramDriver()
    driver.mutate(*calculator(), begin("mine"))
    seen = driver.kernel.seq
    driver.mutate(put("add", "r", "sub", "a", "b"), by="bob")
    call = put("mine", "c", "call", target="add")
    assert driver.refused(call, context_seq=seen).code == "stale_context"


def test_removing_a_function_reads_its_callers():
    driver = ProgramDriver()
    driver.mutate(begin("f"), begin("g"))
    seen = driver.kernel.seq
    driver.mutate(put("g", "c", "call", target="f"), by="bob")
    assert driver.refused(remove("f"), context_seq=seen).code == "stale_context"
    assert driver.refused(remove("f")).code == "program.function_in_use"
    driver.mutate({"op": "remove_node", "function": "g", "name": "c"}, by="bob")
    assert driver.mutate(remove("f"))["functions"] == {"f": None}


def test_restoring_over_an_unseen_change_is_stale():
    driver = ProgramDriver()
    driver.mutate(begin("f"))
    seen = driver.kernel.seq
    driver.mutate(begin("g"), by="bob")
    assert driver.refusal("restore", to_seq=seen, context_seq=seen).code == "stale_context"
    assert driver.ask("restore", to_seq=seen)["functions"] == {"g": None}


def test_an_expected_hash_that_differs_is_stale():
    driver = ProgramDriver()
    told = driver.mutate(*calculator())
    seen = dict(told["functions"])
    driver.mutate(put("calc", "zero", "const", value=1.0))
    more = put("calc", "one", "const", value=1.0)
    refusal = driver.refused(more, expected={"calc": seen["calc"], "add": seen["add"]})
    assert (refusal.code, refusal.at) == ("program.stale", "/intents/0/payload/expected/calc")
    assert driver.mutate(more, expected={"calc": refusal.details["hash"]})
    assert driver.refused(more, expected={"none": "0" * 16}).code == "program.stale"


@pytest.mark.parametrize("by", ["ann", "bob"])
def test_an_agents_own_change_does_not_make_it_stale(by):
    driver = ProgramDriver()
    driver.mutate(begin("f"))
    seen = driver.kernel.seq
    driver.mutate(put("f", "c", "const", value=1))
    verdict = driver.propose(
        by, "program.mutate_batch", context_seq=seen, mutations=[result("f", "c")]
    )
    assert verdict.admitted == (by == "ann")
