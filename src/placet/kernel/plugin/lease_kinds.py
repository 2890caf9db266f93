"""The kinds of the kernel itself: `placet.lease` and `placet.release`.

They belong to no domain: the header of a log fixes the domains of its world, so an existing world
could not turn leases on. Their rules change nothing; the gate judges them and the ledger applies
them (`kernel/gate/leases.py`, `kernel/ledger/leases.py`).
"""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from placet.kernel.ledger.leases import LEASE, RELEASE
from placet.kernel.plugin.domain import Domain, Kind
from placet.kernel.state.draft import Draft
from placet.schemas.identity import ID_CHARS_MAX
from placet.schemas.intent import Intent
from placet.schemas.limits import LEASE_REFS_MAX

_Name = Annotated[str, Field(min_length=1, max_length=ID_CHARS_MAX)]
_Pair = Annotated[list[_Name], Field(min_length=2, max_length=2)]


class LeasePayload(TypedDict):
    """The payload of `placet.lease`.

    Attributes:
        refs: Entities as `[collection, entity]`, which the agent sees.
        seconds: Simulated seconds from the start to the latest end.
        begin: Start at once if the entities are free, or if the agent is called; false only takes
            a ticket.
    """

    refs: Annotated[list[_Pair], Field(min_length=1, max_length=LEASE_REFS_MAX)]
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    begin: NotRequired[bool]


class ReleasePayload(TypedDict):
    """The payload of `placet.release`: it has no fields."""


def _change_nothing(_draft: Draft, _intent: Intent) -> None:
    """Change nothing."""


class KernelKinds(Domain):
    """The owner of the kernel's own kinds; it is in no world's list of domains."""

    name = "placet"
    version = "1"
    kinds = (
        Kind(
            LEASE,
            LeasePayload,
            _change_nothing,
            summary="Lease entities: take a ticket, or start the lease of a called ticket.",
        ),
        Kind(RELEASE, ReleasePayload, _change_nothing, summary="Give back a lease or a ticket."),
    )
