"""The rule for registered names: every part that takes a new name refuses what it refuses."""

import asyncio
import re

import pytest

from placet.agents.session.session import Session
from placet.kernel import Kernel
from placet.kernel.control.operator_patch import require_fork
from placet.lab import Collector
from placet.scenarios import load
from placet.schemas.config import KernelConfig
from placet.schemas.errors import PlacetError
from placet.schemas.names import NAME_PATTERN, PATH_PART_PATTERN, name_fault, path_part_fault
from tests.kernel.domains import Lab

UNSEEN = ["a\u202eb", "a\u200b", "\u3164", "a\u061cb", "a\x1b[31m", "a\n", "\x00", "\U000e0041"]
ESCAPING = ["..", "../a", "a/../../b", "/etc", "a\\b", ".", ".a", "a.", "a ", "C:\\a"]
DEVICES = ["con", "NUL", "Com1.txt", "lpt9"]
GOOD = [
    "a",
    "Zoë",
    "名前",
    "a b",
    "[red]",
    "<b>",
    "=x",
    "a..b",
    "a:b",
    "town@12-ab",
    "❤️",
    "console",
]


@pytest.mark.parametrize("name", GOOD)
def test_a_name_of_seen_characters_may_be_registered(name):
    assert name_fault(name) == path_part_fault(name) == ""
    assert re.search(NAME_PATTERN, name)
    assert re.search(PATH_PART_PATTERN, name)


@pytest.mark.parametrize("name", UNSEEN)
def test_a_name_with_an_unseen_character_is_refused_in_ascii(name):
    assert "bidirectional" in name_fault(name)
    assert name_fault(name).isascii()
    assert path_part_fault(name) == name_fault(name)
    if max(name) <= "\uffff":
        assert not re.search(NAME_PATTERN.replace("$", r"\Z"), name)
        assert not re.search(PATH_PART_PATTERN.replace("$", r"\Z"), name)


@pytest.mark.parametrize("name", ["", "a" * 129, 7, None])
def test_a_name_has_one_to_128_characters(name):
    assert "must be 1 to 128 characters" in name_fault(name)


@pytest.mark.parametrize("name", ESCAPING + DEVICES)
def test_a_name_in_a_path_leads_into_no_other_folder(name):
    assert name_fault(name) == ""
    assert "because it is a part of a path" in path_part_fault(name)
    assert not re.search(PATH_PART_PATTERN, name) or name in DEVICES


def register(name):
    Kernel(Lab()).register_agent(name)


def register_owner(name):
    Kernel(Lab()).register_agent("ann", owner=name)


def register_executor(name):
    Kernel(Lab()).change_executor(name, 1)


def open_session(name):
    asyncio.run(_open_session(name))


async def _open_session(name):
    await Session.open(session=name)


def collect(name):
    Collector(world={name: "tests.cli.hostile:text"})


def name_domain(name):
    Kernel(type("Named", (Lab,), {"name": f"a{name}"})())


def begin_world(name):
    Kernel(Lab(), KernelConfig(world=name))


def fork_world(name):
    require_fork(name, "world", "refuse")


def load_scenario(name):
    quoted = "".join(f"\\U{ord(character):08x}" for character in name)
    load("town", overrides=[f'name="{quoted}"'])


NAMING = [
    register,
    register_owner,
    register_executor,
    open_session,
    collect,
    name_domain,
]
NAMING_PATHS = [begin_world, fork_world, load_scenario]


@pytest.mark.parametrize("register_name", NAMING + NAMING_PATHS)
@pytest.mark.parametrize("name", UNSEEN)
def test_an_unseen_character_is_refused_in_every_registered_name(register_name, name):
    with pytest.raises((PlacetError, ValueError)) as caught:
        register_name(name)
    assert "\u202e" not in str(caught.value)


@pytest.mark.parametrize("register_name", NAMING_PATHS)
@pytest.mark.parametrize("name", ESCAPING + DEVICES)
def test_a_path_is_refused_in_every_name_that_becomes_a_part_of_one(register_name, name):
    with pytest.raises((PlacetError, ValueError), match="part of a path"):
        register_name(name)
