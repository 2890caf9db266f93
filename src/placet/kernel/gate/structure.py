"""Stage 1, at the door: is this a batch at all?

Pure, and run in the submitter's turn. A sound batch is validated by one compiled call, encoded
once, and comes out as a `CheckedBatch`; its bytes give size, fingerprint and record. An unsound one
is looked at a second time, slowly, to say what is wrong (`kernel/gate/diagnosis.py`).

Whatever comes in - any JSON, any Python object - ends as a checked batch or as refusals.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter
from pydantic import ValidationError as Unsound
from typing_extensions import NotRequired, TypedDict, is_typeddict

from placet.kernel.gate.diagnosis import Diagnosis, whole
from placet.kernel.registry import Registry
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import ENCODE_ERRORS, Json, array_header, canonical
from placet.schemas.identity import ID_CHARS_MAX, ID_PATTERN
from placet.schemas.intent import SCHEMA_VERSION, Intent
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import Notice, Refusal, RefusalCode

_Id = Annotated[str, Field(strict=True, min_length=1, max_length=ID_CHARS_MAX, pattern=ID_PATTERN)]
_Finite = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
_Seq = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
_Priority = Annotated[int, Field(strict=True, ge=0, le=100)]

_PERHAPS_NOT_FINITE: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""A float64 whose exponent is all ones; may also match inside a string, so it only raises doubt."""

_OPTIONS: Final = frozenset({"intents", "sim_time", "dry_run", "valid_for_s"})
_HOSTILE: Final = "the batch holds an object that cannot be read"


class Structure:
    """The compiled first stage of one world."""

    __slots__ = ("_diagnosis", "_limits", "_registry", "_validate")

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._registry = registry
        self._limits = limits
        intents = _intents_adapter(registry)
        self._validate = intents.validator.validate_python
        self._diagnosis = Diagnosis(registry, limits, intents)

    def check(self, raw: object, submitter: str, batch_id: str) -> CheckedBatch | list[Refusal]:
        """Check a batch: a list of intents, a batch object, or one intent."""
        try:
            return self._check(raw, submitter, batch_id)
        except Exception as error:  # noqa: BLE001  # the door: an object's own methods may raise
            return [whole(RefusalCode.PAYLOAD_INVALID, f"{_HOSTILE}: {type(error).__name__}")]

    def _check(self, raw: object, submitter: str, batch_id: str) -> CheckedBatch | list[Refusal]:
        options: Mapping[str, Json] = {}
        given: object = raw
        if isinstance(raw, Mapping):
            if "intents" in raw:
                options, given = raw, raw["intents"]
            else:
                given = [raw]
        if not isinstance(given, list | tuple):
            message = (
                "a batch must be an array of intents, an object with 'intents', or one intent; "
                f"got {type(given).__name__}"
            )
            return [whole(RefusalCode.FIELD_INVALID, message)]
        unsound = _check_size(given, self._limits) or _check_options(options)
        if unsound:
            return unsound
        notices: dict[int, tuple[Notice, ...]] | None = None
        try:
            intents: list[Intent] = self._validate(given if type(given) is list else list(given))
        except Unsound:
            outcome = self._diagnosis.second_look(given)
            if isinstance(outcome, list):
                return outcome
            intents, notices = outcome.intents, outcome.notices
        return self._encode(intents, notices, options, submitter, batch_id)

    def _encode(
        self,
        intents: list[Intent],
        notices: dict[int, tuple[Notice, ...]] | None,
        options: Mapping[str, Json],
        submitter: str,
        batch_id: str,
    ) -> CheckedBatch | list[Refusal]:
        limits = self._limits
        try:
            parts = [
                canonical((i["agent_id"], i["req_id"], i["kind"], i["payload"], i["priority"]))
                for i in intents
            ]
        except ENCODE_ERRORS:
            return self._diagnosis.unencodable(intents)
        encoded = array_header(len(parts)) + b"".join(parts)
        large = max(map(len, parts)) > limits.payload_depth_max
        if large or _PERHAPS_NOT_FINITE.search(encoded):
            unsound = self._diagnosis.oversized(intents, encoded)
            if unsound:
                return unsound
        batch = CheckedBatch()
        batch.intents = intents
        batch.encoded = encoded
        batch.fingerprint = _fingerprint(parts)
        batch.notices = notices
        batch.submitter = submitter
        batch.batch_id = batch_id
        batch.due_of = None
        batch.contexts = [intent["context_seq"] for intent in intents]
        batch.valid_until_ns = None
        for intent in intents:
            if "valid_until" in intent:
                batch.valid_until_ns = [_until_ns(intent) for intent in intents]
                break
        if not batch.tally():
            return self._diagnosis.duplicates(intents)
        if options:
            _read_options(batch, options)
        else:
            batch.sim_time_ns = batch.valid_for_ns = None
            batch.dry_run = False
        return batch


