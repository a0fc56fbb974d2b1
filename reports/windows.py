"""What fell into a stage's held window: rates, tokens and requests in flight.

Each worker has its own clock, so each worker's window is cut on that clock, and the fleet's rate is
the sum of the workers' rates. A request or a token counts by when it happened, not by when its
request was started, so that a window neither gains nor loses the answers at its edges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from metrics.outcome import Outcome
from metrics.stage import Phase, PhaseMark

_OF_RATES = (
    *("worker", "started_s", "sent_s", "ended_s", "outcome", "completion_tokens", "ttft_s"),
    "e2e_latency_s",
)


@dataclass(frozen=True, slots=True)
class Window:
    """A held window on one worker's clock, in seconds."""

    worker: str
    begin_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """How long it was held; 0 for a window that never was."""
        return max(0.0, self.end_s - self.begin_s)


@dataclass(frozen=True, slots=True)
class WindowRates:
    """A stage's rates over the fleet; None when nothing was held."""

    window_s: float | None
    sent_rps: float | None
    completed_rps: float | None
    output_tokens_per_s: float | None
    in_flight: float | None
    """Time-weighted mean number of requests sent and not ended."""


def held_windows(marks: Sequence[PhaseMark], records: pd.DataFrame) -> dict[int, list[Window]]:
    """The windows by stage id: from a HOLD mark to the worker's next mark.

    A window that began with warm-up requests begins after the last of them was sent. Without marks
    (a killed run) a window reaches from the first held request to the last one's end.
    """
    if not marks:
        return _from_records(records)
    by_worker: dict[str, list[PhaseMark]] = {}
    for mark in marks:
        by_worker.setdefault(mark.worker, []).append(mark)
    warm_up_s = _warm_up_s(records)
    found: dict[int, list[Window]] = {}
    for worker, own in by_worker.items():
        own.sort(key=lambda mark: mark.at_s)
        last_s = _last_moment_s(records, worker)
        for mark, following in zip(own, [*own[1:], None], strict=True):
            if mark.phase is Phase.HOLD:
                end_s = following.at_s if following is not None else max(mark.at_s, last_s)
                begin_s = max(mark.at_s, warm_up_s.get(worker, mark.at_s))
                found.setdefault(mark.stage.id, []).append(Window(worker, begin_s, end_s))
    return found


def _warm_up_s(records: pd.DataFrame) -> dict[str, float]:
    """When each worker's last warm-up request was started; the next request counts.

    Half a microsecond later, so that the request itself is outside.
    """
    first = records[["worker", "started_s"]][records["phase"] == Phase.WARMUP.value]
    last_s = first.groupby("worker", observed=True)["started_s"].max()
    return {str(worker): float(at_s) + 5e-7 for worker, at_s in last_s.items()}


def of_workers(workers: pd.Series, values: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """For each row the value of its worker; NaN where there is none."""
    codes, names = pd.factorize(workers)
    found = [values.get(str(name), np.nan) for name in names]
    return np.array([*found, np.nan], dtype=np.float64)[codes]


def _last_moment_s(records: pd.DataFrame, worker: str) -> float:
    ended_s = records["ended_s"][records["worker"] == worker]
    return float(ended_s.max()) if len(ended_s) else 0.0


def _from_records(records: pd.DataFrame) -> dict[int, list[Window]]:
    found: dict[int, list[Window]] = {}
    held = records[["stage", "worker", "started_s", "ended_s"]][records["counted"]]
    for (stage, worker), rows in held.groupby(["stage", "worker"], observed=True):
        window = Window(str(worker), float(rows["started_s"].min()), float(rows["ended_s"].max()))
        found.setdefault(int(stage), []).append(window)
    return found


def window_rates(windows: Sequence[Window], records: pd.DataFrame) -> WindowRates:
    """The rates of one stage from its windows and all records of the run."""
    held = [window for window in windows if window.length_s > 0]
    if not held:
        return WindowRates(None, None, None, None, None)
    by_worker: dict[str, list[Window]] = {}
    for window in held:
        by_worker.setdefault(window.worker, []).append(window)
    seen = records[list(_OF_RATES)]
    parts = [_of_worker(own, seen[seen["worker"] == w]) for w, own in by_worker.items()]
    sums = {name: sum(part[name] for part in parts) for name in parts[0]}
    window_s = sum(window.length_s for window in held) / len(by_worker)
    return WindowRates(window_s=window_s, **sums)


def _of_worker(windows: Sequence[Window], records: pd.DataFrame) -> Mapping[str, float]:
    """One worker's rates; a level that it held twice is one window of both lengths."""
    sums = [_inside(window, records) for window in windows]
    length_s = sum(window.length_s for window in windows)
    return {name: sum(part[name] for part in sums) / length_s for name in sums[0]}


def _inside(window: Window, records: pd.DataFrame) -> Mapping[str, float]:
    """Requests, tokens and seconds in flight inside one window."""
    began_s = records["started_s"].to_numpy()
    sent_s, ended_s = records["sent_s"].to_numpy(), records["ended_s"].to_numpy()
    ok = (records["outcome"] == Outcome.OK.value).to_numpy()
    inside = (began_s >= window.begin_s) & (began_s < window.end_s)
    done = ok & (ended_s >= window.begin_s) & (ended_s < window.end_s)
    tokens = records["completion_tokens"].astype("float64").fillna(0.0).to_numpy()
    first_s = np.where(records["ttft_s"].notna(), sent_s + records["ttft_s"].fillna(0.0), sent_s)
    last_s = sent_s + records["e2e_latency_s"].to_numpy()
    credited = tokens * overlap_ratio(first_s, last_s, window.begin_s, window.end_s)
    in_flight_s = overlap_s(sent_s, ended_s, window.begin_s, window.end_s)
    return {
        "sent_rps": float(inside.sum()),
        "completed_rps": float(done.sum()),
        "output_tokens_per_s": float(credited[ok].sum()),
        "in_flight": float(in_flight_s.sum()),
    }


def overlap_s(first_s: np.ndarray, last_s: np.ndarray, begin_s: float, end_s: float) -> np.ndarray:
    """How long each interval lies inside the window, in seconds."""
    inside = np.minimum(last_s, end_s) - np.maximum(first_s, begin_s)
    return np.maximum(inside, 0.0)


def overlap_ratio(
    first_s: np.ndarray, last_s: np.ndarray, begin_s: float, end_s: float
) -> np.ndarray:
    """The share of each interval inside the window; an instant is wholly in or wholly out."""
    length_s = last_s - first_s
    instant = length_s <= 0
    inside = ((first_s >= begin_s) & (first_s < end_s)).astype(float)
    safe_s = np.where(instant, 1.0, length_s)
    return np.where(instant, inside, overlap_s(first_s, last_s, begin_s, end_s) / safe_s)
