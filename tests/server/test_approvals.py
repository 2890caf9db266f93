"""Requests for approval over HTTP: who sees them, who decides, and what becomes of them."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest

from placet import Inbox, Orchestrator, OrchestratorConfig
from placet.kernel import Domain
from placet.schemas.effect import EffectKey, EffectStatus, OutcomeUnknown
from placet.schemas.identity import OPERATOR
from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.people import PeopleError
from placet.server.routes.approvals import _doubt
from tests.kernel.domains import Lab
from tests.runtime.ledger_desk import QUIET, domains, paid
from tests.server.served import serving

PEOPLE = {"bob": ["manager"], "carol": []}
"""Alice is no person: she is an agent. Carol has no role."""

NO_DOUBTS = {"doubts": [], "left_out": 0}


@asynccontextmanager
async def desk(*, more=(), **options):
    serve = ServeConfig(people=PEOPLE)
    async with serving(
        [*domains(), *more], serve=serve, agents=("alice",), log_level="critical", **options
    ) as served:
        yield served


async def ask(served, *payments, agent="alice", role="", **options):
    """Ask for an approval of payments, and return the request."""
    handle = await served.world.register_agent(agent)
    intents = [handle.intent("desk.pay", to=to, euro=euro) for to, euro in payments]
    return (await Inbox(served.world).ask(intents, agent=handle, role=role, **options)).approval


async def test_the_times_of_a_request_are_those_of_now_and_not_of_the_latest_record():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        await served.world.skip_time(780.0)
        answer = (await served.get("approvals?state=open", token="carol")).json()
        (one,) = answer["approvals"]
        single = (await served.get(f"approvals/{asked.id}", token="carol")).json()
        for shown in (one, single):
            assert 780 <= shown["age_s"] < 3_600
            assert 0 < shown["left_s"] <= 3_600 - 780
            assert shown["age_s"] + shown["left_s"] == pytest.approx(3_600, abs=1.0)
        assert answer["sim_time"] >= asked.requested + 780


async def test_a_new_request_has_no_second_more_than_was_asked_for():
    now = 785.151705334
    assert (now + 3_600) - now > 3_600  # by the arithmetic of floats
    async with desk(clock="stepped") as served:
        handle = await served.world.register_agent("alice")
        await served.world.step(now)
        intents = [handle.intent("desk.pay", to="zoe", euro=50)]
        asking = asyncio.create_task(Inbox(served.world).ask(intents, agent=handle))
        while not asking.done():
            await served.world.step(0.0)
            await asyncio.sleep(0)
        asked = (await asking).approval
        shown = (await served.get(f"approvals/{asked.id}", token="carol")).json()
        assert shown["left_s"] == 3_600


def decision(request, decision="approve", **more):
    return {"decision": decision, "digest": request.digest, **more}


async def test_a_request_is_listed_read_and_approved():
    async with desk() as served:
        asked = await ask(
            served, ("zoe", 50), about={"goal": "the rent", "cost": 50, "asks": ["pay: euro > 40"]}
        )
        (one,) = (await served.get("approvals?state=open", token="carol")).json()["approvals"]
        assert one["calls"] == [
            {
                "kind": "desk.pay",
                "payload": {"to": "zoe", "euro": 50},
                "key": one["calls"][0]["key"],
                "conditions": [],
                "defaults": [],
            }
        ]
        assert list(one["calls"][0]["payload"]) == ["to", "euro"]  # as the kind declares them
        assert (one["outside"], one["asks"]) == (False, ["pay: euro > 40"])
        assert one["age_s"] >= 0 <= one["requested"] < one["expires"]
        assert one["changes"] == [
            {"entity": "desk.paid/zoe", "field": "euro", "op": "add", "old": None, "new": 50}
        ]
        assert (one["agent"], one["risk"], one["cost"]) == ("alice", "high", 50)
        assert (one["role"], one["deciders"], one["decides"]) == (
            "",
            ["bob", "carol", OPERATOR],
            True,
        )
        assert one["digest"] == asked.digest
        assert 0 < one["left_s"] <= 3_600
        answer = await served.post(
            f"approvals/{asked.id}", decision(asked, reason="agreed"), token="carol"
        )
        assert answer.status_code == 200, answer.text
        got = (await served.get(f"approvals/{asked.id}", token="carol")).json()
        assert {**got, "age_s": 0} == {**answer.json(), "age_s": 0}  # it is later
        assert (got["state"], got["by"], got["reason"]) == ("approved", "carol", "agreed")
        assert (got["calls"][0]["status"], got["calls"][0]["output"]) == ("done", None)
        assert paid(await served.world.state()) == {"zoe": 50}


async def test_the_role_of_a_request_is_a_person_s_of_the_configuration():
    async with desk() as served:
        asked = await ask(served, ("zoe", 200), role="manager")
        assert (await served.get("approvals", token="carol")).json()["approvals"] == []
        path = f"approvals/{asked.id}"
        for token, status in [("carol", 404), (OPERATOR, 403), ("alice", 403), (None, 401)]:
            answer = await served.post(path, decision(asked), token=token)
            assert answer.status_code == status, (token, answer.text)
            assert ("bob" in answer.text) == (status == 403)  # who may decide, for who may see it
            read = await served.get(path, token=token)
            assert read.status_code == (status if status in {401, 404} else 200)
            if status == 404:
                assert (read.json()["code"], read.json()["detail"]) == (
                    answer.json()["code"],
                    answer.json()["detail"],
                )
        seen = (await served.get(f"approvals/{asked.id}", token=OPERATOR)).json()
        assert (seen["state"], seen["deciders"], seen["decides"]) == ("open", ["bob"], False)
        answer = await served.post(f"approvals/{asked.id}", decision(asked), token="bob")
        assert (answer.status_code, answer.json()["by"]) == (200, "bob")


async def test_the_agent_that_asked_sees_its_request_without_the_changes():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        (one,) = (await served.get("approvals", token="alice")).json()["approvals"]
        assert (one["id"], one["changes"], one["decides"]) == (asked.id, None, False)
        answer = await served.post(f"approvals/{asked.id}", decision(asked), token="alice")
        assert answer.status_code == 403
        path = f"state?path=approvals.requests/{asked.id}"
        seen = (await served.get(path, token="alice")).json()["value"]
        assert seen["state"] == "open"
        assert not {"shown", "foreseen", "undecided"} & seen.keys()
        assert "shown" in (await served.get(path)).json()["value"]
        assert (await served.get(f"approvals/{asked.id}", token="alice")).json()["state"] == "open"


async def test_the_owner_of_the_agent_that_asked_decides_nothing():
    async with desk() as served:
        await served.post("agents", {"agent_id": "dave", "owner": "carol"})
        asked = await ask(served, ("zoe", 50), agent="dave")
        (one,) = (await served.get("approvals", token="carol")).json()["approvals"]
        assert (one["deciders"], one["decides"]) == (["bob", OPERATOR], False)
        answer = await served.post(f"approvals/{asked.id}", decision(asked), token="carol")
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"decision": "approve", "digest": "0" * 32}, 409, "approvals.request_changed"),
        ({"decision": "approve"}, 422, None),
        ({"decision": "approve", "digest": ""}, 422, None),
        ({"decision": "aprove", "digest": "x"}, 422, None),
        ({"decision": "approve", "digest": "x", "by": "bob"}, 422, None),
        ({"decision": "amend", "digest": "x"}, 422, None),
        ({"decision": "amend", "digest": "x", "calls": []}, 422, None),
        ({"decision": "deny", "digest": "x", "calls": [{"kind": "desk.pay"}]}, 422, None),
        ({"decision": "deny", "digest": "x", "reason": "r" * 2_001}, 422, None),
        ({"decision": "deny", "digest": "x" * 65}, 422, None),
        ([], 422, None),
    ],
)
async def test_a_decision_that_is_refused_leaves_the_request_open(body, status, code):
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        answer = await served.post(f"approvals/{asked.id}", body, token="bob")
        assert (answer.status_code, answer.json().get("refusal")) == (status, code), answer.text
        assert (await Inbox(served.world).get(asked.id)).state == "open"


async def test_a_request_is_decided_once():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        answers = await asyncio.gather(
            *[
                served.post(f"approvals/{asked.id}", decision(asked, what), token=token)
                for what, token in [("approve", "bob"), ("deny", "carol"), ("approve", OPERATOR)]
            ]
        )
        assert sorted(one.status_code for one in answers) == [200, 409, 409]
        (winner,) = [one.json() for one in answers if one.status_code == 200]
        got = (await served.get(f"approvals/{asked.id}")).json()
        assert (got["by"], got["state"]) == (winner["by"], winner["state"])
        late = await served.post(f"approvals/{asked.id}", decision(asked, "deny"), token="bob")
        assert (late.status_code, late.json()["refusal"]) == (409, "approvals.request_decided")


async def test_a_request_that_would_do_something_else_is_stale():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        assert (
            await served.submit(
                {"kind": "desk.pay", "payload": {"to": "zoe", "euro": 5}, "req_id": "alice:1"},
                token="alice",
            )
        ).status_code == 200
        answer = await served.post(f"approvals/{asked.id}", decision(asked), token="bob")
        assert (answer.status_code, answer.json()["state"]) == (409, "stale")
        got = (await served.get(f"approvals/{asked.id}", token="bob")).json()
        assert (got["state"], got["by"]) == ("stale", "approvals.recorder")


async def test_an_expired_request_is_a_conflict():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50), seconds=0.01)
        await served.world.wait_until(asked.expires + 0.001)
        (one,) = (await served.get("approvals?state=expired", token="bob")).json()["approvals"]
        assert (one["state"], one["left_s"], one["decides"]) == ("expired", 0.0, False)
        answer = await served.post(f"approvals/{asked.id}", decision(asked), token="bob")
        assert (answer.status_code, answer.json()["refusal"]) == (409, "approvals.request_expired")


async def test_an_amendment_runs_other_calls_and_names_its_request():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        body = decision(
            asked, "amend", calls=[{"kind": "desk.pay", "payload": {"to": "zoe", "euro": 4}}]
        )
        answer = await served.post(f"approvals/{asked.id}", body, token="bob")
        assert answer.json()["state"] == "amended"
        other = await served.get(f"approvals/{answer.json()['amended_by']}", token="bob")
        assert (other.json()["state"], other.json()["amends"]) == ("approved", asked.id)
        assert other.json()["calls"][0]["payload"] == {"to": "zoe", "euro": 4}
        assert other.json()["calls"][0]["status"] == "done"
        assert paid(await served.world.state()) == {"zoe": 4}


async def test_an_amendment_is_shown_as_it_will_run_and_then_does_just_this():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        calls = [{"kind": "desk.pay", "payload": {"to": "zoe", "euro": 4}}]
        body = decision(asked, "amend", calls=calls, dry_run=True)
        shown = (await served.post(f"approvals/{asked.id}", body, token="bob")).json()
        again = (await served.post(f"approvals/{asked.id}", body, token="bob")).json()
        assert shown["digest"] == again["digest"]
        assert (shown["id"], shown["state"], shown["amends"]) == ("", "open", asked.id)
        assert [(one["kind"], one["payload"]) for one in shown["calls"]] == [
            ("desk.pay", {"to": "zoe", "euro": 4})
        ]
        assert [(one["entity"], one["new"]) for one in shown["changes"]] == [("desk.paid/zoe", 4)]
        assert (await Inbox(served.world).get(asked.id)).state == "open"
        assert paid(await served.world.state()) == {}
        pay = {"kind": "desk.pay", "payload": {"to": "zoe", "euro": 5}, "req_id": "alice:1"}
        await served.submit(pay, token="alice")
        late = decision(asked, "amend", calls=calls, foreseen=shown["digest"])
        answer = await served.post(f"approvals/{asked.id}", late, token="bob")
        assert (answer.status_code, answer.json()["refusal"]) == (409, "approvals.not_foreseen")
        assert (await Inbox(served.world).get(asked.id)).state == "open"
        shown = (await served.post(f"approvals/{asked.id}", body, token="bob")).json()
        now = decision(asked, "amend", calls=calls, foreseen=shown["digest"])
        answer = await served.post(f"approvals/{asked.id}", now, token="bob")
        assert answer.json()["state"] == "amended"


async def test_a_dry_run_of_another_decision_is_invalid():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        body = decision(asked, "approve", dry_run=True)
        answer = await served.post(f"approvals/{asked.id}", body, token="bob")
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
        assert (await Inbox(served.world).get(asked.id)).state == "open"


async def test_an_amendment_with_a_key_twice_is_no_json():
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        calls = [{"kind": "desk.pay", "payload": {"to": "zoe", "euro": 5}}]
        body = json.dumps(decision(asked, "amend", calls=calls)).replace(
            '"euro": 5', '"euro": 5, "euro": 9999'
        )
        answer = await served.ask(
            "POST",
            f"approvals/{asked.id}",
            content=body,
            token="bob",
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == 422, answer.text
        assert "key 'euro' twice" in answer.json()["detail"]
        assert (await Inbox(served.world).get(asked.id)).state == "open"


@pytest.mark.parametrize(
    ("kind", "payload", "code"),
    [
        ("desk.pay", {"to": "zoe", "euro": 501}, "payload_invalid"),
        ("desk.pya", {}, "kind_unknown"),
        ("desk.pay", {"to": "zoe", "euro": 200}, "desk.approval_required"),
    ],
)
async def test_an_amendment_that_is_refused_says_which_call_is_wrong(kind, payload, code):
    async with desk() as served:
        asked = await ask(served, ("zoe", 50))
        good = {"kind": "desk.pay", "payload": {"to": "yan", "euro": 1}}
        body = decision(asked, "amend", calls=[good, {"kind": kind, "payload": payload}])
        answer = await served.post(f"approvals/{asked.id}", body, token="bob")
        assert answer.status_code == 422, answer.text
        (refusal,) = answer.json()["refusals"]
        assert (refusal["call"], refusal["code"]) == (1, code)
        assert (await Inbox(served.world).get(asked.id)).state == "open"
        assert paid(await served.world.state()) == {}


async def test_a_list_has_pages_and_states():
    async with desk() as served:
        asked = [await ask(served, (f"to{k}", 50)) for k in range(70)]
        await served.post(f"approvals/{asked[0].id}", decision(asked[0], "deny"), token="bob")
        first = (await served.get("approvals?state=open", token="bob")).json()
        rest = await served.get(f"approvals?state=open&cursor={first['next']}", token="bob")
        found = [one["id"] for one in (*first["approvals"], *rest.json()["approvals"])]
        assert found == [one.id for one in asked[1:]]
        assert (len(first["approvals"]), rest.json()["next"]) == (64, None)
        assert len((await served.get("approvals?state=denied")).json()["approvals"]) == 1
        for query in ("state=opn", "cursor=-1", "cursor=x", "stat=open"):
            assert (await served.get(f"approvals?{query}")).status_code == 422


HOSTILE = ("<img src=x onerror=alert(1)>", "\u202egnp.exe\u202c", "\u0000", "x" * 4_096, "\ud83d")


@pytest.mark.parametrize("text", HOSTILE[:4])
async def test_hostile_text_is_returned_as_it_is(text):
    async with desk() as served:
        asked = await ask(served, (text[:100], 50), about={"goal": text})
        answer = await served.post(
            f"approvals/{asked.id}", decision(asked, "deny", reason=text[:2_000]), token="bob"
        )
        assert answer.status_code == 200, answer.text
        assert (answer.json()["about"]["goal"], answer.json()["reason"]) == (text, text[:2_000])
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("name", ["<b>", "a" * 4_000, "%00", "%E2%80%AE", "event"])
async def test_an_unknown_id_is_not_found(name):
    async with desk() as served:
        for token in ("bob", "carol", "alice", OPERATOR):
            for answer in (
                await served.get(f"approvals/{name}", token=token),
                await served.post(
                    f"approvals/{name}", {"decision": "deny", "digest": "x"}, token=token
                ),
            ):
                assert answer.status_code in {404, 405}, answer.text


async def test_a_world_without_the_domain_has_no_requests():
    async with serving() as served:
        answer = await served.get("approvals")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "no domain 'approvals'" in answer.json()["detail"]


async def test_a_stranger_is_shown_nothing():
    async with serving(domains(), serve=ServeConfig(people={"bob": []}), agents=()) as served:
        asked = await ask(served, ("zoe", 50))
        assert (await served.get("approvals", token="carol")).json()["approvals"] == []
        for answer in (
            await served.get(f"approvals/{asked.id}", token="carol"),
            await served.post(f"approvals/{asked.id}", decision(asked), token="carol"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_person_without_a_token_or_with_an_unknown_role_is_refused_at_start():
    known = Credentials([KnownToken("bob", hash_of("b")), KnownToken(OPERATOR, hash_of("o"))])

    class Bakery(Domain):
        name, version, kinds, roles = "bakery", "1", (), ("manager",)

    for people, message in [
        ({"bbo": ["manager"]}, "no token has this name, so this person could not decide; .*bob"),
        ({"bob": ["manger"]}, "no rule requires the role 'manger'; .*manager"),
        ({OPERATOR: ["manager"]}, "is of no person"),
    ]:
        with pytest.raises(PeopleError, match=message):
            create_app(Bakery(), credentials=known, serve=ServeConfig(people=people))
    create_app(Bakery(), credentials=known, serve=ServeConfig(people={"bob": ["manager"]}))
    with pytest.raises(ValueError, match=r"people.bob.roles must be a list of names"):
        ServeConfig(people={"bob": "manager"})


async def test_a_world_that_a_program_has_opened_is_served_and_stays_open():
    known = Credentials([KnownToken("bob", hash_of("b"))])
    async with Orchestrator(domains(), QUIET) as world:
        alice = await world.register_agent("alice")
        intents = [alice.intent("desk.pay", to="zoe", euro=50)]
        asked = (await Inbox(world).ask(intents, agent=alice)).approval
        app = create_app(world, credentials=known, serve=ServeConfig(people={"bob": []}))
        headers = {"authorization": "Bearer b"}
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=transport, base_url="http://placet", headers=headers
            ) as client,
        ):
            url = f"/api/v1/worlds/world/approvals/{asked.id}"
            answer = await client.post(url, json=decision(asked))
            assert (answer.status_code, answer.json()["state"]) == (200, "approved")
        assert paid(await world.state()) == {"zoe": 50}
        with pytest.raises(ValueError, match="open with another configuration"):
            create_app(world, OrchestratorConfig(seed=5), credentials=known)


async def test_the_list_of_doubts_has_a_page_and_the_number_of_the_others():
    async def post(_effect):
        raise OutcomeUnknown("the line went dead")

    async with desk(more=[Lab()]) as served:
        assert (await served.get("approvals/doubts", token="alice")).json() == NO_DOUBTS
        assert (await served.get("approvals/doubts")).json() == NO_DOUBTS
        await served.world.register_executor("mail", post, delivery="at_most_once")
        alice = await served.world.register_agent("alice")
        for _ in range(5):
            assert (await alice.submit([alice.intent("Mail", count=14)])).admitted
        await served.world.wait_effects()
        listed = (await served.get("approvals/doubts")).json()
        doubts = [str(one.key) for one in await Inbox(served.world).doubts()]
        assert [one["effect"] for one in listed["doubts"]] == doubts[:64]
        assert listed["left_out"] == 6
        settled = {"effect": doubts[0], "outcome": "done"}
        assert (await served.post("approvals/doubts", settled)).status_code == 200
        assert (await served.get("approvals/doubts")).json()["left_out"] == 5
        too_large = {"effect": doubts[1], "outcome": "done", "output": "x" * 70_000}
        answer = await served.post("approvals/doubts", too_large)
        assert (answer.status_code, "larger than 65536" in answer.text) == (422, True)


def test_the_reason_of_a_doubt_that_is_no_text_is_json():
    effect = EffectStatus(EffectKey("world", 1, 0), "mail", "in_doubt", "alice", {}, {"line": None})
    assert _doubt(effect, decides=True)["why"] == '{"line":null}'
