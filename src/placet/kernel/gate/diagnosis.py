"""The slow half of the structure stage: what is wrong with a batch, and where.

It defines what a sound batch is: plain values, validated as strict JSON. The fast path in
`structure.py` only accepts sooner what would be accepted here. So a batch means the same as text,
as dicts or as objects.
"""

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Final, NamedTuple

from pydantic import BaseModel, TypeAdapter
from pydantic import ValidationError as Unsound
from pydantic_core import ErrorDetails

from placet.kernel.registry import Registry
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical
from placet.schemas.intent import SCHEMA_MAJOR, SCHEMA_VERSION, Intent
from placet.schemas.limits import Limits
from placet.schemas.refusal import STAGE_OF, Notice, Refusal, RefusalCode

_SEMVER: Final = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:[-+][\w.+-]{1,64})?")
_FIELDS: Final = tuple(Intent.__annotations__)
_SHOWN_CHARS_MAX: Final = 80


class NotPlain(ValueError):
    """A value that JSON does not have. `at` is a JSON pointer inside the intent."""

    def __init__(self, message: str, at: str) -> None:
        super().__init__(message)
        self.at = at


class Sound(NamedTuple):
    """Intents that passed the second look, perhaps with warnings by position."""

    intents: list[Intent]
    notices: dict[int, tuple[Notice, ...]] | None


def refusal(code: RefusalCode, index: int, intent: object, message: str, at: str = "") -> Refusal:
    """Refuse one intent, pointing into it."""
    return Refusal(
        code.value,
        message,
        STAGE_OF[code],
        index,
        _text_field(intent, "req_id"),
        f"/intents/{index}{at}",
        details=_who(intent),
    )


def whole(code: RefusalCode, message: str, *, at: str = "") -> Refusal:
    """Refuse a batch as a whole."""
    return Refusal(code.value, message, STAGE_OF[code], at=at)


