"""A batch over HTTP: its verdict and status, and reading the answer again."""

import asyncio
import json

import httpx
import pytest
from jsonschema import Draft202012Validator

from placet.cli.commands.gate_session import GateSession
from placet.errors import TimeStalledError
from placet.schemas.limits import Limits
from placet.server import create_app
from tests.actors.virtual_time import turns
from tests.kernel.builders import add, intent
from tests.kernel.domains import MAIL, Lab
from tests.server.served import TOKENS, WORLD, codes, serving


async def test_a_batch_is_answered_with_its_verdict():
    async with serving() as served:
        answer = await served.submit(add("r1", 2), add("r2", 3))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        verdict = answer.json()
        assert [result["req_id"] for result in verdict["results"]] == ["r1", "r2"]
        assert verdict["seq"] == verdict["current_seq"] == served.world.seq
        assert verdict["durability"] == "memory"


async def test_the_verdict_equals_the_one_of_the_command_line():
    async with serving(agents=()) as served:
        await served.register("alice")
        over_http = (await served.submit(intent("Kick", {}))).json()
    session = GateSession(Lab())
    session.answer(b'{"register": "alice"}')
    over_pipe = json.loads(session.answer(json.dumps([intent("Kick", {})]).encode()))
    assert over_http.keys() == over_pipe.keys()
    assert over_http["refusals"] == over_pipe["refusals"]


async def test_a_batch_object_and_a_single_intent_are_accepted():
    async with serving() as served:
        one = await served.post("batches", add("r1"))
        some = await served.post("batches", {"intents": [add("r2")], "valid_for_s": 5})
        later = await served.post("batches", {"intents": [add("r3")], "sim_time": 9e4})
        assert (one.status_code, some.status_code, later.status_code) == (200, 200, 202)
        assert later.json()["scheduled"]


async def test_a_repeated_batch_has_the_same_answer():
    async with serving() as served:
        first = await served.submit(add("r", 5))
        again = await served.submit(add("r", 5))
        other = await served.submit(add("r", 6))
        assert again.json()["replayed"]
        assert again.json()["seq"] == first.json()["seq"]
        assert (other.status_code, codes(other)) == (409, ["req_id_reused"])
        counts = await served.get("state?path=lab.counts/alice/count")
        assert counts.json()["value"] == 5


async def test_missing_fields_come_from_the_token_and_the_header():
    bare = {"kind": "Add", "payload": {"amount": 5}}
    async with serving() as served:
        path, alice = "batches", {"token": "alice"}
        first = await served.post(path, bare, headers={"idempotency-key": '"k1"'}, **alice)
        again = await served.post(path, [bare], headers={"idempotency-key": "k1"}, **alice)
        without = await served.post(path, bare, **alice)
    assert (first.status_code, again.json()["replayed"]) == (200, True)
    assert first.json()["results"][0]["req_id"] == "k1"
    assert first.headers["idempotency-window"] == "req_ids=1024, seconds=600"
    (refusal,) = without.json()["refusals"]
    assert (refusal["code"], refusal["details"]["missing"]) == ("field_missing", ["req_id"])


@pytest.mark.parametrize(
    "keys", [[""], ['""'], ['"a'], ["a" * 125], ["\xe9"], ["a", "b"]], ids=ascii
)
async def test_an_invalid_idempotency_key_is_refused(keys):
    async with serving() as served:
        sent = [(b"authorization", b"Bearer " + TOKENS["operator"].encode())]
        sent += [(b"idempotency-key", key.encode("latin-1")) for key in keys]
        answer = await served.client.post(f"{WORLD}/batches", json=add("r"), headers=sent)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
        assert "Idempotency-Key must be one key of 1 to 124" in answer.json()["detail"]


async def test_the_document_declares_what_an_intent_may_leave_out():
    async with serving(limits_of_world=Limits(batch_intents_max=2)) as served:
        document = (await served.get("/openapi.json")).json()
        paths, schemas = document["paths"], document["components"]["schemas"]
        assert schemas["Intent.Add"]["required"] == ["kind", "payload"]
        assert schemas["Batch"]["oneOf"][0]["maxItems"] == 2
        for path in ("batches", "dry-run"):
            submit = paths[f"/api/v1/worlds/{{world}}/{path}"]["post"]
            (header,) = [one for one in submit["parameters"] if one["in"] == "header"]
            assert (header["name"], header["required"]) == ("Idempotency-Key", False)
            declared = Draft202012Validator(header["schema"])
            longest, bare = "k" * 124, {"kind": "Add", "payload": {"amount": 5}}
            assert declared.is_valid(longest)
            assert not any(map(declared.is_valid, ["", '""', '"a', "a" * 125, " a", "\xe9"]))
            headers = {"idempotency-key": longest}
            answer = await served.post(path, [bare, bare], headers=headers, token="alice")
            assert answer.status_code == 200
        many = await served.submit(add("a"), add("b"), add("c"))
        assert (many.status_code, codes(many)) == (413, ["batch_too_large"])


