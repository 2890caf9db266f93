"""A block is canceled when its read set changes, and for no other reason."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from placet import IntentError, PermissionDeniedError, RefusalCode, StaleContextError
from placet.actors.policies.staleness_scope import StalenessOptions
from placet.actors.policies.subscriptions import ExternalChange
from placet.domains.world import World
from placet.kernel.plugin.domain import Kind
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.world import WorldRuntime
from placet.schemas.identity import Ref
from placet.schemas.refusal import Stage
from tests.actors.parts import COUNTS, add, intent, open_world
from tests.actors.virtual_time import in_virtual_time, turns
from tests.kernel.domains import THINGS, Amount, Lab
from tests.kernel.domains import add as add_rule


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


def handle_of(world: WorldRuntime, agent_id: str = "alice") -> AgentHandle:
    agent = world.kernel.ledger.agents[agent_id]
    return AgentHandle(world, agent_id, agent.generation, f"test.{agent_id}")


def put(thing: str, value: Any = 1, by: str = "bob") -> dict[str, Any]:
    payload = {"thing": thing, "field": "value", "value": value}
    return intent("Put", payload, f"{by} {thing} {value}", agent_id=by)


async def act(world: WorldRuntime, *intents: Mapping[str, Any]) -> None:
    """Run other agents' actions, and give every task a turn."""
    verdict = await world.actor.post_batch(list(intents), "operator")
    assert verdict.admitted, verdict.refusals
    await turns(5)


class Thought:
    """Think for ten seconds in a fresh context, and return the outcome."""

    def __init__(self, handle: AgentHandle, **settings: Any) -> None:
        self.error: Exception | None = None
        self.ended_at: float | None = None
        self.was_cancelled = False
        self.context = handle.fresh_context(**settings)

    async def think(self) -> None:
        try:
            async with self.context:
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    self.was_cancelled = True
                    raise
        except Exception as error:  # noqa: BLE001  # it is looked at by the test
            self.error = error
        self.ended_at = now()

    @property
    def stale(self) -> StaleContextError:
        assert isinstance(self.error, StaleContextError), self.error
        return self.error


@asynccontextmanager
async def thinking(handle: AgentHandle, **settings: Any) -> AsyncIterator[Thought]:
    thought = Thought(handle, **settings)
    async with anyio.create_task_group() as group:
        group.start_soon(thought.think)
        await turns(5)
        yield thought


@in_virtual_time
async def test_a_change_by_another_agent_cancels_the_block_with_its_reason():
    async with open_world(domain=Lab(things=["lamp"])) as world:
        alice = handle_of(world)
        async with thinking(alice) as thought:
            view_seq = alice.view_seq
            await asyncio.sleep(1)
            await act(world, put("lamp", 7))
        assert thought.was_cancelled
        assert thought.ended_at == 1
        stale = thought.stale
        assert stale.context_seq == view_seq
        assert stale.current_seq == view_seq + 1
        assert stale.changed == (
            {"entity": f"{THINGS}/lamp", "seq": view_seq + 1, "by": "bob", "now": {"value": 7}},
        )
        assert stale.code == RefusalCode.STALE_CONTEXT
        assert stale.refusals[0].stage is Stage.STALENESS
        assert "lab.things/lamp changed" in str(stale)
        assert len(world.subscriptions.open) == 0


@in_virtual_time
async def test_a_completed_block_raises_nothing_and_leaves_no_subscription():
    async with open_world() as world:
        alice = handle_of(world)
        async with alice.fresh_context() as context:
            assert context.view.state[COUNTS]["alice"] == {"count": 0}
            assert alice.view_seq == context.view.view_seq
            assert len(world.subscriptions.open) == 1
        assert not context.is_stale
        assert len(world.subscriptions.open) == 0
        await act(world, put("lamp"))
        assert not context.is_stale


@in_virtual_time
async def test_a_block_that_ends_before_the_cancellation_raises_nothing():
    async with open_world() as world:
        ran_on = False
        async with handle_of(world).fresh_context() as context:
            with anyio.CancelScope(shield=True):
                await act(world, put("lamp"))
            ran_on = True
        assert ran_on
        assert context.is_stale
        assert [change.by for change in context.changed.values()] == ["bob"]


