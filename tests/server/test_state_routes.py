"""State, events and kinds: visibility, seqs and paging."""

import asyncio

import pytest

from placet.actors import publisher
from placet.domains.world import World
from placet.schemas.event import Event
from placet.schemas.log.record import LogStart
from tests.kernel.builders import add, intent
from tests.kernel.domains import Lab, Nursery
from tests.server.served import serving


def speak(number, agent_id, text, **more):
    return intent("Speak", {"text": text, **more}, f"s{number}", agent_id=agent_id)


async def test_state_is_read_with_its_seq():
    async with serving() as served:
        seq = (await served.submit(add("r", 3))).json()["seq"]
        whole = (await served.get("state")).json()
        assert whole["seq"] == seq
        assert whole["value"]["lab.counts"]["alice"] == {"count": 3}
        field = (await served.get("state?path=lab.counts/alice/count")).json()
        assert (field["path"], field["value"]) == ("lab.counts/alice/count", 3)


@pytest.mark.parametrize("path", ["lab.things/secret", "lab.things/secret/value", "lab.other"])
async def test_hidden_entities_are_absent_from_an_agents_state(path):
    async with serving(Lab(things=["open", "secret"])) as served:
        assert (await served.get(f"state?path={path}", token="alice")).status_code == 404
        assert (await served.get(f"state?path={path}&agent=alice")).status_code == 404
        for hidden in ("state", "state?path=lab.things"):
            shown = await served.get(hidden, token="alice")
            assert "secret" not in shown.text
            assert "open" in shown.text
        if "secret" in path:
            assert (await served.get(f"state?path={path}")).status_code == 200


async def test_a_fully_hidden_collection_is_absent():
    async with serving(Lab(things=["secret"])) as served:
        for query, token in (("", "alice"), ("?agent=alice", "operator")):
            shown = (await served.get(f"state{query}", token=token)).json()["value"]
            assert list(shown) == ["lab.counts"]
        assert "lab.things" in (await served.get("state")).json()["value"]


async def test_an_owner_reads_state_as_its_agent():
    world = World()
    async with serving(world) as served:
        await served.register("dave", owner="carol", attributes={"team": "red"})
        await served.submit(speak(1, "dave", "to red alone", channel="team"))
        assert "to red alone" not in (await served.get("state", token="carol")).text
        assert "to red alone" in (await served.get("state?agent=dave", token="carol")).text


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_birth_is_read_by_the_operator_and_shown_as_far_as_its_entity_is(grouped):
    """The entity of the newborn `secret kid` is hidden; its attributes are drawn."""
    async with serving(Nursery(), clock="stepped") as served:
        for name in ("secret kid", "dan"):
            bear = intent("Bear", {"thing": name}, name)
            batches = [bear, add(f"a{len(name)}", agent_id="bob")][: 1 + grouped]
            sent = map(served.submit, batches)
            await asyncio.gather(*sent, served.post("step", {"dt": 1.0}))
        await served.post("step", {"dt": 1.0})
        events = (await served.get("events")).json()["events"]
        born = [one["agents"] for one in events if one.get("agents")]
        assert [[one["agent_id"] for one in agents] for agents in born] == [
            *(["secret kid"], ["dora"], ["dan"], ["dora"])
        ]
        assert born[0][0].keys() == {
            *("agent_id", "is_removed", "cohort", "permissions", "attributes")
        }
        assert born[0][0]["attributes"].keys() == {"luck"}
        shown = (await served.get("events", token="bob")).json()["events"]
        assert all("agents" not in event and "attributes" not in str(event) for event in shown)
        assert "secret kid" not in str(shown)
        assert "lab.counts/dan" in str(shown)


