"""`placet token`: make the tokens of the HTTP API."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from placet.cli.command_table import APPLICATION, CommandGroup
from placet.cli.terminal import CommandError, Output, notify, show_help_alone, with_json
from placet.schemas.identity import OPERATOR, RESERVED_IDS
from placet.server.credentials import Credentials, KnownToken, entry_text, hash_of, new_token

token: Final = typer.Typer(name="token", cls=CommandGroup, **APPLICATION)


@token.callback(invoke_without_command=True)
def tokens(context: typer.Context) -> None:
    """Manage the tokens of `placet serve`. A token acts for one agent, or for the operator."""
    show_help_alone(context)


@token.command()
@with_json
def new(
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A token for this agent and the agents that it owns."),
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="A token for the operator, who may do everything.")
    ] = False,
) -> Output:
    """Make a token.

    Its entry for the token file is on stdout, the token itself on stderr; it is not kept:
    `placet token new --agent alice >> tokens.toml`
    """
    if (agent is None) != operator:
        raise typer.BadParameter("give either --agent NAME or --operator")
    if agent in RESERVED_IDS:
        raise CommandError(f"{agent!r} cannot be the name of an agent; --operator is the operator")
    made = new_token()
    known = KnownToken(OPERATOR if agent is None else agent, hash_of(made))
    Credentials([known])  # refuses an invalid name
    value = {"token": made, "submitter": known.submitter, "sha256": known.sha256}
    return Output(value, _lines(known, made))


def _lines(known: KnownToken, made: str) -> Iterator[str]:
    yield from entry_text(known).split("\n")
    notify(f"the token of {known.submitter}, shown only once: {made}")
