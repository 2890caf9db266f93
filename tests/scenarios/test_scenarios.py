"""Loading scenarios, overriding them on the command line, and the bundled scenario `town`."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet.scenarios import (
    ScenarioError,
    bundled,
    load,
    make_policy,
    open_domain,
)
from placet.schemas.intent import new_intent
from placet.schemas.view import View

SMALL = """
ticks = 3

[settings]
bounds = [[0, 0], [10, 10]]

[agents.folk]
count = 2
policy = "townsfolk"
area = [[1, 1], [9, 9]]

[agents.child]
count = 1
policy = "child"

[objects.apple]
count = 2
area = [[0, 0], [10, 10]]
fields = { price = 1 }
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


class Hand:
    """Makes intents of one agent, as its handle would."""

    def __init__(self, agent_id):
        self.agent_id, self.made, self.view_seq = agent_id, 0, 0

    def __call__(self, kind, payload=None, /, **fields):
        self.made += 1
        req_id = f"{self.agent_id}:{self.made}"
        return new_intent(kind, {**(payload or {}), **fields}, self.agent_id, req_id, self.view_seq)


def live(scenario):
    """Run a scenario on a bare kernel; count kinds admitted, and codes refused."""
    config = KernelConfig(seed=scenario.seed, quotas=scenario.quotas)
    kernel = Kernel(open_domain(scenario, World), config)
    people = []
    for member in scenario.members():
        kernel.register_agent(member.agent_id, permissions=member.permissions, **member.attributes)
        hand = Hand(member.agent_id)
        people.append((hand, make_policy(member, scenario, hand)))
    counts: Counter[str] = Counter()
    for _ in range(scenario.ticks):
        batches = []
        for hand, policy in people:
            hand.view_seq = kernel.seq
            view = View(kernel.seq, kernel.sim_time, hand.agent_id, kernel.state)
            batches += [batch] if (batch := list(policy.propose(view))) else []
        for batch, verdict in zip(batches, kernel.step(scenario.tick_s, batches), strict=True):
            counts.update(f"{refusal.stage}/{refusal.code}" for refusal in verdict.refusals)
            counts.update(
                str(intent["payload"].get("interaction_type", intent["kind"]))
                for intent in (batch if verdict.admitted else ())
            )
    return kernel.digest(), counts


# town


def test_town_has_200_agents_and_300_ticks():
    town = load("town")
    assert (town.name, town.agents_count, town.ticks) == ("town", 200, 300)
    assert len({member.agent_id for member in town.members()}) == 200


def test_town_has_moves_speech_and_trade_and_many_refusal_codes():
    _, counts = live(replace(load("town"), ticks=60))
    for done in ("Move", "Speak", "pickup", "give", "drop", "use"):
        assert counts[done] > 0, done
    for code in (
        "domain/conflict",
        "domain/world.cooldown",
        "domain/world.out_of_bounds",
        "quota/quota_exceeded",
        "staleness/stale_context",
    ):
        assert counts[code] > 0, code
    unsound = [name for name in counts if name.startswith(("structure/", "agent/", "dedup/"))]
    assert unsound == []


