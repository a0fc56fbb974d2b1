"""What other tools' definitions are computed from: a stretch of a run, and their statistics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from metrics.outcome import Outcome
from metrics.statistics import FloatArray, Summary
from reports.counting import failed, succeeded

QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
MS = 1000.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure under the other tool's own name.

    ``values`` has the statistic's name and its value, in ``unit``; None where there is none.
    ``differs`` says in what the figure is not the other tool's. ``missing`` says why there is no
    figure at all; ``values`` is empty then.
    """

    name: str
    unit: str
    n: int = 0
    values: Mapping[str, float | None] = field(default_factory=dict)
    differs: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Stretch:
    """The records of a whole run, or of a stage's held window; ``gaps`` is of its output chunks.

    Times in the arrays are seconds, one for each streamed success, NaN where it has none.
    """

    title: str
    records: pd.DataFrame
    gaps: Summary | None
    gaps_scope: str = ""

    @cached_property
    def ok(self) -> pd.DataFrame:
        """Successes that were streamed: the other tools know no other."""
        rows = succeeded(self.records)
        return rows[rows["streamed"]]

    @property
    def failed(self) -> int:
        """Requests that failed."""
        return len(failed(self.records))

    def broken_after_output(self, *outcomes: Outcome) -> int:
        """Requests that ended so after output had come."""
        ended = self.records["outcome"].isin([outcome.value for outcome in outcomes])
        return int((ended & self.records["ttft_s"].notna()).sum())

    def column(self, name: str) -> FloatArray:
        """One of the record's numbers."""
        return self.ok[name].to_numpy(dtype=np.float64, na_value=np.nan)

    @cached_property
    def connect_s(self) -> FloatArray:
        """What opening the connection took; 0 on a kept one, NaN where it is not recorded."""
        kept = self.ok["connection_reused"].to_numpy()
        return np.where(kept, 0.0, self.column("connect_s"))

    @cached_property
    def output_tokens(self) -> FloatArray:
        """The server's count."""
        return self.column("completion_tokens")

    def tokens(self, name: str) -> float:
        """The sum of a token column over successes; unknown ones add nothing."""
        return float(np.nansum(self.column(name)))

    def seconds(self, first_s: pd.Series, rows: pd.DataFrame) -> float | None:
        """First start to last end on one worker's clock, of the worker that was at it longest."""
        if not len(rows):
            return None
        worker = rows["worker"]
        begin_s = first_s.groupby(worker, observed=True).min()
        end_s = rows["ended_s"].groupby(worker, observed=True).max()
        length_s = float((end_s - begin_s).max())
        return length_s if length_s > 0 else None


def linear(values: FloatArray) -> tuple[int, dict[str, float | None]]:
    """Mean and percentiles with linear interpolation between ranks, as numpy has them."""
    known = values[np.isfinite(values)]
    if not known.size:
        return 0, {"mean": None, **{name: None for name, _ in QUANTILES}}
    found = {name: float(np.quantile(known, q)) for name, q in QUANTILES}
    return int(known.size), {"mean": float(known.mean()), **found}


def weighted(values: FloatArray, weights: FloatArray) -> tuple[int, dict[str, float | None]]:
    """Mean and percentiles of values with a weight each; percentiles by the inverse CDF."""
    known = np.isfinite(values) & np.isfinite(weights) & (weights > 0)
    values, weights = values[known], weights[known]
    if not values.size:
        return 0, {"mean": None, **{name: None for name, _ in QUANTILES}}
    order = np.argsort(values, kind="stable")
    ordered, total = values[order], float(weights.sum())
    reached = np.cumsum(weights[order]) / total
    # A sum of weights may miss its quantile by the last bit.
    ranks = {name: int(np.searchsorted(reached, q - 1e-12)) for name, q in QUANTILES}
    found = {name: float(ordered[min(rank, ordered.size - 1)]) for name, rank in ranks.items()}
    return int(values.size), {"mean": float(np.average(values, weights=weights)), **found}


def distribution(
    name: str,
    unit: str,
    values: FloatArray,
    statistics: Callable[[FloatArray], tuple[int, dict[str, float | None]]] = linear,
    differs: str = "",
) -> Figure:
    """A figure with mean and percentiles."""
    n, found = statistics(values)
    return Figure(name, unit, n, found, differs)


def single(name: str, unit: str, value: float | None, n: int, differs: str = "") -> Figure:
    """A figure that is one number."""
    return Figure(name, unit, n, {"value": value}, differs)


def rate(total: float, seconds: float | None) -> float | None:
    """So many each second; None without a length."""
    return None if seconds is None else total / seconds


def gap_figure(name: str, stretch: Stretch, differs: str) -> Figure:
    """The gaps between output chunks, in milliseconds, from the tallies' histograms."""
    gaps = stretch.gaps
    if gaps is None or not gaps.n:
        return Figure(name, "ms", missing="no gap between output chunks was recorded")
    values = {
        key: None if (value_s := getattr(gaps, key)) is None else MS * value_s
        for key in ("mean", *(key for key, _ in QUANTILES))
    }
    told = "; ".join(text for text in (differs, stretch.gaps_scope) if text)
    return Figure(name, "ms", gaps.n, values, told)
