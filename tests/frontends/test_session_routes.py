"""Sessions over HTTP: authorization of messages and decisions, and the answers."""

import sys
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from placet.domains.accounts import Accounts
from placet.domains.session import Sessions
from placet.frontends.sessions import routes as http_sessions
from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.model_config import ModelConfig
from tests.agents.till import Till
from tests.frontends.test_plugin_commands import install
from tests.server.served import Served, serving

pytestmark = pytest.mark.anyio
MAIN = "sessions/main"


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Talking:
    """A served world with an open session: ann decides, alice proposes."""

    def __init__(self, served: Served) -> None:
        self.served = served

    async def say(self, message: str, token: str = "bob"):
        return await self.served.post(f"{MAIN}/messages", {"message": message}, token=token)

    async def held(self, amount: int = 500, token: str = "bob") -> str:
        """Create an approval request and return its id."""
        answer = await self.say(f"/till.put amount={amount}", token)
        assert answer.status_code == 202, answer.text
        return answer.json()["approval_id"]  # type: ignore[no-any-return]

    async def decide(self, hold: str, body: object, token: str = "bob"):
        return await self.served.post(f"{MAIN}/approvals/{hold}", body, token=token)

    async def total(self) -> object:
        return await self.served.world.state("till.box/box/sum")


@asynccontextmanager
async def talking(limits=None, **opening):
    async with serving([Till(), Sessions()], limits=limits) as served:
        body = {"agent": "alice", "people": {"bob": ""}, **opening}
        answer = await served.post("sessions", body)
        assert answer.status_code == 201, answer.text
        yield Talking(served)


async def test_a_message_is_answered_with_its_turn():
    async with talking() as talk:
        answer = await talk.say("/till.put amount=5")
        turn = answer.json()
        assert answer.status_code == 200
        assert (turn["outcome"], turn["agent"], turn["route"]) == ("applied", "alice", "command")
        assert await talk.total() == 5
        looked = (await talk.served.get(MAIN, token="bob")).json()
        assert (looked["agent"], looked["mode"], looked["people"]) == (
            "alice",
            "assisted",
            {"bob": ""},
        )
        assert [one["outcome"] for one in looked["turns"]] == ["applied"]


async def test_a_reopened_session_keeps_its_mode():
    async with talking(mode="interactive") as talk:
        await talk.say("/till.put amount=5")
        for mode, expected in [(None, "interactive"), ("autonomous", "autonomous")]:
            assert (await talk.served.ask("DELETE", MAIN)).status_code == 204
            body = {"people": {"bob": ""}, "mode": mode}
            again = await talk.served.post("sessions", body)
            assert (again.status_code, again.json()["mode"]) == (201, expected)
        for wrong in (None, "wild", 1):
            answer = await talk.served.ask("PUT", f"{MAIN}/mode", {"mode": wrong})
            assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


@pytest.mark.parametrize(
    ("message", "status", "stop"),
    [
        ("/till.put amount=-1", 422, "till.negative"),
        ("/till.putt amount=1", 404, "kind_unknown"),
        ("/till.put", 422, "payload_missing"),
        ("fill it", 422, "unsupported_goal"),
    ],
)
async def test_the_status_is_that_of_the_end_of_the_turn(message, status, stop):
    async with talking() as talk:
        answer = await talk.say(message)
        assert (answer.status_code, answer.json()["stop"]) == (status, stop)


async def test_without_a_proposer_only_commands_are_accepted():
    async with talking(proposer=None) as talk:
        assert (await talk.say("fill it")).json()["stop"] == "planner_unconfigured"
        assert (await talk.say("/till.put amount=1")).status_code == 200


async def test_a_held_plan_is_approved_with_the_token_of_a_person():
    async with talking() as talk:
        hold = await talk.held()
        listed = (await talk.served.get(f"{MAIN}/approvals", token="bob")).json()["approvals"]
        assert [(one["id"], one["state"]) for one in listed] == [(hold, "open")]
        answer = await talk.decide(hold, {"decision": "approve"})
        assert answer.json()["outcome"] == "applied"
        assert await talk.total() == 500
        listed = (await talk.served.get(f"{MAIN}/approvals", token="bob")).json()["approvals"]
        assert [(one["state"], one["by"]) for one in listed] == [("approved", "bob")]
        again = await talk.decide(hold, {"decision": "approve"})
        assert (again.status_code, again.json()["outcome"]) == (403, "refused")


