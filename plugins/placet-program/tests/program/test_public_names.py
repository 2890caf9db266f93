"""The public names, of which the source documents speak."""

import pytest

import placet_program
from placet_program.frontend import plan_v1


@pytest.mark.parametrize("name", ["Program"])
def test_the_package_has_the_name(name):
    assert name in placet_program.__all__


def test_the_planner_contract_is_there():
    assert plan_v1.PlanV1.__doc__
