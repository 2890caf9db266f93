"""The note beside a log of the exception that ended its run."""

from pathlib import Path
from typing import Any

import pytest
from typing_extensions import TypedDict

from placet import Simulation
from placet.kernel import Domain, Draft, Kind
from placet.scenarios.failure_note import failure_of, noting_failure
from placet.schemas.errors import ClosedError
from placet.schemas.intent import Intent
from placet.stores.reading import log_to_read

SECRET = "tulip-4711"


class Nothing(TypedDict):
    """Payload of a count."""


class Jam(Domain):
    """Agents count; the third count of one raises."""

    name, version = "jam", "1"

    def __init__(self) -> None:
        self.kinds = (Kind("Count", Nothing, self._count),)
        self.raises = True

    def on_register(self, draft: Draft, agent_id: str, attributes: Any) -> None:
        draft.create("jam.counts", agent_id, {"count": 0})

    def _count(self, draft: Draft, intent: Intent) -> None:
        variable = SECRET
        count = draft.get("jam.counts", intent["agent_id"], "count") + 1
        if self.raises and count > 2:
            assert variable
            raise ValueError("the drawer jams")
        draft.put("jam.counts", intent["agent_id"], "count", count)


def count(view: Any, intent: Any) -> list[Any]:
    """Count."""
    return [intent("Count")]


def simulation(domain: Domain, store: Path) -> Simulation:
    return Simulation(domain, agents={"clerk": (1, count)}, store=str(store))


def fail(store: str) -> None:
    """Open a run, and fail."""
    with noting_failure(store) as begin:
        begin()
        raise KeyError("a tick")


def test_a_simulation_that_raises_has_a_note_until_its_log_grows(tmp_path: Path):
    store, jam = tmp_path / "jam.db", Jam()
    with simulation(jam, store) as run:
        with pytest.raises(ValueError, match="the drawer jams"):
            run.run(ticks=5)
        noted = failure_of(log_to_read(str(store)))
        assert noted is not None
        assert noted.message == "ValueError: the drawer jams"
        assert noted.place.startswith(f"{__file__}:")
        assert noted.place.endswith("in _count")
        assert "raise ValueError" in noted.traceback
        assert SECRET not in noted.traceback.replace("variable = SECRET", "")
        jam.raises = False
        run.step()
        assert failure_of(log_to_read(str(store))) is None


def test_the_records_of_a_run_are_the_same_with_the_note_and_without(tmp_path: Path):
    logs = []
    for name in ("one.db", "other.db"):
        with simulation(Jam(), tmp_path / name) as run, pytest.raises(ValueError, match="jams"):
            run.run(ticks=5)
        logs.append([data for _, data in log_to_read(str(tmp_path / name)).read()])
    assert logs[0] == logs[1]
    assert all(b"drawer" not in data and b".py" not in data for data in logs[0][1:])


def test_a_note_of_another_log_and_a_damaged_one_say_nothing(tmp_path: Path):
    store = tmp_path / "jam.db"
    with simulation(Jam(), store) as run, pytest.raises(ValueError, match="jams"):
        run.run(ticks=5)
    note = tmp_path / "jam.db.failure"
    text = note.read_text()
    for other in (text.replace('"records":', '"records":1'), "{", "[]", ""):
        note.write_text(other)
        assert failure_of(log_to_read(str(store))) is None
    note.unlink()
    (tmp_path / "secret").write_text(text)
    note.symlink_to(tmp_path / "secret")
    assert failure_of(log_to_read(str(store))) is None


def test_a_run_that_ends_without_an_exception_removes_the_note(tmp_path: Path):
    store = tmp_path / "jam.db"
    with simulation(Jam(), store) as run, pytest.raises(ValueError, match="jams"):
        run.run(ticks=5)
    with noting_failure(str(store)):
        pass
    assert not (tmp_path / "jam.db.failure").exists()


def test_an_exception_before_the_first_record_has_no_note(tmp_path: Path):
    for store in (str(tmp_path / "none.db"), "memory://"):
        with pytest.raises(KeyError):
            fail(store)
    assert list(tmp_path.iterdir()) == []


def test_an_exception_before_the_run_is_open_has_no_note_and_keeps_the_earlier_one(tmp_path: Path):
    store, note = tmp_path / "jam.db", tmp_path / "jam.db.failure"
    with simulation(Jam(), store) as run:
        run.step()
    with pytest.raises(KeyError), noting_failure(str(store)):
        raise KeyError("a busy port")
    assert not note.exists()
    with pytest.raises(KeyError):
        fail(str(store))
    noted = note.read_text()
    with pytest.raises(KeyError), noting_failure(str(store)):
        raise KeyError("a busy port")
    assert note.read_text() == noted


def test_a_tick_of_a_closed_simulation_is_no_failure_of_its_run(tmp_path: Path):
    store = tmp_path / "jam.db"
    with simulation(Jam(), store) as run:
        run.step()
    with pytest.raises(ClosedError):
        run.step()
    assert failure_of(log_to_read(str(store))) is None
