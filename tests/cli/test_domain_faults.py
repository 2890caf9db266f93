"""A domain that cannot be used ends a command in one line with the domain, the fault, the place."""

import sys

import pytest

DOMAINS = """
from placet import Domain, Kind


def rule(draft, intent):
    return None


class Good(Domain):
    name, version, kinds = "good", "1", (Kind("Do", dict[str, int], rule),)


class Init(Good):
    def __init__(self):
        {}["color"]


class Settings(Good):
    def settings(self):
        return [][0]


class Hook(Good):
    def on_open(self):
        pass


class Misspelled(Good):
    def on_registr(self, draft, agent_id, attributes):
        pass


class NoVersion(Domain):
    name, kinds = "bare", (Kind("Do", dict[str, int], rule),)


def no_domain():
    return 5


def wait(view):
    return []


def broken():
    raise RuntimeError("no network")
"""

SCENARIO = """
domain = "domains:{}"
ticks = 1
[agents.folk]
count = 1
policy = "domains:wait"
"""

FAULTS = {
    "Init": (
        "creation of domain 'domains:Init' raised KeyError: 'color' (domains.py:15 in __init__)"
    ),
    "Settings": "settings of domain 'good' raised IndexError: list index out of range (domains.py:",
    "Hook": "Hook.on_open must take (draft), got ()",
    "Misspelled": "Misspelled.on_registr is no hook, so it would never be called; did you mean",
    "NoVersion": 'the domain NoVersion has no version; set it in the class, such as version = "1"',
    "no_domain": "'domains:no_domain' makes no domain: expected a subclass of placet.Domain, got 5",
    "broken": "creation of domain 'domains:broken' raised RuntimeError: no network (domains.py:",
}


@pytest.fixture
def files(placet, monkeypatch):
    (placet.folder / "domains.py").write_text(DOMAINS)
    monkeypatch.delitem(sys.modules, "domains", raising=False)
    return placet.folder


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("command", ["run", "gate", "kinds", "serve"])
def test_a_domain_that_cannot_be_used_is_one_line(placet, files, command, name):
    arguments = ["--domain", f"domains:{name}"]
    if command == "run":
        (files / "scenario.toml").write_text(SCENARIO.format(name))
        arguments = ["scenario.toml", "--store", "memory://"]
    outcome = placet(command, *arguments)
    assert outcome.code == 1
    assert FAULTS[name] in outcome.err
    assert outcome.err.startswith("placet: ")
    assert outcome.err.count("\n") == 1


def test_a_module_that_raises_is_one_line_with_its_place(placet, files):
    (files / "faulty_module.py").write_text("\nraise ValueError('no such color')\n")
    outcome = placet("kinds", "--domain", "faulty_module:Shop")
    assert "raised ValueError: no such color (faulty_module.py:2 in <module>)" in outcome.err
    assert outcome.err.count("\n") == 1
