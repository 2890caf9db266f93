"""Stage 1, at admission: is this a batch at all?

Pure, and run in the submitter's task. A valid batch is validated by one compiled call, encoded
once, and becomes a `CheckedBatch`; its bytes give size, fingerprint and record. An invalid one
is checked again by the slow path, which describes each fault
(`kernel/gate/structure_errors.py`).

Any input, JSON or Python object, ends as a checked batch or as refusals.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import islice
from operator import itemgetter
from struct import Struct
from types import MappingProxyType
from typing import Final, TypeAlias

from placet.kernel.gate.intent_refusals import refuse_batch
from placet.kernel.gate.shape import intents_adapter
from placet.kernel.gate.structure_errors import Diagnosis, Unsound
from placet.kernel.plugin.boundary import plugin_boundary
from placet.kernel.plugin.registry import Registry
from placet.schemas.batch import CheckedBatch, Part, conditions_of, encoded_part_of, part_of
from placet.schemas.codec import (
    ENCODE_ERRORS,
    PLAIN_TYPES,
    Json,
    array_header,
    canonical,
    freeze,
    from_numpy,
    thaw,
)
from placet.schemas.errors import INTERRUPTS
from placet.schemas.intent import REQUIRED_FIELDS, Intent
from placet.schemas.json_value import ValueBudget, format_value, pointer
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.log.intents import set_valid_until
from placet.schemas.refusal import Notice, Refusal, RefusalCode

seems_huge: Final = re.compile(rb"\xcb[\x7f\xff]").search
"""Finds how a float64 of NaN, infinity or beyond 1e231 begins; as other bytes may, it raises doubt.

One pattern takes a third of what two questions `part in encoded` do: `in` tries an int first.
"""

_CONTEXT: Final = itemgetter("context_seq")
_COUNT: Final = dict.__len__
"""Counts the fields of a dict, also of a subclass that overrides `__len__`."""

_Encoded: TypeAlias = tuple[list[Part], list[bytes], int]
"""The encoded part of each intent, its bytes, and the number of fields of all intents."""

_Sound: TypeAlias = tuple[list[Intent], _Encoded, dict[int, tuple[Notice, ...]] | None]
"""Valid intents, their encoding, and warnings by position."""

_ONE: Final = array_header(1)
_header_of: Final = cache(array_header)
"""At most `batch_intents_max` + 1 headers of a few bytes are cached."""

_HASH64: Final = blake2b(digest_size=8)
"""Copied for each batch: making a hash with its options takes half as long again.

