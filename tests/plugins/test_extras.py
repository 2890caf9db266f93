"""A module that an extra brings is named with the extra, and `lab` runs all bundled models."""

import ast
import tomllib
from pathlib import Path

import pytest

from placet.plugins.domains import find_domain
from placet.plugins.entry_points import load_named
from placet.plugins.extras import extra_of
from placet.plugins.functions import find_function
from placet.scenarios import builtin
from placet.sweeps.outcome import find_outcome

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("numpy", "arrays"),
        ("pyarrow", "lab"),
        ("starlette", "serve"),
        ("gymnasium", "gym"),
        ("pygame", "render"),
        ("pydantic_ai", "llm"),
        ("psycopg", "postgres"),
        ("hypothesis", "testing"),
        ("pandas", None),
        ("", None),
    ],
)
def test_the_extra_of_a_module_is_the_smallest_that_brings_it(module, extra):
    assert extra_of(module) == extra


FINDERS = {
    "function": find_function,
    "outcome": find_outcome,
    "domain": find_domain,
    "policy": lambda spec: load_named("placet.policies", spec, "policy"),
}


@pytest.mark.parametrize("finder", FINDERS)
def test_a_module_of_the_user_that_lacks_an_extra_names_it(tmp_path, monkeypatch, finder):
    monkeypatch.chdir(tmp_path)
    missing = "raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n"
    (tmp_path / "lacking_numpy.py").write_text(missing)
    with pytest.raises(
        Exception, match=r"No module named 'numpy', which the extra 'arrays' brings: pip install"
    ):
        FINDERS[finder]("lacking_numpy:anything")


def test_lab_brings_what_the_bundled_models_import():
    needed = {line.partition(">=")[0] for line in EXTRAS["lab"]}
    for path in Path(builtin.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
                assert not {name for name in names if extra_of(name)} - needed, path.name


def test_messages_say_how_to_install_an_extra_of_a_clone():
    """Placet is on no index: `pip install 'placet[serve]'` would install something else."""
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    wrong = [path.name for path in sources if "placet[" in path.read_text()]
    assert not wrong
