"""Reports: one file that loads nothing, with every text escaped, and data for every figure."""

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from placet.cli.app import run_command
from placet.lab import Collector, Results, Scenario, report, run_scenarios
from placet.lab.intervals import Interval
from placet.lab.log import Log
from placet.lab.reporting import categories, collected, study_report
from placet.lab.reporting.bins import BINS_MAX, Bins
from placet.lab.reporting.drawings import Estimate, estimates, lorenz, number_text, round_values
from placet.lab.reporting.figures import Axis, Figure, Page, ReportSection, y_range_of
from placet.lab.reporting.page import render
from placet.scenarios import load
from placet.scenarios.engine import run_scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.errors import StoreError
from placet.schemas.printable import unseen_characters
from placet.stores.url import open_event_log
from placet.sweeps.errors import LabError
from placet.tables.table import ArrowTable
from tests.agents.till import put, talk
from tests.lab.coin import TOML
from tests.lab.runs import log_of, run_coin

dashboard = files("placet.server") / "dashboard"

EVIL = "</script><img src=x onerror=alert(1)>"


class Parsed(HTMLParser):
    """The tags of a page, its scripts and the text outside of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.text += data

    @property
    def figures(self):
        """The data of all figures by title."""
        titles = re.findall(r"<h3>(.*?)(?: <span|</h3>)", self.rawdata_of)
        return dict(zip(titles, json.loads(self.scripts[0]), strict=True))

    rawdata_of = ""


def parsed(path):
    page = path.read_text(encoding="utf-8")
    result = Parsed(page)
    result.rawdata_of = page
    return result


def columns_of(figure):
    return dict(zip(figure["names"], figure["columns"], strict=True))


@pytest.fixture(scope="module")
def coin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coin")
    return run_coin(folder, "settings.refused='walk 2'")


@pytest.fixture(scope="module")
def page(coin, tmp_path_factory):
    return report(coin, tmp_path_factory.mktemp("page") / "page.html")


# the file


def test_a_report_is_small_and_loads_nothing(page):
    content = parsed(page)
    assert page.stat().st_size < 300_000
    for tag, attributes in content.tags:
        assert tag not in {"link", "iframe", "object", "base", "form"}
        for name in ("src", "href", "srcset", "data", "action"):
            assert name not in attributes, f"{tag} {name} = {attributes.get(name)!r}"
    styles = page.read_text().split("<style>")[1].split("</style>")[0]
    assert "url(" not in styles
    assert "@import" not in styles


def test_the_policy_of_the_page_allows_its_own_scripts_alone(page):
    content = parsed(page)
    (policy,) = (
        attributes["content"]
        for tag, attributes in content.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in content.scripts[1:]
    }
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert not any(name.startswith("on") for _, attributes in content.tags for name in attributes)


def test_texts_of_a_log_are_escaped(tmp_path):
    scenario = tmp_path / "evil.toml"
    scenario.write_text(TOML.replace("domain =", f"title = {EVIL!r}\ndomain ="))
    store = tmp_path / f"{EVIL.replace('/', '_')}.db"
    options = ["--store", str(store), "--no-verify", "--set", f"settings.refused={EVIL}"]
    code = run_command(["run", str(scenario), *options])
    assert code == 0
    content = parsed(report(store, tmp_path / "evil.html"))
    assert EVIL in content.text
    assert len(content.scripts) == 3
    assert [tag for tag, _ in content.tags if tag == "img"] == []
    assert json.loads(content.scripts[0])


def test_a_report_is_replaced_and_another_file_is_not(coin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = report(coin)
    assert first.name.endswith("-report.html")
    assert report(coin) == first
    other = tmp_path / "thesis.html"
    other.write_text("<!doctype html><p>my thesis")
    with pytest.raises(LabError, match=r"thesis\.html exists and is no report of placet"):
        report(coin, other)
    assert "my thesis" in other.read_text()
    with pytest.raises(LabError, match=r"cannot write .*: No such file or directory"):
        report(coin, tmp_path / "nowhere" / "page.html")


# a run


def test_the_figures_of_a_run_are_those_of_its_log(coin, page):
    figures = parsed(page).figures
    log = Log(coin)
    admitted = Counter(row["tick"] for row in log.intents)
    refused = Counter(row["tick"] for row in log.refusals)
    rates = dict(
        zip(*(figures["Intents per tick"][key] for key in ("names", "columns")), strict=False)
    )
    assert rates["admitted"] == [admitted[tick] for tick in range(len(rates["admitted"]))]
    assert rates["refused"] == [refused[tick] for tick in range(len(rates["refused"]))]
    kinds = figures["Admitted per tick, by kind"]
    assert kinds["names"] == ["tick", "Put"]
    codes = figures["Refusals by code"]["columns"]
    assert codes == [["domain/coin.refused"], [6], ["this side is refused"]]
    agents = figures["Admitted intents over the agents"]["columns"]
    by_agent = Counter(row["agent"] for row in log.intents)
    assert dict(zip(agents[0], agents[1], strict=True)) == by_agent
    assert sum(agents[2]) == 6
    assert all(0 <= place <= 1 for place in agents[3])
    entities = figures["Entities by collection"]
    assert entities["names"][1:] == ["coin.coins"]
    assert entities["columns"][1][-1] == 8  # seven agents, and the rule
    sizes = figures["Bytes by type of record"]["columns"]
    assert sum(sizes[1]) == sum(len(data) for _, data in log_of(coin).read())


def test_collected_rows_beside_the_log_are_drawn(coin, tmp_path):
    folder = tmp_path / "rows"
    collector = Collector(world={"tossed": tossed}, agents=["luck"], to=folder)
    collector.collect(log_of(coin))
    collector.close()
    figures = parsed(report(coin, tmp_path / "page.html", collected=folder)).figures
    assert figures["tossed"]["columns"][1] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert figures["luck"]["names"][1:] == ["10 %", "median", "90 %"]
    assert "The run collected no rows" in parsed(report(coin, tmp_path / "bare.html")).text


def test_a_mapping_is_a_series_for_each_key_and_a_text_field_is_counted_by_value(coin, tmp_path):
    folder = tmp_path / "rows"
    world = {"sides": lambda state: {"up": tossed(state), "down": 1 - tossed(state)}}
    with Collector(world=world, to=folder) as collector:
        collector.collect(log_of(coin))
    figure = parsed(report(coin, tmp_path / "page.html", collected=folder)).figures
    (sides,) = [one for title, one in figure.items() if title == "sides"]
    assert sides["columns"][1:] == [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    rows = [
        {"tick": tick, "sim_time_ns": tick * 10**9, "agent": agent, "health": health}
        for tick, healths in enumerate((("S", "I"), ("I", "I"), (None, "R")))
        for agent, health in zip("ab", healths, strict=True)
    ]
    (health,) = collected._agent_figures(ArrowTable("agents", pa.Table.from_pylist(rows)))
    assert list(health.data.values()) == [[1, 2, 0], [0, 0, 1], [1, 0, 0]]
    assert list(health.data) == ["I", "R", "S"]


def tossed(state):
    """Return the number of coins that were tossed."""
    return sum(coin.get("side") in {"heads", "tails"} for coin in state["coin.coins"].values())


async def test_the_calls_of_models_are_counted_by_model(tmp_path):
    store = f"sqlite:///{tmp_path}/till.db"
    async with talk([put(5)], [put(1)], store=store) as session:
        await session.send("put five")
        await session.send("and one more")
    figures = parsed(report(store, tmp_path / "page.html")).figures
    calls = columns_of(figures["Calls of models"])
    assert calls["calls"] == [2]
    effects = columns_of(figures["Effects by kind"])
    assert sum(effects["begun"]) == sum(effects["succeeded"]) >= 2


def test_a_log_without_records_and_a_missing_log_are_errors(tmp_path):
    log = open_event_log(f"sqlite:///{tmp_path}/empty.db")
    log.open()
    log.close()
    with pytest.raises(StoreError, match="has no records yet: there is nothing to report"):
        report(f"{tmp_path}/empty.db", tmp_path / "page.html")
    with pytest.raises(StoreError, match=r"no\.db"):
        report(f"{tmp_path}/no.db", tmp_path / "page.html")


# a study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "coin.toml").write_text(TOML)
    scenarios = Scenario.load(folder / "coin.toml").product(refused=["", "walk 2"])
    run_scenarios(
        scenarios, seeds=range(1, 5), to=folder / "study", outcome="tests.lab.coin:any_heads"
    )
    return folder / "study"


def test_the_report_of_a_study_has_multiples_pairs_and_all_runs(study, tmp_path):
    content = parsed(report(study, tmp_path / "page.html"))
    figures = content.figures
    results = Results.load(study)
    refused = columns_of(figures["refused"])
    assert refused["settings.refused"] == ["", "walk 2"]
    assert refused["mean"] == [0, 6]
    heads = columns_of(figures["any_heads"])
    assert all(0 <= low <= mean for low, mean in zip(heads["low"], heads["mean"], strict=True))
    pairs = figures["Differences"]
    assert len(pairs["columns"][0]) == 3
    assert columns_of(figures["All runs"])["digest"] == results.column("digest")
    assert sum(tag == "svg" for tag, _ in content.tags) == 6
    assert "No run failed." in content.text
    explained = columns_of(figures["What explains refused"])
    assert explained["source"] == ["settings.refused", "seeds"]
    assert explained["share"] == [1, 0]


def test_collected_series_of_a_study_are_small_multiples_of_one_scale(tmp_path):
    scenario = tmp_path / "coin.toml"
    scenario.write_text(TOML + '[collect.world]\ntossed = "tests.lab.test_report:tossed"\n')
    run_scenarios(
        Scenario.load(scenario).product(refused=["", "walk 2"]),
        replications=3,
        to=tmp_path / "study",
    )
    content = parsed(report(tmp_path / "study", tmp_path / "page.html"))
    multiples = [f for f in json.loads(content.scripts[0]) if "median" in f["names"]]
    assert len(multiples) == 2
    assert [figure["columns"][2] for figure in multiples] == [[0, 0, 0, 0, 1, 1, 1, 1]] * 2
    assert {tuple(figure["range"]) for figure in multiples} == {(0, 1.06)}
    assert all(figure["band"] for figure in multiples)
    assert "settings.refused = walk 2: spread over the seeds" in content.text


def test_values_that_are_not_finite_are_counted_and_left_out(tmp_path):
    values = {1: [1.0, 3.0, nan], 2: [inf, 5.0, -inf]}
    rows = [{"o": option, "x": x} for option, column in values.items() for x in column]
    (figure,) = study_report.facets(rows, "x", "o", ["o"])
    assert figure.note.endswith("interval (of Student); 3 not finite, left out")
    assert figure.data["mean"] == [2, 5]
    assert figure.data["runs"] == [2, 1]
    times = [{"tick": n, "sim_time_ns": n * 10**9} for n in range(6)]
    table = ArrowTable(
        "world", pa.Table.from_pylist([a | b for a, b in zip(times, rows, strict=True)])
    )
    (_, series) = collected._world_figures(table)
    assert series.note == "of the world; 3 not finite, left out"
    assert series.data["x"] == [1, 3, None, None, 5, None]
    (_, spread) = collected._agent_figures(table)
    assert spread.data["median"] == [1, 3, None, None, 5, None]
    data = Figure(title="t", data={"x": [nan, inf, -inf, 1.5]})
    section = ReportSection(title="s", figures=[data])
    page = render(Page(title="p", subtitle="", facts=[], sections=[section]))
    assert json.loads(Parsed(page).scripts[0])[0]["columns"] == [["nan", "inf", "-inf", 1.5]]


def two_options(values):
    """Return three runs of each of two betas for each of some gammas, which decide the outcome."""
    return [
        {"beta": beta, "gamma": gamma, "x": 10.0 * gamma + run}
        for gamma in range(values)
        for beta in (1, 2)
        for run in range(3)
    ]


def test_an_outcome_over_one_option_has_a_figure_for_each_value_of_the_others():
    figures = list(study_report.facets(two_options(3), "x", "beta", ["beta", "gamma"]))
    assert [figure.data["mean"] for figure in figures] == [[1, 1], [11, 11], [21, 21]]
    assert [figure.note.split(":")[0] for figure in figures] == [
        f"by beta, at gamma = {gamma}" for gamma in range(3)
    ]
    assert len({figure.y_range for figure in figures}) == 1
    assert all("95 % interval" in figure.note for figure in figures)


def test_many_combinations_share_a_figure_without_intervals():
    (figure,) = study_report.facets(two_options(13), "x", "beta", ["beta", "gamma"])
    assert figure.data["runs"] == [39, 39]
    assert "low" not in figure.data
    assert figure.note == "by beta: each run; those of all values of gamma together"
    assert 'class="dot"' in figure.drawing
    assert 'class="mean"' not in figure.drawing


@pytest.mark.parametrize(
    ("values", "y_range"),
    [
        ([2, 10], (0, 10.6)),
        ([7], (0, 7.42)),
        ([0, 0], (0, 1)),
        ([-5, 5], (-5.6, 5.6)),
        ([90, 100], (89.4, 100.6)),
        ([None, nan, "a"], None),
        ([-1.7e308, 1.7e308], None),
        ([0, 1.7e308], None),
    ],
)
def test_an_axis_begins_at_zero_where_the_differences_stay_readable(values, y_range):
    assert y_range_of(values) == (y_range if y_range is None else pytest.approx(y_range))


def test_an_axis_that_does_not_begin_at_zero_says_so():
    figures = [
        Figure(title="t", note=note, x=Axis("tick", [0, 1]), data={"y": y})
        for note, y in (("of the world", [90, 100]), ("", [90, 100]), ("", [0, 100]))
    ]
    section = ReportSection(title="s", figures=figures)
    page = render(Page(title="p", subtitle="", facts=[], sections=[section]))
    assert re.findall(r'class="note">(.*?)<', page) == [
        "of the world. The y axis begins at 89.4.",
        "The y axis begins at 89.4.",
    ]


def test_texts_of_the_data_stand_in_the_page_as_they_are(tmp_path):
    texts = ["two\nlines", "two\\nlines", "\u202e", "=1", "</script>", '"', "", None]
    section = ReportSection(title="s", figures=[Figure(title="t", data={"a\x1b": texts})])
    page = render(Page(title="p", subtitle="", facts=[], sections=[section]))
    (figure,) = json.loads(Parsed(page).scripts[0])
    assert (figure["names"], figure["columns"]) == (["a\x1b"], [texts])
    assert not unseen_characters(page.replace("\n", ""))
    unseen = re.search(r"const UNSEEN = .*", (dashboard / "format.js").read_text())
    assert unseen is not None
    assert unseen[0] in Parsed(page).scripts[2]


def test_a_folder_that_is_no_study_is_an_error(tmp_path):
    with pytest.raises(LabError, match="is no study"):
        report(tmp_path, tmp_path / "page.html")


# the command


def test_the_command_writes_the_page_and_prints_its_path(coin, tmp_path, capsys):
    path = tmp_path / "page.html"
    assert run_command(["report", coin, "--to", str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == {"path": str(path), "bytes": path.stat().st_size}
    assert run_command(["report", coin, "--to", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: ")


# parts


@pytest.mark.parametrize("positions", [1, BINS_MAX, BINS_MAX + 1, 5 * BINS_MAX])
def test_bins_that_double_keep_the_total_and_the_order(positions):
    bins = Bins()
    for position in range(positions):
        bins.reach(position, position * 0.5)
        bins.add(position, "a", position)
    values = bins.per_position(["a"])["a"]
    assert len(values) <= BINS_MAX
    assert sum(bins.sums("a")) == sum(range(positions))
    assert values[-1] == pytest.approx(positions - 1, abs=bins.width)
    assert values == sorted(values)
    assert bins.starts()[0] == 0
    assert bins.starts() == sorted(set(bins.starts()))


def test_drawings_escape_their_labels_and_handle_equal_values():
    row = Estimate(EVIL, 1.0, Interval(1.0, 1.0), [1.0, 1.0])
    drawing = estimates([row, row._replace(interval=None)], EVIL, EVIL, (0.0, 2.0))
    assert "<img" not in drawing
    assert "NaN" not in drawing
    assert "<polyline" in lorenz([0.0, 0.0], "intents")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12, "12"), (0.25, "0.25"), (12_500, "12.5k"), (3e6, "3M"), (1e-5, "1.00e-05")],
)
def test_numbers_are_short(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 7.2), (1e-9, 2e-9), (0, 12345)])
def test_round_values_lie_within_the_range(low, high):
    values = round_values(low, high)
    assert 3 <= len(values) <= 12
    assert all(low <= value <= high * (1 + 1e-9) for value in values)


# categories of the state


def ran(tmp_path, name, *overrides):
    store = f"sqlite:///{tmp_path}/{name}.db"
    run_scenario(load(name, overrides=overrides), store=store)
    return store


def test_rows_are_counted_by_the_names_of_their_values(tmp_path):
    store = ran(tmp_path, "sir", "ticks=12")
    figure = parsed(report(store, tmp_path / "page.html")).figures["people by state"]
    assert figure["names"] == ["tick", "susceptible", "infectious", "recovered"]
    assert figure["columns"][0] == list(range(1, 13))
    for tick, *counts in zip(*figure["columns"], strict=True):
        people = Log(store).at(tick=tick).state["sir.people"].values()
        assert counts == [sum(one["state"] == value for one in people) for value in range(3)]


def test_entities_are_counted_by_text_and_fields_of_many_values_are_left_out(tmp_path):
    store = ran(tmp_path, "town", "ticks=20", "agents.folk.count=30")
    figure = parsed(report(store, tmp_path / "page.html")).figures["objects by used_by"]
    names = figure["names"][1:]
    objects = Log(store).at(tick=20).state["world.objects"].values()
    found = Counter(one.get("used_by") for one in objects)
    assert {
        name: column[-1] for name, column in zip(names, figure["columns"][1:], strict=True)
    } == {name: found[name] for name in names}


@pytest.mark.parametrize("most", [1, 5, 12, 200])
def test_a_long_run_has_few_moments_with_the_first_and_the_last(tmp_path, monkeypatch, most):
    store = ran(tmp_path, "sir", "ticks=12")
    monkeypatch.setattr(categories, "_MOMENTS_MAX", most)
    (figure,) = categories.category_figures(open_event_log(store), {}, 12)
    assert figure.x is not None
    ticks = figure.x.values
    assert (ticks[0], ticks[-1]) == (1, 12)
    assert len(ticks) <= 2 * most + 2
    assert list(ticks) == sorted(set(ticks))


def test_a_field_with_too_many_values_is_looked_at_no_more():
    counts: dict[tuple[str, str], Counter[str]] = {}
    left_out: set[tuple[str, str]] = set()
    for number in range(12):
        if ("c", "f") not in left_out:
            categories._count(counts, left_out, ("c", "f"), str(number))
        categories._count(counts, left_out, ("c", "g"), number % 2 == 0)
    categories._count(counts, left_out, ("c", "h"), 1.5)
    categories._count(counts, left_out, ("c", "none"), None)
    assert left_out == {("c", "f"), ("c", "h")}
    assert counts == {("c", "g"): Counter({"true": 6, "false": 6})}


# names of data, and values


def test_a_name_of_the_data_overwrites_no_x_axis(tmp_path):
    scenario = load("sir", overrides=["ticks=3"])
    run_scenario(scenario, store=f"sqlite:///{tmp_path}/sir.db")
    sizes = parsed(report(f"{tmp_path}/sir.db", tmp_path / "page.html")).figures
    bytes_of = columns_of(sizes["Bytes of the log per tick, by type of record"])
    assert bytes_of["tick"] == [0, 1, 2]
    assert all(value > 4 for value in bytes_of["tick (series)"])


def test_names_of_series_that_are_alike_stay_apart():
    figure = Figure(
        title="t", x=Axis("tick", [1]), data={"tick": [2], "tick (series)": [3], "y": [4]}
    )
    assert dict(figure.table) == {
        "tick": [1],
        "tick (series)": [2],
        "tick (series) (series)": [3],
        "y": [4],
    }


def rows_of_agents(*columns, name="state"):
    return ArrowTable(
        "agents",
        pa.Table.from_pylist(
            [
                {"tick": tick, "sim_time_ns": tick, "agent": agent, name: value}
                for tick, values in enumerate(columns)
                for agent, value in zip("abc", values, strict=True)
            ]
        ),
    )


def test_few_whole_values_are_counted_by_value_with_the_names_of_a_portrayal():
    table = rows_of_agents((0, 0, 1), (0, 1, 2))
    (plain,) = collected._agent_figures(table)
    assert plain.data == {"0": [2, 1], "1": [1, 1], "2": [0, 1]}
    (named,) = collected._agent_figures(table, {"state": ("S", "I")})
    assert named.data == {"S": [2, 1], "I": [1, 1], "2": [0, 1]}
    (truth,) = collected._agent_figures(rows_of_agents((True, None, False), (True, True, True)))
    assert truth.data == {"false": [1, 0], "true": [1, 3]}
    many = rows_of_agents(*((n, n + 1, n + 2) for n in range(9)))
    (spread,) = collected._agent_figures(many)
    assert (list(spread.data), spread.band) == (["10 %", "median", "90 %"], True)
    (share,) = collected._agent_figures(rows_of_agents((0.5, 1.0, 1.0), (0.5, 1.0, 1.0)))
    assert share.band


def test_a_scenario_file_names_the_values_of_a_field(tmp_path):
    store = ran(tmp_path, "sir", "ticks=12", "name=mine")
    named = tmp_path / "colors.toml"
    named.write_text(
        '[portrayal."sir.people"]\ncolor = "state"\nnames = ["well", "ill", "again"]\n'
    )
    plain = parsed(report(store, tmp_path / "a.html")).figures["people by state"]
    shown = parsed(report(store, tmp_path / "b.html", portrayal=named)).figures["people by state"]
    assert plain["names"] == ["tick", "0", "1", "2"]
    assert shown["names"] == ["tick", "well", "ill", "again"]
    named.write_text("ticks = 3\n")
    with pytest.raises(ScenarioError, match=r"portrayal: is missing"):
        report(store, tmp_path / "c.html", portrayal=named)


def test_whole_numbers_of_entities_and_of_wide_columns_are_categories():
    counts: dict[tuple[str, str], Counter[str]] = {}
    left_out: set[tuple[str, str]] = set()
    for value in (0, 2, 2):
        categories._count(counts, left_out, ("c", "f"), value)
    categories._count(counts, left_out, ("c", "g"), 1000)
    assert (counts, left_out) == ({("c", "f"): Counter({"2": 2, "0": 1})}, {("c", "g")})
    for column, is_left_out in ((np.array([0, 2]), False), (np.array([0, 999]), True)):
        left_out.clear()
        table: Any = SimpleNamespace(columns={"f": column})
        categories._count_column({}, left_out, table, ("c", "f"))
        assert bool(left_out) is is_left_out


# studies


def test_two_options_are_drawn_in_one_figure_with_a_line_for_each_value_of_the_second():
    (figure,) = study_report.crossed(two_options(3), "x", ["beta", "gamma"])
    assert figure.note.startswith("by beta, a line for each gamma: means with 95 % intervals")
    assert figure.data["gamma"] == ["0", "0", "1", "1", "2", "2"]
    assert figure.data["mean"] == [1, 1, 11, 11, 21, 21]
    assert figure.drawing.count("<polyline") == figure.drawing.count("<li>") == 3
    assert not list(study_report.crossed(two_options(9), "x", ["beta", "gamma"]))
    assert not list(study_report.crossed(two_options(3), "x", ["beta"]))
    three = [row | {"delta": delta} for delta in (5, 6) for row in two_options(2)]
    notes = [
        f.note.split(":")[0] for f in study_report.crossed(three, "x", ["beta", "gamma", "delta"])
    ]
    assert notes == [f"by beta, a line for each gamma, at delta = {d}" for d in (5, 6)]


def test_all_runs_are_shown_without_the_columns_that_are_alike(study, tmp_path):
    figure = parsed(report(study, tmp_path / "page.html")).figures["All runs"]
    assert figure["names"][0] == "settings.refused"
    assert "status" not in figure["names"]
    page = (tmp_path / "page.html").read_text()
    assert "Of all runs: " in page
    assert "status done" in page


def test_a_mapping_of_the_world_is_drawn_for_each_scenario_of_a_study(tmp_path):
    scenario = tmp_path / "coin.toml"
    scenario.write_text(TOML + '[collect.world]\nsides = "tests.lab.test_report:sides"\n')
    run_scenarios(
        Scenario.load(scenario).product(refused=["", "walk 2"]),
        replications=2,
        to=tmp_path / "study",
    )
    content = parsed(report(tmp_path / "study", tmp_path / "page.html"))
    multiples = [f for f in json.loads(content.scripts[0]) if "up" in f["names"]]
    assert [f["columns"][2] for f in multiples] == [[0, 0, 0, 0, 1, 1, 1, 1]] * 2
    assert "no [collect.world]" not in content.text


def sides(state):
    return {"up": tossed(state), "down": 1 - tossed(state)}
