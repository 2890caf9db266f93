"""Views: an atomic cut of the state for one agent.

The state is copied once per seq, whoever asks first, and the copy is shared: its values are
immutable. What an agent may not see is left out of its own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from placet.kernel.domain import Domain, Ref
from placet.kernel.kernel import Kernel
from placet.schemas.codec import Json
from placet.schemas.limits import SECOND_NS
from placet.schemas.view import View

_Entities: TypeAlias = Mapping[str, Mapping[str, Json]]


class Viewer:
    """Makes views of one world."""

    def __init__(self, kernel: Kernel) -> None:
        domains = kernel.registry.domains
        self._hiding = [d for d in domains if type(d).may_see is not Domain.may_see]
        self._seq = -1
        self._cut: Mapping[str, _Entities] = {}

    def view(self, kernel: Kernel, agent_id: str) -> View:
        """Give what an agent may see now. O(state) once per seq."""
        if self._seq != kernel.seq:
            self._seq = kernel.seq
            self._cut = _copy(kernel)
        cut = self._cut
        if self._hiding:
            cut = {
                name: MappingProxyType(
                    {
                        entity: fields
                        for entity, fields in rows.items()
                        if self._may_see(kernel, agent_id, Ref(name, entity))
                    }
                )
                for name, rows in cut.items()
            }
        return View(kernel.seq, kernel.ledger.now_ns / SECOND_NS, agent_id, MappingProxyType(cut))

    def _may_see(self, kernel: Kernel, agent_id: str, ref: Ref) -> bool:
        prefix = ref.collection.partition(".")[0]
        return all(
            domain.may_see(kernel.tree, agent_id, ref)
            for domain in self._hiding
            if domain.name == prefix
        )


def _copy(kernel: Kernel) -> Mapping[str, _Entities]:
    return {
        name: MappingProxyType(
            {entity: MappingProxyType(dict(fields)) for entity, fields in rows.items()}
        )
        for name, rows in kernel.state.items()
    }
