"""The report of a run, for people."""

from collections.abc import Iterator
from shlex import quote
from typing import Final

from placet.cli.terminal import (
    ColoredLine,
    Line,
    TextTable,
    number,
    pluralize,
    shorten,
)
from placet.history.reader import IntegrityReport
from placet.scenarios.report import RunReport
from placet.schemas.printable import printable
from placet.stores.url import file_of, open_event_log

_EXAMPLE_CHARACTERS: Final = 100

MEMORY: Final = "memory://"
"""The store of a run that keeps no log."""


def report_lines(
    report: RunReport, verification: IntegrityReport | None, stopped_by: str
) -> Iterator[Line]:
    """Yield the report of a run as lines and tables: results, log verification, next commands.

    Args:
        report: Results of the run.
        verification: Verification of the run's log; None if it was not verified.
        stopped_by: Name of the signal that ended the run, if one did.
    """
    scenario = report.scenario
    yield f"{scenario.name}: {scenario.title}" if scenario.title else scenario.name
    if report.resumed_at is not None:
        yield f"resumed at tick {report.resumed_at} of {scenario.ticks}"
    if report.is_stopped:
        note = "" if report.store == MEMORY else "; the log has all of them"
        yield f"stopped by {stopped_by} after tick {report.ticks} of {scenario.ticks}{note}"
    yield ""
    yield TextTable(_figures(report))
    if report.refusals:
        yield ""
        yield "  refused, by stage/code, with the first message of each"
        yield TextTable(_refusals(report), indent="    ")
    if report.fairness.wins:
        yield ""
        yield "  contention"
        yield TextTable(_contests(report), indent="    ")
    yield ""
    yield from _kept(report, verification)


def _figures(report: RunReport) -> list[tuple[str, str]]:
    scenario = report.scenario
    done = report.ticks - (report.resumed_at or 0)
    people, ticks = pluralize(scenario.agents_count, "agent"), pluralize(done, "tick")
    batches = pluralize(report.batches, "batch", "batches")
    submitted, admitted = number(report.submitted), number(report.admitted)
    refused = number(report.submitted - report.admitted)
    sim_s = done * scenario.tick_s
    rows = [
        ("simulated", f"{people}, {ticks} ({sim_s:g} s), in {report.seconds:.1f} s"),
        (
            "intents",
            f"{submitted} submitted in {batches}: {admitted} admitted, {refused} refused",
        ),
        ("throughput", f"{number(report.intents_per_second)} intents/s, the agents' time included"),
    ]
    p50, p99 = report.verdict_ms.get("p50"), report.verdict_ms.get("p99")
    if p50 is not None and p99 is not None:
        rows.append(
            ("verdict", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms after the batch was submitted")
        )
    if "factor" in report.time:
        lowest, behind = report.time["factor_lowest"], report.time["behind_s"]
        slow = f"{lowest:.2f} of real time at the slowest, {behind:.1f} s behind it at the end"
        rows.append(("time", slow))
    rows.append(("digest", f"{report.digest} at seq {report.seq}, seed {scenario.seed}"))
    rows.append(("head", f"{report.head} of the log's chain"))
    return rows


def _refusals(report: RunReport) -> list[tuple[str, str, str]]:
    return [
        (key, number(count).rjust(7), shorten(printable(report.examples[key]), _EXAMPLE_CHARACTERS))
        for key, count in report.refusals.most_common()
    ]


def _contests(report: RunReport) -> list[tuple[str, str]]:
    fairness = report.fairness.as_dict(report.scenario.agents_count)
    won, agents = number(fairness["contests"]), pluralize(fairness["contestants"], "agent")
    even, drawn = fairness["jain_wins"], fairness["jain_wins_of_a_lottery"]
    rows = [
        ("contests", f"{won} won, {agents} took part"),
        ("Jain's index", f"wins {even:.3f}; a fair lottery would give {drawn:.3f}"),
        ("", f"decided batches {fairness['jain_decided']:.3f}; 1 means equal for every agent"),
    ]
    lost = [
        f"{loser} to {winner} {pluralize(n, 'time')}"
        for (loser, winner), n in report.fairness.top_pairs()
    ]
    return [*rows, ("most contended pairs", ", ".join(lost))]


def _kept(report: RunReport, verification: IntegrityReport | None) -> Iterator[Line]:
    if report.store == MEMORY:
        yield "  The log was in memory and is gone; leave out --store to keep it in a file."
        return
    name = quote(str(file_of(open_event_log(report.store)) or report.store))
    if verification is None:
        yield f"  The log is {name}; it was not verified (--no-verify)."
    elif not verification.is_ok:
        first = verification.first_divergence or {}
        why = f"  The log {name} is NOT valid from record {first['record']} on: {first['why']}"
        yield ColoredLine(why, "red")
        return
    else:
        yield ColoredLine(
            f"  The log {name} is verified: {pluralize(verification.records, 'record')}, "
            "the chain is unbroken and every digest is right.",
            "green",
        )
    if report.is_stopped:
        yield f"  Resume it:\n    placet run --resume {name}"
    yield "  Next:"
    yield f"    placet log {name} --from {max(0, report.seq - 20)}"
    agent_id = next((member.agent_id for member in report.scenario.members()), None)
    if agent_id is not None and report.scenario.domain == "world":
        yield f"    placet replay {name} --path world.agents/{agent_id}"
    yield f"    placet verify {name}"
