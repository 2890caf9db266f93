"""The answers to the calls of one batch: allowed, held, refused or skipped."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from placet.kernel.plugin.approved import APPROVAL_REQUIRED
from placet.schemas.refusal import Refusal

Status: TypeAlias = Literal["allowed", "held", "refused", "skipped"]


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to one call.

    Attributes:
        status: `allowed`, `held` for a person, `refused`, or `skipped`: another call of its plan
            was refused.
        codes: Codes of its refusals.
        message: Reason for which it is not allowed; empty if it is allowed.
    """

    status: Status
    codes: tuple[str, ...] = ()
    message: str = ""


ALLOWED = CallAnswer("allowed")


def answers_of(
    refusals: Sequence[tuple[int | None, str, str]], count: int, domain: str
) -> list[CallAnswer]:
    """Return the answer to each intent of a batch, from the refusals of the batch.

    Args:
        refusals: `(index, code, message)` of each refusal; none if the batch was admitted.
        count: Number of intents.
        domain: Name of the domain of the tools.
    """
    if not refusals:
        return [ALLOWED] * count
    required = f"{domain}.{APPROVAL_REQUIRED}"
    is_held = all(code == required for _, code, _ in refusals)
    answers = []
    for position in range(count):
        own = [one for one in refusals if one[0] in {None, position}]
        faults = own if is_held else [one for one in own if one[1] != required]
        codes = tuple(code for _, code, _ in faults)
        message = "; ".join(text for *_, text in faults)
        status: Status = "held" if is_held else "refused" if faults else "skipped"
        answers.append(CallAnswer(status, codes, message))
    return answers


def plain_refusals(refusals: Sequence[Refusal]) -> list[tuple[int | None, str, str]]:
    """Return the refusals of a verdict in the form that `answers_of` takes."""
    return [(one.index, one.code, one.message) for one in refusals]
