"""Adapters by the name that a person types: `scripted`, `human`, or a model."""

from collections.abc import Callable, Sequence
from typing import Final

from placet.agents.adapters.human import HumanAdapter
from placet.agents.proposal.adapter import Adapter, PlannerInput, PlannerOutput
from placet.cli.terminal import CommandError
from placet.frontends.kept_prices import keep_price, kept_prices_path, read_kept_price
from placet.frontends.offline_adapter import OfflineAdapter
from placet.server.model_config import ModelConfig

SCRIPTED: Final = "scripted"
HUMAN: Final = "human"
_OF_A_MODEL: Final = ("base_url", "api_key_env", "price")


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


def proposer(model: ModelConfig, *, keeps_price: bool = False) -> Adapter:
    """Return the proposer adapter of a name, with the address, key and price of its model.

    Args:
        model: The name: `scripted` parses plain sentences offline, which is the default, `human`
            asks a person, any other name is that of a model, such as `anthropic:claude-haiku-4-5`.
            Without a price, that of the price list counts, or one that was kept.
        keeps_price: Keep the price of a model at a private address for later.

    Raises:
        CommandError: There is no such adapter, the price is not for a model, unknown or invalid;
            or the extra `llm` is not installed.
    """
    name = model.name or SCRIPTED
    if name not in {SCRIPTED, HUMAN}:
        return _model(name, model, keeps_price=keeps_price)
    stated = [key for key in _OF_A_MODEL if getattr(model, key) is not None]
    if stated:
        raise CommandError(
            f"{name!r} is no model, so {' and '.join(stated)} cannot apply: name the model, or "
            "leave it out"
        )
    return OfflineAdapter() if name == SCRIPTED else TerminalHumanAdapter()


def _model(name: str, config: ModelConfig, *, keeps_price: bool) -> Adapter:
    try:
        from placet.agents import Llm, Prices  # noqa: PLC0415  # the extra
    except (ImportError, AttributeError) as error:
        raise CommandError(
            f"{name!r} is neither {SCRIPTED} nor {HUMAN}, and models need a package that is not "
            f"installed: pip install 'placet[llm]' ({error})"
        ) from error

    def llm(price: Sequence[float] | None) -> Llm:
        return Llm(
            name,
            prices=None if price is None else Prices(*price),
            base_url=config.base_url,
            api_key_env=config.api_key_env,
        )

    try:
        model = llm(config.price)
        key = f"{model.address}/{model.model_name}"
        if config.price is None and not model.is_priced and model.is_private:
            kept = read_kept_price(key)
            model = model if kept is None else llm(kept)
    except (ImportError, ValueError) as error:
        raise CommandError(f"the model {name!r} cannot be asked: {error}") from error
    if config.max_usd is not None and not model.is_priced:
        once = f"; chat keeps it in {kept_prices_path()}" if model.is_private else ""
        raise CommandError(
            f"the price of the model {model.model_name!r} at {model.address or 'its server'} is "
            "not known, and a turn has a limit in money: state the price (--price IN,OUT, or price "
            "over HTTP and in [model], US dollars for a million tokens, 0,0 if it costs "
            f"nothing{once}), or set no limit in money (--max-usd none; max_usd null over HTTP, "
            '"none" in [model]), or name a model of the price list'
        )
    if keeps_price and config.price is not None and model.is_private:
        keep_price(key, config.price)
    return model


def _nobody(_context: PlannerInput) -> None:
    """Send no notification: open questions are in the list."""
