"""placet: agents propose batches of intents, one gate decides, and every decision has a reason."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.plugin.domain import Domain, Kind
from placet.kernel.state.tree import WorldState
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.batch import Batch
from placet.schemas.config import Leases
from placet.schemas.errors import (
    AgentError,
    BackpressureError,
    ClosedError,
    DuplicateRequestError,
    IntentError,
    PermissionDeniedError,
    PlacetError,
    QuotaExceededError,
    StaleContextError,
    StoreError,
    ValidationError,
)
from placet.schemas.intent import Intent
from placet.schemas.limits import Limits
from placet.schemas.refusal import Refusal, RefusalCode
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

if TYPE_CHECKING:
    from placet.lab.log import Log
    from placet.runtime.inbox import Inbox
    from placet.scenarios.simulation import Simulation
    from placet.server.player_page import play

    __version__: str

__all__ = [
    "AgentError",
    "AgentHandle",
    "BackpressureError",
    "Batch",
    "ClosedError",
    "Domain",
    "DuplicateRequestError",
    "EffectValidator",
    "Inbox",
    "Intent",
    "IntentError",
    "Kind",
    "Leases",
    "Limits",
    "Log",
    "Orchestrator",
    "OrchestratorConfig",
    "PermissionDeniedError",
    "PlacetError",
    "QuotaExceededError",
    "Refusal",
    "RefusalCode",
    "Simulation",
    "StaleContextError",
    "StoreError",
    "ValidationError",
    "Verdict",
    "View",
    "WorldState",
    "__version__",
    "play",
]


_LAZY = {
    "Inbox": "placet.runtime.inbox",
    "Log": "placet.lab.log",
    "Simulation": "placet.scenarios.simulation",
    "play": "placet.server.player_page",
}
"""Names that few programs need, with the module of each: it is imported when the name is read."""


def __getattr__(name: str) -> Any:  # noqa: ANN401  # a class, a function or a text
    if name == "__version__":  # read when it is asked for: importlib.metadata takes 15 ms
        return import_module("importlib.metadata").version("placet")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
