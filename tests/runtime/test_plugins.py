"""The door by which domains enter."""

import pytest

from placet.domains.world import World
from placet.runtime.plugins import DomainNotFound, default_domain, domain_names, find_domain
from tests.kernel.domains import Lab

OWN_DOMAIN = """
from placet.kernel import Domain, Kind

class Own(Domain):
    name, version = "own", "1"
    kinds = (Kind("Pass", dict, lambda draft, intent: None),)

not_callable = 7
"""


def test_a_domain_is_found_by_its_installed_name():
    assert find_domain("world") is World
    assert "world" in domain_names()
    assert isinstance(default_domain(), World)


def test_the_world_is_found_without_installed_metadata(monkeypatch):
    monkeypatch.setattr("placet.runtime.plugins.entry_points", lambda group: ())
    assert find_domain("world") is World
    assert domain_names() == ["world"]


def test_a_domain_is_found_as_module_and_class():
    assert find_domain("tests.kernel.domains:Lab") is Lab


def test_a_module_in_the_current_folder_is_found_and_the_path_left_as_it_was(tmp_path, monkeypatch):
    import sys

    (tmp_path / "own_domain_of_a_test.py").write_text(OWN_DOMAIN)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    assert find_domain("own_domain_of_a_test:Own")().name == "own"
    assert sys.path == path
    with pytest.raises(DomainNotFound, match="has no class 'not_callable'"):
        find_domain("own_domain_of_a_test:not_callable")


def test_a_module_that_fails_is_said_with_what_it_raised(tmp_path, monkeypatch):
    (tmp_path / "failing_domain_of_a_test.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DomainNotFound, match="ZeroDivisionError"):
        find_domain("failing_domain_of_a_test:Own")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("word", "did you mean 'world'"),
        ("zzz", "installed: .*world"),
        ("no_such_module_here:Own", "cannot import the module of domain"),
        ("tests.kernel.domains:Nothing", "has no class 'Nothing'"),
        (":Own", "names no class"),
        ("module:", "names no class"),
        (".relative:Own", "names no class"),
        ("a b:Own", "names no class"),
    ],
)
def test_what_is_no_domain_is_said_with_what_was_expected(spec, message):
    with pytest.raises(DomainNotFound, match=message):
        find_domain(spec)