async def test_a_dry_run_has_the_same_answer_and_changes_nothing():
    async with serving() as served:
        before = await served.world.digest()
        passes = await served.post("dry-run", [add("r", 5)])
        fails = await served.post("dry-run", [intent("Take", {"amount": 5})])
        assert (passes.status_code, fails.status_code) == (200, 422)
        assert passes.json()["dry_run"]
        assert codes(fails) == ["lab.too_few"]
        assert await served.world.digest() == before
        assert not (await served.submit(add("r", 5))).json()["replayed"]


CASES = [
    (intent("Take", {"amount": 5}), 422, "lab.too_few"),
    (intent("Fail", {"how": "raise"}), 500, "rule_error"),
    (intent("Kick", {}), 422, "kind_unknown"),
    (add("r", agent_id="nobody"), 404, "agent_unknown"),
    (add("r", context_seq=10**6), 409, "context_from_future"),
    (add("r", valid_until=0.0), 409, "expired"),
]


@pytest.mark.parametrize(("one", "status", "code"), CASES)
async def test_a_refusal_has_the_status_of_its_code(one, status, code):
    async with serving() as served:
        answer = await served.submit(one)
        assert (answer.status_code, codes(answer)) == (status, [code])
        assert answer.headers["content-type"] == "application/json"
        assert "retry-after" not in answer.headers


async def test_a_quota_refusal_has_retry_after():
    async with serving(quotas={"Add": {"rate": 0.1, "burst": 2}}) as served:
        assert (await served.submit(add("r1"), add("r2"))).status_code == 200
        refused = await served.submit(add("r3"))
        assert (refused.status_code, codes(refused)) == (429, ["quota_exceeded"])
        exact = refused.json()["refusals"][0]["retry_after"]
        assert exact <= int(refused.headers["retry-after"]) < exact + 1
        never = await served.submit(add("r4"), add("r5"), add("r6"))
        assert (never.status_code, codes(never)[0]) == (422, "batch_exceeds_burst")
        assert "retry-after" not in never.headers


async def test_a_dry_run_shows_the_changes_that_the_agents_of_the_batch_may_see():
    put = [
        intent("Put", {"thing": thing, "field": "lit", "value": True}, f"p:{thing}")
        for thing in ("lamp", "secret")
    ]
    lamp = {"entity": "lab.things/lamp", "field": "lit", "op": "add", "old": None, "new": True}
    async with serving() as served:
        whole = (await served.post("dry-run", put)).json()
        seen = (await served.post("dry-run", put, token="alice")).json()
        again = await served.post("batches", {"intents": put, "dry_run": True}, token="alice")
        real = await served.submit(add("r", 5))
        assert "diff" not in real.json()
        refused = await served.post("dry-run", [intent("Take", {"amount": 50})])
        assert "diff" not in refused.json()
    assert {change["entity"] for change in whole["diff"]} == {lamp["entity"], "lab.things/secret"}
    assert lamp in seen["diff"]
    assert {change["entity"] for change in seen["diff"]} == {lamp["entity"]}
    assert seen["diff"] == again.json()["diff"]


async def test_dry_runs_beyond_their_rate_of_work_have_retry_after():
    limits = Limits(unpaid_work_per_second_max=1, unpaid_work_burst_max=12)
    async with serving(limits_of_world=limits) as served:
        for _ in range(3):
            assert (await served.post("dry-run", [add("r")])).status_code == 200
        refused = await served.post("dry-run", [add("r")])
        assert (refused.status_code, codes(refused)) == (429, ["work_exceeded"])
        assert int(refused.headers["retry-after"]) >= 1


async def test_an_overload_refusal_has_retry_after():
    async with serving(clock="stepped", mailbox_batches_max=1) as served:
        first = asyncio.create_task(served.submit(add("r1")))
        await turns()
        refused = await served.submit(add("r2", agent_id="bob"))
        assert (refused.status_code, codes(refused)) == (503, ["queue_full"])
        assert refused.headers["retry-after"] == "1"
        stepped = await served.post("step", {"dt": 1})
        assert stepped.json()["sim_time"] == 1
        assert (await first).status_code == 200


