"""Agents, executors and time: each change is a record, and an invalid change is an error."""

import pytest

from placet.kernel import Kernel, KernelConfig
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import resume, take, world_digest
from placet.schemas.errors import AgentError, OwnerError
from placet.schemas.limits import Limits
from placet.schemas.log.record import Checkpoint, Configured, Header, Registered, decode_record
from tests.kernel.builders import add, intent, kernel_of, reused, trace
from tests.kernel.domains import COUNTS, THINGS, Lab


@pytest.mark.parametrize(
    "name", ["", "a\n", "\x00", "a" * 129, "\ud800", 7, None, "system", "operator"]
)
def test_an_agent_name_must_be_an_identity_and_not_reserved(name):
    kernel, _ = reused()
    before = trace(kernel)
    with pytest.raises(AgentError, match="an agent_id must "):
        kernel.register_agent(name)
    assert trace(kernel) == before


@pytest.mark.parametrize(
    "character", list("\u061c\u200b\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff")
)
def test_a_new_agent_name_may_not_reorder_or_hide_text(character):
    kernel, _ = reused()
    before = trace(kernel)
    with pytest.raises(AgentError, match="bidirectional") as caught:
        kernel.register_agent(f"a{character}b")
    assert str(caught.value).isascii()
    assert trace(kernel) == before


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"priority_max": 101}, "priority_max must be an int in 0..100"),
        ({"priority_max": True}, "priority_max must be an int in 0..100"),
        ({"owner": "a\n"}, "an owner must have no control"),
        ({"permissions": "Add"}, "permissions must be a set of kinds or None"),
        ({"permissions": [7]}, "permissions must be a set of kinds or None"),
        ({"quotas": {"Add": {"rate": 0, "burst": 1}}}, "rate must be > 0"),
    ],
)
def test_an_invalid_registration_changes_nothing(settings, why):
    kernel, _ = reused()
    before = trace(kernel)
    with pytest.raises((ValueError, AgentError), match=why):
        kernel.register_agent("carol", **settings)
    assert trace(kernel) == before


def test_the_number_of_agents_is_bounded():
    kernel, _ = reused(limits={"agents_max": 3})
    kernel.register_agent("carol")
    with pytest.raises(
        AgentError, match="3 agents are registered, which is the limit `agents_max`"
    ):
        kernel.register_agent("dora")
    kernel.change_agent("carol", "removed")
    kernel.register_agent("dora")


def test_registering_again_changes_only_given_permissions():
    kernel, log = reused()
    before, length = trace(kernel), len(log)
    assert kernel.register_agent("alice", count=9) is kernel.ledger.agents["alice"]
    assert (trace(kernel), len(log)) == (before, length)
    kernel.register_agent("alice", permissions=["Add"])
    assert kernel.ledger.agents["alice"].permissions == frozenset({"Add"})
    kernel.register_agent("alice", permissions={"Add"})
    assert len(log) == length + 1


def test_another_owner_of_a_registered_agent_is_refused():
    kernel, log = reused()
    kernel.register_agent("carol", owner="bob")
    length = len(log)
    kernel.register_agent("carol", owner="bob")
    for owner in ("alice", "carol"):
        with pytest.raises(OwnerError, match="'carol' is registered, and its owner is 'bob', not"):
            kernel.register_agent("carol", owner=owner, permissions={"Add"})
    assert (len(log), kernel.ledger.agents["carol"].permissions) == (length, None)


def test_domains_initialize_an_agent_and_its_name_has_a_new_generation_each_time():
    kernel, _ = reused()
    assert kernel.register_agent("carol", count=5).generation == 1
    assert kernel.state[COUNTS]["carol"]["count"] == 5
    kernel.change_agent("carol", "removed")
    assert "carol" not in kernel.state[COUNTS]
    assert kernel.register_agent("carol").generation == 2


def incarnation_of(kernel: Kernel, agent_id: str) -> int:
    """Register and remove an agent; return its generation."""
    generation = kernel.register_agent(agent_id).generation
    kernel.change_agent(agent_id, "removed")
    return generation


def test_the_agents_of_an_owner_are_counted_also_after_a_restore():
    """One's own agent does not count, so that the agents of most worlds need no entry."""
    kernel = kernel_of(agents=("alice",))
    kernel.register_agent("carol", owner="alice")
    for agent_id in ("dave", "eve"):
        kernel.register_agent(agent_id, owner="team")
    kernel.restore(kernel.snapshot())
    for removed, owned in (
        ("alice", {"alice": 1, "team": 2}),
        ("dave", {"alice": 1, "team": 1}),
        ("carol", {"team": 1}),
        ("eve", {}),
    ):
        kernel.change_agent(removed, "removed")
        assert kernel.ledger.owned == owned


