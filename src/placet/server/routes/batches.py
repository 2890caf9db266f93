"""Submit batches, and get their verdicts.

The response is a verdict, as of `placet gate`. A client that disconnects does not cancel its batch:
it is decided, and its verdict is returned for the same batch again, or on request.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from placet.runtime.verdict_json import verdict_line
from placet.schemas.codec import Json, from_json
from placet.schemas.json_value import format_value
from placet.schemas.verdict import Verdict
from placet.server.context import entered
from placet.server.http.fair_share import release_body
from placet.server.http.parameters import Fields, Identity
from placet.server.http.problems import Problem
from placet.server.http.routing import OF_WORLD, WORLD_PREFIX, Body, Routes
from placet.server.http.verdict_status import retry_after, status_of
from placet.server.openapi import VERDICT_ANSWERS
from placet.server.roles import Role
from placet.server.submission import BARE_KEY, no_json, submit, window_of
from placet.server.wire_schemas import EXAMPLES

table = Routes("batches", WORLD_PREFIX)

_KEY: Final = re.compile(f'{BARE_KEY}|"{BARE_KEY}"')
_IDEMPOTENCY_KEY: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 126,
    "pattern": f"^({_KEY.pattern})$",
    "description": "the req_id of an intent that has none; KEY:0, KEY:1 ... of several intents",
}
_BATCH: Final[Mapping[str, Any]] = {
    "body": Body("Batch", EXAMPLES["Batch"]),
    "headers": {"Idempotency-Key": _IDEMPOTENCY_KEY},
    "is_hot": True,
}
"""Body and headers of a request that submits a batch."""


class VerdictQuery(Fields, frozen=True):
    """The query parameters of `get_verdict`."""

    agent_id: Identity
    req_id: Identity


@table.on("POST", "/batches", "Submit a batch", VERDICT_ANSWERS, **_BATCH)
async def submit_batch(world: str, request: Request) -> Response:
    """Decide a batch as a whole, and return its verdict.

    Safe to repeat: the same req_ids with the same content have the same answer (`replayed`), for as
    long as the header `Idempotency-Window` states. An intent may leave out `agent_id` (the token's
    agent), `context_seq` (now), `priority` (10) and `schema_version`; and `req_id`, if the request
    has a header `Idempotency-Key`.
    """
    return await _decide(world, request, dry_run=False)


@table.on("POST", "/dry-run", "Dry-run a batch", VERDICT_ANSWERS, **_BATCH)
async def dry_run_batch(world: str, request: Request) -> Response:
    """Return the verdict that a batch would have now, without changing anything."""
    return await _decide(world, request, dry_run=True)


@table.on("GET", "/verdicts", "Get a verdict", "Verdict", *OF_WORLD)
async def get_verdict(world: str, request: Request, query: VerdictQuery) -> Response:
    """Return the verdict on an earlier request, for a client that lost the response."""
    context, who, orchestrator = entered(request, world)
    await context.check_speaks_for(orchestrator, who, query.agent_id)
    verdict = await orchestrator.verdict_of(query.agent_id, query.req_id)
    if verdict is None:
        raise Problem(
            "not_found",
            f"no answer to {query.req_id!r} of agent {query.agent_id!r} is remembered: it was "
            "not decided, left no trace, or is too old",
        )
    return verdict_answer(verdict, 200)


async def _decide(world: str, request: Request, *, dry_run: bool) -> Response:
    context, who, orchestrator = entered(request, world, Role.AGENT)
    key = _idempotency_key(request.headers)
    body = await context.body(request)
    try:
        raw = from_json(body)
    except ValueError as error:
        return verdict_answer(no_json(orchestrator, str(error) if body else "the body is empty"))
    submission = submit(orchestrator, who, raw, key=key, dry_run=dry_run)
    if submission.waits_for_step:
        del body, raw  # the batch waits for a step in the world's bounded queue
        release_body(request.scope)
    verdict = await submission.pending
    answer = verdict_answer(verdict, diff=await submission.diff(verdict))
    req_ids, seconds = window_of(orchestrator)
    answer.headers["idempotency-window"] = f"req_ids={req_ids}, seconds={seconds}"
    return answer


def _idempotency_key(headers: Headers) -> str | None:
    """Return the key of a request; None without one.

    Raises:
        Problem: The header is no key, or there are several.
    """
    keys = headers.getlist("idempotency-key")
    if not keys:
        return None
    if len(keys) > 1 or _KEY.fullmatch(keys[0]) is None:
        shown = format_value(keys[0] if len(keys) == 1 else keys)
        raise Problem(
            "request_invalid",
            f"the header Idempotency-Key must be one key of 1 to 124 visible ASCII characters, "
            f"with or without quotes around it, got {shown}",
        )
    return keys[0].strip('"')


def verdict_answer(
    verdict: Verdict, status: int | None = None, diff: Sequence[Json] | None = None
) -> Response:
    """Build the HTTP response of a verdict.

    Args:
        verdict: The verdict.
        status: Overrides the status of its outcome.
        diff: The previewed changes that the caller may see; None for other than a dry run.
    """
    headers = {}
    seconds = retry_after(verdict)
    if seconds is not None:
        headers["retry-after"] = seconds
    return Response(
        verdict_line(verdict, diff), status or status_of(verdict), headers, "application/json"
    )
