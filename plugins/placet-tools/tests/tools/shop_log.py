"""The log of a shop whose calls ran, failed, were held, were refused, and whose refusal was noted.

Two agents call `refund`: `support` six times, `sales` once; ann approves one held call.
"""

import asyncio
from pathlib import Path
from typing import Annotated

from pydantic import Field

from placet_tools import Gate, NotDone, Tools

POLICY = {"tools": {"refund": {"approval": "euro > 100", "role": "manager"}}}
ORDERS = {"A7": 120, "B2": 300}


def shop() -> Tools:
    """Return the tools of the shop."""
    tools = Tools("shop")

    @tools.tool(once="refund:{order}")
    def refund(order: str, euro: Annotated[int, Field(ge=1, le=500)]) -> dict[str, object]:
        """Pay money back."""
        if order not in ORDERS:
            raise NotDone("there is no such order")
        return {"order": order, "paid": euro}

    return tools


async def call_all(gate: Gate) -> None:
    """Make the calls: `done`, `again`, `wrong`, `large`, `none`, `waits`; and `other` of sales."""

    async def refund(key: str, order: str, euro: int, agent: str = "support") -> None:
        await gate.call("refund", agent=agent, key=key, order=order, euro=euro)

    await refund("done", "A7", 42)
    await refund("again", "A7", 42)
    await refund("wrong", "B2", 900)
    await refund("large", "B2", 150)
    (request,) = await gate.approvals()
    await gate.decide(request, "approve", by="ann", role="manager", reason="agreed")
    await refund("none", "Z9", 15)
    await refund("other", "Z9", 9_000, "sales")
    await refund("waits", "C3", 200)


def make_log(path: Path) -> None:
    """Write the log to a file."""

    async def write() -> None:
        async with Gate(shop(), store=f"sqlite:///{path}", policy=POLICY) as gate:
            await call_all(gate)

    asyncio.run(write())
