"""`placet policy check` and `placet backtest`."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from placet.cli.command_table import APPLICATION, CommandGroup
from placet.cli.domains import AgainBy
from placet.cli.progress import read_log
from placet.cli.terminal import (
    ColoredLine,
    CommandError,
    Line,
    Output,
    StoreArgument,
    TextTable,
    json_line,
    pluralize,
    show_help_alone,
    with_json,
)
from placet.plugins.domains import import_from_here
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.backtest import BacktestReport
from placet_tools.frontend.backtest import backtest as run_backtest
from placet_tools.frontend.drills import DrilledTool, run_drills
from placet_tools.frontend.policy_examples import ExampleResult, run_examples
from placet_tools.frontend.policy_file import domain_of
from placet_tools.frontend.policy_limits import ToolLimits, limits_of
from placet_tools.pinned import NAME
from placet_tools.policy import ToolPolicyError
from placet_tools.tool import ToolError
from placet_tools.tools import Tools

_LISTED_MAX: Final = 50
"""Changed calls that are printed; `--json` has more."""

_LIMITS: Final = ["tool", "a person is asked", "limits in force"]
_DRILLS: Final = ["tool", "delivery", "raises", "called again", "hangs", "killed in the call"]

ToolsOption = Annotated[
    str, typer.Option("--tools", metavar="M:T", help="The tools, as module:attribute.")
]

policy: Final = typer.Typer(name="policy", cls=CommandGroup, **APPLICATION)


@policy.callback(invoke_without_command=True)
def policy_without_command(context: typer.Context) -> None:
    """Check the policy of a gate before tools."""
    show_help_alone(context)


@policy.command()
@with_json
def check(
    file: Annotated[str, typer.Argument(metavar="POLICY", help="Path of the policy, TOML.")],
    tools: Annotated[
        str, typer.Option("--tools", metavar="M:T", help="The tools, as module:attribute.")
    ] = "",
    server: Annotated[
        str,
        typer.Option(
            metavar="COMMAND|URL",
            help="Instead of --tools: the MCP server of a gateway, which is started and lists its "
            "tools.",
        ),
    ] = "",
) -> Output:
    """Parse a policy, list its limits, decide its examples, and drill their tools. No tool runs.

    A drill shows the end of a call whose function raises, hangs, or is killed. With --server there
    are no drills, because the functions are the server's. Exit code 1 if the policy does not fit
    the tools, or an example has another answer.
    """
    if bool(tools) == bool(server):
        raise typer.BadParameter("give --tools M:T, or --server COMMAND of a gateway's server")
    if server:
        return _check_server(file, server)
    declared = tools_at(tools)
    try:
        domain = domain_of(declared, "high", file)
        results = run_examples(declared, file)
        drilled = run_drills(declared, [one.example for one in results])
    except (ToolPolicyError, ToolError) as error:
        raise CommandError(str(error)) from None
    return _report(file, results, drilled, _limits_of(domain))


def _check_server(file: str, server: str) -> Output:
    """Check the policy of a gateway by the tools that the server lists."""
    from placet_tools.frontend.gateway.links import ServerUnreachable  # noqa: PLC0415  # an extra
    from placet_tools.frontend.gateway.policy import gateway_policy  # noqa: PLC0415  # as above
    from placet_tools.frontend.gateway.server_tools import tools_of_server  # noqa: PLC0415  # as above
    from placet_tools.frontend.gateway.tool_gate import ServerFault  # noqa: PLC0415  # as above

    try:
        policy_of_file = gateway_policy(file)
        found = asyncio.run(tools_of_server(server, policy_of_file, NAME))
    except (ToolPolicyError, ToolError, ServerFault, ServerUnreachable) as error:
        raise CommandError(str(error)) from None
    try:
        rules = policy_of_file.rules or {}
        domain, results = domain_of(found.tools, "high", rules), run_examples(found.tools, rules)
    except ToolPolicyError as error:
        raise CommandError(f"{file}: {error}") from None
    listed = [name for name in found.tools.by_name if name not in policy_of_file.declared]
    output = _report(file, results, [], _limits_of(domain))
    notes: list[Line] = [f"note: a tool is left out: {fault}" for fault in found.faults]
    if listed:
        notes.append(f"note: the policy does not list {', '.join(listed)}")
    value = {**output.value, "tools": list(found.tools.by_name), "unlisted": listed}
    return Output(value, [*output.lines, *notes], output.is_ok)


def _limits_of(domain: ToolsDomain) -> list[ToolLimits]:
    policy = domain.enforced.policy
    assert policy is not None, "the domain was made with a policy"
    return limits_of(policy, domain.tools, domain.approve_from)


def _report(
    file: str,
    results: Sequence[ExampleResult],
    drilled: Sequence[DrilledTool],
    limits: Sequence[ToolLimits],
) -> Output:
    wrong = [one for one in results if not one.is_ok]
    counted = pluralize(len(results), "example")
    lines: list[Line] = [ColoredLine(f"{file} fits the tools; {counted}", "green")]
    if wrong:
        lines = [ColoredLine(f"{file} fits the tools; {len(wrong)} of {counted} differ", "red")]
        rows = [_row(one) for one in wrong]
        lines.append(TextTable(rows, ["example", "call", "expected", "got", "why"]))
    lines += ["", TextTable([row for one in limits for row in _limit_rows(one)], _LIMITS)]
    lines += [ColoredLine(f"warning: {one.warning}", "yellow") for one in limits if one.warning]
    if drilled:
        lines += ["", TextTable([_drill_row(one) for one in drilled], _DRILLS)]
    report = {
        "ok": not wrong,
        "examples": [one.as_dict() for one in results],
        "limits": [one.as_dict() for one in limits],
        "drills": [one.as_dict() for one in drilled],
    }
    return Output(report, lines, not wrong)


def _limit_rows(limits: ToolLimits) -> list[list[str]]:
    first, *others = limits.limits or ("none",)
    return [[limits.tool, limits.asks, first], *[["", "", one] for one in others]]


def _drill_row(drilled: DrilledTool) -> list[str]:
    killed = f"{drilled.killed}, {pluralize(drilled.runs, 'run')}"
    fields = (drilled.tool, drilled.delivery, drilled.raises, drilled.again, drilled.hangs)
    return [*fields, killed]


def _row(result: ExampleResult) -> list[str]:
    example, answer = result.example, result.answer
    got = ", ".join([answer.status, *answer.codes])
    call = f"{example.call.tool} {json_line(dict(example.call.arguments))}"
    return [example.place, call, example.gives, got, answer.message]


@with_json
def backtest(
    log: StoreArgument,
    policy_file: Annotated[
        str, typer.Option("--policy", metavar="POLICY", help="Path of the new policy, TOML.")
    ],
    tools: ToolsOption,
    domain: AgainBy = None,
) -> Output:
    """Judge each recorded call of a log by a policy, and print what would change.

    Each call is judged at its recorded state: after the calls before it as they were decided then.
    Exit code 1 if a call would have another answer.
    """
    try:
        found = run_backtest(
            read_log(log, "backtest"), tools_at(tools), policy_file, domains=domain or ()
        )
    except ToolPolicyError as error:
        raise CommandError(str(error)) from None
    return Output(found.as_dict(), _lines(found), not found.changes)


def _lines(found: BacktestReport) -> list[Line]:
    same = found.calls - found.changes.total()
    lines: list[Line] = [f"{pluralize(found.calls, 'call')}, {same} with the same answer"]
    counts = [[f"{was} → {now}", str(n)] for (was, now), n in sorted(found.changes.items())]
    if counts:
        lines.append(TextTable(counts, ["change", "calls"]))
        rows = [
            [
                str(one.record),
                one.agent,
                f"{one.tool} {json_line(one.arguments)}",
                f"{one.was.status} → {one.now.status}",
                one.now.message or one.was.message,
            ]
            for one in found.changed[:_LISTED_MAX]
        ]
        lines += ["", TextTable(rows, ["record", "agent", "call", "change", "why"])]
    left = found.changes.total() - _LISTED_MAX
    lines += [f"  … and {pluralize(left, 'more call')}; --json lists them"] * (left > 0)
    return [*lines, *[f"note: {note}" for note in found.notes]]


def tools_at(spec: str) -> Tools:
    """Return the tools that a module has.

    Args:
        spec: `module:attribute`, also of a module in the current folder.

    Raises:
        CommandError: There is no such module, or it has no such tools.
    """
    module_name, colon, attribute = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise CommandError(f"--tools names module:attribute, such as shop:tools, got {spec!r}")
    try:
        module = import_from_here(module_name)
    except ImportError as error:
        raise CommandError(f"cannot import the module of the tools {spec!r}: {error}") from None
    tools = getattr(module, attribute, None)
    if isinstance(tools, Tools):
        return tools
    known = [name for name, one in vars(module).items() if isinstance(one, Tools)]
    hint = f"; it has {', '.join(known)}" if known else ""
    raise CommandError(f"module {module_name!r} has no Tools {attribute!r}, got {tools!r}{hint}")
