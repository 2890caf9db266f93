"""The diagrams of the documentation: every package and path in a Mermaid block exists.

The site shows a diagram as its text, because drawing it takes a script from outside.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "placet"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^ *from placet\.(\w+)", re.MULTILINE)
DIAGRAMS = {
    f"{page.relative_to(ROOT)}-{number}": text
    for pattern in ("*.md", "docs/**/*.md", "plugins/*/docs/*.md")
    for page in sorted(ROOT.glob(pattern))
    for number, text in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
}
PACKAGES = DIAGRAMS["ARCHITECTURE.md-0"]
APPLICATIONS = "applications"
"""The node of `plugins/`, whose packages are distributions of their own."""


def labels() -> dict[str, list[str]]:
    """Return the parts of the label of each node of the packages, without marks."""
    found = re.findall(r'^ +(\w+)\["(.+)"\]$', PACKAGES, re.MULTILINE)
    return {node: re.sub(r"</?b>| \(.*?\)", "", text).split("<br/>") for node, text in found}


@cache
def imported_by(package: str) -> set[str]:
    """Return the packages of placet that a package imports."""
    files = (path.read_text(encoding="utf-8") for path in (SOURCE / package).rglob("*.py"))
    return {name for text in files for name in IMPORT.findall(text)}


@pytest.mark.parametrize("name", DIAGRAMS)
def test_every_path_of_a_diagram_exists(name):
    paths = re.findall(r"<i>\(?([\w./]+)\)?</i>", DIAGRAMS[name])
    assert [path for path in paths if not (SOURCE / path).exists()] == []


@pytest.mark.parametrize("name", DIAGRAMS)
def test_every_arrow_joins_nodes_with_a_label(name):
    text = DIAGRAMS[name]
    nodes = set(re.findall(r'(\w+)\["', text))
    ends = re.findall(r'(\w+)(?:\[".*?"\])? --> (\w+)', text)
    assert ends
    assert {end for pair in ends for end in pair} <= nodes


def test_every_package_of_the_diagram_exists():
    named = {part for n, label in labels().items() if n != APPLICATIONS
             for part in label[0].split(" · ")}  # fmt: skip
    assert {name for name in named if not (SOURCE / name / "__init__.py").exists()} == set()


def test_the_parts_of_the_pure_packages_exist_and_every_domain_is_named():
    parts = {name: set(labels()[name][1].split(" · ")) for name in ("kernel", "domains")}
    assert [part for part in parts["kernel"] if not (SOURCE / "kernel" / part).is_dir()] == []
    folders = {path.parent.name for path in (SOURCE / "domains").glob("*/__init__.py")}
    assert parts["domains"] == folders


def test_every_distribution_of_plugins_is_named():
    named = labels()[APPLICATIONS][1].replace(" -", " placet-").split(" · ")
    assert named == sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))


def test_an_arrow_between_packages_is_an_import():
    arrows = re.findall(r"^ +(\w+) --> (\w+)$", PACKAGES, re.MULTILINE)
    lost = [(a, b) for a, b in arrows if a != APPLICATIONS and b not in imported_by(a)]
    assert lost == []
