"""Access to designs over HTTP: a design of others is answered as one that does not exist."""

import errno
import json

import pytest
from tests.design.frontend.test_design_routes import DESIGNS, LOA, plan

from placet.domains.session import Sessions
from placet.schemas.errors import StoreError
from placet.server.config import ServeConfig
from placet.server.open_files import FILES_PER_WORLD
from placet_design import Design
from placet_design.actions.plans import intent_of
from placet_design.api.workspace import HOST
from placet_design.payloads import ACCESS_NAMES_MAX
from tests.server.served import Served, Socket, serving

FERRY = f"{DESIGNS}/ferry"
WORLD = "/api/v1/worlds/ferry"
SECRET = "the words of alice"
BEAM = {"action_type": "set", "path": "hull.beam", "value": 9}


def designing(**more):
    return serving([Design(), Sessions()], agents=(), **more)


async def make_ferry(served: Served, **access: object) -> None:
    """Create the design of Alice, with a plan in it, and set its access."""
    created = await served.post(DESIGNS, {"design_id": "ferry"}, token="alice")
    assert created.status_code == 201, created.text
    worded = {"action_type": "request_clarification", "message": SECRET}
    done = await served.post(f"{FERRY}/actions", plan(LOA, worded), token="alice")
    assert done.json()["success"], done.text
    if access:
        body = {"owner": "alice", "editors": [], "readers": [], **access}
        assert (await served.ask("PUT", f"{FERRY}/access", body, token="alice")).is_success


PARTS = {
    "{agent_id}": "alice",
    "{session}": "main",
    "{approval_id}": "a1",
    "{phase}": "hull",
}


async def every_address(served: Served, name: str) -> dict[str, tuple[str, str]]:
    """Return method and path of every operation on one world, from the OpenAPI document."""
    document = (await served.get("/openapi.json")).json()
    found = {}
    for path, operations in document["paths"].items():
        url = path.replace("{world}", name).replace("{design_id}", name)
        if url == path:
            continue
        for part, value in PARTS.items():
            url = url.replace(part, value)
        for method, operation in operations.items():
            found[operation["operationId"]] = (method.upper(), url)
    return found


QUERIES = {
    "get_verdict": "?agent_id=alice&req_id=plan_1:0",
    "get_entity": "?record=1&collection=design.about&entity=design",
    "get_view": "?record=1&agent=alice",
    "get_story": "?agent=alice",
    "list_steps": "?record=1",
    "list_trace": "?collection=design.about&entity=design",
    "find_record": "?record=1",
    "explain_request": "?seq=3",
}


async def test_every_address_of_a_design_of_others_is_that_of_no_design():
    async with designing() as served:
        await make_ferry(served)
        there = await every_address(served, "ferry")
        absent = await every_address(served, "no")
        assert len(there) > 30
        body = {"owner": "bob", "editors": [], "readers": []}
        for operation, (method, path) in there.items():
            query = QUERIES.get(operation, "")
            mine = await served.ask(method, path + query, body, token="bob")
            none = await served.ask(method, absent[operation][1] + query, body, token="bob")
            assert mine.status_code == none.status_code == 404, (operation, mine.text, none.text)
            ours, others = (json.loads(one.text) for one in (mine, none))
            assert ours["detail"].replace("ferry", "no") == others["detail"], operation
            assert ours.keys() == others.keys(), operation
        document = (await served.get(f"{FERRY}/access")).json()
        assert document == {"owner": "alice", "editors": [], "readers": []}
        assert (await served.get(FERRY)).json()["design_version"] == 1


async def test_the_name_of_a_design_is_disclosed_by_creating_one():
    """The channel by which a token without access learns that a design of a name exists."""
    async with designing() as served:
        await make_ferry(served)
        taken = await served.post(DESIGNS, {"design_id": "ferry"}, token="bob")
        assert (taken.status_code, SECRET in taken.text) == (409, False)


async def test_a_failed_store_does_not_disclose_a_design():
    async with designing() as served:
        await make_ferry(served)
        failed = served.context.worlds.find("ferry")._open
        failed._on_escalation("committer", StoreError("the disk is gone"))
        assert (await served.get(FERRY, token="alice")).status_code == 503
        for name in ("ferry", "no"):
            assert (await served.get(f"{DESIGNS}/{name}", token="bob")).status_code == 404


@pytest.mark.parametrize("query", ["", "?observe=true", "?since=0", "?agent=alice"])
async def test_a_stream_of_a_design_of_others_is_that_of_no_design(query):
    async with designing() as served:
        await make_ferry(served)
        answers = []
        for name in ("ferry", "no"):
            async with Socket(served.app, f"/api/v1/worlds/{name}/stream{query}", "bob") as socket:
                answers.append((await socket.answer())["code"])
        assert answers[0] == answers[1] == 1008


