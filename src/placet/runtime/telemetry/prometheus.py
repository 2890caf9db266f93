"""The world's counters as Prometheus metrics.

Metrics are built when a client requests them, in the thread of that request; counting costs nothing
more. Every world has its own registry, so two worlds in one process do not mix and the host
program's global registry is not touched.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from placet.actors.metrics import BATCH_BOUNDS, Counters, EffectCount, Gauge, Histogram
from placet.schemas.errors import PlacetError

if TYPE_CHECKING:
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

SHOWN_SECONDS: Final = (
    *(float(f"{mantissa}e{exponent}") for exponent in range(-5, 1) for mantissa in (1, 2.5, 5)),
    10.0,
    100.0,
)
"""Buckets of times as exported, 10 µs to 100 s: each is a bound of `LATENCY_BOUNDS`."""


class _GaugeText(NamedTuple):
    """The exported form of a gauge: its label's name, if any, and its help text."""

    label: str
    text: str


_GAUGES: Final[dict[Gauge, _GaugeText]] = {
    "time_dilation": _GaugeText("", "Simulated seconds per real second; 1 without load."),
    "mailbox_depth": _GaugeText("actor", "Messages waiting in an actor's mailbox."),
    "mailbox_oldest_seconds": _GaugeText("", "Age of the oldest waiting batch."),
    "outbox_depth": _GaugeText("executor", "Unsettled effects."),
    "rule_running_seconds": _GaugeText("rule", "Seconds that a rule holds the world by now."),
    "observers": _GaugeText("", "Subscribers, observing agents included."),
    "observation_lag_seqs": _GaugeText("", "Seqs by which the slowest subscriber is behind."),
    "seq": _GaugeText("", "Sequence number of the world."),
    "agents": _GaugeText("", "Registered agents."),
    "snapshot_seq": _GaugeText("", "Sequence number of the newest snapshot."),
    "log_first_record": _GaugeText("", "First record of the log; earlier ones were compacted."),
}

_COUNTED: Final[dict[Gauge, str]] = {
    "observation_overflows": "Observer inboxes that overflowed and were replaced by a snapshot.",
    "barrier_late": "Agents that were late for a step.",
    "log_bytes": "Bytes of the records in the log.",
}
"""Totals that are read where they are kept, as gauges are, and only rise."""

_EFFECT_COUNTS: Final[dict[EffectCount, str]] = {
    "attempts": "Attempts at effects.",
    "retries": "Failed attempts that are followed by another.",
    "dead_letters": "Effects given up after their last attempt, or whose on_settle raised.",
    "in_doubt": "Effects for which it is unknown whether they were done.",
}


