"""The calls of models, as the adapters of all frameworks decide them."""

import subprocess
import sys
from importlib import import_module

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet_tools.frontend.calls import digest_of_place
from placet_tools.frontend.extras import extra
from placet_tools.frontend.framework_calls import FrameworkCalls, ModelCall

PLACE = ["thread", "message"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON)
@example(float("inf"))
@example("\ud800")
@example(2**70)
def test_every_value_of_a_json_parser_has_a_key(value):
    assert len(digest_of_place("place", value)) == 32


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_arguments_is_not_in_the_key(arguments):
    assert digest_of_place(arguments) == digest_of_place(dict(reversed(arguments.items())))


async def test_the_calls_of_an_answer_share_one_decision_until_one_comes_again(gate):
    calls = FrameworkCalls(gate, "support", deferred=True)
    answer = [
        ModelCall("a", "lookup", {"order": "A"}),
        ModelCall("b", "mail", {"to": "competitor"}),
    ]

    async def outcome(call_id):
        return (await calls.outcome(PLACE, answer, call_id)).status

    def decisions():
        return gate.world.statistics()["batches"]

    assert (await outcome("a"), decisions()) == ("skipped", 1)
    assert (await outcome("a"), decisions()) == ("skipped", 2)
    assert (await outcome("b"), decisions()) == ("refused", 2)
    assert (await outcome("b"), decisions()) == ("refused", 3)


async def test_a_request_for_approval_runs_nothing(shop, gate):
    async def is_held(tool, **arguments):
        plan = [(tool, arguments)]
        return await gate.request_approval(plan, agent="support", key=f"{tool}-{arguments}")

    assert not await is_held("lookup", order="A")
    assert not await is_held("mail", to="competitor")
    assert await is_held("refund", order="A")
    (request,) = await gate.approvals()
    assert await is_held("refund", order="A")
    assert await gate.approvals() == [request]
    await gate.decide(request, "approve", by="ann")
    assert not await is_held("refund", order="A")
    assert shop.ran == [("refund", "A", 5)]


@pytest.mark.parametrize("name", ["langgraph", "openai-agents", "pydantic-ai"])
def test_a_missing_package_is_an_error_that_names_the_extra(name):
    with pytest.raises(ImportError, match=rf"no_such_package.*placet-tools\[{name}\]"), extra(name):
        import_module("no_such_package")


@pytest.mark.slow
def test_a_gate_imports_no_framework():
    code = "import placet_tools, sys; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {*shown.stdout.split()}
    assert not {"agents", "langchain_core", "langgraph", "pydantic_ai"} & modules