A fingerprint is the hash of the set of parts; layout version 1 is their sorted concatenation.
"""

_UINT64: Final = Struct(">Q").unpack

_NANOSECONDS: Final = 2**63
_OPTIONS: Final = frozenset({"intents", "sim_time", "dry_run", "valid_for_s"})
_NO_OPTIONS: Final[Mapping[str, Json]] = MappingProxyType({})


class Structure:
    """The structure stage of one world, with the compiled validators of its kinds."""

    __slots__ = ("_budget", "_diagnosis", "_limits", "_registry", "_small_bytes_max", "_validate")

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._limits = limits
        self._budget = ValueBudget(limits.batch_values_max)
        self._registry = registry
        self._small_bytes_max = min(limits.payload_bytes_max, limits.batch_bytes_max)
        intents = intents_adapter(registry, limits)
        self._validate = intents.validator.validate_python
        self._diagnosis = Diagnosis(registry, limits, intents)

    def check(self, raw: object, submitter: str, batch_id: str) -> CheckedBatch | list[Refusal]:
        """Check the form of a submitted batch.

        Args:
            raw: A list of intents, a batch object, or one intent.
            submitter: The submitting agent, or `operator`.
            batch_id: Id to assign to the batch.

        Returns:
            The checked batch, or the refusals.
        """
        try:
            if type(raw) is list and len(raw) == 1 and type(raw[0]) is dict:
                batch = self._check_single(raw, submitter, batch_id)
                if batch is not None:
                    return batch
            return self._check(raw, submitter, batch_id)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # an object's own methods may raise
            return [_unreadable(error)]

    def check_recorded(
        self, batch: CheckedBatch, versions: Mapping[str, str]
    ) -> list[Refusal] | None:
        """Upcast and validate a batch read back from a record, so that rules see it as on arrival.

        Args:
            batch: The batch.
            versions: Version of each kind when the record was made (see `upcast`).

        Returns:
            None if the batch is valid, else the refusals.

        Raises:
            PluginError: An upcaster raised, or there is none for the version of a payload.
        """
        upcast(batch, versions, self._registry)
        try:
            batch.intents = self._validate(batch.intents, strict=True)
        except INTERRUPTS:
            raise
        except BaseException:  # noqa: BLE001  # the slow path describes it
            return self._explain_recorded(batch)
        return None

    def _explain_recorded(self, batch: CheckedBatch) -> list[Refusal] | None:
        try:
            outcome = self._diagnosis.explain_failure(batch.intents)
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a payload's own validator may raise
            return [_unreadable(error)]
        if isinstance(outcome, list):
            return outcome
        batch.intents = outcome.intents
        return None

    def _check(self, raw: object, submitter: str, batch_id: str) -> CheckedBatch | list[Refusal]:
        options: Mapping[str, Json] = _NO_OPTIONS
        submitted: object = raw
        if type(submitted) is not list:
            at = ""
            if isinstance(raw, Mapping):
                if "intents" in raw:
                    submitted, at = raw["intents"], "/intents"
                    options = {
                        name: value if type(value) in PLAIN_TYPES else from_numpy(value)
                        for name, value in raw.items()
                        if name != "intents"
                    }
                else:
                    submitted = [raw]
            if not isinstance(submitted, list | tuple):
                return [_not_a_batch(submitted, at)]
            if type(submitted) is not list:  # a subclass may iterate forever
                submitted = list(islice(submitted, self._limits.batch_intents_max + 1))
        if not 0 < len(submitted) <= self._limits.batch_intents_max:
            return [_wrong_size(len(submitted), self._limits)]
        if options and (unsound := _check_options(options)):
            return unsound
        sound = self._fast_path(submitted)
        if sound is None:
            budget, self._budget = self._budget, ValueBudget(self._limits.batch_values_max)
            if budget.is_exceeded:
                return [self._diagnosis.too_many_values(submitted)]
            outcome = self._slow_path(submitted)
            if isinstance(outcome, list):
                return outcome
            sound = outcome
        return self._build(sound, options, submitter, batch_id)

    def _check_single(self, raw: list[Json], submitter: str, batch_id: str) -> CheckedBatch | None:
        """Check the usual batch of one intent, in one go; None where it needs a closer look."""
        if len(raw[0]) != REQUIRED_FIELDS:
            return None
        try:
            budget = self._budget
            budget.left = self._limits.batch_values_max
            intents: list[Intent] = self._validate(raw, strict=True, context=budget)
            intent = intents[0]
            agent_id, req_id, kind, _, priority = part = part_of(intent)
            content = canonical(part)
        except (Unsound, *ENCODE_ERRORS):
            return None
        if len(content) >= self._small_bytes_max or seems_huge(content):
            return None
        hashed = _HASH64.copy()
        hashed.update(content)
        batch = CheckedBatch()
        batch.submitter = submitter
        batch.batch_id = batch_id
        batch.fingerprint = _UINT64(hashed.digest())[0]
        batch.intents = intents
        batch.encoded = _ONE + content
        batch.contexts = [intent["context_seq"]]
        batch.notices = batch.due_of = batch.valid_until_ns = batch.order = None
        batch.conditions = None
        batch.sim_time_ns = batch.valid_for_ns = None
        batch.dry_run = batch.shows_changes = False
        batch.priority = priority
        batch.req_ids = [req_id]
        batch.agents = (agent_id,)
        batch.counts = ((agent_id, kind, 1),)
        return batch

    def _fast_path(self, submitted: list[Json]) -> _Sound | None:
        """Validate and encode a batch on the fast path; return None if it is not valid at once.

        The validator drops unknown fields, which is a sixth faster than looking for them; they
        show in the number of fields.
        """
        try:
            budget = self._budget
            budget.left = self._limits.batch_values_max
            intents: list[Intent] = self._validate(submitted, strict=True, context=budget)
            encoded = _encode(intents)
        except (Unsound, *ENCODE_ERRORS):
            return None
        return (intents, encoded, None) if encoded[2] == _fields(submitted) else None

    def _slow_path(self, submitted: list[Json]) -> _Sound | list[Refusal]:
        outcome = self._diagnosis.explain_failure(submitted)
        if isinstance(outcome, list):
            return outcome
        intents, notices = outcome
        try:
            return intents, _encode(intents), notices
        except ENCODE_ERRORS:  # a payload's own validator made it so
            return self._diagnosis.unencodable(intents)

    def _build(
        self, sound: _Sound, options: Mapping[str, Json], submitter: str, batch_id: str
    ) -> CheckedBatch | list[Refusal]:
        """Build the checked batch of valid intents, or refuse its size or duplicate req_ids."""
        limits = self._limits
        intents, (parts, encoded_parts, fields), notices = sound
        count = len(intents)
        if count == 1:  # without the iterators that pay off for many
            content = encoded_parts[0]
            contexts = [intents[0]["context_seq"]]
        else:
            content = b"".join(sorted(encoded_parts))
            contexts = list(map(_CONTEXT, intents))
        encoded = _header_of(count) + (content if count == 1 else b"".join(encoded_parts))
        is_large = len(encoded) > self._small_bytes_max and (
            max(map(len, encoded_parts)) > limits.payload_bytes_max
            or len(encoded) > limits.batch_bytes_max
        )
        if is_large or seems_huge(encoded):
            unsound = self._diagnosis.oversized(intents, len(encoded))
            if unsound:
                return unsound
        hashed = _HASH64.copy()
        hashed.update(content)
        batch = CheckedBatch()
        batch.submitter = submitter
        batch.batch_id = batch_id
        batch.fingerprint = _UINT64(hashed.digest())[0]
        batch.intents = intents
        batch.encoded = encoded
        batch.contexts = contexts
        batch.notices = notices
        batch.due_of = batch.valid_until_ns = batch.conditions = None
        if fields != count * REQUIRED_FIELDS:  # an intent has an optional field
            batch.conditions = conditions_of(intents)
            if any("valid_until" in intent for intent in intents):
                batch.valid_until_ns = [_until_ns(intent) for intent in intents]
                set_valid_until(intents, batch.valid_until_ns)
        if options:
            _read_options(batch, options)
        else:
            batch.sim_time_ns = batch.valid_for_ns = None
            batch.dry_run = batch.shows_changes = False
        return batch if batch.index(parts) else self._diagnosis.duplicates(intents)


def upcast(batch: CheckedBatch, versions: Mapping[str, str], registry: Registry) -> None:
    """Convert the payloads of a recorded batch to the present versions of their kinds.

    Args:
        batch: Read back from a record; only payloads of an older version are replaced.
        versions: Version of each kind when the record was made; a missing kind is of today's.
        registry: The present registry.

    Raises:
        PluginError: An upcaster raised, or there is none for the version of a payload.
    """
    now = registry.versions
    if all(now.get(name, version) == version for name, version in versions.items()):
        return
    intents = list(batch.intents)
    for index, intent in enumerate(intents):
        kind = registry.kinds.get(intent["kind"])
        version = versions.get(intent["kind"])
        if kind is None or version is None or version == kind.version:
            continue
        with plugin_boundary(f"upcaster of {kind.name} from version {version}", index):
            upcaster = kind.upcasters.get(version)
            if upcaster is None:
                raise LookupError(f"there is none to version {kind.version}")
            payload = thaw(freeze(upcaster(thaw(intent["payload"]))))
        intents[index] = {**intent, "payload": payload}
    batch.intents = intents


def _encode(intents: list[Intent]) -> _Encoded:
    fields = _fields(intents)
    if len(intents) == 1:
        part = part_of(intents[0])
        return [part], [canonical(encoded_part_of(intents[0]))], fields
    parts = list(map(part_of, intents))
    if fields == len(intents) * REQUIRED_FIELDS:  # no intent has conditions
        return parts, list(map(canonical, parts)), fields
    return parts, list(map(canonical, map(encoded_part_of, intents))), fields


def _fields(intents: Sequence[Json]) -> int:
    """Count the fields of all intents."""
    return _COUNT(intents[0]) if len(intents) == 1 else sum(map(_COUNT, intents))


def _until_ns(intent: Intent) -> int | None:
    until = intent.get("valid_until")
    return None if until is None else round(until * SECOND_NS)


def _unreadable(error: BaseException) -> Refusal:
    message = (
        f"reading the batch raised {type(error).__name__}; send plain JSON values, or report it to "
        "the author of the payload's model"
    )
    return refuse_batch(RefusalCode.PAYLOAD_INVALID, message)


def _not_a_batch(submitted: object, at: str) -> Refusal:
    message = (
        "a batch must be an array of intents, an object with 'intents', or one intent; "
        f"got {format_value(submitted)}"
    )
    return refuse_batch(RefusalCode.FIELD_INVALID, message, at=at)


def _wrong_size(count: int, limits: Limits) -> Refusal:
    if not count:
        message = f"the batch is empty; send 1 to {limits.batch_intents_max} intents"
        return refuse_batch(RefusalCode.BATCH_EMPTY, message)
    message = (
        f"the batch has {count} intents, at most {limits.batch_intents_max} may stand in one; "
        "split it"
    )
    return refuse_batch(RefusalCode.BATCH_TOO_LARGE, message)


def _check_options(options: Mapping[str, Json]) -> list[Refusal]:
    refusals = []
    for name, value in options.items():
        if name not in _OPTIONS:
            message = (
                f"a batch has no field {format_value(name)}; it has {', '.join(sorted(_OPTIONS))}"
            )
            refusals.append(refuse_batch(RefusalCode.FIELD_UNKNOWN, message, at=pointer([name])))
        elif name == "dry_run" and type(value) is not bool:
            message = f"dry_run must be true or false, got {format_value(value)}"
            refusals.append(refuse_batch(RefusalCode.FIELD_INVALID, message, at="/dry_run"))
        elif name in {"sim_time", "valid_for_s"} and value is not None and not _is_time(value):
            latest = _NANOSECONDS // SECOND_NS
            message = f"{name} must be 0 to {latest} seconds, got {format_value(value)}"
            refusals.append(refuse_batch(RefusalCode.FIELD_INVALID, message, at=f"/{name}"))
    return refusals


def _is_time(value: Json) -> bool:
    """Return whether a value is a number of seconds that fits 63 bits of nanoseconds."""
    return type(value) in {int, float} and 0 <= value < _NANOSECONDS / SECOND_NS


def _read_options(batch: CheckedBatch, options: Mapping[str, Json]) -> None:
    sim_time, valid_for_s = options.get("sim_time"), options.get("valid_for_s")
    batch.sim_time_ns = None if sim_time is None else round(sim_time * SECOND_NS)
    batch.valid_for_ns = None if valid_for_s is None else round(valid_for_s * SECOND_NS)
    batch.dry_run = batch.shows_changes = options.get("dry_run", False)
