"""The operator registers, reads, suspends, permits and removes agents."""

import pytest
from jsonschema import Draft202012Validator

from tests.kernel.builders import add
from tests.kernel.domains import Lab
from tests.server.served import codes, serving


async def test_registration_stores_permissions_owner_and_attributes():
    async with serving(agents=()) as served:
        answer = await served.post(
            "agents",
            {
                "agent_id": "alice",
                "owner": "carol",
                "permissions": ["Add"],
                "priority_max": 7,
                "quotas": {"Add": {"rate": 0.1, "burst": 1}},
                "attributes": {"count": 3},
            },
        )
        assert answer.status_code == 201
        agent = answer.json()
        assert agent.pop("seq") == served.world.seq
        assert agent == {
            "agent_id": "alice",
            "owner": "carol",
            "permissions": ["Add"],
            "priority_max": 7,
            "suspended": False,
        }
        assert (await served.get("state?path=lab.counts/alice/count")).json()["value"] == 3
        assert (await served.submit(add("r1"))).status_code == 200
        assert (await served.submit(add("r2"))).status_code == 429


async def test_registering_again_changes_permissions_only():
    async with serving(agents=()) as served:
        await served.register("alice", owner="carol")
        again = await served.post("agents", {"agent_id": "alice", "permissions": ["Put"]})
        assert again.status_code == 200
        assert (again.json()["owner"], again.json()["permissions"]) == ("carol", ["Put"])


async def test_another_owner_of_a_registered_agent_is_a_problem():
    async with serving(agents=()) as served:
        await served.register("alice", owner="carol")
        other = await served.post("agents", {"agent_id": "alice", "owner": "bob"})
        assert (other.status_code, "its owner is 'carol'" in other.text) == (409, True)


async def test_an_on_register_that_raises_is_a_problem_that_names_it():
    async with serving(Lab("on_register"), agents=()) as served:
        answer = await served.post("agents", {"agent_id": "alice"})
        assert answer.status_code == 422
        assert answer.json()["detail"] == (
            "on_register of lab raised RuntimeError: on_register raises; nothing was changed "
            "(domains.py:253 in _perhaps_raise)"
        )


async def test_an_agent_is_suspended_and_resumed():
    async with serving() as served:
        assert (await served.post("agents/alice/suspend")).json()["suspended"]
        refused = await served.submit(add("r"))
        assert (refused.status_code, codes(refused)) == (403, ["agent_suspended"])
        assert not (await served.post("agents/alice/resume")).json()["suspended"]
        assert (await served.submit(add("r"))).status_code == 200


async def test_permissions_are_granted_and_revoked():
    async with serving() as served:
        for permissions, status in ((["Put"], 403), ([], 403), (None, 200)):
            answer = await served.ask(
                "PUT", "agents/alice/permissions", {"permissions": permissions}
            )
            assert answer.json()["permissions"] == permissions
            assert (await served.submit(add("r"))).status_code == status


async def test_names_with_slashes_are_accepted():
    async with serving(agents=("a/b", "a/b/suspend")) as served:
        assert (await served.get("agents/a/b")).json()["agent_id"] == "a/b"
        assert (await served.post("agents/a/b/suspend/suspend")).json()["agent_id"] == "a/b/suspend"
        assert not (await served.get("agents/a/b")).json()["suspended"]


async def test_agents_are_listed_by_name_in_pages():
    async with serving(agents=("d", "b", "a", "c"), limits={"page_items_max": 3}) as served:
        first = (await served.get("agents?limit=9")).json()
        assert [agent["agent_id"] for agent in first["agents"]] == ["a", "b", "c"]
        second = (await served.get(f"agents?after={first['next']}")).json()
        assert [agent["agent_id"] for agent in second["agents"]] == ["d"]
        assert second["next"] is None


@pytest.mark.parametrize(
    "path", ["agents/no", "agents/no/suspend", "agents/no/resume", "agents/no/permissions"]
)
async def test_an_unknown_agent_is_not_found(path):
    method = {"agents/no": "GET", "agents/no/permissions": "PUT"}.get(path, "POST")
    async with serving() as served:
        answer = await served.ask(method, path, {"permissions": None})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert (await served.ask("DELETE", "agents/no")).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"agent_id": ""},
        {"agent_id": "a\n"},
        {"agent_id": "x" * 129},
        {"agent_id": 7},
        {"agent_id": "operator"},
        {"agent_id": "system"},
        {"agent_id": "e", "role": "operator"},
        {"agent_id": "e", "owner": ""},
        {"agent_id": "e", "permissions": "Add"},
        {"agent_id": "e", "permissions": [1]},
        {"agent_id": "e", "priority_max": 101},
        {"agent_id": "e", "priority_max": True},
        {"agent_id": "e", "quotas": []},
        {"agent_id": "e", "quotas": {"Add": 1}},
        {"agent_id": "e", "quotas": {"Add": {"rate": 0, "burst": 1}}},
        {"agent_id": "e", "attributes": []},
        {"agent_id": "e", "attributes": {"self": 1}},
        {"agent_id": "e", "attributes": {"permissions": ["Add"]}},
        {"agent_id": "e", "attributes": {"count": -1}},
    ],
)
async def test_an_invalid_registration_is_a_problem_and_registers_no_agent(body):
    async with serving() as served:
        answer = await served.post("agents", body)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
        assert len((await served.get("agents")).json()["agents"]) == 2


@pytest.mark.parametrize("body", [[], {}, {"permissions": 1}, {"permissions": None, "x": 1}])
async def test_invalid_permissions_are_a_problem(body):
    async with serving() as served:
        answer = await served.ask("PUT", "agents/alice/permissions", body)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


async def test_a_whole_number_is_an_integer_however_it_is_written():
    body = {"agent_id": "dora", "priority_max": 37.0, "quotas": {"Add": {"rate": 2, "burst": 4.0}}}
    async with serving() as served:
        answer = await served.post("agents", body)
        assert (answer.status_code, answer.json()["priority_max"]) == (201, 37)
        wrong = await served.post("agents", {**body, "agent_id": "eve", "priority_max": 37.5})
        assert wrong.status_code == 422


@pytest.mark.parametrize(
    "quota",
    [
        {"rate": 5e-324, "burst": 1},
        {"rate": 0, "burst": 1},
        {"rate": 1, "burst": 0},
        {"rate": 1, "burst": 2**63},
        {"rate": 1, "burst": 1e300},
    ],
)
async def test_a_quota_outside_of_its_declared_bounds_is_refused(quota):
    async with serving(agents=()) as served:
        schemas = (await served.get("/openapi.json")).json()["components"]["schemas"]
        assert not Draft202012Validator(schemas["QuotaFields"]).is_valid(quota)
        answer = await served.post("agents", {"agent_id": "a", "quotas": {"Add": quota}})
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


@pytest.mark.parametrize(
    "name", ["operator", "system", "", "a\x00", "a\nb", "a\x85", "a\u202eb", "\ufeff", "x" * 129]
)
async def test_a_name_that_no_agent_may_have_is_outside_of_the_schema_and_refused(name):
    async with serving(agents=()) as served:
        schemas = (await served.get("/openapi.json")).json()["components"]["schemas"]
        schema = Draft202012Validator(schemas["Registration"])
        assert schema.is_valid({"agent_id": "a/b c"})
        assert not schema.is_valid({"agent_id": name})
        assert (await served.post("agents", {"agent_id": name})).status_code == 422
