"""The exported metrics and labels are exactly those of the specification."""

import re
import socket
import urllib.request

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from placet.actors.metrics import EFFECT_COUNTS, LATENCY_BOUNDS, OTHER_CODE, UNKNOWN_KIND, Counters
from placet.runtime.telemetry.prometheus import (
    SHOWN_SECONDS,
    create_registry,
    serve_metrics,
)
from placet.schemas.errors import PlacetError
from placet.schemas.refusal import Stage

# spec/gate.md §5: name -> labels
SPECIFIED: dict[str, set[str]] = {
    "placet_intents_total": {"kind", "outcome"},
    "placet_refusals_total": {"stage", "code"},
    "placet_batch_intents": set(),
    "placet_decide_seconds": set(),
    "placet_commit_seconds": set(),
    "placet_submit_to_verdict_seconds": set(),
    "placet_time_dilation": set(),
    "placet_barrier_late_total": set(),
    "placet_mailbox_depth": {"actor"},
    "placet_mailbox_oldest_seconds": set(),
    "placet_rule_running_seconds": {"rule"},
    "placet_outbox_depth": {"executor"},
    "placet_effect_seconds": {"executor", "outcome"},
    "placet_effect_attempts_total": {"executor"},
    "placet_effect_retries_total": {"executor"},
    "placet_effect_dead_letters_total": {"executor"},
    "placet_effect_in_doubt_total": {"executor"},
    "placet_observers": set(),
    "placet_observation_lag_seqs": set(),
    "placet_observation_overflows_total": set(),
    "placet_seq": set(),
    "placet_log_bytes_total": set(),
    "placet_agents": set(),
    "placet_snapshots_total": {"outcome"},
    "placet_snapshot_seconds": set(),
    "placet_snapshot_seq": set(),
    "placet_log_first_record": set(),
}


def busy_counters() -> Counters:
    counters = Counters(["Move", "Speak"])
    counters.count_intents("Move", "admitted", 10)
    counters.count_refusal(Stage.QUOTA, "quota_exceeded", 3)
    counters.observe_batch(10)
    counters.observe_decide(30e-6)
    counters.observe_commit(0.003)
    counters.observe_verdicts([0.004])
    counters.effect("llm", "succeeded", 1.5)
    for what in EFFECT_COUNTS:
        counters.count_effect("llm", what)
    counters.watch("mailbox_depth", lambda: 4, "orchestrator")
    counters.watch("mailbox_oldest_seconds", lambda: 0.25)
    counters.watch("rule_running_seconds", lambda: 1.5, "rule of Move")
    counters.watch("outbox_depth", lambda: 2, "llm")
    counters.watch("observers", lambda: 5)
    counters.watch("observation_lag_seqs", lambda: 6)
    counters.watch("seq", lambda: 118)
    counters.watch("agents", lambda: 200)
    counters.watch("log_bytes", lambda: 4096)
    return counters


def exposed(counters: Counters) -> str:
    return generate_latest(create_registry(counters)).decode()


def samples_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("counters", [busy_counters(), Counters([])], ids=["busy", "idle"])
def test_exposed_metrics_are_those_of_the_specification(counters):
    declared = set(re.findall(r"^# TYPE (\S+) ", exposed(counters), re.MULTILINE))
    assert declared == set(SPECIFIED)


def test_every_metric_has_the_labels_of_the_specification():
    seen: dict[str, set[str]] = {}
    for name, labels in samples_of(exposed(busy_counters())):
        metric = re.sub(r"_(bucket|count|sum)$", "", name)
        seen.setdefault(metric, set()).update(key for key, _ in labels if key != "le")
    assert seen == SPECIFIED


def test_exported_values_equal_the_counters():
    samples = samples_of(exposed(busy_counters()))
    expected = {
        ("placet_intents_total", (("kind", "Move"), ("outcome", "admitted"))): 10,
        ("placet_intents_total", (("kind", "Speak"), ("outcome", "admitted"))): 0,
        ("placet_refusals_total", (("code", "quota_exceeded"), ("stage", "quota"))): 3,
        ("placet_batch_intents_bucket", (("le", "5.0"),)): 0,
        ("placet_batch_intents_bucket", (("le", "10.0"),)): 1,
        ("placet_batch_intents_sum", ()): 10,
        ("placet_decide_seconds_bucket", (("le", "2.5e-05"),)): 0,
        ("placet_decide_seconds_bucket", (("le", "5e-05"),)): 1,
        ("placet_commit_seconds_count", ()): 1,
        ("placet_submit_to_verdict_seconds_sum", ()): 0.004,
        ("placet_mailbox_depth", (("actor", "orchestrator"),)): 4,
        ("placet_mailbox_oldest_seconds", ()): 0.25,
        ("placet_outbox_depth", (("executor", "llm"),)): 2,
        ("placet_effect_seconds_sum", (("executor", "llm"), ("outcome", "succeeded"))): 1.5,
        ("placet_observers", ()): 5,
        ("placet_observation_lag_seqs", ()): 6,
        ("placet_seq", ()): 118,
        ("placet_log_bytes_total", ()): 4096,
        ("placet_agents", ()): 200,
    }
    assert {key: samples[key] for key in expected} == expected


def test_every_exported_bucket_is_a_counted_bound():
    assert set(SHOWN_SECONDS) <= set(LATENCY_BOUNDS)


def test_hostile_client_cannot_grow_the_labels():
    counters = Counters(["Move"])
    count = len(samples_of(exposed(counters)))
    for index in range(5000):
        counters.count_intents(f'x{index}"\n\\', "refused")
        counters.count_refusal(Stage.DOMAIN, f"evil.{index}")
    samples = samples_of(exposed(counters))
    kinds = {dict(labels)["kind"] for name, labels in samples if name == "placet_intents_total"}
    assert kinds == {"Move", UNKNOWN_KIND}
    assert len(samples) <= count + 257
    other = ("placet_refusals_total", (("code", OTHER_CODE), ("stage", "domain")))
    assert samples[other] == 5000 - 256


def test_label_with_quotes_and_line_breaks_is_escaped():
    counters = Counters([])
    counters.watch("mailbox_depth", lambda: 1, 'a"\n\\b')
    labels = (("actor", 'a"\n\\b'),)
    assert samples_of(exposed(counters))["placet_mailbox_depth", labels] == 1


def test_two_worlds_have_two_registries():
    first, second = Counters(["Move"]), Counters(["Move"])
    first.count_intents("Move", "admitted", 7)
    key = ("placet_intents_total", (("kind", "Move"), ("outcome", "admitted")))
    assert samples_of(exposed(first))[key] == 7
    assert samples_of(exposed(second))[key] == 0


def test_metrics_are_served_until_closed():
    counters = busy_counters()
    server = serve_metrics(create_registry(counters), 0)
    try:
        assert server.host == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(server.url, timeout=60) as response:
            text = response.read().decode()
        assert samples_of(text)["placet_seq", ()] == 118
        with pytest.raises(PlacetError, match=rf"127\.0\.0\.1:{server.port}.*choose another port"):
            serve_metrics(create_registry(counters), server.port)
    finally:
        server.close()
    server.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


@pytest.mark.parametrize("port", [-1, 65536])
def test_invalid_port_is_refused(port):
    with pytest.raises(PlacetError, match="cannot serve metrics"):
        serve_metrics(create_registry(Counters([])), port)
