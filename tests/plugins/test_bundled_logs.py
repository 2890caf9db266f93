"""A log of a bundled scenario names its domain, which the commands find by that name."""

from typing import Any

import pytest

from placet.history.verify_log import verify_log
from placet.kernel.plugin.rules_version import Rules
from placet.plugins.domains import BUNDLED, DomainNotRemade, remake
from placet.scenarios import Scenario
from placet.scenarios.engine import run_scenario
from placet.stores.reading import log_to_read


@pytest.mark.parametrize("name", BUNDLED)
def test_the_log_of_a_bundled_scenario_is_verified_without_its_domain(name, tmp_path):
    counts = ["populations.birds.count=20"] if name in {"flock", "shepherd"} else []
    scenario = Scenario.load(name, overrides=["ticks=2", *counts])
    store = f"sqlite:///{tmp_path}/run.db"
    run_scenario(scenario, store=store)
    assert scenario.domain == BUNDLED[name]
    assert verify_log(log_to_read(store), remake).integrity.is_ok


def rules(settings: dict[str, Any]) -> Rules:
    return Rules([("flock", "1")], "", {"flock": settings}, {}, "")


@pytest.mark.parametrize("settings", [{}, {"side": 5.0}, {"size": 5.0, "speed": 1.0}])
def test_a_domain_of_a_user_is_not_taken_for_the_bundled_one_of_its_name(settings):
    with pytest.raises(DomainNotRemade, match="--domain module:attribute"):
        remake(rules(settings))


def test_a_bundled_domain_has_the_settings_of_the_log():
    (made,) = remake(rules({"side": 5.0, "speed": 2.0}))
    assert made.settings() == {"side": 5.0, "speed": 2.0}
