"""Archives are listed from their bytes, bounded before they are looked at, and never unpacked."""

import io
import os
import stat
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.archives import END, ENTRY, LOCAL, archive, link, of_mode, patched

from placet.schemas.codec import to_json
from placet.schemas.limits import Limits
from placet_files import FileRefused
from placet_files.zip_listing import ROWS_BYTES_MAX, ROWS_MAX, zip_listing

TWO = archive([("x", b"A" * 100), ("y", b"B" * 100)])
DEFLATED = zipfile.ZIP_DEFLATED


OUTCOMES = {"listed", "not_a_zip", "zip_bomb", "zip64_refused"}


def outcome_of(data: bytes) -> str:
    try:
        return "listed" if to_json(zip_listing(data)) else "nothing"
    except FileRefused as refused:
        return refused.code


def refusal(data: bytes) -> str:
    with pytest.raises(FileRefused) as raised:
        zip_listing(data)
    return raised.value.code


def flags_of(*names) -> dict[str, int]:
    listing = zip_listing(archive([(name, b"x") for name in names]))
    assert listing["safe_to_extract"] is not (set(listing["flags"]) - {"nested_archive"} != set())
    return dict(listing["flags"])


def test_an_archive_is_listed_in_the_order_of_its_directory():
    data = archive([("a.txt", b"hi"), ("d/", b""), ("d/b.txt", b"x" * 5000)], compression=DEFLATED)
    listing = zip_listing(data)
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        infos = theirs.infolist()
    assert listing == {
        "entries": 3,
        "total": 5002,
        "packed": sum(info.compress_size for info in infos),
        "flags": {},
        "safe_to_extract": True,
        "rows": [
            {
                "name": info.filename,
                "size": info.file_size,
                "packed": info.compress_size,
                "dir": info.is_dir(),
                "flags": [],
            }
            for info in infos
        ],
        "truncated": False,
    }


def test_an_empty_archive_and_one_with_a_comment_are_listed():
    assert zip_listing(archive([]))["entries"] == 0
    assert zip_listing(archive([("a", b"x")], comment=b"words" * 100))["entries"] == 1


def test_an_archive_written_to_a_stream_is_listed():
    """Its entries have their sizes behind them, where the local header says none."""
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as out, zipfile.ZipFile(out, "w") as packed:
        packed.writestr("a.txt", "hi")
        packed.writestr("b.txt", "there")
    with os.fdopen(read_end, "rb") as stream:
        assert zip_listing(stream.read())["entries"] == 2


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("../../evil", "unsafe_name"),
        ("/etc/passwd", "unsafe_name"),
        ("a/../../b", "unsafe_name"),
        ("C:\\x", "unsafe_name"),
        ("a\\..\\b", "unsafe_name"),
        ("con.txt", "unsafe_name"),
        ("a//b", "unsafe_name"),
        ("d//", "unsafe_name"),
        (link("l"), "symlink"),
        (of_mode("pipe", stat.S_IFIFO | 0o644), "special_file"),
        (of_mode("disk", stat.S_IFBLK | 0o644), "special_file"),
        ("more.tar.gz", "nested_archive"),
        ("MORE.ZIP", "nested_archive"),
    ],
)
def test_an_unsafe_entry_is_flagged(name, flag):
    assert flags_of("sound", name) == {flag: 1}


def test_two_entries_of_one_name_are_flagged_also_where_case_does_not_count():
    assert flags_of("a", "a", "b") == {"duplicate_name": 2}
    assert flags_of("a", "A") == {"duplicate_name": 2}
    assert flags_of("a", "a/") == {"duplicate_name": 2}


def test_an_encrypted_entry_is_flagged():
    assert zip_listing(patched(TWO, ENTRY, 8, "<H", 1))["flags"] == {"encrypted": 1}


# too much


def test_a_ratio_beyond_a_hundred_to_one_is_a_bomb_from_a_mebibyte_on():
    assert refusal(archive([("zeros", bytes(8 << 20))], compression=DEFLATED)) == "zip_bomb"
    assert zip_listing(archive([("zeros", bytes(1 << 20))], compression=DEFLATED))[
        "safe_to_extract"
    ]


def test_an_unpacked_size_above_256_mebibytes_is_a_bomb():
    huge = archive([(f"f{n}", b"\x9b" * 10) for n in range(2)], compression=DEFLATED)
    for nth in range(2):
        huge = patched(huge, ENTRY, 24, "<L", (128 << 20) + nth, nth=nth)
    assert refusal(huge) == "zip_bomb"


def test_a_thousand_entries_are_listed_and_one_more_is_a_bomb():
    thousand = [(f"f{n}", b"") for n in range(1_000)]
    listing = zip_listing(archive(thousand))
    assert (listing["entries"], len(listing["rows"]), listing["truncated"]) == (1_000, 200, True)
    assert refusal(archive([*thousand, ("one more", b"")])) == "zip_bomb"


