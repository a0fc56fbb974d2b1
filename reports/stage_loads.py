"""What each stage let in and what it shed, attempt by attempt, and where a rate limit lies."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from metrics.limits import what_bound
from metrics.limits_result import Bound, LimitEstimate
from metrics.statistics import percentile
from reports.attempts import accepted, clock_offsets_s, for_search, limited, shed
from reports.ledger import load_name
from reports.load import SavedRun
from reports.stages import planned_stages
from reports.windows import Window, held_windows

SUSTAINED_SHARE = 0.01
"""Share of 429s in the later half of a window, when any allowance for bursts is used up, from which
a step is over the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """Attempts that were sent in one stage's held window, whenever their requests were wanted.

    Rates are per second, summed over the workers; None where nothing was held.
    """

    stage: int
    load: str
    users: int
    rate_rps: float | None
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
    sustained: bool
    """Whether 429s still came in the window's later half."""
    bound: Bound | None = None
    """Which of the limits found bound the stage."""

    @property
    def limited_share(self) -> float:
        """Share (0-1) of the attempts answered 429; 0 without attempts."""
        return self.limited / self.attempts if self.attempts else 0.0


@dataclass(frozen=True, slots=True)
class Bracket:
    """Between which two rates a limit lies, requests/s; None where no step tells."""

    passed_rps: float | None
    """The highest step below the limited ones that had no sustained 429s."""
    limited_rps: float | None
    """The lowest step with sustained 429s."""

    def sentence(self) -> str:
        """One line for people."""
        if self.limited_rps is None:
            return (
                f"No step had sustained 429s, up to {self.passed_rps:g} requests/s: no limit met."
            )
        if self.passed_rps is None:
            return (
                f"Even the lowest step, {self.limited_rps:g} requests/s, had sustained 429s: the "
                "limit is below it."
            )
        return (
            f"The limit lies between {self.passed_rps:g} requests/s, the highest step without "
            f"sustained 429s, and {self.limited_rps:g} requests/s, the lowest with them."
        )


def bracket_of(loads: Sequence[StageLoad]) -> Bracket | None:
    """The bracket that the steps of rates make; None when none was held."""
    steps = [
        (load.rate_rps, load.sustained)
        for load in loads
        if load.rate_rps is not None and load.attempts
    ]
    if not steps:
        return None
    limited_rps = min((rate for rate, sustained in steps if sustained), default=None)
    below = [
        rate
        for rate, sustained in steps
        if not sustained and (limited_rps is None or rate < limited_rps)
    ]
    return Bracket(max(below, default=None), limited_rps)


def stage_loads(
    run: SavedRun, rows: pd.DataFrame, found: Sequence[LimitEstimate]
) -> tuple[StageLoad, ...]:
    """The loads of the planned stages from the attempts of ``attempt_rows``, bound by ``found``."""
    rates = {s["stage"]: s.get("rate_rps") for s in run.meta.get("stage_plan") or ()}
    held = {
        stage: [window for window in windows if window.length_s > 0]
        for stage, windows in held_windows(run.marks, run.records).items()
    }
    loads = [
        _load(rows, held.get(stage, []), stage, users, rates.get(stage))
        for stage, _, users in planned_stages(run)
    ]
    search, offsets_s = for_search(rows), clock_offsets_s(run.records)

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
    stage: int,
    users: int,
    rate_rps: float | None,
) -> StageLoad:
    inside, later = _inside(rows, windows, 0.0), _inside(rows, windows, 0.5)
    let_in, refused = accepted(rows), limited(rows)
    away = shed(rows)
    tokens = rows["prompt_tokens"].astype("float64").fillna(0.0) + rows["completion_tokens"].astype(
        "float64"
    ).fillna(0.0)
    length_s = _lengths_s(windows)
    weights = rows["worker"].map({w: 1 / s for w, s in length_s.items()}).fillna(0.0).to_numpy()

    def per_s(values: np.ndarray) -> float | None:
        return float((values * weights)[inside].sum()) if windows else None

    ttft_s = rows["ttft_s"].to_numpy(dtype=np.float64)[inside & (rows["outcome"] == "ok")]
    limited_later = int((refused & later).sum())
    return StageLoad(
        stage=stage,
        load=load_name(users, rate_rps),
        users=users,
        rate_rps=rate_rps,
        attempts=int(inside.sum()),
        accepted=int((let_in & inside).sum()),
        limited=int((refused & inside).sum()),
        shed=int((away & inside).sum()),
        accepted_per_s=per_s(let_in),
        shed_per_s=per_s(away),
        accepted_tokens_per_s=per_s(tokens.to_numpy() * let_in),
        ttft_p50_s=percentile(ttft_s[np.isfinite(ttft_s)], 0.5),
        sustained=limited_later > SUSTAINED_SHARE * int(later.sum()),
    )


def _inside(rows: pd.DataFrame, windows: Sequence[Window], from_share: float) -> np.ndarray:
    """Attempts sent in the windows, each on its worker's clock, from a share (0-1) of them on."""
    inside = np.zeros(len(rows), dtype=np.bool_)
    worker, sent_s = rows["worker"].to_numpy(), rows["sent_s"].to_numpy()
    for window in windows:
        begin_s = window.begin_s + from_share * window.length_s
        inside |= (worker == window.worker) & (sent_s >= begin_s) & (sent_s < window.end_s)
    return inside


def _lengths_s(windows: Sequence[Window]) -> dict[str, float]:
    total_s: dict[str, float] = {}
    for window in windows:
        total_s[window.worker] = total_s.get(window.worker, 0.0) + window.length_s
    return total_s
