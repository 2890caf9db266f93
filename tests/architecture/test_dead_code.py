"""No name and no module of a distribution is used by tests alone (`dead_code.py` finds them).

Benchmarks and examples are users. A name is public if a page of the documentation has it in its
code, if `__all__` of a package of `PUBLIC_PACKAGES` has it, or if it is one of `PUBLIC_NAMES`.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from placet.cli.command_table import COMMANDS
from tests.architecture.dead_code import (
    Module,
    dead_names,
    modules_below,
    read_module,
    unimported,
    words_in_code,
)

ROOT: Final = Path(__file__).parents[2]

PUBLIC_PACKAGES: Final = frozenset(
    {
        "placet",
        "placet.agents",
        "placet.agents.context",
        "placet.agents.contract",
        "placet.agents.tools",
        "placet.domains.memory",
        "placet.domains.space",
        "placet.domains.world",
        "placet.envs",
        "placet.errors",
        "placet.kernel",
        "placet.lab",
        "placet.runtime.executors",
        "placet.scenarios",
        "placet.server",
        "placet.stores",
        "placet.testing",
        "placet.testing.contracts",
        "placet.testing.faults",
        "placet_bench",
        "placet_design",
        "placet_files",
        "placet_files.frontend.codi",
        "placet_program",
        "placet_program.frontend.plan_v1",
        "placet_tools",
    }
)
"""Packages whose `__all__` users import from."""

PUBLIC_NAMES: Final[dict[str, str]] = {
    "submit_intent": "the name that the first documents give to a batch of one intent",
    "RemoteGate": "the class of `Gate(url=...)`, which imports it by name",
    "wait_question": "a HumanAdapter's question, for a front end of the user's own",
    # The façades of the documents that placet was built from, as those documents write them.
    "AIPlanner": "the action contract",
    "all_approved": "the design actions",
    "failure_of": "the planner contract",
    "from_json": "the design's state manager",
    "get_locked_parameters": "the design's state manager",
    "get_result": "the design's phase machine",
    "get_strict": "the design's state manager",
    "has_rejections": "the design actions",
    "lock_parameter": "the design's state manager",
    "PlanV1": "the planner contract",
    "take_pending": "the design's events",
    "to_json": "the design's state manager",
    "unlock_parameter": "the design's state manager",
    "unsubscribe": "the design's events",
    "with_value": "the design actions",
}
"""Names that no page shows, and why they are public."""

STARTED: Final = frozenset(
    {"placet.__main__", *(f"placet.cli.commands.{name.replace('-', '_')}" for name in COMMANDS)}
)
"""Modules that Python or the table of commands imports by name."""


@cache
def distributions() -> tuple[Module, ...]:
    """Read the modules of all distributions."""
    bases = [ROOT / "src", *sorted(ROOT.glob("plugins/placet-*/src"))]
    return tuple(module for base in bases for module in modules_below(base, base))


@cache
def users() -> tuple[Module, ...]:
    """Read the scripts that use the distributions, and are no tests."""
    return tuple(m for name in ("benchmarks", "examples") for m in modules_below(ROOT, ROOT / name))


@cache
def documented() -> frozenset[str]:
    """Return the identifiers in the code of all pages for users."""
    pages = [ROOT / "README.md", *ROOT.glob("plugins/*/README.md")]
    pages += [
        page
        for folder in (ROOT / "docs", *ROOT.glob("plugins/*/docs"))
        for page in folder.rglob("*.md")
        if "decisions" not in page.parts
    ]
    return frozenset().union(*(words_in_code(page.read_text("utf-8")) for page in pages))


def entry_points() -> Iterator[str]:
    """Yield the names and the modules of the entry points of all distributions."""
    for path in (ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        groups = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
        for target in (target for group in groups for target in group.values()):
            module, _, name = target.partition(":")
            yield from (module, name)


def public() -> frozenset[str]:
    """Return the names that may be used by users alone."""
    exported = {
        name
        for module in distributions()
        if module.name in PUBLIC_PACKAGES
        for name in module.exported
    }
    collected = {  # by pytest, in the class that an author derives
        one.word
        for module in distributions()
        if module.name.startswith("placet.testing.contracts.")
        for one in module.definitions
        if one.word.startswith("test_")
    }
    named = PUBLIC_NAMES.keys() | frozenset(entry_points())
    return documented() | exported | named | collected


def test_no_name_is_used_by_tests_alone():
    dead = dead_names(distributions(), users(), public())
    assert [str(one) for one in dead] == [], (
        "delete them, with the tests that test nothing else; a name for users needs a page"
    )


def test_no_module_lacks_an_importer():
    started = STARTED | PUBLIC_PACKAGES | frozenset(entry_points())
    dead = unimported(distributions(), users(), started)
    in_pages = " ".join(
        page.read_text("utf-8")
        for folder in (ROOT / "docs", *ROOT.glob("plugins/*/docs"))
        for page in folder.rglob("*.md")
    )
    assert [name for name in dead if not re.search(rf"\b{re.escape(name)}\b", in_pages)] == []


def test_each_listed_name_exists():
    defined = {one.word for module in distributions() for one in module.definitions}
    assert sorted(PUBLIC_NAMES.keys() - defined) == []
    assert sorted(PUBLIC_PACKAGES - {module.name for module in distributions()}) == []


PLANTED: Final = """
from library import Base

DEAD = 1
USED = 2

def recursive(n):
    return recursive(n - 1)

def called_by_dead():
    return USED

def dead():
    return called_by_dead()

@register
def registered(): ...

class Here:
    def dead_method(self): ...
    def _used(self): ...
    def named(self):
        return self._used() or USED

class There(Base):
    def called_by_the_library(self): ...

def main():
    return There(), getattr(Here(), "named")
"""


def test_planted_dead_names_and_modules_are_found():
    planted = read_module("a.planted", PLANTED)
    user = read_module("a.user", "from a.planted import main\nmain()")
    found = [one.name for one in dead_names([planted, user], [], frozenset())]
    assert found == ["DEAD", "Here.dead_method", "called_by_dead", "dead", "recursive"]
    assert dead_names([planted, user], [], frozenset(found) | {"dead_method"}) == []
    assert unimported([planted, user], [], frozenset()) == ["a.user"]
    assert unimported([planted, user], [], frozenset({"a.user"})) == []


def test_a_name_that_a_package_only_hands_on_is_found():
    package = read_module("a", "from a.b import f\n__all__ = ['f']", is_package=True)
    module = read_module("a.b", "def f(): ...")
    assert [str(one) for one in dead_names([package, module], [], frozenset())] == [
        "a.b: f",
        "a: f",
    ]


def test_code_of_a_page_is_read_and_prose_is_not():
    assert words_in_code("A batch.\n```python\nsubmit(batch)\n```\nSee `step`.") == {
        "batch", "python", "step", "submit"
    }  # fmt: skip
