"""No file of placet names a plug-in of `plugins/`, except the extras in pyproject.toml.

Searched are the source of placet and its tests, for the name of a distribution or package, and for
the kinds of the plug-ins' domains, which are read from the domains themselves. The tests of the
architecture are about the whole workspace, and name its distributions.
"""

import re
import tomllib
from pathlib import Path
from typing import Final

from placet.plugins.domains import find_domain, make_domain

ROOT: Final = Path(__file__).parents[2]
PLUGINS: Final = sorted(ROOT.glob("plugins/placet-*"))
SUFFIXES: Final = frozenset({".css", ".html", ".js", ".py", ".toml"})
EXEMPT: Final = ("tests/architecture/", "tests/docs/")
"""Tests of the workspace and of all pages of its documentation."""


def names_of_plugins() -> set[str]:
    """Return the distributions and packages of the plug-ins, and the kinds of their domains."""
    names = {name for path in PLUGINS for name in (path.name, path.name.replace("-", "_"))}
    for path in PLUGINS:
        project = tomllib.loads((path / "pyproject.toml").read_text("utf-8"))["project"]
        for domain in project.get("entry-points", {}).get("placet.domains", {}):
            kinds = make_domain(domain, find_domain(domain)).kinds
            names |= {f'domain="{domain}"', f"--domain {domain}", f"/{domain}s"}
            names |= {one for kind in kinds for one in (kind.name, kind.name.replace(".", "__"))}
    return names


def breaches(text: str, names: set[str]) -> list[str]:
    """Return the names of plug-ins that a text has, sorted."""
    return sorted(
        name
        for name in names
        if name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    )


def test_placet_names_no_plugin():
    names = names_of_plugins()
    files = [ROOT / "conftest.py"]
    files += [path for base in ("src", "tests") for path in (ROOT / base).rglob("*.*")]
    found = {
        place: named
        for path in files
        if path.suffix in SUFFIXES
        and not (place := path.relative_to(ROOT).as_posix()).startswith(EXEMPT)
        and (named := breaches(path.read_text("utf-8"), names))
    }
    assert found == {}, "find a plug-in by an entry point; move its test into its distribution"


def test_a_planted_name_is_found():
    names = names_of_plugins()
    assert {"placet-design", "placet_bench", "design.set", "files__create_file"} <= names
    text = "import placet_design.text\nredesign.set(); kind = 'design.set'"
    assert breaches(text, names) == ["design.set", "placet_design"]
