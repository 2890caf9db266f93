"""Submit batches, and get their verdicts.

The response is a verdict, as of `placet gate`. A client that disconnects does not cancel its batch:
it is decided, and its verdict is returned for the same batch again, or on request.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from placet.runtime.orchestrator import Orchestrator
from placet.runtime.verdict_json import verdict_line
from placet.schemas.codec import from_json
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.server.context import context_of
from placet.server.http.lean_route import LeanRoute
from placet.server.http.problems import Problem
from placet.server.http.verdict_status import retry_after, status_of
from placet.server.openapi import BATCH_BODY, VERDICT_ANSWERS, answers

router = APIRouter(tags=["batches"])
direct = APIRouter(tags=["batches"], route_class=LeanRoute)


@direct.post(
    "/worlds/{world}/batches",
    summary="Submit a batch",
    responses=VERDICT_ANSWERS,
    openapi_extra=BATCH_BODY,
)
async def submit(world: str, request: Request) -> Response:
    """Decide a batch: all of it, or none of it.

    Safe to repeat: the same req_ids with the same content have the same answer (`replayed`).
    """
    return await _decide(world, request, dry_run=False)


@direct.post(
    "/worlds/{world}/dry-run",
    summary="Dry-run a batch",
    responses=VERDICT_ANSWERS,
    openapi_extra=BATCH_BODY,
)
async def dry_run(world: str, request: Request) -> Response:
    """Decide a batch as it would be decided now, and change nothing."""
    return await _decide(world, request, dry_run=True)


@router.get(
    "/worlds/{world}/verdicts",
    summary="Get a verdict",
    responses=answers(200, "Verdict", 401, 403, 404, 503),
)
async def verdict_of(
    world: str,
    request: Request,
    agent_id: Annotated[str, Query(min_length=1, max_length=128)],
    req_id: Annotated[str, Query(min_length=1, max_length=128)],
) -> Response:
    """Return the answer to a request again, whatever became of who asked first."""
    context = context_of(request)
    who, asked = context.principal(request), context.world(world)
    await context.check_speaks_for(asked, who, agent_id)
    verdict = await asked.verdict_of(agent_id, req_id)
    if verdict is None:
        raise Problem(
            "not_found",
            f"no answer to {req_id!r} of agent {agent_id!r} is remembered: it was not decided, "
            "left no trace, or is too old",
        )
    return verdict_answer(verdict, 200)


async def _decide(world: str, request: Request, *, dry_run: bool) -> Response:
    context = context_of(request)
    who, asked = context.principal(request), context.world(world)
    body = await context.body(request)
    try:
        raw = from_json(body)
    except ValueError as error:
        return verdict_answer(_no_json(asked, str(error) if body else "the body is empty"))
    verdict = await asked.submit_nowait(raw, dry_run=dry_run, submitter=who.submitter)
    return verdict_answer(verdict)


def _no_json(world: Orchestrator, error: str) -> Verdict:
    """Return the refusal of a body that is not JSON, as the command line's gate does."""
    message = f"the body must be an intent, an array of intents or a batch object, as JSON; {error}"
    refusal = Refusal(RefusalCode.FIELD_INVALID.value, message, Stage.STRUCTURE)
    return Verdict("", False, None, world.seq, world.sim_time, (refusal,))


def verdict_answer(verdict: Verdict, status: int | None = None) -> Response:
    """Build the response of a verdict, with the status of its outcome unless one is passed."""
    headers = {}
    seconds = retry_after(verdict)
    if seconds is not None:
        headers["retry-after"] = seconds
    return Response(
        verdict_line(verdict), status or status_of(verdict), headers, "application/json"
    )