async def test_lists_name_the_designs_that_a_token_may_read():
    async with designing() as served:
        await make_ferry(served, readers=["carol"])
        for token, seen in (
            ("alice", ["ferry"]),
            ("carol", ["ferry"]),
            ("bob", []),
            ("operator", ["ferry", "world"]),
        ):
            listed = (await served.get(DESIGNS, token=token)).json()["designs"]
            assert [one["design_id"] for one in listed] == seen
            worlds = (await served.get("/api/v1/worlds", token=token)).json()["worlds"]
            assert [one["world"] for one in worlds] == seen


async def test_editors_write_and_readers_only_read():
    async with designing() as served:
        await make_ferry(served, editors=["bob"], readers=["carol"])
        for token in ("bob", "carol"):
            for path in ("", "/access", "/phases", "/events", "/audit"):
                assert (await served.get(FERRY + path, token=token)).status_code == 200
            audit = (await served.get(f"{FERRY}/audit", token=token)).text
            assert SECRET in audit, "the audit is shared by all who may read the design"
        edited = await served.post(f"{FERRY}/actions", plan(BEAM, number=2, version=1), token="bob")
        assert edited.json()["success"], edited.text
        writes: tuple[tuple[str, str, object], ...] = (
            ("POST", f"{FERRY}/actions", plan(BEAM, number=3, version=2)),
            ("POST", f"{FERRY}/actions?dry_run=true", plan(BEAM, number=3, version=2)),
            ("POST", f"{FERRY}/undo", {}),
            ("POST", f"{FERRY}/phases/hull/run", {}),
            ("PUT", f"{FERRY}/access", {"owner": "carol", "editors": [], "readers": []}),
            ("POST", f"{WORLD}/batches", []),
            ("POST", f"{WORLD}/dry-run", []),
        )
        for method, path, body in writes:
            refused = await served.ask(method, path, body, token="carol")
            assert refused.status_code == 403, (path, refused.text)
            assert refused.json()["detail"] == "this token may read this, and not change it"
        body = {"owner": "bob", "editors": [], "readers": []}
        taken = await served.ask("PUT", f"{FERRY}/access", body, token="bob")
        assert (taken.status_code, taken.json()["refusal"]) == (403, "design.not_owner")


async def test_an_owner_gives_a_design_away_and_the_operator_takes_it_back():
    async with designing() as served:
        await make_ferry(served)
        to_bob = {"owner": "bob", "editors": [], "readers": []}
        given = await served.ask("PUT", f"{FERRY}/access", to_bob, token="alice")
        assert (given.status_code, given.json()) == (200, to_bob)
        assert (await served.get(FERRY, token="alice")).status_code == 404
        assert (await served.get(FERRY, token="bob")).status_code == 200
        back = {"owner": "operator", "editors": ["alice"], "readers": []}
        assert (await served.ask("PUT", f"{FERRY}/access", back)).json() == back
        assert (await served.get(FERRY, token="bob")).status_code == 404
        again = await served.ask("PUT", f"{FERRY}/access", to_bob, token="bob")
        assert again.status_code == 404


async def test_a_design_without_a_record_is_for_the_agents_that_the_operator_registers():
    async with designing() as served:
        await served.post(DESIGNS, {"design_id": "ferry"})
        assert (await served.get(FERRY, token="alice")).status_code == 404
        await served.post(f"{WORLD}/agents", {"agent_id": "alice"})
        await served.post(f"{WORLD}/agents", {"agent_id": "dave", "owner": "carol"})
        for token in ("alice", "carol"):
            shown = (await served.get(f"{FERRY}/access", token=token)).json()
            assert shown == {"owner": "operator", "editors": ["alice", "dave"], "readers": []}
        body = {"owner": "alice", "editors": ["dave"], "readers": []}
        assert (await served.ask("PUT", f"{FERRY}/access", body, token="alice")).status_code == 403
        assert (await served.ask("PUT", f"{FERRY}/access", body)).status_code == 200
        assert (await served.get(FERRY, token="carol")).status_code == 200, "she owns dave"
        assert (await served.get(FERRY, token="bob")).status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"owner": ""},
        {"owner": None},
        {"owner": "a\nb"},
        {"owner": "system"},
        {"editors": ["operator"]},
        {"readers": ["\x9b31m"]},
        {"owner": "alice\u202e"},
        {"editors": ["b\u200b"]},
        {"readers": ["x" * 129]},
        {"readers": [5]},
        {"editors": [f"e{n}" for n in range(ACCESS_NAMES_MAX + 1)]},
        {"editors": "bob"},
        {"role": "operator"},
    ],
)
async def test_an_invalid_access_is_refused_and_changes_nothing(change):
    async with designing() as served:
        await make_ferry(served, editors=["bob"])
        body = {"owner": "alice", "editors": [], "readers": [], **change}
        refused = await served.ask("PUT", f"{FERRY}/access", body, token="alice")
        assert refused.status_code == 422, refused.text
        kept = (await served.get(f"{FERRY}/access", token="alice")).json()
        assert kept == {"owner": "alice", "editors": ["bob"], "readers": []}


