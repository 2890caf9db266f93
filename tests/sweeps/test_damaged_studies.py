"""A damaged or forged study is one error of one line, or is read: by a report and by a sweep."""

import json
import os
import re
import shutil
from math import inf, nan
from pathlib import Path

import pyarrow as pa
import pytest

from placet.lab import Results, Scenario, run_scenarios
from placet.lab.paired import paired_differences
from placet.lab.reporting.report import report
from placet.schemas.errors import PlacetError
from placet.sweeps.half_run import Counts, HalfRun
from placet.sweeps.plan import scenario_digest
from placet.tables.parts import TYPES
from tests.sweeps.sweeping import InlineExecutor

DEEP = "[" * 100_000 + "]" * 100_000
OTHERS: list[object] = [
    None,
    True,
    -1,
    2.5,
    nan,
    2**63,
    2**70,
    "x",
    [],
    [1],
    ["x", 0, 0],
    {},
    {"x": []},
]


def left(state):
    return len(state["world.agents"])


def sweep(folder):
    town = Scenario.load("town").with_agents(2).with_values({"ticks": 1, "max_step": 1.0})
    collecting = town.with_values({"collect": {"world": {"left": f"{__name__}:left"}}})
    return run_scenarios(
        collecting.product(max_step=[1.0, 2.0]),
        seeds=[1, 2],
        executor=InlineExecutor(),
        to=folder,
        outcome=f"{__name__}:left",
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "study"
    sweep(folder)
    return folder


@pytest.fixture
def study(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "study"))


def rows_of(study):
    (path,) = (study / "results").iterdir()
    return path


def show(study):
    """Do what a notebook and the command `compare` do."""
    results = Results.load(study)
    assert repr(results)
    assert results.by_scenario() is not None
    results.to_arrow()
    return paired_differences(results, "max_step")


QUESTIONS = {
    "show": show,
    "report": lambda study: report(study, study.parent / "page.html"),
    "collected": lambda study: Results.load(study).collected("world").digest(),
    "sweep": sweep,
}


def errors_of(study, *names):
    """Return the errors of questions; an exception that is no `PlacetError` passes."""
    errors = []
    for name in names:
        try:
            QUESTIONS[name](study)
        except PlacetError as error:
            errors.append(str(error))
    assert "\n" not in "".join(errors)
    return errors


