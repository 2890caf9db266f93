"""Messages of JSON-RPC, of which only the fields beside `params` and `result` are read.

The values of a message stay the bytes that came. A message of a client is written anew from its
fields, because two parsers may read one text differently: of a repeated name, and of a carriage
return, after which some servers begin a new message.
"""

from typing import Final, TypeAlias

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, decode, encode

from placet.schemas.codec import Json

Message: TypeAlias = dict[str, Raw]
"""The fields of a message, each as the bytes that came."""

Id: TypeAlias = int | str | float | None

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
SERVER_ERROR: Final = -32000

_FIELDS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_DECODER: Final = Decoder(Message)


class MessageInvalid(ValueError):  # noqa: N818  # the name states the fault
    """The error of a line that is no message.

    Attributes:
        code: Code of the error in JSON-RPC.
    """

    def __init__(self, code: int, fault: str) -> None:
        super().__init__(fault)
        self.code = code


def read(line: bytes) -> Message:
    """Return the fields of a message.

    Raises:
        MessageInvalid: The line is no object of JSON in UTF-8, or has other fields.
    """
    try:
        line.decode()  # the decoder does not look into the values
        message = _DECODER.decode(line)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = f"a message is one JSON object on a line: {error}"
        raise MessageInvalid(PARSE_ERROR, fault) from None
    strange = message.keys() - _FIELDS
    if strange:
        fault = f"a message has the fields {', '.join(sorted(_FIELDS))}, got {min(strange)!r:.80}"
        raise MessageInvalid(INVALID_REQUEST, fault)
    return message


def written(message: Message) -> bytes:
    """Return a message as one line, without its end."""
    return encode(message).replace(b"\r", b" ")  # JSON has it between values alone


def value_of(message: Message, field: str) -> Json:
    """Return a field as JSON; None if it is missing.

    Raises:
        MessageInvalid: It is no JSON.
    """
    raw = message.get(field)
    if raw is None:
        return None
    try:
        value: Json = decode(raw)
    except (DecodeError, RecursionError) as error:
        raise MessageInvalid(INVALID_REQUEST, f"{field} is no JSON: {error}") from None
    return value


def object_of(message: Message, field: str) -> dict[str, Json]:
    """Return a field that is an object; empty if it is missing.

    Raises:
        MessageInvalid: It is something else.
    """
    value = value_of(message, field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MessageInvalid(INVALID_PARAMS, f"{field} must be an object")
    return value


def request(number: Id, method: str, params: Json) -> bytes:
    """Return a request."""
    return encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def response(number: Id, result: Json | Raw) -> bytes:
    """Return the response to a request."""
    return encode({"jsonrpc": "2.0", "id": number, "result": result})


def failure(number: Id, code: int, message: str) -> bytes:
    """Return the response to a request that failed."""
    error = {"code": code, "message": message}
    return encode({"jsonrpc": "2.0", "id": number, "error": error})