def _intents_adapter(registry: Registry) -> TypeAdapter[list[Intent]]:
    variants = tuple(_variant(kind.name, kind.payload) for kind in registry)
    one: Any = variants[0]
    if len(variants) > 1:
        one = Annotated[_union(variants), Field(discriminator="kind")]
    return TypeAdapter(Annotated[list[one], Field(strict=True)], config=ConfigDict(strict=True))


def _union(variants: tuple[Any, ...]) -> Any:
    union = variants[0]
    for variant in variants[1:]:
        union = union | variant
    return union


def _variant(name: str, payload: object) -> Any:
    """Make the TypedDict of the intents of one kind."""
    fields = {
        "kind": Literal[name],
        "payload": _plain_payload(payload),
        "agent_id": _Id,
        "req_id": _Id,
        "context_seq": _Seq,
        "priority": _Priority,
        "schema_version": Literal[SCHEMA_VERSION],
        "valid_until": NotRequired[_Finite],
    }
    variant: Any = TypedDict(f"Intent_{name}", fields)  # type: ignore[operator]  # made at run time
    variant.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return variant


def _plain_payload(payload: Any) -> Any:
    """A TypedDict validates to a dict; every other model is dumped to one."""
    if is_typeddict(payload):
        return payload
    adapter: TypeAdapter[object] = TypeAdapter(payload)

    def dump(value: object) -> dict[str, Json]:
        dumped = adapter.dump_python(value, mode="json")
        if not isinstance(dumped, dict):
            raise ValueError(f"a payload must be an object, got {type(dumped).__name__}")  # noqa: TRY004  # pydantic turns ValueError into an error of the field
        return dumped

    return Annotated[payload, AfterValidator(dump)]


def _fingerprint(parts: list[bytes]) -> int:
    """Hash the set of parts to 64 bits; layout version 1 is their sorted concatenation."""
    if len(parts) > 1:
        parts = sorted(parts)
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "big")


def _until_ns(intent: Intent) -> int | None:
    until = intent.get("valid_until")
    return None if until is None else round(until * SECOND_NS)


def _check_size(given: Sequence[object], limits: Limits) -> list[Refusal]:
    if not given:
        message = f"the batch is empty; send 1 to {limits.batch_intents_max} intents"
        return [whole(RefusalCode.BATCH_EMPTY, message)]
    if len(given) > limits.batch_intents_max:
        message = (
            f"the batch has {len(given)} intents, at most {limits.batch_intents_max} may stand in "
            "one; split it"
        )
        return [whole(RefusalCode.BATCH_TOO_LARGE, message)]
    return []


def _check_options(options: Mapping[str, Json]) -> list[Refusal]:
    refusals = []
    for name, value in options.items():
        if name not in _OPTIONS:
            message = f"a batch has no field {name!r}; it has {sorted(_OPTIONS)}"
            refusals.append(whole(RefusalCode.FIELD_UNKNOWN, message, at=f"/{name}"))
        elif name == "dry_run" and type(value) is not bool:
            message = f"dry_run must be true or false, got {value!r}"
            refusals.append(whole(RefusalCode.FIELD_INVALID, message, at="/dry_run"))
        elif name in {"sim_time", "valid_for_s"} and value is not None and not _is_time(value):
            message = f"{name} must be a finite number of seconds >= 0, got {value!r}"
            refusals.append(whole(RefusalCode.FIELD_INVALID, message, at=f"/{name}"))
    return refusals


def _is_time(value: Json) -> bool:
    """A number of seconds that fits 63 bits of nanoseconds."""
    return type(value) in {int, float} and 0 <= value < 2**63 / SECOND_NS and isfinite(value)


def _read_options(batch: CheckedBatch, options: Mapping[str, Json]) -> None:
    sim_time, valid_for_s = options.get("sim_time"), options.get("valid_for_s")
    batch.sim_time_ns = None if sim_time is None else round(sim_time * SECOND_NS)
    batch.valid_for_ns = None if valid_for_s is None else round(valid_for_s * SECOND_NS)
    batch.dry_run = options.get("dry_run", False)


