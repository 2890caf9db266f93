"""Where effect handlers run: in the event loop, in threads, or in separate processes.

An async function runs in the event loop, a plain one in a thread, `InProcess(function)` in a
process. `DbosWorkflow(workflow)` is a workflow of many steps, which DBOS resumes after a crash. The
names that a handler needs are exported here too.
"""

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
    "EffectStatus",
    "InProcess",
    "LiveHandler",
    "OutcomeUnknown",
    "RetryAfter",
    "Settlement",
    "SimulatedHandler",
]
