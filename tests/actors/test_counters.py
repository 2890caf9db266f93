"""Counters are exact; labels that a client chooses are bounded."""

from placet.actors.metrics import (
    DOMAIN_CODES_MAX,
    OTHER_CODE,
    OUTCOMES,
    UNKNOWN_KIND,
    Counters,
)
from placet.schemas.batch import CheckedBatch, part_of
from placet.schemas.intent import Intent
from placet.schemas.refusal import STAGE_OF, Stage


def batch_of(*kinds):
    batch = CheckedBatch()
    batch.intents = [
        Intent(
            kind=kind,
            payload={},
            agent_id="alice",
            req_id=f"r:{number}",
            context_seq=0,
            priority=0,
            schema_version="1.0.0",
        )
        for number, kind in enumerate(kinds)
    ]
    assert batch.index(list(map(part_of, batch.intents)))
    return batch


def test_a_batch_is_counted_by_kind_and_size():
    counters = Counters(["Move", "Speak"])
    counters.count_batches([batch_of("Move", "Speak", "Move"), batch_of("Speak")], "admitted")
    counters.count_batches([], "admitted")
    assert counters.intents["admitted"] == {"Move": 2, "Speak": 2, UNKNOWN_KIND: 0}
    assert counters.intents["refused"] == {"Move": 0, "Speak": 0, UNKNOWN_KIND: 0}
    assert (counters.batch_intents.count, counters.batch_intents.total) == (2, 4)


def test_unknown_kinds_share_one_counter():
    counters = Counters(["Move"])
    for index in range(1000):
        counters.count_intents(f"kind_{index}", "refused", 2)
        counters.count_batches([batch_of(f"kind_{index}")], "refused")
    hostile: list[object] = [[], {}, None, 7, "\ud800"]
    for kind in hostile:
        counters.count_intents(kind, "refused")
    assert counters.intents["refused"] == {"Move": 0, UNKNOWN_KIND: 3005}


def test_refusal_counters_of_the_gate_exist_from_the_start():
    counters = Counters([])
    assert counters.refusals == {(stage.value, code): 0 for code, stage in STAGE_OF.items()}
    counters.count_refusal(Stage.QUOTA, "quota_exceeded")
    counters.count_refusal(Stage.QUOTA, "quota_exceeded", 4)
    assert counters.refusals["quota", "quota_exceeded"] == 5


def test_codes_of_domains_are_bounded():
    counters = Counters([])
    for index in range(DOMAIN_CODES_MAX + 50):
        counters.count_refusal(Stage.DOMAIN, f"mine.code_{index}")
    counters.count_refusal(Stage.DOMAIN, "mine.code_0")
    assert len(counters.refusals) == len(STAGE_OF) + DOMAIN_CODES_MAX + 1
    assert counters.refusals["domain", OTHER_CODE] == 50
    assert counters.refusals["domain", "mine.code_0"] == 2


def test_a_gauge_is_read_by_its_last_function():
    counters = Counters([])
    counters.watch("mailbox_depth", lambda: 1, "orchestrator")
    counters.watch("mailbox_depth", lambda: 2, "orchestrator")
    counters.watch("mailbox_depth", lambda: 3, "committer")
    assert set(counters.gauges) == {"mailbox_depth"}
    readings = {label: read() for label, read in counters.gauges["mailbox_depth"].items()}
    assert readings == {"orchestrator": 2, "committer": 3}


def test_statistics_are_plain_json():
    counters = Counters(["Move"])
    empty = counters.statistics()
    assert empty["intents"] == dict.fromkeys(OUTCOMES, 0)
    assert empty["refusals"] == {}
    assert empty["verdict_ms"] == {"p50": None, "p99": None}
    counters.count_batches([batch_of("Move", "Move")], "admitted")
    counters.count_refusal(Stage.DOMAIN, "conflict")
    counters.observe_verdicts([0.002])
    counters.observe_decide(0.001)
    counters.observe_commit(1.0)
    statistics = counters.statistics()
    assert statistics["batches"] == 1
    assert statistics["intents"]["admitted"] == 2
    assert statistics["refusals"] == {"domain/conflict": 1}
    assert 1.9 <= statistics["verdict_ms"]["p50"] <= 2.1
    assert 0.95 <= statistics["decide_ms"]["p99"] <= 1.05
    assert 950 <= statistics["commit_ms"]["p99"] <= 1050


def test_effects_are_timed_by_executor_and_outcome():
    counters = Counters([])
    for seconds in (1.0, 3.0):
        counters.effect("llm", "succeeded", seconds)
    counters.effect("llm", "failed", 5.0)
    totals = {key: histogram.total for key, histogram in counters.effect_seconds.items()}
    assert totals == {("llm", "succeeded"): 4.0, ("llm", "failed"): 5.0}
