"""The figures of one run, from one pass over its log: rates, refusals, fairness, effects, cost."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from placet.actors.ports import EventLog
from placet.lab.reporting.bins import Bins
from placet.lab.reporting.categories import category_figures
from placet.lab.reporting.collected import TICK, TIME, collected_section
from placet.lab.reporting.drawings import lorenz, number_text
from placet.lab.reporting.figures import Axis, Figure, Page, ReportSection, listed, table_of
from placet.scenarios.end_note import end_by_condition
from placet.scenarios.fairness import jain
from placet.scenarios.portrayals import bundled_portrayals, names_by_field
from placet.scenarios.resume import RecordedRun, find_run
from placet.schemas.errors import StoreError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    AdmittedWithWork,
    Changes,
    Columns,
    Record,
    Refused,
    Scheduled,
    Settled,
    TableMade,
    Tick,
    agents_of,
    intents_of,
    record_type,
)
from placet.schemas.portrayal import Portrayals
from placet.stores.snapshots.recovery import decode, recover
from placet.stores.url import file_of
from placet.tables.parts import collected_beside
from placet.tables.plan import TableOptions, TablePlan
from placet.tables.table import LogRows

if TYPE_CHECKING:
    from placet.schemas.codec import Json

LINES_MAX: Final = 7
"""Largest number of lines in a chart; the rest is one line."""

_OTHER: Final = "all others"


@dataclass(slots=True)
class RunCounts:
    """The counts of one pass over a log; time is in ticks, or in seconds where there are none.

    Attributes:
        has_ticks: Whether the log has ticks.
        intents: Admitted and refused intents over time.
        kinds: Admitted intents by kind over time.
        codes: Refused intents by `stage/code` over time.
        entities: Entities by collection over time: changes of their number.
        effects: Effects begun and settled over time.
        log_bytes: Bytes of the records over time, by type of record.
        changes: Changed entities over time.
        admitted: Admitted intents by agent.
        refused: Refused intents by agent.
        first_places: Sum of the relative places of an agent's batches in their groups, 0..1, and
            the number of the batches.
        rows: Admitted and refused rows of column batches; they are not counted by agent.
        messages: An example of each `stage/code`.
        effect_kinds: Outcomes by kind of effect.
        work: Charged units of work.
        ticks: Number of ticks.
        records: Number of records.
    """

    has_ticks: bool
    intents: Bins = field(default_factory=Bins)
    kinds: Bins = field(default_factory=Bins)
    codes: Bins = field(default_factory=Bins)
    entities: Bins = field(default_factory=Bins)
    effects: Bins = field(default_factory=Bins)
    log_bytes: Bins = field(default_factory=Bins)
    changes: Bins = field(default_factory=Bins)
    admitted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    first_places: dict[str, tuple[float, int]] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)
    effect_kinds: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    work: int = 0
    ticks: int = 0
    records: int = 0
    _known: set[tuple[str, str]] = field(default_factory=set)
    _open_effects: dict[tuple[int, int], str] = field(default_factory=dict)
    _group: list[str] = field(default_factory=list)
    _group_seq: int = -1
    _tables: set[str] = field(default_factory=set)
    _members: dict[str, int] = field(default_factory=dict)

    def read(self, data: bytes, record: Record) -> None:
        """Count one record of the log, as it is encoded and decoded."""
        self.records += 1
        position = self._position(record)
        self.log_bytes.add(position, record_type(record), len(data))
        for part in expanded(record):
            self._read_part(part, position)
        if isinstance(record, Tick):
            self.ticks += 1

    def end_group(self) -> None:
        """Count the places of the last group; the pass ends with it."""
        places = self.first_places
        if len(self._group) > 1:
            for place, agent_id in enumerate(self._group):
                total, count = places.get(agent_id, (0.0, 0))
                places[agent_id] = (total + place / (len(self._group) - 1), count + 1)
        self._group = []

    @property
    def x_name(self) -> str:
        """Name of the x axis."""
        return TICK if self.has_ticks else TIME

    def _position(self, record: Record) -> int:
        sim_time = record.now_ns / SECOND_NS
        position = self.ticks if self.has_ticks else int(sim_time)
        x = position if self.has_ticks else sim_time
        for bins in (
            *(self.intents, self.kinds, self.codes, self.entities, self.effects),
            *(self.log_bytes, self.changes),
        ):
            bins.reach(position, x)
        return position

    def _read_part(self, record: Record, position: int) -> None:
        if isinstance(record, Admitted | Refused | Scheduled):
            self._read_batch(record, position)
        elif isinstance(record, Settled):
            kind = self._open_effects.pop((record.effect_seq, record.effect_index), "unknown")
            outcome = "succeeded" if record.succeeded else "failed"
            self.effect_kinds[kind][outcome] += 1
            self.effects.add(position, outcome)
        for change in agents_of(record):
            self.admitted.setdefault(change.agent_id, 0)
        if isinstance(record, TableMade):
            self._tables.add(record.table)
            self._members[record.stem] = record.count
            self.entities.add(position, record.table, record.count)
        elif isinstance(record, Columns):
            self._read_columns(record, position)
        changes: object = getattr(record, "changes", None)
        if isinstance(changes, Changes):
            self._read_changes(changes, position)

    def _read_columns(self, record: Columns, position: int) -> None:
        """Count the rows of a column batch by code, without a step of Python for each row."""
        from placet.kernel.columns.recorded import RecordedColumns  # noqa: PLC0415  # numpy

        columns = RecordedColumns(record, self._members[record.population])
        refused = len(columns.refused)
        admitted = len(columns) - refused
        self.rows += Counter(admitted=admitted, refused=refused)
        self.intents.add(position, "admitted", admitted)
        self.kinds.add(position, record.kind, admitted)
        if refused:
            self.intents.add(position, "refused", refused)
        for reason, count in columns.refusals():
            code = f"{reason.stage}/{reason.code}"
            self.codes.add(position, code, count)
            self.messages.setdefault(code, reason.message)
        self.changes.add(position, "entities", sum(map(len, columns.changed_rows().values())))

    def _read_batch(self, record: Admitted | Refused | Scheduled, position: int) -> None:
        intents = intents_of(record)
        if record.group_seq != self._group_seq:
            self.end_group()
            self._group_seq = record.group_seq
        self._group.append(intents[0]["agent_id"])
        if isinstance(record, Refused):
            self.intents.add(position, "refused", len(intents))
            for intent in intents:
                self.refused[intent["agent_id"]] += 1
            for code in {f"{stage}/{code}" for _, stage, code, _ in record.refusals}:
                self.codes.add(position, code, len(intents))
            for _, stage, code, message in record.refusals:
                self.messages.setdefault(f"{stage}/{code}", message)
        elif isinstance(record, Admitted):
            self.intents.add(position, "admitted", len(intents))
            for intent in intents:
                self.admitted[intent["agent_id"]] += 1
                self.kinds.add(position, intent["kind"])
            for number, (seq, kind, *_) in enumerate(record.effects):
                self._open_effects[seq, number] = kind
                self.effect_kinds[kind]["begun"] += 1
                self.effects.add(position, "begun")
            if isinstance(record, AdmittedWithWork):
                self.work += record.work

    def _read_changes(self, changes: Changes, position: int) -> None:
        self.changes.add(position, "entities", len(changes.entities))
        for change in changes.entities:
            key = (change.collection, change.entity)
            if change.collection in self._tables:  # its rows were counted when it was made
                continue
            if change.fields is None:
                if key in self._known:
                    self._known.discard(key)
                    self.entities.add(position, change.collection, -1)
            elif key not in self._known:
                self._known.add(key)
                self.entities.add(position, change.collection, 1)


def run_page(
    log: EventLog, collected: Path | None = None, portrayals: Portrayals | None = None
) -> Page:
    """Return the report of a run. O(log) time, O(entities + agents) memory.

    Args:
        log: The log; it is only read.
        collected: Folder of collected rows; None is the one beside the log, if there is one.
        portrayals: Portrayals that name the values of fields; None are those of the bundled
            scenario that the log names, if it does.

    Raises:
        StoreError: The log cannot be read, or is empty.
    """
    if not log.count():
        raise StoreError(f"{log.url} has no records yet: there is nothing to report", store=log.url)
    past = recover(log).past
    assert past.header is not None, "a log with records has a header"
    run = find_run(log)
    has_ticks = run is not None and run.scenario.clock == "stepped"
    counts = RunCounts(has_ticks)
    end = log.count()
    for ordinal, data in log.read():
        if ordinal >= end:  # the run still appends records
            break
        counts.read(data, decode(data, ordinal))
    counts.end_group()
    if portrayals is None:
        portrayals = {} if run is None else bundled_portrayals(run.scenario)
    categories = (
        [] if run is None or not has_ticks else list(category_figures(log, portrayals, run.ticks))
    )
    start = log.start()
    ticks = f", {_count(counts.ticks)} ticks" if counts.ticks else ""
    facts = [
        ("domains", ", ".join(f"{name} {version}" for name, version in past.header.domains)),
        ("seed", str(past.header.seed)),
        ("agents", _count(past.ledger.agent_count)),
        ("simulated", f"{past.ledger.now_ns / SECOND_NS:g} s{ticks}"),
        ("intents admitted", _count(counts.admitted.total() + counts.rows["admitted"])),
        ("intents refused, in the log", _count(counts.refused.total() + counts.rows["refused"])),
        ("records", _count(counts.records)),
        ("log", _size(log)),
        ("seq", _count(past.ledger.seq)),
        ("state digest", past.state.digest().hex()),
        ("head of the chain", past.journal.prev.hex()),
    ]
    if run is not None and (end_of_run := _end_of(log, run)):
        facts.insert(4, ("end", end_of_run))
    if start.record:
        facts.append(("compacted", f"the records before seq {start.seq} are gone"))
    per = "tick" if has_ticks else "second"
    path = file_of(log)
    sections = [
        collected_section(
            collected or (path and collected_beside(path)), names_by_field(portrayals)
        ),
        _state(counts, per, categories),
        _rates(counts, per),
        _refusals(counts, per),
        _effects(counts, per),
        _fairness(counts, len(past.ledger.agents)),
        _cost(log, counts, per),
    ]
    return Page(
        title=past.header.world,
        subtitle="" if run is None else run.scenario.title,
        facts=facts,
        sections=sections,
    )


def _end_of(log: EventLog, run: RecordedRun) -> str:
    """Return the end of a run before its last tick; empty if all ticks are completed."""
    planned = run.scenario.ticks
    if run.scenario.clock != "stepped" or run.is_finished:
        return ""
    end = end_by_condition(log, run.ticks)
    by = "before its last tick" if end is None else f"by the condition {end.until}"
    return f"{by}, after tick {run.ticks} of {planned}"


def _rates(counts: RunCounts, per: str) -> ReportSection:
    note = "Refusals by load and quota leave no record."
    figures = [
        *_lines(counts.intents, counts.x_name, f"Intents per {per}", note),
        *_lines(counts.kinds, counts.x_name, f"Admitted per {per}, by kind"),
    ]
    return ReportSection(title="Rates", figures=figures, empty="No batch was decided.")


def _refusals(counts: RunCounts, per: str) -> ReportSection:
    rows = [
        {
            "code": code,
            "intents": round(sum(counts.codes.sums(code))),
            "first message": counts.messages[code],
        }
        for code in counts.codes.names
    ]
    chart = _lines(counts.codes, counts.x_name, f"Refused per {per}, by stage/code")
    figures = [*chart, *listed("Refusals by code", rows)]
    return ReportSection(title="Refusals", figures=figures, empty="No refusal is in the log.")


def _fairness(counts: RunCounts, agents: int) -> ReportSection:
    if not counts.admitted.total():
        empty = "No intent was admitted."
        if counts.rows["admitted"]:
            empty = "All admitted intents were of column batches, which are not counted by agent."
        return ReportSection(title="Fairness", figures=[], empty=empty)
    rows: list[Mapping[str, Json]] = []
    for agent_id in sorted({*counts.admitted, *counts.refused}):
        total, batches = counts.first_places.get(agent_id, (0.0, 0))
        rows.append(
            {
                "agent": agent_id,
                "admitted": counts.admitted[agent_id],
                "refused": counts.refused[agent_id],
                "mean place in its groups": total / batches if batches else None,
            }
        )
    index = jain(counts.admitted.values(), max(agents, len(rows)))
    note = (
        "The dashed line is an equal share for all. Jain's index is "
        f"{number_text(index or 0.0)}, where 1 is equal."
    )
    places = [total / count for total, count in counts.first_places.values() if count]
    figures = [
        Figure(
            title="Admitted intents over the agents",
            note=note,
            data=table_of(rows),
            drawing=lorenz([float(counts.admitted[str(row["agent"])]) for row in rows], "intents"),
        )
    ]
    if places:
        figures.append(_places(places))
    return ReportSection(title="Fairness", figures=figures)


def _places(places: Sequence[float]) -> Figure:
    """Return a histogram of the agents' mean places in their groups."""
    width = 0.05
    counts = Counter(min(int(place / width), 19) for place in places)
    edges = [number * width for number in range(21)]
    return Figure(
        title="Mean place in the order of a group",
        note="Agents by the mean place of their batches, from 0, first, to 1, last. "
        "With a fair order the mean tends to 0.5.",
        x=Axis("mean place", edges),
        data={"agents": [*(counts[number] for number in range(20)), 0]},
        steps=True,
    )