async def test_a_name_in_the_record_stays_allowed_though_a_new_one_may_not_be_so():
    async with designing() as served:
        await make_ferry(served)
        old = {"owner": "alice", "editors": ["zoe\u200d"], "readers": []}
        world = served.context.worlds.find("ferry")
        intent = intent_of("design.set_access", old, HOST, "old", world.seq)
        assert (await world.submit_nowait([intent], submitter="operator")).admitted
        body = {**old, "readers": ["zoe\u200d", "bob"]}
        kept = await served.ask("PUT", f"{FERRY}/access", body, token="alice")
        assert (kept.status_code, kept.json()) == (200, {**body, "readers": ["bob", "zoe\u200d"]})
        body["readers"] = ["z\u200d"]
        refused = await served.ask("PUT", f"{FERRY}/access", body, token="alice")
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith("a name in 'readers' must have no control, bidi")


async def test_a_stream_ends_when_its_token_loses_the_design():
    async with designing() as served:
        await make_ferry(served, editors=["bob"])
        done = await served.post(f"{FERRY}/actions", plan(BEAM, number=2, version=1), token="bob")
        assert done.json()["success"]
        async with Socket(served.app, f"{WORLD}/stream", "bob") as socket:
            assert (await socket.message())["type"] == "snapshot"
            body = {"owner": "alice", "editors": [], "readers": []}
            await served.ask("PUT", f"{FERRY}/access", body, token="alice")
            closed = await socket.answer()
            assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
            assert "may not read" in closed["reason"]


async def test_readers_of_a_design_read_its_plans_at_every_address():
    async with designing() as served:
        await make_ferry(served, editors=["bob"], readers=["dave"])
        await served.post(f"{FERRY}/actions", plan(BEAM, number=2, version=1), token="bob")
        await served.post(f"{WORLD}/agents", {"agent_id": "dave", "owner": "carol"})
        for token in ("alice", "bob", "carol"):
            for path in (f"{FERRY}/audit", f"{FERRY}/events", f"{WORLD}/events"):
                told = (await served.get(path, token=token)).text
                assert SECRET in told, (token, path)
                assert "plan_1" in told
                assert "plan_2" in told


async def test_a_reader_that_is_no_agent_of_the_design_reads_it_at_every_address():
    async with designing() as served:
        await make_ferry(served, readers=["carol"])
        for path in ("state?path=", "events?since=0", "state?path=design.parameters/hull.loa"):
            shown = await served.get(f"{WORLD}/{path}", token="carol")
            assert shown.status_code == 200, shown.text
            named = await served.get(f"{WORLD}/{path}&agent=carol", token="carol")
            assert (named.status_code, named.json()) == (200, shown.json())
            for token in ("bob", "operator"):  # without access; and not as an agent of the token
                absent = await served.get(f"{WORLD}/{path}&agent={token}", token=token)
                assert absent.status_code == 404
        assert (await served.get(f"{WORLD}/agents/carol", token="carol")).status_code == 404
        for query in ("", "&agent=carol"):
            async with Socket(served.app, f"{WORLD}/stream?since=0{query}", "carol") as socket:
                while SECRET not in str(await socket.message()):
                    pass
            observing = f"{WORLD}/stream?observe=true{query}"
            async with Socket(served.app, observing, "carol") as socket:
                assert (await socket.answer())["type"] == "websocket.close", "she is no agent"


async def test_an_agent_that_owns_its_number_of_designs_creates_no_more():
    async with designing(limits={"worlds_per_token_max": 2}) as served:
        for name in ("a", "b"):
            assert (await served.post(DESIGNS, {"design_id": name}, token="bob")).is_success
        full = await served.post(DESIGNS, {"design_id": "c"}, token="bob")
        assert (full.status_code, full.json()["detail"]) == (
            403,
            "'bob' has 2 designs, which is all",
        )
        ghost = {"owner": "ghost", "editors": [], "readers": []}
        given = await served.ask("PUT", f"{DESIGNS}/a/access", ghost, token="bob")
        assert given.is_success
        full = await served.post(DESIGNS, {"design_id": "c"}, token="bob")
        assert full.status_code == 403, "a design that was given away counts"
        assert (await served.post(DESIGNS, {"design_id": "c"}, token="alice")).is_success


