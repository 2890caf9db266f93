"""The rules of a world: moves, speech and cooldowns, and their refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domains.world import SPEECH, World
from placet.schemas.identity import Ref
from tests.domains.world_driver import WorldDriver

FLAT = World(bounds=[[0, 0], [10, 10]])
coordinates = st.floats(-1e6, 1e6)


def test_a_move_is_unlimited_by_default():
    stage = WorldDriver()
    assert stage.propose("ann", "Move", to=[1e9, -5]).admitted
    assert stage.agent("ann")["position"] == (1e9, -5.0, 0.0)


def test_each_move_of_a_batch_is_measured_from_the_previous_one():
    stage = WorldDriver(World(max_step=1))
    steps = [stage.intent("ann", "Move", to=[x, 0]) for x in (1, 2, 3)]
    assert stage.kernel.decide(steps).admitted
    leap = [stage.intent("ann", "Move", to=[x, 0]) for x in (4, 6)]
    verdict = stage.kernel.decide(leap)
    assert [(r.index, r.code) for r in verdict.refusals] == [(1, "world.step_too_long")]
    assert stage.agent("ann")["position"] == (3.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("world", "to", "code"),
    [
        (FLAT, [0, 0], None),
        (FLAT, [10, 10], None),
        (FLAT, [10.000001, 10], "world.out_of_bounds"),
        (FLAT, [0, -0.1], "world.out_of_bounds"),
        (FLAT, [5, 5, 1], "world.out_of_bounds"),
        (World(bounds=[[0, 0, 0], [9, 9, 9]]), [5, 5, 9], None),
        (World(max_step=5), [3, 4], None),
        (World(max_step=5), [3, 4.001], "world.step_too_long"),
        (World(max_step=5), [0, 0, 5], None),
        (World(max_step=5), [1e300, 0], "world.step_too_long"),
        (World(bounds=[[0, 0], [10, 10]], max_step=5), [11, 0], "world.out_of_bounds"),
    ],
)
def test_a_move_beyond_the_bounds_or_step_is_refused(world, to, code):
    stage = WorldDriver(world)
    verdict = stage.propose("ann", "Move", to=to)
    assert verdict.codes == (() if code is None else (code,))
    if code is not None:
        assert verdict.refusals[0].at == "/intents/0/payload/to"
        assert stage.agent("ann")["position"] == (0.0, 0.0, 0.0)


def test_a_step_too_long_by_rounding_is_accepted():
    stage = WorldDriver(World(max_step=0.1), ann={"position": [0.2, 0]})
    assert 0.30000000000000004 - 0.2 > 0.1
    assert stage.propose("ann", "Move", to=[0.30000000000000004, 0]).admitted


@given(st.tuples(coordinates, coordinates, coordinates))
def test_the_nearest_point_in_a_refusal_is_accepted(to):
    stage = WorldDriver(World(bounds=[[-5, -5, 0], [5, 5, 2]]))
    verdict = stage.propose("ann", "Move", to=list(to))
    if not verdict.admitted:
        nearest = verdict.refusals[0].details["nearest"]
        assert stage.propose("ann", "Move", to=nearest).admitted


# cooldowns


def test_a_cooldown_ends_exactly_on_time():
    stage = WorldDriver(World(cooldowns={"Move": 0.3}))
    assert stage.propose("ann", "Move", to=[1, 0], now=1.0).admitted
    early = stage.propose("ann", "Move", to=[2, 0], now=1.0 + 0.299999999)
    assert early.codes == ("world.cooldown",)
    assert early.refusals[0].retry_after == 1e-9
    assert stage.propose("ann", "Move", to=[2, 0], now=1.3).admitted


@given(wait_ns=st.integers(1, 10**12), begun_ns=st.integers(0, 10**15), passed=st.floats(0, 1))
def test_retry_after_is_sufficient_and_exact_to_a_nanosecond(wait_ns, begun_ns, passed):
    stage = WorldDriver(World(cooldowns={"Speak": wait_ns / 1e9}))
    kernel = stage.kernel
    kernel.step(begun_ns / 1e9)
    assert stage.propose("ann", "Speak", text="a").admitted
    kernel.step(int(wait_ns * passed) / 1e9)
    verdict = stage.propose("ann", "Speak", text="b")
    if verdict.admitted:
        return
    left_ns = round(verdict.refusals[0].retry_after * 1e9)
    kernel.step((left_ns - 1) / 1e9)
    assert stage.propose("ann", "Speak", text="c").codes == ("world.cooldown",)
    kernel.step(1 / 1e9)
    assert stage.propose("ann", "Speak", text="d").admitted


@given(begun=st.floats(1e6, 4.6e9))
def test_a_float_of_now_and_retry_after_is_never_too_early(begun):
    stage = WorldDriver(World(cooldowns={"Speak": 10 / 3}))
    assert stage.propose("ann", "Speak", text="a", now=begun).admitted
    wait = stage.propose("ann", "Speak", text="b", now=begun).refusals[0].retry_after
    assert stage.propose("ann", "Speak", text="c", now=begun + wait).admitted


def test_a_cooldown_is_per_agent_and_kind():
    stage = WorldDriver(World(cooldowns={"Speak": 5, "Move": 0}))
    assert stage.propose("ann", "Speak", text="one").admitted
    assert stage.propose("ann", "Speak", text="two").codes == ("world.cooldown",)
    assert stage.propose("ann", "Move", to=[1, 1]).admitted
    assert stage.propose("ann", "Move", to=[2, 2]).admitted
    assert stage.propose("bob", "Speak", text="three").admitted


def test_a_refused_intent_starts_no_cooldown():
    stage = WorldDriver(World(cooldowns={"Move": 5}, bounds=[[0, 0], [9, 9]]))
    assert stage.propose("ann", "Move", to=[99, 0]).codes == ("world.out_of_bounds",)
    assert stage.propose("ann", "Move", to=[9, 0]).admitted


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("Interact", {"target_id": "bob"}), ("Custom", {"action": "wave"})],
)
def test_every_kind_can_have_a_cooldown(kind, payload):
    stage = WorldDriver(World(cooldowns={kind: 1}))
    assert stage.propose("ann", kind, **payload).admitted
    assert stage.propose("ann", kind, **payload).codes == ("world.cooldown",)


# speech


def said(stage, agent_id):
    return stage.kernel.state[SPEECH][agent_id]["said"]


def test_only_the_latest_utterance_of_a_speaker_is_in_the_state():
    stage = WorldDriver()
    for text in ("one", "two"):
        assert stage.propose("ann", "Speak", text=text).admitted
    assert said(stage, "ann") == {"text": "two", "channel": "public"}
    assert list(stage.kernel.state[SPEECH]) == ["ann"]


@pytest.mark.parametrize("channel", ["public", "private"])
def test_speaking_to_an_unknown_agent_is_refused(channel):
    verdict = WorldDriver().propose("ann", "Speak", text="hi", channel=channel, target_id="zoe")
    assert verdict.codes == ("world.target_unknown",)
    assert verdict.refusals[0].at == "/intents/0/payload/target_id"


def test_speaking_to_a_team_without_one_passes_with_a_warning():
    verdict = WorldDriver().propose("ann", "Speak", text="hi", channel="team")
    assert verdict.admitted
    assert [notice.code for notice in verdict.results[0].warnings] == ["team_missing"]


@pytest.mark.parametrize(
    ("words", "hearers"),
    [
        ({}, ["ann", "bob", "eve"]),
        ({"target_id": "bob"}, ["ann", "bob", "eve"]),
        ({"channel": "team"}, ["ann", "bob"]),
        ({"channel": "private", "target_id": "eve"}, ["ann", "eve"]),
    ],
)
def test_an_utterance_is_visible_to_its_recipients_only(words, hearers):
    world = World(teams=["red", "blue"])
    stage = WorldDriver(world, ann={"team": "red"}, bob={"team": "red"}, eve={"team": "blue"})
    assert stage.propose("ann", "Speak", text="psst", **words).admitted
    ref = Ref(SPEECH, "ann")
    see = [a for a in ("ann", "bob", "eve") if world.may_see(stage.kernel.tree, a, ref)]
    assert see == hearers


def test_a_team_utterance_without_a_team_is_visible_to_its_speaker_only():
    world = World()
    stage = WorldDriver(world)
    stage.propose("ann", "Speak", text="psst", channel="team")
    ref = Ref(SPEECH, "ann")
    assert not world.may_see(stage.kernel.tree, "bob", ref)
    assert world.may_see(stage.kernel.tree, "ann", ref)


def test_everything_except_speech_is_visible_to_all():
    world = World()
    stage = WorldDriver(world)
    refs = [Ref("world.agents", "bob"), Ref("world.objects"), Ref(SPEECH)]
    assert all(world.may_see(stage.kernel.tree, "ann", ref) for ref in refs)


def test_a_missing_utterance_is_hidden_from_all_but_its_speaker():
    """It may have been said to another agent and deleted."""
    world = World()
    stage = WorldDriver(world)
    assert not world.may_see(stage.kernel.tree, "ann", Ref(SPEECH, "bob"))
    assert world.may_see(stage.kernel.tree, "ann", Ref(SPEECH, "ann"))


# the rest


def test_a_custom_intent_passes_and_changes_nothing():
    stage = WorldDriver()
    before = stage.kernel.digest()
    verdict = stage.propose("ann", "Custom", action="attack", damage=10)
    assert verdict.admitted
    assert stage.kernel.digest() == before


def test_a_move_is_stale_after_another_changed_its_agent():
    stage = WorldDriver(World(), ann={"inventory": ["lamp"]})
    seen = stage.kernel.seq
    assert stage.interact("ann", "give", "bob", object_id="lamp").admitted
    verdict = stage.propose("bob", "Move", to=[1, 1], context_seq=seen)
    assert verdict.codes == ("stale_context",)
    assert [change["by"] for change in verdict.refusals[0].changed] == ["ann"]
    assert stage.propose("ann", "Move", to=[1, 1], context_seq=seen).admitted
