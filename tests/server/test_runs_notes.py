"""Tags and notes of runs: kept in one file, whatever their text, and no other note is lost."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from placet.server.runs.notes import (
    NOTE_CHARS_MAX,
    NOTES_FILE,
    TAG_CHARS_MAX,
    TAGS_MAX,
    NotesError,
    RunNote,
    RunNotes,
    checked_note,
)

HOSTILE = [
    "<script>alert(1)</script>",
    '"; rm -rf / #',
    "\u202eright to left",
    "zero\u200bwidth",
    "a\0b\x1b[31m",
    "line\none\r\ntwo\u2028three",
    "\\u0022 \\ / ' \" `",
    '{"runs": {}}',
    "\U0001f600 é ß 中文 ي",
    " spaces ",
    "x" * NOTE_CHARS_MAX,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_note_is_read_as_it_was_written(tmp_path, text):
    notes = RunNotes(tmp_path)
    notes.write("town.db", checked_note(["good"], text))
    assert notes.read() == {"town.db": RunNote(["good"], text)}
    assert json.loads((tmp_path / NOTES_FILE).read_bytes())["runs"]["town.db"]["note"] == text


@pytest.mark.parametrize("tag", ["<b>", '"', "a b", "=1+1", "größe", "a:b", "x" * TAG_CHARS_MAX])
def test_a_strange_tag_is_read_as_it_was_written(tmp_path, tag):
    notes = RunNotes(tmp_path)
    notes.write("town.db", checked_note([f" {tag} ", tag], ""))
    assert notes.read()["town.db"].tags == [tag]


@pytest.mark.parametrize(
    "tag", ["", "  ", "a,b", "a\nb", "\u202ea", "a\u200bb", "a\0", "\ud800", "x" * 41]
)
def test_a_tag_that_hides_or_splits_is_refused(tag):
    with pytest.raises(NotesError, match="expected a tag"):
        checked_note([tag], "")


def test_a_note_is_bounded():
    with pytest.raises(NotesError, match="at most"):
        checked_note([str(number) for number in range(TAGS_MAX + 1)], "")
    with pytest.raises(NotesError, match="at most"):
        checked_note([], "x" * (NOTE_CHARS_MAX + 1))
    with pytest.raises(NotesError, match="half of a character"):
        checked_note([], "\ud800")


def test_an_empty_note_leaves_no_entry_and_others_stay(tmp_path):
    notes = RunNotes(tmp_path)
    notes.write("a.db", RunNote(["good"], "first"))
    notes.write("b.db", RunNote([], "second"))
    notes.write("a.db", RunNote())
    assert notes.read() == {"b.db": RunNote([], "second")}
    assert [path.name for path in tmp_path.iterdir()] == [NOTES_FILE]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"runs": 1}', '{"runs": {"a.db": {"tags": "x"}}}', "\xff", '{"run": {}}'],
)
def test_a_file_that_is_none_of_notes_is_never_replaced(tmp_path, text):
    path = tmp_path / NOTES_FILE
    path.write_bytes(text.encode("latin-1"))
    notes = RunNotes(tmp_path)
    with pytest.raises(NotesError, match="mend the file"):
        notes.read()
    with pytest.raises(NotesError, match="mend the file"):
        notes.write("a.db", RunNote(["good"], ""))
    assert path.read_bytes() == text.encode("latin-1")


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text('{"runs": {}}')
    inside = tmp_path / "runs"
    inside.mkdir()
    (inside / NOTES_FILE).symlink_to(outside)
    with pytest.raises(NotesError, match="cannot read"):
        RunNotes(inside).write("a.db", RunNote(["good"], ""))
    assert outside.read_text() == '{"runs": {}}'


def test_writers_at_once_lose_no_note(tmp_path):
    names = [f"{number}.db" for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: RunNotes(tmp_path).write(name, RunNote([], name)), names))
    assert RunNotes(tmp_path).read() == {name: RunNote([], name) for name in names}


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    notes = RunNotes(tmp_path)
    notes.write("a.db", RunNote([], "first"))

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotesError, match=r"cannot write .*No space left"):
        notes.write("a.db", RunNote([], "second"))
    monkeypatch.undo()
    assert notes.read() == {"a.db": RunNote([], "first")}
    assert [path.name for path in tmp_path.iterdir()] == [NOTES_FILE]
