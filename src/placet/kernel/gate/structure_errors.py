"""Error path of the structure stage: locate and describe each validation failure.

It defines a valid batch: plain values, validated as strict JSON. The fast path in `structure.py`
accepts a subset of the same batches sooner. So a batch means the same as text, as dicts or as
objects.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace
from pydantic import TypeAdapter
from pydantic import ValidationError as Unsound
from pydantic_core import ErrorDetails

from placet.kernel.gate.intent_refusals import refuse_batch
from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical, to_json
from placet.schemas.condition import Condition
from placet.schemas.identity import ID_CHARS_MAX
from placet.schemas.intent import REQUIRED_FIELDS, SCHEMA_MAJOR, SCHEMA_VERSION, Intent
from placet.schemas.json_value import (
    InvalidJsonValue,
    TooLarge,
    TooManyValues,
    ValueBudget,
    format_value,
    message_for,
    pointer,
    to_json_value,
)
from placet.schemas.limits import Limits
from placet.schemas.name_suggestions import nearest
from placet.schemas.refusal import STAGE_OF, Notice, Refusal, RefusalCode

_SEMVER: Final = re.compile(
    r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:[-+][\w.+-]{1,64})?"
)
_FIELDS: Final = tuple(Intent.__annotations__)
_REQUIRED: Final = _FIELDS[:REQUIRED_FIELDS]
_FIELDS_OF_CONDITION: Final = tuple(Condition.__annotations__)
_MISSING_TYPES: Final = frozenset({"missing", "union_tag_not_found"})
_KINDS_LISTED_MAX: Final = 12
_ALL_VALUES: Final = 2
"""All values of a batch, its fields and closed payloads too, per value of `batch_values_max`."""

_PART_INTENTS: Final = 64

_HEAD_BYTES_MAX: Final = 4096
"""Bytes allowed for the fields of an intent besides its payload."""

__all__ = ["Diagnosis", "Sound", "Unsound", "refusal"]


class Sound(NamedTuple):
    """Result of the full structure check of a valid batch.

    Attributes:
        intents: The checked intents, in the submitted order.
        notices: Position in the batch -> warnings; None if there are none.
    """

    intents: list[Intent]
    notices: dict[int, tuple[Notice, ...]] | None


def refusal(code: RefusalCode, index: int, intent: object, message: str, at: str = "") -> Refusal:
    """Return the refusal of one intent.

    Args:
        code: Code, which also decides the stage.
        index: Position of the intent in the batch.
        intent: The intent as submitted; its agent and kind go into the details.
        message: Failed check, expected value, actual value, and the remedy.
        at: JSON pointer inside the intent.
    """
    return Refusal(
        code.value,
        message,
        STAGE_OF[code],
        index,
        _text_field(intent, "req_id"),
        f"/intents/{index}{at}",
        details=_agent_and_kind(intent),
    )


class Diagnosis:
    """The full structure check, for a batch that the fast check did not accept.

    It finds the reasons, or accepts a valid batch of an unusual form. The refusals that a method
    returns are sorted by position and at most `refusals_listed_max`.
    """

    __slots__ = ("_intents", "_limits", "_registry")

    def __init__(
        self, registry: Registry, limits: Limits, intents: TypeAdapter[list[Intent]]
    ) -> None:
        self._registry = registry
        self._limits = limits
        self._intents = intents

    def explain_failure(self, submitted: Sequence[object]) -> Sound | list[Refusal]:
        """Validate the intents of a batch as strict JSON, one by one.

        Returns:
            The checked intents if all are valid; else the refusals.
        """
        plain: list[Json] = []
        intents: list[Intent] = []
        refusals: list[Refusal] = []
        notices: dict[int, tuple[Notice, ...]] = {}
        copied = ValueBudget(_ALL_VALUES * self._limits.batch_values_max)
        validated = ValueBudget(self._limits.batch_values_max)
        # In parts, because a batch with many faults ends at the first that are listed.
        for start in range(0, len(submitted), _PART_INTENTS):
            for index, intent in enumerate(submitted[start : start + _PART_INTENTS], start):
                try:
                    value = self._plain(intent, copied)
                except TooManyValues as error:
                    if error.at.startswith("/payload"):
                        return [self.too_many_values(submitted)]
                    return self._capped([*refusals, self._not_plain(index, intent, error)])
                except InvalidJsonValue as error:
                    refusals.append(self._not_plain(index, intent, error))
                    value = None
                else:
                    refusals += self._check_size(index, value)
                    refusals += self._check_version(index, value, notices)
                plain.append(value)
            refused = {r.index for r in refusals}
            positions = [index for index in range(start, len(plain)) if index not in refused]
            sound, unsound = self._validate(plain, positions, notices, validated)
            if validated.is_exceeded:
                return [self.too_many_values(submitted)]
            intents += sound
            refusals += unsound
            if len(refusals) >= self._limits.refusals_listed_max:
                break
        if refusals:
            return self._capped(refusals)
        return Sound(intents, notices or None)

    def _plain(self, intent: object, budget: ValueBudget) -> Json:
        limits = self._limits
        bytes_max = limits.payload_bytes_max + _HEAD_BYTES_MAX
        return to_json_value(intent, limits.payload_depth_max + 1, bytes_max, budget)

    def too_many_values(self, submitted: Sequence[object]) -> Refusal:
        """Return the refusal of a batch whose payloads hold more than `batch_values_max` values.

        The caller has counted them. A batch of one intent is refused with a pointer to its payload.
        """
        message = (
            "the payloads hold more than "
            f"{self._limits.batch_values_max} JSON values (batch_values_max), items of arrays and "
            "objects; split the batch, or send large data as a text or by reference"
        )
        if len(submitted) == 1:
            return refusal(RefusalCode.PAYLOAD_TOO_LARGE, 0, submitted[0], message, "/payload")
        return refuse_batch(RefusalCode.BATCH_TOO_LARGE, message)

    def _not_plain(self, index: int, intent: object, error: InvalidJsonValue) -> Refusal:
        if not error.at.startswith("/payload"):
            return refusal(RefusalCode.FIELD_INVALID, index, intent, str(error), error.at)
        if isinstance(error, TooLarge):
            size = f"more than {self._limits.payload_bytes_max} bytes"
            return self._payload_too_large(index, intent, size)
        return refusal(RefusalCode.PAYLOAD_INVALID, index, intent, str(error), error.at)

    def _check_size(self, index: int, intent: Json) -> list[Refusal]:
        payload = intent.get("payload") if isinstance(intent, dict) else None
        size = len(canonical(payload))
        if size <= self._limits.payload_bytes_max:
            return []
        return [self._payload_too_large(index, intent, f"{size} bytes")]

    def _check_version(
        self, index: int, intent: Json, notices: dict[int, tuple[Notice, ...]]
    ) -> list[Refusal]:
        """Accept an unknown minor of our major, with a warning; refuse another major."""
        version = intent.get("schema_version") if isinstance(intent, dict) else SCHEMA_VERSION
        if version is None or version == SCHEMA_VERSION:
            return []
        at = "/schema_version"
        if not isinstance(version, str) or not (parts := _SEMVER.fullmatch(version)):
            message = (
                f"schema_version must be a semantic version string, got {format_value(version)}"
            )
            return [refusal(RefusalCode.FIELD_INVALID, index, intent, message, at)]
        if parts[1] != SCHEMA_MAJOR:
            message = (
                f"schema_version {version!r} has another major than {SCHEMA_VERSION!r}, which this "
                f"world reads; send {SCHEMA_VERSION!r}"
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
        budget: ValueBudget,
    ) -> tuple[list[Intent], list[Refusal]]:
        """Validate as strict JSON; drop unknown fields of a newer minor version and repeat."""
        listed_max, values_left = self._limits.refusals_listed_max, budget.left
        while True:
            budget.left = values_left
            chosen = [plain[index] for index in positions]
            details = self._unknown_fields(chosen)
            try:
                intents = self._intents.validate_json(
                    to_json(chosen), strict=True, by_alias=True, by_name=True, context=budget
                )
                if not details:
                    return intents, []
            except Unsound as error:
                if budget.is_exceeded:
                    return [], []
                details = self._about_fields(error) + details
            dropped = False
            for detail in details:
                index = positions[_first(detail)]
                if detail["type"] == "extra_forbidden" and index in notices:
                    dropped |= self._drop(plain[index], index, detail, notices)
            if not dropped:
                details = self._one_if_missing(details)
                details.sort(key=_first)
                return [], [self._explain(plain, positions, d) for d in details[:listed_max]]

    def _about_fields(self, error: Unsound) -> list[ErrorDetails]:
        """List the faults of an intent's fields."""
        return [
            detail
            for detail in error.errors(include_url=False, include_context=True)
            if detail["type"] != "extra_forbidden" or len(self._path(detail)) > 1
        ]

    def _unknown_fields(self, chosen: Sequence[Json]) -> list[ErrorDetails]:
        """Return the fields that an intent does not have, which the validator may pass over.

        With several kinds, an intent without a known kind is refused for that alone.
        """
        kinds = self._registry.kinds
        return [
            {"type": "extra_forbidden", "loc": (place, *tag, name), "msg": "", "input": value}
            for place, intent in enumerate(chosen)
            if type(intent) is dict and (len(kinds) == 1 or _text_field(intent, "kind") in kinds)
            for tag in [() if len(kinds) == 1 else (intent["kind"],)]  # as a union tells it
            for name, value in intent.items()
            if name not in _FIELDS
        ]

    def _drop(
        self,
        intent: Json,
        index: int,
        detail: ErrorDetails,
        notices: dict[int, tuple[Notice, ...]],
    ) -> bool:
        path = self._path(detail)
        holder = intent
        try:
            for step in path[:-1]:
                holder = holder[step]
            del holder[path[-1]]
        except (LookupError, TypeError):  # inside a union, whose tags are no steps
            return False
        at = f"/intents/{index}{pointer(path)}"
        message = f"field {format_value(path[-1])} is unknown to {SCHEMA_VERSION!r} and was dropped"
        notices[index] = (*notices[index], Notice("field_dropped", message, at))
        return True

    def _path(self, detail: ErrorDetails) -> list[str | int]:
        """Return the path inside an intent, without the tag that a union adds after the index."""
        path = list(detail["loc"][1:])
        if len(self._registry.kinds) > 1 and path and path[0] in self._registry.kinds:
            path = path[1:]
        return path

    def _one_if_missing(self, details: list[ErrorDetails]) -> list[ErrorDetails]:
        """Keep one detail for all missing fields of an intent: one refusal names them all."""
        kept: list[ErrorDetails] = []
        incomplete: set[int] = set()
        for detail in details:
            if detail["type"] in _MISSING_TYPES and len(self._path(detail)) <= 1:
                if _first(detail) in incomplete:
                    continue
                incomplete.add(_first(detail))
            kept.append(detail)
        return kept

    def _explain(self, plain: list[Json], positions: list[int], detail: ErrorDetails) -> Refusal:
        index = positions[_first(detail)]
        intent = plain[index]
        path = self._path(detail)
        kind = intent.get("kind") if isinstance(intent, dict) else None
        if detail["type"] in _MISSING_TYPES and len(path) <= 1 and isinstance(intent, dict):
            return _missing(index, intent)
        if detail["type"] in {"union_tag_invalid", "literal_error"} and path in ([], ["kind"]):
            return self._kind_unknown(index, intent, kind)
        at = pointer(path)
        if path and path[0] == "payload":
            message = f"payload of {kind}{at[len('/payload') :]}: {message_for(detail)}"
            return refusal(RefusalCode.PAYLOAD_INVALID, index, intent, message, at)
        if detail["type"] == "extra_forbidden":
            known = _FIELDS if len(path) == 1 else _FIELDS_OF_CONDITION
            return self._field_unknown(index, intent, path, known)
        if not path:
            message = f"an intent must be an object, got {format_value(intent)}"
            return refusal(RefusalCode.FIELD_INVALID, index, intent, message)
        message = f"field {path[0]!r}: {message_for(detail)}"
        return refusal(RefusalCode.FIELD_INVALID, index, intent, message, at)

    def _kind_unknown(self, index: int, intent: Json, kind: Json) -> Refusal:
        if not isinstance(kind, str):
            message = f"field 'kind' must be a string, got {format_value(kind)}"
            return refusal(RefusalCode.FIELD_INVALID, index, intent, message, "/kind")
        names = self._registry.nearest(kind, self._limits.suggestions_max)
        hint = f"did you mean {', '.join(names)}?" if names else self._kinds()
        message = f"kind {format_value(kind)} is not registered; {hint}"
        unknown = refusal(RefusalCode.KIND_UNKNOWN, index, intent, message, "/kind")
        return replace(unknown, suggestions=names)

    def _kinds(self) -> str:
        """List the registered kinds, by name, up to a bound."""
        names = sorted(self._registry.kinds)
        more = len(names) - _KINDS_LISTED_MAX
        listed = ", ".join(names[:_KINDS_LISTED_MAX])
        return f"the kinds are {listed}{f' and {more} more' if more > 0 else ''}"

    def _field_unknown(
        self, index: int, intent: Json, path: Sequence[str | int], known: Sequence[str]
    ) -> Refusal:
        name, what = str(path[-1]), "an intent" if len(path) == 1 else "a condition"
        names = nearest(name, known, self._limits.suggestions_max)
        hint = f"did you mean {names[0]!r}?" if names else f"{what} has {', '.join(known)}"
        of = "" if len(path) == 1 else f" of {what}"
        message = f"field {format_value(name)}{of} is unknown; {hint}"
        unknown = refusal(RefusalCode.FIELD_UNKNOWN, index, intent, message, pointer(path))
        return replace(unknown, suggestions=names)

    def unencodable(self, intents: Sequence[Intent]) -> list[Refusal]:
        """Return a refusal for each intent whose payload model produced an unencodable value."""
        refusals = []
        for index, intent in enumerate(intents):
            try:
                canonical(intent["payload"])
            except ENCODE_ERRORS as error:
                message = (
                    f"the payload model of {intent['kind']} makes what cannot be recorded "
                    f"({type(error).__name__}); report it to the domain's author"
                )
                code = RefusalCode.PAYLOAD_INVALID
                refusals.append(refusal(code, index, intent, message, "/payload"))
        return self._capped(refusals)

    def oversized(self, intents: Sequence[Intent], encoded_bytes: int) -> list[Refusal]:
        """Check the sizes and numbers of validated intents.

        Args:
            intents: The intents.
            encoded_bytes: Encoded size of the whole batch.

        Returns:
            A refusal of the batch if it is too large; else one for each intent whose payload is too
            large, or holds NaN or infinity. Empty if all pass.
        """
        limits = self._limits
        if encoded_bytes > limits.batch_bytes_max:
            message = (
                f"the batch has {encoded_bytes} bytes encoded, at most {limits.batch_bytes_max} "
                "may stand in one; split it"
            )
            return [refuse_batch(RefusalCode.BATCH_TOO_LARGE, message)]
        refusals = []
        for index, intent in enumerate(intents):
            size = len(canonical(intent["payload"]))
            if size > limits.payload_bytes_max:
                refusals.append(self._payload_too_large(index, intent, f"{size} bytes"))
                continue
            try:
                to_json_value(intent["payload"], limits.payload_depth_max, limits.payload_bytes_max)
            except InvalidJsonValue as error:
                code = RefusalCode.PAYLOAD_INVALID
                refusals.append(refusal(code, index, intent, str(error), "/payload" + error.at))
        return self._capped(refusals)

    def _payload_too_large(self, index: int, intent: object, size: str) -> Refusal:
        message = (
            f"the payload has {size} encoded, at most {self._limits.payload_bytes_max} are "
            "allowed; put large data elsewhere and send a reference"
        )
        return refusal(RefusalCode.PAYLOAD_TOO_LARGE, index, intent, message, "/payload")

    def duplicates(self, intents: Sequence[Intent]) -> list[Refusal]:
        """Return a refusal for each intent whose req_id an earlier intent of its agent has."""
        first: dict[tuple[str, str], int] = {}
        refusals = []
        for index, intent in enumerate(intents):
            earlier = first.setdefault((intent["agent_id"], intent["req_id"]), index)
            if earlier != index:
                message = (
                    f"req_id {intent['req_id']!r} is used twice, first at /intents/{earlier}; each "
                    "intent of an agent needs its own"
                )
                code = RefusalCode.FIELD_INVALID
                refusals.append(refusal(code, index, intent, message, "/req_id"))
        return self._capped(refusals)

    def _capped(self, refusals: list[Refusal]) -> list[Refusal]:
        refusals.sort(key=_by_index)
        return refusals[: self._limits.refusals_listed_max]


