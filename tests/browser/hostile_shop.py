"""A small domain whose texts would be markup, if a page took them for it."""

from typing import Annotated

from pydantic import BaseModel, Field

from placet.kernel import Domain, Draft, Kind
from placet.schemas.intent import Intent

HOSTILE = "<img src=x onerror=alert(1)>"


class Order(BaseModel):
    __doc__ = f"{HOSTILE}\u202e of the order"

    item: Annotated[str, Field(description=f"</script>{HOSTILE}", examples=[HOSTILE])]
    count: Annotated[int, Field(ge=1, le=9)] = 1
    parts: "list[Order]" = []


def _order(draft: Draft, _intent: Intent) -> None:
    draft.put("shop.desk", HOSTILE, "orders", draft.get("shop.desk", HOSTILE, "orders") + 1)


class Shop(Domain):
    """A shop that keeps the number of its orders."""

    name = "shop"
    version = "1"
    kinds = (Kind("shop.order", Order, _order),)

    def on_open(self, draft: Draft) -> None:
        draft.create("shop.desk", HOSTILE, {"orders": 0})
