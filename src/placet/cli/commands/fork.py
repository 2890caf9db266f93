"""`placet fork`: fork a world, and optionally re-execute the later inputs of its parent in it."""

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from placet.cli import completion
from placet.cli.domains import AgainBy, again_by
from placet.cli.progress import read_log
from placet.cli.terminal import (
    AsJson,
    CommandError,
    Line,
    Output,
    StoreArgument,
    TextTable,
    json_line,
    pluralize,
    say_lines,
    show,
)
from placet.kernel.control.operator_patch import EFFECTS
from placet.schemas.codec import Json, from_json
from placet.schemas.limits import SEED_MAX
from placet.stores.files import unquoted

if TYPE_CHECKING:
    from placet.history.counterfactual import CounterfactualReport
    from placet.history.fork import Fork
    from placet.history.position import Position
    from placet.scenarios.scenario import Scenario

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
_Setting: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        metavar="KEY=VALUE",
        help="Continue the run with another setting of its scenario, such as settings.max_step=2. "
        "Repeatable. (--set changes the state.)",
    ),
]
_Dropped: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A",
        help="Start without this agent. Repeatable.",
        autocompletion=completion.agents,
    ),
]
_World: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the new world. Default: a new name.")
]
_Replay: TypeAlias = Annotated[
    bool, typer.Option("--replay", help="Re-execute the parent's later inputs in the fork.")
]
_Run: TypeAlias = Annotated[
    bool,
    typer.Option("--run", help="Run the fork to its end, as `placet run --resume NEW` does."),
]
_Effects: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="refuse|simulate",
        help="Refuse intents that need an executor, or admit them as if the parent's executors "
        "were there; no effect is run. Default: simulate with --replay, else refuse.",
    ),
]


def fork(
    store: StoreArgument,
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Path of the new log; it must not exist.")
    ],
    *,
    at: _At = None,
    at_tick: _AtTick = None,
    at_record: _AtRecord = None,
    setting: _Setting = None,
    put: _Put = None,
    drop_agent: _Dropped = None,
    seed: _Seed = None,
    world: _World = None,
    effects: _Effects = None,
    replay: _Replay = False,
    run: _Run = False,
    domain: AgainBy = None,
    as_json: AsJson = False,
) -> int:
    """Fork a world into a separate log.

    The parent may be running. The fork begins with the parent's records up to the position, so it
    can be verified and explained. Its world has another name, so its effects have other keys.
    """
    if sum(number is not None for number in (at, at_tick, at_record)) > 1:
        raise typer.BadParameter("give one of --at, --at-tick and --at-record")
    _require_alone(setting, put, drop_agent, effects, replay)
    # Here, because pydantic and scenarios come with them.
    from placet.history import fork as forking  # noqa: PLC0415  # see above
    from placet.history.position import Position  # noqa: PLC0415  # see above
    from placet.scenarios.fork import fork_run  # noqa: PLC0415  # see above
    from placet.scenarios.resume import indivisible_ns_of, scenario_in  # noqa: PLC0415  # see above

    options = forking.ForkOptions(
        world=world,
        seed=seed,
        effects=_effects(effects, is_replayed=replay),
        put=dict(map(_assignment, put or ())),
        dropped=tuple(drop_agent or ()),
        is_replayed=replay,
    )
    log = read_log(store, "fork")
    scenario, domains = scenario_in(log), again_by(domain, log)
    if run and (scenario is None or replay):
        raise typer.BadParameter("--run continues a run of `placet run`, without --replay")
    tick_ns = None if scenario is None else indivisible_ns_of(scenario)
    position = Position(seq=at, tick=at_tick, record=at_record, whole_ticks_ns=tick_ns)
    values = _settings(scenario, store, setting or [])
    try:
        if values:
            again = fork_run(log, new, values, world=world, at=position, seed=seed, domains=domains)
            made = again.made
        else:
            made = forking.fork(log, new, options, at=position, domains=domains)
    except ValueError as error:  # a name that is none
        raise CommandError(str(error)) from error
    lines = _lines(store, made, position, values)
    if run:
        return _run_on(made, lines, as_json=as_json)
    if scenario is not None and not replay:
        lines += ["Run it on:", f"  placet run --resume {quote(_path_of(made))}"]
    return show(Output({**made.as_dict(), "settings": values}, lines), as_json=as_json)


def _require_alone(setting: list[str] | None, *others: object) -> None:
    if setting and any(others):
        raise typer.BadParameter(
            "--setting continues a run, without --set, --drop-agent, --replay and --effects; make "
            "a fork of the fork for them"
        )


def _path_of(made: "Fork") -> str:
    return unquoted(made.store.removeprefix("sqlite:///"))


def _run_on(made: "Fork", lines: Sequence[Line], *, as_json: bool) -> int:
    """Print the fork, run it to its end, and return the exit code of the run."""
    from placet.cli.commands.run import run  # noqa: PLC0415  # only here

    if not as_json:
        say_lines(lines)
    return run(resume=_path_of(made), as_json=as_json)


def _settings(scenario: "Scenario | None", store: str, given: Sequence[str]) -> dict[str, Json]:
    """Return the values of `--setting` by dotted key, each of the type that it has in the run.

    Raises:
        BadParameter: One is not of the form `KEY=VALUE`.
        CommandError: The log is of no scenario.
        ScenarioError: A value is invalid.
    """
    from placet.scenarios.loader import parse_value, split_override  # noqa: PLC0415  # pydantic
    from placet.scenarios.scenario import full_key  # noqa: PLC0415  # likewise
    from placet.scenarios.settings import settings_of  # noqa: PLC0415  # likewise
    from placet.scenarios.values import ScenarioError  # noqa: PLC0415  # likewise

    if not given:
        return {}
    if scenario is None:
        raise CommandError(
            f"{store} is of no scenario, so it has no settings to change; --set changes the state"
        )
    were = {one.key: one.value for one in settings_of(scenario)}
    values: dict[str, Json] = {}
    for each in given:
        try:
            path, text = split_override(each)
        except ScenarioError as error:
            raise typer.BadParameter(
                f"expected KEY=VALUE, such as settings.max_step=2, got {each!r}",
                param_hint="--setting",
            ) from error
        key = full_key(".".join(path))
        values[key] = parse_value(text.strip(), were.get(key), f"--setting {each}")
    return values


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


def _lines(store: str, made: "Fork", at: "Position", values: "dict[str, Json]") -> list[Line]:
    lines: list[Line] = [
        f"{_path_of(made)} is a fork of {store} at seq {made.seq}, named {made.world}",
        TextTable(
            [
                ("parent", f"{made.parent}, up to record {made.record - 1}, hash {made.chain}"),
                ("digest", made.digest),
                ("seed", str(made.seed)),
                ("effects", made.effects),
                *((key, json_line(value)) for key, value in values.items()),
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
