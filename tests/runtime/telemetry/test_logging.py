"""Log lines: destination, bound values, levels, and no payloads above debug."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import structlog

from placet.runtime.telemetry.logging import LOG_LEVELS, PRIVATE_KEYS, configure_logging
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.errors import StoreError


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def raise_poison() -> None:
    raise ValueError("poison")


def raise_arithmetic() -> None:
    raise ArithmeticError("poison")


def test_json_line_contains_bound_values():
    stream = io.StringIO()
    log = configure_logging("json", "debug", stream).bind(world="town")
    log.bind(agent_id="alice", req_id="move_1").info("refused", stage="quota", seq=7)
    (line,) = lines_of(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", str(line.pop("timestamp")))
    assert line == {
        "event": "refused",
        "level": "info",
        "world": "town",
        "agent_id": "alice",
        "req_id": "move_1",
        "stage": "quota",
        "seq": 7,
    }


@pytest.mark.parametrize("level", LOG_LEVELS)
def test_lines_below_the_level_are_dropped(level):
    stream = io.StringIO()
    log = configure_logging("json", level, stream)
    for method in LOG_LEVELS:
        getattr(log, method)("x")
    written = [line["level"] for line in lines_of(stream)]
    assert written == list(LOG_LEVELS[LOG_LEVELS.index(level) :])
    assert log.is_enabled_for(10) is (level == "debug")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_payloads_are_dropped_at_info_and_above(log_format):
    stream = io.StringIO()
    log = configure_logging(log_format, "info", stream)
    secrets = {key: {"text": "secret"} for key in PRIVATE_KEYS}
    for method in LOG_LEVELS[1:]:
        getattr(log.bind(payload="secret"), method)("refused", code="conflict", **secrets)
    assert "secret" not in stream.getvalue()
    assert stream.getvalue().count("conflict") == 4


def test_payloads_are_written_at_debug():
    stream = io.StringIO()
    configure_logging("json", "debug", stream).debug("refused", payload={"text": "hello"})
    assert lines_of(stream)[0]["payload"] == {"text": "hello"}


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_fault_is_written_with_its_traceback(log_format):
    stream = io.StringIO()
    log = configure_logging(log_format, "error", stream)
    try:
        raise_poison()
    except ValueError:
        log.exception("rule_error", kind="Move")
    assert "ValueError: poison" in stream.getvalue()
    assert "raise_poison" in stream.getvalue()
    if log_format == "json":
        assert len(lines_of(stream)) == 1


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_store_error_is_one_line_without_a_traceback(log_format, capsys):
    reports = WorldLogger(log_format, "error", "town")
    try:
        raise StoreError("this writer is fenced; stop this one")
    except StoreError as error:
        reports.fault("committer", error)
    (line,) = capsys.readouterr().err.splitlines()
    assert "this writer is fenced; stop this one" in line
    try:
        raise_poison()
    except ValueError as error:
        reports.fault("committer", error)
    assert "raise_poison" in capsys.readouterr().err


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_name_with_a_line_break_cannot_forge_a_line(log_format):
    stream = io.StringIO()
    configure_logging(log_format, "info", stream).info("refused", agent_id="a\nfault b")
    assert len(stream.getvalue().splitlines()) == 1


def test_stream_that_is_no_terminal_gets_no_colors():
    stream = io.StringIO()
    configure_logging("console", "info", stream).info("refused", code="conflict")
    assert "\x1b" not in stream.getvalue()
    assert "refused" in stream.getvalue()
    assert "code='conflict'" in stream.getvalue()


def test_lines_go_to_stderr_by_default(capsys):
    configure_logging().warning("slow")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "slow" in captured.err


def test_host_format_uses_the_pipeline_of_the_host_program():
    with structlog.testing.capture_logs() as captured:
        configure_logging("host").bind(world="town").info("refused", code="conflict")
    assert captured == [
        {"event": "refused", "log_level": "info", "world": "town", "code": "conflict"}
    ]


def test_global_configuration_of_structlog_is_untouched():
    before = structlog.get_config(), structlog.is_configured()
    configure_logging("json", "debug", io.StringIO()).info("x")
    assert (structlog.get_config(), structlog.is_configured()) == before


def test_importing_the_module_loads_no_terminal_library():
    program = (
        "import sys; import placet.runtime.telemetry.logging;"
        "print([name for name in ('structlog', 'rich') if name in sys.modules])"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert outcome.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("xml",), "log format must be one of console, json, host, got 'xml'"),
        (("json", "loud"), "log level must be one of debug, info, .*, got 'loud'"),
    ],
)
def test_unknown_format_or_level_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        configure_logging(*arguments)


def test_a_fault_that_repeats_is_logged_with_one_traceback_and_its_number(capsys):
    logger = WorldLogger("json", "warning", "town")

    def fail(where: str, raise_fault: Callable[[], None]) -> None:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # any
            raise_fault()
        logger.fault(where, caught.value)

    for number in range(37):
        fail(f"agent folk_{number}", raise_poison)
    fail("rule of Move", raise_arithmetic)
    logger.end()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    traced = [line for line in lines if "exception" in line]
    assert [line["where"] for line in traced] == ["agent folk_0", "rule of Move"]
    counted = [line for line in lines if "times" in line]
    assert [line["times"] for line in counted] == [10, 37]
    assert {line["where"] for line in counted} == {"agent folk_0"}
    assert all(line["error"].startswith(f"ValueError at {__file__}:") for line in counted)
    logger.end()
    assert capsys.readouterr().err == ""


def test_faults_beyond_the_bound_are_logged_as_new(capsys, monkeypatch):
    monkeypatch.setattr("placet.runtime.telemetry.world_logger._FAULTS_MAX", 2)
    logger = WorldLogger("json", "warning", "town")
    for where in ("a", "b", "c", "a", "a"):
        logger.fault(where, ValueError("never raised"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["where"], line.get("times")) for line in lines] == [
        *(("a", None), ("b", None), ("c", None), ("a", None)),
    ]
    logger.end()
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["where"], line["times"]) == ("a", 2)
