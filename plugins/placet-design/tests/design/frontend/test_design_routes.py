"""Seed 000 over HTTP: plans, stale plans, rejections, undo, phases, events and the audit."""

from dataclasses import replace

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.runtime.recorded_world import recorded_world
from placet.schemas.limits import HttpLimits
from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet_design import Design
from tests.server.served import TOKENS, Served, serving

DESIGNS = "/api/v1/designs"


def plan(*actions, number=1, version=0, **more):
    return {
        "plan_id": f"plan_{number}",
        "intent_id": "intent_001",
        "design_version_before": version,
        "actions": list(actions),
        **more,
    }


def set_to(path, value, **more):
    return {"action_type": "set", "path": path, "value": value, **more}


LOA = set_to("hull.loa", 100, unit="m")
POWER = set_to("propulsion.total_installed_power_kw", 2, unit="MW")


def designing(**more):
    return serving(Design(), agents=(), **more)


async def make(served: Served, name: str = "ferry") -> str:
    """Create a design of the operator."""
    answer = await served.post(DESIGNS, {"design_id": name})
    assert answer.status_code == 201, answer.text
    return f"{DESIGNS}/{name}"


async def share(served: Served, url: str) -> None:
    """Make Alice and Bob editors of a design, in which they are not registered."""
    access = {"owner": "operator", "editors": ["alice", "bob"], "readers": []}
    answer = await served.ask("PUT", f"{url}/access", access)
    assert (answer.status_code, answer.json()) == (200, access)


async def made_for_agents(served: Served, name: str = "ferry") -> str:
    """Create a design of the operator, in which Alice and Bob are registered."""
    url = await make(served, name)
    for agent_id in ("alice", "bob"):
        answer = await served.post(f"/api/v1/worlds/{name}/agents", {"agent_id": agent_id})
        assert answer.status_code == 201
    return url


async def test_the_example_of_the_action_contract_is_applied():
    async with designing() as served:
        url = await made_for_agents(served)
        for number in range(5):
            bump = set_to("hull.beam", 10 + number)
            await served.post(f"{url}/actions", plan(bump, number=number, version=number))
        body = {
            "plan_id": "plan_001",
            "intent_id": "intent_001",
            "design_version_before": 5,
            "actions": [LOA, POWER],
        }
        answer = await served.post(f"{url}/actions", body, token="alice")
        assert answer.status_code == 200
        assert answer.json() == {
            "success": True,
            "plan_id": "plan_001",
            "actions_executed": 2,
            "design_version_before": 5,
            "design_version_after": 6,
            "warnings": ["propulsion.total_installed_power_kw converted from MW to kW"],
            "errors": [],
        }
        design = (await served.get(url, token="alice")).json()
        assert design["design_version"] == 6
        assert design["hull"]["loa"] == 100
        assert design["propulsion"]["total_installed_power_kw"] == 2000


async def test_a_plan_of_another_version_is_stale_older_or_newer():
    async with designing() as served:
        url = await make(served)
        await served.post(f"{url}/actions", plan(LOA))
        for number, version in ((2, 0), (3, 7)):
            answer = await served.post(
                f"{url}/actions", plan(POWER, number=number, version=version)
            )
            assert answer.status_code == 409
            assert answer.json() == {
                "error": "stale_plan",
                "message": f"Plan is stale: expected design_version={version}, current=1",
                "current_design_version": 1,
            }
            again = await served.post(f"{url}/actions", plan(POWER, number=number, version=version))
            assert (again.status_code, again.json()) == (409, answer.json())
        for number in range(4, 10):  # until the version is the one that was too new
            await served.post(
                f"{url}/actions",
                plan(set_to("hull.beam", number), number=number, version=number - 3),
            )
        spent = (await served.post(f"{url}/actions", plan(POWER, number=3, version=7))).json()
        assert spent["current_design_version"] == 7
        assert spent["message"].endswith("send it under another plan_id")


