"""`placet fork`: fork a world, and optionally re-execute the later inputs of its parent in it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from placet.cli import completion
from placet.cli.domains import AgainBy, again_by
from placet.cli.progress import read_log
from placet.cli.terminal import (
    CommandError,
    Line,
    Output,
    StoreArgument,
    TextTable,
    pluralize,
    with_json,
)
from placet.kernel.control.operator_patch import EFFECTS
from placet.schemas.codec import Json, from_json
from placet.schemas.limits import SEED_MAX
from placet.stores.files import unquoted

if TYPE_CHECKING:
    from placet.history.counterfactual import CounterfactualReport
    from placet.history.fork import Fork
    from placet.history.position import Position

_CHANGED_SHOWN: Final = 10


_At: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="SEQ",
        help="Fork after the record of this seq (the end of a batch). Default: the end of the log. "
        "A run is forked between two ticks: inside a tick means before it.",
    ),
]
_AtTick: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, metavar="T", help="Fork after T ticks; 0 is before the first batch."),
]
_AtRecord: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, metavar="R", help="Fork after record R, as `placet log` numbers them."),
]
_Seed: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, max=SEED_MAX, metavar="S", help="Seed of the fork. Default: the parent's."),
]
_Put: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="P=JSON",
        help="Start with this value at collection/entity/field, or at collection/entity with "
        "all its fields; null deletes an entity. Repeatable.",
    ),
]
_Effects: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="refuse|simulate",
        help="Refuse intents that need an executor, or admit them as if the parent's executors "
        "were there; no effect is run. Default: simulate with --replay, else refuse.",
    ),
]


@with_json
def fork(
    store: StoreArgument,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Path of the new log; it must not exist.")
    ],
    *,
    at: _At = None,
    at_tick: _AtTick = None,
    at_record: _AtRecord = None,
    put: _Put = None,
    drop_agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A",
            help="Start without this agent. Repeatable.",
            autocompletion=completion.agents,
        ),
    ] = None,
    seed: _Seed = None,
    world: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the new world. Default: a new name.")
    ] = None,
    effects: _Effects = None,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Re-execute the parent's later inputs in the fork."),
    ] = False,
    domain: AgainBy = None,
) -> Output:
    """Fork a world into a separate log.

    The parent may be running. The fork begins with the parent's records up to the position, so it
    can be verified and explained. Its world has another name, so its effects have other keys.
    """
    if sum(number is not None for number in (at, at_tick, at_record)) > 1:
        raise typer.BadParameter("give one of --at, --at-tick and --at-record")
    # Here, because pydantic and scenarios come with them.
    from placet.history import fork as forking  # noqa: PLC0415  # see above
    from placet.history.position import Position  # noqa: PLC0415  # see above
    from placet.scenarios.resume import indivisible_ns  # noqa: PLC0415  # see above

    options = forking.ForkOptions(
        world=world,
        seed=seed,
        effects=_effects(effects, is_replayed=replay),
        put=dict(map(_assignment, put or ())),
        dropped=tuple(drop_agent or ()),
        is_replayed=replay,
    )
    log = read_log(store, "fork")
    tick_ns = indivisible_ns(log)
    position = Position(seq=at, tick=at_tick, record=at_record, whole_ticks_ns=tick_ns)
    try:
        made = forking.fork(log, new, options, at=position, domains=again_by(domain))
    except ValueError as error:  # a name that is none
        raise CommandError(str(error)) from error
    return Output(made.as_dict, _lines(store, made, position))


def _effects(effects: str | None, *, is_replayed: bool) -> str:
    if effects is None:
        return "simulate" if is_replayed else "refuse"
    if effects not in EFFECTS:
        ways = " or ".join(EFFECTS)
        raise typer.BadParameter(f"expected {ways}, got {effects!r}", param_hint="--effects")
    return effects


def _assignment(text: str) -> tuple[str, Json]:
    path, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(
            f"needs a path and a value, P=JSON; got {text!r}", param_hint="--set"
        )
    try:
        return path, from_json(value)
    except ValueError as error:
        raise typer.BadParameter(
            f"{path} needs JSON after its '=' (a string in double quotes): {error}",
            param_hint="--set",
        ) from error


def _lines(store: str, made: "Fork", at: "Position") -> list[Line]:
    path = unquoted(made.store.removeprefix("sqlite:///"))
    lines: list[Line] = [
        f"{path} is a fork of {store} at seq {made.seq}, named {made.world}",
        TextTable(
            [
                ("parent", f"{made.parent}, up to record {made.record - 1}, hash {made.chain}"),
                ("digest", made.digest),
                ("seed", str(made.seed)),
                ("effects", made.effects),
            ]
        ),
    ]
    if at.seq not in {None, made.seq} or at.record not in {None, made.record - 1}:
        inside = f"seq {at.seq}" if at.record is None else f"record {at.record}"
        lines.append(
            f"This is before the tick that contains {inside}: the batches of a tick are decided "
            "together, and a run continues with whole ticks."
        )
    if made.open_effects:
        lines.append(
            f"Open at seq {made.seq}: {pluralize(made.open_effects, 'effect')} of the parent; "
            "the fork does not run them."
        )
    return [
        *lines,
        *([] if made.counterfactual is None else _counterfactual_lines(made.counterfactual)),
    ]


def _counterfactual_lines(report: "CounterfactualReport") -> Sequence[Line]:
    count = pluralize(report.batches, "batch", "batches")
    lines: list[Line] = [
        f"Re-executed: {count} of the parent, in the recorded order. Agents do not react.",
        TextTable(
            [
                ("same result", str(report.same)),
                ("now refused", str(report.refused_instead)),
                ("now admitted", str(report.admitted_instead)),
                ("another verdict", str(report.other_differences)),
                ("same result, other changes", str(report.other_changes)),
                ("left out, of dropped agents", str(report.not_proposed)),
            ]
        ),
    ]
    for batch in report.changed[:_CHANGED_SHOWN]:
        now = "not proposed" if batch.now is None else str(batch.now)
        who = f"{', '.join(batch.was.agent_ids)} {', '.join(batch.was.req_ids)}"
        lines.append(f"  after seq {batch.seq}, {batch.sim_time:g} s: {who}: {batch.was} -> {now}")
        lines.append(f"      {batch.why}")
    more = (
        report.refused_instead + report.admitted_instead + report.other_differences - _CHANGED_SHOWN
    )
    if more > 0:
        lines.append(f"  and {more} more; all of them with --json or placet diff")
    if report.effects_answered or report.effects_unanswered:
        lines.append(
            f"Effects: {report.effects_answered} got the recorded outcome, "
            f"{report.effects_unanswered} recorded outcomes belong to effects not requested here."
        )
    lines += [f"note: {note}" for note in report.notes]
    if report.stopped:
        lines.append(f"Stopped before the end: {report.stopped}")
    here, there = (report.seq, report.digest), (report.parent_seq, report.parent_digest)
    ends = "The fork ends at seq {}, digest {}; the parent at seq {}, digest {}"
    return [*lines, ends.format(*here, *there)]
