"""The tables of a log: their columns, with type, unit and meaning."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Column(NamedTuple):
    """One column.

    Attributes:
        name: Name.
        type: `int64 bool float64 string json list<string>`; `json` is canonical JSON text.
        doc: One sentence for its reader.
        unit: Unit; empty for a plain number or text.
    """

    name: str
    type: str
    doc: str
    unit: str = ""


class TableDefinition(NamedTuple):
    """One table: its fixed columns, which the columns of kinds or fields may follow.

    Attributes:
        name: Name, also of its file.
        doc: What one row is.
        columns: The fixed columns.
        needs_fold: Its rows need the state beside the read.
        has_payloads: A column of each field of each kind follows, named `Kind.field`.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    needs_fold: bool = False
    has_payloads: bool = False


SEQ: Final = Column("seq", "int64", "Sequence number of the world at this row.")
TICK: Final = Column("tick", "int64", "Number of completed ticks at this row.", "ticks")
SIM_TIME: Final = Column("sim_time_ns", "int64", "Simulated time.", "ns")
_ENTITY: Final = (
    Column("collection", "string", "Collection of the entity."),
    Column("entity", "string", "Id of the entity."),
)
_AGENT: Final = Column("agent", "string", "Agent that proposed it.")
_POSITION: Final = (SEQ, TICK, SIM_TIME)
_INTENT: Final = (
    *_POSITION,
    _AGENT,
    Column("kind", "string", "Kind of the intent."),
    Column("req_id", "string", "Id of the request, unique for the agent."),
    Column("priority", "int64", "Priority; a higher one is decided first."),
    Column(
        "batch",
        "string",
        "Name of the batch: all its intents were admitted or refused, but for a column batch.",
    ),
    Column("context_seq", "int64", "Seq that the agent had seen."),
)

INTENTS: Final = TableDefinition(
    "intents", "An admitted intent, in order of execution.", _INTENT, has_payloads=True
)
REFUSALS: Final = TableDefinition(
    "refusals",
    "A refusal of an intent; an intent that was refused with its batch has the batch's.",
    (
        *_INTENT,
        Column("stage", "string", "Stage of the gate that refused the batch."),
        Column("code", "string", "Code of the refusal."),
        Column("message", "string", "Message of the refusal."),
        Column("is_cause", "bool", "This intent was refused; False: another of its batch was."),
        Column(
            "recorded", "bool", "The refusal is in the log; False: it was collected by the run."
        ),
    ),
    has_payloads=True,
)
CHANGES: Final = TableDefinition(
    "changes",
    "A field that a record changed.",
    (
        *_POSITION,
        Column(
            "by",
            "string",
            "Agent that made the change; `system` or `operator` for others; null if several "
            "agents of a column batch made it.",
        ),
        *_ENTITY,
        Column("field", "string", "Field."),
        Column("old", "json", "Value before; null if there was none."),
        Column("new", "json", "Value after; null if there is none."),
    ),
    needs_fold=True,
)
ENTITIES: Final = TableDefinition(
    "entities",
    "An entity at the end of every k-th tick, or at the end of the range.",
    (*_POSITION, *_ENTITY, Column("fields", "json", "All fields, as one object.")),
    needs_fold=True,
)
EFFECTS: Final = TableDefinition(
    "effects",
    "An effect; those still open at the end of the range are last.",
    (
        *_POSITION,
        Column("index", "int64", "Position among the effects of this seq."),
        Column("agent", "string", "Agent whose intent emitted it."),
        Column("kind", "string", "Kind of the effect."),
        Column("payload", "json", "Its payload."),
        Column("outcome", "string", "open, started, in_doubt, succeeded, failed or dead_letter."),
        Column("settled_seq", "int64", "Seq of its settlement; null while it is open."),
        Column("settled_time_ns", "int64", "Simulated time of its settlement.", "ns"),
        Column("output", "json", "Output of its executor."),
        Column("error", "string", "The exception of `on_settle`, of a dead letter."),
    ),
)
AGENTS: Final = TableDefinition(
    "agents",
    "A registration of an agent, with its state at the end of the range.",
    (
        *_POSITION,
        Column("agent", "string", "Id of the agent."),
        Column("owner", "string", "Owner."),
        Column("permissions", "list<string>", "Kinds that it may propose; null is all."),
        Column("priority_max", "int64", "Highest priority of its intents."),
        Column("attributes", "json", "Attributes of its registration."),
        Column("is_suspended", "bool", "It is suspended."),
        Column("removed_seq", "int64", "Seq of its removal; null if it is there."),
    ),
)
TICKS: Final = TableDefinition(
    "ticks",
    "A completed tick.",
    (
        SEQ,
        Column("tick", "int64", "Number of completed ticks, this one included.", "ticks"),
        SIM_TIME,
        Column("batches", "int64", "Batches decided in it that left a record."),
        Column("intents", "int64", "Admitted intents."),
        Column("refused", "int64", "Intents of recorded refused batches."),
        Column("effects", "int64", "Emitted effects."),
        Column("changed", "int64", "Entities changed, counted once for each batch."),
    ),
)
MODEL_CALLS: Final = TableDefinition(
    "model_calls",
    "A call of a proposer, which is an effect of the domain `session`.",
    (
        *_POSITION,
        Column("session", "string", "Session."),
        Column("turn", "int64", "Turn of the session."),
        Column("attempt", "int64", "Attempt of the turn."),
        Column("adapter", "string", "Adapter that was called."),
        Column("prompt_hash", "string", "Hash of the prompt."),
        Column("outcome", "string", "Outcome, as in `effects`."),
        Column("model", "string", "Name of the model that answered."),
        Column("requests", "int64", "Requests to the model."),
        Column("tokens_in", "int64", "Tokens read.", "tokens"),
        Column("tokens_out", "int64", "Tokens written.", "tokens"),
        Column("cost_usd", "float64", "Cost; null if it is unknown.", "USD"),
        Column("price", "string", "Source of the price; null without a model."),
        Column("is_estimated", "bool", "Whether tokens are estimated; null without an answer."),
    ),
)

DEFINITIONS: Final[Mapping[str, TableDefinition]] = {
    table.name: table
    for table in (INTENTS, REFUSALS, CHANGES, ENTITIES, EFFECTS, AGENTS, TICKS, MODEL_CALLS)
}
"""Every table by name, in the order of an export."""
