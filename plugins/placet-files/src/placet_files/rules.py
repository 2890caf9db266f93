"""The rules of writing files, checked before the disk is touched, and the settlement of writes.

A file being written is counted from its admission on, so that pending writes cannot exceed the
limit. One path has one writer at a time: the order of two writes must not depend on the disk.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from placet.kernel.plugin.domain import Risk, Rule, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import WorldState
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.intent import Intent
from placet_files.paths import path_fault
from placet_files.payloads import ALL, ANALYZE, CREATE, INSPECT, RECEIPTS, USAGE, WRITES

_FILE_WORK: Final = 25
_READ_WORK: Final = 10
"""Units of work of writing and of reading a file: its path may have 2 000 bytes."""

_BYTES_PER_UNIT: Final = 256
"""Bytes of a file that are hashed, copied and recorded for one unit of work."""


def risk_of_creating(payload: Mapping[str, Json], _: WorldState) -> Risk:
    """Return the risk of a `files.create_file` payload: `medium` if it may overwrite a file."""
    return "medium" if payload.get("overwrite") else "low"


def create_rule(files_max: int, bytes_max: int) -> Rule:
    """Build the rule that applies `files.create_file`.

    Args:
        files_max: Maximum number of files.
        bytes_max: Maximum size of all files, bytes.
    """

    def create(draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload: Mapping[str, Json] = intent["payload"]
        path, content = payload["filename"], payload["content"].encode()
        overwrites = payload.get("overwrite", False)
        receipt = draft.entity(RECEIPTS, path)
        draft.charge(_FILE_WORK + len(content) // _BYTES_PER_UNIT)
        refusal = _path_refusal(path, "/filename") or _taken(draft, path, overwrites)
        if refusal is not None:
            return refusal
        files = draft.get(USAGE, ALL, "files") + (receipt is None)
        size = draft.get(USAGE, ALL, "bytes") + len(content)
        if files > files_max:
            message = f"there may be {files_max} files, and there are as many; replace one"
            return refuse("too_many_files", message, at="/filename", files_max=files_max)
        if size > bytes_max:
            message = f"all files would have {size} bytes, {bytes_max} are allowed; write less"
            return refuse("too_many_bytes", message, at="/content", bytes=size, bytes_max=bytes_max)
        written = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        request = {**written, "path": path, "content": payload["content"], "overwrite": overwrites}
        draft.emit(CREATE, {**request, "replaces": receipt["sha256"] if receipt else None})
        draft.create(WRITES, path, {**written, "seq": draft.seq})
        _count(draft, files, size)
        return None

    return create


def analyze(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `files.analyze_text`: emit the effect that counts a text; refuse an invalid path."""
    return _read(draft, ANALYZE, intent["payload"]["path"], "/path")


def inspect(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `files.inspect_zip`: emit the effect that lists a zip; refuse an invalid path."""
    return _read(draft, INSPECT, intent["payload"]["zip_path"], "/zip_path")


def settle_write(draft: Draft, effect: Effect, settlement: Settlement) -> None:
    """Settle a write: replace the reservation by a receipt, or release it if the write failed."""
    path = effect.payload["path"]
    write, receipt = draft.entity(WRITES, path), draft.entity(RECEIPTS, path)
    if write is None or write["seq"] != effect.key.seq:
        return
    files, size = draft.get(USAGE, ALL, "files"), draft.get(USAGE, ALL, "bytes")
    if not settlement.succeeded:
        _count(draft, files - (receipt is None), size - write["bytes"])
    elif receipt is None:
        draft.create(RECEIPTS, path, write)
    else:
        _count(draft, files, size - receipt["bytes"])
        for name, value in write.items():
            draft.put(RECEIPTS, path, name, value)
    draft.delete(WRITES, path)


def _read(draft: Draft, effect: str, path: str, at: str) -> RuleRefusal | None:
    draft.charge(_READ_WORK)
    refusal = _path_refusal(path, at)
    if refusal is None:
        draft.emit(effect, {"path": path, "awaits": draft.get(WRITES, path, "sha256")})
    return refusal


def _path_refusal(path: str, at: str) -> RuleRefusal | None:
    fault = path_fault(path)
    return None if fault is None else refuse(fault.code, fault.message, at=at)


def _taken(draft: Draft, path: str, overwrites: bool) -> RuleRefusal | None:
    if draft.exists(WRITES, path):
        message = f"{path!r} is being written; wait until that is settled, and look again"
        return refuse("write_pending", message, at="/filename")
    if draft.exists(RECEIPTS, path) and not overwrites:
        message = f"{path!r} is there already; choose another name, or overwrite it"
        return refuse("already_exists", message, at="/filename")
    return None


def _count(draft: Draft, files: int, size: int) -> None:
    draft.put(USAGE, ALL, "files", files)
    draft.put(USAGE, ALL, "bytes", size)
