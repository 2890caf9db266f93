"""Where handlers of effects run: in the event loop, in threads, in processes of their own.

An async function runs in the event loop, a plain one in a thread, `InProcess(function)` in a
process. `DbosWorkflow(workflow)` is one of many steps, which DBOS takes up again after a crash.
What a handler needs to name is here too.
"""

from placet.runtime.executors.dbos import DbosWorkflow
from placet.runtime.executors.fork_handlers import LiveHandler, SimulatedHandler
from placet.runtime.executors.process import InProcess
from placet.schemas.attempt import Backoff, DoNotRetry, OutcomeUnknown, RetryAfter
from placet.schemas.effect import Delivery, Effect, EffectKey, EffectStatus, Settlement

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
