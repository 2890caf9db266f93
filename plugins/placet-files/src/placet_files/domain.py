"""The domain `files`: its settings, its kinds, and its hooks."""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from placet.kernel.plugin.domain import Domain, Kind
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet_files.payloads import (
    ALL,
    ANALYZE,
    BYTES_MAX,
    CREATE,
    FILES_MAX,
    INSPECT,
    RECEIPTS,
    USAGE,
    WRITES,
    AnalyzeText,
    CreateFile,
    InspectZip,
)
from placet_files.rules import analyze, create_rule, inspect, risk_of_creating, settle_write


@runtime_checkable
class FolderPath(Protocol):
    """The part of `os.PathLike` that `Files` needs; this layer does not import `pathlib`."""

    def __fspath__(self) -> str:
        """Return the path as a string."""


class Files(Domain):
    """Files below one folder that agents create, and texts and archives that they inspect.

    Attributes:
        root: The folder, used by the executor alone. It is not among the settings in the log: the
            rules do not depend on it, and a log may be read on another machine.
    """

    name = "files"
    version = "1"
    collections = (RECEIPTS, USAGE, WRITES)
    executors = "placet_files.disk.executor:executors_of"
    guide = (
        "Paths are relative, with '/' between at most 8 segments, and no '..'. Creating a file "
        "that is there fails unless overwrite is true. Analyzing and inspecting change nothing; "
        "their result comes with the outcome. An archive is listed, never unpacked."
    )

    def __init__(
        self,
        root: str | FolderPath | None = None,
        *,
        files_max: int = FILES_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """Set up the domain.

        Args:
            root: The folder, which must exist when a world is opened; None disables disk access:
                intents that need it are refused as `tool_unregistered`.
            files_max: Maximum number of files written.
            bytes_max: Maximum total size of these files in bytes.

        Raises:
            ValueError: A setting is invalid.
        """
        path: object = root.__fspath__() if isinstance(root, FolderPath) else root
        if path is not None and not (isinstance(path, str) and path):
            raise ValueError(f"root must be the path of a folder, or None, got {root!r}")
        for name, bound in (("files_max", files_max), ("bytes_max", bytes_max)):
            if type(bound) is not int or bound < 1:
                raise ValueError(f"{name} must be an int >= 1, got {bound!r}")
        self.root: str | None = path
        self._files_max = files_max
        self._bytes_max = bytes_max
        self.kinds = _kinds(files_max, bytes_max)

    def settings(self) -> Mapping[str, Json]:
        """Return the arguments that rebuild the domain's rules."""
        return {"files_max": self._files_max, "bytes_max": self._bytes_max}

    def on_open(self, draft: Draft) -> None:
        """Create the usage counters, which start at zero."""
        draft.create(USAGE, ALL, {"files": 0, "bytes": 0})

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        """Store the outcome of a write."""
        if effect.kind == CREATE:
            settle_write(draft, effect, settlement)


def _kinds(files_max: int, bytes_max: int) -> tuple[Kind, ...]:
    return (
        Kind(
            CREATE,
            CreateFile,
            create_rule(files_max, bytes_max),
            reads=_reads_what_it_replaces,
            effects=(CREATE,),
            summary="Write a file of text below the root.",
            risk="low",
            risk_of=risk_of_creating,
        ),
        Kind(
            ANALYZE,
            AnalyzeText,
            analyze,
            effects=(ANALYZE,),
            summary="Count lines, words and the most frequent words of a text file.",
            risk="read",
        ),
        Kind(
            INSPECT,
            InspectZip,
            inspect,
            effects=(INSPECT,),
            summary="List a zip archive and its unsafe entries.",
            risk="read",
        ),
    )


def _reads_what_it_replaces(intent: Intent) -> Iterable[Ref]:
    """Return the file that an overwrite replaces as read.

    The agent must have seen its current state.

    A creation without overwrite reads nothing; if the file exists, the rule refuses by that name.
    """
    payload = intent["payload"]
    if not payload.get("overwrite"):
        return ()
    return (Ref(RECEIPTS, payload["filename"]), Ref(WRITES, payload["filename"]))
