"""Metrics for Prometheus: requests are counted as they are answered, the device is read at each scrape."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

__all__ = ["CONTENT_TYPE", "CounterMetricFamily", "GaugeMetricFamily", "InfoMetricFamily", "Metrics"]


class Metrics:
    """Counts requests and their durations by route; keeps nothing of their content.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.request("GET", "/v1/status", 200, 0.003)
    >>> [line for line in metrics.text().splitlines() if line.startswith("cause_requests_total")]
    ['cause_requests_total{method="GET",route="/v1/status",status="200"} 1.0']
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._requests = Counter(
            "cause_requests",
            "Requests that were answered, by method, pattern of the route and status.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "cause_request_seconds",
            "Seconds from the headers of a request to the end of its answer, without streams of events.",
            ["route"],
            buckets=BOUNDS,
            registry=self._registry,
        )
        self.streams = Gauge(
            "cause_event_streams", "Streams of events that are open.", registry=self._registry
        )  # its durations are as long as tabs are open, and say nothing of latencies

    def add(self, collector: Collector) -> None:
        """Read a collector, too, at each scrape."""
        self._registry.register(collector)

    def request(self, method: str, route: str, status: int, seconds: float, *, stream: bool = False) -> None:
        """Count a request that was answered; the seconds of a stream are not counted."""
        self._requests.labels(method, route, str(status)).inc()
        if not stream:
            self._seconds.labels(route).observe(seconds)

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry).decode()


def gauge(name: str, help_: str, value: float | None) -> Iterable[Metric]:
    """Yield a gauge of the device; nothing if its value is unknown."""
    if value is not None:
        yield GaugeMetricFamily(f"cause_{name}", help_, value=value)


def counter(name: str, help_: str, value: float) -> Iterable[Metric]:
    """Yield a counter of the device: a value that only grows; its name gets `_total`."""
    yield CounterMetricFamily(f"cause_{name}", help_, value=value)
