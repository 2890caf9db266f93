"""The tools of the tests: a shop whose functions note that they ran."""

from typing import Annotated

from pydantic import Field

from placet import OrchestratorConfig
from placet.kernel import refuse
from placet_tools import NotDone, Tools

QUIET = OrchestratorConfig(log_level="critical")


class Shop:
    """A shop.

    Attributes:
        ran: Name and arguments of each function that ran, in order.
        tools: Its tools.
        fails: Names of the tools that certainly do nothing.
        breaks: Names of the tools that raise.
    """

    def __init__(self) -> None:
        self.ran: list[tuple[object, ...]] = []
        self.fails: set[str] = set()
        self.breaks: set[str] = set()
        self.tools = Tools("shop")
        note = self.note

        @self.tools.tool(risk="read")
        def lookup(order: str) -> dict[str, object]:
            """Find an order."""
            note("lookup", order)
            return {"order": order, "euro": 42}

        @self.tools.tool(risk="medium")
        async def unpay(order: str, output: dict[str, int]) -> str:
            """Take a payment back."""
            note("unpay", order, output["paid"])
            return "taken back"

        @self.tools.tool(risk="high", once="refund:{order}", undo=unpay)
        async def refund(order: str, euro: Annotated[int, Field(ge=1, le=500)] = 5) -> object:
            """Pay money back to the customer of an order."""
            note("refund", order, euro)
            return {"paid": euro}

        @self.tools.tool(not_done=(ConnectionRefusedError,))
        def mail(to: str) -> str:
            """Send a mail."""
            note("mail", to)
            return "sent"

        @self.tools.tool()
        def charge(order: str, idempotency_key: str) -> str:
            """Charge a card."""
            note("charge", order, idempotency_key)
            return idempotency_key

        @self.tools.rule("mail")
        def the_boss(draft, intent):
            """Ask a manager before the boss gets a mail, and refuse the competitor."""
            to = intent["payload"]["to"]
            if to == "competitor":
                return refuse("no_competitor", "write to somebody else")
            if to == "boss":
                return refuse("approval_required", "a manager reads it first", role="manager")
            return None

    def note(self, name: str, *arguments: object) -> None:
        if name in self.fails:
            raise NotDone(f"{name} is closed")
        if name in self.breaks:
            raise OSError(f"{name} broke")
        self.ran.append((name, *arguments))


async def notes_of(world):
    """Return the payloads of the records of persons who settled effects in doubt."""
    found = []
    async for page in world.event_pages():
        for event in page:
            intents = event.data["intents"] if event.type == "batch" else ()
            found += [one["payload"] for one in intents if one["kind"] == "approvals.settle"]
        if page[-1].record + 1 >= world.records:
            break
    return found