class CountersCollector(Collector):
    """A Prometheus collector that converts `Counters` to metrics, on request.

    O(number of series).
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the world, including metrics without samples."""
        counters = self._counters
        yield self._intents()
        yield self._refusals()
        yield _histogram(
            "placet_batch_intents", "Intents per batch.", counters.batch_intents, BATCH_BOUNDS
        )
        for name, text, histogram in (
            ("decide", "Time to decide a group.", counters.decide_seconds),
            ("commit", "Time to make a group durable.", counters.commit_seconds),
            ("submit_to_verdict", "Time from submit to verdict.", counters.verdict_seconds),
            ("snapshot", "Time to take a snapshot, in its own process.", counters.snapshot_seconds),
        ):
            yield _histogram(f"placet_{name}_seconds", text, histogram, SHOWN_SECONDS)
        yield self._effects()
        yield from self._effect_counts()
        yield self._snapshots()
        for gauge, (label, text) in _GAUGES.items():
            yield self._gauge(gauge, label, text)
        for counted, text in _COUNTED.items():
            value = sum(reading() for reading in self._readings(counted).values())
            yield CounterMetricFamily(f"placet_{counted}", text, value=value)

    def _intents(self) -> Metric:
        family = CounterMetricFamily(
            "placet_intents", "Intents answered.", labels=["kind", "outcome"]
        )
        for outcome, kinds in self._counters.intents.items():
            for kind, count in list(kinds.items()):
                family.add_metric([kind, outcome], count)
        return family

    def _refusals(self) -> Metric:
        family = CounterMetricFamily("placet_refusals", "Refusals.", labels=["stage", "code"])
        for key, count in list(self._counters.refusals.items()):
            family.add_metric(key, count)
        return family

    def _effects(self) -> Metric:
        family = HistogramMetricFamily(
            "placet_effect_seconds",
            "Time of an attempt at an effect.",
            labels=["executor", "outcome"],
        )
        for key, histogram in list(self._counters.effect_seconds.items()):
            family.add_metric(key, _buckets(histogram, SHOWN_SECONDS), histogram.total)
        return family

    def _effect_counts(self) -> Iterator[Metric]:
        counts = dict(self._counters.effect_counts)
        for event, text in _EFFECT_COUNTS.items():
            family = CounterMetricFamily(f"placet_effect_{event}", text, labels=["executor"])
            for (executor, counted), count in counts.items():
                if counted == event:
                    family.add_metric([executor], count)
            yield family

    def _snapshots(self) -> Metric:
        family = CounterMetricFamily("placet_snapshots", "Snapshots.", labels=["outcome"])
        for outcome, count in self._counters.snapshots.items():
            family.add_metric([outcome], count)
        return family

    def _gauge(self, gauge: Gauge, label: str, text: str) -> Metric:
        family = GaugeMetricFamily(f"placet_{gauge}", text, labels=[label] if label else [])
        readings = self._readings(gauge)
        for name, reading in readings.items():
            family.add_metric([name] if label else [], reading())
        if not readings and not label:
            family.add_metric([], 0)
        return family

    def _readings(self, gauge: Gauge) -> dict[str, Callable[[], float]]:
        return dict(self._counters.gauges.get(gauge, {}))


def create_registry(counters: Counters) -> CollectorRegistry:
    """Return a registry that holds the metrics of one world only."""
    registry = CollectorRegistry()
    registry.register(CountersCollector(counters))
    return registry


class MetricsServer:
    """An HTTP server of one registry, in a separate thread.

    Attributes:
        host: Address that it listens on.
        port: Port that it listens on, chosen by the system if 0 was requested.
        url: Address of the metrics, `http://host:port/metrics`.
    """

    def __init__(self, server: "WSGIServer", thread: "Thread", host: str) -> None:
        self._server = server
        self._thread = thread
        self.host = host
        self.port: int = server.server_port
        shown_host = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown_host}:{self.port}/metrics"

    def close(self) -> None:
        """Free the port and end the thread. Idempotent; blocks for up to 0.5 s."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def serve_metrics(registry: CollectorRegistry, port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Serve a registry over HTTP until `MetricsServer.close`.

    Args:
        registry: Holds the metrics.
        port: Port to listen on; 0 lets the system choose a free one.
        host: Address to listen on; the default accepts connections from this machine only.

    Raises:
        PlacetError: The address cannot be listened on, for example because it is in use.
    """
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        message = (
            f"cannot serve metrics at {host}:{port}: {error}; choose another port, or 0 for any"
        )
        raise PlacetError(message) from error
    return MetricsServer(server, thread, host)


def _histogram(name: str, text: str, histogram: Histogram, shown: Iterable[float]) -> Metric:
    buckets = _buckets(histogram, shown)
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram.total)


def _buckets(histogram: Histogram, shown: Iterable[float]) -> Sequence[tuple[str, float]]:
    cumulative = histogram.cumulative()
    bounds = histogram.bounds
    buckets = [(str(float(le)), float(cumulative[bisect_left(bounds, le)])) for le in shown]
    return [*buckets, ("+Inf", float(cumulative[-1]))]