@in_virtual_time
async def test_own_commits_do_not_cancel_or_count():
    async with open_world() as world:
        alice = handle_of(world)
        async with thinking(alice, threshold=0) as counted, thinking(alice) as thought:
            await world.actor.post_batch([add("own", agent_id="alice")], "alice")
            await turns(5)
        for block in (counted, thought):
            assert block.error is None
            assert block.ended_at == 10


@in_virtual_time
async def test_a_foreign_change_counts_after_an_own_change():
    async with open_world(domain=Lab(things=["lamp"])) as world:
        async with thinking(handle_of(world), reads=[(THINGS, "lamp")]) as thought:
            await act(world, put("lamp", 1, by="bob"), put("lamp", 2, by="alice"))
        assert thought.stale.changed[0]["by"] is None
        assert thought.stale.changed[0]["now"] == {"value": 2}


@in_virtual_time
async def test_a_threshold_allows_some_foreign_seqs():
    async with open_world() as world:
        async with thinking(handle_of(world), threshold=2) as thought:
            stopped = []
            for number in range(3):
                await act(world, add(f"r{number}", agent_id="bob"))
                stopped.append(thought.was_cancelled)
            assert stopped == [False, False, True]
        assert thought.stale.changed == ()
        assert "advanced the world by 3" in str(thought.stale)


def expecting(field: str | None, op: str, value: Any = None) -> dict[str, Any]:
    """Return the option of an intent with a condition on a field of the lamp."""
    path = [THINGS, "lamp", *([] if field is None else [field])]
    condition = {"path": path, "op": op, **({} if value is None else {"value": value})}
    return {"intents": [intent("Look", {"thing": "lamp"}, expect=[condition])]}


READS: list[tuple[dict[str, Any], bool, bool]] = [
    # what it depends on: is it stopped by a change of lamp, and of bob's own count?
    ({"reads": ["lab.things/lamp"]}, True, False),
    ({"reads": [(COUNTS, "bob")]}, False, True),
    ({"reads": ["lab.things"]}, False, False),
    ({"kinds": ["Tend"]}, False, False),
    ({"kinds": ["Add", "Custom"]}, False, False),
    ({"intents": [intent("Look", {"thing": "lamp"})]}, True, False),
    ({"intents": [intent("Glance", {"thing": "lamp"})]}, False, False),
    (expecting("value", "==", 7), False, False),
    (expecting("value", "==", 8), True, False),
    (expecting("color", "==", 8), False, False),  # of a field that did not change
    (expecting(None, "exists"), False, False),
    (expecting(None, "absent"), True, False),
    ({**expecting("value", "==", 7), "reads": ["lab.things/lamp"]}, True, False),
    ({"reads": []}, False, False),
    ({"reads": [], "threshold": 5}, False, False),
    ({"relevant": lambda change: change.entity == f"{COUNTS}/bob"}, False, True),
    ({"relevant": lambda change: (change.fields or {}).get("value") == 7}, True, False),
    ({"reads": ["lab.things/lamp"], "relevant": lambda change: False}, False, False),
    ({"threshold": 99, "relevant": lambda change: True}, True, True),
]


@pytest.mark.parametrize(("settings", "by_lamp", "by_count"), READS)
@in_virtual_time
async def test_only_changes_of_the_read_set_cancel(settings, by_lamp, by_count):
    for other, is_stopped in ((put("lamp", 7), by_lamp), (add("n", agent_id="bob"), by_count)):
        async with open_world(domain=Lab(things=["lamp"])) as world:
            async with thinking(handle_of(world), **settings) as thought:
                await act(world, other)
                assert thought.was_cancelled == is_stopped
            assert (thought.error is None) != is_stopped


