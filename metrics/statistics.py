"""Percentiles with the sample sizes they need, and means with intervals.

Percentiles are nearest rank: the smallest value with at least q * n values at or below it. No
interpolation, so a percentile is always a value that was seen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

QUANTILES: tuple[tuple[str, float], ...] = (
    ("p50", 0.50),
    ("p90", 0.90),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p999", 0.999),
)

SECTIONS = 8
_T95 = {3: 3.182, 7: 2.365}
"""Two-sided 95 % points of Student's t, for 4 and for 8 batches."""

PARTS = 32
"""Means of so many consecutive parts show whether a series is long beside its own memory."""
MOST_CORRELATED = 0.4
"""Correlation of neighbouring parts from which it is not. Independent values reach it in 2 of 100
series; at 0.97 from one value to the next 400 values do in 97, and p95 intervals from 8 sections
would cover 70 % there."""
_FEWEST_IN_PART = 2

_SAMPLES_NEEDED = {0.90: 36, 0.95: 72, 0.99: 368, 0.999: 3688}
"""Fewest independent samples for which a two-sided 95 % interval of that quantile exists: the
smallest n with 1 - q**n - ... >= 0.95 on the upper side (n >= ln 0.025 / ln q)."""


def samples_needed(q: float) -> int:
    """Fewest samples for which the ``q`` quantile has an upper bound at 97.5 %."""
    return _SAMPLES_NEEDED.get(q) or math.ceil(math.log(0.025) / math.log(q))


def percentile(values: Sequence[float] | FloatArray, q: float) -> float | None:
    """Nearest-rank quantile for ``q`` in 0-1; None without values."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        return None
    rank = min(array.size, max(1, math.ceil(q * array.size)))
    return float(np.partition(array, rank - 1)[rank - 1])


def failure_adjusted_percentile(
    values: Sequence[float] | FloatArray, failed: int, q: float
) -> float | None:
    """Nearest-rank quantile with each of ``failed`` requests as one without bound.

    None when it lies among the failures, above every value that was seen; and without values.
    """
    array = np.asarray(values, dtype=np.float64)
    rank = max(1, math.ceil(q * (array.size + failed)))
    if rank > array.size:
        return None
    return float(np.partition(array, rank - 1)[rank - 1])


def mean(values: Sequence[float] | FloatArray) -> float | None:
    """Arithmetic mean; None without values."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()) if array.size else None


def sectioned_interval(
    values: Sequence[float] | FloatArray, q: float
) -> tuple[float, float] | None:
    """About-95 % interval of a quantile, for values in the order they were observed.

    Neighbouring requests share a queue, so their latencies are correlated and an interval from
    order statistics would be far too narrow. Sectioning (Asmussen and Glynn 2007, section III.5)
    takes the quantile in 8 consecutive sections and their spread around the pooled one. None when
    a section would hold too few values to have that quantile.
    """
    array = np.asarray(values, dtype=np.float64)
    per_section = array.size // SECTIONS
    if per_section < max(4, math.ceil(1 / (1 - q))):
        return None
    pooled = percentile(array, q)
    parts = [percentile(part, q) for part in np.array_split(array, SECTIONS)]
    if pooled is None:
        return None
    spread = math.sqrt(sum((part - pooled) ** 2 for part in parts if part is not None))
    half = _T95[SECTIONS - 1] * spread / math.sqrt(SECTIONS * (SECTIONS - 1))
    return max(0.0, pooled - half), pooled + half


def too_short(values: Sequence[float] | FloatArray) -> bool:
    """Whether values in the order they were observed wander for too long for their intervals.

    Sections that depend on each other spread too little. Not told below 64 values.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < _FEWEST_IN_PART * PARTS:
        return False
    means = np.array([part.mean() for part in np.array_split(array, PARTS)])
    apart = means - means.mean()
    power = float((apart**2).sum())
    # What is left of equal values is rounding.
    if power <= PARTS * (1e-9 * float(np.abs(means).max())) ** 2:
        return False
    return float((apart[1:] * apart[:-1]).sum()) > MOST_CORRELATED * power


@dataclass(frozen=True, slots=True)
class Summary:
    """What is said of one metric over one set of requests; None where there is nothing to say.

    ``flags`` names the percentiles that have fewer samples than they need (``p99:few``), and has
    ``series:short`` where the values depend on those long before them, so that no interval holds.
    ``intervals`` maps a percentile's name to its about-95 % interval; it is empty then.

    ``failed`` is how many requests of the set have no value because they failed, and ``adjusted``
    the percentiles with those above every value: None where that is where the percentile lies. It
    is empty without failures, which would leave the percentiles as they are.
    """

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None
    flags: tuple[str, ...]
    intervals: dict[str, tuple[float, float]]
    failed: int = 0
    adjusted: dict[str, float | None] = field(default_factory=dict)


def summarise(values: Sequence[float] | FloatArray, failed: int = 0) -> Summary:
    """Summarise values given in the order they were observed; NaN is not a value and left out.

    ``failed`` requests have none.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    short = too_short(array)
    found = {name: percentile(array, q) for name, q in QUANTILES}
    intervals = {
        name: bounds
        for name, q in QUANTILES
        if not short and (bounds := sectioned_interval(array, q)) is not None
    }
    few = [f"{name}:few" for name, q in QUANTILES if 0 < array.size < samples_needed(q)]
    return Summary(
        n=int(array.size),
        mean=mean(array),
        max=float(array.max()) if array.size else None,
        flags=(*few, "series:short") if short else tuple(few),
        intervals=intervals,
        failed=failed,
        adjusted={
            name: failure_adjusted_percentile(array, failed, q) for name, q in QUANTILES if failed
        },
        **found,
    )


def jackknife_mean_interval(values: Sequence[float] | FloatArray) -> tuple[float, float] | None:
    """95 % interval of a mean from 4 consecutive batches, Student t(3); None below 8 values."""
    array = np.asarray(values, dtype=np.float64)
    if array.size < 8:
        return None
    batches = np.array([part.mean() for part in np.array_split(array, 4)])
    half = _T95[3] * float(batches.std(ddof=1)) / 2.0
    centre = float(array.mean())
    return centre - half, centre + half
