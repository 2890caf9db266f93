"""A small domain whose intents need a person, for the tests of the inbox."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from placet import OrchestratorConfig
from placet.domains.approvals import Approvals
from placet.kernel import Domain, Kind, is_approved, refuse
from placet.schemas.identity import Ref

QUIET = OrchestratorConfig(log_level="critical")


class Pay(TypedDict):
    """Payload of `desk.pay`."""

    to: str
    euro: Annotated[int, Field(ge=1, le=500)]


class Desk(Domain):
    """Payments: one of more than 100 euro needs a manager, one of more than 10 any person.

    `desk.note` is of the recorder of the desk, and a payment is refused without a note before it.
    """

    name = "desk"
    version = "1"
    collections = ("desk.paid", "desk.notes")

    def __init__(self):
        self.kinds = (
            Kind("desk.pay", Pay, _pay, reads=lambda _: [Ref("desk.notes", None)], risk="high"),
            Kind("desk.note", dict, _note, risk="low"),
        )


def _pay(draft, intent):
    to, euro = intent["payload"]["to"], intent["payload"]["euro"]
    role = "manager" if euro > 100 else None
    if euro > 10 and not is_approved(draft, intent, role=role):
        return refuse("approval_required", "a person approves it", role=role or "")
    if not draft.exists("desk.paid", to):
        draft.create("desk.paid", to, {"euro": 0})
    before = draft.get("desk.paid", to, "euro")
    if before + euro > 500:
        return refuse("too_much", "at most 500 euro for one")
    draft.put("desk.paid", to, "euro", before + euro)
    return None


def _note(draft, intent):
    if intent["agent_id"] != "desk.recorder":
        return refuse("recorder_only", "the recorder alone")
    draft.create("desk.notes", str(draft.seq), {"text": intent["payload"]["text"]})
    return None


def domains():
    return [Desk(), Approvals()]


def paid(state):
    """Return the euro of each receiver."""
    return {to: fields["euro"] for to, fields in state.get("desk.paid", {}).items()}