@in_virtual_time
async def test_a_foreign_change_of_the_own_entity_cancels():
    async with open_world() as world:
        async with thinking(handle_of(world), kinds=["Tend"]) as thought:
            gift = intent("Give", {"thing": "alice"}, agent_id="bob")
            await act(world, gift)
        assert thought.stale.changed[0]["entity"] == f"{COUNTS}/alice"
        assert thought.stale.changed[0]["now"] == {"count": 1}


@in_virtual_time
async def test_a_collection_changes_when_an_entity_is_created_or_deleted():
    async with open_world(domain=Lab(things=["lamp"])) as world:
        async with thinking(handle_of(world), reads=[THINGS]) as thought:
            await act(world, put("lamp"))
            assert not thought.was_cancelled
            await act(world, intent("Drop", {"thing": "lamp"}, agent_id="bob"))
        assert thought.stale.changed == (
            {"entity": THINGS, "seq": world.kernel.seq, "by": "bob", "now": None},
        )


@in_virtual_time
async def test_hidden_changes_do_not_cancel_and_are_not_disclosed():
    seen: list[ExternalChange] = []

    def noted(change: ExternalChange) -> bool:
        seen.append(change)
        return True

    async with open_world() as world:
        async with thinking(handle_of(world), relevant=noted) as wide:
            async with thinking(
                handle_of(world), reads=[f"{THINGS}/secret"], relevant=noted
            ) as named:
                await act(world, put("secret", 42))
            assert not named.was_cancelled
        assert not wide.was_cancelled
        assert seen == []


@in_virtual_time
async def test_an_entity_that_becomes_hidden_cancels_without_disclosure():
    async with open_world(domain=World(), agents=("alice", "bob", "carol")) as world:
        bob = handle_of(world, "bob")
        assert (await bob.submit([bob.intent("Speak", text="good morning")])).admitted
        async with thinking(handle_of(world)) as thought:
            whisper = bob.intent("Speak", text="psst", channel="private", target_id="carol")
            await act(world, whisper)
        assert [change["entity"] for change in thought.stale.changed] == ["world.speech/bob"]
        assert "psst" not in repr(thought.stale.verdict) + repr(thought.stale.changed)
        async with thinking(handle_of(world, "alice")) as thought:
            await act(world, bob.intent("Speak", text="hm", channel="private", target_id="carol"))
        assert thought.error is None  # alice did not see it before, and does not now


@in_virtual_time
async def test_a_predicate_gets_only_the_latest_values():
    """Whether they may be seen is judged on the state as it is then, not as it was."""
    seen: list[Any] = []

    def noted(change: ExternalChange) -> bool:
        seen.append(change.fields)
        return False

    settings: dict[str, Any] = {"reads": ["lab.things/lamp"], "relevant": noted}
    async with (
        open_world(domain=Lab(things=["lamp"])) as world,
        handle_of(world).fresh_context(**settings),
    ):
        first = world.actor.post_batch([put("lamp", 1)], "operator")
        await world.actor.post_batch([put("lamp", 2)], "operator")
        await first
        await act(world, intent("Drop", {"thing": "lamp"}, agent_id="bob"))
    assert seen == [None, {"value": 2}, None]


@in_virtual_time
async def test_a_revalidated_kind_depends_on_nothing():
    class Lenient(Lab):
        kinds = (
            *Lab.kinds,
            Kind("Ease", Amount, add_rule, reads_self=COUNTS, when_stale="revalidate"),
        )

    async with open_world(domain=Lenient()) as world:
        async with thinking(handle_of(world), kinds=["Ease"]) as thought:
            await act(world, intent("Give", {"thing": "alice"}, agent_id="bob"))
        assert thought.error is None


@in_virtual_time
async def test_removing_the_agent_cancels_the_block():
    async with open_world() as world:
        async with thinking(handle_of(world)) as thought:
            await world.change_agent("alice", "removed")
            await turns()
        assert isinstance(thought.error, PermissionDeniedError)
        assert thought.ended_at == 0


