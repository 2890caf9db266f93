"""Files of the lab on a full disk: each is whole, or as it was before, and the error is clear."""

import errno
import os
from contextlib import closing

import pytest

from placet.lab import Results, report, run_scenarios
from placet.server.player_page import PlayerPage
from placet.stores.reading import log_to_read
from placet.sweeps.errors import LabError
from placet.tables.collector import Collector
from placet.tables.export import export
from placet.tables.files import ExportError
from placet.tables.parts import CollectError
from placet.tables.plan import TableOptions
from tests.lab.full_disk import full_disk
from tests.sweeps.sweeping import InlineExecutor, short_town, without_times

TOO_LARGE = os.strerror(errno.EFBIG)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
def test_rows_of_a_sweep_are_written_whole_or_not_at_all(tmp_path, ending):
    results = Results([{"a": number} for number in range(1000)], ["a"])
    target = tmp_path / f"rows.{ending}"
    with full_disk(), pytest.raises(LabError, match=rf"cannot write .*rows.*{TOO_LARGE}"):
        results.write(target)
    assert list(tmp_path.iterdir()) == []
    before = results.write(target).read_bytes()
    with full_disk(100), pytest.raises(LabError):
        results.write(target)
    assert target.read_bytes() == before


def test_a_report_is_written_whole_or_not_at_all(tmp_path, town_log):
    target = tmp_path / "report.html"
    with full_disk(1000), pytest.raises(LabError, match=f"cannot write .*html: {TOO_LARGE}"):
        report(town_log, to=target)
    assert list(tmp_path.iterdir()) == []
    report(town_log, to=target)


def test_a_page_of_the_player_is_written_whole_or_not_at_all(tmp_path):
    page = PlayerPage("<html>" * 1000, 1)
    with full_disk(1000), pytest.raises(LabError, match=f"cannot write .*html: {TOO_LARGE}"):
        page.save(tmp_path / "play.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out", "out.csv"])
def test_an_export_is_written_whole_or_not_at_all(tmp_path, town_log, name):
    with (
        closing(log_to_read(str(town_log))) as log,
        full_disk(1000),
        pytest.raises(ExportError, match=f"cannot write .*{TOO_LARGE}"),
    ):
        export(log, tmp_path / name, TableOptions())
    assert list(tmp_path.iterdir()) == []


def test_rows_collected_from_a_log_are_written_whole_or_not_at_all(tmp_path, town_log):
    collector = Collector(agents=["position"], to=tmp_path / "out")
    with closing(log_to_read(str(town_log))) as log:
        collector.collect(log)
    with full_disk(1000), pytest.raises(CollectError, match="cannot write collected rows"):
        collector.close()
    assert list(tmp_path.iterdir()) == []


def test_a_log_without_room_ends_the_sweep_and_keeps_the_finished_runs(tmp_path):
    def sweep(to, seeds):
        return run_scenarios(
            short_town(), seeds=seeds, executor=InlineExecutor(), logs="all", to=to
        )

    sweep(tmp_path / "study", [1, 2])
    with full_disk(16_384), pytest.raises(LabError, match="Finished runs are kept"):
        sweep(tmp_path / "study", [1, 2, 3])
    assert Results.load(tmp_path / "study").column("seed") == [1, 2]
    results = sweep(tmp_path / "study", [1, 2, 3])
    assert without_times(results) == without_times(sweep(tmp_path / "whole", [1, 2, 3]))
