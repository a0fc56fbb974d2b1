"""What each stage let in and what it shed, attempt by attempt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from metrics.limits import what_bound
from metrics.limits_result import Bound, LimitEstimate
from metrics.stage import Stage
from metrics.statistics import percentile
from reports.attempts import (
    accepted,
    clock_offsets_s,
    for_search,
    limited,
    shed,
    wall_offsets_s_of,
)
from reports.load import SavedRun
from reports.loads import load_words, plan_of
from reports.stages import planned_stages
from reports.windows import Window, held_windows, of_workers

_OF_LOADS = (
    *("worker", "status", "last", "outcome", "ttft_s", "prompt_tokens", "completion_tokens"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """Attempts that were sent in one stage's held window, whenever their requests were wanted.

    Rates are per second, summed over the workers; None where nothing was held.
    """

    stage: int
    load: str
    users: int
    rate_rps: float | None
    rate_tokens_per_s: float | None
    attempts: int
    accepted: int
    limited: int
    """Answered 429."""
    shed: int
    """Answered 429, 503 or 529."""
    accepted_per_s: float | None
    shed_per_s: float | None
    accepted_tokens_per_s: float | None
    """Prompt and completion tokens of what was let in in the window."""
    ttft_p50_s: float | None
    """Of the attempts themselves: no wait for a retry is in it."""
    bound: Bound | None = None
    """Which of the limits found bound the stage."""

    @property
    def limited_share(self) -> float:
        """Share (0-1) of the attempts answered 429; 0 without attempts."""
        return self.limited / self.attempts if self.attempts else 0.0


def stage_loads(
    run: SavedRun, rows: pd.DataFrame, found: Sequence[LimitEstimate]
) -> tuple[StageLoad, ...]:
    """The loads of the planned stages from the attempts of ``attempt_rows``, bound by ``found``."""
    plan = plan_of(run)
    held = {
        stage: [window for window in windows if window.length_s > 0]
        for stage, windows in held_windows(run.marks, run.records).items()
    }
    loads = [
        _load(rows, held.get(stage, []), plan.get(stage) or Stage(stage, kind, users))
        for stage, kind, users in planned_stages(run)
    ]
    search, offsets_s = for_search(rows), clock_offsets_s(run.records, wall_offsets_s_of(run.meta))

    def bound(load: StageLoad) -> Bound | None:
        if not load.limited:
            return None
        shifts = [(window, offsets_s.get(window.worker, 0.0)) for window in held[load.stage]]
        begin_s = min(window.begin_s + shift_s for window, shift_s in shifts)
        end_s = max(window.end_s + shift_s for window, shift_s in shifts)
        return what_bound(search, found, begin_s, end_s)

    return tuple(replace(load, bound=bound(load)) for load in loads)


def _load(
    rows: pd.DataFrame,
    windows: Sequence[Window],
    stage: Stage,
) -> StageLoad:
    rows = rows[list(_OF_LOADS)][_inside(rows, windows)]
    let_in, refused = accepted(rows), limited(rows)
    away = shed(rows)
    tokens = sum(
        rows[name].to_numpy(dtype=np.float64, na_value=0.0)
        for name in ("prompt_tokens", "completion_tokens")
    )
    weights = of_workers(rows["worker"], {w: 1 / s for w, s in _lengths_s(windows).items()})

    def per_s(values: np.ndarray) -> float | None:
        return float((values * weights).sum()) if windows else None

    ttft_s = rows["ttft_s"][rows["outcome"] == "ok"].to_numpy(dtype=np.float64)
    return StageLoad(
        stage=stage.id,
        load=load_words(stage),
        users=stage.target_users,
        rate_rps=stage.rate_rps,
        rate_tokens_per_s=stage.rate_tokens_per_s,
        attempts=len(rows),
        accepted=int(let_in.sum()),
        limited=int(refused.sum()),
        shed=int(away.sum()),
        accepted_per_s=per_s(let_in),
        shed_per_s=per_s(away),
        accepted_tokens_per_s=per_s(tokens * let_in),
        ttft_p50_s=percentile(ttft_s[np.isfinite(ttft_s)], 0.5),
    )


def _inside(rows: pd.DataFrame, windows: Sequence[Window]) -> np.ndarray:
    """Attempts sent in the windows, each on its worker's clock."""
    inside = np.zeros(len(rows), dtype=np.bool_)
    sent_s = rows["sent_s"].to_numpy()
    for window in windows:
        in_it = (sent_s >= window.begin_s) & (sent_s < window.end_s)
        inside |= (rows["worker"] == window.worker).to_numpy(dtype=np.bool_) & in_it
    return inside


def _lengths_s(windows: Sequence[Window]) -> dict[str, float]:
    total_s: dict[str, float] = {}
    for window in windows:
        total_s[window.worker] = total_s.get(window.worker, 0.0) + window.length_s
    return total_s
