"""Designs beside their sessions, over HTTP."""

import asyncio
import json

import pytest

from placet.agents import PlannerOutput, Session
from placet.domains.session import Sessions
from placet.frontends.sessions.bodies import SCHEMAS
from placet.server import wire_schemas
from placet.server.credentials import hash_of
from placet_design import Design
from placet_design.frontend.plan_handler import plan_schemas
from tests.server.process import running
from tests.server.served import serving


def test_no_two_schemas_have_one_name():
    assert not SCHEMAS.keys() & (wire_schemas.SCHEMAS.keys() | plan_schemas().keys())


async def test_designs_are_served_beside_their_sessions():
    async with serving([Design(), Sessions()]) as served:
        await served.post("/api/v1/designs", {"design_id": "ferry"})
        path = "/api/v1/worlds/ferry/sessions"
        assert (await served.post(path, {})).status_code == 201
        said = await served.post(f"{path}/main/messages", {"message": "set beam to 9 m"})
        assert said.json()["outcome"] == "applied"
        ran = await served.post(f"{path}/main/messages", {"message": "run all phases"})
        assert ran.json()["results"][0]["outcome"] == "applied"
        design = (await served.get("/api/v1/designs/ferry")).json()
        assert "9.0" in json.dumps(design), design
        for part in ("phases", "events", "audit"):
            assert (await served.get(f"/api/v1/designs/ferry/{part}")).status_code == 200
        plan = {
            "plan_id": "p",
            "intent_id": "i",
            "design_version_before": design["design_version"],
            "actions": [{"action_type": "noop"}],
        }
        assert (await served.post("/api/v1/designs/ferry/actions", plan)).json()["success"]


@pytest.mark.slow
def test_placet_serve_continues_stored_sessions(tmp_path):
    options = ("--domain", "design", "--sessions", "--store", "ferry.db")
    for expected in (1, 2):
        with running(tmp_path, *options) as server:
            assert server.post("sessions", {"people": {"ann": ""}}).status_code == 201
            turn = server.post("sessions/main/messages", {"message": "set beam to 9 m"}).json()
            assert turn["id"] == f"main/{expected}"
            server.process.send_signal(15)
            server.process.wait()


@pytest.mark.slow
def test_approval_requests_survive_a_restart_of_the_server(tmp_path):
    known = f'[[tokens]]\nagent = "bob"\nsha256 = "{hash_of("bob")}"\n'
    known += f'[[tokens]]\noperator = true\nsha256 = "{hash_of("op")}"\n'
    (tmp_path / "tokens.toml").write_text(known)
    bob = {"authorization": "Bearer bob"}
    options = ("--domain", "design", "--sessions", "--tokens", "tokens.toml")
    opening = {"mode": "interactive", "people": {"bob": ""}}
    with running(tmp_path, *options, "--store", "sqlite:///ferry.db", token="op") as server:
        assert server.post("sessions", opening).status_code == 201
        address = "/api/v1/designs/world/access"
        access = server.client.get(address).json()
        access["editors"].append("bob")
        assert server.client.put(address, json=access).status_code == 200
        say = server.post("sessions/main/messages", {"message": "set beam to 9 m"}, headers=bob)
        hold = f"sessions/main/approvals/{say.json()['approval_id']}"
        server.process.send_signal(9)
        server.process.wait()
    with running(tmp_path, *options, "--store", "sqlite:///ferry.db", token="op") as server:
        closed = server.post(hold, {"decision": "approve"}, headers=bob)
        assert closed.status_code == 403
        assert "again after each start of the server" in closed.json()["detail"]
        assert server.post(hold, {"decision": "approve"}).status_code == 404
        opened = server.post("sessions", opening).json()
        assert [one["outcome"] for one in opened["turns"]] == ["held"]
        done = server.post(hold, {"decision": "approve"}, headers=bob)
        assert (done.status_code, done.json()["outcome"]) == (200, "applied")


@pytest.mark.slow
def test_the_body_of_an_unauthenticated_request_is_not_read(tmp_path):
    with running(tmp_path, "--domain", "design", "--sessions") as server:
        answer = server.client.post(
            "/api/v1/worlds/world/sessions", content=b"{", headers={"authorization": "Bearer x"}
        )
        assert (answer.status_code, json.loads(answer.text)["code"]) == (401, "unauthenticated")


async def test_a_waiting_model_does_not_delay_a_phase():
    is_asked, is_over = asyncio.Event(), asyncio.Event()

    async def thinks(_context):
        is_asked.set()
        await is_over.wait()
        return PlannerOutput(text="hm")

    async with serving([Design(), Sessions()], agents=()) as served:
        session = await Session.open(world=served.world, adapter=thinks)
        turn = asyncio.create_task(session.send("think"))
        await is_asked.wait()
        answer = await served.post("/api/v1/designs/world/phases/mission/run", {"req_id": "r"})
        again = await served.post("/api/v1/designs/world/phases/mission/run", {"req_id": "r"})
        assert (answer.status_code, again.status_code) == (200, 200), answer.text
        assert answer.json()["phase"]["status"] == again.json()["phase"]["status"] != "running"
        assert not turn.done()
        is_over.set()
        assert (await turn).outcome == "said"