def test_removed_names_are_bounded_and_no_generation_is_reused():
    log: list[bytes] = []
    kernel = kernel_of(agents=(), sink=log, limits={"removed_agents_max": 3})
    assert [incarnation_of(kernel, "carol") for _ in range(4)] == [1, 2, 3, 4]
    stay = [f"stays_{number}" for number in range(5)]
    assert {kernel.register_agent(agent_id).generation for agent_id in stay} == {1}
    given = {("carol", number) for number in range(1, 5)} | {(agent_id, 1) for agent_id in stay}
    for _ in range(5):
        for agent_id in ("eve", "carol", "finn", "gail"):
            generation = incarnation_of(kernel, agent_id)
            assert (agent_id, generation) not in given
            given.add((agent_id, generation))
            assert len(kernel.ledger.gone) <= 3
    floor = kernel.ledger.generation_floor
    for agent_id in stay:  # of low incarnations, which are forgotten last
        kernel.change_agent(agent_id, "removed")
    assert kernel.ledger.generation_floor == floor
    for agent_id in ("carol", *stay):
        assert (agent_id, incarnation_of(kernel, agent_id)) not in given
    past = folded(log)
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()
    again = resume(take(past))
    assert world_digest(again.state, again.ledger).hex() == kernel.world_digest()
    floor = kernel.ledger.generation_floor
    for one in (kernel, Kernel(Lab(), kernel.config, history=again)):
        assert incarnation_of(one, "new") == floor + 1 > 5


@pytest.mark.parametrize(("limits", "recorded"), [({}, None), ({"removed_agents_max": 3}, 3)])
def test_a_limit_newer_than_the_format_is_recorded_only_if_it_is_set(limits, recorded):
    log: list[bytes] = []
    kernel = kernel_of(sink=log, limits=limits)
    (configured,) = [r for r in map(decode_record, log) if isinstance(r, Configured)]
    assert configured.limits.get("removed_agents_max") == recorded
    assert folded(log).ledger.policy.limits == kernel.config.limits


def test_default_permissions_apply_if_none_are_given():
    kernel = kernel_of(default_permissions=frozenset({"Add"}))
    kernel.register_agent("carol", permissions=["Look"])
    assert kernel.ledger.agents["alice"].permissions == frozenset({"Add"})
    assert kernel.ledger.agents["carol"].permissions == frozenset({"Look"})


def test_only_the_agent_its_owner_and_the_operator_submit_for_it():
    kernel, _ = reused()
    kernel.register_agent("carol", owner="bob")
    said = {
        submitter: kernel.decide(add(submitter, agent_id="carol"), submitter=submitter).codes
        for submitter in ("operator", "carol", "bob", "alice")
    }
    assert said == {"operator": (), "carol": (), "bob": (), "alice": ("agent_not_yours",)}


def test_a_suspended_agent_may_do_nothing_until_it_is_resumed():
    kernel, _ = reused()
    kernel.change_agent("alice", "suspended")
    assert kernel.decide(add("a")).codes == ("agent_suspended",)
    kernel.change_agent("alice", "resumed")
    assert kernel.decide(add("a")).admitted


def test_changing_an_unknown_agent_or_to_an_unknown_status_is_an_error():
    kernel, _ = reused()
    before = trace(kernel)
    with pytest.raises(AgentError, match="agent 'nobody' is not registered; nothing was changed"):
        kernel.change_agent("nobody", "suspended")
    with pytest.raises(AgentError, match="agent 'nobody' is not registered"):
        kernel.set_agent_permissions("nobody", None)
    with pytest.raises(
        ValueError, match="change must be suspended, resumed or removed, got 'shot'"
    ):
        kernel.change_agent("alice", "shot")
    assert trace(kernel) == before


def test_an_executor_is_registered_changed_and_removed():
    kernel, log = reused()
    length = len(log)
    kernel.change_executor("fax", 5)
    kernel.change_executor("fax", 5)
    assert len(log) == length + 1
    kernel.change_executor("fax", 6)
    assert kernel.ledger.executors == {"mail": 1000, "fax": 6}
    kernel.change_executor("fax", None)
    kernel.change_executor("fax", None)
    assert folded(log).ledger.executors == {"mail": 1000}
    for kind, depth_max, why in [
        ("", 1, "an effect kind must be 1 to 128 characters"),
        (7, 1, "an effect kind must be 1 to 128 characters"),
        ("fax", 0, "depth_max must be an int >= 1 or None"),
        ("fax", True, "depth_max must be an int >= 1 or None"),
    ]:
        with pytest.raises(ValueError, match=why):
            kernel.change_executor(kind, depth_max)  # type: ignore[arg-type]


# Time


@pytest.mark.parametrize("now", [float("nan"), float("inf"), -float("inf"), 1e300, 4.7e9])
def test_an_invalid_time_is_an_error(now):
    kernel, _ = reused()
    before = trace(kernel)
    for act in (lambda: kernel.decide(add("a"), now), lambda: kernel.tick(now)):
        with pytest.raises(ValueError, match="now must be seconds below"):
            act()
    assert trace(kernel) == before


