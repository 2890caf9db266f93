"""The shapes of batches and answers, as JSON Schema, and examples of bodies.

Payloads of kinds are the domains' own; other bodies are the structs that read them.
"""

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from placet.schemas.approval import ApprovalState
from placet.schemas.codec import Json
from placet.schemas.condition import (
    CONDITIONS_MAX,
    PATH_STEPS_MAX,
    PATH_STEPS_MIN,
    ConditionOp,
)
from placet.schemas.identity import ID_CHARS_MAX, ID_PATTERN
from placet.schemas.intent import SCHEMA_MAJOR, SCHEMA_VERSION
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Stage

REFERENCE: Final = "#/components/schemas/"
"""Begins a reference to a schema of the document."""


def ref(name: str) -> dict[str, Json]:
    """Return a reference to a schema of the document."""
    return {"$ref": REFERENCE + name}


def object_schema(
    properties: Mapping[str, Json], *, optional: Sequence[str] = (), is_open: bool = False
) -> dict[str, Json]:
    """Build the JSON Schema of an object; all properties but the optional are required.

    `is_open` permits other properties.
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": is_open,
    }


def _object(
    *, optional: Sequence[str] = (), is_open: bool = False, **properties: Json
) -> dict[str, Json]:
    return object_schema(properties, optional=optional, is_open=is_open)


def array_schema(items: Mapping[str, Json], **more: Json) -> dict[str, Json]:
    """Build the JSON Schema of an array."""
    return {"type": "array", "items": items, **more}


def _or_null(of: str, **more: Json) -> dict[str, Json]:
    return {"type": [of, "null"], **more}


_TEXT: Final = {"type": "string"}
_BOOLEAN: Final = {"type": "boolean"}
_NUMBER: Final = {"type": "number"}
_SEQ: Final = {"type": "integer", "minimum": 0}
_ANYTHING: Final[dict[str, Json]] = {}
_OPEN: Final[dict[str, Json]] = {"type": "object"}
_ID: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": ID_CHARS_MAX,
    "pattern": ID_PATTERN,
}
_SECONDS: Final = {
    "type": ["number", "null"],
    "minimum": 0,
    "exclusiveMaximum": 2**63 / SECOND_NS,  # as nanoseconds they fit 63 bits
}
_PLACE: Final = _object(record={"type": "integer", "minimum": -1}, batch=_SEQ)
_KINDS: Final = {"type": ["array", "null"], "items": _TEXT}

_LINES: Final[dict[str, Json]] = {
    "name": _TEXT,
    "note": _TEXT,
    "seqs": array_schema(_SEQ),
    "lines": array_schema(_object(name=_TEXT, values=array_schema({"type": ["number", "null"]}))),
    "is_band": _BOOLEAN,
}
"""A series: its lines, along the seqs of a log."""

_AGENT: Final[dict[str, Json]] = {
    "agent_id": _ID,
    "owner": _ID,
    "permissions": _KINDS,
    "priority_max": {"type": "integer", "minimum": 0, "maximum": 100},
    "suspended": _BOOLEAN,
}
_DURABILITY: Final = {"enum": ["none", "memory", "off", "normal", "local", "full"]}
_WORLD: Final = {
    "world": _TEXT,
    "seq": _SEQ,
    "records": _SEQ,
    "sim_time": _NUMBER,
    "clock": {"enum": ["realtime", "stepped", "next_event"]},
    "paused": _BOOLEAN,
    "domains": array_schema(_TEXT),
    "store": _TEXT,
    "durability": _DURABILITY,
}

_CALL: Final = _object(
    kind=_TEXT,
    payload=_OPEN,
    key=_TEXT,
    conditions=array_schema(_TEXT),
    defaults=array_schema(_TEXT),
    status={"enum": ["running", "done", "failed", "doubt", "unknown"]},
    output=_ANYTHING,
    optional=("status", "output"),
)
_CHANGE: Final = _object(
    entity=_TEXT,
    field=_or_null("string"),
    op={"enum": ["add", "replace", "remove", "undecided"]},
    old=_ANYTHING,
    new=_ANYTHING,
)
_APPROVAL: Final = _object(
    id=_TEXT,
    number=_SEQ,
    state={"enum": [*get_args(ApprovalState)]},
    agent=_ID,
    calls=array_schema(_CALL),
    changes={"type": ["array", "null"], "items": _CHANGE},
    outside=_BOOLEAN,
    asks=array_schema(_TEXT),
    risk={"enum": ["read", "low", "medium", "high"]},
    cost=_ANYTHING,
    about=_OPEN,
    role=_TEXT,
    deciders=array_schema(_TEXT),
    decides=_BOOLEAN,
    requested=_or_null("number"),
    age_s=_or_null("number"),
    expires=_NUMBER,
    left_s=_NUMBER,
    digest=_TEXT,
    by=_TEXT,
    reason=_TEXT,
    decided=_or_null("number"),
    amends=_or_null("string"),
    amended_by=_or_null("string"),
)

_DOUBT: Final = _object(
    effect=_TEXT,
    kind=_TEXT,
    call=_TEXT,
    agent=_ID,
    payload=_OPEN,
    why=_TEXT,
    decides=_BOOLEAN,
)

_RUN: Final = _object(
    run=_TEXT,
    world=_TEXT,
    scenario=_TEXT,
    domains=array_schema(_TEXT),
    ticks_planned=_or_null("integer"),
    seed=_or_null("integer"),
    ticks=_or_null("integer"),
    records=_or_null("integer"),
    agents=_or_null("integer"),
    admitted=_or_null("integer"),
    refused=_or_null("integer"),
    is_partial=_BOOLEAN,
    settings=_OPEN,
    status=_TEXT,
    ended_by=_TEXT,
    error=_TEXT,
    modified_s=_NUMBER,
    bytes=_SEQ,
    tags=array_schema(_TEXT),
    note=_TEXT,
    lineage=array_schema(
        _object(
            parent=_TEXT,
            run=_or_null("string"),
            tick=_or_null("integer"),
            seq=_SEQ,
            sim_time=_NUMBER,
            changes=_OPEN,
            edits=array_schema(_TEXT),
            left_out=_SEQ,
        )
    ),
)

SCHEMAS: Final[Mapping[str, dict[str, Json]]] = {
    "Approval": _APPROVAL,
    "ApprovalPage": _object(
        approvals=array_schema(ref("Approval")),
        next=_or_null("integer", minimum=0),
        sim_time=_NUMBER,
    ),
    "Doubt": _DOUBT,
    "DoubtList": _object(doubts=array_schema(ref("Doubt")), left_out=_SEQ),
    "Verdict": _object(
        batch_id=_TEXT,
        admitted=_BOOLEAN,
        seq=_or_null("integer", minimum=0),
        replayed=_BOOLEAN,
        dry_run=_BOOLEAN,
        scheduled=_BOOLEAN,
        results=array_schema(ref("Result")),
        refusals=array_schema(ref("Refusal")),
        current_seq=_SEQ,
        sim_time=_NUMBER,
        durability=_DURABILITY,
        diff=array_schema(_CHANGE),
        optional=("diff",),
    ),
    "Result": _object(
        req_id=_ID,
        admitted={"const": True},
        seq=_or_null("integer", minimum=0),
        normalized=_OPEN,
        warnings=array_schema(_object(code=_TEXT, message=_TEXT, at=_TEXT)),
        output=_ANYTHING,
        optional=("output",),
    ),
    "Refusal": _object(
        index=_or_null("integer", minimum=0),
        req_id=_or_null("string"),
        stage={"enum": [stage.value for stage in Stage]},
        code=_TEXT,
        message=_TEXT,
        at=_TEXT,
        retry_after=_SECONDS,
        suggestions=array_schema(_TEXT),
        changed=array_schema(_OPEN),
        details=_OPEN,
    ),
    "Problem": _object(
        type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT, code=_TEXT, is_open=True
    ),
    "Agent": _object(seq=_SEQ, **_AGENT),
    "Agents": _object(
        seq=_SEQ, agents=array_schema(object_schema(_AGENT)), next=_or_null("string")
    ),
    "World": object_schema(_WORLD),
    "Worlds": _object(
        worlds=array_schema(object_schema(_WORLD)),
        submitter=_TEXT,
        unopened=array_schema(_object(world=_TEXT, reason=_TEXT)),
        optional=("unopened",),
    ),
    "State": _object(
        seq=_SEQ,
        sim_time=_NUMBER,
        path=_TEXT,
        value=_ANYTHING,
        next=_or_null("string"),
        optional=("next",),
    ),
    "Event": _object(seq=_SEQ, record=_SEQ, type=_TEXT, sim_time=_NUMBER, is_open=True),
    "Faults": _object(
        since_s=_NUMBER,
        left_out=_SEQ,
        faults=array_schema(
            _object(
                number=_SEQ,
                where=_TEXT,
                error=_TEXT,
                place=_TEXT,
                traceback=_TEXT,
                seq=_or_null("integer"),
                first_s=_NUMBER,
                last_s=_NUMBER,
                times=_SEQ,
                is_restarted=_BOOLEAN,
            )
        ),
    ),
    "Events": _object(events=array_schema(ref("Event")), next_record=_SEQ, is_end=_BOOLEAN),
    "Histories": _object(
        worlds=array_schema(_object(world=_TEXT, fork=_BOOLEAN)), live=_BOOLEAN, runs=_BOOLEAN
    ),
    "History": _object(
        records=_SEQ,
        indexed=_SEQ,
        seq=_SEQ,
        ticks=_SEQ,
        sim_time=_NUMBER,
        start=_object(record=_SEQ, seq=_SEQ),
        first=_PLACE,
        compactions=_SEQ,
        bar_seqs=_SEQ,
        bars=array_schema(array_schema(_SEQ, minItems=3, maxItems=3)),
        codes=_OPEN,
        held=_SEQ,
        store=_or_null("string"),
        failure=_or_null("object"),
        controls=array_schema({"enum": ["approvals", "end", "pause", "speed", "step", "suspend"]}),
        paused=_BOOLEAN,
        ticks_per_second=_or_null("number"),
        run=_or_null("object"),
    ),
    "RunSettings": _object(
        settings=array_schema(_OPEN), seed={"type": "integer", "minimum": 0}, ticks=_SEQ
    ),
    "StartedRun": _object(world=_TEXT, tick=_SEQ, store=_or_null("string")),
    "Runs": _object(
        folder=_TEXT,
        runs=array_schema(_RUN),
        total=_SEQ,
        unread=_SEQ,
        columns=array_schema(_TEXT),
        columns_left_out=array_schema(_TEXT),
        left_out=_SEQ,
        tags=array_schema(_TEXT),
        problem=_TEXT,
    ),
    "RunPair": _object(
        runs=array_schema(_TEXT),
        settings=array_schema(_object(key=_TEXT, values=array_schema(_ANYTHING))),
        parting=_object(
            is_equal=_BOOLEAN,
            record=_SEQ,
            seq=_SEQ,
            part=_TEXT,
            values=array_schema(_ANYTHING),
            rule=_or_null("string"),
            tick=_or_null("integer"),
            agent_count=_SEQ,
            kinds=array_schema(_OPEN),
            state=array_schema(_OPEN),
        ),
    ),
    "RunSeries": _object(
        series=array_schema(
            _object(
                name=_TEXT,
                note=_TEXT,
                x_name=_TEXT,
                x=array_schema(_NUMBER),
                lines=array_schema(
                    _object(name=_TEXT, values=array_schema({"type": ["number", "null"]}))
                ),
            )
        )
    ),
    "RunWork": _object(run=_TEXT, record=_SEQ, records=_SEQ, passes=_SEQ),
    "RunNote": _object(tags=array_schema(_TEXT), note=_TEXT),
    "Moment": _object(
        record={"type": "integer", "minimum": -1},
        batch=_SEQ,
        batches=_SEQ,
        seq=_SEQ,
        tick=_SEQ,
        sim_time=_NUMBER,
        event=_or_null("object"),
        collections=array_schema(_object(name=_TEXT, count=_SEQ, of_agents=_BOOLEAN)),
        agent_count=_SEQ,
        is_open=True,
    ),
    "Steps": _object(steps=array_schema(_OPEN)),
    "Found": _object(place={"oneOf": [_PLACE, {"type": "null"}]}),
    "PastEntity": _object(
        collection=_TEXT, entity=_TEXT, fields=_or_null("object"), is_cut=_BOOLEAN
    ),
    "Series": _object(series=array_schema(_object(**_LINES)), problem=_TEXT),
    "Trace": _object(
        series=array_schema(
            _object(
                **_LINES,
                categories=array_schema(_object(name=_TEXT, value=_ANYTHING)),
                values=array_schema({"type": ["integer", "null"], "minimum": -1}),
                optional=("lines", "is_band", "categories", "values"),
            )
        ),
        left_out=array_schema(_TEXT),
        every=_SEQ,
        unit={"enum": ["tick", "record"]},
    ),
    "Story": _object(
        events=array_schema(_OPEN),
        next=_or_null("integer"),
        total=_SEQ,
        failures=_SEQ,
        left_out=_SEQ,
        read=_SEQ,
        records=_SEQ,
    ),
    "PastView": _object(agent_id=_ID, seq=_SEQ, sim_time=_NUMBER, collections=array_schema(_OPEN)),
    "Explained": _object(answer=_TEXT, is_open=True),
    "Forked": _object(
        world=_TEXT,
        record=_SEQ,
        seq=_SEQ,
        counterfactual=_or_null("object"),
        command=_or_null("string"),
    ),
    "Kinds": _object(domains=array_schema(_OPEN), limits=_OPEN),
    "Health": _object(status={"const": "ok"}),
    "Readiness": _object(status={"const": "ok"}, head={"type": "string"}),
}


def batch_schema(intents_max: int) -> dict[str, Json]:
    """Build the JSON Schema of a batch in its three forms; `intents_max` bounds its intents."""
    intents = array_schema(ref("Intent"), minItems=1, maxItems=intents_max)
    batch = _object(
        intents=intents,
        sim_time=_SECONDS,
        dry_run=_BOOLEAN,
        valid_for_s=_SECONDS,
        optional=("sim_time", "dry_run", "valid_for_s"),
    )
    return {"oneOf": [intents, batch, ref("Intent")]}


_CONDITION_PATH: Final = {
    "type": "array",
    "minItems": PATH_STEPS_MIN,
    "maxItems": PATH_STEPS_MAX,
    "items": {"type": "string", "minLength": 1, "maxLength": ID_CHARS_MAX},
    "examples": [["world.objects", "lamp", "uses"]],
}
_COMPARISONS: Final = [op for op in get_args(ConditionOp) if op not in {"exists", "absent", "in"}]
_CONDITION: Final = {
    "oneOf": [
        _object(
            path=_CONDITION_PATH,
            op={"enum": _COMPARISONS},
            value={"description": "the expected value", "examples": [0]},
        ),
        _object(path=_CONDITION_PATH, op={"const": "in"}, value={"type": "array", "items": {}}),
        _object(path=_CONDITION_PATH, op={"enum": ["exists", "absent"]}),
    ]
}


def intent_schema(kind: str, payload: Json) -> dict[str, Json]:
    """Build the JSON Schema of an intent of one kind; `payload` is the schema of its payload.

    Fields that the server fills in are optional. A schema cannot know whether the token is an
    agent's, by which `agent_id` may be left out, nor whether the request has the header for
    `req_id`.
    """
    return object_schema(
        {
            "kind": {"const": kind},
            "payload": payload,
            "agent_id": {
                **_ID,
                "description": "by default the agent of the token",
                "examples": ["alice"],
            },
            "req_id": {
                **_ID,
                "description": "by default of the header Idempotency-Key",
                "examples": ["alice:1"],
            },
            "context_seq": {**_SEQ, "exclusiveMaximum": 2**63},
            "priority": {"type": "integer", "minimum": 0, "maximum": 100},
            "schema_version": {
                "type": "string",
                "pattern": rf"^{SCHEMA_MAJOR}\.(0|[1-9]\d{{0,8}})\.(0|[1-9]\d{{0,8}})$",
                "examples": [SCHEMA_VERSION],
            },
            "valid_until": _SECONDS,
            "expect": {
                "type": "array",
                "minItems": 1,
                "maxItems": CONDITIONS_MAX,
                "items": _CONDITION,
                "description": "conditions; the intent then depends on nothing else",
            },
        },
        optional=(
            *("agent_id", "req_id", "context_seq", "priority", "schema_version", "valid_until"),
            "expect",
        ),
    )


_MOVE: Final = {
    "kind": "Move",
    "payload": {"to": [1.0, 2.0, 0.0]},
    "agent_id": "alice",
    "req_id": "alice:1",
    "context_seq": 0,
    "priority": 10,
    "schema_version": SCHEMA_VERSION,
}

EXAMPLES: Final[Mapping[str, dict[str, Json]]] = {
    "Batch": {
        "array": {"summary": "an array of intents", "value": [_MOVE]},
        "object": {
            "summary": "with options",
            "value": {"intents": [_MOVE], "valid_for_s": 2.0, "dry_run": False},
        },
    },
    "Registration": {
        "placed": {"value": {"agent_id": "alice", "attributes": {"position": [0, 0]}}},
        "limited": {
            "value": {
                "agent_id": "bob",
                "owner": "carol",
                "permissions": ["Move"],
                "quotas": {"Move": {"rate": 2, "burst": 4}},
            }
        },
    },
    "Permissions": {"two kinds": {"value": {"permissions": ["Move", "Speak"]}}},
    "ForkRequest": {
        "an agent elsewhere": {
            "value": {"record": 100, "put": {"agents/alice/position": [0, 0, 0]}, "replay": True}
        },
    },
    "StepRequest": {"a tenth of a second": {"value": {"dt": 0.1}}},
}
