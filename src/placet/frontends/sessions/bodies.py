"""The bodies of sessions over HTTP with examples, the adapter that one names, and the answers."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import getdoc
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field
from pydantic import BaseModel

from placet.agents.proposal.modes import MODES, ModeName
from placet.agents.proposal.turn_result import ApprovalRequest, Turn
from placet.cli.terminal import CommandError
from placet.domains.session.payloads import ROLE_CHARS_MAX, SESSION_CHARS_MAX
from placet.frontends.adapter_names import SCRIPTED, proposer
from placet.schemas.codec import Json
from placet.schemas.identity import ID_CHARS_MAX
from placet.server.http.parameters import Fields, Identity, PathPart
from placet.server.http.problems import Problem
from placet.server.http.routing import Body
from placet.server.model_config import SECONDS_MAX, ModelConfig
from placet.server.wire_schemas import REFERENCE, array_schema, object_schema, ref

_SessionName = Annotated[PathPart, Meta(max_length=SESSION_CHARS_MAX)]
_Role = Annotated[str, Meta(max_length=ROLE_CHARS_MAX)]
_Price = Annotated[list[Annotated[float, Meta(ge=0)]], Meta(min_length=2, max_length=3)]
_Proposer = Annotated[
    str,
    Meta(
        description="scripted, a model, or null for commands only; absent: the model of the "
        "server's configuration, else scripted"
    ),
]
_Seconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]
_LIMITS: Final = (
    "max_usd",
    "max_tokens",
    "max_seconds",
    "max_request_seconds",
    "max_output_tokens",
)
_People = Annotated[dict[Identity, _Role], Meta(description="name -> role, which may be empty")]


class SessionOpening(Fields, frozen=True):
    """Request body that opens a session; without an agent, the session keeps its present agent.

    `price` is that of the model, US dollars for a million tokens of input, output, and of cached
    input if that differs. `max_usd` (null: no limit), `max_tokens` and `max_seconds` limit a turn,
    `max_request_seconds` and `max_output_tokens` one request to the model. The defaults are in the
    section `[model]` of the server's configuration, with address and key of that model.
    """

    session: _SessionName = "main"
    agent: Identity | None = None
    mode: ModeName | None = None
    proposer: _Proposer | UnsetType | None = UNSET
    people: _People = field(default_factory=dict)
    price: _Price | None = None
    max_usd: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    max_tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    max_seconds: _Seconds | UnsetType = UNSET
    max_request_seconds: _Seconds | UnsetType = UNSET
    max_output_tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET

    def model(self, configured: ModelConfig) -> ModelConfig:
        """Return the model and the limits that the body states, over those of the server."""
        name = configured.name if self.proposer is UNSET else self.proposer
        chosen = {key: getattr(self, key) for key in ("price", *_LIMITS)}
        stated: dict[str, Any] = {key: value for key, value in chosen.items() if value is not UNSET}
        if self.price is None:
            del stated["price"]
        return replace(configured.of_model(name), **stated)


class SessionMode(Fields, frozen=True):
    """Request body that sets how much an agent may do without confirmation."""

    mode: ModeName


class SessionMessage(Fields, frozen=True):
    """Request body with a message to the agent of a session; it is not blank."""

    message: Annotated[str, Meta(min_length=1, pattern=r"\S", description="not blank")]


class ReplacementAction(Fields, frozen=True):
    """An action in an `ApprovalDecision`, which a person submits instead of a proposed one."""

    kind: str
    payload: dict[str, Json] = field(default_factory=dict)


class ApprovalDecision(Fields, frozen=True):
    """Request body with a person's decision about a held plan; `actions` are for an edit."""

    decision: Literal["approve", "deny", "edit"]
    actions: Annotated[list[ReplacementAction], Meta(min_length=1)] | UnsetType = UNSET


def adapter_of(model: ModelConfig) -> object:
    """Return the proposer adapter of a model's name.

    Raises:
        Problem: The name is unknown, or `human`, since a person cannot be asked over HTTP, or
            `test`, whose proposals are made up; or the price is invalid, not for a model, or
            unknown although a turn has a limit in money.
    """
    if model.name is not None and model.name != SCRIPTED and ":" not in model.name:
        raise Problem(
            "request_invalid",
            f"proposer must be {SCRIPTED!r}, a model such as 'anthropic:claude-haiku-4-5', or null "
            f"over HTTP, got {model.name!r:.80}",
        )
    try:
        return proposer(model)
    except CommandError as error:
        raise Problem("request_invalid", str(error)) from error


_ID: Final = {"type": "string", "minLength": 1, "maxLength": ID_CHARS_MAX}

OPENING: Final = Body(
    SessionOpening,
    {
        "default": {
            "value": {
                "session": "main",
                "agent": "planner",
                "mode": "assisted",
                "proposer": "scripted",
                "people": {"ann": ""},
            }
        }
    },
    is_optional=True,
)
MODE: Final = Body(SessionMode, {"default": {"value": {"mode": "interactive"}}})
MESSAGE: Final = Body(
    SessionMessage, {"default": {"value": {"message": "set beam to 9 m, lock hull length"}}}
)
DECISION: Final = Body(ApprovalDecision, {"default": {"value": {"decision": "approve"}}})


def _models(*models: type[BaseModel]) -> dict[str, Json]:
    """Return the schemas of models, each of their parts by its name."""
    schemas: dict[str, Any] = {}
    for model in models:
        schema = model.model_json_schema(mode="serialization", ref_template=REFERENCE + "{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    return schemas


_EDIT: Final = array_schema(ref("ReplacementAction"), minItems=1)

SCHEMAS: Final[Mapping[str, Json]] = {
    **_models(Turn, ApprovalRequest),
    "ApprovalDecision": {
        "oneOf": [
            object_schema({"decision": {"enum": ["approve", "deny"]}}),
            object_schema({"decision": {"const": "edit"}, "actions": _EDIT}),
        ],
        "description": getdoc(ApprovalDecision),
    },
    "Session": object_schema(
        {
            "session": _ID,
            "agent": _ID,
            "mode": {"enum": list(MODES)},
            "proposer": {"type": ["string", "null"]},
            "people": {"type": "object", "additionalProperties": {"type": "string"}},
            "seq": {"type": "integer", "minimum": 0},
            "turns": {"type": "array", "items": {"type": "object"}},
        }
    ),
    "Approvals": object_schema({"approvals": array_schema(ref("ApprovalRequest"))}),
}
