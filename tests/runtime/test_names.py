"""The public names of the specification (names.md) exist and have their signatures."""

import importlib
import inspect
from dataclasses import fields
from typing import Any

import pytest

import placet
import placet.errors
from placet import AgentHandle, Intent, Orchestrator, OrchestratorConfig
from placet.agents import Session
from placet.domains.world import World
from placet.kernel import Kernel

NAMES = """
    Orchestrator OrchestratorConfig AgentHandle Intent Batch Verdict Refusal RefusalCode View
    WorldState EffectValidator Domain Kind
    PlacetError IntentError AgentError PermissionDeniedError DuplicateRequestError
    StaleContextError QuotaExceededError BackpressureError ValidationError StoreError
"""
EXPORTS = NAMES.split()

# name -> (is it a coroutine, its parameters; `*` comes before keyword-only parameters)
Shapes = dict[str, tuple[bool, str]]

ORCHESTRATOR: Shapes = {
    "__init__": (False, "domain=None config=None * effect_validator=None"),
    "register_agent": (True, "agent_id * permissions=None **attributes"),
    "submit_intent": (True, "intent sim_time=None"),
    "submit_intents": (True, "intents sim_time=None"),
    "submit": (True, "batch * dry_run=False"),
    "submit_nowait": (False, "batch"),
    "verdict_of": (True, "agent_id req_id"),
    "set_agent_permissions": (True, "agent_id permissions"),
    "suspend_agent": (True, "agent_id"),
    "resume_agent": (True, "agent_id"),
    "remove_agent": (True, "agent_id"),
    "step": (True, "dt"),
    "state": (True, "path=''"),
    "digest": (True, ""),
    "wait_effects": (True, ""),
    "events": (False, "since=0"),
    "query": (True, "fn"),
    "explain": (True, "agent_id req_id"),
    "statistics": (False, ""),
}

HANDLE: Shapes = {
    "intent": (False, "kind **payload"),
    "submit": (True, "batch"),
    "submit_nowait": (False, "batch"),
    "submit_intents": (True, "intents"),
    "observe": (False, ""),
    "fresh_context": (False, ""),
    "refresh_view": (True, ""),
    "deregister": (True, ""),
}

KERNEL: Shapes = {
    "__init__": (False, "domain config=None"),
    "register_agent": (False, "agent_id"),
    "decide": (False, "batch now=None"),
    "decide_group": (False, "batches now=None"),
    "tick": (False, "now"),
    "settle": (False, "settlement"),
    "snapshot": (False, ""),
    "restore": (False, "data"),
    "step": (False, "dt"),
    "digest": (False, ""),
}

WORLD: Shapes = {
    "__init__": (
        False,
        (
            "* objects=None bounds=None max_step=None interaction_range=None cooldowns=None "
            "interactions=None teams=None"
        ),
    ),
}

SESSION: Shapes = {
    "open": (False, "* domain=None mode=None adapter=None"),
    "send": (True, "message * adapter=None"),
    "hand_off": (True, "intent"),
    "approvals": (True, ""),
    "resolve": (True, "approval_id decision by"),
    "state": (True, ""),
}

# Names that other packages export: package -> names.
EXPORTED = {
    "placet.kernel": "Domain Draft EffectHandler Kernel Kind VisibilityPolicy refuse random_u64 "
    "random_unit randint_below",
    "placet.domains.memory": "Memory",
    "placet.domains.world": "World",
    "placet.agents": "AgentAdapter ChatIntent ExecutionPlan FunctionAdapter HumanAdapter Llm "
    "ReplayAdapter ScriptedAdapter Session",
    "placet.agents.contract": "parse",
    "placet.agents.tools": "definitions parse_intent to_intent",
    "placet.agents.context": "build",
    "placet.server": "create_app",
    "placet.testing": "domain_property_tests",
}
ORCHESTRATOR_NAMES_MAX = 55

