"""What is drawn anew, blocks of time or single requests, and how often the interval then holds.

Each figure is looked at alone here, so 95 of 100 intervals should hold no difference.
"""

from collections.abc import Sequence

import numpy as np

from bench.compare.kinds import Kind
from bench.compare.world import plain_side, simulated_run
from metrics.bootstrap import MOST_BLOCKS, REPLICATES, IntArray, draw_blocks, quantile_draws
from metrics.compare import Contrast, Scale, contrast, intervals
from metrics.statistics import FloatArray
from reports.comparison.figures import figures_of
from reports.comparison.sides import Side
from reports.counting import succeeded

QUANTILES = (0.5, 0.95)
AR_VALUES = 960
AR_MEMORY = (0.0, 0.7, 0.95)
"""Correlation of one value with the next; at 0.95 a value is forgotten over about 60."""


def held(found: Contrast | None, rng: np.random.Generator) -> bool:
    """Whether the interval of this contrast alone holds no difference."""
    assert found is not None
    (interval,) = intervals([found], rng)
    return interval.low <= 0 <= interval.high


def single_contrasts(
    a: FloatArray, b: FloatArray, rng: np.random.Generator
) -> list[Contrast | None]:
    """The quantiles' contrasts with every value as a block of its own."""
    both = []
    for values in (a, b):
        times = draw_blocks(len(values), REPLICATES // 4, rng)
        both.append(quantile_draws(values, np.arange(len(values)), times, QUANTILES))
    return [contrast(left, right, Scale.RATIO) for left, right in zip(*both, strict=True)]


def _block_contrasts(
    a: FloatArray, b: FloatArray, rng: np.random.Generator
) -> list[Contrast | None]:
    both = []
    for values in (a, b):
        block_of: IntArray = np.arange(len(values)) * MOST_BLOCKS // len(values)
        times = draw_blocks(MOST_BLOCKS, REPLICATES, rng)
        both.append(quantile_draws(values, block_of, times, QUANTILES))
    return [contrast(left, right, Scale.RATIO) for left, right in zip(*both, strict=True)]


def series_once(memory: float, seed: int) -> list[bool]:
    """Two series of a first-order autoregression: p50 and p95 by blocks, then by single values."""
    rng = np.random.default_rng(seed)
    pair = [_series(memory, rng) for _ in range(2)]
    contrasts = [*_block_contrasts(pair[0], pair[1], rng), *single_contrasts(pair[0], pair[1], rng)]
    return [held(found, rng) for found in contrasts]


def _series(memory: float, rng: np.random.Generator) -> FloatArray:
    """A lognormal whose logarithm is the autoregression, with a spread of 0.3."""
    pushes = rng.standard_normal(AR_VALUES) * np.sqrt(1 - memory**2)
    value, values = rng.standard_normal(), np.empty(AR_VALUES)
    for place, push in enumerate(pushes):
        value = memory * value + push
        values[place] = value
    return np.asarray(np.exp(0.3 * values))


def server_once(kind: Kind, seed: int) -> list[bool]:
    """TTFT p50 and p95 of two equal runs at the highest load, both ways."""
    rng = np.random.default_rng(seed)
    sides = [
        plain_side(label, simulated_run(kind.profile, kind.workload, n, kind.users, kind.hold_s))
        for label, n in (("A", 10 * seed + 5), ("B", 10 * seed + 6))
    ]
    key = max(sides[0].loads, key=lambda key: key.users)
    found = [figures_of(side, side.loads[key], rng) for side in sides]
    names = [f"ttft_p{round(100 * q)}_s" for q in QUANTILES]
    blocks = []
    for name in names:
        a, b = (figures[name].draws for figures in found)
        blocks.append(None if a is None or b is None else contrast(a, b, Scale.RATIO))
    values = [_ttft_s(side, side.loads[key].stages) for side in sides]
    return [held(each, rng) for each in (*blocks, *single_contrasts(values[0], values[1], rng))]


def _ttft_s(side: Side, stages: Sequence[int]) -> FloatArray:
    records = side.run.records
    counted = records[records["counted"] & records["stage"].isin(stages)]
    return succeeded(counted)["ttft_s"].dropna().to_numpy(dtype=np.float64)