@pytest.mark.parametrize("plan_id", ["plan_1", "p" * 120])
async def test_a_stale_plan_may_come_again_with_its_id_on_the_version_of_the_refusal(plan_id):
    async with designing() as served:
        url = await make(served)

        async def send(version, *actions, query=""):
            body = plan(*(actions or (POWER,)), version=version) | {"plan_id": plan_id}
            answer = await served.post(f"{url}/actions{query}", body)
            return answer.status_code, answer.json()

        await served.post(f"{url}/actions", plan(LOA, number=2))
        assert await send(0) == (409, stale(0, 1))
        await served.post(f"{url}/actions", plan(set_to("hull.beam", 9), number=3, version=1))
        assert await send(1) == (409, stale(1, 2)), "and it may be stale again"
        status, shown = await send(2, query="?dry_run=true")
        assert (status, shown["success"]) == (200, True)
        status, applied = await send(2)
        assert (status, applied["success"], applied["plan_id"]) == (200, True, plan_id)
        assert applied["design_version_after"] == 3
        assert await send(2) == (status, applied), "each of its bodies has its answer"
        assert await send(0) == (409, stale(0, 3))
        for version, actions in ((3, [POWER]), (2, [LOA])):  # it was applied, and is not again
            status, reused = await send(version, *actions)
            assert (status, reused["error"]) == (409, "plan_id_reused")
        assert (await served.get(url)).json()["design_version"] == 3


def stale(expected, current):
    message = f"Plan is stale: expected design_version={expected}, current={current}"
    return {"error": "stale_plan", "message": message, "current_design_version": current}


async def test_a_rejected_plan_is_a_200_without_success():
    async with designing() as served:
        url = await make(served)
        bad = set_to("invalid.path", 1)
        answer = await served.post(f"{url}/actions", plan(LOA, bad))
        body = answer.json()
        assert answer.status_code == 200
        assert (body["success"], body["approved_count"], body["rejected_count"]) == (False, 1, 1)
        assert body["rejections"][0]["path"] == "invalid.path"
        assert (await served.get(url)).json()["design_version"] == 0


async def test_the_same_plan_has_the_same_answer_and_another_body_is_refused():
    async with designing() as served:
        url = await make(served)
        first = await served.post(f"{url}/actions", plan(LOA, POWER))
        again = await served.post(f"{url}/actions", plan(LOA, POWER))
        other = await served.post(f"{url}/actions", plan(LOA))
        assert again.json() == first.json()
        assert (other.status_code, other.json()["error"]) == (409, "plan_id_reused")


