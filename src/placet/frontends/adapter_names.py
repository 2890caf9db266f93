"""Adapters by the name that a person types: `scripted`, `human`, or a model."""

from collections.abc import Callable, Sequence

from placet.agents.adapters.human import HumanAdapter
from placet.agents.proposal.adapter import Adapter, PlannerInput, PlannerOutput
from placet.cli.terminal import CommandError
from placet.frontends.kept_prices import keep_price, kept_prices_path, read_kept_price
from placet.frontends.offline_adapter import OfflineAdapter

NAMES: Sequence[str] = ("scripted", "human")


class TerminalHumanAdapter(HumanAdapter):
    """A human proposer at a terminal, with a callback that shows each question.

    Attributes:
        on_question: Called with the context of each question, in the thread of the world.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_question: Callable[[PlannerInput], None] = _nobody

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Call `on_question`, wait for the person, and return the person's proposal."""
        self.on_question(context)
        return await super().propose(context)


def proposer(
    name: str,
    price: Sequence[float] | None = None,
    *,
    has_limit: bool = True,
    keeps_price: bool = False,
) -> Adapter:
    """Return the proposer adapter of this name.

    Args:
        name: `scripted` parses plain sentences offline, `human` asks a person, any other name is
            that of a model, such as `anthropic:claude-sonnet-4-5`.
        price: US dollars for a million tokens of the model: input, output, and of cached input if
            that differs; None for the price list, or a price that was kept.
        has_limit: A turn has a limit in money, so the price must be known.
        keeps_price: Keep a stated price of a model at a private address for later.

    Raises:
        CommandError: There is no such adapter, the price is not for a model, unknown or invalid;
            or the extra `llm` is not installed.
    """
    if price is not None and name in NAMES:
        raise CommandError(f"a price is that of a model, and {name!r} costs nothing; leave it out")
    if name == "scripted":
        return OfflineAdapter()
    if name == "human":
        return TerminalHumanAdapter()
    try:
        from placet.agents import Llm, Prices  # noqa: PLC0415  # the extra
    except (ImportError, AttributeError) as error:
        raise CommandError(
            f"{name!r} is neither {' nor '.join(NAMES)}, and models need a package that is not "
            "installed: "
            f"pip install 'placet[llm]' ({error})"
        ) from error
    try:
        model = Llm(name, prices=None if price is None else Prices(*price))
        key = f"{model.address}/{model.model_name}"
        if price is None and not model.is_priced and model.is_private:
            kept = read_kept_price(key)
            model = model if kept is None else Llm(name, prices=Prices(*kept))
    except (ImportError, ValueError) as error:
        raise CommandError(f"the model {name!r} cannot be asked: {error}") from error
    if has_limit and not model.is_priced:
        once = f"; it is kept in {kept_prices_path()}" if model.is_private else ""
        raise CommandError(
            f"the price of the model {model.model_name!r} at {model.address or 'its server'} is "
            "not known, and a turn has a limit in money: state the price (--price IN,OUT, US "
            f"dollars for a million tokens, 0,0 if it costs nothing{once}), or set no limit in "
            "money (--max-usd none), or name a model of the price list"
        )
    if keeps_price and price is not None and model.is_private:
        keep_price(key, price)
    return model


def _nobody(_context: PlannerInput) -> None:
    """Send no notification: open questions are in the list."""