def shown(value: object) -> str:
    """Show a value in a message: short, and without raising."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  # a hostile object's __repr__
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN_CHARS_MAX else text[: _SHOWN_CHARS_MAX - 1] + "…"


class Diagnosis:
    """Says what is wrong with a batch that the fast path did not take."""

    __slots__ = ("_intents", "_limits", "_registry")

    def __init__(
        self, registry: Registry, limits: Limits, intents: TypeAdapter[list[Intent]]
    ) -> None:
        self._registry = registry
        self._limits = limits
        self._intents = intents

    def second_look(self, given: Sequence[object]) -> Sound | list[Refusal]:
        """Validate by the definition; give the intents, or every refusal, capped."""
        plain: list[Json] = []
        refusals: list[Refusal] = []
        notices: dict[int, tuple[Notice, ...]] = {}
        for index, intent in enumerate(given):
            try:
                value = to_plain(intent, self._limits.payload_depth_max)
            except NotPlain as error:
                code = RefusalCode.PAYLOAD_INVALID
                if not error.at.startswith("/payload"):
                    code = RefusalCode.FIELD_INVALID
                refusals.append(refusal(code, index, intent, str(error), error.at))
                value = None
            else:
                refusals += self._check_version(index, value, notices)
            plain.append(value)
        refused = {r.index for r in refusals}
        positions = [index for index in range(len(plain)) if index not in refused]
        intents, unsound = self._validate(plain, positions, notices)
        refusals += unsound
        if refusals:
            return self._capped(refusals)
        return Sound(intents, notices or None)

    def _check_version(
        self, index: int, intent: Json, notices: dict[int, tuple[Notice, ...]]
    ) -> list[Refusal]:
        """Accept an unknown minor of our major, with a warning; refuse another major."""
        version = intent.get("schema_version") if isinstance(intent, dict) else SCHEMA_VERSION
        if version is None or version == SCHEMA_VERSION:
            return []
        at = "/schema_version"
        if not isinstance(version, str) or not (parts := _SEMVER.fullmatch(version)):
            message = f"schema_version must be a semantic version string, got {shown(version)}"
            return [refusal(RefusalCode.FIELD_INVALID, index, intent, message, at)]
        if parts[1] != SCHEMA_MAJOR:
            message = (
                f"schema_version {version!r} has another major than {SCHEMA_VERSION!r}, which this "
                f"world speaks; send {SCHEMA_VERSION!r}"
            )
            return [refusal(RefusalCode.VERSION_UNSUPPORTED, index, intent, message, at)]
        message = f"read as {SCHEMA_VERSION!r}: this world does not know {version!r}"
        if not any(n.message == message for known in notices.values() for n in known):
            notices[index] = (Notice("version_unknown", message, f"/intents/{index}{at}"),)
        else:
            notices.setdefault(index, ())
        intent["schema_version"] = SCHEMA_VERSION
        return []

    def _validate(
        self,
        plain: list[Json],
        positions: list[int],
        notices: dict[int, tuple[Notice, ...]],
    ) -> tuple[list[Intent], list[Refusal]]:
        """Validate as strict JSON; unknown fields of a newer minor are dropped, then again."""
        while True:
            try:
                chosen = [plain[index] for index in positions]
                return self._intents.validate_json(json.dumps(chosen), strict=True), []
            except Unsound as error:
                details = error.errors(include_url=False, include_context=True)
            dropped = False
            for detail in details:
                index = positions[detail["loc"][0]] if detail["loc"] else 0  # type: ignore[index]  # an int
                if detail["type"] == "extra_forbidden" and index in notices:
                    dropped |= self._drop(plain[index], index, detail, notices)
            if not dropped:
                return [], [self._explain(plain, positions, detail) for detail in details]

    def _drop(
        self,
        intent: Json,
        index: int,
        detail: ErrorDetails,
        notices: dict[int, tuple[Notice, ...]],
    ) -> bool:
        path = self._path(detail)
        holder = intent
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        at = f"/intents/{index}{pointer(path)}"
        message = f"field {path[-1]!r} is unknown to {SCHEMA_VERSION!r} and was dropped"
        notices[index] = (*notices[index], Notice("field_dropped", message, at))
        return True

    def _path(self, detail: ErrorDetails) -> list[str | int]:
        """Where inside an intent; without the tag that a union puts behind the index."""
        path = list(detail["loc"][1:])
        if len(self._registry.kinds) > 1 and path and path[0] in self._registry.kinds:
            path = path[1:]
        return path

    def _explain(self, plain: list[Json], positions: list[int], detail: ErrorDetails) -> Refusal:
        index = positions[detail["loc"][0]]  # type: ignore[index]  # a list's errors begin with its index
        intent = plain[index]
        path = self._path(detail)
        kind = intent.get("kind") if isinstance(intent, dict) else None
        if detail["type"] in {"union_tag_not_found", "missing"} and len(path) <= 1:
            name = path[0] if path else "kind"
            message = f"field {name!r} is missing; an intent has {', '.join(_FIELDS[:-1])}"
            return refusal(RefusalCode.FIELD_MISSING, index, intent, message, f"/{name}")
        if detail["type"] in {"union_tag_invalid", "literal_error"} and path in ([], ["kind"]):
            return self._kind_unknown(index, intent, kind)
        at = pointer(path)
        if path and path[0] == "payload":
            message = f"payload of {kind}{at[len('/payload'):]}: {_says(detail)}"
            return refusal(RefusalCode.PAYLOAD_INVALID, index, intent, message, at)
        if detail["type"] == "extra_forbidden":
            return self._field_unknown(index, intent, str(path[0]))
        if not path:
            message = f"an intent must be an object, got {shown(intent)}"
            return refusal(RefusalCode.FIELD_INVALID, index, intent, message)
        message = f"field {path[0]!r}: {_says(detail)}"
        return refusal(RefusalCode.FIELD_INVALID, index, intent, message, at)

    def _kind_unknown(self, index: int, intent: Json, kind: Json) -> Refusal:
        if not isinstance(kind, str):
            message = f"field 'kind' must be a string, got {shown(kind)}"
            return refusal(RefusalCode.FIELD_INVALID, index, intent, message, "/kind")
        names = self._registry.nearest(kind, self._limits.suggestions_max)
        hint = f"did you mean {', '.join(names)}?" if names else "see the list of kinds"
        message = f"kind {shown(kind)} is not registered; {hint}"
        found = refusal(RefusalCode.KIND_UNKNOWN, index, intent, message, "/kind")
        return _with_suggestions(found, names)

    def _field_unknown(self, index: int, intent: Json, name: str) -> Refusal:
        names = tuple(get_close_matches(name, _FIELDS, self._limits.suggestions_max))
        hint = f"did you mean {names[0]!r}?" if names else f"an intent has {', '.join(_FIELDS)}"
        message = f"field {shown(name)} is unknown; {hint}"
        found = refusal(RefusalCode.FIELD_UNKNOWN, index, intent, message, pointer([name]))
        return _with_suggestions(found, names)

    def unencodable(self, intents: Sequence[Intent]) -> list[Refusal]:
        """Find the intents whose values have no canonical encoding."""
        refusals = []
        for index, intent in enumerate(intents):
            for name in ("agent_id", "req_id", "payload"):
                problem = _encoding_problem(intent[name])  # type: ignore[literal-required]  # a field
                if problem is None:
                    continue
                code = RefusalCode.PAYLOAD_INVALID
                if name != "payload":
                    code = RefusalCode.FIELD_INVALID
                refusals.append(refusal(code, index, intent, f"{name}: {problem}", f"/{name}"))
        return self._capped(refusals)

    def oversized(self, intents: Sequence[Intent], encoded: bytes) -> list[Refusal]:
        """Look closely at a batch that may be too large, too deep, or hold NaN or infinity."""
        limits = self._limits
        if len(encoded) > limits.batch_bytes_max:
            message = (
                f"the batch has {len(encoded)} bytes encoded, at most {limits.batch_bytes_max} may "
                "stand in one; split it"
            )
            return [whole(RefusalCode.BATCH_TOO_LARGE, message)]
        refusals = []
        for index, intent in enumerate(intents):
            size = len(canonical(intent["payload"]))
            if size > limits.payload_bytes_max:
                message = (
                    f"the payload has {size} bytes encoded, at most {limits.payload_bytes_max} are "
                    "allowed; put large data elsewhere and send a reference"
                )
                code = RefusalCode.PAYLOAD_TOO_LARGE
                refusals.append(refusal(code, index, intent, message, "/payload"))
                continue
            try:
                to_plain(intent["payload"], limits.payload_depth_max)
            except NotPlain as error:
                code = RefusalCode.PAYLOAD_INVALID
                refusals.append(refusal(code, index, intent, str(error), "/payload" + error.at))
        return self._capped(refusals)

    def duplicates(self, intents: Sequence[Intent]) -> list[Refusal]:
        """Find req_ids that stand twice."""
        first: dict[tuple[str, str], int] = {}
        refusals = []
        for index, intent in enumerate(intents):
            earlier = first.setdefault((intent["agent_id"], intent["req_id"]), index)
            if earlier != index:
                message = (
                    f"req_id {intent['req_id']!r} stands twice, first at /intents/{earlier}; each "
                    "intent of an agent needs its own"
                )
                code = RefusalCode.FIELD_INVALID
                refusals.append(refusal(code, index, intent, message, "/req_id"))
        return self._capped(refusals)

    def _capped(self, refusals: list[Refusal]) -> list[Refusal]:
        refusals.sort(key=_by_index)
        return refusals[: self._limits.refusals_listed_max]


def to_plain(value: object, depth_max: int, at: str = "") -> Json:
    """Copy a value into plain lists and dicts.

    Raises:
        NotPlain: JSON has no such value: a set, an iterator, NaN, a key that is no string, a lone
            surrogate, an int beyond 64 bits, nesting deeper than `depth_max`.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(value, at)
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return int(value)
        raise NotPlain(f"an int must fit 64 bits, got one of {value.bit_length()} bits", at)
    if isinstance(value, float):
        if isfinite(value):
            return float(value)
        raise NotPlain(f"a number must be finite, got {value!r}", at)
    if depth_max == 0:
        raise NotPlain("the value is nested too deeply, or holds itself", at)
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, list | tuple):
        return [to_plain(item, depth_max - 1, f"{at}/{i}") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _plain_key(key, at): to_plain(item, depth_max - 1, at + pointer([key]))
            for key, item in value.items()
        }
    raise NotPlain(f"JSON has no {type(value).__name__}, got {shown(value)}", at)


