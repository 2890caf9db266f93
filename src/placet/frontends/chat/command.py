"""`placet chat`: a conversation with an agent about a world, in a terminal or through a pipe."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from getpass import getuser
from io import TextIOWrapper
from math import isfinite, nan
from typing import Annotated, Final

import typer
from anyio.from_thread import start_blocking_portal

from placet.agents.proposal.adapter import Adapter
from placet.agents.session.session import Session
from placet.cli.signals import Terminated, terminated_as_interrupted
from placet.cli.terminal import AsJson, CommandError, notify, say
from placet.cli.world_options import DomainOption, SetOption, StoreOption
from placet.frontends.adapter_names import TerminalHumanAdapter, agent_limits, proposer
from placet.frontends.chat.loop import Ask, ChatLoop, Person
from placet.frontends.render import JsonRenderer, TextRenderer
from placet.frontends.world_factory import (
    ModeOption,
    SessionOption,
    check_words,
    conversation_world,
    opened_session,
)
from placet.kernel.plugin.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.server.model_config import ModelConfig, is_price
from placet.server.settings import MODEL, Given, load_model_config, parse_assignment

_NO_LIMIT: Final = "none"
"""As `--max-usd`: no limit in money."""

_PERSON_SECONDS_MAX: Final = 3_600
"""How long a person who proposes may take."""


def chat(  # noqa: PLR0917  # the command line has no positions
    domain: DomainOption = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="WHO",
            help="Who proposes: scripted (reads sentences, offline), human, or a model such as "
            "anthropic:NAME. Default: name in [model] of placet.toml, else scripted.",
        ),
    ] = None,
    mode: ModeOption = None,
    store: StoreOption = None,
    assignments: SetOption = None,
    session: SessionOption = "main",
    person: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Name of the person who confirms. Default: the login name."
        ),
    ] = None,
    role: Annotated[str, typer.Option(help="Role of this person.")] = "",
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="Price of the model, US dollars for a million tokens: 0.25,2. Default: a list "
            "of known models; a server on this machine costs nothing.",
        ),
    ] = None,
    max_usd: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Limit of a turn in US dollars, or none. Default: 1."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Limit of a turn in tokens. Default: 50 000."),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Limit of a turn in seconds. Default: 120."),
    ] = None,
    max_request_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Limit of one request to the model. Default: half of a turn's."
        ),
    ] = None,
    max_output_tokens: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Limit of one answer in tokens. Default: 4 096."),
    ] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """Talk with an agent about a world: it proposes, the gate decides, you confirm.

    A line is a command (/KIND key=value), a sentence that the domain knows, or a message for the
    agent. A plan that needs your confirmation is shown with its changes first. `/help` lists the
    other commands. Without a terminal there is no prompt: such a plan stays held until a line
    `/approve`; the exit code is 1 if an action was not applied. --json writes one turn per line.
    """
    check_words(mode, session)
    is_there = _is_somebody_there() and not as_json
    limits = {
        "max_tokens": max_tokens,
        "max_seconds": max_seconds,
        "max_request_seconds": max_request_seconds,
        "max_output_tokens": max_output_tokens,
    }
    flags = _flags(agent, price, max_usd, limits)
    model, of_world = _chosen_model(flags, assignments)
    adapter = proposer(model, keeps_price=price is not None)
    domains, config = conversation_world("chat", domain, store, of_world)
    opening = _opening(domains, config, adapter, model, session=session, mode=mode)
    who = Person(person or _login_name(), role, is_there)
    try:
        with terminated_as_interrupted():
            has_failed = _talk(opening, adapter, who, as_json=as_json)
    except Terminated as terminated:
        return terminated.exit_code
    return int(has_failed and not is_there)


def _opening(
    domains: Sequence[Domain],
    config: OrchestratorConfig,
    adapter: Adapter,
    model: ModelConfig,
    **options: str | None,
) -> AbstractAsyncContextManager[Session]:
    """Return the session to open. A person as the proposer has an hour for each proposal."""
    if isinstance(adapter, TerminalHumanAdapter):
        model = replace(model, max_seconds=max(model.max_seconds, _PERSON_SECONDS_MAX))
        seconds_max = max(config.limits.effect_seconds_max, _PERSON_SECONDS_MAX)
        config = replace(config, limits=replace(config.limits, effect_seconds_max=seconds_max))
    limits = agent_limits(model)
    return opened_session(
        domains, config, adapter=adapter, limits=limits, budget=model.budget, **options
    )


def _flags(
    agent: str | None,
    price: str | None,
    max_usd: str | None,
    limits: Mapping[str, float | None],
) -> dict[str, Given]:
    """Return the values of the options about the model, by the key in `[model]`."""
    flags: dict[str, Given] = {}
    if agent is not None:
        flags["name"] = Given(agent, "--agent")
    if price is not None:
        flags["price"] = Given(_read_price(price), "--price")
    if max_usd is not None:
        flags["max_usd"] = Given(_read_max_usd(max_usd), "--max-usd")
    flags |= {
        key: Given(limit, f"--{key.replace('_', '-')}")
        for key, limit in limits.items()
        if limit is not None
    }
    return flags


def _chosen_model(
    flags: Mapping[str, Given], assignments: Sequence[str] | None
) -> tuple[ModelConfig, list[str]]:
    """Return the model of the conversation, and the values of `--set` that are not about it.

    A model that the command line does not name is printed with its address: its calls may cost,
    and the view of the agent and the key go there.

    Raises:
        SettingsError: A setting is unknown or invalid.
    """
    parsed = {text: parse_assignment(text) for text in assignments or ()}
    of_model = dict(one for one in parsed.values() if one[0].startswith(MODEL))
    of_flags = {MODEL + key: given for key, given in flags.items()}
    config, sources = load_model_config({**of_model, **of_flags})
    source = sources.get("name", "")
    if config.name is not None and not source.startswith("--"):
        at = "" if config.base_url is None else f" at {config.base_url}"
        notify(f"placet chat: {config.name}{at} proposes ({source})")
    return config, [text for text, (key, _) in parsed.items() if not key.startswith(MODEL)]


def _talk(
    opening: AbstractAsyncContextManager[Session], adapter: Adapter, who: Person, *, as_json: bool
) -> bool:
    """Talk until the end; gives whether something was not done, or still waits for a person."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opening) as opened,
    ):
        talk = ChatLoop(
            opened,
            portal,
            who,
            ask=_asking(who.is_there, as_json=as_json),
            screen=JsonRenderer() if as_json else TextRenderer(),
            human=adapter if isinstance(adapter, TerminalHumanAdapter) else None,
        )
        talk.run()
        return talk.has_failed or talk.is_unsettled


