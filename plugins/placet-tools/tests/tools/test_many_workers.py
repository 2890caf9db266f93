"""A gate with a URL: a server decides and records, and many workers run their own functions."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest
from tests.tools.shop import QUIET, Shop

from placet import Orchestrator
from placet.schemas.errors import ClosedError
from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet_tools import Gate, ToolError, Tools
from placet_tools.frontend import claims
from placet_tools.frontend.remote.remote_gate import GateUnreachable, RemoteGate
from tests.actors.real_time import until

TOKEN = "tulip"  # of a test
PEOPLE = ServeConfig(people={"ann": ["operator"]})


@asynccontextmanager
async def served(tools, **config):
    """Serve the tools in this process; the transport of its clients."""
    domain = tools.domain(runs_on_workers=True)
    world = Orchestrator(domain, QUIET if not config else config["config"])
    known = Credentials(
        [KnownToken("operator", hash_of(TOKEN)), KnownToken("ann", hash_of("rose"))]
    )
    app = create_app(world, credentials=known, serve=PEOPLE)
    async with app.router.lifespan_context(app):
        yield httpx.ASGITransport(app)


@asynccontextmanager
async def worker(transport, tools, monkeypatch, token=TOKEN, **options):
    """Open a gate whose requests go to an application in this process."""
    client = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **more: client(transport=transport, **more))
    async with Gate(tools, url="http://placet", token=token, **options) as gate:
        monkeypatch.setattr(httpx, "AsyncClient", client)
        yield gate


async def test_the_worker_that_calls_runs_its_function(monkeypatch):
    server, mine = Shop(), Shop()
    async with (
        served(server.tools) as transport,
        worker(transport, mine.tools, monkeypatch) as gate,
    ):
        assert isinstance(gate, RemoteGate)
        outcome = await gate.call("mail", agent="a", key="m1", to="bob")
        assert (outcome.status, outcome.output, outcome.key) == ("done", "sent", "m1")
        assert (await gate.call("lookup", order="A7")).output == {"order": "A7", "euro": 42}
        assert (await gate.call("mail", agent="a", key="m1", to="bob")).output == "sent"
        assert (await gate.outcome("m1")).status == "done"
        assert (await gate.call("charge", key="c", order="A7")).output == "c"
    assert server.ran == []
    assert mine.ran[0] == ("mail", "bob")
    assert len(mine.ran) == 3


@pytest.mark.parametrize("key", ["m1#2", "m1?wait_s=0", "m/1", "a/../m1", "m%31", "..", "ä 1"])
async def test_a_key_of_any_characters_names_its_own_call(monkeypatch, key):
    """As a part of a path it could be cut, and name another call or none."""
    mine = Shop()
    mine.breaks.add("mail")
    async with (
        served(Shop().tools) as transport,
        worker(transport, mine.tools, monkeypatch, wait_s=5.0) as gate,
    ):
        assert (await gate.call("mail", key="m1", to="bob")).status == "doubt"
        assert (await gate.call("lookup", key=key, order="A7")).status == "done"
        assert (await gate.outcome(key)).output == {"order": "A7", "euro": 42}
        with pytest.raises(LookupError, match="in doubt"):
            await gate.settle(key, done=True)
        assert (await gate.outcome("m1")).status == "doubt"


async def test_refusals_and_quotas_are_the_servers(monkeypatch):
    tools = Tools("desk")

    @tools.tool(quota={"rate": 0.001, "burst": 1})
    def order(item: str) -> str:
        return item

    async with served(tools) as transport, worker(transport, tools, monkeypatch) as gate:
        assert (await gate.call("order", item=3)).codes == ("payload_invalid",)
        assert (await gate.call("ordre", item="x")).codes == ("kind_unknown",)
        assert (await gate.call("order", item="a")).status == "done"
        assert (await gate.call("order", item="b")).codes == ("quota_exceeded",)
        assert (await gate.call("order", item=float("nan"))).status == "refused"
        with pytest.raises(ValueError, match=r"desk\.recorder"):
            await gate.call("order", agent="desk.recorder", item="c")


async def test_a_person_decides_at_the_server_and_the_worker_runs_the_call(monkeypatch):
    mine = Shop()
    async with (
        served(Shop().tools) as transport,
        worker(transport, mine.tools, monkeypatch) as gate,
        httpx.AsyncClient(transport=transport, base_url="http://placet") as ann,
    ):
        held = await gate.call("refund", agent="support", key="r1", order="A7", euro=42)
        assert held.status == "held"
        assert mine.ran == []
        deciding = asyncio.create_task(gate.decision(held.approval))
        path = f"/api/v1/worlds/world/approvals/{held.approval}"
        headers = {"authorization": "Bearer rose"}
        shown = (await ann.get(path, headers=headers)).json()
        body = {"decision": "approve", "digest": shown["digest"]}
        assert (await ann.post(path, json=body, headers=headers)).status_code == 200
        decided = await deciding
        assert (decided.state, decided.by) == ("approved", "ann")
        assert [one.output for one in decided.outcomes] == [{"paid": 42}]
        assert mine.ran == [("refund", "A7", 42)]
        assert (
            await gate.call("refund", agent="support", key="r1", order="A7", euro=42)
        ).key == "r1"
        assert len(mine.ran) == 1


async def test_a_failed_plan_is_undone_by_the_worker(monkeypatch):
    mine = Shop()
    mine.fails.add("mail")
    shop = Shop().tools.domain(runs_on_workers=True, approve_from="never")
    monkeypatch.setattr(Tools, "domain", lambda *_, **__: shop)
    async with served(Shop().tools) as transport:
        monkeypatch.undo()
        async with worker(transport, mine.tools, monkeypatch) as gate:
            plan = [("refund", {"order": "A7", "euro": 5}), ("mail", {"to": "bob"})]
            outcomes = await gate.plan(plan, key="p")
            assert [one.status for one in outcomes] == ["undone", "failed"]
            assert [name for name, *_ in mine.ran] == ["refund", "unpay"]


async def test_one_key_at_two_workers_runs_once(monkeypatch):
    first, second = Shop(), Shop()
    async with (
        served(Shop().tools) as transport,
        worker(transport, first.tools, monkeypatch) as one,
        worker(transport, second.tools, monkeypatch) as other,
    ):
        calls = [gate.call("mail", agent="a", key="k", to="bob") for gate in (one, other) * 3]
        outcomes = await asyncio.gather(*calls)
        assert {each.status for each in outcomes} == {"done"}
        assert len(first.ran) + len(second.ran) == 1


def hanging(monkeypatch):
    """Return tools whose functions hang, and shorten the claims."""
    monkeypatch.setattr(claims, "CLAIM_SECONDS", 0.1)
    monkeypatch.setattr(claims, "GRACE_SECONDS", 0.1)
    tools = Tools("slow")
    is_over = asyncio.Event()
    begun: list[str] = []

    def declare(name, **options):
        async def function(order: str) -> str:
            begun.append(name)
            if len(begun) == 1:
                await is_over.wait()
            return "done"

        function.__name__ = name
        tools.tool(**options)(function)

    declare("once")
    declare("again", delivery="idempotent")
    declare("read", risk="read")
    return tools, is_over, begun


@pytest.mark.parametrize(
    ("tool", "status", "runs"), [("once", "doubt", 1), ("again", "done", 2), ("read", "failed", 1)]
)
async def test_a_lost_worker_leaves_a_doubt_or_its_call_runs_again(monkeypatch, tool, status, runs):
    tools, is_over, begun = hanging(monkeypatch)
    async with (
        served(tools) as transport,
        worker(transport, tools, monkeypatch) as lost,
        worker(transport, tools, monkeypatch) as other,
    ):
        monkeypatch.setattr("placet_tools.frontend.remote.remote_gate.GRACE_SECONDS", -60.0)
        losing = asyncio.create_task(lost.call(tool, agent="a", key="k", order="A"))
        await until(lambda: bool(begun))
        found = await other.call(tool, agent="a", key="k", order="A")
        assert (found.status, len(begun)) == (status, runs)
        is_over.set()  # the settlement of the lost worker comes too late
        assert (await losing).status == status
        if status == "doubt":
            assert "did not answer in time" in found.message
            settled = await other.settle("k", done=True, output="found")
            assert (settled.status, settled.output) == ("done", "found")
            with pytest.raises(LookupError, match="in doubt"):
                await other.settle("k", done=True)


async def test_a_call_that_no_worker_takes_has_not_run(monkeypatch):
    monkeypatch.setattr(claims, "UNCLAIMED_SECONDS_MAX", 0.05)
    shop = Shop()
    async with served(shop.tools) as transport, worker(transport, shop.tools, monkeypatch) as gate:
        monkeypatch.setattr(claims.Claims, "take", lambda *_: [])
        outcome = await gate.call("mail", to="bob")
        assert (outcome.status, shop.ran) == ("failed", [])
        assert "no worker asked" in outcome.message


async def test_a_gate_that_does_not_fit_the_server_is_refused_at_opening(monkeypatch):
    async with served(Shop().tools) as transport:
        with pytest.raises(GateUnreachable, match="answered 401"):
            async with worker(transport, Shop().tools, monkeypatch, token="wrong"):
                pass
        monkeypatch.undo()
        with pytest.raises(GateUnreachable, match="answered 403"):
            async with worker(transport, Shop().tools, monkeypatch, token="rose"):
                pass
        monkeypatch.undo()
        other = Shop().tools
        other.tool()(lambda_named("extra"))
        with pytest.raises(ToolError, match="declares extra otherwise, or not at all"):
            async with worker(transport, other, monkeypatch):
                pass
        monkeypatch.undo()
        with pytest.raises(ToolError, match="has the tools 'shop', not 'desk'"):
            async with worker(transport, Tools("desk"), monkeypatch):
                pass
    monkeypatch.undo()
    async with httpx.AsyncClient():
        with pytest.raises(ClosedError, match="cannot be reached"):
            async with Gate(Shop().tools, url="http://127.0.0.1:1"):
                pass


def lambda_named(name):
    def function() -> None:
        pass

    function.__name__ = name
    return function


def test_arguments_of_the_server_are_refused():
    with pytest.raises(ValueError, match="policy is the server's"):
        Gate(Tools("desk"), url="http://placet", policy={})
    with pytest.raises(ValueError, match="there is no url"):
        Gate(Tools("desk"), token="x")


async def test_people_decide_and_look_at_the_world_at_the_server(monkeypatch):
    shop = Shop()
    async with served(shop.tools) as transport, worker(transport, shop.tools, monkeypatch) as gate:
        for refused in (gate.approvals(), gate.decide("r", "deny", by="ann"), gate.erase("A7")):
            with pytest.raises(Exception, match=r"at the server|no personal data"):
                await refused
        with pytest.raises(AttributeError, match="on the server"):
            _ = gate.world
        with pytest.raises(LookupError):
            await gate.outcome("unknown")
        with pytest.raises(LookupError):
            await gate.decision("unknown")


async def test_the_tools_of_a_framework_ask_the_server(monkeypatch):
    shop = Shop()
    async with served(shop.tools) as transport, worker(transport, shop.tools, monkeypatch) as gate:
        toolset = gate.pydantic_ai("support")
        assert toolset is not None
        (mail,) = [one for one in gate.openai_agents("support", run="r") if one.name == "mail"]
        assert mail.params_json_schema["required"] == ["to"]
