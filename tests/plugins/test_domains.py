"""Find domains by name, and remake the domains of a log from its settings."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from placet.cli.app import run_command
from placet.domains.world import World
from placet.plugins.domains import (
    DomainNotFound,
    DomainNotRemade,
    default_domain,
    domain_names,
    find_domain,
    remake,
)
from tests.kernel.domains import Annex, Lab

OWN_DOMAIN = """
from placet.kernel import Domain, Kind

class Own(Domain):
    name, version = "own", "1"
    kinds = (Kind("Pass", dict, lambda draft, intent: None),)

not_callable = 7
"""


def test_domain_is_found_by_its_installed_name():
    assert find_domain("world") is World
    assert "world" in domain_names()
    assert isinstance(default_domain(), World)


def test_built_in_world_is_found_without_installed_metadata(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    assert find_domain("world") is World
    assert domain_names() == ["world"]


def test_entry_point_without_a_class_is_reported(monkeypatch):
    entries = EntryPoints([EntryPoint("halves", "json", "placet.domains")])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    with pytest.raises(
        DomainNotFound, match="'halves' names no class; expected module:attribute, got"
    ):
        find_domain("halves")


def test_domain_is_found_as_module_and_class():
    assert find_domain("tests.kernel.domains:Lab") is Lab


def test_module_in_the_current_folder_is_found_and_sys_path_restored(tmp_path, monkeypatch):
    import sys

    (tmp_path / "own_domain_of_a_test.py").write_text(OWN_DOMAIN)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    assert find_domain("own_domain_of_a_test:Own")().name == "own"
    assert sys.path == path
    with pytest.raises(DomainNotFound, match="has no class 'not_callable'"):
        find_domain("own_domain_of_a_test:not_callable")


def test_failing_module_is_reported_with_its_exception(tmp_path, monkeypatch):
    (tmp_path / "failing_domain_of_a_test.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DomainNotFound, match="ZeroDivisionError"):
        find_domain("failing_domain_of_a_test:Own")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("word", "did you mean 'world'"),
        ("zzz", "there are .*world"),
        ("no_such_module_here:Own", "cannot import the module of domain"),
        ("tests.kernel.domains:Nothing", "has no class 'Nothing'"),
        (":Own", "names no class"),
        ("module:", "names no class"),
        (".relative:Own", "names no class"),
        ("a b:Own", "names no class"),
    ],
)
def test_unknown_domain_is_reported_with_the_expected_forms(spec, message):
    with pytest.raises(DomainNotFound, match=message):
        find_domain(spec)


@pytest.mark.parametrize("spec", ["garden", "gardn"])
def test_a_plug_in_that_is_not_installed_is_named_with_its_installation(spec, monkeypatch, capsys):
    needed = ["anyio>=4.6", 'placet-garden ; extra == "garden"', 'mcp>=2 ; extra == "mcp"']
    monkeypatch.setattr("importlib.metadata.requires", lambda name: needed)
    with pytest.raises(DomainNotFound, match=r"pip install \./plugins/placet-garden$") as refused:
        find_domain(spec)
    assert ("did you mean 'garden'" in str(refused.value)) == (spec != "garden")
    assert run_command([spec]) == 2
    assert "is not installed: pip install ./plugins/placet-garden" in capsys.readouterr().err


# Remaking the domains of a log


def rules_of_world(*domains):
    from placet.kernel.plugin.registry import Registry
    from placet.kernel.plugin.rules_version import rules_of

    return rules_of(Registry(domains))


def test_domains_of_a_log_are_remade_from_its_settings():
    world = World(max_step=3, objects={"cup": {"position": [1, 2]}}, teams=("red",))
    (again,) = remake(rules_of_world(world))
    assert isinstance(again, World)
    assert again.version == world.version
    assert again.setup == world.setup


def test_domain_passed_as_a_class_takes_the_settings_of_the_log():
    (again,) = remake(rules_of_world(World(max_step=3)), ["placet.domains.world:World"])
    assert isinstance(again, World)
    assert again.setup.max_step == 3


def test_domain_passed_as_an_object_or_factory_is_used_unchanged(tmp_path, monkeypatch):
    (tmp_path / "ready_domain_of_a_test.py").write_text(
        "from placet.domains.world import World\n"
        "ready = World(max_step=5)\n"
        "def make():\n    return ready\n"
        "def fail():\n    return World(max_step=-1)\n"
    )
    monkeypatch.chdir(tmp_path)
    rules = rules_of_world(World(max_step=3))
    (ready,) = remake(rules, ["ready_domain_of_a_test:ready"])
    assert isinstance(ready, World)
    assert ready.setup.max_step == 5
    assert remake(rules, ["ready_domain_of_a_test:make"]) == [ready]
    with pytest.raises(DomainNotRemade, match="max_step must be a number above 0"):
        remake(rules, ["ready_domain_of_a_test:fail"])
    assert find_domain("ready_domain_of_a_test:ready")() is ready


def test_domain_without_settings_in_the_log_is_refused():
    with pytest.raises(DomainNotRemade, match="does not have the settings of domain 'lab'"):
        remake(rules_of_world(Lab()))
    (again,) = remake(rules_of_world(Lab()), ["tests.kernel.domains:Lab"])
    assert isinstance(again, Lab)


def test_log_cannot_name_a_function_to_call(tmp_path):
    """Logs and packs may come from untrusted sources: verifying one must not run code it names."""
    function, here = "builtins:open", tmp_path / "opened"
    rules = rules_of_world(World())._replace(
        domains=[(function, "1")], settings={function: {"file": str(here), "mode": "w"}}
    )
    with pytest.raises(DomainNotRemade, match="'builtins:open', but a domain's name is an ident"):
        remake(rules)
    assert not here.exists()


def test_domains_that_the_log_does_not_have_are_refused():
    both = rules_of_world(World(max_step=2), Annex())
    world, annex = remake(both, ["tests.kernel.domains:Annex"])
    assert (world.name, annex.name) == ("world", "annex")
    with pytest.raises(DomainNotRemade, match="the log is of the domains world, and 'lab' is"):
        remake(rules_of_world(World()), ["tests.kernel.domains:Lab"])
    with pytest.raises(DomainNotRemade, match="makes no domain"):
        remake(rules_of_world(World()), ["builtins:dict"])