async def test_a_full_outbox_refusal_has_retry_after():
    async with serving() as served:
        await served.world.register_executor(MAIL, never, outbox_max=1, concurrency=1)
        assert (await served.submit(intent("Mail", {"count": 1}, "r1"))).status_code == 200
        refused = await served.submit(intent("Mail", {"count": 1}, "r2"))
        assert (refused.status_code, codes(refused)) == (503, ["executor_busy"])
        assert refused.headers["retry-after"]
        release.set()


release = asyncio.Event()


async def never(_effect: object) -> None:
    await release.wait()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[NaN]", b'[{"kind": 1e999}]', b'{"a": 1, "a": 2}', b"\xff", b"[" * 100_000],
)
async def test_invalid_json_is_refused_as_by_the_command_line(content):
    async with serving() as served:
        answer = await served.post("batches", content=content)
        assert (answer.status_code, codes(answer)) == (422, ["field_invalid"])
        assert answer.json()["refusals"][0]["stage"] == "structure"


@pytest.mark.parametrize("field", ["confirmed", "role", "submitter", "permissions", "operator"])
async def test_the_agent_of_a_batch_comes_from_its_token_not_its_body(field):
    async with serving() as served:
        inside = await served.submit(add("r", **{field: "operator"}), token="alice")
        around = await served.post(
            "batches", {"intents": [add("r")], field: "operator"}, token="alice"
        )
        for answer in (inside, around):
            assert (answer.status_code, codes(answer)) == (422, ["field_unknown"])


async def test_the_agent_of_a_batch_comes_from_its_token_not_a_header_or_parameter():
    async with serving() as served:
        claims = {"x-role": "operator", "x-submitter": "operator", "x-agent": "bob"}
        batch = [add("r", agent_id="bob")]
        answer = await served.post("batches", batch, token="alice", headers=claims)
        assert (answer.status_code, codes(answer)) == (403, ["agent_not_yours"])
        answer = await served.post("batches?submitter=operator", batch, token="alice")
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


async def test_a_verdict_is_readable_again_by_its_submitter_and_the_operator():
    async with serving() as served:
        await served.submit(add("a/b:1", 4))
        found = await served.get("verdicts?agent_id=alice&req_id=a/b:1", token="alice")
        assert found.status_code == 200
        assert found.json()["admitted"]
        refused = await served.submit(intent("Take", {"amount": 99}, "r2"))
        again = await served.get("verdicts?agent_id=alice&req_id=r2")
        assert (refused.status_code, again.status_code) == (422, 200)
        assert codes(again) == ["lab.too_few"]
        assert (await served.get("verdicts?agent_id=alice&req_id=no")).status_code == 404
        stranger = await served.get("verdicts?agent_id=alice&req_id=r2", token="bob")
        assert stranger.status_code == 403


async def test_a_disconnected_client_does_not_cancel_its_batch():
    async with serving(clock="stepped") as served:
        asking = asyncio.create_task(served.submit(add("r", 7)))
        await turns()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await served.world.step(1)
        assert (await served.get("verdicts?agent_id=alice&req_id=r")).json()["admitted"]


async def test_a_client_that_disconnects_within_its_body_submits_nothing():
    async with serving() as served:
        before = served.world.records
        sent = []

        async def receive():
            return next(messages)

        async def send(message):
            sent.append(message)

        messages = iter(
            [
                {"type": "http.request", "body": b"[{", "more_body": True},
                {"type": "http.disconnect"},
            ]
        )
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"{WORLD}/batches",
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {TOKENS['alice']}".encode())],
        }
        await served.app(scope, receive, send)
        assert served.world.records == before


async def test_a_failed_store_is_answered_503_with_the_reason():
    async with serving() as served:
        failure = RuntimeError("the disk is gone")
        served.world._open._on_escalation("committer", failure)
        for answer in (await served.submit(add("r")), await served.get("/readyz")):
            assert answer.status_code == 503
            assert answer.json()["code"] == "unavailable"
            assert answer.headers["retry-after"]
        assert (await served.get("/healthz")).status_code == 200


async def test_a_stalled_simulation_clock_is_answered_503_with_the_reason():
    async with serving(clock="next_event") as served:
        served.world._open.actor.stall(TimeStalledError("'bob' holds up time"))
        answer = await served.submit(add("r"))
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.json()["detail"] == "'bob' holds up time"


async def test_an_application_without_tokens_creates_an_operator_token():
    app = create_app(Lab())
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://placet") as client,
    ):
        refused = await client.get("/api/v1/worlds")
        assert refused.status_code == 401
        headers = {"authorization": f"Bearer {app.state.operator_token}"}
        assert (await client.get("/api/v1/worlds", headers=headers)).status_code == 200