@in_virtual_time
async def test_debounce_collects_changes_and_reports_the_latest_value():
    async with open_world(domain=Lab(things=["lamp", "door"])) as world:
        async with thinking(handle_of(world), debounce=0.5) as thought:
            await asyncio.sleep(1)
            await act(world, put("lamp", 1))
            assert not thought.was_cancelled
            await asyncio.sleep(0.3)
            await act(world, put("lamp", 2), put("door", 3))
            assert not thought.was_cancelled
        assert thought.ended_at == 1.5
        told = {change["entity"]: change["now"]["value"] for change in thought.stale.changed}
        assert told == {f"{THINGS}/lamp": 2, f"{THINGS}/door": 3}


@in_virtual_time
async def test_the_reason_lists_a_bounded_number_of_changes():
    async with open_world(limits={"changes_listed_max": 3}) as world:
        async with thinking(handle_of(world), debounce=1.0) as thought:
            await act(world, *[put(f"t{number}") for number in range(20)])
        assert len(thought.stale.changed) == 3


@in_virtual_time
async def test_a_change_between_view_and_block_is_not_missed():
    """The change is durable before the reading task enters the block."""
    async with open_world() as world:
        thought = Thought(handle_of(world))
        thinker = asyncio.ensure_future(thought.think())
        await turns(1)
        await world.actor.post_batch([put("lamp")], "operator")
        await thinker
        assert thought.was_cancelled
        assert thought.stale.changed
        assert now() == 0


@in_virtual_time
async def test_an_error_between_view_and_block_cancels_at_once():
    def broken(change: ExternalChange) -> bool:
        raise ZeroDivisionError("in the predicate")

    async with open_world() as world:
        thought = Thought(handle_of(world), relevant=broken, debounce=5)
        thinker = asyncio.ensure_future(thought.think())
        await turns(1)
        await world.actor.post_batch([put("lamp")], "operator")
        await thinker
        assert isinstance(thought.error, ZeroDivisionError)
        assert now() == 0


# As anyio users expect


@in_virtual_time
async def test_canceling_from_outside_is_a_cancellation_and_not_staleness():
    async with open_world() as world:
        after = False
        with anyio.move_on_after(1) as scope:
            async with handle_of(world).fresh_context():
                await asyncio.sleep(10)
            after = True
        assert scope.cancelled_caught
        assert not after
        assert now() == 1
        assert len(world.subscriptions.open) == 0


@pytest.mark.parametrize("laps", range(4))
@in_virtual_time
async def test_canceling_the_entry_leaves_no_subscription(laps):
    async with open_world() as world:

        async def think() -> None:
            async with handle_of(world).fresh_context():
                await asyncio.sleep(10)

        task = asyncio.ensure_future(think())
        await turns(laps)
        task.cancel()
        await asyncio.wait([task])
        await turns()
        assert task.cancelled()
        assert len(world.subscriptions.open) == 0


@in_virtual_time
async def test_the_innermost_dependent_block_is_canceled():
    async with open_world(domain=Lab(things=["lamp", "door"])) as world:
        alice = handle_of(world)
        story: list[str] = []

        async def think() -> None:
            try:
                async with alice.fresh_context(reads=["lab.things/lamp"]):
                    try:
                        async with alice.fresh_context(reads=["lab.things/door"]):
                            await asyncio.sleep(10)
                    except StaleContextError as stale:
                        story.append(f"inner {stale.changed[0]['entity']}")
                    await asyncio.sleep(10)
            except StaleContextError as stale:
                story.append(f"outer {stale.changed[0]['entity']}")

        async with anyio.create_task_group() as group:
            group.start_soon(think)
            await turns(10)
            await act(world, put("door"))
            assert story == ["inner lab.things/door"]
            await act(world, put("lamp"))
        assert story[1:] == ["outer lab.things/lamp"]
        assert now() == 0


@in_virtual_time
async def test_a_block_around_a_task_group_cancels_the_group():
    async with open_world() as world:
        ended: list[int] = []

        async def part(number: int) -> None:
            try:
                await asyncio.sleep(10)
            finally:
                ended.append(number)

        async def think() -> None:
            async with handle_of(world).fresh_context(), anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(part, number)

        thinker = asyncio.ensure_future(think())
        await turns(5)
        await act(world, put("lamp"))
        with pytest.raises(StaleContextError):
            await thinker
        assert sorted(ended) == [0, 1, 2]