async def test_the_deciding_person_comes_from_the_token_not_the_body():
    async with talking() as talk:
        hold = await talk.held()
        for more in ({"by": "bob"}, {"role": "operator"}, {"confirmed": True}):
            answer = await talk.decide(hold, {"decision": "approve", **more})
            assert answer.status_code == 422
        assert await talk.total() == 0


@pytest.mark.parametrize("token", ["alice", "carol"])
async def test_neither_the_proposer_nor_a_foreign_agent_decides(token):
    async with talking() as talk:
        hold = await talk.held()
        assert (await talk.decide(hold, {"decision": "approve"}, token)).status_code == 403
        assert await talk.total() == 0


async def test_the_owner_of_the_proposer_does_not_decide():
    async with serving([Till(), Sessions()]) as served:
        await served.register("dave", owner="carol")
        await served.post("sessions", {"agent": "dave", "people": {"carol": ""}})
        talk = Talking(served)
        held = await talk.say("/till.put amount=500", "carol")
        hold = held.json()["approval_id"]
        assert (await talk.decide(hold, {"decision": "approve"}, "carol")).status_code == 403
        assert (await talk.decide(hold, {"decision": "approve"}, "operator")).status_code == 200


async def test_an_owner_whose_agent_is_removed_meanwhile_may_not_decide(monkeypatch):
    speaks_for, asked = http_sessions._speaks_for, []

    async def goes(world, who, agent_id):
        asked.append(agent_id)
        if len(asked) == 2:
            await world.remove_agent(agent_id)
        return await speaks_for(world, who, agent_id)

    async with serving([Till(), Sessions()]) as served:
        await served.register("dave", owner="carol")
        await served.post("sessions", {"agent": "dave"})
        hold = await Talking(served).held(token="operator")
        monkeypatch.setattr(http_sessions, "_speaks_for", goes)
        answer = await Talking(served).decide(hold, {"decision": "approve"}, "carol")
        assert (answer.status_code, len(asked)) == (403, 2)


async def test_a_later_agent_of_the_name_and_its_owner_have_no_access_to_its_sessions():
    async with talking() as talk:
        await talk.say("/till.put amount=1")
        await talk.served.world.remove_agent("alice")
        assert (await talk.served.get(MAIN, token="alice")).status_code == 403
        await talk.served.register("alice", owner="carol")
        for token in ("alice", "carol"):
            assert (await talk.served.get(MAIN, token=token)).status_code == 403
            assert (await talk.say("/till.put amount=1", token)).status_code == 403
        assert (await talk.served.get(MAIN, token="bob")).status_code == 200
        assert (await talk.say("/till.put amount=1")).json()["stop"] == "agent_unknown"
        assert await talk.total() == 1
        await talk.served.ask("DELETE", MAIN)
        await talk.served.post("sessions", {"agent": "alice"})
        assert (await talk.served.get(MAIN, token="carol")).status_code == 200


async def test_a_later_agent_of_the_name_reads_nothing_of_its_sessions():
    async with talking() as talk:
        await talk.decide(await talk.held(), {"decision": "deny"})
        await talk.held(600)
        told = ("state", "state?path=session.turns", "state?path=approvals.requests", "events")
        before = [(await talk.served.get(path, token="alice")).text for path in told]
        assert all("sum" in text or "main" in text for text in before)
        await talk.served.world.remove_agent("alice")
        await talk.served.register("alice")
        for path in told:
            assert "main" not in (await talk.served.get(path, token="alice")).text
        await talk.served.ask("DELETE", MAIN)
        opened = await talk.served.post("sessions", {"agent": "alice", "people": {"bob": ""}})
        assert (opened.json()["turns"], opened.status_code) == ([], 201)
        assert (await talk.served.get(f"{MAIN}/approvals")).json() == {"approvals": []}
        assert (await talk.say("/till.put amount=1")).json()["outcome"] == "applied"
        shown = (await talk.served.get("state?path=session.turns", token="alice")).json()["value"]
        assert [one["message"] for one in shown.values()] == ["/till.put amount=1"]


async def test_an_approval_request_is_denied_or_edited():
    async with talking() as talk:
        denied = await talk.decide(await talk.held(), {"decision": "deny"})
        assert (denied.status_code, denied.json()["message"]) == (403, "deny by bob")
        actions = [{"kind": "till.put", "payload": {"amount": 7}}]
        edit = {"decision": "edit", "actions": actions}
        assert (await talk.decide(await talk.held(600), edit)).json()["outcome"] == "applied"
        assert await talk.total() == 7


