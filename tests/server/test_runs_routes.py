"""The runs of a folder over HTTP: for the operator alone, and no file outside of the folder."""

import shutil
from contextlib import asynccontextmanager

import httpx
import pytest
from jsonschema import Draft202012Validator

from placet.schemas.identity import OPERATOR
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.play import build_folder_app
from placet.server.routes import runs as routes
from placet.server.runs import opened as opens
from placet.server.runs.folder import RunFolder
from placet.server.runs.opened import OpenFolder
from placet.server.runs.work import Work
from tests.server.runs_of_folder import damage, run_town

RUNS = "/api/v1/runs"
COMPARISON = f"{RUNS}/comparison?first=a.db&second=b.db"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    run_town(folder / "outside.db")
    inside = folder / "runs"
    inside.mkdir()
    run_town(inside / "a.db")
    run_town(inside / "b.db", max_step=2.0)
    run_town(inside / "c.db", seed=2)
    shutil.copy(inside / "a.db", inside / "broken.db")
    damage(inside / "broken.db")
    (inside / "empty.db").touch()
    (inside / "link.db").symlink_to(folder / "outside.db")
    return inside


@asynccontextmanager
async def playing(folder):
    """Yield a client of the application of `placet play FOLDER`, with the operator's token."""
    known = [KnownToken(OPERATOR, hash_of("op")), KnownToken("ann", hash_of("ann"))]
    opened = OpenFolder(RunFolder(folder), (), lambda _log: {})
    app = build_folder_app(opened, ServeConfig(), Credentials(known))
    transport = httpx.ASGITransport(app)
    headers = {"authorization": "Bearer op"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://runs", headers=headers) as client,
    ):
        yield client


NOTE = {"tags": ["good"], "note": "the first"}
ROUTES = [
    ("GET", RUNS, None, 200),
    ("GET", f"{RUNS}/comparison?first=a.db&second=b.db", None, 200),
    ("GET", f"{RUNS}/a.db/series", None, 200),
    ("PUT", f"{RUNS}/a.db/note", NOTE, 200),
    ("GET", f"{RUNS}-work/k", None, 200),
    ("DELETE", f"{RUNS}-work/k", None, 204),
    ("GET", "/api/v1/history", None, 200),
    ("GET", "/api/v1/worlds/a.db/history/moment?tick=1", None, 200),
]


def _path_of(path):
    """Return the path of a route as the table has it."""
    return path.partition("?")[0].replace("a.db", "{run}").replace("-work/k", "-work/{key}")


@pytest.mark.parametrize(("method", "path", "body", "status"), ROUTES)
async def test_the_runs_are_the_operators_alone(folder, method, path, body, status):
    async with playing(folder) as client:
        for token, told in (("", 401), ("wrong", 401), ("ann", 403), ("op", status)):
            headers = {"authorization": f"Bearer {token}"}
            answer = await client.request(method, path, json=body, headers=headers)
            assert answer.status_code == told, (token, answer.text)


async def test_the_document_names_every_route_and_describes_the_answers(folder):
    async with playing(folder) as client:
        headers = {"authorization": ""}
        document = (await client.get("/openapi.json", headers=headers)).json()
        paths = document["paths"]
        assert "/api/v1/worlds/{world}/history/moment" in paths
        for method, path, body, _ in ROUTES[:5]:
            answer = await client.request(method, path, json=body)
            route = _path_of(path)
            told = paths[route][method.lower()]["responses"]["200"]["content"]
            schema = told["application/json"]["schema"] | {"components": document["components"]}
            Draft202012Validator(schema).validate(answer.json())
    assert "Batch" not in document["components"]["schemas"]
    assert {path for path in paths if path.startswith(RUNS)} == {
        route.path for route in routes.table.routes()
    }


def test_the_table_names_every_route_of_runs():
    named = {(m, _path_of(path)) for m, path, *_ in ROUTES}
    there = {(m, r.path) for r in routes.table.routes() for m in r.operations}
    assert there == {one for one in named if one[1].startswith(RUNS)}


@pytest.mark.parametrize(
    "name",
    [
        "..%2Foutside.db",
        "%2E%2E%2Foutside.db",
        "link.db",
        "%2E%2E",
        "%2Fetc%2Fpasswd",
        "none.db",
        "runs.json",
    ],
)
async def test_a_name_outside_of_the_folder_is_no_run(folder, name):
    async with playing(folder) as client:
        asked = [
            await client.put(f"{RUNS}/{name}/note", json=NOTE),
            await client.get(f"{RUNS}/{name}/series"),
            await client.get(f"{RUNS}/comparison?first=a.db&second={name}"),
            await client.get(f"/api/v1/worlds/{name}/history"),
        ]
        assert {answer.status_code for answer in asked} <= {404, 405}
        listed = (await client.get(f"{RUNS}")).json()
        assert {row["run"] for row in listed["runs"]} == {
            *("a.db", "b.db", "c.db", "broken.db", "empty.db"),
        }


async def test_another_site_cannot_write_a_note(folder):
    async with playing(folder) as client:
        other = {"origin": "https://evil.example"}
        asked = {**other, "access-control-request-method": "PUT"}
        answer = await client.options(f"{RUNS}/a.db/note", headers=asked)
        assert "access-control-allow-origin" not in answer.headers
        plain = {**other, "authorization": "", "content-type": "text/plain"}
        answer = await client.put(f"{RUNS}/a.db/note", content="{}", headers=plain)
        assert answer.status_code == 401
        typed = {"content-type": "text/plain"}
        answer = await client.put(f"{RUNS}/a.db/note", content="{}", headers=typed)
        assert answer.status_code == 415


