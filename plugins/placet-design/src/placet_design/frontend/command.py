"""`placet design`: refine a design by sentences."""

import sys
from shlex import quote
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from placet.cli.terminal import (
    AsJson,
    CommandError,
    notify,
    say,
    say_json,
    say_lines,
)

if TYPE_CHECKING:
    from placet.schemas.codec import Json
    from placet_design.frontend.report import Report


_Text: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help='The change, such as "set beam to 9 m, lock hull length".'),
]
_Store: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Log of the design: a path ending in .db, or sqlite:///ferry.db. An existing one is "
        "continued. Default: nothing is kept.",
    ),
]
_ShowAccess: TypeAlias = Annotated[
    bool, typer.Option("--access", help="Show who may read and change the design.")
]
_Agent: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Agent that proposes the change.")
]
_DryRun: TypeAlias = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the result and change nothing; the store is only read."),
]
_Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation on a terminal.")
]
_Owner: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Set the owner of the design; `operator` is no agent."),
]
_Editors: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Set the agents that may change it, such as ann,bob."),
]
_Readers: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Set the agents that may only read it.")
]


def design(
    text: _Text = None,
    *,
    store: _Store = None,
    show: Annotated[
        bool, typer.Option("--show", help="Show the design: values, locks, version, phases.")
    ] = False,
    run_phases: Annotated[bool, typer.Option("--run-phases", help="Run all phases.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the latest commit.")] = False,
    access: _ShowAccess = False,
    owner: _Owner = None,
    editors: _Editors = None,
    readers: _Readers = None,
    agent: _Agent = "planner",
    dry_run: _DryRun = False,
    yes: _Yes = False,
    as_json: AsJson = False,
) -> int:
    """Refine a design by plain sentences; a sentence takes effect as a whole or not at all.

    The sentence becomes a plan of actions, which the gate decides. For an unclear sentence the
    possible meanings are listed and nothing is changed. --owner, --editors and --readers replace
    that part of the access, and act as the operator, like --undo. Exit code 1 for an unclear
    sentence, a refusal or a failed phase.
    """
    change = _access_change(owner, editors, readers)
    if (text is not None) + show + run_phases + undo + bool(access or change) != 1:
        raise typer.BadParameter(
            "give one of TEXT, --show, --run-phases, --undo, and --access or its changes"
        )
    show = show or (access and not change)
    if store is None and (show or undo or change):
        raise CommandError("there is nothing to show or undo without --store URL")
    # Here, because the domain is a sixth of a second that no other command should pay.
    from placet_design.frontend.session import DesignSession  # noqa: PLC0415

    def run_request(*, writes: bool, version: int | None = None) -> "Report":
        must_exist = show or undo or bool(change)
        with DesignSession(store, agent, writes=writes, must_exist=must_exist) as session:
            if text is not None:
                return session.say(text, version)
            if run_phases:
                return session.run_phases(version)
            if undo:
                return session.undo(version)
            return session.set_access(change) if access or change else session.show()

    is_trial = dry_run or show or store is None
    is_asked = not (is_trial or yes or as_json) and _is_interactive()
    answer = run_request(writes=not (is_trial or is_asked))
    if is_asked and answer.is_done:
        _print(answer)
        if not typer.confirm("Do it?"):
            say("Nothing was changed.")
            return 1
        # Without a hold on the store meanwhile: a design that has moved on refuses.
        answer = run_request(writes=True, version=answer.version)
    if as_json:
        say_json({**answer.document, "dry_run": dry_run, "store": store})
    else:
        if not (is_asked and answer.is_done):  # the question has shown it already
            _print(answer)
        if answer.is_done and not show:
            _print_location(store, is_trial=is_trial)
    return 0 if answer.is_done and answer.is_well else 1


def _access_change(
    owner: str | None, editors: str | None, readers: str | None
) -> "dict[str, Json]":
    """Return the parts of the access that the options replace."""
    change: dict[str, Json] = {} if owner is None else {"owner": owner}
    for field, names in (("editors", editors), ("readers", readers)):
        if names is not None:
            change[field] = [name for part in names.split(",") if (name := part.strip())]
    return change


def _print(answer: "Report") -> None:
    say_lines(answer.lines)


def _print_location(store: str | None, *, is_trial: bool) -> None:
    """Print where the design is stored; on stderr, so that an export can be piped."""
    if store is None or is_trial:
        message = "Nothing was kept: " + ("it was a dry run." if store else "there is no --store.")
    else:
        message = f"Saved. To show it: placet design --show --store {quote(store)}"
    notify("")
    notify(message)


def _is_interactive() -> bool:
    """Return whether the user is at a terminal and can be prompted."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
