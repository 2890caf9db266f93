"""`placet explain`: print the reasons of an answer, from the log alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Final

import typer

from placet.cli.domains import AgainBy
from placet.cli.stores import log_to_read
from placet.cli.terminal import (
    AsJson,
    StoreArgument,
    is_text,
    pluralize,
    printable,
    say,
    say_json,
    table,
)
from placet.runtime.plugins import remake
from placet.schemas.codec import Json, to_json
from placet.schemas.explanation import Explanation, StageReport

_Fact = Mapping[str, Json]
_SHOWN_CHARS_MAX: Final = 160
_LISTED_MAX: Final = 12
_CHANGES_MAX: Final = 100
_NO_TRACE: Final = """\
The log holds no answer to it. Either the request never reached the world, or its answer is older
than the log, or a stage refused it that writes no record, because the same request may pass later:
  admission      the queue was full, the agent was too fast, or the deadline was over
  structure      the batch was invalid
  agent          the agent was unknown, suspended, or not permitted
  dedup          its req_id was used before with other content
  quota          the agent exceeded its quota
  backpressure   an executor, or the schedule, was full
What to look at: the verdict that the submitter got (its code and retry_after), the metric
placet_refusals_total by stage and code, and the lines of the program's own log."""


def explain(
    store: StoreArgument,
    agent_id: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Agent of the request.")
    ] = None,
    req_id: Annotated[
        str | None, typer.Argument(metavar="REQ_ID", help="Id of the request.")
    ] = None,
    seq: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Explain this sequence number instead."),
    ] = None,
    domain: Annotated[list[str] | None, AgainBy] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """Explain the verdict on a request.

    For each of the seven stages: the values it compared, and its result.

    Reads only the log, at the state of the decision. Exit code 1 if the log holds no answer.
    """
    if (agent_id is None or req_id is None) == (seq is None):
        raise typer.BadParameter("give AGENT and REQ_ID, or --seq N")
    if not all(is_text(one) for one in (agent_id, req_id) if one is not None):
        raise typer.BadParameter("AGENT and REQ_ID are UTF-8, as everything in a log")
    from placet.runtime.history.explain import explain as explain_request  # noqa: PLC0415  # and pydantic
    from placet.runtime.history.explain import explain_seq  # noqa: PLC0415  # above

    log, domains = log_to_read(store), partial(remake, given=domain or ())
    if seq is not None:
        explained = explain_seq(log, seq, domains)
    else:
        explained = explain_request(log, agent_id or "", req_id or "", domains)
    if as_json:
        say_json(explained.as_dict())
    else:
        for line in explanation_lines(explained):
            say(printable(line))
    return 0 if explained.is_known else 1


