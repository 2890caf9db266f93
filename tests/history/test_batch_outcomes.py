"""The outcomes of recorded batches, as readers of a log count them."""

from typing import Any

import pytest

from placet.history import batch_outcomes
from placet.history.batch_outcomes import outcome_of
from placet.history.timeline.timeline import Timeline
from placet.kernel import Domain, Kind
from placet.kernel.plugin.noted_refusals import NotedRefusal
from placet.schemas.log.record import Admitted, decode_record, intents_of
from tests.history.timeline.played_logs import log_of
from tests.kernel.builders import intent, kernel_of

CALL = {"key": "k", "tool": "pay", "codes": ["role_missing"], "message": "no"}


class Shop(Domain):
    """A domain that notes refused calls."""

    name, version = "shop", "1"

    def __init__(self) -> None:
        self.kinds = tuple(
            Kind(kind, dict, lambda draft, intent: None) for kind in ("shop.refuse_calls", "Look")
        )


def noting() -> list[bytes]:
    """Return a log whose last batch notes two refused calls."""
    records: list[bytes] = []
    kernel = kernel_of(Shop(), sink=records)
    note = {"agent": "bob", "calls": [CALL, {**CALL, "key": "l"}]}
    batch = [intent("shop.refuse_calls", note, "r1"), intent("Look", {}, "r2")]
    assert kernel.decide(batch).admitted
    return records


def test_a_noting_batch_has_its_refused_calls_and_no_admitted_note():
    record = decode_record(noting()[-1])
    assert isinstance(record, Admitted)
    outcome = outcome_of(record)
    assert (outcome.admitted, outcome.refused, *outcome.codes.values()) == (1, 2, 2)
    assert outcome.noted[0] == NotedRefusal("bob", CALL)
    assert [one.call["key"] for one in outcome.noted] == ["k", "l"]


def test_a_timeline_decodes_a_noting_batch_once(monkeypatch: pytest.MonkeyPatch):
    decoded: list[str] = []

    def counted(record: Admitted) -> list[dict[str, Any]]:
        decoded.append(record.batch_id)
        return intents_of(record)

    monkeypatch.setattr(batch_outcomes, "intents_of", counted)
    timeline = Timeline(log_of(noting()), None)
    while not timeline.index.catch_up():
        pass
    assert len(decoded) == 1
