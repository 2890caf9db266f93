"""Every exception of placet arrives from another process as it left, and can be copied."""

import copy
import pickle
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pkgutil import walk_packages
from typing import Any, Final

import pytest

import placet
from placet.agents.proposal.codes import Code
from placet.domains.world import World
from placet.history.timeline.timeline import Place
from placet.kernel import Kernel, refuse
from placet.kernel.log.divergence import Difference
from placet.schemas.missing_key import MissingKeyError
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.testing.trace import TraceRunner

_REFUSAL = Refusal(
    RefusalCode.STALE_CONTEXT.value,
    "changed",
    Stage.STALENESS,
    changed=({"entity": "lamp", "seq": 3},),
    details={"context_seq": 2},
)
_VERDICT = Verdict(
    "b1", admitted=False, seq=None, current_seq=4, sim_time=1.0, refusals=(_REFUSAL,)
)
_DIFFERENCE = Difference(
    record=1, seq=2, type="batch", part="code", recorded="a", decided="b", rule="Move of world 1"
)
_PLACED = {"store": "sqlite:///a.db", "seq": 5}

_ARGUMENTS: Final[Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]] = {
    **dict.fromkeys(
        ("StaleContextError", "QuotaExceededError", "BackpressureError"),
        (("text",), {"verdict": _VERDICT}),
    ),
    "PlacetError": (("text",), {"verdict": _VERDICT}),
    "SessionError": (("text",), {"code": "busy", "has_started": True, "route": "person"}),
    "StoreError": (("text",), _PLACED),
    "RetryAfter": ((2.5, "later"), {}),
    "MissingKeyError": (("shelv", "shop", ["shelf"]), {}),
    "MailboxFull": (("mailbox_bytes", 9, 8), {}),
    "PlannerOverBudget": (("text", Code.TOKENS_EXHAUSTED), {}),
    "_PlanFault": ((("plan", 0), "is missing"), {}),
    "PlanInvalidError": (([("/a", "wrong")],), {"is_version_missing": False}),
    "StalePlanError": (("text",), {"current_design_version": 4}),
    "OutOfRangeError": (("/a", "too large"), {}),
    "UnitConversionError": (("mm", "kg"), {}),
    "FileRefused": (("symlink_refused", "a link"), {}),
    "Trap": (("int_overflow",), {}),
    "UnclearError": (("which?", ("a", "b"), "the"), {}),
    "AgentRefused": ((refuse("full", "it is full"), "it is full"), {"domain": "lab"}),
    "RefusalRaised": ((refuse("full", "it is full"),), {}),
    "DecisionMismatch": ((_DIFFERENCE,), {}),
    "Divergence": ((1, 2, "no header"), {}),
    "PluginError": (("rule of Move", ValueError("x"), 1), {}),
    "CallFailed": (("KeyError", "'a'", "Traceback"), {}),
    "NoPlaceError": (("text",), {"first": Place(1, 0), "is_gone": True}),
    "ScenarioError": (("town", "agents.walker", "wrong"), {}),
    "PolicyError": (("town", "agents.walker", "wrong", "walker_1"), {}),
    "WorkerFailed": (("town", "agents.walker.policy", "wrong", 3, "walker_1"), {}),
    "RuleError": (("town", "domain", "wrong", "rule of Move"), {}),
    "SettingTypeError": (("beta", "text"), {}),
    "InvalidJsonValue": (("text",), {}),
    "NotSent": (("text",), {"is_final": True}),
    "Problem": (("not_found", "none"), {"headers": {"allow": "GET"}, "store": "x"}),
    "ColumnViolation": (("A", "Fly", 7, "row 3 differs"), {}),
    "SocketEnd": ((1008, "too large"), {}),
    "UnequalCallsError": ((), {}),
    "PropertyViolation": (("it holds", (), TraceRunner(World), "it does not"), {}),
}
"""Arguments of each class with an `__init__`, by the name of the class that defines it."""


def _exceptions():
    """Return all exception classes of the package."""
    for module in walk_packages(placet.__path__, "placet."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found, waiting = {}, [BaseException]
    while waiting:
        for made in waiting.pop().__subclasses__():
            if made not in found:
                waiting.append(made)
                found[made] = made.__module__.split(".")[0] == "placet"
    return sorted((m for m, is_ours in found.items() if is_ours), key=lambda m: m.__qualname__)


def _instance(made):
    by = next(each for each in made.__mro__ if "__init__" in vars(each))
    is_ours = by.__module__.split(".")[0] == "placet"
    args, options = _ARGUMENTS[by.__name__] if is_ours else (("text",), {})
    error = made(*args, **options)
    error.add_note("of agent alice")
    return error


def _facts(error):
    return type(error), str(error), repr(error), repr(vars(error))


@pytest.mark.parametrize("made", _exceptions(), ids=lambda made: made.__qualname__)
def test_an_exception_is_pickled_and_copied_with_its_attributes(made):
    error = _instance(made)
    copies = [copy.copy(error), copy.deepcopy(error)]
    copies += [pickle.loads(pickle.dumps(error, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)]
    assert {_facts(each) for each in copies} == {_facts(error)}


def _reads_a_missing_entity():
    kernel = Kernel(World())
    kernel.register_agent("alice", position=[0, 0])
    return kernel.state["world.agents"]["alise"]


def test_a_missing_key_of_a_state_is_the_error_of_a_worker():
    with (
        ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool,
        pytest.raises(MissingKeyError, match="no entity 'alise'; did you mean 'alice'"),
    ):
        pool.submit(_reads_a_missing_entity).result(60)


def test_a_missing_key_does_not_take_the_state_along():
    kernel = Kernel(World())
    for number in range(2_000):
        kernel.register_agent(f"a{number:04}", position=[0, 0])
    with pytest.raises(MissingKeyError) as caught:
        kernel.state["world.agents"]["bob"]
    sent = pickle.dumps(caught.value)
    assert b"a0999" in sent
    assert b"a1000" not in sent
    kernel.register_agent("bob", position=[0, 0])
    assert "bob'; there are a0000" in str(caught.value)
