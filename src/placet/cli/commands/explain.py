"""`placet explain`: print the reasons of an answer, from the log alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer

from placet.cli import completion
from placet.cli.domains import AgainBy, again_by
from placet.cli.progress import read_log
from placet.cli.terminal import (
    Line,
    Output,
    StoreArgument,
    TextTable,
    is_text,
    json_line,
    quotas_text,
    rounded_line,
    with_json,
)
from placet.schemas.codec import Json
from placet.schemas.explanation import Explanation, StageReport
from placet.schemas.refusal import Stage

_Fact = Mapping[str, Json]
_LISTED_MAX: Final = 12
_CHANGES_MAX: Final = 100
_NO_TRACE: Final = """\
The log holds no verdict on this request. Either it never reached the world, or its verdict is older
than the log, or it was refused by a stage that writes no record, because the same request may be
admitted later:
  admission      the queue was full, the agent sent too fast, or the deadline was over
  structure      the batch was invalid
  agent          the agent was unknown, suspended, or not permitted
  dedup          its req_id was used before with other content
  quota          the agent exceeded its quota
  backpressure   an executor or the schedule was full
Look at the verdict that the submitter got (its code and retry_after), at the metric
placet_refusals_total by stage and code, and at the log output of the program."""


@with_json
def explain(
    store: StoreArgument,
    agent_id: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT", help="Agent of the request.", autocompletion=completion.agents
        ),
    ] = None,
    req_id: Annotated[
        str | None, typer.Argument(metavar="REQ_ID", help="Id of the request.")
    ] = None,
    seq: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Explain the record at this seq instead; with AGENT, its row of a column batch. A "
            "refusal takes no seq: give AGENT and REQ_ID.",
        ),
    ] = None,
    domain: AgainBy = None,
) -> Output:
    """Explain the verdict on a request.

    For each of the seven stages: the values it compared, and its result.

    Reads only the log, at the state of the decision. A rule that raised is run again, and its
    traceback is printed. Numbers are rounded to six digits; --json has
    all of them. Exit code 1 if the log has no verdict.
    """
    if (req_id is None) == (seq is None) or (agent_id is None and seq is None):
        raise typer.BadParameter("give AGENT and REQ_ID, or --seq N")
    if not all(is_text(name) for name in (agent_id, req_id) if name is not None):
        raise typer.BadParameter("AGENT and REQ_ID are UTF-8, as everything in a log")
    from placet.history.explain import explain as explain_request  # noqa: PLC0415  # and pydantic
    from placet.history.explain import explain_seq  # noqa: PLC0415  # above

    log, domains = read_log(store, "explain"), again_by(domain)
    if seq is not None:
        explained = explain_seq(log, seq, domains, agent_id=agent_id)
    else:
        explained = explain_request(log, agent_id or "", req_id or "", domains)
    return Output(explained.as_dict, explanation_lines(explained), explained.is_known)


def explanation_lines(explained: Explanation) -> Iterator[Line]:
    """Yield the lines and tables of an explanation of a verdict."""
    if not explained.is_known:
        yield f"{explained.agent_id} {explained.req_id}: unknown"
        yield ""
        yield from _NO_TRACE.splitlines()
        yield ""
        yield from (f"Known from the log: {note}." for note in explained.notes)
        return
    yield _headline(explained)
    yield from _batch_lines(explained)
    if explained.stages:
        yield ""
        yield _stage_table(explained.stages)
    yield from _result_lines(explained)
    for fault in explained.faults:
        yield ""
        yield f"{fault['where']}: {fault['error']} ({fault['place']})"
        yield from (f"  {line}" for line in fault["traceback"].splitlines())
    for earlier in explained.earlier:
        codes = ", ".join(earlier["codes"])
        yield (
            f"Earlier it was {earlier['answer']}{': ' if codes else ''}{codes} "
            f"(record {earlier['record']}, seq {earlier['seq']})."
        )
    yield from (f"Note: {note}." for note in explained.notes)


def _headline(explained: Explanation) -> str:
    if not explained.stages:
        return (
            f"{explained.answer} at seq {explained.seq}, {explained.sim_time:g} s "
            f"(record {explained.record})"
        )
    at = "" if explained.seq is None else f" at seq {explained.seq}"
    codes = dict.fromkeys(r["code"] for stage in explained.stages for r in stage.refusals)
    stage = next((s.stage for s in explained.stages if s.result == "refused"), None)
    why = f" by {stage}: {', '.join(codes)}" if stage else ""
    return f"{explained.agent_id} {explained.req_id}: {explained.answer}{why}{at}"


def _batch_lines(explained: Explanation) -> Iterator[Line]:
    batch = explained.batch or {}
    if "intents" not in batch:  # of another record, or a refusal that a program noted
        yield TextTable([(name, _field_text(name, value)) for name, value in batch.items()])
        return
    yield (
        f"batch {batch['batch_id']}, submitted by {batch['submitter']}, decided at "
        f"{explained.sim_time:g} s when the world was at seq {explained.seq_before} "
        f"(record {explained.record}); by the rules of {explained.rules}"
    )
    rows = []
    for index, intent in enumerate(batch["intents"]):
        mark = ">" if index == batch["position"] else " "
        rows.append(
            (
                f"{mark} {index}",
                intent["agent_id"],
                intent["req_id"],
                f"{intent['kind']} {rounded_line(intent['payload'])}",
            )
        )
    if len(rows) > _LISTED_MAX:
        own_row = rows[batch["position"]]
        rows = [*rows[:_LISTED_MAX], ("  …", "", "", f"and {len(rows) - _LISTED_MAX} more")]
        rows += [] if own_row in rows else [own_row]
    yield TextTable(rows)


def _field_text(name: str, value: Json) -> str:
    if name == "quotas":
        return quotas_text(value, None)
    if name == "world_quota" and value is not None:
        return quotas_text({}, value)
    return json_line(value)


def _stage_table(stages: Sequence[StageReport]) -> TextTable:
    from placet.kernel.log.explain_stages import EXPLAINED_STAGES  # noqa: PLC0415  # and pydantic

    rows = []
    for stage in stages:
        explained = EXPLAINED_STAGES[Stage(stage.stage)]
        lines = [line for c in stage.compared[:_LISTED_MAX] for line in explained.describe(c)]
        if len(stage.compared) > _LISTED_MAX:
            lines.append(f"and {len(stage.compared) - _LISTED_MAX} more")
        if stage.result == "passed" and not stage.compared:
            lines = [explained.nothing_compared]
        lines += [f"✗ {refusal['code']}: {refusal['message']}" for refusal in stage.refusals]
        first, *others = lines or [""]
        rows.append((stage.stage, stage.result, first))
        rows += [("", "", line) for line in others]
    return TextTable(rows, ("stage", "result", "compared values"))


def _result_lines(explained: Explanation) -> Iterator[Line]:
    conflict = explained.conflict
    if conflict is not None:
        by = (
            f" with {conflict['batch_id']} (record {conflict['record']})"
            if "record" in conflict
            else ""
        )
        yield ""
        yield f"{conflict['winner']} took {conflict['resource']} first{by}, in the same group."
        yield "Within a group the order is: due time, priority, then a draw from the seed."
    for stage in explained.stages:
        for change in (c for refusal in stage.refusals for c in refusal.get("changed", ())):
            yield ""
            yield f"{change['entity']} was then {rounded_line(change['now'])}"
    if explained.changes:
        yield ""
        yield "Changes:"
        rows = [row for change in explained.changes for row in _change_rows(change)]
        yield TextTable(rows[:_CHANGES_MAX])
        if len(rows) > _CHANGES_MAX:
            yield f"and {len(rows) - _CHANGES_MAX} more fields; --json has them all"
    elif explained.answer == "admitted":
        yield ""
        yield "No changes."
    for effect in explained.effects:
        yield f"Effect {effect['key']}: {effect['kind']} {rounded_line(effect['payload'])}"


def _changed_text(before: Json, after: Json) -> str:
    """Return two values, rounded unless they would then look the same."""
    was, now = rounded_line(before), rounded_line(after)
    return f"{json_line(before)} -> {json_line(after)}" if was == now else f"{was} -> {now}"


def _change_rows(change: _Fact) -> list[tuple[str, ...]]:
    if change["what"] == "deleted":
        return [(change["entity"], "deleted")]
    first = change["entity"]
    if change["what"] == "created":
        first += " (new)"
    rows: list[tuple[str, ...]] = []
    for name, value in change["fields"].items():
        if change["what"] == "created":
            text = rounded_line(value["after"])
        else:
            text = _changed_text(value["before"], value["after"])
        rows.append((first, name, text))
        first = ""
    return rows or [(first, "")]
