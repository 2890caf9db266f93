"""`placet bench`: how fast is it, on this machine?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from placet.cli.progress import progress_bar
from placet.cli.terminal import CommandError, Line, Output, with_json
from placet.schemas.codec import Json, to_json
from placet.schemas.documents import DocumentError, parse_json
from placet.stores.files import write_whole

if TYPE_CHECKING:
    from placet_bench.own import DomainStep

_INTENT_BYTES_MAX = 1_000_000


_Workloads: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WORKLOAD]...", help="Such as w1 w4. Default: the main ones."),
]
_Scenario: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME|FILE", help="Measure the ticks of this scenario instead."),
]
_Domain: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|MODULE:CLASS", help="Measure batches of --intent in this domain instead."
    ),
]
_Agents: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of agents of --scenario, divided in proportion, or of --domain. "
        "Default: those of the scenario; 100 of a domain.",
    ),
]
_Intent: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND=JSON",
        help='An intent of each batch of --domain, such as Move={"to":[1,2]}. Repeatable.',
    ),
]
_Batch: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Intents of a batch of --domain. Default: one each."),
]
_Attributes: TypeAlias = Annotated[
    str,
    typer.Option(metavar="JSON", help="Attributes with which the agents of --domain register."),
]
_Seconds: TypeAlias = Annotated[
    float, typer.Option(min=0.01, metavar="S", help="Duration of each measurement, seconds.")
]
_ColumnAgents: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar="N",
        help="One more size of the populations of workload columns, such as 1000000.",
    ),
]
_To: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the results there, as JSON.")
]
_Compare: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Compare with the results that --to wrote earlier."),
]
_Plot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html", help="Draw the figures of --compare as one page without a network."
    ),
]


@with_json
def bench(  # noqa: PLR0917  # the options of a command
    workloads: _Workloads = None,
    scenario: _Scenario = None,
    domain: _Domain = None,
    agents: _Agents = None,
    intent: _Intent = None,
    batch: _Batch = None,
    attributes: _Attributes = "{}",
    seconds: _Seconds = 5.0,
    column_agents: _ColumnAgents = None,
    to: _To = None,
    compare: _Compare = None,
    plot: _Plot = None,
) -> Output:
    """Measure workloads beside a hand-written loop, or a model of yours."""
    # Here, because no other command needs the benchmarks and their imports.
    from placet_bench import notes_of, tables_of  # noqa: PLC0415  # see above

    if to is not None and not to.parent.is_dir():
        raise CommandError(f"cannot write {to}: there is no folder {to.parent}")
    old = _earlier(compare, plot)
    if scenario is None and domain is None:
        if agents is not None or batch is not None or intent or attributes != "{}":
            raise CommandError(
                "--agents, --batch, --intent and --attributes need --scenario or --domain"
            )
        results = _suite(workloads or (), seconds, column_agents)
    else:
        if column_agents is not None:
            raise CommandError("--column-agents belongs to the workload columns")
        if workloads or (scenario and domain):
            raise CommandError("name workloads, --scenario or --domain: one of the three")
        result = _own(
            scenario=scenario,
            domain=domain,
            agents=agents,
            intents=intent or (),
            batch=batch,
            attributes=attributes,
            seconds=seconds,
        )
        results = [result]
    lines: list[Line] = []
    for table in tables_of(results):
        lines += [table, ""]
    lines += notes_of(results)
    last = results[-1]
    lines.append(f"{last['python']}; {last['machine']}; load {last['load']}; {seconds:g} s each")
    if compare is not None and old is not None:
        lines += _compared(old, results, compare, plot)
    if to is not None:
        try:
            write_whole(to, to_json(results) + b"\n")
        except OSError as error:
            raise CommandError(f"cannot write {to}: {error.strerror}") from error
    return Output(results, lines)


def _earlier(compare: Path | None, plot: Path | None) -> list[dict[str, Json]] | None:
    """Return the results to compare with, after a check that a plot of them can be written."""
    from placet_bench.comparing import read_results  # noqa: PLC0415  # as in `bench`
    from placet_bench.comparison_page import require_page  # noqa: PLC0415  # as in `bench`

    if plot is not None:
        if compare is None:
            raise CommandError("--plot draws a comparison; add --compare FILE of earlier results")
        require_page(plot)
    return None if compare is None else read_results(compare)


def _compared(
    old: list[dict[str, Json]], new: list[dict[str, Json]], path: Path, plot: Path | None
) -> list[Line]:
    from placet_bench.comparing import changes, circumstances, table_of  # noqa: PLC0415  # as above
    from placet_bench.comparison_page import write_page  # noqa: PLC0415  # as in `bench`

    was, now, warnings = circumstances(old, new)
    if plot is not None:
        write_page(plot, old, new, str(path))
    return [
        "",
        table_of(list(changes(old, new))),
        f"old: {was}",
        f"new: {now}",
        *(f"warning: {text}" for text in warnings),
        *([] if plot is None else [f"{plot} shows the comparison"]),
    ]


def _suite(
    workloads: Sequence[str], seconds: float, column_agents: int | None
) -> list[dict[str, Json]]:
    from placet_bench import WORKLOADS, Scale, run  # noqa: PLC0415  # as in `bench`

    names = [name.lower() for name in workloads]
    for name in names:
        if name not in WORKLOADS:
            raise CommandError(
                f"unknown workload {name!r}; the workloads are {', '.join(WORKLOADS)}"
            )
    scale = Scale()
    if column_agents is not None:
        scale = replace(scale, column_agents=(*scale.column_agents, column_agents))
    with progress_bar("bench", None, "workloads") as on_progress:
        return run(names, seconds, scale=scale, on_progress=on_progress)


def _own(
    *,
    scenario: str | None,
    domain: str | None,
    agents: int | None,
    intents: Sequence[str],
    batch: int | None,
    attributes: str,
    seconds: float,
) -> dict[str, Json]:
    from placet_bench.own import ScenarioStep, own_figures  # noqa: PLC0415  # as in `bench`
    from placet_bench.report import described  # noqa: PLC0415  # as in `bench`

    if scenario is not None:
        if intents or batch is not None or attributes != "{}":
            raise CommandError("--intent, --batch and --attributes belong to --domain")
        from placet.scenarios import Scenario  # noqa: PLC0415  # as in `bench`

        loaded = Scenario.load(scenario)
        ticks = ScenarioStep(loaded if agents is None else loaded.with_agents(agents))
        return described(f"scenario {loaded.name}", own_figures(ticks, seconds), seconds)
    assert domain is not None, "one of the two is given"
    batches = _domain_step(domain, agents or 100, intents, batch, attributes)
    return described(f"domain {domain}", own_figures(batches, seconds), seconds)


def _domain_step(
    domain: str, agents: int, intents: Sequence[str], batch: int | None, attributes: str
) -> "DomainStep":
    from placet.plugins.domains import find_domain, make_domain  # noqa: PLC0415  # as in `bench`
    from placet_bench.own import DomainStep  # noqa: PLC0415  # as in `bench`

    if not intents:
        raise CommandError("--domain needs an intent to measure: --intent 'Move={\"to\":[1,2]}'")
    parsed = [_parsed_intent(text) for text in intents]
    count = batch or len(parsed)
    cycle = [parsed[number % len(parsed)] for number in range(count)]
    keywords = _parsed(attributes, "--attributes")
    if not isinstance(keywords, dict):
        raise CommandError(f"--attributes must be a JSON object, got {attributes!r:.80}")
    made = make_domain(domain, find_domain(domain), {})
    known = [kind.name for kind in made.kinds]
    for kind, _ in parsed:
        if kind not in known:
            raise CommandError(f"{domain} has no kind {kind!r}; there are {', '.join(known)}")
    return DomainStep(made, agents, cycle, keywords)


def _parsed_intent(text: str) -> tuple[str, Any]:
    kind, equals, payload = text.partition("=")
    if not equals:
        raise CommandError(f"--intent must be KIND=JSON, got {text!r:.80}")
    return kind, _parsed(payload, f"--intent {kind}")


def _parsed(text: str, option: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        return parse_json(text.encode(), bytes_max=_INTENT_BYTES_MAX)
    except DocumentError as error:
        raise CommandError(f"{option}: no JSON: {error}") from error
