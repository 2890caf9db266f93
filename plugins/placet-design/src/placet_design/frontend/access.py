"""Access to designs over HTTP: the role of a token in a design, and the access record of a new one.

The rule is that of `placet_design.access`, which the gate applies again to every intent. A
token has the access of the agent of its name, and of the agents that it owns.
"""

from secrets import token_hex
from typing import Annotated

from msgspec import Meta

from placet.kernel.intent_visibility import speaks_for
from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.identity import OPERATOR
from placet.schemas.verdict import Verdict
from placet.server.http.parameters import Fields, NewName
from placet.server.http.problems import Problem
from placet.server.roles import Role
from placet_design.access import access_of
from placet_design.actions.plans import intent_of
from placet_design.api.workspace import HOST
from placet_design.payloads import ACCESS_NAMES_MAX, OPERATOR_ROLE
from placet_design.state.parameters import is_operator

_Names = Annotated[list[NewName], Meta(max_length=ACCESS_NAMES_MAX)]


class Access(Fields, frozen=True):
    """Request body of `set_design_access`, which replaces the whole record.

    The owner and the editors may read and change the design, readers only read it. The owner
    `operator` is no agent: the design then belongs to the operators.
    """

    owner: NewName
    editors: _Names
    readers: _Names


def role_of(world: Orchestrator, submitter: str) -> Role | None:
    """Return the role of a token that is not the operator's in a design; None for no access.

    Raises:
        ClosedError: The world is not open, because its store failed.
    """
    return world.query_nowait(lambda kernel: _role(kernel, submitter))


def _role(kernel: Kernel, submitter: str) -> Role | None:
    if submitter == HOST:  # that agent is the operator's in a design
        return None
    access = access_of(kernel.tree)
    if access is None:
        ledger = kernel.ledger
        is_registered = submitter in ledger.agents or submitter in ledger.owned
        return Role.AGENT if is_registered else None
    if is_operator(kernel.tree, submitter):
        return Role.AGENT
    if any(
        speaks_for(kernel.ledger, submitter, name) for name in (access["owner"], *access["editors"])
    ):
        return Role.AGENT
    if any(speaks_for(kernel.ledger, submitter, name) for name in access["readers"]):
        return Role.READER
    return None


def owner_of(kernel: Kernel) -> str:
    """Return the owner of a design; the operator where it has no access record."""
    access = access_of(kernel.tree)
    return OPERATOR if access is None else str(access["owner"])


async def give_to(world: Orchestrator, owner: str) -> None:
    """Write the access record of a new design: its creator owns it, and no other agent may read it.

    Called before requests can find the world. A design of the operator has no record.

    Raises:
        Problem: The world's rules refuse the record.
    """
    if owner == OPERATOR:
        return
    await world.register_agent(HOST, role=OPERATOR_ROLE)
    payload: dict[str, Json] = {"owner": owner, "editors": [], "readers": []}
    seq = await world.query(lambda kernel: kernel.seq)
    intent = intent_of("design.set_access", payload, HOST, f"create-{token_hex(8)}", seq)
    pending = world.submit_nowait([intent], submitter=OPERATOR)
    if world.config.clock == "stepped":
        await world.step(0)
    require_set(await pending)


def require_set(verdict: Verdict) -> None:
    """Raise unless the access was set.

    Raises:
        Problem: The caller may not set it, or the record is refused.
    """
    if verdict.admitted:
        return
    first = verdict.refusals[0]
    code = {"design.not_owner": "forbidden", "design.no_access": "forbidden"}.get(first.code)
    if code is None and first.code == "design.name_invalid":
        code = "request_invalid"
    raise Problem(code or "unavailable", first.message, refusal=first.code)
