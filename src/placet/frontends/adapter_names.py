"""Adapters by the name that a person types: `scripted`, `human`, or a model; prices and limits.

A price of a model at a private address, once stated by a person, is kept in `model_prices.toml` of
the user's configuration folder (`~/.config/placet` on Linux, or below `$XDG_CONFIG_HOME`):
`"HOST:PORT/MODEL" = [IN, OUT]`, in US dollars for a million tokens. A person may edit the file.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import typer

from placet.agents.adapters.human import HumanAdapter
from placet.agents.proposal.adapter import Adapter, PlannerInput, PlannerOutput
from placet.agents.proposal.limits import AgentLimits
from placet.cli.terminal import CommandError
from placet.frontends.offline_adapter import OfflineAdapter
from placet.schemas.codec import Json, to_json
from placet.schemas.documents import DocumentError
from placet.server.model_config import ModelConfig, is_price
from placet.stores.documents import read_toml
from placet.stores.files import make_folder, write_whole

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
            f"installed: pip install '.[llm]' in a clone of placet ({error})"
        ) from error

    tokens = config.max_output_tokens

    def llm(price: Sequence[float] | None) -> Llm:
        return Llm(
            name,
            prices=None if price is None else Prices(*price),
            settings=None if tokens is None else {"max_tokens": tokens},
            attempt_seconds_max=config.request_seconds,
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


def agent_limits(model: ModelConfig) -> AgentLimits:
    """Return the limits of the turns of an agent, in money, tokens and time."""
    usd = None if model.max_usd is None else Decimal(str(model.max_usd))
    return AgentLimits(cost_usd_max=usd, tokens_max=model.max_tokens, seconds_max=model.max_seconds)


def kept_prices_path() -> Path:
    """Return the path of the file of kept prices; it may not exist."""
    return Path(typer.get_app_dir("placet")) / "model_prices.toml"


def read_kept_price(key: str) -> list[float] | None:
    """Return the price that is kept for a model; None if none is.

    Args:
        key: `HOST:PORT/MODEL`.

    Raises:
        CommandError: The file cannot be read, or the price in it is not two or three numbers.
    """
    price = _read().get(key)
    if price is None:
        return None
    is_numbers = isinstance(price, list) and all(type(part) in {int, float} for part in price)
    if not is_numbers or not is_price(price):
        raise CommandError(
            f"{kept_prices_path()}: the price of {key!r} must be [IN, OUT] or [IN, OUT, CACHED], "
            f"got {price!r}"
        )
    return [float(part) for part in price]


def keep_price(key: str, price: Sequence[float]) -> None:
    """Keep the price of a model, replacing an earlier one.

    Raises:
        CommandError: The file cannot be read or written.
    """
    prices, path = {**_read(), key: list(price)}, kept_prices_path()
    lines = [
        f"{to_json(name).decode()} = {to_json(one).decode()}\n" for name, one in prices.items()
    ]
    try:
        make_folder(path.parent)
        write_whole(path, "".join(lines).encode())
    except OSError as error:
        raise CommandError(
            f"the price cannot be kept in {path}: {error.strerror or error}"
        ) from error


def _read() -> Mapping[str, Json]:
    path = kept_prices_path()
    try:
        return read_toml(path)
    except FileNotFoundError:
        return {}
    except (OSError, DocumentError) as error:
        raise CommandError(f"cannot read the kept prices in {path}: {error}") from error