async def test_a_dry_run_shows_its_changes_and_changes_nothing():
    async with designing() as served:
        url = await make(served)
        answer = (await served.post(f"{url}/actions?dry_run=true", plan(POWER))).json()
        assert answer["success"]
        assert answer["diff"] == [
            {
                "path": "propulsion.total_installed_power_kw",
                "before": None,
                "requested": 2,
                "unit": "MW",
                "after": 2000.0,
            }
        ]
        assert (await served.get(url)).json()["design_version"] == 0


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"design_version_before": None}, 428, "version_required"),
        ({"actions": None}, 422, "request_invalid"),
        ({"design_version_before": None, "actions": None}, 422, "request_invalid"),
        (dict.fromkeys(plan(LOA)), 422, "request_invalid"),
        ({"actions": []}, 422, "request_invalid"),
        ({"actions": [{"action_type": "explode"}]}, 422, "request_invalid"),
        ({"role": "operator"}, 422, "request_invalid"),
        ({"design_id": "other"}, 422, "request_invalid"),
    ],
)
async def test_an_invalid_plan_is_a_problem(change, status, code):
    body = {k: v for k, v in {**plan(LOA), **change}.items() if v is not None}
    async with designing() as served:
        url = await make(served)
        answer = await served.post(f"{url}/actions", body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.json()["problems"]


async def test_a_fault_of_a_plan_is_described_in_json_terms():
    actions = [set_to("hull.loa", {"a": None}), {"action_type": "sett"}, 5, None, {}]
    async with designing() as served:
        url = await make(served)
        told = (await served.post(f"{url}/actions", plan(*actions))).json()
        says = [problem["message"] for problem in told["problems"]]
        assert says[0].endswith('got {"a": null}')
        assert says[1].startswith("field 'action_type' must be one of 'set', 'increase', ")
        assert says[1].endswith(", got 'sett'")
        assert says[2:4] == [
            "input should be an object, got 5",
            "input should be an object, got null",
        ]
        assert says[4] == "field 'action_type' is required"
        lacking = (await served.post(f"{url}/actions", {"design_version_before": 0})).json()
        assert {problem["message"] for problem in lacking["problems"]} == {"field required"}
        unknown = await served.post(f"{url}/undo", {"x": 1})
        assert unknown.json()["detail"] == "unknown fields x; there are req_id"


async def test_a_sentence_becomes_a_plan_that_can_be_submitted():
    async with designing() as served:
        url = await made_for_agents(served)
        sentence = {"text": "60 m ferry, 12 m beam, lock length", "intent_id": "said_1"}
        seen = (await served.post(f"{url}/intent/preview", sentence, token="alice")).json()
        assert seen["answer"] == "understood"
        assert (seen["intent"]["raw_text"], seen["intent"]["design_id"]) == (
            sentence["text"],
            "ferry",
        )
        assert (await served.get(url)).json()["design_version"] == 0
        answer = await served.post(f"{url}/actions", seen["plan"], token="alice")
        assert answer.json()["success"]
        more = {"text": "increase beam by 25 %"}  # of the value that the design has
        seen = (await served.post(f"{url}/intent/preview", more)).json()
        assert (seen["plan"]["design_version_before"], seen["design_version"]) == (1, 1)
        await served.post(f"{url}/actions", seen["plan"])
        assert (await served.get(url)).json()["hull"]["beam"] == 15
        (entry, _) = (await served.get(f"{url}/audit")).json()["entries"]
        assert entry["intent_id"] == "said_1"


async def test_the_sentence_of_a_preview_is_logged_with_its_plan():
    async with designing() as served:
        url = await make(served)
        sentence = {"text": "60 m ferry", "intent_id": "said_1"}
        seen = (await served.post(f"{url}/intent/preview", sentence)).json()
        first = await served.post(f"{url}/actions", seen["plan"])
        assert first.json()["success"]
        assert (await served.post(f"{url}/actions", seen["plan"])).json() == first.json()
        (entry,) = (await served.get(f"{url}/audit")).json()["entries"]
        assert entry["intent"]["raw_text"] == "60 m ferry"
        assert [action["seq"] for action in entry["actions"]] == [
            served.context.worlds.find("ferry").seq - 1,
            served.context.worlds.find("ferry").seq,
        ]
        bad = {**seen["plan"], "plan_id": "p2", "design_version_before": 1}
        bad["actions"] = [LOA, set_to("no.path", 1)]
        told = (await served.post(f"{url}/actions", bad)).json()
        assert [r["path"] for r in told["rejections"]] == ["no.path"]  # the head of two counts


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"intent_id": "other"}, "/intent/intent_id"),
        ({"design_id": "other"}, "/intent/design_id"),
        ({"intent_type": "wish"}, "/intent/intent_type"),
        ({"confidence": 2}, "/intent/confidence"),
        ({"role": "operator"}, "/intent/role"),
    ],
)
async def test_an_intent_of_another_plan_is_refused(change, at):
    said = {
        "intent_id": "intent_001",
        "design_id": "ferry",
        "raw_text": "100 m",
        "intent_type": "refine",
        "confidence": 1.0,
    }
    async with designing() as served:
        url = await make(served)
        assert (await served.post(f"{url}/actions", plan(LOA, intent=said))).json()["success"]
        answer = await served.post(
            f"{url}/actions", plan(POWER, number=2, intent={**said, **change})
        )
        assert (answer.status_code, answer.json()["problems"][0]["at"]) == (422, at)


async def test_an_unclear_sentence_is_answered_with_rewordings():
    async with designing() as served:
        url = await make(served)
        sentence = {"text": "60 m ferry, 25 knots"}
        seen = (await served.post(f"{url}/intent/preview", sentence)).json()
        assert (seen["answer"], seen["plan"]) == ("clarification", None)
        assert seen["candidates"] == ["mission.max_speed_kts", "mission.cruise_speed_kts"]
        assert [action["path"] for action in seen["understood"]] == [
            "hull.loa",
            "mission.vessel_type",
        ]
        again = {"text": seen["rewordings"][0]}
        seen = (await served.post(f"{url}/intent/preview", again)).json()
        assert seen["answer"] == "understood"
        asked = {"text": "what is the beam?"}
        seen = (await served.post(f"{url}/intent/preview", asked)).json()
        assert (seen["answer"], seen["plan"]) == ("query", None)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"text": 1}, 422),
        ({"text": "beam 9 m", "intent_id": ""}, 422),
        ({"text": "beam 9 m", "role": "operator"}, 422),
        ({"text": ""}, 200),
        ({"text": "x" * 100_000}, 200),
        ({"text": "\ud800 beam \x00"}, 422),
    ],
)
async def test_any_text_is_answered(body, status):
    async with designing() as served:
        url = await make(served)
        answer = await served.post(f"{url}/intent/preview", body)
        assert answer.status_code == status, answer.text


