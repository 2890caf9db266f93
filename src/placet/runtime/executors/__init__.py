"""Public names for effect handlers, and the executors that run them.

An async function runs in the event loop, a plain function in a thread, `InProcess(function)` in a
separate process. `DbosWorkflow(workflow)` runs a workflow of several steps, which DBOS resumes
after a crash. In a fork a handler is passed as `SimulatedHandler` or `LiveHandler`.
"""

from placet.actors.effects.outcomes import EffectOutcome
from placet.runtime.executors.dbos import DbosWorkflow
from placet.runtime.executors.fork_handlers import LiveHandler, SimulatedHandler
from placet.runtime.executors.process import InProcess
from placet.schemas.effect import (
    Backoff,
    Delivery,
    DoNotRetry,
    Effect,
    EffectKey,
    EffectStatus,
    OutcomeUnknown,
    RetryAfter,
    Settlement,
)

__all__ = [
    "Backoff",
    "DbosWorkflow",
    "Delivery",
    "DoNotRetry",
    "Effect",
    "EffectKey",
    "EffectOutcome",
    "EffectStatus",
    "InProcess",
    "LiveHandler",
    "OutcomeUnknown",
    "RetryAfter",
    "Settlement",
    "SimulatedHandler",
]