def test_a_directory_of_more_than_a_mebibyte_is_a_bomb():
    infos = [zipfile.ZipInfo(f"f{n}") for n in range(20)]
    for info in infos:
        info.comment = b"c" * 60_000
    assert refusal(archive([(info, b"") for info in infos])) == "zip_bomb"


def test_a_listing_of_long_names_fits_into_an_outcome():
    listing = zip_listing(archive([("ü" * 250 + f"{n:05}", b"") for n in range(1_000)]))
    assert listing["truncated"]
    assert len(listing["rows"]) < ROWS_MAX
    assert ROWS_BYTES_MAX < len(to_json(listing)) + 1_000 < Limits().payload_bytes_max


# lies


def test_entries_that_overlap_are_a_bomb():
    assert refusal(patched(TWO, ENTRY, 42, "<L", 10, nth=1)) == "zip_bomb"
    assert refusal(patched(TWO, ENTRY, 42, "<L", 0, nth=1)) == "zip_bomb"  # quoted twice
    assert refusal(patched(TWO, ENTRY, 20, "<LL", 1_000, 1_000, nth=1)) == "zip_bomb"


@pytest.mark.parametrize(
    ("at", "form", "values", "code"),
    [
        (8, "<2H", (1, 1), "not_a_zip"),  # fewer entries than there are
        (8, "<2H", (3, 3), "not_a_zip"),  # more
        (8, "<2H", (2, 1), "not_a_zip"),  # of several parts
        (4, "<2H", (1, 1), "not_a_zip"),
        (12, "<L", (50,), "not_a_zip"),
        (16, "<L", (0,), "not_a_zip"),
        (12, "<2L", (0, 0), "not_a_zip"),
        (12, "<L", (2 << 20,), "zip_bomb"),
        (8, "<2H", (1_001, 1_001), "zip_bomb"),
        (8, "<2H", (0xFFFF, 0xFFFF), "zip64_refused"),
        (12, "<L", (0xFFFFFFFF,), "zip64_refused"),
        (16, "<L", (0xFFFFFFFF,), "zip64_refused"),
    ],
)
def test_a_false_end_record_is_refused(at, form, values, code):
    assert refusal(patched(TWO, END, at, form, *values)) == code


def test_the_64_bit_format_is_refused_in_every_record():
    assert refusal(patched(TWO, ENTRY, 20, "<L", 0xFFFFFFFF)) == "zip64_refused"
    at = TWO.index(END)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    assert refusal(TWO[:at] + locator + TWO[at:]) == "zip64_refused"


def test_two_end_records_are_refused():
    inner = archive([("inner", b"x")])
    hidden = archive([("outer", b"x")], comment=inner[inner.index(ENTRY) :])
    assert refusal(hidden) == "not_a_zip"


def test_a_name_that_differs_in_the_local_header_is_refused():
    at = TWO.index(LOCAL) + 30
    assert refusal(TWO[:at] + b"z" + TWO[at + 1 :]) == "not_a_zip"


def test_an_entry_missing_at_its_offset_is_refused():
    assert refusal(patched(TWO, LOCAL, 0, "<L", 0)) == "not_a_zip"
    assert refusal(patched(TWO, ENTRY, 42, "<L", len(TWO) - 5, nth=1)) == "not_a_zip"


def test_a_stored_entry_with_two_different_sizes_is_refused():
    assert refusal(patched(TWO, ENTRY, 24, "<L", 99)) == "not_a_zip"


def test_a_directory_entry_that_reaches_beyond_the_directory_is_refused():
    assert refusal(patched(TWO, ENTRY, 28, "<H", 60_000, nth=1)) == "not_a_zip"


def test_a_name_with_invalid_utf_8_is_refused():
    data = archive([("ü", b"x")])
    assert refusal(data.replace("ü".encode(), b"\xff\xff")) == "not_a_zip"


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"words", END, TWO[:-1], TWO + b"x", TWO[10:], b"\0" * 70_000]
)
def test_a_file_that_is_not_an_archive_is_refused(data):
    assert refusal(data) == "not_a_zip"


@given(cut=st.integers(0, len(TWO)), at=st.integers(0, len(TWO) - 1), byte=st.integers(0, 255))
def test_any_bytes_give_a_listing_or_a_refusal(cut, at, byte):
    for data in (TWO[:cut], TWO[cut:], TWO[:at] + bytes([byte]) + TWO[at + 1 :]):
        assert outcome_of(data) in OUTCOMES


@given(st.binary(max_size=300))
def test_any_directory_before_a_valid_end_record_gives_a_listing_or_a_refusal(directory):
    end = struct.pack("<4s4H2LH", END, 0, 0, 1, 1, len(directory), 0, 0)
    assert outcome_of(directory + end) in OUTCOMES