async def test_an_undo_is_a_new_commit():
    async with designing() as served:
        url = await make(served)
        await served.post(f"{url}/actions", plan(LOA))
        undone = (await served.post(f"{url}/undo", {"req_id": "u1"})).json()
        again = (await served.post(f"{url}/undo", {"req_id": "u1"})).json()
        assert undone == again
        assert (undone["success"], undone["design_version"]) == (True, 2)
        assert "hull" not in (await served.get(url)).json()
        nothing = (await served.post(f"{url}/undo", {})).json()
        assert not nothing["success"]
        assert nothing["rejections"]


async def test_staleness_of_a_malformed_plan_precedes_its_other_errors():
    async with designing() as served:
        url = await make(served)
        await served.post(f"{url}/actions", plan(LOA))
        huge = set_to("hull.beam", 2**70)  # which the gate finds malformed, and the body does not
        stale = await served.post(f"{url}/actions", plan(huge, number=2))
        assert (stale.status_code, stale.json()["error"]) == (409, "stale_plan")
        assert stale.json()["current_design_version"] == 1
        rejected = (await served.post(f"{url}/actions", plan(huge, number=2, version=1))).json()
        assert (rejected["success"], rejected["design_version"]) == (False, 1)


async def test_a_dry_run_of_an_unknown_agent_registers_no_agent():
    async with designing() as served:
        url = await make(served)
        await share(served, url)
        await served.post(f"{url}/actions", plan(LOA))
        world = served.context.worlds.find("ferry")
        records = world.records
        unlock = {"action_type": "unlock", "path": "hull.loa"}
        seen = []
        for trial in ("?dry_run=true", ""):
            body = plan(POWER, unlock, number=2, version=1)
            answer = await served.post(f"{url}/actions{trial}", body, token="alice")
            seen.append({k: v for k, v in answer.json().items() if k not in {"dry_run", "diff"}})
            if trial:
                assert answer.json()["diff"][0]["after"] == 2000
                assert world.records == records
        assert seen[0] == seen[1]
        assert seen[0]["success"]


async def test_a_dry_run_of_an_unknown_agent_respects_locks():
    async with designing() as served:
        url = await make(served)
        await share(served, url)
        await served.post(f"{url}/actions", plan({"action_type": "lock", "path": "hull.loa"}))
        body = plan({"action_type": "unlock", "path": "hull.loa"}, number=2)
        told = (await served.post(f"{url}/actions?dry_run=true", body, token="alice")).json()
        assert told["rejections"][0]["code"] == "not_owner"


@pytest.mark.parametrize("path", ["undo", "phases/hull/run"])
async def test_routes_without_a_body_accept_none(path):
    async with designing() as served:
        url = await make(served)
        await served.post(f"{url}/actions", plan(LOA))
        answer = await served.post(f"{url}/{path}")
        assert answer.status_code == 200, answer.text
        form = {"content-type": "application/x-www-form-urlencoded"}  # as curl -d "" says
        assert (await served.post(f"{url}/{path}", headers=form)).status_code == 200
        document = (await served.get("/openapi.json")).json()
        route = f"{DESIGNS}/{{design_id}}/{path.replace('hull', '{phase}')}"
        assert document["paths"][route]["post"]["requestBody"]["required"] is False
        empty = await served.post(f"{url}/actions", headers={"content-type": "application/json"})
        assert empty.status_code == 422
        assert "the body is empty" in empty.json()["detail"]


async def test_a_failed_phase_is_no_success_and_names_its_missing_input():
    async with designing() as served:
        url = await make(served)
        await served.post(f"{url}/actions", plan(LOA))
        told = (await served.post(f"{url}/phases/hull/run", {"req_id": "r1"})).json()
        assert (told["success"], told["phase"]["status"]) == (False, "failed")
        assert told["phase"]["name"] == "hull"
        (rejection,) = told["rejections"]
        assert (rejection["path"], rejection["code"]) == ("hull", "phase_failed")
        assert "hull.beam" in rejection["reason"]
        again = (await served.post(f"{url}/phases/hull/run", {"req_id": "r1"})).json()
        assert again == told