def _plain_text(value: str, at: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotPlain(f"a string must be valid Unicode, got {shown(value)}", at) from None
    return str(value)


def _plain_key(key: object, at: str) -> str:
    if not isinstance(key, str):
        raise NotPlain(f"an object's keys must be strings, got {shown(key)}", at)
    return _plain_text(key, at)


def pointer(path: Sequence[object]) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    return "".join(
        "/" + str(step).encode("utf-8", "backslashreplace").decode().replace("~", "~0").replace("/", "~1")
        for step in path
    )


def _encoding_problem(value: Json) -> str | None:
    try:
        canonical(value)
    except ENCODE_ERRORS:
        pass
    else:
        return None
    try:
        to_plain(value, 10_000)
    except NotPlain as error:
        return str(error)
    except RecursionError:
        return "the value is nested too deeply, or holds itself"
    return "the value cannot be encoded"


def _says(detail: ErrorDetails) -> str:
    message = detail["msg"][:1].lower() + detail["msg"][1:]
    if detail["type"] == "missing":
        return message
    return f"{message}, got {shown(detail['input'])}"


def _who(intent: object) -> dict[str, Json]:
    found = {name: _text_field(intent, name) for name in ("agent_id", "kind")}
    return {name: value for name, value in found.items() if value is not None}


def _text_field(intent: object, name: str) -> str | None:
    value = intent.get(name) if isinstance(intent, dict) else None
    if not isinstance(value, str):
        return None
    return value[:128].encode("utf-8", "replace").decode()


def _with_suggestions(found: Refusal, names: tuple[str, ...]) -> Refusal:
    return Refusal(
        found.code,
        found.message,
        found.stage,
        found.index,
        found.req_id,
        found.at,
        suggestions=names,
        details=found.details,
    )


_CODE_ORDER: Final = {code.value: place for place, code in enumerate(RefusalCode)}


def _by_index(found: Refusal) -> tuple[int, int]:
    return (-1 if found.index is None else found.index, _CODE_ORDER.get(found.code, len(_CODE_ORDER)))


