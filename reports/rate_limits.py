"""What a run says of rate limits: what was let in and shed, which limits, and what refused.

It speaks of limits alone. Whether requests queue is read from first tokens elsewhere, and a wait
for a retry is never taken for one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from metrics.limits import limits_found
from metrics.limits_result import LimitEstimate
from metrics.statistics import percentile
from reports.attempts import (
    accepted,
    attempt_rows,
    clock_note,
    for_search,
    limited,
    shed,
    wall_offsets_s_of,
)
from reports.limits_answer import LimitAnswer, limit_answer
from reports.load import SavedRun
from reports.refusals import Faces, faces_of
from reports.stage_loads import StageLoad, stage_loads

BUCKETS_MAX = 60
_BUCKETS_S = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_PUBLISHED = ("limit_requests", "remaining_requests", "limit_tokens", "remaining_tokens", "reset_s")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Attempts sent in one stretch of time; ``at_s`` is its begin on the clock of all workers."""

    at_s: float
    accepted: int
    limited: int
    other: int
    """Neither let in nor answered 429."""

    @property
    def ratio(self) -> float | None:
        """Accepted attempts per one answered 429; None without a 429."""
        return self.accepted / self.limited if self.limited else None


@dataclass(frozen=True, slots=True)
class AskedWait:
    """What requests that were turned away at least once were told to wait before the next try."""

    refused: int
    told: int
    """How many of them were told a time."""
    p50_s: float | None
    longest_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """All that a run tells of limits."""

    bucket_s: float
    buckets: tuple[Bucket, ...]
    loads: tuple[StageLoad, ...]
    found: tuple[LimitEstimate, ...]
    published: Mapping[str, float]
    """The last values of the headers, by the record's field names."""
    asked_wait: AskedWait
    faces: Faces
    answer: LimitAnswer | None
    """Of a search for the limit; None in every other run."""
    clock_note: str | None
    """How the times of several workers were put on one clock; None of a single one."""


def rate_limits_of(run: SavedRun) -> RateLimits | None:
    """What the attempts tell; None when nothing was shed, published or looked for."""
    rows = attempt_rows(run.records, wall_offsets_s_of(run.meta))
    published = _published(rows)
    searched = run.meta.get("shape") == "limits"
    if not shed(rows).any() and not published and not searched:
        return None
    bucket_s, buckets = buckets_of(rows)
    found = limits_found(for_search(rows)) if limited(rows).any() else ()
    loads = stage_loads(run, rows, found)
    return RateLimits(
        bucket_s=bucket_s,
        buckets=buckets,
        loads=loads,
        found=found,
        published=published,
        asked_wait=_asked_wait(rows),
        faces=faces_of(rows),
        answer=limit_answer(run, rows, found) if searched else None,
        clock_note=clock_note(set(run.records["worker"].astype(str)), run.meta),
    )


def buckets_of(rows: pd.DataFrame) -> tuple[float, tuple[Bucket, ...]]:
    """The width of the buckets in seconds, and the buckets in order, empty ones too."""
    if not len(rows):
        return _BUCKETS_S[0], ()
    at_s = rows["at_s"].to_numpy()
    wanted_s = float(at_s.max()) / BUCKETS_MAX
    width_s = next((s for s in _BUCKETS_S if s > wanted_s), _BUCKETS_S[-1])
    place = np.maximum(at_s // width_s, 0).astype(int)
    size = int(place.max()) + 1
    let_in, refused = accepted(rows), limited(rows)
    counts = [
        np.bincount(place[chosen], minlength=size)
        for chosen in (let_in, refused, ~let_in & ~refused)
    ]
    return width_s, tuple(
        Bucket(n * width_s, *map(int, parts)) for n, parts in enumerate(zip(*counts, strict=True))
    )


def _asked_wait(rows: pd.DataFrame) -> AskedWait:
    refused = rows["request"].isin(rows["request"][shed(rows)]) & rows["last"]
    told_s = rows["asked_wait_s"][refused].dropna().to_numpy(dtype=np.float64)
    longest_s = float(told_s.max()) if told_s.size else None
    return AskedWait(int(refused.sum()), told_s.size, percentile(told_s, 0.5), longest_s)


def _published(rows: pd.DataFrame) -> dict[str, float]:
    """The last value of each header, by when the attempt was sent."""
    told = {name: rows[name].dropna() for name in _PUBLISHED}
    return {name: float(values.iloc[-1]) for name, values in told.items() if len(values)}