async def test_a_run_phase_has_readable_results():
    async with designing() as served:
        url = await make(served)
        values = {"cruise_speed_kts": 13, "max_speed_kts": 15, "range_nm": 3000}
        values |= {"crew_berthed": 20, "passengers": 12}
        actions = [set_to(f"mission.{name}", value) for name, value in values.items()]
        await served.post(f"{url}/actions", plan(*actions, set_to("hull.lwl", 57)))
        assert (await served.get(f"{url}/phases")).json()["phases"]["mission"][
            "status"
        ] == "pending"
        ran = await served.post(f"{url}/phases/mission/run", {})
        assert ran.json()["success"], ran.text
        assert ran.json()["phase"]["status"] == "completed"
        assert ran.json()["phase"]["outputs"]["complement"] == 32
        assert (await served.get(f"{url}/phases")).json()["phases"]["mission"][
            "status"
        ] == "completed"
        assert (await served.post(f"{url}/phases/paint/run", {})).status_code == 404


async def test_events_and_audit_have_the_history_of_plans():
    async with designing() as served:
        url = await made_for_agents(served)
        await served.post(f"{url}/actions", plan(LOA), token="alice")
        await served.post(f"{url}/actions", plan(set_to("no.path", 1), number=2, version=1))
        told = (await served.get(f"{url}/events", token="alice")).json()
        types = [event["type"] for event in told["events"]]
        assert {"action.plan_executed", "validation.plan_rejected"} <= set(types)
        assert told["is_end"]
        seq = told["events"][-1]["seq"]
        assert (await served.get(f"{url}/events?since={seq + 9}")).json()["events"] == []
        entries = (await served.get(f"{url}/audit")).json()["entries"]
        assert [(one["plan_id"], one["actor"], one["admitted"]) for one in entries] == [
            ("plan_1", "alice", True),
            ("plan_2", "host", False),
        ]
        await served.post(f"{url}/undo", {"req_id": "u1"}, token="bob")
        page = (await served.get(f"{url}/audit?from_record={told['next_record']}")).json()
        entry = page["entries"][-1]
        assert (entry["plan_id"], entry["req_id"], entry["actor"]) == (None, "u1", "bob")
        assert [action["action_type"] for action in entry["actions"]] == ["undo"]
        assert (entry["design_version_before"], entry["design_version_after"]) == (1, 2)


async def test_designs_are_created_and_independent():
    async with designing(limits={"worlds_max": 3}) as served:
        first, second = await make(served, "a"), await make(served, "b ü")
        await served.post(f"{first}/actions", plan(LOA))
        assert (await served.get(second)).json()["design_version"] == 0
        listed = (await served.get(DESIGNS)).json()["designs"]
        assert [one["design_id"] for one in listed] == ["a", "b ü", "world"]
        taken = await served.post(DESIGNS, {"design_id": "a"})
        assert (taken.status_code, taken.json()["detail"]) == (409, "there is a design 'a' already")
        assert (await served.post(DESIGNS, {"design_id": "c"})).status_code == 503
        named = [{"design_id": name} for name in ("", "a/b", ".", "..")]
        for bad in ({}, *named, {"design_id": "a", "role": "x"}):
            assert (await served.post(DESIGNS, bad)).status_code == 422
        for name, why in (
            (".x", "the name of a design must not begin with a dot, because it is a part of a "),
            ("x\u202e", "the name of a design must have no control, bidirectional, zero-width or"),
        ):
            answer = await served.post(DESIGNS, {"design_id": name})
            assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
            assert answer.json()["detail"].startswith(why)
        for path in ("", "/phases", "/events", "/audit"):
            absent = await served.get(f"{DESIGNS}/no{path}")
            assert (absent.status_code, absent.json()["detail"]) == (
                404,
                "there is no design 'no' here",
            )
        assert (await served.get(f"{DESIGNS}/a", token="nobody")).status_code == 401


async def test_only_the_operator_is_the_host_of_a_design():
    known = Credentials([KnownToken(n, hash_of(t)) for n, t in {**TOKENS, "host": "h"}.items()])
    async with designing() as served:
        served.context._credentials = known
        url = await made_for_agents(served)
        lock = {"action_type": "lock", "path": "hull.loa"}
        assert (await served.post(f"{url}/actions", plan(lock), token="alice")).json()["success"]
        assert (await served.post(f"{url}/actions", plan(LOA), token="h")).status_code == 404
        unlock = plan({"action_type": "unlock", "path": "hull.loa"}, number=2, version=1)
        assert not (await served.post(f"{url}/actions", unlock, token="bob")).json()["success"]
        unlock["plan_id"] = "plan_3"
        assert (await served.post(f"{url}/actions", unlock)).json()["success"]


