"""A program without an event loop has the same gate."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.tools.shop import QUIET

from placet.errors import ClosedError, StoreError
from placet_tools import Gate
from placet_tools.frontend.gate import SyncGate


def test_calls_plans_and_approvals_need_no_event_loop(shop, tmp_path):
    store = f"sqlite:///{tmp_path}/shop.db"
    with Gate(shop.tools, store=store, config=QUIET) as gate:
        assert gate.call("lookup", key="t1", order="A").status == "done"
        assert gate.outcome("t1").output["euro"] == 42
        held = gate.plan([("refund", {"order": "A"}), ("mail", {"to": "bob"})])
        (request,) = gate.approvals()
        assert request.id == held[0].approval
        assert gate.decide(request, "approve", by="ann").state == "approved"
        assert [one.status for one in gate.decision(request).outcomes] == ["done", "done"]
        shop.breaks = {"mail"}
        assert gate.call("mail", key="t2", to="eve").status == "doubt"
        assert gate.settle("t2", done=True, output="sent").status == "done"
    with Gate(shop.tools, store=store, config=QUIET) as gate:
        assert gate.outcome("t2").output == "sent"


def test_any_thread_may_call(shop):
    with Gate(shop.tools, config=QUIET) as gate, ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(gate.call, "lookup", order=str(n)) for n in range(20)]
        assert {call.result().status for call in calls} == {"done"}


def test_the_methods_of_both_gates_have_the_same_parameters():
    async_calls = {name for name, value in vars(Gate).items() if inspect.iscoroutinefunction(value)}
    public = {name for name in async_calls if not name.startswith("_")}
    assert {name for name in vars(SyncGate) if not name.startswith("_")} == public
    for name in public:
        ours, theirs = (inspect.signature(getattr(owner, name)) for owner in (SyncGate, Gate))
        assert ours == theirs


def test_an_exception_leaves_no_thread_and_no_open_store(shop, tmp_path):
    store = f"sqlite:///{tmp_path}/shop.db"
    gates = []

    def program():
        with Gate(shop.tools, store=store, config=QUIET) as gate:
            gates.append(gate)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program()
    (gate,) = gates
    assert repr(gate).startswith("<SyncGate of shop")
    with pytest.raises(RuntimeError):  # its event loop has ended
        gate.call("lookup", order="A")
    with Gate(shop.tools, store=store, config=QUIET) as gate:
        assert gate.call("lookup", order="A").status == "done"


def test_a_store_that_cannot_be_opened_is_an_error(shop, tmp_path):
    (tmp_path / "shop.db").write_text("no log")
    with (
        pytest.raises((ClosedError, StoreError)),
        Gate(shop.tools, store=f"sqlite:///{tmp_path}/shop.db", config=QUIET),
    ):
        pass
