"""What became of the endpoint after a burst: how long it took to recover, or that it did not."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics.outcome import Outcome
from metrics.stage import PhaseMark
from metrics.statistics import percentile
from reports.load import SavedRun
from reports.wording import number, time_ms

RECOVERED_RATIO = 1.2
"""A median TTFT within this of the one before the burst counts as back."""
PER_WINDOW = 12
"""Requests that a window's median is taken from, at the rate before the burst."""
LEAST_WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class Window:
    """Requests started in one short window; seconds after the burst's end, median TTFT in
    seconds: None without requests, infinite when most of them failed."""

    begin_s: float
    end_s: float
    n: int
    ttft_p50_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """``verdict`` is ``recovered``, ``not recovered`` (metastable) or ``unknown``."""

    verdict: str
    recovery_s: float | None
    """From the burst's end to the begin of the first window that is back and stays back."""
    before_p50_s: float | None
    burst_p50_s: float | None
    watched_s: float
    """How long the users after the burst were watched."""
    windows: tuple[Window, ...]

    def sentence(self) -> str:
        """One line for people."""
        if self.verdict == "unknown":
            return "Spike: too few requests before or after the burst to say whether it recovered."
        was = (
            f"TTFT p50 {time_ms(self.before_p50_s)} before the burst, "
            f"{time_ms(self.burst_p50_s)} in it"
        )
        if self.verdict == "recovered":
            window_s = self.windows[0].end_s - self.windows[0].begin_s
            return (
                f"Spike: recovered {number(self.recovery_s)} s after the burst's end "
                f"(in windows of {number(window_s)} s); {was}."
            )
        last = next((w.ttft_p50_s for w in reversed(self.windows) if w.n), None)
        now = "requests fail" if last is None or np.isinf(last) else f"{time_ms(last)} at the end"
        return (
            f"Spike: not recovered within {number(self.watched_s)} s although the load is as "
            f"before: a metastable state, or a hold too short; {was}, {now}."
        )


def find_recovery(
    before_s: Sequence[float],
    before_rps: float,
    burst_p50_s: float | None,
    after: Sequence[tuple[float, float]],
    watched_s: float,
) -> Recovery:
    """Judge by samples: TTFTs before the burst, and (seconds after the burst's end, TTFT) after it.

    A failed request has an infinite TTFT. A window is back when its median is within 1.2x of the
    median before; it stays back unless two windows in a row are above again.
    """
    before_p50_s = percentile(np.asarray(before_s, dtype=float), 0.5)
    width_s = max(LEAST_WINDOW_S, PER_WINDOW / before_rps) if before_rps else watched_s
    windows = _windows(after, width_s, watched_s)
    judged = [window for window in windows if window.n]
    if before_p50_s is None or len(before_s) < PER_WINDOW or not judged:
        verdict, recovery_s = "unknown", None
    else:
        recovery_s = _recovered_at_s(judged, RECOVERED_RATIO * before_p50_s)
        verdict = "not recovered" if recovery_s is None else "recovered"
    return Recovery(
        verdict=verdict,
        recovery_s=recovery_s,
        before_p50_s=before_p50_s,
        burst_p50_s=burst_p50_s,
        watched_s=watched_s,
        windows=windows,
    )


def _windows(
    after: Sequence[tuple[float, float]], width_s: float, watched_s: float
) -> tuple[Window, ...]:
    times = np.array([at_s for at_s, _ in after], dtype=float)
    values = np.array([ttft_s for _, ttft_s in after], dtype=float)
    found = []
    # The rest of the time that fills no whole window is not judged.
    for number_ in range(int(watched_s / width_s)):
        begin_s, end_s = number_ * width_s, (number_ + 1) * width_s
        inside = values[(times >= begin_s) & (times < end_s)]
        found.append(Window(begin_s, end_s, len(inside), percentile(inside, 0.5)))
    return tuple(found)


def _recovered_at_s(windows: Sequence[Window], limit_s: float) -> float | None:
    back = [window.ttft_p50_s is not None and window.ttft_p50_s <= limit_s for window in windows]
    for place, window in enumerate(windows):
        rest = back[place:]
        twice = any(not a and not b for a, b in itertools.pairwise(rest))
        if rest[0] and not twice and (rest[-1] or len(rest) == 1):
            return window.begin_s
    return None


def recovery_of(run: SavedRun) -> Recovery | None:
    """The recovery of a spike run; None for other runs."""
    stages = {s["kind"]: int(s["stage"]) for s in run.meta.get("stage_plan") or ()}
    if not {"base", "burst", "after"} <= stages.keys():
        return None
    ended_s = _bounds_s(run.marks, stages["after"])
    if not ended_s:
        return None
    records = run.records[run.records["stream_asked"]]
    held = records[records["counted"]]
    ok = held[(held["outcome"] == Outcome.OK.value) & held["ttft_s"].notna()]
    before = ok.loc[ok["stage"] == stages["base"], "ttft_s"].tolist()
    burst = percentile(ok.loc[ok["stage"] == stages["burst"], "ttft_s"].to_numpy(), 0.5)
    after, watched_s = [], 0.0
    for worker, (begin_s, end_s) in ended_s.items():
        own = records[(records["worker"] == worker) & (records["started_s"] >= begin_s)]
        own = own[(own["started_s"] < end_s) & (own["outcome"] != Outcome.CANCELLED.value)]
        ttft_s = own["ttft_s"].where(own["outcome"] == Outcome.OK.value, np.inf).fillna(np.inf)
        after += list(zip(own["started_s"] - begin_s, ttft_s, strict=True))
        watched_s = max(watched_s, end_s - begin_s)
    spans = _bounds_s(run.marks, stages["base"], held=True)
    held_s = max((end - begin for begin, end in spans.values()), default=0.0)
    before_rps = len(before) / held_s if held_s else 0.0
    return find_recovery(before, before_rps, burst, after, watched_s)


def _bounds_s(
    marks: Sequence[PhaseMark], stage: int, held: bool = False
) -> dict[str, tuple[float, float]]:
    """When a stage began (or was held from) and was over, on each worker's clock, in seconds."""
    found = {}
    for worker in {mark.worker for mark in marks}:
        own = sorted((mark for mark in marks if mark.worker == worker), key=lambda m: m.at_s)
        mine = [m.at_s for m in own if m.stage.id == stage and (not held or m.phase == "hold")]
        later = [m.at_s for m in own if mine and m.at_s > mine[0] and m.stage.id != stage]
        if mine and later:
            found[worker] = mine[0], later[0]
    return found
