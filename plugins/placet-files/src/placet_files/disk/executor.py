"""Runs the effects of the domain `files` on a disk, below its root.

Creating a file runs at most once. After an interrupted attempt the disk is inspected: if the file
has the intended content, the write is complete; if there is no file, or the one to be replaced, it
is written now; any other content belongs to another program, and the effect stays in doubt until an
operator decides. Reading is pure.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from placet.kernel.plugin.domain import EffectHandler
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, RetryAfter, Settlement
from placet_files import ANALYZE, CREATE, INSPECT, FileRefused, Files
from placet_files.disk.root import FileRoot
from placet_files.payloads import TEXT_BYTES_MAX, ZIP_BYTES_MAX
from placet_files.text_statistics import text_figures
from placet_files.zip_listing import zip_listing

SECONDS_MAX: Final = 30.0
READ_ATTEMPTS_MAX: Final = 7
_PAUSE_S: Final = 0.05


def executors_of(domain: Files) -> Mapping[str, EffectHandler | None]:
    """Return the handler of each kind of effect of a domain; None for each without a root.

    Raises:
        RootUnusable: The root is no folder, or this system cannot confine access to it.
    """
    if domain.root is None:
        return dict.fromkeys((CREATE, ANALYZE, INSPECT))
    executor = FileExecutor(FileRoot(domain.root))
    return {
        CREATE: EffectHandler(
            handler=executor.create,
            delivery="at_most_once",
            on_in_doubt=executor.find_out,
            seconds_max=SECONDS_MAX,
        ),
        ANALYZE: _reading(executor.analyze),
        INSPECT: _reading(executor.inspect),
    }


def _reading(handler: Callable[[Effect], Json]) -> EffectHandler:
    return EffectHandler(
        handler=handler,
        delivery="pure",
        attempts_max=READ_ATTEMPTS_MAX,
        seconds_max=SECONDS_MAX,
    )


class FileExecutor:
    """Runs the effects of the files domain below one folder; each call may block on the disk.

    Args:
        root: Root folder.
    """

    def __init__(self, root: FileRoot) -> None:
        self._root = root

    def create(self, effect: Effect) -> Json:
        """Write the file of an effect durably, and return its receipt.

        Raises:
            FileRefused: Nothing was written.
            OutcomeUnknown: The file was written, perhaps not durably.
        """
        request = effect.payload
        path, data = request["path"], request["content"].encode()
        self._root.create(path, data, overwrites=request["overwrite"], key=str(effect.key))
        return _receipt(effect)

    def find_out(self, effect: Effect) -> Settlement | None:
        """Return the outcome of an interrupted write, completing it if necessary.

        None if the file on disk is neither the old nor the new one.

        Raises:
            FileRefused: The file on disk cannot be inspected.
        """
        request = effect.payload
        path = request["path"]
        self._root.sweep(path, str(effect.key))
        digest = self._root.sha256_of(path, TEXT_BYTES_MAX)
        if digest == request["sha256"]:
            self._root.sync(path)
            return Settlement(effect.key, succeeded=True, output=_receipt(effect))
        if digest is not None and not (request["overwrite"] and digest == request["replaces"]):
            return None
        try:
            return Settlement(effect.key, succeeded=True, output=self.create(effect))
        except FileRefused as refused:
            return Settlement(effect.key, succeeded=False, output=f"FileRefused: {refused}")

    def analyze(self, effect: Effect) -> Json:
        """Return the counts of bytes, characters, lines and words of a text file."""
        return self._figures(effect, TEXT_BYTES_MAX, text_figures)

    def inspect(self, effect: Effect) -> Json:
        """Return the listing of a zip archive."""
        return self._figures(effect, ZIP_BYTES_MAX, zip_listing)

    def _figures(
        self, effect: Effect, bytes_max: int, of: Callable[[bytes], dict[str, Json]]
    ) -> dict[str, Json]:
        path = effect.payload["path"]
        return {"path": path, **of(self._read(effect, path, bytes_max))}

    def _read(self, effect: Effect, path: str, bytes_max: int) -> bytes:
        """Read a file; if a write to it is pending, retry until it is complete.

        So one plan may create a file and then read it. The pending write may also fail.

        Raises:
            FileRefused: The file cannot be read.
            RetryAfter: The file is still being written.
        """
        awaited = effect.payload["awaits"]
        try:
            data = self._root.read(path, bytes_max)
        except FileRefused:
            if awaited is None or effect.attempt == READ_ATTEMPTS_MAX:
                raise
            raise RetryAfter(_pause_s(effect), f"{path!r} is being written") from None
        if awaited is None or hashlib.sha256(data).hexdigest() == awaited:
            return data
        if effect.attempt < READ_ATTEMPTS_MAX:
            raise RetryAfter(_pause_s(effect), f"{path!r} is being written")
        raise FileRefused("not_found", f"{path!r} does not have the text of the write")


def _pause_s(effect: Effect) -> float:
    return float(_PAUSE_S * 2 ** (effect.attempt - 1))


def _receipt(effect: Effect) -> dict[str, Json]:
    return {name: effect.payload[name] for name in ("path", "bytes", "sha256")}
