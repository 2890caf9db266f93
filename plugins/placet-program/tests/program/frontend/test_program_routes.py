"""Programs over HTTP: routes onto the kinds, with the gate's verdicts for answers."""

import pytest
from jsonschema import Draft202012Validator

from placet.domains.session import Sessions
from placet_program import Program
from placet_program.frontend import routes as http_programs
from tests.server.served import TOKENS, codes, serving

pytestmark = pytest.mark.anyio
PROGRAM = "/api/v1/programs/world"
HELLO = http_programs._ROUTES[0].example


@pytest.fixture
def anyio_backend():
    return "asyncio"


def output(answer):
    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["results"]
    return result["output"]


async def test_a_program_is_changed_verified_compiled_run_and_has_a_history():
    async with serving(Program()) as served:
        changed = await served.post(f"{PROGRAM}/mutations", HELLO, token="alice")
        assert changed.status_code == 200
        assert output(await served.post(f"{PROGRAM}/verify", {}, token="bob"))["errors"] == 0
        source = output(await served.post(f"{PROGRAM}/compile", {"entry": "main"}))
        assert "Hello, world!" in str(source)
        ran = output(await served.post(f"{PROGRAM}/simulate", {"function": "main"}))
        assert ran["value"] == "Hello, world!"
        history = output(await served.get(f"{PROGRAM}/history"))
        assert "alice" in str(history)


async def test_a_refusal_is_the_verdict_of_the_gate():
    async with serving(Program()) as served:
        refused = await served.post(f"{PROGRAM}/simulate", {"function": "nothing"})
        assert refused.status_code == 422
        assert codes(refused) == ["program.unknown_function"]
        unsound = await served.post(f"{PROGRAM}/mutations", {"mutations": "x"})
        assert codes(unsound) == ["payload_invalid"]


async def test_only_the_operator_has_its_name(monkeypatch):
    monkeypatch.setitem(TOKENS, "host", "token-of-host")
    async with serving(Program()) as served:
        answer = await served.post(f"{PROGRAM}/verify", {}, token="host")
        assert answer.status_code == 403
        assert "'host' is the operator's" in answer.json()["detail"]


async def test_every_example_of_the_document_is_a_request():
    async with serving(Program()) as served:
        document = (await served.get("/openapi.json")).json()
        for name in ("mutations", "verify", "compile", "simulate"):
            route = document["paths"][f"/api/v1/programs/{{program}}/{name}"]["post"]
            body = route["requestBody"]["content"]["application/json"]
            example = body["examples"]["default"]["value"]
            answer = await served.post(f"{PROGRAM}/{name}", example)
            assert answer.status_code == 200, answer.text


async def test_a_repeated_request_has_the_same_answer():
    async with serving(Program()) as served:
        body = {**HELLO, "req_id": "once"}
        first = (await served.post(f"{PROGRAM}/mutations", body, token="alice")).json()
        again = (await served.post(f"{PROGRAM}/mutations", body, token="alice")).json()
        assert again["replayed"]
        assert again["seq"] == first["seq"]


async def test_a_request_on_an_outdated_context_is_stale():
    async with serving(Program()) as served:
        seq = served.world.seq
        await served.post(f"{PROGRAM}/mutations", HELLO, token="alice")
        late = {"mutations": [{"op": "remove_function", "name": "main"}], "context_seq": seq}
        answer = await served.post(f"{PROGRAM}/mutations", late, token="bob")
        assert (answer.status_code, codes(answer)) == (409, ["stale_context"])


async def test_unauthenticated_and_foreign_requests_are_refused():
    async with serving(Program()) as served:
        assert (await served.post(f"{PROGRAM}/verify", {}, token=None)).status_code == 401
        assert (await served.post("/api/v1/programs/other/verify", {})).status_code == 404
        for body in ({"req_id": 5}, {"context_seq": "x"}):
            assert (await served.post(f"{PROGRAM}/verify", body)).status_code == 422
        await served.ask("DELETE", "agents/bob")
        removed = await served.post(f"{PROGRAM}/verify", {}, token="bob")
        assert codes(removed) == ["agent_unknown"]


async def test_routes_exist_only_with_the_program_domain():
    async with serving() as served:
        assert (await served.post(f"{PROGRAM}/verify", {})).status_code == 404
    async with serving([Program(), Sessions()]) as served:
        assert (await served.post(f"{PROGRAM}/verify", {})).status_code == 200
        await served.post("sessions", {})
        answer = await served.get("sessions/main")
        for sentence in ("create hello world program", "compile program", "run program"):
            answer = await served.post("sessions/main/messages", {"message": sentence})
            assert (answer.status_code, answer.json()["route"]) == (200, "command")
        assert "Hello, world!" in answer.text


async def test_bodies_are_declared_as_the_payloads_that_the_gate_takes():
    async with serving(Program()) as served:
        document = (await served.get("/openapi.json")).json()
        parts = {"components": document["components"]}
        for body, path, is_valid in (
            ({"entry": "main"}, "compile", True),
            ({"entry": "main", "req_id": "r", "context_seq": 0}, "compile", True),
            ({"entry": "main", "req_id": "r", "context_seq": -1}, "compile", False),
            ({"entry": "Main"}, "compile", False),
            ({}, "compile", False),
            ({"entry": "main", "more": 1}, "compile", False),
            ({"mutations": []}, "mutations", False),
            ({"function": "main", "fuel": 0}, "simulate", False),
        ):
            route = document["paths"][f"/api/v1/programs/{{program}}/{path}"]["post"]
            schema = route["requestBody"]["content"]["application/json"]["schema"]
            assert Draft202012Validator(schema | parts).is_valid(body) is is_valid, body
            answer = await served.post(f"{PROGRAM}/{path}", body)
            is_unsound = "request_invalid" in answer.text or '"stage":"structure"' in answer.text
            assert is_unsound is not is_valid, answer.text
