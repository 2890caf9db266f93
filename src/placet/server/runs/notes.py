"""Tags and notes of runs: `runs.json` beside the logs, a file that a person may read and edit.

    {"runs": {"town.db": {"tags": ["good"], "note": "the first with wages"}}}

A log is evidence and never changed, so nothing of this is in one. The file is replaced as a whole.
One that cannot be read is never replaced: a person's text in it would be lost.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct, to_builtins

from placet.schemas.documents import DocumentError, parse_json, typed
from placet.schemas.errors import PlacetError
from placet.schemas.limits import DOCUMENT_BYTES_MAX
from placet.schemas.printable import unseen_characters
from placet.stores.files import opened_regular, write_whole

NOTES_FILE: Final = "runs.json"
TAGS_MAX: Final = 16
TAG_CHARS_MAX: Final = 40
NOTE_CHARS_MAX: Final = 2_000


class NotesError(PlacetError):
    """The error of a file of notes that cannot be read or written."""


class InvalidNoteError(NotesError, ValueError):
    """The error of a tag or a note that cannot be kept."""


class RunNote(Struct, frozen=True):
    """The tags and the note of one run."""

    tags: Annotated[list[str], Meta(max_length=TAGS_MAX)] = []
    note: Annotated[str, Meta(max_length=NOTE_CHARS_MAX)] = ""


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    runs: dict[str, RunNote]


def checked_note(tags: list[str], note: str) -> RunNote:
    """Return a note with its tags in order, each once, without spaces around them.

    Raises:
        InvalidNoteError: A tag is empty, too long, or has a character that a reader does not see;
            or the note cannot be written as UTF-8.
    """
    stripped = [tag.strip() for tag in tags]
    for tag in stripped:
        if not tag or len(tag) > TAG_CHARS_MAX or unseen_characters(tag) or "," in tag:
            raise InvalidNoteError(
                f"expected a tag of 1 to {TAG_CHARS_MAX} characters, without commas, control, "
                f"bidirectional or zero-width characters, got {tag!r:.120}"
            )
    if len(set(stripped)) > TAGS_MAX or len(note) > NOTE_CHARS_MAX:
        raise InvalidNoteError(
            f"expected at most {TAGS_MAX} tags and a note of {NOTE_CHARS_MAX} characters, got "
            f"{len(set(stripped))} tags and {len(note)} characters"
        )
    if any("\ud800" <= character <= "\udfff" for character in note):
        raise InvalidNoteError("the note has half of a character, which UTF-8 cannot write")
    return RunNote(list(dict.fromkeys(stripped)), note)


class RunNotes:
    """The file of notes of a folder.

    Args:
        folder: The folder of the logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NOTES_FILE

    def read(self) -> dict[str, RunNote]:
        """Return the notes by name of the log; none if there is no file.

        Raises:
            NotesError: The file cannot be read, or is none of notes.
        """
        try:
            with opened_regular(self._path) as file:
                document = parse_json(file.read(DOCUMENT_BYTES_MAX + 1))
            return dict(typed(document, _Document).runs)
        except FileNotFoundError:
            return {}
        except (OSError, DocumentError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise NotesError(
                f"cannot read {self._path}: {why}; mend the file or move it away, it is not "
                "replaced"
            ) from error

    def write(self, name: str, note: RunNote) -> None:
        """Set the note of a log; an empty one is removed. Notes of other logs are kept.

        Raises:
            NotesError: The file cannot be read or written.
        """
        with self._alone():
            notes = self.read()
            if note == RunNote():
                notes.pop(name, None)
            else:
                notes[name] = note
            try:
                write_whole(self._path, _text(notes).encode())
            except OSError as error:
                raise self._not_written(error) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the folder for a block that reads and replaces the file, against other processes."""
        import fcntl  # noqa: PLC0415  # of POSIX alone, as the server

        try:
            folder = os.open(self._folder, os.O_RDONLY)
        except OSError as error:
            raise self._not_written(error) from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)  # which unlocks it

    def _not_written(self, error: OSError) -> NotesError:
        return NotesError(f"cannot write {self._path}: {error.strerror or error}")


def _text(notes: Mapping[str, RunNote]) -> str:
    runs = {name: to_builtins(notes[name]) for name in sorted(notes)}
    return json.dumps({"runs": runs}, ensure_ascii=False, indent=2) + "\n"