async def test_events_are_read_in_pages_without_gaps():
    async with serving() as served:
        for number in range(6):
            await served.submit(add(f"r{number}"))
            await served.submit(intent("Take", {"amount": 99}, f"t{number}"))
        all_of_it = (await served.get("events?limit=1000")).json()
        assert all_of_it["is_end"]
        assert all_of_it["next_record"] == served.world.records
        assert sum(event["type"] == "refused" for event in all_of_it["events"]) == 6
        place, paged = 0, []
        while True:
            page = (await served.get(f"events?from_record={place}&limit=2")).json()
            assert len(page["events"]) <= 2
            paged += page["events"]
            place = page["next_record"]
            if page["is_end"]:
                break
        header, *rest = paged
        assert header["type"] == "header"
        assert rest == all_of_it["events"]


async def test_a_page_of_large_records_is_bounded_in_bytes(monkeypatch):
    async with serving() as served:
        for number in range(9):
            await served.submit(add(f"r{number}"))
        whole = (await served.get("events?from_record=0&limit=1000")).json()
        assert whole["is_end"]
        monkeypatch.setattr(publisher, "PAGE_BYTES_MAX", 1)
        place = 0
        for event in whole["events"]:
            page = (await served.get(f"events?from_record={place}&limit=1000")).json()
            assert page["events"] == [event]
            place = page["next_record"]
        assert place == whole["next_record"]


async def test_since_returns_later_events():
    async with serving() as served:
        seq = (await served.submit(add("r1"))).json()["seq"]
        nothing = (await served.get(f"events?since={seq}")).json()
        assert (nothing["events"], nothing["is_end"]) == ([], True)
        await served.submit(add("r2"))
        some = (await served.get(f"events?since={seq}")).json()["events"]
        assert [event["intents"][0]["req_id"] for event in some] == ["r2"]
        assert (await served.get("events?since=99999")).json()["events"] == []
        assert (await served.get("events?from_record=99999")).json()["is_end"]


async def test_compacted_events_are_answered_410(monkeypatch):
    async with serving() as served:
        await served.submit(add("r1"))
        start = LogStart(3, 2)
        monkeypatch.setattr(served.world._open.log, "start", lambda: start)
        for path in ("events", "events?since=1", "events?from_record=2"):
            answer = await served.get(path)
            assert (answer.status_code, answer.json()["next_record"]) == (410, 3)
        for path in ("events?since=2", "events?from_record=3"):
            assert (await served.get(path)).status_code == 200


async def test_reading_events_does_not_wait_and_leaves_no_subscriber():
    async with serving() as served:
        for path in ("events", "events?since=1&limit=1", "events?from_record=2"):
            async with asyncio.timeout(60):
                await served.get(path)
        assert served.world.statistics()["observers"] == 0


async def test_an_agent_reads_its_own_batches_and_visible_events():
    async with serving(Lab(things=["secret"])) as served:
        await served.submit(add("mine", 1))
        await served.submit(add("theirs", 2, agent_id="bob"))
        await served.submit(intent("Take", {"amount": 99}, "theirs2", agent_id="bob"))
        await served.submit(intent("Take", {"amount": 99}, "mine2"))
        put = {"thing": "secret", "field": "value", "value": "hidden"}
        await served.submit(intent("Put", put, "theirs3", agent_id="bob"))
        answer = await served.get("events", token="alice")
        events = answer.json()["events"]
        told = [one["req_id"] for event in events for one in event.get("intents", [])]
        assert told == ["mine", "mine2"]
        assert "hidden" not in answer.text
        assert "theirs" not in answer.text
        seen = [change["entity"] for event in events for change in event["changes"]]
        assert "lab.counts/bob" in seen  # it may see that
        assert "lab.things/secret" not in seen
        refused = next(event for event in events if event["type"] == "refused")
        assert refused["refusals"]


async def test_an_agent_reads_its_own_part_of_a_joint_batch():
    async with serving() as served:
        await served.submit(add("a"), add("b", agent_id="bob"))
        too_much = intent("Take", {"amount": 99}, "d", agent_id="bob")
        await served.submit(add("c"), too_much)
        events = (await served.get("events", token="alice")).json()["events"]
        batch = next(event for event in events if event["type"] == "batch")
        assert [one["agent_id"] for one in batch["intents"]] == ["alice"]
        refused = next(event for event in events if event["type"] == "refused")
        assert [one["agent_id"] for one in refused["intents"]] == ["alice"]
        assert "refusals" not in refused


