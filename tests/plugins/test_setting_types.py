"""A setting takes the type of its default, in whatever way it comes."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from placet.kernel import Domain, Kind
from placet.lab import Scenario, run_scenarios
from placet.plugins.domains import make_domain
from placet.plugins.setting_types import SettingTypeError, typed_settings
from placet.scenarios.values import ScenarioError
from placet.server.settings import SettingsError, load_settings, parse_assignment
from tests.cli.command_line import CommandLine


class Nothing(TypedDict):
    pass


class Rates(Domain):
    name, version, kinds = "rates", "1", (Kind("Wait", Nothing, lambda _draft, _intent: None),)

    def __init__(
        self,
        *,
        beta=0.1,
        count=3,
        is_open=False,
        title="a",
        corner=(0, 0),
        table={},  # noqa: B006  # as a user may write it
        free=None,
        limit: float | None = None,
        level: "int" = 1,
        mode: Literal["a", "b"] = "a",
        share: Annotated[float, "of all"] = 0.5,
        anything: Any = 1,
        needed: str,
    ) -> None:
        self.own = {"beta": beta, "count": count, "limit": limit}

    def settings(self):
        return self.own


def wait(view):
    return []


def odd(beta: "NotThere" = 0.1):  # type: ignore[name-defined]  # noqa: F821
    return Rates(needed="")


GOOD = [
    *(("beta", 2, 2.0), ("beta", 0.25, 0.25), ("count", 4.0, 4), ("is_open", True, True)),
    *(("title", "0.5", "0.5"), ("corner", [1, 2], [1, 2]), ("table", {"a": 1}, {"a": 1})),
    *(("free", "x", "x"), ("free", 1, 1), ("limit", None, None), ("limit", 3, 3.0)),
    *(("level", 5.0, 5), ("mode", "c", "c"), ("share", 1, 1.0), ("anything", "x", "x")),
    *(("needed", "x", "x"), ("unknown", 1, 1), ("beta", 2**53, 2.0**53)),
]
BAD = [
    *(("beta", "0.1:0.3", "expected a number, as its default 0.1, got '0.1:0.3'; a range"),),
    *(("beta", True, "got true"), ("beta", None, "got null"), ("beta", [0.1], "a number")),
    *(("beta", 2**53 + 1, "a number"), ("beta", 10**400, "a number")),
    *(("count", 2.5, "expected an integer, as its default 3, got 2.5"), ("count", "3", "'3'")),
    *(("is_open", 1, "true or false"), ("is_open", "yes", "true or false")),
    *(("title", 5, "expected a text, as its default 'a', got 5; write a text in quotes"),),
    *(("corner", 3, "a list"), ("table", [], "a table"), ("limit", "x", "a number or none")),
    *(("level", "1", "an integer"), ("share", "1", "a number"), ("needed", 1, "expected a text,")),
]


@pytest.mark.parametrize(("name", "value", "expected"), GOOD)
def test_a_setting_has_the_type_of_its_keyword(name, value, expected):
    made = typed_settings(Rates, {name: value})
    assert made == {name: expected}
    assert type(made[name]) is type(expected)
    assert typed_settings(lambda **more: more, {name: value}) == {name: value}


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_a_setting_of_another_type_is_refused_with_its_default(name, value, message):
    with pytest.raises(SettingTypeError) as caught:
        typed_settings(Rates, {name: value})
    assert message in str(caught.value)
    assert caught.value.name == name


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.none())
)


@given(st.sampled_from(["beta", "count", "is_open", "title"]), VALUES)
def test_a_setting_is_of_the_type_of_its_default_or_refused(name, value):
    default = {"beta": 0.1, "count": 3, "is_open": False, "title": "a"}[name]
    try:
        (made,) = typed_settings(Rates, {name: value}).values()
    except SettingTypeError:
        return
    assert type(made) is type(default)
    assert made == value or made != made  # noqa: PLR0124  # NaN is left to the domain


def test_an_annotation_that_cannot_be_resolved_leaves_the_default():
    with pytest.raises(SettingTypeError):
        typed_settings(odd, {"beta": "x"})
    assert typed_settings(odd, {"beta": 1}) == {"beta": 1.0}


DOMAIN = f"{__name__}:Rates"
FILE = f'domain = "{DOMAIN}"\nticks = 0\n[agents.a]\ncount = 1\npolicy = "{__name__}:wait"\n'
SETTINGS = '[settings]\nneeded = "x"\n'


def scenario(tmp_path, more=""):
    path = tmp_path / "rates.toml"
    path.write_text(FILE + SETTINGS + more)
    return path


WAYS = {
    "file": lambda path: run_scenarios(Scenario.load(path.parent / "typed.toml")),
    "override": lambda path: run_scenarios(Scenario.load(path, overrides=["settings.beta=1:2"])),
    "with_values": lambda path: run_scenarios(Scenario.load(path).with_values(beta="1:2")),
    "axis": lambda path: run_scenarios(Scenario.load(path).product(beta=[1, "1:2"])),
    "data frame": lambda path: run_scenarios(
        Scenario.from_dataframe([{"settings.beta": "1:2"}], base=path)
    ),
}
ENVIRON = {"PLACET_DOMAIN": DOMAIN, "PLACET_SETTINGS": '{needed = "x"}'}
SERVERS = {
    "--set": lambda _: load_settings(
        environ=ENVIRON, arguments=dict([parse_assignment("settings.beta=1:2")])
    ),
    "environment": lambda _: load_settings(
        environ=ENVIRON | {"PLACET_SETTINGS": '{needed = "x", beta = "1:2"}'}
    ),
    "file": load_settings,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_into_a_scenario_refuses_a_text_for_a_number(tmp_path, way):
    path = scenario(tmp_path)
    (tmp_path / "typed.toml").write_text(FILE + SETTINGS + 'beta = "1:2"\n')
    with pytest.raises(ScenarioError, match=r"settings\.beta: expected a number, as its default"):
        WAYS[way](path)


@pytest.mark.parametrize("way", SERVERS)
def test_every_way_into_a_server_refuses_a_text_for_a_number(tmp_path, way):
    path = tmp_path / "placet.toml"
    path.write_text(f'domain = "{DOMAIN}"\n{SETTINGS}beta = "1:2"\n')
    settings = SERVERS[way](path)
    with pytest.raises(SettingsError, match=r"settings\.beta: expected a number, as its default"):
        settings.make_domains()


def test_commands_refuse_a_text_for_a_number_in_one_line(tmp_path, capsys):
    path, call = str(scenario(tmp_path)), CommandLine(capsys, tmp_path)
    for command in (
        ("run", path, "--set", "settings.beta=1:2"),
        ("sweep", path, "--set", "settings.beta=1:2", "--to", f"{tmp_path}/study"),
        ("sweep", path, "--set", "settings.beta=1,1:2", "--to", f"{tmp_path}/study"),
    ):
        done = call(*command)
        assert done.code != 0
        assert "settings.beta: expected a number, as its default 0.1, got '1:2'" in done.err
        assert len(done.err.strip().splitlines()) == 1


def test_a_log_is_made_again_with_the_settings_in_it():
    made = make_domain(DOMAIN, Rates, {"beta": "1:2", "needed": "x"}).settings()
    assert made is not None
    assert made["beta"] == "1:2"