def test_the_town_depends_on_the_seed():
    digests = [live(replace(load("town"), ticks=10, seed=seed))[0] for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.slow
def test_a_run_does_not_depend_on_the_hash_seed():
    program = (
        "from tests.scenarios.test_scenarios import live, load\n"
        "print(live(load('town', overrides=['ticks=5']))[0])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(outputs) == 1


def test_policies_of_removed_agents_propose_nothing():
    town = load("town", overrides=["agents.folk.count=1"])
    view = View(0, 0.0, "nobody", {})
    for member in town.members():
        assert list(make_policy(member, town, Hand(member.agent_id)).propose(view)) == []


def test_a_town_with_one_agent_and_no_objects_runs():
    overrides = ["agents.merchant.count=0", "agents.child.count=1", "agents.crier.count=0"]
    overrides += ["agents.folk.count=1", "objects.apple.count=0", "objects.lamp.count=0"]
    overrides += ["objects.well.count=0", "ticks=30"]
    _, counts = live(load("town", overrides=overrides))
    assert counts["Move"] > 0


# what a scenario says


def test_a_scenario_file_names_the_scenario(small):
    scenario = load(small)
    assert (scenario.name, scenario.domain, scenario.seed) == ("small", "world", 0)
    members = list(scenario.members())
    assert [member.agent_id for member in members] == ["folk_1", "folk_2", "child_1"]
    assert "position" not in members[2].attributes


def test_places_are_drawn_within_their_area_by_name(small):
    scenario = load(small)
    more = scenario.with_agents(6)
    places = {m.agent_id: m.attributes.get("position") for m in scenario.members()}
    assert all(1 <= n <= 9 for place in places.values() if place for n in place)
    assert places["folk_1"] != places["folk_2"]
    assert (
        places.items() <= {m.agent_id: m.attributes.get("position") for m in more.members()}.items()
    )


def test_objects_become_a_setting_of_the_domain(small):
    settings = load(small).domain_settings()
    assert settings["bounds"] == [[0, 0], [10, 10]]
    assert sorted(settings["objects"]) == ["apple_1", "apple_2"]
    assert settings["objects"]["apple_1"]["price"] == 1
    assert settings["objects"]["apple_1"]["sort"] == "apple"


def test_a_scenario_without_objects_gives_its_domain_none(small):
    assert "objects" not in replace(load(small), objects={}).domain_settings()


@pytest.mark.parametrize("count", [0, 1, 2, 4, 7, 100])
def test_agents_are_divided_in_proportion(small, count):
    scenario = load(small).with_agents(count)
    assert scenario.agents_count == count
    folk, child = (cohort.count for cohort in scenario.agents.values())
    assert abs(folk - 2 * child) <= 2


def test_empty_groups_get_equal_shares(small):
    empty = load(small).with_agents(0)
    assert [cohort.count for cohort in empty.with_agents(7).agents.values()] == [4, 3]


@pytest.mark.parametrize("count", [-1, 1.5, 10**12])
def test_a_number_of_agents_out_of_bounds_is_refused(small, count):
    with pytest.raises(ScenarioError, match=f"expected 0 to 1000000 agents, got {count}"):
        load(small).with_agents(count)


def test_agents_without_a_group_are_refused(small):
    nobody = replace(load(small), agents={})
    assert nobody.with_agents(0) == nobody
    with pytest.raises(ScenarioError, match="there is no cohort for 3 agents"):
        nobody.with_agents(3)


def test_permissions_of_a_group_are_those_of_its_members(small):
    override = 'agents.child.permissions=["Move"]'
    *_, child = load(small, overrides=[override]).members()
    assert child.permissions == frozenset({"Move"})


# overrides


@pytest.mark.parametrize(
    ("override", "read", "expected"),
    [
        ("seed=7", lambda s: s.seed, 7),
        ("tick_s=0.5", lambda s: s.tick_s, 0.5),
        ("agents.folk.count=20", lambda s: s.agents["folk"].count, 20),
        ("agents.folk.policy=child", lambda s: s.agents["folk"].policy, "child"),
        ("settings.max_step=2.5", lambda s: s.settings["max_step"], 2.5),
        ("settings.cooldowns.Move = 1", lambda s: s.settings["cooldowns"], {"Move": 1}),
        ("settings.bounds=[[0,0],[5,5]]", lambda s: s.settings["bounds"], [[0, 0], [5, 5]]),
        ("settings.mood=calm", lambda s: s.settings["mood"], "calm"),
        ("quotas.Speak={rate=1,burst=2}", lambda s: s.quotas["Speak"]["burst"], 2),
        ("staleness_threshold=0", lambda s: s.staleness_threshold, 0),
    ],
)
def test_an_override_sets_a_typed_value(small, override, read, expected):
    assert read(load(small, overrides=[override])) == expected


def test_an_override_of_text_stays_text(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('title = "one"\n' + SMALL)
    assert load(path, overrides=["title=5"]).title == "5"
    assert load(path, overrides=['title="a b"']).title == "a b"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "expected key=value"),
        ("=5", "expected key=value"),
        ("agents..count=5", "expected key=value"),
        ("sed=5", "no key 'sed'; did you mean 'seed'"),
        ("agents.flok.count=5", "no entry 'flok' in agents; did you mean 'folk'"),
        ("objects.pear.count=5", "no entry 'pear' in objects; there are apple"),
        ("agents=5", "no entry '' in agents; there are folk, child"),
        ("seed.low=5", "'seed' is a value and holds no keys"),
        ("seed=-1", "seed: input should be greater than or equal to 0, got -1"),
        ("title=5", "title: input should be a valid string, got 5"),
        ("seed=many", "seed: input should be a valid integer, got 'many'"),
        ("ticks=1.5", "ticks: input should be a valid integer, got 1.5"),
        ("tick_s=0", "tick_s: input should be greater than 0, got 0"),
        ("tick_s=1e-10", "tick_s: must be 1e-09 s at least"),
        ("tick_s=1e300", r"all 3 ticks 4\.6e\+09 s at most, got 1e\+300"),
        ("agents.folk.count=true", "agents.folk.count: input should be a valid integer, got True"),
        ("agents.folk.cuont=1", "agents.folk.cuont: there is no such key; did you mean 'count'"),
        ("agents.folk.policy=tonwsfolk", "agents.folk.policy: .* did you mean 'townsfolk'"),
        ("agents.folk.policy=zzz", "agents.folk.policy: .* there are townsfolk"),
        ("agents.folk.policy=no_such:Thing", "agents.folk.policy: .* cannot be imported"),
        ("agents.folk.policy=json:Thing", "agents.folk.policy: .* has no callable 'Thing'"),
        ("agents.folk.area=[[5,5],[1,1]]", r"agents.folk.area: must be two corners"),
        ("objects.apple.area=[[1,1],[5,5,5]]", r"objects.apple.area: must be two corners"),
        (
            "settings.objects={lamp={position=[0,0]}}",
            "settings.objects: 'objects' sets the same value",
        ),
        (
            "agents.folk.attributes.position=[1,1]",
            "position: 'agents.folk.area' sets the same value",
        ),
        (
            "objects.apple.fields.position=[1,1]",
            "position: 'objects.apple.area' sets the same value",
        ),
        ("agents.folk.options.since=1979-05-27", "agents.folk.options: .*JSON has no date"),
        ("agents.folk.options.speed=nan", "agents.folk.options: .*must be finite, got nan"),
        ("agents.folk.attributes.at=07:32:00", "agents.folk.attributes: .*JSON has no time"),
        ("objects.apple.fields.mass=inf", "objects.apple.fields: .*must be finite, got inf"),
        ("settings.max_step=nan", "settings: .*must be finite, got nan"),
        ("quotas.Speak={rate=0,burst=2}", "quotas.Speak: .*rate must be > 0"),
    ],
)
def test_an_invalid_override_is_reported_with_the_reason(small, override, message):
    overrides = ["seed=1", override] if override == "seed.low=5" else [override]
    with pytest.raises(ScenarioError, match=message):
        load(small, overrides=overrides)


