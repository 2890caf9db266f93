"""What the program was: told, compared, put back; per function, and bounded."""

import random

import pytest

from placet.domains.program.history import since
from placet.domains.program.payloads import COMMITS_MAX, HISTORY_BYTES_MAX
from tests.domains.program.programs import Desk, begin, calculator, put, result


def functions(desk):
    return desk.kernel.tree.as_dict().get("program.functions", {})


def calls(desk):
    return set(desk.kernel.tree.as_dict().get("program.calls", {}))


def as_seen(desk):
    """All of the program that a planner sees, and the calls that belong to it."""
    return functions(desk), calls(desk)


def remove(name):
    return {"op": "remove_function", "name": name}


def test_restore_returns_to_an_old_program_by_a_new_commit():
    desk = Desk()
    desk.mutate(*calculator())
    seq, before = desk.kernel.seq, as_seen(desk)
    desk.mutate(put("calc", "zero", "const", value=9.0), put("add", "r", "sub", "a", "b"))
    desk.mutate(begin("extra"), remove("calc"), remove("div"))
    after = as_seen(desk)
    told = desk.ask("restore", to_seq=seq)
    assert sorted(told["functions"]) == ["add", "calc", "div", "extra"]
    assert told["functions"]["extra"] is None
    assert as_seen(desk) == before
    assert desk.run("calc", op="add", a=2, b=3)["value"] == 5.0
    undone = desk.ask("history_query", op="list")["commits"][-1]
    assert (undone["op"], undone["seq"]) == ("restore", desk.kernel.seq - 2)
    desk.ask("restore", to_seq=undone["seq"] - 1)  # undo of the undo
    assert as_seen(desk) == after


def test_restore_to_the_present_is_no_commit():
    desk = Desk()
    desk.mutate(*calculator())
    before = desk.kernel.digest()
    assert desk.ask("restore", to_seq=desk.kernel.seq)["functions"] == {}
    assert desk.kernel.digest() == before


def test_any_version_can_be_restored_from_any_other():
    chance, desk = random.Random(3), Desk()
    seen = {desk.kernel.seq: as_seen(desk)}
    for number in range(40):
        name, there = chance.choice("fgh"), functions(desk)
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
        verdict = desk.propose("ann", "program.mutate_batch", mutations=batch)
        if verdict.admitted:
            seen[desk.kernel.seq] = as_seen(desk)
    assert len(seen) > 25
    for seq in chance.sample(list(seen), 20):
        desk.ask("restore", to_seq=seq)
        assert as_seen(desk) == seen[seq]


def test_int_1_and_float_1_0_are_distinct_values():
    desk = Desk()
    desk.mutate(begin("f"), put("f", "c", "const", value=1), result("f", "c"))
    first = desk.kernel.seq
    desk.mutate(put("f", "c", "const", value=1.0))
    assert desk.ask("verify")["diagnostics"][0]["code"] == "program.result_type_mismatch"
    [change] = desk.ask("history_query", op="diff", from_seq=first)["changes"]
    assert (change["path"], type(change["new"]["value"])) == ("f/nodes/c", float)
    desk.ask("restore", to_seq=first)
    assert type(functions(desk)["f"]["nodes"]["c"]["value"]) is int


def test_repeating_a_mutation_is_no_commit():
    desk = Desk()
    desk.mutate(*calculator())
    before = desk.kernel.digest()
    assert desk.mutate(result("calc", "s_add"))["functions"] == {}
    assert desk.kernel.digest() == before


def test_a_diff_lists_each_changed_part():
    desk = Desk()
    desk.mutate(begin("f"), put("f", "c", "const", value=1), put("f", "d", "const", value=1))
    first = desk.kernel.seq
    gone = {"op": "remove_node", "function": "f", "name": "d"}
    desk.mutate(gone, put("f", "c", "const", value=2), result("f", "c"), begin("g"), by="bob")
    told = desk.ask("history_query", op="diff", from_seq=first)
    assert [(one["path"], one["op"]) for one in told["changes"]] == [
        ("f", "replace"),
        ("f/nodes/c", "replace"),
        ("f/nodes/d", "remove"),
        ("g", "add"),
    ]
    assert told["changes"][0]["new"]["result"] == "c"
    back = desk.ask("history_query", op="diff", from_seq=told["to_seq"], to_seq=first)
    assert [one["op"] for one in back["changes"]] == ["replace", "replace", "add", "remove"]
    assert desk.ask("history_query", op="diff", limit=2, from_seq=first)["truncated"]


def test_a_list_has_the_latest_commits_in_order():
    desk = Desk()
    for number in range(5):
        desk.mutate(begin(f"f{number}"), by="ann" if number % 2 else "bob")
    told = desk.ask("history_query", op="list", limit=3)
    assert [one["functions"] for one in told["commits"]] == [("f2",), ("f3",), ("f4",)]
    assert [one["by"] for one in told["commits"]] == ["bob", "ann", "bob"]
    assert told["truncated"]
    seqs = [one["seq"] for one in told["commits"]]
    some = desk.ask("history_query", op="list", from_seq=seqs[0], to_seq=seqs[1])
    assert [one["seq"] for one in some["commits"]] == seqs[:2]


# bounds


