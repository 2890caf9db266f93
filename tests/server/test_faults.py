"""The latest exceptions of a world with their tracebacks: in memory, for the operator."""

import gc
from typing import Any

from placet.history.tracebacks import TRACEBACK_CHARS_MAX, traceback_of
from placet.runtime.telemetry.fault_reports import FAULTS_KEPT, FaultReport, FaultReports
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.errors import StoreError
from tests.kernel.builders import intent
from tests.server.served import serving


def raised(error: Exception, variable: str = "") -> Exception:
    """Return an exception that was raised where a variable has a value."""
    try:
        assert variable is not None
        raise error
    except Exception as caught:  # noqa: BLE001  # any of a test
        return caught


async def test_an_exception_of_a_rule_has_its_place_and_its_traceback():
    async with serving() as served:
        assert (await served.get("faults")).json()["faults"] == []
        seq = served.world.seq
        for number in range(3):
            answer = await served.submit(intent("Fail", {"how": "raise"}, f"r{number}"))
            assert answer.status_code == 500
        (fault,) = (await served.get("faults")).json()["faults"]
        assert fault["where"] == "rule of Fail"
        assert fault["error"] == "ZeroDivisionError: a bug"
        assert fault["place"].partition(":")[0].endswith("tests/kernel/domains.py")
        assert fault["place"].endswith("in divide_by_nothing")
        assert 'raise ZeroDivisionError("a bug")' in fault["traceback"]
        assert (fault["times"], fault["seq"]) == (3, seq)


async def test_an_exception_of_an_executor_has_its_place_and_its_traceback():
    async def send(_effect: Any) -> None:
        raise RuntimeError("the post office is closed")

    async with serving() as served:
        await served.world.register_executor("mail", send, attempts_max=1)
        sent = await served.submit(intent("Mail", {"count": 1}, "r1"))
        assert sent.status_code == 200, sent.text
        await served.world.wait_effects()
        (fault,) = (await served.get("faults")).json()["faults"]
        assert fault["where"] == "executor mail"
        assert fault["place"].partition(":")[0] == __file__
        assert fault["place"].endswith("in send")
        assert "the post office is closed" in fault["traceback"]


async def test_no_value_of_a_variable_is_in_a_traceback():
    error = raised(KeyError("colour"), variable="tulip-4711")
    report = FaultReports().add("rule", error, 3, is_restarted=False)
    assert "tulip-4711" not in report.traceback
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_frame.f_locals == {}


async def test_the_faults_of_an_agent_are_the_operators_to_read():
    async with serving() as served:
        await served.submit(intent("Fail", {"how": "raise"}, "r1"), token="alice")
        answer = await served.get("faults", token="alice")
        assert answer.status_code == 403
        assert "domains.py" not in answer.text


def test_a_fault_that_is_raised_again_is_kept_in_place_of_one_that_is_not():
    reports = FaultReports()
    first = reports.add("frequent", raised(ValueError()), 1, is_restarted=False).number
    for number in range(2 * FAULTS_KEPT):
        reports.add(f"part {number}", raised(ValueError(number)), None, is_restarted=False)
        assert reports.note_again(first, number)
    latest = reports.latest()[0]
    assert (latest.where, latest.times, latest.seq) == ("frequent", 2 * FAULTS_KEPT + 1, number)
    assert len(reports.latest()) == FAULTS_KEPT
    assert not reports.note_again(2, 7)


def test_a_fault_that_was_forgotten_has_a_new_report_when_it_is_raised_again():
    reports = FaultReports()
    logger = WorldLogger("json", "critical", "town", reports)
    for number in range(FAULTS_KEPT + 1):
        logger.fault(f"some part {number}", ValueError("never raised"), seq=number)
    logger.fault("some part 0", ValueError("never raised"), seq=99)
    latest = reports.latest()[0]
    assert (latest.where, latest.times, latest.seq) == ("some part 0", 1, 99)
    assert (len(reports.latest()), reports.left_out) == (FAULTS_KEPT, 2)
    assert latest.number == FAULTS_KEPT + 2
    reported = [one for one in gc.get_objects() if isinstance(one, FaultReport)]
    assert sum(one.where.startswith("some part") for one in reported) == FAULTS_KEPT


def test_the_oldest_fault_is_forgotten():
    reports = FaultReports()
    for number in range(FAULTS_KEPT + 2):
        reports.add(f"part {number}", raised(ValueError(number)), None, is_restarted=False)
    kept = [report.where for report in reports.latest()]
    assert len(kept) == FAULTS_KEPT
    assert set(kept).isdisjoint({"part 0", "part 1"})
    assert reports.left_out == 2


def test_a_long_traceback_is_cut_in_its_middle():
    text = traceback_of(raised(ValueError("x" * 4 * TRACEBACK_CHARS_MAX)))
    assert len(text) < TRACEBACK_CHARS_MAX + 60
    assert text.startswith("Traceback (most recent call last)")
    assert "characters are left out" in text


def test_an_error_of_the_store_has_its_message_and_no_traceback():
    report = FaultReports().add("committer", raised(StoreError("disk full")), 3, is_restarted=True)
    assert (report.error, report.traceback) == ("StoreError: disk full", "")
