"""The kind `<name>.refuse_calls`: calls that the gate refused without a record of their batch.

The kernel records a refusal that depends on the state. A call that does not fit its tool, that the
agent may not make, that is over its quota, or that a person has denied before has this record.
"""

from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.refusal import Stage

QUOTA: Final = {"rate": 10.0, "burst": 100}
"""Records of refused batches a second, so that an agent does not fill the log with them."""

STAGES: Final = frozenset({Stage.STRUCTURE, Stage.AGENT, Stage.QUOTA})
"""Stages whose refusals the kernel does not record; those of load are not recorded here either."""

CALLS_MAX: Final = 16
"""Refused calls of one batch that are recorded."""

CODES_MAX: Final = 32
"""Codes of a refused call that are recorded."""

ARGUMENTS_BYTES_MAX: Final = 4_096
"""Bytes of the arguments of a refused call, as JSON, that are recorded."""

TEXT_CHARS_MAX: Final = 1_000

_Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]


class RefusedCall(TypedDict):
    """A refused call: `arguments` is None if they are no JSON, or too large for the record."""

    key: _Text
    tool: _Text
    arguments: Json
    codes: Annotated[list[_Text], Field(max_length=CODES_MAX)]
    message: _Text


class RefuseCallsPayload(TypedDict):
    """Payload of `refuse_calls`.

    `left_out` is the number of refused batches since the record before, for which the quota had no
    room.
    """

    agent: _Text
    calls: Annotated[list[RefusedCall], Field(max_length=CALLS_MAX)]
    left_out: Annotated[int, Field(ge=0)]
