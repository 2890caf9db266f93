"""The names that users type, as the specification lists them (names.md), and their shapes."""

import inspect
from dataclasses import fields
from typing import Any

import pytest

import placet
import placet.errors
from placet import AgentHandle, Intent, Orchestrator, OrchestratorConfig
from placet.domains.world import World
from placet.kernel import Kernel

NAMES = """
    Orchestrator OrchestratorConfig AgentHandle Intent Batch Verdict Refusal RefusalCode View
    WorldState EffectValidator Domain Kind
    PlacetError IntentError AgentError PermissionDeniedError DuplicateRequestError
    StaleContextError QuotaExceededError BackpressureError ValidationError StoreError
"""
EXPORTS = NAMES.split()

# name -> (is it awaited, its parameters; `*` stands before those that are named)
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
    "statistics": (False, ""),
}

HANDLE: Shapes = {
    "intent": (False, "kind **payload"),
    "submit": (True, "batch"),
    "submit_intents": (True, "intents"),
    "refresh_view": (True, ""),
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

SHAPES = [
    (owner, name, *shape)
    for owner, shapes in (
        (Orchestrator, ORCHESTRATOR),
        (AgentHandle, HANDLE),
        (Kernel, KERNEL),
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
def test_the_package_exports_the_name(name):
    assert name in placet.__all__
    assert getattr(placet, name) is not None
    if name.endswith("Error"):
        assert getattr(placet.errors, name) is getattr(placet, name)
        assert issubclass(getattr(placet, name), placet.PlacetError)


def test_a_structure_error_is_a_value_error_too():
    assert issubclass(placet.IntentError, ValueError)


@pytest.mark.parametrize(
    ("owner", "name", "is_awaited", "parameters"),
    SHAPES,
    ids=[f"{owner.__name__}.{name}" for owner, name, *_ in SHAPES],
)
def test_the_method_has_its_shape(owner, name, is_awaited, parameters):
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
def test_the_property_is_there(owner, name):
    assert isinstance(inspect.getattr_static(owner, name), property)


def test_an_orchestrator_is_an_async_context_manager():
    assert inspect.iscoroutinefunction(Orchestrator.__aenter__)
    assert inspect.iscoroutinefunction(Orchestrator.__aexit__)


def test_a_ticket_is_awaitable():
    from placet.runtime.pending_verdict import PendingVerdict

    assert hasattr(PendingVerdict, "__await__")


def test_the_configuration_has_its_fields_and_defaults():
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


def test_an_intent_is_a_typed_dict_of_the_documents_fields():
    assert Intent.__required_keys__ == {
        "kind",
        "payload",
        "agent_id",
        "req_id",
        "context_seq",
        "priority",
        "schema_version",
    }
