"""Whether a held window was steady: warm-up cut by cycles, MSER-5, and its halves compared."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics.statistics import FloatArray

MSER_GROUP = 5
MSER_FEWEST = 80
"""Below 16 groups of 5 the truncation point is mostly chance."""
MSER_BATCHES = 8
HALF_BATCHES = 4
BATCH_FEWEST = 5
_T999_DOF6, _T999_DOF7 = 5.959, 5.408
"""Two-sided 99.9 % points of Student's t for two halves of 4 batches, and for 8 batches. A window
is tested for several metrics and a run has many windows: 95 % would find some in every run."""


@dataclass(frozen=True, slots=True)
class HalvesTest:
    """First half against second half; ``low`` and ``high`` bound the change at 99.9 %."""

    first: float
    second: float
    change_ratio: float
    """(second - first) / mean of both, or / ``least`` when that is larger."""
    low_ratio: float
    high_ratio: float

    def differs_by(self, ratio: float) -> bool:
        """Whether the halves differ for certain, and by more than ``ratio`` of their mean."""
        certain = self.low_ratio > 0 or self.high_ratio < 0
        return certain and abs(self.change_ratio) > ratio


@dataclass(frozen=True, slots=True)
class MserCut:
    """Where MSER-5 would cut a series: ``ratio`` of its samples, at most a half.

    ``excess_ratio`` is the cut part's mean above that of the rest, as a share of the latter, and
    ``clear`` whether the two means differ at 99.9 %, by 8 batches of the rest. Of a steady series
    too MSER often cuts a part that is like the rest.
    """

    samples: int
    ratio: float
    excess_ratio: float
    clear: bool


def after_first_of_each(users: Sequence[Hashable]) -> npt.NDArray[np.bool_]:
    """Which requests, in the order of their start, are not the first of their user.

    One finished request per user is the warm-up of a closed loop: users who all begin at once meet
    an idle server in their first cycle and a synchronised queue in it.
    """
    seen: set[Hashable] = set()
    mask = np.zeros(len(users), dtype=np.bool_)
    for position, user in enumerate(users):
        mask[position] = user in seen
        seen.add(user)
    return mask


def mser5(
    values: Sequence[float] | FloatArray, cycle: int = 1, least: float = 0.0
) -> MserCut | None:
    """The cut at which the rest has the smallest standard error (White 1997), in groups of 5.

    The excess is a share of the rest's mean, or of ``least`` when that is larger. ``cycle`` is the
    number of users. None below 80 values, or when the rest's 8 batches might not hold a cycle each.
    """
    array = np.asarray(values, dtype=np.float64)
    groups = array.size // MSER_GROUP
    if array.size < max(MSER_FEWEST, 2 * MSER_BATCHES * cycle):
        return None
    means = array[: groups * MSER_GROUP].reshape(groups, MSER_GROUP).mean(axis=1)
    cut = _least_error(means)
    if cut == 0:
        return MserCut(0, 0.0, 0.0, False)
    before, after = means[:cut], means[cut:]
    excess = float(before.mean() - after.mean())
    scale = max(float(after.mean()), least)
    # Batches of the rest serve for both: the cut part's own spread may hold the transient.
    batches = np.array([part.mean() for part in np.array_split(after, MSER_BATCHES)])
    per_group = float(batches.var(ddof=1)) * after.size / MSER_BATCHES
    error = math.sqrt(per_group * (1 / cut + 1 / after.size))
    return MserCut(
        samples=cut * MSER_GROUP,
        ratio=cut / groups,
        excess_ratio=excess / scale if scale > 0 else 0.0,
        clear=abs(excess) > _T999_DOF7 * error,
    )


def _least_error(means: FloatArray) -> int:
    """The first cut after which the rest's variance over its size is least, in the first half.

    Sums from the end find the few cuts that it may be; only these are measured exactly.
    """
    apart, left = means - means.mean(), np.arange(means.size, 0, -1)
    squares = np.cumsum(apart[::-1] ** 2)[::-1] / left
    about = (squares - (np.cumsum(apart[::-1])[::-1] / left) ** 2) / left
    rounding = 1e-9 * squares / left
    cuts = slice(0, means.size // 2 + 1)
    low, high = (about - rounding)[cuts], (about + rounding)[cuts]
    likely = np.flatnonzero(low <= high.min())
    errors = [float(means[cut:].var()) / (means.size - cut) for cut in likely.tolist()]
    return int(likely[int(np.argmin(errors))])


def compare_halves(batches: Sequence[float] | FloatArray, least: float = 0.0) -> HalvesTest | None:
    """Compare the halves of a window by 8 consecutive batch means; None for other than 8.

    Each batch should hold a cycle of all users or more, so that batches are nearly independent.
    Changes are shares of the mean, or of ``least`` when the mean is below it: a third more of next
    to nothing is next to nothing.
    """
    means = np.asarray(batches, dtype=np.float64)
    if means.size != 2 * HALF_BATCHES or not np.isfinite(means).all():
        return None
    first, second = means[:HALF_BATCHES], means[HALF_BATCHES:]
    centre = max(float(means.mean()), least)
    if centre <= 0:
        return None
    variance = (float(first.var(ddof=1)) + float(second.var(ddof=1))) / 2
    half = _T999_DOF6 * math.sqrt(variance * 2 / HALF_BATCHES)
    change = float(second.mean() - first.mean())
    return HalvesTest(
        first=float(first.mean()),
        second=float(second.mean()),
        change_ratio=change / centre,
        low_ratio=(change - half) / centre,
        high_ratio=(change + half) / centre,
    )


def halves_of_values(
    values: Sequence[float] | FloatArray, cycle: int, least: float = 0.0
) -> HalvesTest | None:
    """The test on values in the order they were observed; ``cycle`` is the number of users.

    None when 8 batches would hold less than a cycle, or fewer than 5 values, each.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2 * HALF_BATCHES * max(cycle, BATCH_FEWEST):
        return None
    parts = np.array_split(array, 2 * HALF_BATCHES)
    return compare_halves([float(part.mean()) for part in parts], least)


def halves_of_events(
    times_s: Sequence[float] | FloatArray, begin_s: float, end_s: float, cycle: int
) -> HalvesTest | None:
    """The test on events per second in a window of time, in 8 equal spans.

    None when a span holds less than a cycle, or fewer than 5 events, on average.
    """
    array = np.asarray(times_s, dtype=np.float64)
    inside = array[(array >= begin_s) & (array < end_s)]
    if end_s <= begin_s or inside.size < 2 * HALF_BATCHES * max(cycle, BATCH_FEWEST):
        return None
    counts, _ = np.histogram(inside, bins=2 * HALF_BATCHES, range=(begin_s, end_s))
    span_s = (end_s - begin_s) / (2 * HALF_BATCHES)
    return compare_halves(counts / span_s)
