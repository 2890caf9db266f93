"""A store name opens its store, or is refused with the valid forms."""

import os
import sys
from urllib.parse import quote

import pytest

from placet import OrchestratorConfig
from placet.schemas.errors import StoreError
from placet.schemas.limits import Limits
from placet.schemas.log.record import LogAppend
from placet.stores.url import KNOWN_STORES, file_of, open_event_log


@pytest.mark.parametrize(
    ("name", "file", "durability"),
    [
        ("sqlite:///a.db", "a.db", "full"),
        ("sqlite:///a.db?synchronous=normal", "a.db", "normal"),
        ("sqlite:///a.db?synchronous=OFF", "a.db", "off"),
        ("sqlite:///sub/a%20b.log", "sub/a b.log", "full"),
        ("sqlite:///a#1.db", "a#1.db", "full"),
        ("a.db", "a.db", "full"),
        ("sub/a.db", "sub/a.db", "full"),
        ("./100%25.db", "100%25.db", "full"),
    ],
)
def test_a_store_name_opens_its_file(tmp_path, monkeypatch, name, file, durability):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    log = open_event_log(name)
    assert (log.durability, log.is_blocking) == (durability, True)
    log.open()
    log.close()
    assert (tmp_path / file).is_file()


@pytest.mark.parametrize("name", [b"\xff.db", "caf\u00e9 ?#%41.db".encode()])
def test_any_file_name_round_trips_through_a_url(tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    for url in (str(path), f"sqlite:///{quote(bytes(path))}"):
        log = open_event_log(url)
        log.open()
        log.close()
        assert file_of(log) == path
        assert open_event_log(log.url).url == log.url
    assert [bytes(entry.relative_to(tmp_path)) for entry in tmp_path.iterdir()] == [name]


def test_four_slashes_and_a_plain_path_are_absolute(tmp_path):
    for name in (f"sqlite:///{tmp_path}/a.db", f"{tmp_path}/b.db"):
        log = open_event_log(name)
        log.open()
        log.close()
    assert {entry.name for entry in tmp_path.iterdir()} == {"a.db", "b.db"}


def test_a_file_that_exists_needs_no_suffix(tmp_path):
    path = tmp_path / "log"
    path.touch()
    assert open_event_log(str(path)).url == f"sqlite:///{path}"


def test_a_path_is_a_store_wherever_one_is_named(tmp_path):
    path = tmp_path / "a.db"
    assert open_event_log(path).url == open_event_log(str(path)).url
    assert OrchestratorConfig(store=path).store == str(path)


@pytest.mark.parametrize("store", [5, None, b"a.db", ["a.db"]])
def test_a_store_that_is_no_text_is_refused_with_its_type(store):
    why = f"expected memory://.*; a store is text or a Path, got {type(store).__name__}"
    with pytest.raises(StoreError, match=why):
        open_event_log(store)
    with pytest.raises(StoreError, match=why):
        OrchestratorConfig(store=store)


def test_the_url_of_a_log_opens_it_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("memory://", "sqlite:///a%20b.db", "sqlite:////x/y.db?synchronous=off"):
        assert open_event_log(name).url == name


def test_a_log_in_memory_has_the_bound_of_its_world():
    log = open_event_log("memory://", Limits(log_bytes_max=3))
    with pytest.raises(StoreError, match="allows 3 bytes"):
        log.append(LogAppend(0, 0, 1, [b"1234"]), log.open())


@pytest.mark.parametrize(
    ("name", "came"),
    [
        ("", "no URL, and no path of a log"),
        ("town", "no URL, and no path of a log"),
        ("a\0b", "no URL, and no path of a log"),
        ("a\0.db", "holds a NUL"),
        ("redis://host", "there is no store 'redis'; there are memory, sqlite, pack, postgresql"),
        ("sqlit:///a.db", "there is no store 'sqlit'; did you mean 'sqlite'?"),
        ("memory://x", "memory:// takes nothing more, got 'x'"),
        ("sqlite://a.db", "did you mean sqlite:///a.db?"),
        ("sqlite:///", "the path is empty"),
        ("sqlite:///a%00.db", "holds a NUL"),
        ("sqlite:///:memory:", "a log in memory is memory://"),
        ("sqlite:///a.db?mode=ro&cache=x", "the only option is synchronous, got cache, mode"),
    ],
)
def test_an_unknown_store_name_is_refused_with_the_valid_forms(name, came):
    with pytest.raises(StoreError) as caught:
        open_event_log(name)
    assert came in str(caught.value)
    assert KNOWN_STORES in str(caught.value)
    assert caught.value.store == name


def test_an_unknown_level_is_refused_with_the_valid_ones():
    with pytest.raises(StoreError, match="one of full, normal, off, got 'extra'"):
        open_event_log("sqlite:///a.db?synchronous=extra")


MODULE = """
from placet.stores.memory import MemoryEventLog

def opened(url, limits):
    log = MemoryEventLog(log_bytes_max=limits.log_bytes_max)
    log.url, log.durability = url, "normal"
    return log

def number(url, limits):
    return 1
"""
ENTRIES = """[placet.stores]
shelf = shelf_store:opened
sqlite = shelf_store:number
lost = nothing_of_this_name:opened
gone = shelf_store:gone
number = shelf_store:number
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    (tmp_path / "shelf_store.py").write_text(MODULE)
    info = tmp_path / "shelf-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("shelf_store", None)


def test_a_distribution_adds_a_store(installed):
    log = open_event_log("shelf://a/b?c=1", Limits(log_bytes_max=3))
    assert (log.url, log.durability) == ("shelf://a/b?c=1", "normal")
    with pytest.raises(StoreError, match="allows 3 bytes"):
        log.append(LogAppend(0, 0, 1, [b"1234"]), log.open())


def test_a_distribution_replaces_no_built_in_store(installed):
    assert open_event_log("sqlite:///a.db").durability == "full"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("shelve://x", "there is no store 'shelve'; did you mean 'shelf'?"),
        ("lost://x", "'lost' of shelf (nothing_of_this_name:opened) cannot be loaded: No module"),
        ("gone://x", "'gone' of shelf (shelf_store:gone) cannot be loaded: shelf_store has no"),
        ("number://x", "expected an EventLog from 'number' of shelf (shelf_store:number), got "),
        ("number://x", "got 'int' without durability, is_blocking, url, open, append, check_"),
    ],
)
def test_a_store_that_cannot_be_opened_is_refused(installed, url, why):
    with pytest.raises(StoreError) as caught:
        open_event_log(url)
    assert why in str(caught.value)
    assert caught.value.store == url
