"""Metrics in the text format of Prometheus."""

import threading
from bisect import bisect_left
from collections.abc import Iterable

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """Counts requests and their durations by route; keeps nothing of their content.

    >>> metrics = Metrics()
    >>> metrics.request("GET", "/v1/status", 200, 0.003)
    >>> [line for line in metrics.lines() if line.endswith(" 1") and "le=" not in line][0]
    'cause_requests_total{method="GET",route="/v1/status",status="200"} 1'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            key = method, route, status
            self._counts[key] = self._counts.get(key, 0) + 1
            buckets, total = self._times.setdefault(route, ([0] * (len(BOUNDS) + 1), [0.0]))
            buckets[bisect_left(BOUNDS, seconds)] += 1
            total[0] += seconds

    def lines(self) -> Iterable[str]:
        """Yield the lines of the counters and histograms."""
        with self._lock:
            counts, times = dict(self._counts), {route: (list(b), t[0]) for route, (b, t) in self._times.items()}
        yield "# TYPE cause_requests_total counter"
        for (method, route, status), count in sorted(counts.items()):
            yield f'cause_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
        yield "# TYPE cause_request_seconds histogram"
        for route, (buckets, total) in sorted(times.items()):
            cumulated = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                cumulated += count
                yield f'cause_request_seconds_bucket{{route="{route}",le="{bound}"}} {cumulated}'
            yield f'cause_request_seconds_count{{route="{route}"}} {cumulated}'
            yield f'cause_request_seconds_sum{{route="{route}"}} {total:.6f}'


def gauge(name: str, value: float | None) -> list[str]:
    """Return the lines of a gauge; none if its value is unknown."""
    return [] if value is None else [f"# TYPE cause_{name} gauge", f"cause_{name} {value:g}"]
