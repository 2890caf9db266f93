"""Handlers of many steps: workflows of DBOS, an engine that remembers each step (extra `dbos`).

The workflow's id is the effect's key. So across all attempts and restarts there is one workflow: an
attempt starts it, or finds it, and waits for its result. After a crash DBOS resumes it behind its
last finished step. DBOS keeps the result, and it settles the effect once the world is open.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import msgspec

from placet.actors.effects.executor import describe_error
from placet.actors.ports import AsyncEffectHandler
from placet.runtime.executors.thread import ThreadHandler
from placet.schemas.codec import Json, to_json
from placet.schemas.effect import DoNotRetry, Effect

if TYPE_CHECKING:
    from dbos import WorkflowStatus

Workflow: TypeAlias = Callable[[dict[str, Json]], Any]
"""A function under `@DBOS.workflow()`, plain or async: gets the effect, gives its output."""

_PAUSE_S_MIN: Final = 0.02
_MOVING: Final = frozenset({"PENDING", "ENQUEUED", "DELAYED"})


class DbosWorkflow:
    """Says of a handler that it is a workflow of DBOS, which the program has launched.

    A workflow that raises has failed for good: its steps are retried by their own settings
    (`@DBOS.step(retries_allowed=True)`). An attempt that exceeds its time limit leaves the workflow
    running, and the next attempt finds it.

    Args:
        workflow: Gets `{"key", "kind", "payload", "agent_id"}` as plain JSON, the key in one
            string, and returns the effect's output. Bound to DBOS by `@DBOS.workflow()`.
        pause_s_max: How long to wait between two looks at a workflow that takes long; the first
            pauses are shorter.

    Raises:
        ModuleNotFoundError: The extra is not installed.
    """

    def __init__(self, workflow: Workflow, *, pause_s_max: float = 1.0) -> None:
        require_dbos()
        self._workflow = workflow
        self._pause_s_max = pause_s_max

    def handler(self, concurrency: int) -> AsyncEffectHandler:
        """Return the function that an executor calls.

        Args:
            concurrency: How many workflows are waited for at a time.
        """
        begin = ThreadHandler(self._begin, concurrency)
        look = ThreadHandler(_look, concurrency)

        async def run(effect: Effect) -> Json:
            status, pause_s = await begin(effect), _PAUSE_S_MIN
            while status.status in _MOVING:
                await anyio.sleep(min(pause_s, self._pause_s_max))
                pause_s *= 1.5
                status = await look(effect)
            return _output(status)

        return run

    def _begin(self, effect: Effect) -> "WorkflowStatus":
        """Begin the effect's workflow, or find the one that was begun."""
        from dbos import DBOS, SetWorkflowID, error  # noqa: PLC0415  # the extra

        asked = _as_plain(effect)
        try:
            with SetWorkflowID(workflow_id_of(effect)):
                status = DBOS.start_workflow(self._workflow, asked).get_status()
        except error.DBOSConflictingWorkflowError as conflict:
            raise _taken(effect) from conflict
        given = status.input
        if given is None or list(given["args"]) != [asked]:
            raise _taken(effect)
        return status


def require_dbos() -> None:
    """Load the library; say in words how to get it.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        import dbos  # noqa: F401, PLC0415  # the extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a DbosWorkflow needs a library that is not installed ({error}); install it with "
            "`pip install 'placet[dbos]'`",
            name=error.name,
        ) from error


def workflow_id_of(effect: Effect) -> str:
    """Return the id of an effect's workflow: the same on all attempts and after restarts."""
    return str(effect.key)


def _as_plain(effect: Effect) -> dict[str, Json]:
    """Return an effect as JSON reads it, so that it can be compared with what DBOS has kept.

    The attempt is left out: which one it was that began the workflow is chance.
    """
    told = {
        "key": str(effect.key),
        "kind": effect.kind,
        "payload": effect.payload,
        "agent_id": effect.agent_id,
    }
    plain: dict[str, Json] = msgspec.json.decode(to_json(told))
    return plain


def _look(effect: Effect) -> "WorkflowStatus":
    from dbos import DBOS  # noqa: PLC0415  # the extra

    status = DBOS.get_workflow_status(workflow_id_of(effect))
    if status is None:
        raise DoNotRetry(f"the workflow {workflow_id_of(effect)!r} was deleted from DBOS")
    return status


def _output(status: "WorkflowStatus") -> Json:
    """Return the workflow's result.

    Raises:
        DoNotRetry: It failed, or was stopped; DBOS would say the same of it again.
    """
    if status.status == "SUCCESS":
        output: Json = status.output
        return output
    if status.error is not None:
        raise DoNotRetry(f"the workflow failed: {describe_error(status.error)}")
    raise DoNotRetry(f"DBOS says of the workflow: {status.status}")


def _taken(effect: Effect) -> DoNotRetry:
    return DoNotRetry(
        f"DBOS has another workflow by the name {workflow_id_of(effect)!r}: worlds that share its "
        "database need names of their own (OrchestratorConfig(world=...))"
    )
