"""`placet effects`.

Effects that are open, in doubt or given up, and their settlement by an operator.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from placet.actors.ports import EventLog
from placet.cli import completion
from placet.cli.progress import read_log
from placet.cli.terminal import (
    CommandError,
    Line,
    Output,
    StoreArgument,
    TextTable,
    complain,
    pluralize,
    shorten,
    with_json,
)
from placet.history.effects import dead_letters, open_effects
from placet.history.reader import config_of
from placet.schemas.codec import Json, from_json, to_json
from placet.schemas.effect import (
    EFFECT_STATES,
    EffectKey,
    EffectStatus,
    Settlement,
    call_key_of,
)
from placet.schemas.errors import ValidationError
from placet.schemas.json_value import InvalidJsonValue
from placet.schemas.printable import printable
from placet.stores.url import file_of

_OUTCOMES: Final = ("done", "failed")
_TEXT_CHARACTERS_MAX: Final = 60

_State: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="STATE", help=f"Only effects in this state: {', '.join(EFFECT_STATES)}."),
]
_Resolve: TypeAlias = Annotated[
    tuple[str, str],
    typer.Option(
        metavar="KEY done|failed",
        show_default=False,
        help="Settle an effect by hand, with the outcome that you found. KEY is WORLD/SEQ/INDEX, "
        "or that of a call of a tool.",
    ),
]
_SettleAgain: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="WORLD/SEQ/INDEX|all",
        help="Call on_settle again for a dead letter whose outcome is recorded, or for all.",
    ),
]
_Output: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="With --resolve: the output, or the reason of the failure."),
]
_Domain: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        metavar="D",
        help="With --resolve or --settle-again, if the log does not have the settings of its "
        "domain: an installed name or module:attribute.",
        autocompletion=completion.domains,
    ),
]


@with_json
def effects(
    store: StoreArgument,
    *,
    kind: Annotated[
        str | None, typer.Option(help="Only effects of this kind.", autocompletion=completion.kinds)
    ] = None,
    state: _State = None,
    resolve: _Resolve = ("", ""),
    settle_again: _SettleAgain = None,
    output: _Output = None,
    domain: _Domain = None,
) -> Output:
    """List open, doubtful and failed effects.

    An effect is open until it is settled. An effect that runs at most once is `started` while a
    served world runs it, and `in_doubt` if its outcome is unknown: find the outcome, and record it
    with --resolve while the store is not in use. A dead letter was given up, or the domain's
    on_settle raised: then its outcome is recorded, and --settle-again applies it with mended rules.
    An effect that its handler or a person reported as not done is listed by --state failed alone.
    """
    if state is not None and state not in EFFECT_STATES:
        raise typer.BadParameter(f"--state must be one of {', '.join(EFFECT_STATES)}")
    log = read_log(store, "effects")
    path = file_of(log)
    if any(resolve):
        return _resolve(log, path, resolve, output, domain or ())
    if settle_again is not None:
        return _settle_again(log, path, settle_again, domain or ())
    if output is not None or domain:
        raise typer.BadParameter(
            "--output goes with --resolve, and --domain with it or --settle-again"
        )
    unsettled = _unsettled(log, path, state)
    listed = [
        effect
        for effect in unsettled
        if (state is None or effect.state == state) and (kind is None or effect.kind == kind)
    ]
    return Output([effect.as_dict() for effect in listed], _lines(listed))


def _unsettled(log: EventLog, path: Path | None, state: str | None) -> list[EffectStatus]:
    from placet.stores.sqlite.file import is_in_use  # noqa: PLC0415  # and SQLite with it

    listed = open_effects(log, is_running=True)
    is_under_way = any(effect.state == "started" for effect in listed)
    if is_under_way and path is not None and not is_in_use(path, log.url):
        listed = open_effects(log, is_running=False)
    config = config_of(log)
    if state not in {None, "dead", "failed"} or config is None:
        return listed
    settled = dead_letters(log, config.world)
    return [*listed, *[one for one in settled if state is not None or one.state == "dead"]]


def _lines(listed: Sequence[EffectStatus]) -> list[Line]:
    if not listed:
        return ["no such effects"]
    rows = []
    for effect in listed:
        why = effect.why if isinstance(effect.why, str) else to_json(effect.why).decode()
        payload = to_json(effect.as_dict()["payload"]).decode()
        about = [str(effect.key), effect.kind, effect.state, effect.agent_id]
        rows.append([*about, _short(payload), _short(why)])
    head = ("effect", "kind", "state", "agent", "payload", "why")
    return [TextTable(rows, head, indent=""), pluralize(len(listed), "effect")]


def _short(text: str) -> str:
    return shorten(printable(text), _TEXT_CHARACTERS_MAX)


def _resolve(
    log: EventLog,
    path: Path | None,
    resolve: tuple[str, str],
    output: str | None,
    domain: Sequence[str],
) -> Output:
    from placet.runtime.executors.offline_settlement import resolve as resolve_effect  # noqa: PLC0415  # and SQLite

    settlement = _settlement(log, *resolve, output)
    try:
        is_written = resolve_effect(log, path, settlement, domain)
    except (InvalidJsonValue, ValidationError) as error:
        raise CommandError(f"nothing was written: {error}") from None
    if not is_written:
        raise CommandError(
            f"nothing was written: effect {settlement.key} is settled already, or was never "
            f"declared; `placet effects` lists the open effects"
        )
    value = {"key": str(settlement.key), "outcome": resolve[1]}
    return Output(value, [f"effect {settlement.key} is settled: {resolve[1]}"])


def _settle_again(log: EventLog, path: Path | None, text: str, domain: Sequence[str]) -> Output:
    from placet.runtime.executors.offline_settlement import settle_again  # noqa: PLC0415  # and SQLite

    keys = None if text == "all" else {_key(text)}
    outcomes = settle_again(log, path, keys, domain, on_kept_version=_warn_of_kept_version)
    if keys is not None and not outcomes:
        raise CommandError(
            f"nothing was written: effect {text} has no outcome that can be settled again; "
            "`placet effects --state dead` lists the dead letters"
        )
    value = [{"key": str(key), "error": error or None} for key, error in outcomes.items()]
    lines = [
        f"effect {key} {f'is still a dead letter: {error}' if error else 'is settled'}"
        for key, error in outcomes.items()
    ]
    return Output(value, lines or ["no dead letters"], not any(outcomes.values()))


def _warn_of_kept_version(domains: str) -> None:
    complain(
        f"warning: the log has the same domain version ({domains}); if the rules were mended, "
        "`placet verify` of this log fails: change the domain's version before settling again"
    )


def _key(text: str) -> EffectKey:
    try:
        return EffectKey.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _effect_of(log: EventLog, text: str) -> EffectKey:
    """Return the key of an effect, by itself or by the key of the call that has it.

    The key of an effect of this world is never taken for that of a call.

    Raises:
        CommandError: Several open calls have this key.
        BadParameter: It is the key of no effect, and no open call has it.
    """
    effects, config = open_effects(log, is_running=False), config_of(log)
    calls = [effect.key for effect in effects if call_key_of(effect.payload) == text]
    try:
        key = EffectKey.parse(text)
    except ValueError as error:
        if not calls:
            raise typer.BadParameter(f"{error}, and no open call has this key") from None
    else:
        if not calls or (config is not None and config.world == key.world):
            return key
    if len(calls) > 1:
        listed = ", ".join(map(str, calls))
        raise CommandError(
            f"nothing was written: {len(calls)} open calls have the key {text!r}; expected the key "
            f"of one effect: {listed}"
        )
    return calls[0]


def _settlement(log: EventLog, key: str, outcome: str, output: str | None) -> Settlement:
    if outcome not in _OUTCOMES:
        raise typer.BadParameter(f"an effect was done, or failed; got {outcome!r}")
    try:
        value: Json = None if output is None else from_json(output)
    except ValueError as error:
        raise typer.BadParameter(f"--output is not JSON: {error}") from None
    return Settlement(_effect_of(log, key), outcome == "done", value)