async def test_a_note_is_listed_and_kept_beside_the_logs(folder):
    async with playing(folder) as client:
        log = (folder / "a.db").read_bytes()
        body = {"tags": ["good", " late "], "note": "<b>\u202e"}
        answer = await client.put(f"{RUNS}/a.db/note", json=body)
        assert answer.json() == {"tags": ["good", "late"], "note": "<b>\u202e"}
        rows = (await client.get(RUNS, params={"find": "tag:late"})).json()
        assert [(row["run"], row["note"]) for row in rows["runs"]] == [("a.db", "<b>\u202e")]
        assert rows["tags"] == ["good", "late"]
        assert (folder / "a.db").read_bytes() == log
        refused = await client.put(f"{RUNS}/a.db/note", json={"tags": ["a,b"], "note": ""})
        assert (refused.status_code, "expected a tag" in refused.json()["detail"]) == (422, True)
        many = await client.put(f"{RUNS}/a.db/note", json={"tags": ["a"] * 17, "note": ""})
        assert many.status_code == 422


async def test_a_damaged_file_of_notes_is_a_problem_and_not_replaced(folder):
    (folder / "runs.json").write_text("{")
    try:
        async with playing(folder) as client:
            listed = (await client.get(RUNS)).json()
            assert "mend the file" in listed["problem"]
            assert len(listed["runs"]) == 5
            answer = await client.put(f"{RUNS}/a.db/note", json=NOTE)
            assert answer.status_code == 409
            assert (folder / "runs.json").read_text() == "{"
    finally:
        (folder / "runs.json").unlink()


async def test_a_query_that_is_none_is_refused_with_the_nearest_name(folder):
    async with playing(folder) as client:
        answer = await client.get(RUNS, params={"find": "max_stop=1"})
        assert answer.status_code == 422
        assert "did you mean 'max_step'?" in answer.json()["detail"]


async def test_two_runs_of_other_settings_part_at_a_tick(folder):
    async with playing(folder) as client:
        asked = f"{RUNS}/comparison?first=a.db&second=b.db"
        answer = (await client.get(asked)).json()
        assert answer["settings"] == [{"key": "settings.max_step", "values": [4.0, 2.0]}]
        assert answer["parting"]["tick"] == 0
        assert answer["parting"]["agent_count"] > 0
        same = (await client.get(f"{RUNS}/comparison?first=a.db&second=a.db")).json()
        assert (same["settings"], same["parting"]["is_equal"]) == ([], True)
        assert same["parting"]["tick"] is None
        seed = (await client.get(f"{RUNS}/comparison?first=a.db&second=c.db")).json()
        assert [one["key"] for one in seed["settings"]] == ["seed"]


async def test_a_damaged_or_empty_run_has_an_error_and_no_fault(folder):
    async with playing(folder) as client:
        for name in ("broken.db", "empty.db"):
            for path in (f"{name}/series", f"comparison?first=a.db&second={name}"):
                answer = await client.get(f"{RUNS}/{path}")
                assert answer.status_code == 503, answer.text
            answer = await client.get(f"/api/v1/worlds/{name}/history")
            assert answer.status_code == 503, answer.text


async def test_the_series_of_a_run_are_columns_over_ticks(folder):
    async with playing(folder) as client:
        series = (await client.get(f"{RUNS}/a.db/series")).json()["series"]
        by_name = {one["name"]: one for one in series}
        intents = by_name["Intents per tick"]
        assert intents["x_name"] == "tick"
        assert all(len(line["values"]) == len(intents["x"]) for line in intents["lines"])


async def test_few_time_lines_are_kept(folder, monkeypatch):
    monkeypatch.setattr(opens, "PLAYED_MAX", 2)
    async with playing(folder) as client:
        for name in ("a.db", "b.db", "c.db", "a.db"):
            answer = await client.get(f"/api/v1/worlds/{name}/history/moment?tick=1")
            assert answer.json()["tick"] == 1
        timelines = client._transport.app.state.timelines
        assert list(timelines._played) == ["c.db", "a.db"]


async def test_the_first_page_is_the_list(folder):
    async with playing(folder) as client:
        assert "<title>Runs" in (await client.get("/")).text
        for path in ("/compare", "/play", "/docs", "/dashboard/runs.js", "/dashboard/compare.js"):
            page = await client.get(path)
            assert page.status_code == 200
            assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (await client.get("/api/v1/history")).json()["runs"] is True


async def test_a_question_tells_how_far_it_is_and_ends_once_it_is_canceled(folder, monkeypatch):
    work, seen = f"{RUNS}-work/mine", []
    async with playing(folder) as client:
        opened = client._transport.app.state.runs
        note = Work.note

        def noted(self, record):  # after a moment in the middle of the log the page cancels
            if record == 5:
                seen.append(opened.works.find("mine").as_dict())
                opened.works.cancel("mine")
            note(self, record)

        monkeypatch.setattr(Work, "note", noted)
        for path in (f"{RUNS}/a.db/series?work=mine", f"{COMPARISON}&work=mine"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["detail"]) == (
                409,
                "the comparison was canceled",
            )
        assert {one["run"] for one in seen} <= {"a.db", "b.db"}
        assert all(one["records"] > 5 for one in seen)
        assert (await client.get(work)).json()["records"] == 0
        assert (await client.delete(work)).status_code == 204  # before it has begun
        assert (await client.get(f"{RUNS}/a.db/series?work=mine")).status_code == 409
        monkeypatch.setattr(Work, "note", note)
        assert (await client.get(f"{RUNS}/a.db/series?work=mine")).status_code == 200
        assert (await client.get(f"{COMPARISON}")).status_code == 200
