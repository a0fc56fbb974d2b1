"""A soak's time series and its verdict: whether anything drifts, and whose drift it is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from metrics.drift import (
    CHANGE_LIMIT_RATIO,
    FEWEST_WINDOWS,
    Drift,
    find_drift,
    window_length_s,
)
from metrics.outcome import Outcome
from metrics.statistics import percentile, samples_needed
from reports.load import SavedRun
from reports.windows import held_windows
from reports.wording import number

LEAST_IN_WINDOW = 10
MEMORY_RATIO = 0.2
"""Python's memory creeps up by a few percent in any run, and that slows nothing."""


@dataclass(frozen=True, slots=True)
class SoakWindow:
    """Middle of the window, seconds into the soak; quantiles in seconds, None when too few."""

    at_s: float
    n: int
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    client_delay_p99_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """``leak`` is ``none shown``, ``server`` or ``client``."""

    users: int
    held_s: float
    window_s: float
    p99_window_s: float
    """Longer than the others when a p99 needs more requests than they hold."""
    windows: tuple[SoakWindow, ...]
    drifts: Mapping[str, Drift] = field(default_factory=dict)
    """By series: ``ttft_p50``, ``ttft_p99``, ``client_delay_p99``, ``client_loop_lag_p99`` and
    ``client_memory``."""
    leak: str

    def sentences(self) -> tuple[str, ...]:
        """For people: the slopes and the verdict."""
        verdict = {
            "none shown": self._too_short() or self._too_noisy() or "no leak shown",
            "server": "the server gets slower: TTFT drifts and the client does not",
            "client": "the client itself drifts: what TTFT does over time proves nothing",
        }[self.leak]
        said = [
            f"{name.replace('_', ' ')}: {drift.sentence()}"
            for name, drift in self.drifts.items()
            if name.startswith("ttft") or drift.shown
        ]
        detail = "; ".join(said) if said else "too few windows to say more"
        return (f"Soak of {number(self.held_s / 60)} minutes: {verdict}. {detail}.",)

    def _too_short(self) -> str | None:
        """What a drift would have needed to be seen; None when the soak was long enough."""
        drift = self.drifts.get("ttft_p50")
        if drift is not None and drift.windows >= FEWEST_WINDOWS:
            return None
        needed = (
            f"{FEWEST_WINDOWS} windows of {self.window_s:.0f} s with {LEAST_IN_WINDOW} requests "
            f"each are needed, so run it for {FEWEST_WINDOWS * self.window_s / 60:.0f} minutes or "
            "more"
        )
        if drift is None:
            return f"too short to tell: {needed}"
        minutes = drift.windows * self.window_s / 60
        unseen = max(drift.detectable_ratio, CHANGE_LIMIT_RATIO) / minutes
        return (
            f"too short to tell: a drift under {unseen:.1%} per minute would not have been seen; "
            f"{needed}"
        )

    def _too_noisy(self) -> str | None:
        """That a doubled TTFT would not have been seen; None when it would."""
        drift = self.drifts.get("ttft_p50")
        return "too noisy to tell" if drift is not None and drift.noisy else None


def judge_leak(drifts: Mapping[str, Drift]) -> str:
    """Whose leak it is: the client's goes first, for then TTFT is not to be believed."""
    upward = {name for name, drift in drifts.items() if drift.shown and drift.change_ratio > 0}
    if not upward & {"ttft_p50", "ttft_p99"}:
        return "none shown"
    memory = drifts.get("client_memory")
    if memory is not None and memory.change_ratio < MEMORY_RATIO:
        upward.discard("client_memory")
    return "client" if any(name.startswith("client") for name in upward) else "server"