@pytest.mark.parametrize("dt", [-1, float("nan"), float("inf"), 1e300])
def test_an_invalid_step_is_an_error(dt):
    with pytest.raises(ValueError, match="dt must be a finite number of seconds >= 0"):
        reused()[0].step(dt)


def test_simulated_time_has_an_end():
    kernel, _ = reused()
    kernel.step(4.6e9)
    with pytest.raises(ValueError, match="simulated time ends at"):
        kernel.step(4.6e9)
    assert kernel.decide(add("a")).admitted


def test_time_never_goes_back():
    kernel, _ = reused()
    kernel.tick(5.0)
    kernel.tick(3.0)
    assert kernel.sim_time == 5.0
    assert kernel.decide(add("a"), 1.0).sim_time == 5.0
    assert kernel.decide(add("b")).sim_time == 5.0


def test_a_thousand_small_steps_equal_one_large_step():
    kernel, _ = reused()
    for _ in range(1000):
        kernel.step(0.001)
    assert kernel.sim_time == 1.0
    assert kernel.state[COUNTS]["clock"]["time"] == 1.0


# The log's beginning, and its checkpoints


def test_a_log_begins_with_a_header_and_a_policy():
    log: list[bytes] = []
    config = KernelConfig(world="town", seed=7, staleness_threshold=3)
    kernel = Kernel(Lab(things=("a",)), config, sink=log.append)
    header, policy = map(decode_record, log)
    assert isinstance(header, Header)
    assert (header.world, header.seed, header.domains, header.seq) == ("town", 7, [("lab", "1")], 0)
    assert header.fingerprint == kernel.registry.fingerprint
    assert [(c.collection, c.entity, c.seq) for c in header.changes.entities] == [(THINGS, "a", 0)]
    assert isinstance(policy, Configured)
    assert (policy.seq, policy.staleness_threshold) == (1, 3)
    assert policy.limits["agents_max"] == Limits().agents_max
    assert kernel.history_end == (0, 0)


def test_a_checkpoint_is_recorded_every_few_groups():
    kernel, log = reused(limits={"checkpoint_groups": 3})
    for number in range(7):
        kernel.decide(add(f"r{number}"))
        kernel.decide([])
    digests = [r.state_digest for r in map(decode_record, log) if isinstance(r, Checkpoint)]
    assert len(digests) == 2
    assert folded(log).state.digest().hex() == kernel.digest()


def test_a_kernel_without_a_sink_keeps_the_chain():
    log: list[bytes] = []
    silent, heard = kernel_of(), kernel_of(sink=log)
    for kernel in (silent, heard):
        kernel.decide(add("a"))
    assert silent.snapshot() == heard.snapshot()
    assert isinstance(decode_record(log[-2]), Registered)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"seed": -1}, "seed must be an int"),
        ({"seed": 2**64}, "seed must be an int"),
        ({"seed": True}, "seed must be an int"),
        ({"seed": "1"}, "seed must be an int"),
        ({"staleness_threshold": -1}, "staleness_threshold must be None or an int >= 0"),
        ({"staleness_threshold": 1.5}, "staleness_threshold must be None or an int >= 0"),
        ({"world": ""}, "world must be 1 to 128 characters"),
        ({"world": 7}, "world must be 1 to 128 characters"),
        ({"default_permissions": "Move"}, "permissions must be a set of kinds or None"),
        ({"default_permissions": {7}}, "permissions must be a set of kinds or None"),
    ],
)
def test_an_invalid_configuration_is_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        KernelConfig(**settings)


def test_the_state_is_read_only_and_omits_empty_collections():
    kernel, _ = reused()
    assert set(kernel.state) == {COUNTS}
    assert len(kernel.state) == 1
    assert list(kernel.state[COUNTS]) == ["alice", "bob"]
    assert len(kernel.state[COUNTS]) == 2
    assert kernel.decide(intent("Fail", {"how": "raise"})).codes == ("rule_error",)
    assert THINGS not in kernel.state  # where an undone batch had made something
    assert kernel.tree.entity(COUNTS, "alice") == {"count": 0}
    assert kernel.tree.entity(COUNTS, "nobody") is None
    assert kernel.tree.entity("nothing", "nobody") is None
    assert (kernel.tree.count(COUNTS), kernel.tree.count("nothing")) == (2, 0)
    assert list(kernel.tree.ids("nothing")) == []
    assert kernel.tree.get("nothing", "a", "b", 7) == 7
    assert not kernel.tree.exists("nothing", "a")
    assert kernel.tree.as_dict() == {COUNTS: {"alice": {"count": 0}, "bob": {"count": 0}}}


def test_the_repr_of_a_kernel_shows_its_world_and_seq():
    kernel = kernel_of()
    kernel.tick(2.5)
    assert repr(kernel) == (
        f"<Kernel 'world' of {kernel.registry.domains[0].name}: seq {kernel.seq}, 2.5 s, "
        f"{len(kernel.ledger.agents)} agents, {kernel.record_count} records>"
    )
