"""From measured runs to lines: what a worker and a thousand records cost a master."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from bench.fleet.replay import Replayed

BAR_RATIO = 0.05
"""The bar: 1,000 records/s for less than this share of a core."""
BAR_RECORDS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """``at_zero + slope * x``, with the standard error of the slope; None with two points."""

    at_zero: float
    slope: float
    slope_error: float | None

    @classmethod
    def through(cls, x: Sequence[float], y: Sequence[float]) -> "Line":
        """Least squares.

        Raises:
            ValueError: fewer than two different x.
        """
        if len(set(x)) < 2:
            raise ValueError(f"a line needs two different points, not {sorted(set(x))}")
        slope, at_zero = np.polyfit(x, y, 1)
        error = None
        if len(x) > 2:
            left = np.asarray(y) - at_zero - slope * np.asarray(x)
            spread = ((np.asarray(x) - np.mean(x)) ** 2).sum()
            error = float(np.sqrt((left**2).sum() / (len(x) - 2) / spread))
        return cls(float(at_zero), float(slope), error)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cores that a master uses: by itself, per worker and second, per record and second."""

    alone: float
    worker: float
    """Of one that measures nothing."""
    busy_worker: float
    """Of one that has requests to tell of, without their rows."""
    record: float
    worker_error: float | None = None
    record_error: float | None = None

    @classmethod
    def of(cls, runs: Sequence[Replayed]) -> "Cost":
        """From runs without records and others of one number of workers.

        Raises:
            ValueError: too few of either.
        """
        idle = [run for run in runs if not run.records_per_s]
        busy = [run for run in runs if run.records_per_s and not run.on_workers]
        if len({run.workers for run in busy}) > 1:
            raise ValueError("the runs with records have different numbers of workers")
        by_worker = Line.through([run.workers for run in idle], [run.cpu_cores for run in idle])
        rates = [run.sent / run.seconds for run in busy]
        by_record = Line.through(rates, [run.cpu_cores for run in busy])
        workers = busy[0].workers
        same = [run.cpu_cores for run in idle if run.workers == workers]
        without = mean(same) if same else by_worker.at_zero + workers * by_worker.slope
        return cls(
            alone=by_worker.at_zero,
            worker=by_worker.slope,
            busy_worker=by_worker.slope + (by_record.at_zero - without) / workers,
            record=by_record.slope,
            worker_error=by_worker.slope_error,
            record_error=by_record.slope_error,
        )

    def cores(self, workers: int, records_per_s: float) -> float:
        """What the line says of a fleet."""
        per_worker = self.busy_worker if records_per_s else self.worker
        return self.alone + workers * per_worker + records_per_s * self.record

    @property
    def meets_bar(self) -> bool:
        """Whether 1,000 records/s cost less than the bar."""
        return BAR_RECORDS_PER_S * self.record < BAR_RATIO


COLUMNS = (
    "workers",
    "records/s",
    "master, % of a core",
    "rows behind s",
    "memory MiB",
    "end s",
    "report MiB",
    "records sent / kept / tallied",
)


KEPT_THERE = ", kept there"


def table(runs: Sequence[Replayed]) -> str:
    """All runs, a row each."""
    rows = [COLUMNS, ("---:",) * len(COLUMNS), *map(_cells, runs)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(run: Replayed) -> tuple[str, ...]:
    return (
        f"{run.workers:,}",
        f"{run.sent / run.seconds:,.0f}{KEPT_THERE if run.on_workers else ''}",
        f"{100 * run.cpu_cores:.1f}",
        f"{run.behind_s:.1f}",
        f"{run.before_mib:.0f} + {run.after_mib - run.before_mib:.1f}",
        f"{run.end_s:.1f}",
        f"{run.report_mib:.0f}",
        f"{run.sent:,} / {run.kept:,} / {run.tallied:,}",
    )


FLEETS = ((10, 1_000), (100, 1_000), (100, 10_000), (1_000, 10_000), (1_000, 100_000))


def sentences(cost: Cost) -> str:
    """The lines in words, with what follows for other fleets."""
    said = [
        f"- By itself a master uses {_percent(cost.alone)} of a core, for each idle worker "
        f"{_percent(cost.worker)}{_error(cost.worker_error, 100, '%')}, for each that has requests "
        f"to tell of {_percent(cost.busy_worker)}.",
        f"- **1,000 records cost {1e6 * cost.record:.1f} ms"
        f"{_error(cost.record_error, 1e6, 'ms')}: 1,000 records/s are "
        f"{_percent(1000 * cost.record)} of a core** (the bar is {_percent(BAR_RATIO)}).",
        "",
        "| workers | records/s | master, % of a core (from the lines) |",
        "| ---: | ---: | ---: |",
    ]
    said[:2] = (
        textwrap.fill(line, 100, subsequent_indent="  ", break_on_hyphens=False)
        for line in said[:2]
    )
    said += [f"| {w:,} | {r:,} | {100 * cost.cores(w, r):.0f} |" for w, r in FLEETS]
    return "\n".join(said)


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.2f} %"


def _error(error: float | None, scale: float, unit: str) -> str:
    return "" if error is None else f" (± {scale * error:.2g} {unit})"
