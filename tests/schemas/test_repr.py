"""The reprs of a view, an observation, a state, a refusal and a batch."""

from placet.kernel.state.tree import State, WorldState
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import Refusal, Stage
from placet.schemas.view import Observation, View


def test_a_view_shows_its_agent_seq_and_size():
    view = View(7, 1.0, "ann", {"a.b": {"x": {}, "y": {}}})
    assert repr(view) == "<View of ann at seq 7, 2 entities>"


def test_an_observation_shows_its_kind_agent_seq_and_size():
    observation = Observation(7, 1.0, "ann", "delta", ())
    assert repr(observation) == "<Observation delta for ann at seq 7, 0 changes, 0 events>"


def test_a_world_state_shows_the_size_of_each_collection():
    assert repr(WorldState(State(1))) == "<WorldState of no entities>"
    state = State.load([0, ["a.b", [0, "", 0], [["x", {}, 1, "ann", 0]], []]])
    assert repr(WorldState(state)) == "<WorldState of a.b: 1>"


def test_a_refusal_shows_its_code_stage_and_place():
    refusal = Refusal("shed", "too much", Stage.ADMISSION)
    assert repr(refusal) == "<Refusal shed at admission of batch: too much>"
    assert "of intent 3: no" in repr(Refusal("a.b", "no", index=3))


def test_a_batch_shows_its_name_and_submitter():
    batch = CheckedBatch()
    assert repr(batch) == "<CheckedBatch ? by ?>"
    batch.batch_id, batch.submitter = "b1", "ann"
    assert repr(batch) == "<CheckedBatch b1 by ann>"
