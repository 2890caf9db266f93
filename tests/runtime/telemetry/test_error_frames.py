"""Exceptions without the variables of their frames."""

import sys
from dataclasses import dataclass
from typing import Any

from placet.runtime.telemetry.error_frames import hide_variables


@dataclass(frozen=True)
class FrozenError(Exception):
    """An exception whose attributes cannot be assigned."""

    text: str


def raised(error: Exception) -> Any:
    secret = "tulip-4711"
    try:
        raise error
    except type(error) as caught:
        assert secret
        return caught


def test_a_frozen_exception_loses_its_variables():
    error = raised(FrozenError("no"))
    hide_variables(error)
    assert error.__traceback__.tb_frame.f_locals == {}
    assert error.__traceback__.tb_frame.f_code.co_name == "raised"


def test_no_frame_behind_the_new_ones_has_the_old_variables():
    error = raised(ValueError("no"))
    hide_variables(error)
    frame, found = error.__traceback__.tb_frame, list[Any]()
    while frame is not None and frame is not sys._getframe():
        found += frame.f_locals.values()
        frame = frame.f_back
    assert found
    assert not any("tulip-4711" in repr(value) for value in found)
    assert not any(hasattr(value, "f_locals") for value in found)
