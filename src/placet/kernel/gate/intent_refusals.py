"""Refusals of single intents, with the fields that every stage fills in the same way."""

from collections.abc import Sequence

from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode


def refuse_intent(
    batch: CheckedBatch,
    index: int,
    code: RefusalCode,
    message: str,
    /,
    *,
    at: str = "",
    retry_after: float | None = None,
    suggestions: Sequence[str] = (),
    changed: Sequence[dict[str, Json]] = (),
    **details: Json,
) -> Refusal:
    """Build the refusal of one intent of a batch; its agent and kind go into the details.

    Args:
        batch: The batch.
        index: Position of the intent.
        code: Code, which also decides the stage.
        message: The failure, the expected value, the given value, and the remedy.
        at: JSON pointer inside the intent, such as `/payload/to`.
        retry_after: Simulated seconds after which it may pass; None if waiting does not help.
        suggestions: Nearest valid values, best first.
        changed: Entities that changed since the agent's context.
        **details: More data for programs.
    """
    intent = batch.intents[index]
    return Refusal(
        code.value,
        message,
        STAGE_OF[code],
        index,
        intent["req_id"],
        f"/intents/{index}{at}",
        retry_after,
        tuple(suggestions),
        tuple(changed),
        {"agent_id": intent["agent_id"], "kind": intent["kind"], **details},
    )


def refuse_batch(
    code: RefusalCode,
    message: str,
    /,
    *,
    at: str = "",
    retry_after: float | None = None,
    **details: Json,
) -> Refusal:
    """Build the refusal of a batch as a whole; `at` is a JSON pointer into the batch."""
    stage = STAGE_OF[code]
    return Refusal(code.value, message, stage, at=at, retry_after=retry_after, details=details)


def positions_of(batch: CheckedBatch, agent_id: str, kind: str | None = None) -> list[int]:
    """Return the positions of an agent's intents in a batch; of one kind unless it is None."""
    return [
        index
        for index, intent in enumerate(batch.intents)
        if intent["agent_id"] == agent_id and (kind is None or intent["kind"] == kind)
    ]
