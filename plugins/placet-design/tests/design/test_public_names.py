"""The public names, of which the source documents speak, and the keywords that they take."""

import pytest

import placet_design
from tests.schemas.public_keywords import assert_keyword_is_explained, with_options

RESULTS = {"ActionResult", "Adjustment", "AuditedAction", "ExecutionResult", "ValidationResult"}
"""Classes of which placet makes the objects."""


@pytest.mark.parametrize(
    "name", ["ActionExecutor", "Design", "EventDispatcher", "PhaseMachine", "StateManager"]
)
def test_the_package_has_the_name(name):
    assert name in placet_design.__all__


@pytest.mark.parametrize(("name", "called"), [*with_options("placet_design", RESULTS)])
def test_every_public_constructor_explains_its_keywords(name, called):
    assert_keyword_is_explained(name, called)
