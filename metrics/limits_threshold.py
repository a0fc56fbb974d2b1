"""The limit that agrees best with what was accepted and what was refused."""

from dataclasses import dataclass

import numpy as np

from metrics.limits_attempts import Bools, Floats

SPARE = 1
"""Disagreements more than the best that still count as about as good."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit L: accepted at a fill of at most L, refused above it."""

    low: float
    """The least limit with the fewest disagreements."""
    high: float
    """The first limit above that has more; infinite when nothing was refused below it."""
    wide_low: float
    wide_high: float
    """The same with one disagreement more."""
    accepted_over: int
    """Accepted although full."""
    refused_under: int
    """Refused although there was room."""
    errors: int
    """Attempts that disagree, accepted ones times their weight."""


def best_threshold(
    accepted: Bools, least: Floats, most: Floats, accepted_weight: int = 1
) -> Threshold:
    """The limit with the fewest attempts against it, when each may be judged in its favour.

    With more than one limiter a 429 may be another's, an accepted attempt passed them all: it
    weighs ``accepted_weight`` times as much.
    """
    taken, refused = np.sort(least[accepted]), np.sort(most[~accepted])
    points = np.sort(np.concatenate((taken, refused)))
    # A point stands for the limits from it up to the next one.
    over = taken.size - np.searchsorted(taken, points, side="right")
    under = np.searchsorted(refused, points, side="right")
    errors = accepted_weight * over + under
    best = int(errors.min())
    first, high = _span(points, errors <= best)
    wide_first, wide_high = _span(points, errors <= best + SPARE)
    return Threshold(
        float(points[first]),
        high,
        float(points[wide_first]),
        wide_high,
        int(over[first]),
        int(under[first]),
        best,
    )


def _span(points: Floats, good: Bools) -> tuple[int, float]:
    rows = np.flatnonzero(good)
    last = int(rows[-1])
    return int(rows[0]), float(points[last + 1]) if last + 1 < points.size else float("inf")