async def test_an_agent_leaves_room_for_the_designs_of_others():
    async with designing(limits={"worlds_max": 20}) as served:

        async def create(token: str, count: int) -> list[int]:
            bodies = [{"design_id": f"{token}{n}"} for n in range(count)]
            answers = [await served.post(DESIGNS, body, token=token) for body in bodies]
            return [answer.status_code for answer in answers]

        assert await create("bob", 12) == [201] * 10 + [503] * 2
        assert await create("alice", 9) == [201] * 8 + [503]
        assert await create("carol", 2) == [201, 503]


async def test_designs_leave_open_files_to_the_process(tmp_path, monkeypatch):
    def allow(worlds: int) -> None:
        files = 128 + 2 * worlds * FILES_PER_WORLD
        monkeypatch.setattr("placet.server.open_files._allow", lambda _wanted: files)

    store = f"sqlite:///{tmp_path}/ships.db?synchronous=off"
    allow(2)
    async with designing(store=store) as served:
        made = [(await served.post(DESIGNS, {"design_id": name})).status_code for name in "abc"]
        assert made == [201, 201, 503]
    allow(1)
    async with designing(store=store) as served:  # opens as many as it can, and reports the other
        ((closed, why),) = served.context.worlds.unopened.items()
        (opened,) = {"a", "b"} - {closed}
        assert (await served.get(f"{DESIGNS}/{opened}")).status_code == 200
        for token, shown in (("bob", "ask the operator"), ("operator", why)):
            absent = await served.get(f"{DESIGNS}/{closed}", token=token)
            assert absent.status_code == 503
            assert shown in absent.json()["detail"]
        taken = await served.post(DESIGNS, {"design_id": closed}, token="bob")
        assert taken.status_code == 409, "its file is not taken over"
        assert (await served.get("/readyz")).status_code == 200


async def test_a_process_without_a_free_file_is_not_ready(monkeypatch):
    async with designing() as served:
        assert (await served.get("/readyz")).status_code == 200

        def no_file(_path: str, _flags: int) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr("placet.server.open_files.os.open", no_file)
        unready = await served.get("/readyz", token="operator")
        assert unready.status_code == 503
        assert "no free file descriptor" in unready.json()["detail"]


async def test_a_stepped_server_creates_designs_with_an_owner():
    async with designing(clock="stepped") as served:
        created = await served.post(DESIGNS, {"design_id": "ferry"}, token="alice")
        assert created.status_code == 201
        assert (await served.get(f"{FERRY}/access", token="alice")).json()["owner"] == "alice"
        assert (await served.get(FERRY, token="bob")).status_code == 404


async def test_an_owner_is_known_after_a_restart(tmp_path):
    store = f"sqlite:///{tmp_path}/ships.db?synchronous=off"
    async with designing(store=store) as served:
        await make_ferry(served, readers=["bob"])
    async with designing(store=store) as served:
        for token, status in (("alice", 200), ("bob", 200), ("carol", 404)):
            assert (await served.get(FERRY, token=token)).status_code == status


async def test_a_session_is_entered_by_people_who_may_change_its_design():
    async with designing() as served:
        await make_ferry(served, editors=["ed"], readers=["carol"])
        people = {"bob": "", "carol": ""}
        opening = {"agent": "ed", "people": people, "mode": "autonomous"}
        opened = await served.post(f"{WORLD}/sessions", opening)
        assert opened.status_code == 201, opened.text
        main, say = f"{WORLD}/sessions/main", {"message": "set beam to 9 m"}
        for token, reads, writes in (("bob", 404, 404), ("carol", 200, 403)):
            assert (await served.get(main, token=token)).status_code == reads
            assert (await served.post(f"{main}/messages", say, token=token)).status_code == writes


async def test_claims_and_access_hold_together():
    serve = ServeConfig(claims={"bob": {"world": "agent"}, "carol": {"world": "reader"}})
    async with serving(Design(), agents=("alice", "bob"), serve=serve) as served:
        named = {"owner": "operator", "editors": ["bob", "carol"], "readers": []}
        await served.ask("PUT", f"{DESIGNS}/world/access", named)
        url = f"{DESIGNS}/world/actions"
        assert (await served.post(url, plan(LOA), token="bob")).json()["success"]
        assert (await served.post(url, plan(LOA), token="carol")).status_code == 403
        assert (await served.get(f"{DESIGNS}/world", token="carol")).status_code == 200
        assert (await served.get(f"{DESIGNS}/world", token="alice")).status_code == 404
        made = await served.post(DESIGNS, {"design_id": "ferry"}, token="bob")
        assert made.status_code == 403
        await served.post(DESIGNS, {"design_id": "ferry"}, token="alice")
        both = {"owner": "alice", "editors": ["bob"], "readers": []}
        await served.ask("PUT", f"{FERRY}/access", both, token="alice")
        assert (await served.get(FERRY, token="bob")).status_code == 404, "it has no claim to it"