def _state(counts: RunCounts, per: str, categories: Sequence[Figure]) -> ReportSection:
    bins = counts.entities
    names = bins.names
    levels: dict[str, Sequence[Json]] = {}
    for name in names:
        levels[name] = [round(level) for level in accumulate(bins.sums(name))]
    if not names:
        return ReportSection(title="State", figures=[], empty="The state is empty.")
    figures = [
        *categories,
        Figure(
            title="Entities by collection",
            x=Axis(counts.x_name, bins.starts()),
            data=levels,
            steps=True,
        ),
    ]
    figures += _lines(counts.changes, counts.x_name, f"Changes of entities per {per}")
    return ReportSection(title="State", figures=figures)


def _effects(counts: RunCounts, per: str) -> ReportSection:
    rows = [
        {
            "kind": kind,
            **{name: outcomes[name] for name in ("begun", "succeeded", "failed")},
            "open": outcomes["begun"] - outcomes["succeeded"] - outcomes["failed"],
        }
        for kind, outcomes in sorted(counts.effect_kinds.items())
    ]
    figures = [
        *_lines(counts.effects, counts.x_name, f"Effects per {per}"),
        *listed("Effects by kind", rows),
    ]
    return ReportSection(title="Effects", figures=figures, empty="No intent began an effect.")