def soak_of(run: SavedRun) -> Soak | None:
    """The soak of a run; None for other runs, or when nothing was held."""
    stage = next((s for s in run.meta.get("stage_plan") or () if s["kind"] == "soak"), None)
    if stage is None:
        return None
    windows = [w for w in held_windows(run.marks, run.records).get(int(stage["stage"]), ())]
    held_s = max((window.length_s for window in windows), default=0.0)
    begins_s = {window.worker: window.begin_s for window in windows}
    records = run.records[run.records["counted"] & (run.records["outcome"] == Outcome.OK.value)]
    records = records[records["ttft_s"].notna() & records["worker"].isin(list(begins_s))]
    if not held_s or not len(records):
        return None
    at_s = (records["started_s"] - records["worker"].map(begins_s)).astype(float)
    health = [
        {**sample, "at_s": float(sample["at_s"]) - begins_s[sample["worker"]]}
        for sample in run.health
        if sample["worker"] in begins_s
    ]
    health = [sample for sample in health if 0 <= sample["at_s"] < held_s]
    return soak_from(int(stage["target_users"]), held_s, records.assign(at_s=at_s), health)


def soak_from(
    users: int,
    held_s: float,
    samples: pd.DataFrame,
    health: Sequence[Mapping[str, Any]] = (),
) -> Soak:
    """From successes with ``at_s`` (seconds into the soak), ``ttft_s`` and ``client_delay_s``, and
    the workers' own state at such times."""
    window_s = window_length_s(held_s)
    needed_s = samples_needed(0.99) * held_s / len(samples)
    p99_window_s = max(window_s, math.ceil(needed_s / window_s) * window_s)
    series = {
        "ttft_p50": _series(samples, "ttft_s", 0.5, window_s, held_s),
        "ttft_p99": _series(samples, "ttft_s", 0.99, p99_window_s, held_s),
        "client_delay_p99": _series(samples, "client_delay_s", 0.99, window_s, held_s),
    }
    for name, key in (
        ("client_loop_lag_p99", "loop_lag_p99_s"),
        ("client_memory", "resident_mib"),
    ):
        series[name] = _worst_by_window(health, key, window_s)
    drifts = {}
    for name, found in series.items():
        drift = find_drift([at for at, _, _ in found], [value for _, _, value in found])
        if drift is not None:
            drifts[name] = drift
    p99 = {int(at // window_s): value for at, _, value in series["ttft_p99"]}
    delay = {at: value for at, _, value in series["client_delay_p99"]}
    windows = tuple(
        SoakWindow(at, n, p50, p99.get(int(at // window_s)), delay.get(at))
        for at, n, p50 in series["ttft_p50"]
    )
    return Soak(
        users=users,
        held_s=held_s,
        window_s=window_s,
        p99_window_s=p99_window_s,
        windows=windows,
        drifts=drifts,
        leak=judge_leak(drifts),
    )


def _worst_by_window(
    health: Sequence[Mapping[str, Any]], key: str, window_s: float
) -> Sequence[tuple[float, int, float]]:
    """(middle, samples, the worst worker's value) of each window that has any."""
    by_window: dict[int, list[float]] = {}
    for sample in health:
        if sample.get(key) is not None:
            by_window.setdefault(int(sample["at_s"] // window_s), []).append(float(sample[key]))
    return [((w + 0.5) * window_s, len(v), max(v)) for w, v in sorted(by_window.items())]


def _series(
    samples: pd.DataFrame, column: str, q: float, window_s: float, held_s: float
) -> Sequence[tuple[float, int, float]]:
    """(middle, requests, quantile) of each whole window with enough requests."""
    known = samples[samples[column].notna()]
    values = known[column].to_numpy(dtype=float)
    index = np.floor(known["at_s"].to_numpy(dtype=float) / window_s)
    found = []
    for number_ in range(math.floor(held_s / window_s + 0.01)):
        inside = values[index == number_]
        if len(inside) >= LEAST_IN_WINDOW:
            value = percentile(inside, q)
            assert value is not None
            found.append(((number_ + 0.5) * window_s, len(inside), value))
    return found