async def test_a_whisper_stays_hidden_after_it_is_overwritten():
    async with serving(World(), agents=("alice", "bob", "eve")) as served:
        await served.submit(speak(1, "bob", "hush", channel="private", target_id="alice"))
        await served.submit(speak(2, "bob", "hello all"))
        heard = ""
        for record in range(served.world.records):  # by itself, not beside what came later
            answer = await served.get(f"events?agent=eve&from_record={record}&limit=1")
            heard += answer.text
        assert "hello all" in heard
        assert "hush" not in heard


async def test_nearby_changes_are_reported_once():
    async with serving() as served:
        for number in range(5):
            await served.submit(add(f"r{number}", 1, agent_id="bob"))
        events = (await served.get("events", token="alice")).json()["events"]
        of_bob = [
            change["fields"]
            for event in events
            for change in event["changes"]
            if change["entity"] == "lab.counts/bob"
        ]
        assert of_bob == [{"count": 5}]


async def test_removed_entities_are_reported_as_removed():
    async with serving(Lab(things=["lamp"])) as served:
        await served.submit(intent("Drop", {"thing": "lamp"}, agent_id="bob"))
        events = (await served.get("events", token="alice")).json()["events"]
        gone = [
            change
            for event in events
            for change in event["changes"]
            if change["entity"] == "lab.things/lamp"
        ]
        assert [change["fields"] for change in gone] == [None]


async def test_events_report_an_entity_that_came_into_sight_at_its_latest_change_only():
    """The channel by which an agent learns when another acted out of its sight."""
    far = World(observation={"distance": 10}, max_step=1000.0)
    async with serving(far, agents=(), clock="stepped") as served:
        for name, place in (("alice", [0, 0]), ("bob", [400, 0])):
            await served.register(name, attributes={"position": place})

        async def move(name: str, number: int, place: int) -> int:
            """Move an agent in a second of the world; return the seq of the move."""
            moved = intent("Move", {"to": [place, 0]}, f"m{number}", agent_id=name)
            pending = served.world.submit_nowait([moved], submitter=name)
            await served.world.step(1.0)
            verdict = await pending
            assert verdict.seq is not None, verdict
            return verdict.seq

        await move("bob", 1, 402)
        latest = await move("bob", 2, 401)
        now = (await served.get("/api/v1/worlds/world", token="alice")).json()
        hidden = await served.get("events", token="alice")
        assert "bob" not in hidden.text
        await move("alice", 3, 400)
        events = []
        for record in range(served.world.records):  # by itself, not beside what came later
            page = await served.get(f"events?from_record={record}&limit=1", token="alice")
            events += page.json()["events"]
        told = [
            event
            for event in events
            if "world.agents/bob" in [change["entity"] for change in event["changes"]]
        ]
        [event] = told
        [change] = event["changes"]
        assert change["fields"]["position"] == [401.0, 0.0, 0.0]
        assert event.keys() == {"seq", "record", "type", "sim_time", "changes"}
        assert (event["seq"], event["sim_time"]) == (latest, now["sim_time"])
        assert now["seq"] >= latest  # she could have learned the time of the seq from this
        assert "402" not in str(events)


async def test_an_entity_that_the_operator_restores_stays_in_the_events_of_its_observers():
    near = World(observation={"distance": 10})
    async with serving(near, agents=()) as served:
        for name, place in (("alice", [0, 0]), ("bob", [3, 0])):
            await served.register(name, attributes={"position": place})
        seq = served.world.seq
        await served.submit(intent("Move", {"to": [4, 0]}, "m1", agent_id="bob"))
        await served.world.restore("world.agents/bob", to_seq=seq)
        events = (await served.get("events", token="alice")).json()["events"]
        told = [
            (event["type"], change["fields"]["position"])
            for event in events
            for change in event["changes"]
            if change["entity"] == "world.agents/bob"
        ]
        assert told == [("patched", [3.0, 0.0, 0.0])]
        assert "restore" not in str(events)  # the operator's words are not told