@pytest.mark.parametrize(
    "body",
    [
        {"decision": "maybe"},
        {},
        {"decision": "edit"},
        {"decision": "approve", "actions": []},
        {"decision": "edit", "actions": [{"payload": {}}]},
        {"decision": "edit", "actions": [{"kind": "till.put", "why": "x"}]},
        {"decision": "edit", "actions": []},
    ],
)
async def test_an_invalid_decision_is_a_problem(body):
    async with talking() as talk:
        answer = await talk.decide(await talk.held(), body)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


class SealedTill(Till):
    """A till whose sum no agent sees."""

    def hidden_fields(self, state, agent_id, ref):
        return ("sum",)


async def test_a_proposer_sees_no_hidden_change_of_its_held_plan():
    async with serving([SealedTill(), Sessions()]) as served:
        await served.post("sessions", {"agent": "alice", "people": {"bob": ""}})
        talk = Talking(served)
        await talk.held()
        seen = {}
        for token in ("bob", "alice"):
            (one,) = (await served.get(f"{MAIN}/approvals", token=token)).json()["approvals"]
            seen[token] = [change["path"] for change in one["diff"]]
        assert seen == {"bob": ["till.box/box/sum"], "alice": []}
        (request,) = (
            (await served.get("state?path=approvals.requests", token="alice"))
            .json()["value"]
            .values()
        )
        assert not {"shown", "foreseen", "undecided"} & request.keys()


