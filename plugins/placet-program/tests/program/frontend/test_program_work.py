"""The work of programs, bounded at the door."""

from placet_program import Program
from tests.kernel.builders import intent
from tests.server.served import codes, serving


async def test_a_dry_run_of_many_simulations_is_refused_for_its_work():
    """At the default limits it stopped the whole server for two minutes."""
    parameters, twice = [{"name": "n", "type": "int"}], {"op": "add", "inputs": ["n", "n"]}
    loop = [
        {"op": "add_function", "name": "f", "params": parameters, "returns": "int"},
        {"op": "set_node", "function": "f", "name": "n", "node": {"op": "param", "target": "n"}},
        {"op": "set_node", "function": "f", "name": "r", "node": twice},
        {"op": "set_result", "function": "f", "node": "r"},
    ]  # fmt: skip
    run = {"function": "f", "inputs": {"n": 1}, "fuel": 100_000}
    async with serving(Program()) as served:
        made = await served.submit(intent("program.mutate_batch", {"mutations": loop}))
        assert made.status_code == 200
        many = [intent("program.simulate", run, f"s:{number}") for number in range(512)]
        refused = await served.post("dry-run", many)
        assert (refused.status_code, codes(refused)) == (422, ["work_exceeded"])
        assert "retry-after" not in refused.headers
        assert (await served.post("dry-run", many[:20])).json()["admitted"]
