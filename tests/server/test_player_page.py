"""`placet.play`: a page that holds a run, or a player beside it."""

import gzip
import json
import re
from base64 import b64decode
from html import unescape

import httpx
import pytest

from placet import Log, play
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import decode_record
from placet.server import player_page as player
from placet.server.player_page import PlayerPage, ServedPlayer
from tests.history.timeline.played_logs import world_records
from tests.history.timeline.test_timeline import sqlite_log


def run_in(page):
    (packed,) = re.findall(r'id="run">([^<]*)</script>', page.html)
    return json.loads(gzip.decompress(b64decode(packed)))


def test_the_page_holds_every_record_and_nothing_from_elsewhere(tmp_path):
    records = world_records()
    sqlite_log(tmp_path, records)
    page = play(Log(tmp_path / "run.db"))
    assert isinstance(page, PlayerPage)
    run = run_in(page)
    batches = sum(len(expanded(decode_record(data))) for data in records)
    assert (len(run["records"]), page.records) == (batches, batches)
    assert run["history"]["seq"] == decode_record(records[-1]).seq
    assert re.findall(r"(?:src|href)=(\S+?)[\s>]", page.html) == []
    assert "<nav" not in page.html
    assert "default-src 'none'" in page.html
    assert page.save(tmp_path / "run.html").read_text("utf-8") == page.html


def test_the_same_log_gives_the_same_page(tmp_path):
    sqlite_log(tmp_path, world_records())
    first, second = (play(str(tmp_path / "run.db")) for _ in range(2))
    assert isinstance(first, PlayerPage)
    assert isinstance(second, PlayerPage)
    assert first.html == second.html


def test_a_notebook_gets_the_page_in_a_sandbox(tmp_path):
    sqlite_log(tmp_path, world_records())
    page = play(tmp_path / "run.db")
    assert isinstance(page, PlayerPage)
    shown = page._repr_html_()
    (inner,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert unescape(inner) == page.html
    assert 'sandbox="allow-scripts"' in shown


@pytest.mark.slow
def test_a_long_run_is_served_until_it_is_closed(tmp_path, monkeypatch):
    sqlite_log(tmp_path, world_records())
    monkeypatch.setattr(player, "CHANGES_MAX", 3)
    served = play(tmp_path / "run.db")
    assert isinstance(served, ServedPlayer)
    url, _, _ = served.page.partition("#")
    assert url.startswith("http://127.0.0.1:")
    assert httpx.get(url).status_code == 200
    assert served.page in unescape(served._repr_html_())
    assert "token" not in repr(served)
    served.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
