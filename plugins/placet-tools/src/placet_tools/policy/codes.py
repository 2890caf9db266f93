"""The order in which a call is decided, and the codes of the refusals of each step."""

from typing import Final, NamedTuple


class PolicyStep(NamedTuple):
    """One step of the decision about a call.

    Attributes:
        name: The step.
        codes: Codes of its refusals, without the name of the domain.
    """

    name: str
    codes: tuple[str, ...]


UNCOUNTED: Final = "policy_uncounted"
UNLISTED: Final = "policy_unlisted"
REFUSED: Final = "policy_refused"
FAILED: Final = "policy_failed"
FORBIDDEN: Final = "after_forbidden"
MISSING: Final = "after_missing"
UNMET: Final = "only_if_unmet"
REACHED: Final = "at_most_reached"

POLICY_STEPS: Final = (
    PolicyStep("the tool is listed", (UNLISTED,)),
    PolicyStep("`refuse`", (REFUSED, FAILED)),
    PolicyStep("earlier calls are counted", (UNCOUNTED,)),
    PolicyStep("`never_after`", (FORBIDDEN,)),
    PolicyStep("`after`", (MISSING,)),
    PolicyStep("`only_if`", (MISSING, FAILED, UNMET)),
    PolicyStep("`at_most`", (REACHED,)),
)
"""The steps of the policy, in their order."""

POLICY_CODES: Final = tuple(dict.fromkeys(code for step in POLICY_STEPS for code in step.codes))
