"""A batch that a client has sent, from its JSON to its verdict.

`POST batches` and the WebSocket of batches both submit by `submit`, so that one place decides which
fields a client may leave out, and which previewed changes it is shown.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from placet.kernel.gate.wire_defaults import with_req_ids
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.pending_verdict import PendingVerdict
from placet.schemas.codec import Json
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.server.credentials import Principal
from placet.server.viewpoint import Viewpoint

BARE_KEY: Final = "[!#-~]([ !#-~]{0,122}[!#-~])?"
"""Of an idempotency key: visible ASCII; `KEY:511` is no longer than a req_id may be."""


class Submission(NamedTuple):
    """A submitted batch.

    Attributes:
        world: The world that decides it.
        who: The caller.
        pending: The verdict, once it is decided.
        dry_run: The batch as it was sent, if it is a dry run; else None.
        waits_for_step: The batch waits in the bounded queue of a world of stepped time.
    """

    world: Orchestrator
    who: Principal
    pending: PendingVerdict
    dry_run: Json
    waits_for_step: bool

    async def diff(self, verdict: Verdict) -> Sequence[Json] | None:
        """Return the previewed changes that the caller may see; None for other than a dry run."""
        if not verdict.dry_run or not verdict.admitted:
            return None
        agent_ids = _agents_of(self.dry_run, self.who.submitter)
        name = self.who.submitter
        viewpoint = Viewpoint(name, None if self.who.is_operator else name)
        return await self.world.query(
            lambda kernel: viewpoint.diff(kernel, verdict.diff, agent_ids)
        )


def submit(
    world: Orchestrator,
    who: Principal,
    raw: Json,
    *,
    key: str | None = None,
    dry_run: bool = False,
) -> Submission:
    """Submit a batch of a client, without waiting.

    Args:
        world: The world that the caller has entered as an agent.
        who: The caller.
        raw: A list of intents, a batch object, or one intent.
        key: Idempotency key, of which intents without a req_id get one.
        dry_run: Decide, and change nothing.

    Raises:
        ClosedError, StoreError: The world is closed, or has failed.
    """
    if key is not None:
        raw = with_req_ids(raw, key, world.config.limits.batch_intents_max)
    pending = world.submit_nowait(raw, dry_run=dry_run, submitter=who.submitter, fill_missing=True)
    is_dry_run = dry_run or (type(raw) is dict and raw.get("dry_run") is True)
    waits_for_step = world.config.clock == "stepped" and not is_dry_run
    return Submission(world, who, pending, raw if is_dry_run else None, waits_for_step)


def window_of(world: Orchestrator) -> tuple[int, int]:
    """Return for how many req_ids of an agent, and how many seconds, a batch is safe to repeat."""
    limits = world.config.limits
    return limits.window_ids_max, limits.window_age_ns_max // SECOND_NS


def no_json(world: Orchestrator, error: str) -> Verdict:
    """Return the refusal of a body that is not JSON, as the command line's gate does."""
    message = f"the body must be an intent, an array of intents or a batch object, as JSON; {error}"
    refusal = Refusal(RefusalCode.FIELD_INVALID.value, message, Stage.STRUCTURE)
    return Verdict("", False, None, world.seq, world.sim_time, (refusal,))


def _agents_of(raw: Json, submitter: str) -> set[str]:
    """Return the agents of an admitted batch; an intent without one is of the token's agent."""
    intents = raw.get("intents", [raw]) if isinstance(raw, dict) else raw
    return {intent.get("agent_id", submitter) for intent in intents}
