"""Payloads, collections, effects and bounds of the domain `files`, and an executor's refusal."""

from typing import Annotated, Final, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from placet.schemas.effect import DoNotRetry

RECEIPTS: Final = "files.receipts"
"""`sha256` `bytes` `seq` of each file that was written; the entity is its path, the seq that of
the intent that asked for it."""

WRITES: Final = "files.writes"
"""The same of what is being written: admitted, and not settled yet."""

USAGE: Final = "files.usage"
"""The entity `all`: `files` and `bytes`, with what is being written counted in."""
ALL: Final = "all"

CREATE: Final = "files.create_file"
"""Kind of an intent that creates a file, and of its effect."""

ANALYZE: Final = "files.analyze_text"
"""Kind of an intent that counts the words of a text, and of its effect."""

INSPECT: Final = "files.inspect_zip"
"""Kind of an intent that lists the content of a zip file, and of its effect."""

FILES_MAX: Final = 1_000
BYTES_MAX: Final = 64 * 1024 * 1024
CONTENT_CHARS_MAX: Final = 64 * 1024
TEXT_BYTES_MAX: Final = 1024 * 1024
ZIP_BYTES_MAX: Final = 16 * 1024 * 1024

Path = Annotated[str, Field(min_length=1, max_length=1_024)]


class CreateFile(TypedDict):
    """Payload of `files.create_file`: a text file to write; `overwrite` may replace a file.

    Attributes:
        filename: Path below the root, with `/` between its parts.
        content: The whole text of the file.
        overwrite: Replace the file if it exists; otherwise such a plan is refused.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    filename: Path
    content: Annotated[str, Field(max_length=CONTENT_CHARS_MAX)]
    overwrite: NotRequired[Annotated[bool, Field(strict=True)]]


class AnalyzeText(TypedDict):
    """Payload of `files.analyze_text`: the text file whose bytes, lines and words to count.

    Attributes:
        path: Path of the file below the root.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    path: Path


class InspectZip(TypedDict):
    """Payload of `files.inspect_zip`: the zip archive whose entries to list, without unpacking.

    Attributes:
        zip_path: Path of the archive below the root.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    zip_path: Path


class FileRefused(DoNotRetry):
    """An executor's refusal: the file on disk may not be read or written.

    Args:
        code: Refusal code, for example `symlink_refused`.
        message: Description of the fault.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self._code = code

    @property
    def code(self) -> str:
        """The refusal code."""
        return self._code
