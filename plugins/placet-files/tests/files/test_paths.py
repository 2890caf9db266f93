"""Which paths name a file below a root."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet_files.paths import path_fault

BAD_PATHS = {
    "../x": "path_traversal",
    "a/../../x": "path_traversal",
    "/etc/passwd": "path_absolute",
    "~/x": "path_absolute",
    "a//b": "path_traversal",
    "a/./b": "path_traversal",
    "x\0y": "path_bad_character",
    "a\\..\\b": "path_bad_character",
    "C:/x": "path_bad_character",
    "con.txt": "path_bad_segment",
    "a/b/c/d/e/f/g/h/i": "path_too_deep",
    "trail.": "path_bad_segment",
    "e\u0301.txt": "path_not_normalized",
}
"""The thirteen of the specification."""


@pytest.mark.parametrize(("path", "code"), BAD_PATHS.items())
def test_a_bad_path_has_its_code(path, code):
    fault = path_fault(path)
    assert fault is not None
    assert fault.code == code


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "path_traversal"),
        (".", "path_traversal"),
        ("a/", "path_traversal"),
        ("a\n", "path_bad_character"),
        ("a\x85b", "path_bad_character"),
        ("trail ", "path_bad_segment"),
        ("a./b", "path_bad_segment"),
        ("x" * 256, "path_bad_segment"),
        ("ü" * 128, "path_bad_segment"),
        ("a/LPT1", "path_bad_segment"),
        ("com¹.log", "path_bad_segment"),
        (".placet-0123", "path_bad_segment"),
        ("a/.placet-", "path_bad_segment"),
    ],
)
def test_other_bad_paths_have_their_codes(path, code):
    fault = path_fault(path)
    assert fault is not None
    assert fault.code == code


@pytest.mark.parametrize(
    "path", ["a", "a/b/c.txt", ".hidden", "a/..b", "console.txt", "x" * 255, "é.txt", "a/~", "日本"]
)
def test_a_good_path_has_no_fault(path):
    assert path_fault(path) is None


@given(st.text(st.sampled_from("ab./\\~: \0\n\u0301"), max_size=12))
def test_an_accepted_path_stays_below_its_root(path):
    if path_fault(path) is None:
        joined = posixpath.normpath(posixpath.join("/root/of/files", path))
        assert joined == f"/root/of/files/{path}"
