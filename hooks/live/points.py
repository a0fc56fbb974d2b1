"""One point of the live plots: what the fleet did in a stretch of time. Points can be merged.

Percentiles cannot be averaged, so a point keeps small histograms and merges those.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from metrics.histogram import Histogram

LATENCIES = ("ttft_s", "chunk_gap_s")
HEALTH = ("loop_lag_s", "client_delay_s", "cpu_ratio")
COLUMNS = (
    "begin_s",
    "end_s",
    "users",
    "in_flight",
    "ok",
    "failed",
    "rate_limited",
    "tokens",
    "ttft_p50_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "gap_p50_s",
    "gap_p95_s",
    "gap_p99_s",
    "loop_lag_p99_s",
    "client_delay_p99_s",
    "cpu_mean_ratio",
)
"""What :meth:`Point.row` holds, in order."""
_QUANTILES = (0.5, 0.95, 0.99)


@dataclass(slots=True)
class Point:
    """From ``begin_s`` to ``end_s`` on the master's clock, seconds since the run began.

    Counts are of logical requests that were reported in it, ``rate_limited`` of attempts and
    ``tokens`` of successes; the histograms are of what was started in held windows.
    """

    begin_s: float
    end_s: float
    users: float
    in_flight: float | None
    """Means over the time, of the numbers that workers reported."""
    ok: int = 0
    failed: int = 0
    rate_limited: int = 0
    tokens: int = 0
    histograms: dict[str, Histogram] = field(default_factory=dict)
    _row: list[float | None] | None = field(default=None, repr=False, compare=False)

    @property
    def length_s(self) -> float:
        """How long it lasted."""
        return self.end_s - self.begin_s

    def percentile(self, name: str, q: float) -> float | None:
        """A quantile (``q`` in 0-1) within 1 %; None without a value."""
        found = self.histograms.get(name)
        return found.percentile(q) if found is not None else None

    def mean(self, name: str) -> float | None:
        """The mean; None without a value."""
        found = self.histograms.get(name)
        return found.mean if found is not None else None

    def row(self) -> list[float | None]:
        """The values of ``COLUMNS``, made once: a point is not added to any more."""
        if self._row is None:
            self._row = [
                round(self.begin_s, 2),
                round(self.end_s, 2),
                *shortened(
                    (
                        self.users,
                        self.in_flight,
                        self.ok,
                        self.failed,
                        self.rate_limited,
                        self.tokens,
                        *(self.percentile("ttft_s", q) for q in _QUANTILES),
                        *(self.percentile("chunk_gap_s", q) for q in _QUANTILES),
                        self.percentile("loop_lag_s", 0.99),
                        self.percentile("client_delay_s", 0.99),
                        self.mean("cpu_ratio"),
                    )
                ),
            ]
        return self._row


def shortened(values: Iterable[Any]) -> list[Any]:
    """Floats to four digits, which tell more than the histograms do; all else as it is."""
    return [float(f"{value:.4g}") if isinstance(value, float) else value for value in values]


def merged(first: Point, then: Point) -> Point:
    """Both as one point; ``then`` follows ``first``."""
    histograms = {name: histogram.copy() for name, histogram in first.histograms.items()}
    for name, histogram in then.histograms.items():
        histograms.setdefault(name, Histogram()).merge(histogram)
    return Point(
        begin_s=first.begin_s,
        end_s=then.end_s,
        users=_mean(first, then, first.users, then.users) or 0.0,
        in_flight=_mean(first, then, first.in_flight, then.in_flight),
        ok=first.ok + then.ok,
        failed=first.failed + then.failed,
        rate_limited=first.rate_limited + then.rate_limited,
        tokens=first.tokens + then.tokens,
        histograms=histograms,
    )


def _mean(first: Point, then: Point, a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    length_s = first.length_s + then.length_s
    if length_s <= 0:
        return b
    return (a * first.length_s + b * then.length_s) / length_s
