"""The shared budget of a session: an account of the domain `accounts`, on which its calls draw.

The worst case of a model call is reserved in the batch that records its request, so a call for
which the account has too little is not made. The reservation is settled when the answer is durable:
with the reported use, or with the worst case if the use is unknown, as after a timeout. If the
process dies during a call, the reservation stays held until a manager settles or releases it.
"""

from contextlib import suppress
from decimal import ROUND_UP, Decimal
from typing import Final

import anyio

from placet.agents.loop.model_calls import BudgetExceeded, ModelCalls
from placet.agents.loop.recorder import GONE_SECONDS, SystemIntentFactory
from placet.agents.ports import WorldPort
from placet.agents.proposal.adapter import (
    Adapter,
    PlannerInput,
    PlannerOutput,
    PlannerTimedOut,
    PlannerUnavailable,
    Usage,
)
from placet.domains.accounts import ACCOUNTS, BALANCES, KINDS, balance_id
from placet.schemas.errors import ClosedError, PlacetError, StoreError
from placet.schemas.intent import Intent
from placet.schemas.json_value import pointer
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.refusal import Stage

UNITS: Final = ("micro_usd", "tokens", "calls")
"""Units that a session reserves, where the account or one above it counts them."""

_MILLION: Final = 1_000_000
_RETRY_SECONDS: Final = 0.1


class SharedBudget:
    """The account of one session, on which its model calls draw.

    Args:
        account: Name of the account.
        agent: Agent of the session, which must be allowed to draw on it.
        world: The world, with the domain `accounts`.
        system_intents: Builds the recorder's intents.
    """

    def __init__(
        self, account: str, agent: str, world: WorldPort, system_intents: SystemIntentFactory
    ) -> None:
        self._account = account
        self._agent = agent
        self._world = world
        self._system_intents = system_intents

    async def ask(
        self, calls: ModelCalls, ask: Intent, adapter: Adapter, context: PlannerInput
    ) -> PlannerOutput:
        """Reserve the worst case of a call, call the adapter, and settle the use of the answer.

        Raises:
            PlannerUnavailable: The adapter could not answer, or not in time.
            BudgetExceeded: The account has too little, or the worst case is not known.
        """
        held = await self._worst_case(adapter, context)
        payload = ask["payload"]
        session = pointer([payload["session"]])[1:]  # a reservation's id has no slash
        name = f"{session}:{payload['turn']}:{payload['attempt']}"
        reserve = [
            self._system_intents.intent(
                "account.reserve",
                account=self._account,
                id=f"{name}:{unit}",
                unit=unit,
                amount=amount,
                agent=self._agent,
            )
            for unit, amount in held.items()
        ]
        used: Usage | None = None  # unknown: the worst case is settled
        is_held = True
        try:
            answer = await calls.ask(self._world, ask, adapter, context, with_intents=reserve)
            used = answer.usage
        except (BudgetExceeded, ClosedError, StoreError):
            is_held = False
            raise
        except PlannerTimedOut:
            raise
        except PlannerUnavailable as error:
            used = error.usage
            raise
        finally:
            if is_held and held:
                with (
                    suppress(ClosedError, StoreError),  # it stays held: nothing is recorded now
                    anyio.move_on_after(GONE_SECONDS, shield=True),
                ):
                    await self._settle(name, held, used)
        return answer

    async def _settle(self, name: str, held: dict[str, int], used: Usage | None) -> None:
        """Settle the reservations of a call; one that was resolved meanwhile stays so."""
        amounts = {} if used is None else amounts_of(used)
        for unit, amount in held.items():
            known = amounts.get(unit)
            settle = self._system_intents.intent(
                "account.settle", id=f"{name}:{unit}", used=amount if known is None else known
            )
            verdict = await self._world.submit([settle])
            while verdict.refusals and verdict.refusals[0].stage is Stage.ADMISSION:  # load
                await anyio.sleep(verdict.refusals[0].retry_after or _RETRY_SECONDS)
                verdict = await self._world.submit([settle])

    async def _worst_case(self, adapter: Adapter, context: PlannerInput) -> dict[str, int]:
        """Return the most that a call may use, in each unit that the account counts.

        An adapter with a method `worst_case(context)` computes it; for any other adapter it is the
        rest of the turn's budget.

        Raises:
            BudgetExceeded: The account counts a unit whose amount is not known.
        """
        own = getattr(adapter, "worst_case", None)
        worst = rest_of_turn(context) if own is None else own(context)
        amounts = amounts_of(worst)
        held: dict[str, int] = {}
        for unit in await self._units():
            amount = amounts[unit]
            if amount is None:
                raise BudgetExceeded(
                    f"account {self._account!r} counts {unit}, and the most that a request may "
                    "cost is not known: state the price of the model, or a limit of a turn in money"
                )
            if amount:
                held[unit] = amount
        return held

    async def _units(self) -> list[str]:
        """Return the units that the account, or one above it, counts."""
        gateway, levels = self._world.gateway, [self._account]
        while parent := (await gateway.entities(ACCOUNTS, levels[-1:]))[levels[-1]]["parent"]:
            levels.append(parent)
        names = [balance_id(level, unit) for level in levels for unit in UNITS]
        counted = {name.rpartition("/")[2] for name in await gateway.entities(BALANCES, names)}
        return [unit for unit in UNITS if unit in counted]


class AccountNotFound(PlacetError, ValueError):  # noqa: N818  # the name states the fault
    """The error of a session whose budget is no account of its world."""


async def require_account(world: WorldPort, account: str) -> None:
    """Check that a world has an account.

    Raises:
        AccountNotFound: The world has no such account, or no domain `accounts`.
    """
    if not world.gateway.registry.kinds.keys() >= KINDS:
        raise AccountNotFound(
            f"this world has no domain 'accounts', so there is no budget {account!r}; open it with "
            "placet.domains.accounts.Accounts(...) among its domains"
        )
    accounts = sorted(await world.gateway.entities(ACCOUNTS))
    if account not in accounts:
        raise AccountNotFound(
            f"this world has no account {account!r}; {did_you_mean(account, accounts)}"
        )


def rest_of_turn(context: PlannerInput) -> Usage:
    """Return all that a turn has left, as one request."""
    return Usage(1, context.tokens_left, 0, context.usd_left)


def amounts_of(usage: Usage) -> dict[str, int | None]:
    """Return the amount of each unit of a usage; None for an unknown cost."""
    cost = usage.cost_usd
    return {
        "micro_usd": None
        if cost is None
        else int((Decimal(cost) * _MILLION).to_integral_value(ROUND_UP)),
        "tokens": usage.input_tokens + usage.output_tokens,
        "calls": usage.requests,
    }