def test_the_history_is_bounded_in_commits():
    desk = Desk()
    desk.mutate(begin("f"))
    seqs = []
    for number in range(COMMITS_MAX + 40):
        desk.mutate(put("f", "c", "const", value=number))
        seqs.append(desk.kernel.seq)
    tree = desk.kernel.tree
    assert tree.count("program.commits") == tree.count("program.versions") == COMMITS_MAX
    assert since(tree) == seqs[39]
    desk.ask("restore", to_seq=since(tree))
    assert functions(desk)["f"]["nodes"]["c"]["value"] == 39


def test_the_history_is_bounded_in_bytes():
    desk = Desk()
    desk.mutate(begin("f"))
    for number in range(4):
        names = [f"c{number}_{i}" for i in range(15)]
        desk.mutate(*[put("f", name, "const", value="x" * 4096) for name in names])
    for number in range(60):
        desk.mutate(put("f", "n", "const", value=number))
    tree = desk.kernel.tree
    kept = [tree.get("program.commits", one, "bytes") for one in tree.ids("program.commits")]
    assert HISTORY_BYTES_MAX - 256 * 1024 < sum(kept) <= HISTORY_BYTES_MAX
    desk.ask("restore", to_seq=since(tree))
    assert functions(desk)["f"]["nodes"]["n"]["value"] < 60


def test_the_latest_commit_is_kept_at_any_size(monkeypatch):
    monkeypatch.setattr("placet.domains.program.history.HISTORY_BYTES_MAX", 10)
    desk = Desk()
    desk.mutate(*calculator())
    for number in range(3):
        desk.mutate(put("calc", "zero", "const", value=float(number + 1)))
    seq, before = desk.kernel.seq, as_seen(desk)
    desk.mutate(put("calc", "zero", "const", value=9.0))
    assert since(desk.kernel.tree) == seq
    desk.ask("restore", to_seq=seq)
    assert as_seen(desk) == before


# staleness is per function


def test_a_mutation_of_a_function_changed_since_is_stale():
    desk = Desk()
    desk.mutate(*calculator())
    seen = desk.kernel.seq
    desk.mutate(put("calc", "zero", "const", value=1.0), by="bob")
    refusal = desk.refused(put("calc", "zero", "const", value=2.0), context_seq=seen)
    assert refusal.code == "stale_context"
    [change] = refusal.changed
    assert (change["entity"], change["by"]) == ("program.functions/calc", "bob")
    assert desk.mutate(put("add", "c", "const", value=2.0), context_seq=seen)


def test_changed_functions_are_named_in_the_order_of_the_batch():
    desk = Desk()
    names = [f"f{i}" for i in (3, 1, 4, 5, 9, 2, 6)]
    desk.mutate(*map(begin, names))
    seen = desk.kernel.seq
    desk.mutate(*[put(name, "c", "const", value=1) for name in sorted(names)], by="bob")
    batch = [put(name, "c", "const", value=2) for name in [*names, *names]]
    refusal = desk.refused(*batch, context_seq=seen)
    assert [one["entity"] for one in refusal.changed] == [f"program.functions/{n}" for n in names]


def test_calling_a_function_changed_since_is_stale():
    desk = Desk()
    desk.mutate(*calculator(), begin("mine"))
    seen = desk.kernel.seq
    desk.mutate(put("add", "r", "sub", "a", "b"), by="bob")
    call = put("mine", "c", "call", target="add")
    assert desk.refused(call, context_seq=seen).code == "stale_context"


def test_removing_a_function_reads_its_callers():
    desk = Desk()
    desk.mutate(begin("f"), begin("g"))
    seen = desk.kernel.seq
    desk.mutate(put("g", "c", "call", target="f"), by="bob")
    assert desk.refused(remove("f"), context_seq=seen).code == "stale_context"
    assert desk.refused(remove("f")).code == "program.function_in_use"
    desk.mutate({"op": "remove_node", "function": "g", "name": "c"}, by="bob")
    assert desk.mutate(remove("f"))["functions"] == {"f": None}


def test_restoring_over_an_unseen_change_is_stale():
    desk = Desk()
    desk.mutate(begin("f"))
    seen = desk.kernel.seq
    desk.mutate(begin("g"), by="bob")
    assert desk.refusal("restore", to_seq=seen, context_seq=seen).code == "stale_context"
    assert desk.ask("restore", to_seq=seen)["functions"] == {"g": None}


def test_an_expected_hash_that_differs_is_stale():
    desk = Desk()
    told = desk.mutate(*calculator())
    seen = dict(told["functions"])
    desk.mutate(put("calc", "zero", "const", value=1.0))
    more = put("calc", "one", "const", value=1.0)
    refusal = desk.refused(more, expected={"calc": seen["calc"], "add": seen["add"]})
    assert (refusal.code, refusal.at) == ("program.stale", "/intents/0/payload/expected/calc")
    assert desk.mutate(more, expected={"calc": refusal.details["hash"]})
    assert desk.refused(more, expected={"none": "0" * 16}).code == "program.stale"


@pytest.mark.parametrize("by", ["ann", "bob"])
def test_an_agents_own_change_does_not_make_it_stale(by):
    desk = Desk()
    desk.mutate(begin("f"))
    seen = desk.kernel.seq
    desk.mutate(put("f", "c", "const", value=1))
    verdict = desk.propose(
        by, "program.mutate_batch", context_seq=seen, mutations=[result("f", "c")]
    )
    assert verdict.admitted == (by == "ann")
