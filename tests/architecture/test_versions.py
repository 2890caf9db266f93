"""Each distribution has one version: that of its pyproject.toml, and all have the same."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PROJECTS: Final = [ROOT / "pyproject.toml", *sorted(ROOT.glob("plugins/*/pyproject.toml"))]


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_a_package_has_the_version_of_its_project(path):
    project = tomllib.loads(path.read_text("utf-8"))["project"]
    package = import_module(project["name"].replace("-", "_"))
    assert package.__version__ == project["version"]
    assert project["version"] == tomllib.loads(PROJECTS[0].read_text("utf-8"))["project"]["version"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018  # it raises