@in_virtual_time
async def test_an_exception_of_the_body_is_raised():
    async with open_world() as world:

        async def think() -> None:
            async with handle_of(world).fresh_context():
                try:
                    await act(world, put("lamp"))
                finally:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await think()


# What goes wrong


@in_virtual_time
async def test_a_raising_predicate_affects_only_its_block():
    def broken(change: ExternalChange) -> bool:
        raise ZeroDivisionError("in the predicate")

    async with open_world() as world:
        async with thinking(handle_of(world), relevant=broken, debounce=5) as bad:
            async with thinking(handle_of(world, "bob")) as good:
                await act(world, put("lamp", by="alice"))
            await act(world, put("lamp", 2))
            assert bad.was_cancelled
        assert isinstance(bad.error, ZeroDivisionError)
        assert isinstance(good.error, StaleContextError)
        assert (await world.actor.post_batch([add("r", agent_id="bob")], "bob")).admitted
        assert now() == 0


@in_virtual_time
async def test_a_raising_visibility_rule_cancels_only_the_block():
    lab = Lab()
    async with open_world(domain=lab) as world:
        async with thinking(handle_of(world)) as thought:
            lab.faults.add("may_see")
            await act(world, put("lamp"))
        assert isinstance(thought.error, RuntimeError)
        assert (await world.actor.post_batch([add("r", agent_id="bob")], "bob")).admitted


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"kinds": ["Nope"]}, ValueError, "there is no kind 'Nope'"),
        ({"kinds": ["Look"]}, ValueError, "depend on its payload"),
        ({"intents": [intent("Nope")]}, IntentError, "Nope"),
        ({"intents": [intent("Look", {"thing": "raise"})]}, RuntimeError, "footprint"),
    ],
)
@in_virtual_time
async def test_an_invalid_read_set_is_refused_on_entry(settings, error, message):
    async with open_world() as world:
        with pytest.raises(error, match=message):
            async with handle_of(world).fresh_context(**settings):
                raise AssertionError("not entered")
        assert len(world.subscriptions.open) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": -1},
        {"debounce": -1},
        {"debounce": float("nan")},
        {"reads": "world.agents/bob"},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        StalenessOptions(**settings)


@in_virtual_time
async def test_options_can_be_reused_for_many_blocks():
    freshness = StalenessOptions(reads=iter(["lab.things/lamp"]))
    async with open_world() as world:
        for _ in range(2):
            async with handle_of(world).fresh_context(freshness) as context:
                assert context.footprint == frozenset({Ref(THINGS, "lamp")})


@in_virtual_time
async def test_a_removed_agent_cannot_view_or_enter():
    async with open_world() as world:
        alice = handle_of(world)
        await world.change_agent("alice", "removed")
        with pytest.raises(PermissionDeniedError):
            async with alice.fresh_context():
                raise AssertionError("not entered")


@in_virtual_time
async def test_a_thousand_blocks_need_no_tasks_and_are_indexed_by_ref():
    async with open_world(agents=("alice", "bob", "carol")) as world:
        alice = handle_of(world)
        blocks = [alice.fresh_context(reads=[f"{THINGS}/t{number}"]) for number in range(1000)]
        before = len(asyncio.all_tasks())
        for block in blocks:
            await block.__aenter__()
        assert len(asyncio.all_tasks()) == before
        told = 0
        judge = world.subscriptions._registry.hiding

        def counted(collection: str) -> Any:
            nonlocal told
            told += 1
            return judge(collection)

        world.subscriptions._registry = type("R", (), {"hiding": staticmethod(counted)})()
        with anyio.CancelScope(shield=True):
            await world.actor.post_batch([put("other"), put("else")], "operator")
        assert told == 0
        for block in reversed(blocks):
            await block.__aexit__(None, None, None)
        assert len(world.subscriptions.open) == 0
        assert not world.subscriptions._by_ref
