"""The base against one other run: loads matched, figures set against each other, intervals."""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from metrics.bootstrap import REPLICATES
from metrics.compare import (
    Better,
    Contrast,
    Interval,
    Scale,
    Verdict,
    contrast,
    intervals,
    judge,
    known_contrast,
    may_be_worse,
    over_all,
)
from reports.comparison.figures import Measured, figures_of
from reports.comparison.model import (
    ALL_LOADS,
    KNEE,
    METRICS,
    WHOLE_RUN,
    Comparison,
    Figure,
    Metric,
    Mismatch,
    Pair,
    Row,
    Weight,
)
from reports.comparison.sameness import mismatches_of
from reports.comparison.sides import LoadKey, Side, steady
from reports.comparison.wording import sentences_of

_Z95 = 1.959964
SHARE_MARGIN = 0.01
"""For shares of failures and 429s a margin is one point at most: 5 % of nothing is nothing, and 5
points more of failures are no small thing."""
_KNEE_FREEDOM = 7.0
"""A knee is read from a few levels, each with an error from 4 batches."""


def compare(sides: Sequence[Side], margin: float = 0.0, force: bool = False) -> Comparison:
    """The first side against each of the others; ``margin`` is the change that matters, 0-1.

    What is refused has no rows, unless ``force``.
    """
    base = sides[0]
    pairs = tuple(_pair(base, other, margin, force) for other in sides[1:])
    return Comparison(pairs, margin, force)


def _pair(a: Side, b: Side, margin: float, force: bool) -> Pair:
    mismatches = mismatches_of(a, b)
    rows: tuple[Row, ...] = ()
    left_out = _left_out(a, b)
    if not _common(a, b) and not any(m.field == "run_id" for m in mismatches):
        advice = "hold the same users or rates in both, and see what voids their stages"
        texts = [", ".join(key.text for key in sorted(_usable(side))) or "none" for side in (a, b)]
        mismatches = (Mismatch("loads", *texts, Weight.REFUSED, advice), *mismatches)
    refused = any(m.weight is Weight.REFUSED for m in mismatches)
    if force or not refused:
        rows = _rows(a, b, margin)
    pair = Pair(
        a=a.summary,
        b=b.summary,
        mismatches=mismatches,
        left_out=left_out,
        rows=rows,
        sentences=(),
    )
    return replace(pair, sentences=sentences_of(pair, margin, force))


def _usable(side: Side) -> set[LoadKey]:
    return {key for key, load in side.loads.items() if load.stages}


def _common(a: Side, b: Side) -> list[LoadKey]:
    return sorted(_usable(a) & _usable(b))


def _left_out(a: Side, b: Side) -> tuple[str, ...]:
    """Why a load is not compared, or only a part of its stages is."""
    said = []
    for key in sorted({*a.loads, *b.loads}):
        for side in (a, b):
            load = side.loads.get(key)
            if load is None:
                said.append(f"{key.text}: {side.label} has no such load")
                continue
            said += [f"{key.text}: {side.label}'s {reason}" for reason in load.void]
    return tuple(said)


@dataclass(slots=True)
class _Open:
    """A row whose interval is not known yet."""

    row: Row
    contrast: Contrast | None


def _rows(a: Side, b: Side, margin: float) -> tuple[Row, ...]:
    rng = _chance(a, b)
    open_rows: list[_Open] = []
    by_metric: dict[str, list[Contrast]] = {}
    keys = _common(a, b)
    for key in keys:
        left, right = (figures_of(side, side.loads[key], rng) for side in (a, b))
        for metric in METRICS:
            named = {a.label: left.get(metric.name), b.label: right.get(metric.name)}
            item = _open(metric, key.text, named)
            if item is None:
                continue
            open_rows.append(item)
            if item.contrast is not None and steady(key):
                by_metric.setdefault(metric.name, []).append(item.contrast)
    if len(keys) > 1:
        open_rows += _over_all(by_metric, open_rows)
    if (knee := _knee(a, b, rng)) is not None:
        open_rows.append(knee)
    return _judged(open_rows, margin, rng)