async def test_operator_records_are_hidden_from_agents():
    async with serving() as served:
        types = {e["type"] for e in (await served.get("events", token="alice")).json()["events"]}
        whole = {e["type"] for e in (await served.get("events")).json()["events"]}
        assert "configured" in whole
        assert types == {"registered"}


async def test_kinds_are_listed_with_schemas_and_limits():
    async with serving() as served:
        told = (await served.get("/api/v1/kinds", token="alice")).json()
        assert told["domains"][0]["kinds"]["Add"]["payload"]["required"] == ["amount"]
        assert told["domains"][0]["kinds"]["Tend"]["has_footprint"]
        assert told["limits"]["batch_intents_max"] == 512


async def test_a_world_reports_its_seq_and_time():
    async with serving(clock="stepped") as served:
        before = (await served.get("/api/v1/worlds/world")).json()
        after = (await served.post("step", {"dt": 1.5})).json()
        assert after["sim_time"] == before["sim_time"] + 1.5
        assert (await served.get("/api/v1/worlds")).json()["worlds"] == [after]


async def test_a_world_reports_its_domains_store_and_pause():
    async with serving(World()) as served:
        told = (await served.get("/api/v1/worlds", token="alice")).json()
        assert told["submitter"] == "alice"
        [world] = told["worlds"]
        assert (world["domains"], world["store"], world["durability"], world["paused"]) == (
            ["world"],
            "memory",
            "memory",
            False,
        )
        await served.world.pause()
        assert (await served.get("/api/v1/worlds/world")).json()["paused"]
        await served.world.resume()
        assert not (await served.get("/api/v1/worlds/world")).json()["paused"]


async def test_a_store_is_reported_without_its_location(tmp_path):
    async with serving(store=f"sqlite:///{tmp_path}/town.db") as served:
        told = (await served.get("/api/v1/worlds/world", token="alice")).text
    assert '"store":"sqlite"' in told
    assert str(tmp_path) not in told


@pytest.mark.parametrize("dt", [-1, "1", None, True, 1e300])
async def test_an_invalid_step_is_a_problem(dt):
    async with serving(clock="stepped") as served:
        answer = await served.post("step", {"dt": dt})
        assert answer.status_code == 422


async def test_concurrent_readers_share_one_metrics_computation():
    async with serving() as served:
        first = await served.get("/metrics")
        await served.submit(add("r"))
        again = await served.get("/metrics")
        assert first.text == again.text
        served.context.metrics._monotonic = lambda: float("inf")
        later = await served.get("/metrics")
        assert 'placet_intents_total{kind="Add",outcome="admitted"} 1.0' in later.text
        assert (await served.get("/metrics?world=no")).status_code == 404


async def test_a_draining_server_is_not_ready():
    async with serving() as served:
        assert (await served.get("/readyz")).status_code == 200
        served.context.is_draining = True
        answer = await served.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert (await served.submit(add("r"))).status_code == 200
        await served.context.worlds.close()
        served.context.is_draining = False
        assert (await served.get("/readyz")).status_code == 503


async def test_a_page_of_events_costs_the_records_that_it_returns(monkeypatch):
    decoded: list[int] = []
    events_of = publisher.events_of

    def counted(ordinal: int, data: bytes) -> list[Event]:
        decoded.append(ordinal)
        return events_of(ordinal, data)

    monkeypatch.setattr(publisher, "events_of", counted)
    async with serving() as served:
        for number in range(300):
            await served.submit(add(f"r{number}"))
        for query, first in (("limit=2", 1), ("from_record=200&limit=2", 200)):
            decoded.clear()
            answer = await served.get(f"events?{query}")
            assert [event["record"] for event in answer.json()["events"]] == [first, first + 1]
            assert decoded == [first, first + 1]
