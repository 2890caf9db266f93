"""Who may see what. All is open, but for what is said to a team or to one agent."""

from placet.domains.world.vocabulary import AGENTS, SPEECH
from placet.kernel.domain import Ref
from placet.kernel.state import State


def may_see(state: State, agent_id: str, ref: Ref) -> bool:
    """Tell whether an agent may see an entity."""
    if ref.collection != SPEECH or ref.entity is None or ref.entity == agent_id:
        return True
    said = state.get(SPEECH, ref.entity, "said")
    if said is None or said["channel"] == "public":
        return True
    if said["channel"] == "private":
        return bool(said["target_id"] == agent_id)
    team = state.get(AGENTS, agent_id, "team")
    return team is not None and bool(said["team"] == team)