SHAPES = [
    (owner, name, *shape)
    for owner, shapes in (
        (Orchestrator, ORCHESTRATOR),
        (AgentHandle, HANDLE),
        (Kernel, KERNEL),
        (Session, SESSION),
        (World, WORLD),
    )
    for name, shape in shapes.items()
]

PROPERTIES = [
    (Orchestrator, "sim_time"),
    (Orchestrator, "seq"),
    (Orchestrator, "metrics_registry"),
    (Kernel, "state"),
    (Kernel, "seq"),
]


@pytest.mark.parametrize("name", EXPORTS)
def test_package_exports_the_name(name):
    assert name in placet.__all__
    assert getattr(placet, name) is not None
    if name.endswith("Error"):
        assert getattr(placet.errors, name) is getattr(placet, name)
        assert issubclass(getattr(placet, name), placet.PlacetError)


@pytest.mark.parametrize(
    ("package", "name"),
    [(package, name) for package, names in EXPORTED.items() for name in names.split()],
)
def test_package_has_the_name(package, name):
    module = importlib.import_module(package)
    if not hasattr(module, name):
        importlib.import_module(f"{package}.{name}")


@pytest.mark.parametrize("owner", [Orchestrator, AgentHandle, Kernel])
def test_public_class_has_no_base_class(owner):
    assert owner.__bases__ == (object,)


def test_orchestrator_has_a_bounded_number_of_public_names():
    names = [name for name in vars(Orchestrator) if not name.startswith("_")]
    assert len(names) + 1 <= ORCHESTRATOR_NAMES_MAX  # and `config`, an attribute


def test_structure_error_is_a_value_error():
    assert issubclass(placet.IntentError, ValueError)


@pytest.mark.parametrize(
    ("owner", "name", "is_awaited", "parameters"),
    SHAPES,
    ids=[f"{owner.__name__}.{name}" for owner, name, *_ in SHAPES],
)
def test_method_has_its_signature(owner, name, is_awaited, parameters):
    method = getattr(owner, name)
    assert inspect.iscoroutinefunction(method) == is_awaited
    present = inspect.signature(method).parameters
    in_order, _, by_name = parameters.partition("* ")
    for position, written in enumerate(in_order.split(), start=1):
        if not written.startswith("**"):
            assert list(present)[position] == written.partition("=")[0]
    for written in [*in_order.split(), *by_name.split()]:
        name_and_stars, _, default = written.partition("=")
        found = present[name_and_stars.lstrip("*")]
        assert (found.kind is inspect.Parameter.VAR_KEYWORD) == written.startswith("**")
        if found.kind is inspect.Parameter.KEYWORD_ONLY:
            assert written in by_name.split()
        assert repr(found.default) == default or not default


@pytest.mark.parametrize(("owner", "name"), PROPERTIES, ids=lambda v: getattr(v, "__name__", v))
def test_property_exists(owner, name):
    assert isinstance(inspect.getattr_static(owner, name), property)


def test_orchestrator_is_an_async_context_manager():
    assert inspect.iscoroutinefunction(Orchestrator.__aenter__)
    assert inspect.iscoroutinefunction(Orchestrator.__aexit__)


def test_pending_verdict_is_awaitable():
    from placet.runtime.pending_verdict import PendingVerdict

    assert hasattr(PendingVerdict, "__await__")


def test_configuration_has_its_fields_and_defaults():
    expected: dict[str, Any] = {
        "store": "memory://",
        "seed": 0,
        "clock": "realtime",
        "staleness_threshold": None,
        "quotas": {},
        "mailbox_batches_max": None,
        "mailbox_bytes_max": None,
        "backpressure": "reject",
    }
    config = OrchestratorConfig()
    assert {name: getattr(config, name) for name in expected} == expected
    assert set(expected) <= {field.name for field in fields(OrchestratorConfig)}
    assert OrchestratorConfig(clock="stepped").clock == "stepped"


def test_intent_is_a_typed_dict_with_the_specified_fields():
    assert Intent.__required_keys__ == {
        "kind",
        "payload",
        "agent_id",
        "req_id",
        "context_seq",
        "priority",
        "schema_version",
    }