def _chance(a: Side, b: Side) -> np.random.Generator:
    """Seeded by the two runs, so that a comparison repeats to the digit."""
    names = f"{a.run.meta.get('run_id')}/{b.run.meta.get('run_id')}"
    return np.random.default_rng(zlib.crc32(names.encode("utf-8", "replace")))


def _open(metric: Metric, load: str, named: Mapping[str, Measured | None]) -> _Open | None:
    """One figure at one load; ``named`` has the base first and then the other, by their labels."""
    a, b = named.values()
    if a is None and b is None:
        return None
    why, found = None, None
    if a is None or b is None:
        why = " and ".join(f"{label} has none" for label, m in named.items() if m is None)
    elif a.draws is None or b.draws is None:
        lacking = {label: m.why for label, m in named.items() if m and m.draws is None}
        both = len(lacking) == 2 and a.why == b.why
        why = a.why if both else "; ".join(f"{name}: {text}" for name, text in lacking.items())
    else:
        found = contrast(a.draws, b.draws, metric.scale)
        why = None if found is not None else "a value of 0 has no ratio"
    row = Row(
        metric=metric,
        load=load,
        a=Figure(a.value, a.n) if a is not None else Figure(None, 0),
        b=Figure(b.value, b.n) if b is not None else Figure(None, 0),
        interval=None,
        verdict=Verdict.NOT_JUDGED,
        why=why,
    )
    return _Open(row, found)


def _over_all(
    by_metric: Mapping[str, Sequence[Contrast]], rows: Sequence[_Open]
) -> Iterable[_Open]:
    """One row for each metric over the loads at which it has an interval."""
    for metric in METRICS:
        parts = by_metric.get(metric.name, ())
        if len(parts) < 2:
            continue
        own = [o.row for o in rows if o.row.metric is metric and o.contrast is not None]
        row = Row(
            metric=metric,
            load=ALL_LOADS,
            a=Figure(None, sum(r.a.n for r in own)),
            b=Figure(None, sum(r.b.n for r in own)),
            interval=None,
            verdict=Verdict.NOT_JUDGED,
        )
        yield _Open(row, over_all(parts))


def _knee(a: Side, b: Side, rng: np.random.Generator) -> _Open | None:
    left, right = a.report.knee, b.report.knee
    if left.users is None and right.users is None:
        return None
    why, found = None, None
    lacking = [s.label for s, k in ((a, left), (b, right)) if not k.users]
    if lacking:
        why = " and ".join(f"{label} has none" for label in lacking)
    else:
        errors = [_knee_error(knee.low, knee.high) for knee in (left, right)]
        if None in errors:
            why = "a knee without an interval"
        elif left.users and right.users:
            error = math.hypot(*(e or 0.0 for e in errors))
            found = known_contrast(
                math.log(right.users / left.users), error, _KNEE_FREEDOM, rng, REPLICATES
            )
    n = [sum(e.used_for == "estimate" for e in knee.evidence) for knee in (left, right)]
    row = Row(
        metric=KNEE,
        load=WHOLE_RUN,
        a=Figure(left.users, n[0]),
        b=Figure(right.users, n[1]),
        interval=None,
        verdict=Verdict.NOT_JUDGED,
        why=why,
    )
    return _Open(row, found)


def _knee_error(low: float | None, high: float | None) -> float | None:
    """Standard error of the knee's logarithm, from its 95 % interval."""
    if not low or not high or low <= 0 or high < low:
        return None
    return math.log(high / low) / 2 / _Z95


def _judged(rows: Sequence[_Open], margin: float, rng: np.random.Generator) -> tuple[Row, ...]:
    known = [item.contrast for item in rows if item.contrast is not None]
    bounds = iter(intervals(known, rng))
    return tuple(
        item.row if item.contrast is None else _with(item.row, next(bounds), margin)
        for item in rows
    )


def _with(row: Row, interval: Interval, margin: float) -> Row:
    metric = row.metric
    points = metric.scale is Scale.POINTS
    own = min(margin, SHARE_MARGIN) if points else margin
    return replace(
        row,
        interval=interval,
        verdict=judge(interval, metric.better, own),
        at_risk=metric.better is not Better.NEITHER and may_be_worse(interval, metric.better, own),
    )
