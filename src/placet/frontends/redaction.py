"""Redacts a turn for its own agent: a diff shows the whole state, and is made for people."""

from placet.agents.proposal.turn_result import Change, Turn
from placet.agents.session.session import Session
from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.identity import Ref


async def visible_turn(turn: Turn, session: Session) -> Turn:
    """Leave out of the diff of a turn what its agent may not see.

    Raises:
        ClosedError, StoreError: The world is closed, or has failed.
    """

    def seen(kernel: Kernel) -> tuple[Change, ...]:
        return tuple(change for change in turn.diff if _may_see(kernel, turn.agent, change))

    world = session.world
    assert isinstance(world, Orchestrator), "doors stand before a world that runs here"
    return turn.model_copy(update={"diff": await world.query(seen)}) if turn.diff else turn


def _may_see(kernel: Kernel, agent_id: str, change: Change) -> bool:
    collection, _, rest = change.path.partition("/")  # the id of an entity may hold a slash
    entity, _, field = rest.rpartition("/")
    ref, tree, registry = Ref(collection, entity or rest), kernel.tree, kernel.registry
    is_whole = change.old is None and change.new is None  # perhaps an entity without fields
    if is_whole and not registry.may_see(tree, agent_id, Ref(collection, rest)):
        return False
    return registry.may_see(tree, agent_id, ref) and field not in registry.hidden_fields(
        tree, agent_id, ref
    )
