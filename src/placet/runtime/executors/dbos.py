"""Effect handlers of several steps, run as workflows by DBOS (extra `dbos`).

The workflow's id is the effect's key, so there is one workflow across all attempts and restarts: an
attempt starts the workflow, or finds it started, and waits for its result. After a crash DBOS
resumes the workflow behind its last finished step. DBOS stores the result; the next attempt reads
it and settles the effect when the world is open again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import msgspec

from placet.actors.ports import AsyncEffectHandler
from placet.runtime.executors.thread import ThreadHandler
from placet.schemas.codec import Json, to_json
from placet.schemas.effect import DoNotRetry, Effect
from placet.schemas.errors import describe_error

if TYPE_CHECKING:
    from dbos import WorkflowStatus

Workflow: TypeAlias = Callable[[dict[str, Json]], Any]
"""A function under `@DBOS.workflow()`, plain or async: takes the effect, returns its output."""

_PAUSE_S_MIN: Final = 0.02
_UNFINISHED: Final = frozenset({"PENDING", "ENQUEUED", "DELAYED"})


class DbosWorkflow:
    """A mark on a handler that is a DBOS workflow. The program launches DBOS itself.

    A workflow that raises fails its effect without another attempt: retries belong to the steps
    (`@DBOS.step(retries_allowed=True)`). An attempt that exceeds its time limit leaves the workflow
    running, and the next attempt waits for the same workflow.

    Args:
        workflow: Takes `{"key", "kind", "payload", "agent_id"}` as plain JSON, where `key` is a
            string, and returns the effect's output. Bound to DBOS by `@DBOS.workflow()`.
        pause_s_max: Longest pause in seconds between two status requests. Pauses start at 0.02 s
            and grow by half each time.

    Raises:
        ModuleNotFoundError: The extra `dbos` is not installed.
    """

    def __init__(self, workflow: Workflow, *, pause_s_max: float = 1.0) -> None:
        require_dbos()
        self._workflow = workflow
        self._pause_s_max = pause_s_max

    def handler(self, concurrency: int) -> AsyncEffectHandler:
        """Return an async function that runs one attempt at an effect and returns its output.

        Args:
            concurrency: Number of workflows that are waited for at a time.
        """
        # Each with its own threads: status requests of workflows that run must not wait behind
        # starts that hang.
        start = ThreadHandler(self._start, concurrency)
        read_status = ThreadHandler(_read_status, concurrency)

        async def run(effect: Effect) -> Json:
            status, pause_s = await start(effect), _PAUSE_S_MIN
            while status.status in _UNFINISHED:
                await anyio.sleep(min(pause_s, self._pause_s_max))
                pause_s *= 1.5
                status = await read_status(effect)
            return _output(status)

        return run

    def _start(self, effect: Effect) -> "WorkflowStatus":
        """Start the effect's workflow, or return the status of the one started before."""
        from dbos import DBOS, SetWorkflowID, error  # noqa: PLC0415  # the extra

        argument = _as_plain(effect)
        try:
            with SetWorkflowID(workflow_id_of(effect)):
                DBOS.start_workflow(self._workflow, argument)
        except error.DBOSConflictingWorkflowError as conflict:
            raise _id_is_taken(effect) from conflict
        status = _read_status(effect)
        # DBOS returns the existing workflow of an id whatever its argument: another world with the
        # same name may have started it, and its result would settle the wrong effect.
        started_with = status.input
        if started_with is None or list(started_with["args"]) != [argument]:
            raise _id_is_taken(effect)
        return status


def require_dbos() -> None:
    """Raise if the `dbos` library is not installed; else do nothing.

    Raises:
        ModuleNotFoundError: It is not installed; the message says how to install it.
    """
    try:
        import dbos  # noqa: F401, PLC0415  # the extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a DbosWorkflow needs a library that is not installed ({error}); install it with "
            "`pip install '.[dbos]'` in a clone of placet",
            name=error.name,
        ) from error


def workflow_id_of(effect: Effect) -> str:
    """Return the id of an effect's workflow: its key, the same in all attempts and restarts."""
    return str(effect.key)


def _as_plain(effect: Effect) -> dict[str, Json]:
    """Return an effect as decoded JSON, comparable with the argument that DBOS stored.

    Without the attempt number: any attempt may be the one that started the workflow.
    """
    fields = {
        "key": str(effect.key),
        "kind": effect.kind,
        "payload": effect.payload,
        "agent_id": effect.agent_id,
    }
    plain: dict[str, Json] = msgspec.json.decode(to_json(fields))
    return plain


def _read_status(effect: Effect) -> "WorkflowStatus":
    """Return the status of an effect's started workflow.

    Raises:
        DoNotRetry: It was deleted. Another attempt would find no workflow and start it again.
    """
    from dbos import DBOS  # noqa: PLC0415  # the extra

    status = DBOS.get_workflow_status(workflow_id_of(effect))
    if status is None:
        raise DoNotRetry(f"the workflow {workflow_id_of(effect)!r} was deleted from DBOS")
    return status


def _output(status: "WorkflowStatus") -> Json:
    """Return the output of a finished workflow.

    Raises:
        DoNotRetry: It failed or was canceled; another attempt would read the same status.
    """
    if status.status == "SUCCESS":
        output: Json = status.output
        return output
    if status.error is not None:
        raise DoNotRetry(f"the workflow failed: {describe_error(status.error)}")
    raise DoNotRetry(f"DBOS says of the workflow: {status.status}")


def _id_is_taken(effect: Effect) -> DoNotRetry:
    return DoNotRetry(
        f"DBOS has another workflow by the name {workflow_id_of(effect)!r}: worlds that share its "
        "database need distinct names (OrchestratorConfig(world=...))"
    )