def places_in(value):
    """Yield the path of each value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (key,)
        if isinstance(inner, dict | list):
            yield from ((key, *place) for place in places_in(inner))


def changed(document, place, value):
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return copy


def test_each_value_of_a_row_is_of_its_type_or_the_row_is_named(study):
    path = rows_of(study)
    line, *others = path.read_text().splitlines()
    row = json.loads(line)
    for place in places_in(row):
        found = 0
        for other in OTHERS:
            path.write_text("\n".join([json.dumps(changed(row, place, other)), *others, ""]))
            found += any("line 1 of" in error for error in errors_of(study, "show"))
        assert found >= len(OTHERS) // 3, place


def test_each_value_of_a_manifest_is_of_its_type_or_an_error_names_it(study):
    path = study / "manifest.json"
    manifest = json.loads(path.read_text())
    for place in places_in(manifest):
        if place[2:3] == ("values",) and place[3:] not in {("name",), ("title",), ("ticks",)}:
            continue  # the digest is of all values of a scenario but its name and title
        found = 0
        for other in OTHERS:
            path.write_text(json.dumps(changed(manifest, place, other)))
            found += bool(errors_of(study, "show"))
        assert found >= len(OTHERS) // 3, place


def edit_manifest(edit):
    def damage(study):
        path = study / "manifest.json"
        manifest = json.loads(path.read_text())
        edit(manifest)
        path.write_text(json.dumps(manifest))

    return damage


def edit_row(edit):
    """Return a damage of the first row."""

    def damage(study):
        path = rows_of(study)
        line, *others = path.read_text().splitlines()
        row = json.loads(line)
        edit(row)
        path.write_text("\n".join([json.dumps(row), *others, ""]))

    return damage


def write(name, data):
    def damage(study):
        path = rows_of(study) if name == "rows" else study / name
        path.write_bytes(data(path.read_bytes()) if callable(data) else data)

    return damage


def as_pipe(name):
    def damage(study):
        (study / name).unlink(missing_ok=True)
        os.mkfifo(study / name)

    return damage


def rename_scenario(manifest):
    """Name a scenario by the digest of other values: rows are then of a scenario not planned."""
    (first, scenario), *_ = manifest["scenarios"].items()
    scenario["values"]["ticks"] = 2
    manifest["scenarios"][scenario_digest(json.dumps(scenario["values"]))] = scenario
    del manifest["scenarios"][first]


def stretch_seeds(manifest):
    pairs = manifest["plans"][0]["scenarios"][:1] * 1_001
    seeds = {"seeds": list(range(1_000)), "own_seeds": [0] * 1_001}
    manifest["plans"][0] = {"scenarios": pairs, **seeds}


DAMAGES = {
    "manifest empty": (write("manifest.json", b""), "cannot read the study's"),
    "manifest half": (write("manifest.json", lambda d: d[: len(d) // 2]), "cannot read the study"),
    "manifest deep": (write("manifest.json", DEEP.encode()), "nests deeper"),
    "manifest list": (write("manifest.json", b"[]"), "not a study of this release"),
    "manifest of no text": (write("manifest.json", b"\xff\xfe{}"), "is not UTF-8"),
    "manifest vast": (write("manifest.json", b'{"x": ' + b"9" * 6_000 + b"}"), "beyond 64 bits"),
    "manifest of another release": (
        edit_manifest(lambda m: m.update(format="placet study 2")),
        "not a study of this release",
    ),
    "manifest a pipe": (as_pipe("manifest.json"), "expected a regular file"),
    "no such parts": (edit_manifest(lambda m: m["parts"].clear()), "has no `parts`"),
    "no such scenario": (edit_manifest(rename_scenario), "names a scenario that is not in"),
    "other values": (
        edit_manifest(lambda m: next(iter(m["scenarios"].values()))["values"].update(ticks=3)),
        "have another digest",
    ),
    "seed lacks": (edit_manifest(lambda m: m["plans"][0]["own_seeds"].pop()), "`own_seeds`"),
    "many runs": (edit_manifest(stretch_seeds), "has more than 1000000 runs"),
    "row deep": (write("rows", DEEP.encode() + b"\n"), "line 1 of .*nests deeper"),
    "row vast": (write("rows", b'{"x": ' + b"9" * 6_000 + b"}\n"), "beyond 1023 bits"),
    "row of no text": (write("rows", b"\xff\n"), "is not UTF-8"),
    "row half a character": (write("rows", b'["\\ud800"]\n'), "surrogate"),
    "row of another key": (edit_row(lambda r: r.update(seed=9)), "`key` is not that of"),
    "row of an unknown scenario": (edit_row(lambda r: r.update(scenario="zz")), "`key` is not"),
    "rows a pipe": (as_pipe("results/a.jsonl"), "expected a regular file"),
    "rows a folder": (lambda s: (s / "results/a.jsonl").mkdir(), "expected a regular file"),
    "rows a link": (lambda s: (s / "results/a.jsonl").symlink_to("/etc/passwd"), "symbolic links"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_study_is_one_error_of_each_question(study, name):
    damage, why = DAMAGES[name]
    damage(study)
    for question in ("report", "sweep"):
        (error,) = errors_of(study, question)
        assert re.search(why, error), (question, error)


VALID = {
    "values that JSON lacks": edit_row(lambda r: r["outcomes"].update(left=nan, other=-inf)),
    "an outcome of 1 023 bits": edit_row(lambda r: r["outcomes"].update(left=2**1_023 - 1)),
    "keys of another release": edit_row(lambda r: r.update(later={"x": [1]})),
    "an outcome with the name of a column": edit_row(lambda r: r["outcomes"].update(seed=3)),
    "a row without its end": write("rows", lambda data: data + b'{"key": '),
    "a lock with a text": write("lock", b"x" * 200),
    "a mark of no text": lambda study: (study / "running" / "x").write_bytes(b"\xff"),
    "markup": edit_row(lambda r: r.update(status="<b>\x1b[31m", error="<script>alert(1)</script>")),
}


@pytest.mark.parametrize("name", VALID)
def test_a_study_that_is_odd_is_read_and_continued(study, name):
    VALID[name](study)
    assert [error for error in errors_of(study, *QUESTIONS) if "damaged" in error] == []
    assert len(sweep(study)) == 4
    assert "<script>alert" not in report(study, study.parent / "page.html").read_text()


def test_a_folder_among_the_marks_is_one_error(study):
    (study / "running" / "x").mkdir()
    assert "cannot write the study" in errors_of(study, "sweep")[0]
    assert errors_of(study, "show", "report", "collected") == []


# collected rows


def stream(columns, metadata):
    table = pa.table(columns).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


PLACE = {"tick": [1], "seq": [1], "sim_time_ns": [1]}
KNOWN = {TYPES: b'{"left": "2 "}'}
STREAMS = {
    "no stream": (b"0" * 900, "."),
    "a text": (b"{}", "."),
    "cut": (stream({**PLACE, "left": [1]}, KNOWN)[:-300], "."),
    "no types": (stream({**PLACE, "left": [1]}, None), "Expecting value"),
    "types a list": (stream({**PLACE, "left": [1]}, {TYPES: b"[1]"}), "Expected `object`"),
    "types deep": (stream({**PLACE, "left": [1]}, {TYPES: DEEP.encode()}), "nests deeper"),
    "types no numbers": (stream({**PLACE, "left": [1]}, {TYPES: b'{"left": "x"}'}), "invalid"),
    "no tick": (stream({"left": [1]}, KNOWN), "has no column 'tick' of int64"),
    "tick a text": (stream({**PLACE, "tick": ["x"]}, KNOWN), "has no column 'tick' of int64"),
    "tick null": (
        stream({**PLACE, "tick": pa.array([None], pa.int64()), "left": [1]}, KNOWN),
        "'tick' of the table 'world' lacks a value",
    ),
    "a text for a number": (stream({**PLACE, "left": ["x"]}, KNOWN), "."),
    "other columns": (stream({**PLACE, "right": [1]}, {TYPES: b'{"right": "2 "}'}), "."),
}


@pytest.mark.parametrize("name", STREAMS)
def test_damaged_collected_rows_are_one_error_and_a_sentence_of_the_report(study, name):
    data, why = STREAMS[name]
    (study / "collected" / "forged.arrows").write_bytes(data)
    edit_row(lambda r: r["collected"].update(world=["forged.arrows", 0, len(data)]))(study)
    (error,) = errors_of(study, "collected")
    assert re.search(f"cannot read the collected rows in .*{why}", error)
    page = report(study, study.parent / "page.html").read_text()
    assert "cannot read the collected rows" in page
    assert errors_of(study, "show", "sweep") == []


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (["../secret", 0, 1], "is no name of a file"),
        (["/etc/passwd", 0, 1], "is no name of a file"),
        (["..", 0, 1], "expected a regular file"),
        (["", 0, 1], "expected a regular file"),
        (["none", 0, 1], "No such file"),
        (["link", 0, 1], "symbolic links"),
        (["pipe", 0, 0], "expected a regular file"),
        (["short", 0, 2**60], "is shorter than"),
        (["short", 2**60, 1], "is shorter than"),
    ],
)
def test_a_place_in_a_row_does_not_lead_out_of_the_study(study, place, why):
    (study / "secret").write_bytes(b"0")
    (study / "collected" / "short").write_bytes(b"0")
    (study / "collected" / "link").symlink_to(study / "secret")
    os.mkfifo(study / "collected" / "pipe")
    edit_row(lambda r: r["collected"].update(world=place))(study)
    (error,) = errors_of(study, "collected")
    assert re.search(f"cannot read the collected rows in .*{why}", error)


# counts of a half-done run


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2, 1, {}]", "[]\nx", "{}\n", DEEP + "\n", '[1, 2, 1, {"x": "y"}]\n', "[-1]\n",
     '["1", 2, 1, {}]\n', "[1, 2, 1, [], 0]\n", f"[{'9' * 6_000}]\n"],
)  # fmt: skip
def test_damaged_counts_start_a_run_anew(tmp_path, text):
    log = tmp_path / "run.db"
    log.write_bytes(b"")
    log.with_suffix(".counts").write_text(text)
    assert HalfRun(log).take_up(Scenario.load("town")) == Counts()
    assert list(tmp_path.iterdir()) == []