def _cost(log: EventLog, counts: RunCounts, per: str) -> ReportSection:
    chart = _lines(
        counts.log_bytes, counts.x_name, f"Bytes of the log per {per}, by type of record"
    )
    note = "" if not counts.work else f"{_count(counts.work)} units of work were charged."
    rows = [
        {"type of record": name, "bytes": round(sum(counts.log_bytes.sums(name)))}
        for name in counts.log_bytes.names
    ]
    table = listed("Bytes by type of record", rows, note)
    return ReportSection(title="Cost", figures=[*chart, *table, *_model_calls(log, counts)])


def _model_calls(log: EventLog, counts: RunCounts) -> Sequence[Figure]:
    """Return a table of the calls of models, if the log has effects that call them."""
    if not counts.effect_kinds:
        return ()
    options = TableOptions(names=("model_calls",))
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for row in LogRows("model_calls", lambda: TablePlan(log, options)):
        total = totals[row["model"] or row["adapter"] or "unknown"]
        total["calls"] += 1
        for name in ("requests", "tokens_in", "tokens_out", "cost_usd"):
            total[name] += row[name] or 0
    rows = [{"model": model, **total} for model, total in sorted(totals.items())]
    return listed("Calls of models", rows)


def _lines(bins: Bins, x_name: str, title: str, note: str = "") -> Iterator[Figure]:
    """Yield a line chart of counts over time, if there are any."""
    names = bins.names
    if not names:
        return
    values = bins.per_position(names)
    shown: dict[str, Sequence[Json]] = {name: values[name] for name in names[:LINES_MAX]}
    if len(names) > LINES_MAX:
        rest = [values[name] for name in names[LINES_MAX:]]
        shown[_OTHER] = [sum(column) for column in zip(*rest, strict=True)]
    if bins.width > 1:
        note = f"{note} Means over {bins.width} positions.".strip()
    yield Figure(title=title, note=note, x=Axis(x_name, bins.starts()), data=shown)


def _count(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _size(log: EventLog) -> str:
    path = file_of(log)
    if path is None or not path.is_file():
        return urlsplit(log.url).scheme
    beside = Path(f"{path}-wal")
    size = path.stat().st_size + (beside.stat().st_size if beside.is_file() else 0)
    return f"{size / 1e6:.2f} MB"
