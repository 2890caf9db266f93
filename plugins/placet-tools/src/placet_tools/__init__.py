"""A gate before tools that exist: the model proposes, the kernel validates, and then the tool runs.

parts > tool > records > policy > domain > tools are pure; `frontend` opens the world and runs the
functions.
"""

from placet.schemas.approval import Approval, ApprovalUnknown
from placet_tools.frontend.calls import KeyInvalid
from placet_tools.frontend.gate import Gate
from placet_tools.outcome import Outcome, RequestDecision
from placet_tools.parts.marks import Personal, Secret
from placet_tools.policy import ToolPolicyError
from placet_tools.tool import NotDone, ToolError
from placet_tools.tools import Tools

__all__ = [
    "Approval",
    "ApprovalUnknown",
    "Gate",
    "KeyInvalid",
    "NotDone",
    "Outcome",
    "Personal",
    "RequestDecision",
    "Secret",
    "ToolError",
    "ToolPolicyError",
    "Tools",
]


def __getattr__(name: str) -> str:
    """Return `__version__`, read from the installed metadata when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  # 15 ms

    return version("placet-tools")