def _first(detail: ErrorDetails) -> int:
    index = detail["loc"][0]
    assert isinstance(index, int), "the errors of a list begin with an index"
    return index


def _missing(index: int, intent: Json) -> Refusal:
    """Return the refusal of an intent that lacks fields; it points to the first and names all."""
    names = [name for name in _REQUIRED if name not in intent]
    listed = ", ".join(map(repr, names))
    lacking = f"field {listed} is missing" if len(names) == 1 else f"fields {listed} are missing"
    message = f"{lacking}; an intent has {', '.join(_REQUIRED)}"
    missing = refusal(RefusalCode.FIELD_MISSING, index, intent, message, f"/{names[0]}")
    return replace(missing, details={**missing.details, "missing": names})


def _agent_and_kind(intent: object) -> dict[str, Json]:
    fields = {name: _text_field(intent, name) for name in ("agent_id", "kind")}
    return {name: value for name, value in fields.items() if value is not None}


def _text_field(intent: object, name: str) -> str | None:
    value = intent.get(name) if isinstance(intent, dict) else None
    if not isinstance(value, str):
        return None
    return str.encode(value[:ID_CHARS_MAX], "utf-8", "replace").decode()


_CODE_ORDER: Final = {code.value: place for place, code in enumerate(RefusalCode)}


def _by_index(listed: Refusal) -> tuple[int, int]:
    return (
        -1 if listed.index is None else listed.index,
        _CODE_ORDER.get(listed.code, len(_CODE_ORDER)),
    )