def test_an_override_inside_a_value_is_refused(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("ticks = 1\nagents = 5\n")
    with pytest.raises(ScenarioError, match="there is no entry 'folk' in agents"):
        load(path, overrides=["agents.folk.count=1"])


# errors of files


def test_an_unknown_scenario_lists_the_bundled_ones():
    names = "flock market planners rush segregation shepherd sir town wealth"
    assert bundled() == tuple(names.split())
    with pytest.raises(
        ScenarioError,
        match=r"no bundled scenario \(flock, market, .*, town, wealth\).*; did you mean 'town'",
    ):
        load("twon")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ticks = ", "this is not TOML"),
        ("ticks = 3", "agents: is missing; add it to the file, or populations"),
        ("tikcs = 3\n[agents]", "tikcs: there is no such key; did you mean 'ticks'"),
        ("ticks = 3\n[agents.folk]\ncount = 1", "agents.folk.policy: is missing"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_a_file_that_is_not_a_scenario_is_reported_with_the_reason(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioError, match=message) as failure:
        load(path)
    assert failure.value.source == str(path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("settings.bonds=1", "settings.bonds: .*no such setting; did you mean 'bounds'"),
        ("settings.zzz=1", "settings.zzz: .*no such setting; there are objects"),
        ("settings.max_step=-1", "settings: max_step must be a number above 0"),
    ],
)
def test_an_unknown_domain_setting_is_named(small, override, message):
    with pytest.raises(ScenarioError, match=message):
        open_domain(load(small, overrides=[override]), World)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("agents.folk.options.merhcants=x", "no such option; there are merchants"),
        ("agents.folk.options.popular=1.5", "popular: must be of type int, got 1.5"),
        ("agents.folk.options.talkative=often", "talkative: must be of type float, got 'often'"),
        ("agents.child.options.mood=x", "no such option; there are none"),
    ],
)
def test_an_unknown_policy_option_is_named(small, override, message):
    scenario = load(small, overrides=[override])
    cohort = override.split(".")[1]
    member = next(member for member in scenario.members() if member.cohort == cohort)
    with pytest.raises(ScenarioError, match=message):
        make_policy(member, scenario, Hand(member.agent_id))


def test_a_custom_policy_is_found_by_module_and_name(small, tmp_path, monkeypatch):
    (tmp_path / "my_policies.py").write_text(
        "class Sit:\n"
        "    def __init__(self, member, scenario, intent):\n"
        "        self.name = member.agent_id\n"
        "    def propose(self, view):\n"
        "        return []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    scenario = load(small, overrides=["agents.folk.policy=my_policies:Sit"])
    member = next(scenario.members())
    policy = make_policy(member, scenario, Hand(member.agent_id))
    assert list(policy.propose(View(0, 0.0, "folk_1", {}))) == []
