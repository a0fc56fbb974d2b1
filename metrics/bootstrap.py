"""Resampling of a held window in blocks of time: how far off a figure of one run may be.

Requests near each other share a queue, and those of one user follow one another, so that single
requests must not be drawn: whole blocks of time are (Carlstein, Annals of Statistics 14, 1986;
Lahiri, Resampling Methods for Dependent Data, 2003). Every figure of a window is taken from the
same resamples, which keeps their correlation. What is left of a block's influence on the next is
measured and widens the error. Chance is handed in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics.statistics import FloatArray, percentile

IntArray = npt.NDArray[np.int64]

REPLICATES = 2_000
FEWEST_BLOCKS = 6
"""With fewer, a block or two decide and no interval means anything."""
MOST_BLOCKS = 24
_BINS = 2_048
"""Values beyond so many are put together by rank: a quantile moves by a two-thousandth at most."""


@dataclass(frozen=True, slots=True)
class Draws:
    """A figure and what it was in each resample of its window, in the figure's own unit.

    ``freedom`` is the degrees of freedom of its variance: blocks less one. ``correlation_factor``
    widens the variance by what neighbouring blocks have in common, 1 or more. ``least_variance``
    is what the variance cannot be below, in the square of the unit.
    """

    estimate: float
    values: FloatArray
    freedom: float
    correlation_factor: float = 1.0
    least_variance: float = 0.0


def block_count(window_s: float, cycle_s: float) -> int:
    """Blocks of a window: none shorter than a user's cycle, and at most ``MOST_BLOCKS``.

    A cycle is an answer and the pause after it; the queue forgets over about one of them.
    """
    if cycle_s <= 0:
        return MOST_BLOCKS if window_s > 0 else 0
    return min(MOST_BLOCKS, int(window_s / cycle_s + 1e-9))


def draw_blocks(blocks: int, replicates: int, rng: np.random.Generator) -> IntArray:
    """How often each block is in each resample; every row adds up to ``blocks``."""
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=replicates)


def quantile_draws(
    values: FloatArray, block_of: IntArray, times: IntArray, quantiles: Sequence[float]
) -> tuple[Draws, ...]:
    """The nearest-rank quantiles (0-1) with their resamples, in the order given; () of no values.

    ``block_of`` is the block of each value, ``times`` what :func:`draw_blocks` gave. A resample of
    blocks without a value is not a number.
    """
    if not len(values):
        return ()
    blocks = times.shape[1]
    tops, counts = _binned(values, block_of, blocks)
    # Whole numbers up to 2**53 are exact as floats, and products of floats are many times faster.
    sums = times.astype(np.float64) @ np.cumsum(counts, axis=1)
    found = []
    for q in quantiles:
        estimate = percentile(values, q)
        assert estimate is not None  # there are values
        totals = sums[:, -1]
        ranks = np.maximum(1.0, np.ceil(q * totals - 1e-9))
        places = (sums < ranks[:, None]).sum(axis=1)
        draws = np.where(totals > 0, tops[np.minimum(places, len(tops) - 1)], np.nan)
        above = (values > estimate) - (1 - q)
        scores = np.bincount(block_of, weights=above, minlength=blocks).astype(np.float64)
        found.append(Draws(estimate, draws, blocks - 1, correlation_factor(scores)))
    return tuple(found)


def _binned(values: FloatArray, block_of: IntArray, blocks: int) -> tuple[FloatArray, FloatArray]:
    """The highest value of each bin, and how many of each block's values are in it."""
    order = np.argsort(values, kind="stable")
    bins = min(len(values), _BINS)
    bin_of = np.arange(len(values)) * bins // len(values)
    counts = np.zeros((blocks, bins))
    np.add.at(counts, (block_of[order], bin_of), 1.0)
    last = np.searchsorted(bin_of, np.arange(bins), side="right") - 1
    return values[order][last], counts


def ratio_draws(
    parts: FloatArray, wholes: FloatArray, times: IntArray, least_variance: float = 0.0
) -> Draws | None:
    """Sum of ``parts`` over sum of ``wholes``, both by block, and its resamples.

    None when the wholes add up to nothing. A rate is tokens by block over seconds by block.
    """
    whole = float(wholes.sum())
    if whole <= 0:
        return None
    estimate = float(parts.sum()) / whole
    below = times @ wholes
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.where(below > 0, (times @ parts) / below, np.nan)
    factor = correlation_factor(parts - estimate * wholes)
    return Draws(estimate, draws, times.shape[1] - 1, factor, least_variance)


def share_variance(part: float, whole: float) -> float:
    """Variance of a share of independent events, of which none or all may have been seen.

    Agresti and Caffo (The American Statistician 54, 2000): one success and one failure more. It
    keeps a share of 0 from being known for certain.
    """
    guess = (part + 1) / (whole + 2)
    return guess * (1 - guess) / (whole + 2)


def correlation_factor(scores: FloatArray) -> float:
    """By how much correlation of neighbouring blocks widens the variance of their sum.

    ``scores`` is each block's influence on the figure. Only the first lag counts, and only when it
    is positive: regular servers make negative ones, which few blocks cannot tell from chance.
    """
    n = len(scores)
    if n < 3:
        return 1.0
    apart = scores - scores.mean()
    power = float((apart**2).sum())
    if power <= (1e-9 * float(np.abs(scores).max())) ** 2 * n:
        return 1.0
    first = float((apart[1:] * apart[:-1]).sum()) / power
    return 1.0 + 2.0 * max(0.0, first) * (n - 1) / n


def t_to_normal(t: FloatArray, freedom: float) -> FloatArray:
    """|t| of Student's distribution as a normal deviate of the same probability.

    Wallace (Annals of Mathematical Statistics 30, 1959): off by under 0.02 of a deviate from 5
    degrees of freedom on.
    """
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    return scale * np.sqrt(freedom * np.log1p(t**2 / freedom))


def normal_to_t(z: float, freedom: float) -> float:
    """The inverse of :func:`t_to_normal`."""
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    return math.sqrt(freedom * math.expm1((z / scale) ** 2 / freedom))