def _is_somebody_there() -> bool:
    """Return whether lines come from a terminal, and are answered on one.

    Raises:
        CommandError: Lines come from nowhere.
    """
    if sys.stdin is None:
        raise CommandError("there is no standard input to read; give a pipe or a file")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # invalid bytes are answered, like any text
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asking(is_there: bool, *, as_json: bool) -> Ask:
    """Return a function that reads a line, with a prompt and editing on a terminal."""
    if not is_there:
        return _read_line if as_json else _read_and_show
    import readline  # noqa: F401, PLC0415  # input() edits lines with it, once it is loaded

    return _prompt


def _prompt(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        say()
        return None


def _read_line(_prompt: str) -> str | None:
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _read_and_show(prompt: str) -> str | None:
    """Read a line of a pipe, and echo it, so that the output reads as a conversation."""
    line = _read_line(prompt)
    if line and line.strip():
        say(f"{prompt}{line}")
        sys.stdout.flush()
    return line


def _login_name() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # no user has this number
        return "person"


def _read_price(text: str) -> list[float]:
    """Parse `IN,OUT` or `IN,OUT,CACHED`: US dollars for a million tokens.

    Raises:
        CommandError: The text is not two or three numbers of at least 0.
    """
    try:
        price = [float(part) for part in text.split(",")]
    except ValueError:
        price = []
    if not is_price(price):
        raise CommandError(
            f"--price takes IN,OUT or IN,OUT,CACHED in US dollars for a million tokens, such as "
            f"0.25,2 (a model of your own: 0,0), got {text!r}"
        )
    return price


def _read_max_usd(text: str) -> float | None:
    """Parse a limit in US dollars, or `none`.

    Raises:
        CommandError: The text is neither.
    """
    if text == _NO_LIMIT:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = nan
    if not isfinite(amount) or amount < 0:
        raise CommandError(
            f"--max-usd takes US dollars for a turn, such as 0.5, or {_NO_LIMIT}, got {text!r}"
        )
    return amount