async def test_only_members_of_a_session_have_access():
    async with talking() as talk:
        for path, status in ((MAIN, 403), ("sessions/other", 403), (f"{MAIN}/approvals", 403)):
            assert (await talk.served.get(path, token="carol")).status_code == status
        assert (await talk.say("hi", "carol")).status_code == 403
        assert (await talk.served.get(MAIN, token=None)).status_code == 401
        assert (await talk.served.get(MAIN, token="alice")).status_code == 200
        assert (await talk.served.get("sessions/other")).status_code == 404
        assert (await talk.decide("none", {"decision": "deny"})).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"mode": "wild"}, 422),
        ({"session": "a/b"}, 422),
        ({"session": ".."}, 422),
        ({"people": {"agent": ""}}, 422),
        ({"people": ["bob"]}, 422),
        ({"proposer": "human"}, 422),
        ({"proposer": "test", "price": [0, 0]}, 422),
        ({"proposer": "nobody", "max_usd": None}, 422),
        ({"proposer": 5}, 422),
        ({"price": [1]}, 422),
        ({"price": [0, 0], "proposer": "scripted"}, 422),
        ({"max_usd": -1}, 422),
        ({"max_tokens": 0}, 422),
        ({"max_seconds": 0}, 422),
        ({"max_request_seconds": 90_000}, 422),
        ({"max_output_tokens": 0}, 422),
        ({"agent": "system"}, 422),
        ({"role": "x"}, 422),
        ({"session": "main"}, 409),
    ],
)
async def test_a_session_that_cannot_be_opened_is_a_problem(body, status):
    async with talking() as talk:
        answer = await talk.served.post("sessions", {"session": "two", **body})
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_session_has_the_limits_and_the_price_of_its_opening(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    body = {"session": "two", "proposer": "openai:unlisted", "price": [0.25, 2]}
    async with talking() as talk:
        opened = await talk.served.post(
            "sessions", {**body, "max_usd": None, "max_tokens": 9, "max_seconds": 300}
        )
        assert opened.status_code == 201, opened.text
        sessions = talk.served.app.state.sessions
        (limits,) = (o.session.limits for (_, name), o in sessions.items() if name == "two")
        assert (limits.cost_usd_max, limits.tokens_max, limits.seconds_max) == (None, 9, 300)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, ("openai-chat:mine", Decimal("0.5"), 900)),
        ({"max_usd": None, "max_tokens": 7}, ("openai-chat:mine", None, 7)),
        ({"proposer": "scripted"}, ("scripted", Decimal("0.5"), 900)),
        ({"proposer": "openai-chat:gpt-5-mini"}, ("openai-chat:gpt-5-mini", Decimal("0.5"), 900)),
        ({"proposer": None}, (None, Decimal("0.5"), 900)),
        ({"proposer": "openai-chat:other"}, "'other' at api.openai.com is not known"),
    ],
)
async def test_a_session_asks_the_configured_model_unless_its_body_names_another(
    monkeypatch, body, expected
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = ModelConfig(
        name="openai-chat:mine",
        base_url="http://192.168.1.4/v1",
        price=[1, 2],
        max_usd=0.5,
        max_tokens=900,
    )
    async with serving([Till(), Sessions()], serve=ServeConfig(model=model)) as served:
        answer = await served.post("sessions", body)
        if isinstance(expected, str):
            assert answer.status_code == 422
            assert expected in answer.json()["detail"]
            return
        assert answer.status_code == 201, answer.text
        (opened,) = served.app.state.sessions.values()
        limits = opened.session.limits
        described = (answer.json()["proposer"], limits.cost_usd_max, limits.tokens_max)
        assert described == expected


async def test_configured_sessions_draw_on_one_budget_which_must_exist():
    accounts = Accounts(accounts={"team": {"give": {"tokens": 700}}})
    for budget, status in (("team", 201), ("taem", 422)):
        model = ModelConfig(budget=budget, max_tokens=900)
        domains = [Till(), Sessions(), accounts]
        async with serving(domains, serve=ServeConfig(model=model)) as served:
            answer = await served.post("sessions", {"proposer": "scripted"})
            assert answer.status_code == status, answer.text
            if status == 422:
                assert "did you mean 'team'?" in answer.json()["detail"]
                continue
            said = await served.post(f"{MAIN}/messages", {"message": "hello"})
            assert said.status_code == 429
            assert "700 tokens left, 900 are needed" in said.json()["message"]


async def test_a_wrong_method_is_answered_with_the_methods_of_a_session():
    async with talking() as talk:
        answer = await talk.served.ask("PUT", MAIN, {})
        assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD")


async def test_only_the_operator_opens_sessions_and_sets_modes():
    async with talking() as talk:
        served = talk.served
        opened = await served.post("sessions", {"session": "two"}, token="bob")
        assert opened.status_code == 403
        mode = {"mode": "autonomous"}
        assert (await served.ask("PUT", f"{MAIN}/mode", mode, token="bob")).status_code == 403
        assert (await served.ask("PUT", f"{MAIN}/mode", {})).status_code == 422
        assert (await served.ask("PUT", f"{MAIN}/mode", mode)).json()["mode"] == "autonomous"
        assert (await talk.say("/till.put amount=500")).json()["outcome"] == "applied"


@pytest.mark.parametrize("body", [{}, {"message": ""}, {"message": 1}, {"message": "x", "by": "y"}])
async def test_an_invalid_message_is_a_problem(body):
    async with talking() as talk:
        answer = await talk.served.post(f"{MAIN}/messages", body, token="bob")
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


async def test_responses_match_the_openapi_document():
    async with talking() as talk:
        document = (await talk.served.get("/openapi.json")).json()
        resource = Resource.from_contents(document, default_specification=DRAFT202012)
        registry: Registry = Registry().with_resource("document", resource)

        def check(name, value):
            schema = {"$ref": f"document#/components/schemas/{name}"}
            Draft202012Validator(schema, registry=registry).validate(value)

        hold = await talk.held()
        check("Turn", (await talk.say("/till.put amount=5")).json())
        check("Turn", (await talk.say("/till.put amount=-5")).json())
        check("Approvals", (await talk.served.get(f"{MAIN}/approvals")).json())
        check("Session", (await talk.served.get(MAIN)).json())
        check("Turn", (await talk.decide(hold, {"decision": "deny"})).json())
        paths = document["paths"]
        prefix = "/api/v1/worlds/{world}/sessions"
        denied = await talk.decide(hold, {"decision": "deny"})  # it is denied already
        declared = paths[f"{prefix}/{{session}}/approvals/{{approval_id}}"]["post"]["responses"][
            "403"
        ]
        assert (denied.status_code, "application/json" in declared["content"]) == (403, True)
        check("Turn", denied.json())
        for path, name in (
            (prefix, "SessionOpening"),
            (f"{prefix}/{{session}}/messages", "SessionMessage"),
        ):
            body = paths[path]["post"]["requestBody"]["content"]["application/json"]
            check(name, body["examples"]["default"]["value"])


async def test_a_world_without_the_session_domain_has_no_session_routes():
    async with serving(Till()) as served:
        assert (await served.post("sessions", {})).status_code == 404
        document = (await served.get("/openapi.json")).json()
        assert not [path for path in document["paths"] if "sessions" in path]


def test_a_broken_plugin_is_reported_and_the_others_are_served(tmp_path, monkeypatch, capsys):
    install(tmp_path, "[placet.routes]\nfault = broken:routes\nnumber = empty:number\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    app = create_app([Till(), Sessions()])
    told = capsys.readouterr()
    assert "'fault' of guest (broken:routes) cannot be loaded" in told.out + told.err
    assert "'number' of guest (empty:number) is no function" in told.out + told.err
    assert "/api/v1/worlds/{world}/sessions" in app.state.openapi()["paths"]
    for module in ("broken", "empty"):
        sys.modules.pop(module, None)
