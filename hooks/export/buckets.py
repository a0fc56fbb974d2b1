"""A histogram of ours as Prometheus wants it: cumulative counts at fixed bounds."""

from collections.abc import Sequence

from metrics.histogram import Histogram

LATENCY_BOUNDS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
)
"""For waits of people."""
TOKEN_BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5),
)
"""For the time of one token."""


def cumulative(histogram: Histogram, bounds_s: Sequence[float]) -> list[tuple[str, float]]:
    """How many values are at most each bound, as ``le`` and count; ``+Inf`` comes last.

    A value that is within 1 % of a bound may be counted on its other side.
    """
    counted = histogram.at_most(bounds_s)
    pairs = [(f"{bound:g}", float(n)) for bound, n in zip(bounds_s, counted, strict=True)]
    return [*pairs, ("+Inf", float(histogram.n))]
