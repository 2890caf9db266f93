"""The fields of bodies and queries, read by msgspec structs; the OpenAPI document shows the same.

Every problem names the field, the expected value and the value that came.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct, structs

from placet.schemas.codec import Json
from placet.schemas.identity import ID_CHARS_MAX, ID_PATTERN
from placet.schemas.json_value import format_value
from placet.schemas.names import NAME_PATTERN, PATH_PART_PATTERN
from placet.server.http.problems import Problem


class Fields(Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of structs that define request bodies and URL queries."""


T = TypeVar("T", bound=Fields)

_SEQ_MAX: Final = 2**62
_PARAMETERS_MAX: Final = 32
"""Of a query: it is read before a token is checked."""


END: Final = r"(?![\s\S])"
"""The end of a text. In Python `$` also matches before a last newline."""

_FIELD: Final = re.compile(r"\$\.(\w+)")
_TYPE_GOT: Final = re.compile(r", got `[^`]*`")
_PATTERN: Final = re.compile(r" matching regex .*")
"""Parts of an error of msgspec that are not for people; a description tells of the pattern."""

Identity = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=ID_CHARS_MAX,
        pattern=ID_PATTERN.replace("$", END),
        extra_json_schema={"pattern": ID_PATTERN},
        description="1 to 128 characters, none of them a control character",
    ),
]
NewName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=ID_CHARS_MAX,
        extra_json_schema={"pattern": NAME_PATTERN},
        description="1 to 128 characters: no control, bidirectional or zero-width character",
    ),
]
"""A name to register; the world checks it, and has a sentence for each fault."""

PathPart = Annotated[
    str,
    Meta(
        min_length=1,
        extra_json_schema={"pattern": PATH_PART_PATTERN},
        description="a part of a path: no '/', no '\\', no dot at its beginning, no dot or space "
        "at its end, and no control, bidirectional or zero-width character",
    ),
]
"""A name that becomes a part of a path; who makes the thing checks it with `path_part_fault`."""

ViewAgent = Annotated[Identity | None, Meta(description="See what this agent sees.")]
Place = Annotated[int, Meta(ge=0, le=_SEQ_MAX)]
SinceSeq = Annotated[Place, Meta(description="Only records with a greater seq.")]
FromRecord = Annotated[
    Place | None, Meta(description="Records from this ordinal on; `since` is not used then.")
]
PageLimit = Annotated[
    int,
    Meta(ge=1, le=1_000_000, description="Number of items; the server has an upper bound, too."),
]

AfterEntity = Annotated[
    str | None,
    Meta(description="Entities of the collection after this one, its id."),
]
EntityLimit = Annotated[
    Annotated[int, Meta(ge=1, le=1_000_000)] | None,
    Meta(description="Number of entities; the server has an upper bound, too."),
]


def read_query(query: bytes, kind: type[T]) -> T:
    """Parse the query of a URL into a struct of type `kind`.

    Raises:
        Problem: There is an unknown or repeated parameter, or an invalid value.
    """
    try:
        pairs = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, max_num_fields=_PARAMETERS_MAX
        )
    except ValueError:
        raise Problem("request_invalid", f"more than {_PARAMETERS_MAX} parameters") from None
    given = dict(pairs)
    _check_names(given, kind, "parameters")
    if len(given) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise Problem("request_invalid", f"query.{repeated}: Expected one value, got several")
    read = _read(given, kind, "query.", is_strict=False)
    for name in given:
        if getattr(read, name) is None:  # msgspec takes the text null for None
            raise Problem("request_invalid", f"query.{name}: Expected a value, got 'null'")
    return read


def read_fields(given: Mapping[str, Json], kind: type[T]) -> T:
    """Convert a JSON object to a struct of type `kind`.

    Raises:
        Problem: A field is unknown, a required field is missing, or a value is invalid.
    """
    _check_names(given, kind, "fields")
    schema = _schema_of(kind)
    whole = _with_integers(dict(given), schema, schema["$defs"])
    return _read(whole, kind, "", is_strict=True)


def _with_integers(value: Json, schema: Mapping[str, Json], parts: Mapping[str, Json]) -> Json:
    """Return 37 for 37.0 wherever a schema has integers: to JSON Schema they are one number.

    Args:
        value: Plain JSON.
        schema: The schema of the value.
        parts: The schemas that a schema refers to, by name.
    """
    options = [schema, *schema.get("anyOf", ())]
    options = [parts[o["$ref"].rpartition("/")[2]] if "$ref" in o else o for o in options]
    if type(value) is float:
        is_whole = value.is_integer() and any(o.get("type") == "integer" for o in options)
        return int(value) if is_whole else value
    if type(value) is dict:
        known = {k: v for o in options for k, v in o.get("properties", {}).items()}
        more = [o["additionalProperties"] for o in options if "additionalProperties" in o]
        others = more[0] if more and type(more[0]) is dict else {}
        return {k: _with_integers(v, known.get(k, others), parts) for k, v in value.items()}
    if type(value) is list:
        items: Json = next((o["items"] for o in options if "items" in o), {})
        return [_with_integers(item, items, parts) for item in value]
    return value


@cache
def _schema_of(kind: type[Fields]) -> Mapping[str, Json]:
    schema: Mapping[str, Json] = msgspec.json.schema(kind)
    return schema


@cache
def properties_of(kind: type[Fields]) -> Mapping[str, Json]:
    """Return the JSON Schema of each field of a struct, by name."""
    properties: Mapping[str, Json] = _schema_of(kind)["$defs"][kind.__name__]["properties"]
    return properties


def _check_names(given: Mapping[str, Json], kind: type[Fields], noun: str) -> None:
    known = {field.name: field.required for field in structs.fields(kind)}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        there_are = f"there are {', '.join(known)}" if known else "there are none"
        shown = ", ".join(unknown)
        raise Problem("request_invalid", f"unknown {noun} {shown:.200}; {there_are}")
    missing = [name for name, is_required in known.items() if is_required and name not in given]
    if missing:
        raise Problem("request_invalid", f"missing {noun} {', '.join(missing)}")


def _read(given: Mapping[str, Any], kind: type[T], where: str, *, is_strict: bool) -> T:
    try:
        return msgspec.convert(given, kind, strict=is_strict)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        field = _FIELD.search(place)
        assert field is not None, "names of fields are checked before"
        expected = _PATTERN.sub(" of another form", _TYPE_GOT.sub("", text))
        came, hint = format_value(given[field[1]]), _hint_of(properties_of(kind)[field[1]])
        at = place.replace("`", "").replace("$.", where)
        raise Problem("request_invalid", f"{at}: {expected}, got {came}{hint}") from None


def _hint_of(schema: Mapping[str, Json]) -> str:
    """Return the values or the description of a schema, or of the part of it that is not null."""
    for part in (schema, *schema.get("anyOf", ())):
        if "enum" in part:
            return f" (one of {', '.join(part['enum'])})"
        if "description" in part:
            return f" ({part['description']})"
    return ""