def explanation_lines(explained: Explanation) -> Iterator[str]:
    """Return the lines of an explanation for people."""
    if not explained.is_known:
        yield f"{explained.agent_id} {explained.req_id}: unknown"
        yield ""
        yield from _NO_TRACE.splitlines()
        yield ""
        yield from (f"The log knows: {note}." for note in explained.notes)
        return
    yield _headline(explained)
    yield from _batch_lines(explained)
    if explained.stages:
        yield ""
        yield from _stage_lines(explained.stages)
    yield from _result_lines(explained)
    for earlier in explained.earlier:
        codes = ", ".join(earlier["codes"])
        yield (
            f"Before that it was {earlier['answer']}{': ' if codes else ''}{codes} "
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
    stage = next((s.stage for s in explained.stages if s.said == "refused"), None)
    why = f" by {stage}: {', '.join(codes)}" if stage else ""
    return f"{explained.agent_id} {explained.req_id}: {explained.answer}{why}{at}"


def _batch_lines(explained: Explanation) -> Iterator[str]:
    batch = explained.batch or {}
    if not explained.stages:
        yield from table([(name, _shown(value)) for name, value in batch.items()])
        return
    yield (
        f"batch {batch['batch_id']}, handed in by {batch['submitter']}, decided at "
        f"{explained.sim_time:g} s when the world was at seq {explained.seq_before} "
        f"(record {explained.record}); by {explained.rules}"
    )
    rows = []
    for index, intent in enumerate(batch["intents"]):
        mark = ">" if index == batch["position"] else " "
        rows.append(
            (
                f"{mark} {index}",
                intent["agent_id"],
                intent["req_id"],
                f"{intent['kind']} {_shown(intent['payload'])}",
            )
        )
    if len(rows) > _LISTED_MAX:
        asked = rows[batch["position"]]
        rows = [*rows[:_LISTED_MAX], ("  …", "", "", f"and {len(rows) - _LISTED_MAX} more")]
        rows += [] if asked in rows else [asked]
    yield from table(rows)


def _stage_lines(stages: Sequence[StageReport]) -> list[str]:
    rows = []
    for stage in stages:
        lines = [line for fact in stage.saw[:_LISTED_MAX] for line in _LINES[stage.stage](fact)]
        if len(stage.saw) > _LISTED_MAX:
            lines.append(f"and {len(stage.saw) - _LISTED_MAX} more")
        if stage.said == "passed" and not stage.saw:
            lines = [_EMPTY.get(stage.stage, "")]
        lines += [f"✗ {refusal['code']}: {refusal['message']}" for refusal in stage.refusals]
        first, *others = lines or [""]
        rows.append((stage.stage, stage.said, first))
        rows += [("", "", line) for line in others]
    return table([("stage", "said", "what it saw"), *rows])


def _structure_lines(fact: _Fact) -> Iterator[str]:
    yield (
        f"{pluralize(fact['intents'], 'intent')} of at most {fact['intents_max']}, "
        f"{fact['bytes']} bytes of at most {fact['bytes_max']}"
    )
    for warning in fact.get("warnings", ()):
        yield f"warned {warning['code']}: {warning['message']}"


def _agent_lines(fact: _Fact) -> Iterator[str]:
    if not fact["registered"]:
        yield f"{fact['agent_id']} is not registered"
        return
    permitted = fact["permissions"]
    may = "all kinds" if permitted is None else ", ".join(permitted) or "nothing"
    yield (
        f"{fact['agent_id']}: registered, {'suspended' if fact['suspended'] else 'not suspended'}, "
        f"may propose {may}; asked for {', '.join(fact['kinds'])}"
    )
    if not fact["may_speak"]:
        yield f"{fact['submitter']} may not speak for it; its owner is {fact['owner']}"


def _dedup_lines(fact: _Fact) -> Iterator[str]:
    before = fact["answered_before"]
    if before:
        for one in before:
            codes = ", ".join(one["codes"])
            yield f"{one['req_id']} was answered before" + (
                f" ({codes}); with a newer context it is a new try" if codes else ""
            )
        return
    ids = fact["req_ids"]
    new = f"{ids[0]} is new" if len(ids) == 1 else f"{ids[0]} … {ids[-1]} are new"
    yield (
        f"{new}; {pluralize(fact['remembered'], 'answer')} of {fact['agent_id']} remembered "
        f"(at most about {fact['remembered_max']}, {fact['age_s_max']:g} s)"
    )


def _staleness_lines(fact: _Fact) -> Iterator[str]:
    threshold = fact["threshold"]
    behind = fact["seq"] - fact["context_seq"]
    allowed = "any is allowed" if threshold is None else f"at most {threshold} is allowed"
    yield (
        f"intent {fact['index']} looked at seq {fact['context_seq']}, the world was at "
        f"{fact['seq']}: {behind} behind, {allowed}"
    )
    if fact["valid_until"] is not None:
        yield f"  valid until {fact['valid_until']:g} s"
    reads = fact["reads"]
    if reads is None:
        yield "  what it depends on is not known without its domain"
        return
    if fact.get("revalidates") and reads:
        yield "  its kind leaves staleness to the rule"
    for read in reads:
        yield f"  depends on {read['entity']}: {_read_text(read)}"


def _read_text(read: _Fact) -> str:
    if read["changed"] is None:
        return "never there"
    if not read["changed"]:
        return "never changed by another"
    who = "another" if read["by"] is None else read["by"]
    mark = "  <- after it looked" if read["is_stale"] else ""
    return f"changed by {who} at seq {read['changed']}{mark}"


def _quota_lines(fact: _Fact) -> Iterator[str]:
    who = "all agents together" if fact["agent_id"] is None else fact["agent_id"]
    what = "anything" if fact["kind"] is None else fact["kind"]
    yield (
        f"{who}, {what}: {fact['rate']:g}/s, burst {fact['burst']}, one each "
        f"{fact['interval_s']:g} s; had {fact['before']:g}, charged {fact['charged']}, "
        f"left {fact['after']:g}"
    )


def _backpressure_lines(fact: _Fact) -> Iterator[str]:
    if "schedule" in fact:
        yield f"schedule: {fact['schedule']} wait, at most {fact['schedule_max']}"
        return
    limit = fact["waiting_max"]
    bound = "no executor is registered" if limit is None else f"at most {limit} may"
    yield f"executor {fact['executor']}: {fact['waiting']} effects wait, {bound}"


def _domain_lines(fact: _Fact) -> Iterator[str]:
    if "due" in fact:
        yield f"asked when it is due, at {fact['due']:g} s"
    elif "validator" in fact:
        yield f"the effect validator {fact['validator']} was asked first, before each intent"
    else:
        of = "a domain that is not available" if fact["domain"] is None else fact["domain"]
        yield f"intent {fact['index']}: rule {fact['kind']} of {of}"


_LINES: Final[Mapping[str, Callable[[_Fact], Iterator[str]]]] = {
    "structure": _structure_lines,
    "agent": _agent_lines,
    "dedup": _dedup_lines,
    "staleness": _staleness_lines,
    "quota": _quota_lines,
    "backpressure": _backpressure_lines,
    "domain": _domain_lines,
}
_EMPTY: Final = {
    "quota": "no quota applies",
    "backpressure": "it asks for no effect, and is not for later",
}


def _result_lines(explained: Explanation) -> Iterator[str]:
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
            yield f"{change['entity']} is now {_shown(change['now'])}"
    if explained.changes:
        yield ""
        yield "What it changed:"
        rows = [row for change in explained.changes for row in _change_rows(change)]
        yield from table(rows[:_CHANGES_MAX])
        if len(rows) > _CHANGES_MAX:
            yield f"and {len(rows) - _CHANGES_MAX} more fields; --json has them all"
    elif explained.answer == "admitted":
        yield ""
        yield "It changed nothing."
    for effect in explained.effects:
        yield f"Effect {effect['key']}: {effect['kind']} {_shown(effect['payload'])}"


def _change_rows(change: _Fact) -> list[tuple[str, ...]]:
    if change["what"] == "deleted":
        return [(change["entity"], "deleted")]
    first = change["entity"]
    if change["what"] == "created":
        first += " (new)"
    rows: list[tuple[str, ...]] = []
    for name, value in change["fields"].items():
        was = "" if change["what"] == "created" else f"{_shown(value['before'])} -> "
        rows.append((first, name, f"{was}{_shown(value['after'])}"))
        first = ""
    return rows or [(first, "")]


def _shown(value: Json) -> str:
    text = to_json(value).decode()
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"