async def test_a_removed_agent_is_not_registered_again_automatically():
    async with designing() as served:
        url = await make(served)
        await share(served, url)
        await served.post(f"{url}/actions", plan(LOA), token="alice")
        await served.ask("DELETE", "/api/v1/worlds/ferry/agents/alice")
        answer = await served.post(
            f"{url}/actions", plan(POWER, number=2, version=1), token="alice"
        )
        assert answer.status_code == 404
        assert answer.json()["refusals"][0]["code"] == "agent_unknown"


async def test_designs_are_restored_after_a_restart(tmp_path):
    store = f"sqlite:///{tmp_path}/ships.db?synchronous=off"
    async with designing(store=store) as served:
        assert (await served.post(DESIGNS, {"design_id": "a%20b"})).status_code == 201
        url = f"{DESIGNS}/a%2520b"
        await served.post(f"{url}/actions", plan(LOA))
    async with designing(store=store) as served:
        listed = (await served.get(DESIGNS)).json()["designs"]
        assert listed[0] == {"design_id": "a%20b", "design_version": 1}
        answer = await served.post(f"{url}/actions", plan(LOA))
        assert answer.json()["success"]


async def test_a_design_is_reopened_with_the_quotas_of_its_own_log(tmp_path):
    store = f"sqlite:///{tmp_path}/ships.db?synchronous=off"
    async with designing(store=store) as served:
        name = (await make(served)).rpartition("/")[2]
    log = f"sqlite:///{tmp_path}/ships/{name}.db?synchronous=off"
    recorded = recorded_world(log)
    assert recorded is not None
    quotas = {"*": {"rate": 1, "burst": 9}}
    config = recorded.continued_by(OrchestratorConfig(store=log))
    async with Orchestrator(recorded.domains(), replace(config, quotas=quotas)):
        pass  # another program has changed the log's settings
    async with designing(store=store) as served:
        assert (await served.get(f"/api/v1/designs/{name}")).status_code == 200
    after = recorded_world(log)
    assert after is not None
    assert dict(after.config.quotas) == quotas


async def test_no_name_of_a_design_leads_out_of_the_folder_of_the_designs(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    hostile = ["..", "../up", "/abs", "..\\up", ".hidden", "a/../../up", "%2e%2e%2fup", "a\0", "a."]
    hostile += ["con", "NUL.txt", "a\u202eb", "a\u200b", "a ", "~", "$HOME", "-rf", "a:b", "?x#y"]
    async with designing(store=f"sqlite:///{place}/ships.db") as served:
        made = [n for n in hostile if (await served.post(DESIGNS, {"design_id": n})).is_success]
    assert made == ["%2e%2e%2fup", "~", "$HOME", "-rf", "a:b", "?x#y"]
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    logs = {path.name for path in place.rglob("*.db")}
    assert len(logs) == len(made) + 1
    assert {path.parent for path in place.rglob("*.db")} == {place, place / "ships"}


async def test_a_design_name_has_at_most_the_bytes_of_a_file_name(tmp_path):
    names = ["a" * 128, "\u00fc" * 33]
    async with designing(store=f"sqlite:///{tmp_path}/ships.db") as served:
        for name in names:
            assert (await served.post(DESIGNS, {"design_id": name})).status_code == 201
        refused = await served.post(DESIGNS, {"design_id": "\u00fc" * 34})
        assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid")
        assert str(tmp_path) not in refused.text
    async with designing(store=f"sqlite:///{tmp_path}/ships.db") as served:
        listed = (await served.get(DESIGNS)).json()["designs"]
        assert [one["design_id"] for one in listed] == [names[0], "world", names[1]]
    async with designing() as served:
        assert (await served.post(DESIGNS, {"design_id": "\u00fc" * 34})).status_code == 201


async def test_other_domains_have_no_design_routes():
    async with serving() as served:
        assert (await served.get(DESIGNS)).status_code == 404
    app = create_app("design", OrchestratorConfig(), serve=ServeConfig(limits=HttpLimits()))
    assert any("designs" in path for path in app.state.openapi()["paths"])
