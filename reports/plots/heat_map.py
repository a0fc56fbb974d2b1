"""Latencies over time: every success is in a cell, and the darker the cell the more of them.

Nothing is left out however long the run is, and the picture does not grow with it.
"""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from metrics.limits_attempts import Floats
from metrics.statistics import percentile
from reports.counting import succeeded
from reports.load import SavedRun
from reports.model import RunReport
from reports.plot_style import ANSWER, FIRST_TOKEN, logarithmic, nothing
from reports.plots.timeline import AXIS, edges_s, mark_stages, shifts_s, spans_of
from reports.wording import count, time_ms

ROWS = 28
SHADES = (0.22, 0.4, 0.6, 0.8, 1.0)
_LEAST_S = 1e-6
"""A logarithmic axis has no 0."""
_LEAST_SPREAD = 1.5
"""Of the axis around equal values, to either side."""


def title(report: RunReport) -> str:
    """What the plot shows."""
    return "Latency over time: how many requests took how long"


def draw(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """First tokens above, whole answers below, with the held windows marked."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.set_ylabel("TTFT (s)")
    lower.set_ylabel("whole answer (s)")
    lower.set_xlabel(AXIS)
    ok = succeeded(run.records[["outcome", "started_s", "ttft_s", "user_latency_s"]])
    if not len(ok):
        nothing(upper)
        nothing(lower)
        return
    at_s = ok["started_s"].to_numpy() + shifts_s(run)[ok.index]
    spans, bounds_s = spans_of(report, run), edges_s(run)
    for axes, column, colour in (
        (upper, "ttft_s", FIRST_TOKEN),
        (lower, "user_latency_s", ANSWER),
    ):
        hatches = mark_stages(axes, spans, named=axes is upper)
        values_s = ok[column].to_numpy(dtype=np.float64)
        known = np.isfinite(values_s)
        if not known.any():
            nothing(axes)
            continue
        shades = _draw_cells(axes, at_s[known], values_s[known], bounds_s, colour)
        axes.legend(
            handles=[*shades, *(hatches if axes is upper else [])],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            columnspacing=1.0,
            handlelength=1.2,
            ncols=6,
            frameon=False,
            title="requests in a cell" if axes is upper else None,
            alignment="left",
        )
    lower.set_xlim(0, bounds_s[-1])


def _draw_cells(
    axes: Axes, at_s: Floats, values_s: Floats, bounds_s: Floats, colour: str
) -> list[Patch]:
    """The cells, one path for each shade; the entries of its legend."""
    values_s = np.maximum(values_s, _LEAST_S)
    low_s, high_s = float(values_s.min()), float(values_s.max())
    spread = max(1.03, _LEAST_SPREAD / math.sqrt(high_s / low_s))
    rows_s = np.geomspace(low_s / spread, high_s * spread, ROWS + 1)
    counts = np.histogram2d(at_s, values_s, (bounds_s, rows_s))[0].astype(int)
    limits = _limits(int(counts.max()))
    shade = np.searchsorted(limits, counts, "right")
    legend = []
    for number, least in enumerate(limits, 1):
        alpha = SHADES[len(SHADES) - len(limits) + number - 1]
        path = _cells(shade == number, bounds_s, rows_s)
        if path is not None:
            axes.add_patch(PathPatch(path, facecolor=colour, alpha=alpha, lw=0))
        most = limits[number] - 1 if number < len(limits) else int(counts.max())
        label = f"{least:,}" if most == least else f"{least:,}–{most:,}"
        legend.append(Patch(facecolor=colour, alpha=alpha, label=label))
    logarithmic(axes.yaxis)
    axes.set_ylim(rows_s[0] / 1.1, rows_s[-1] * 1.35)
    return legend


def _limits(most: int) -> list[int]:
    """The least counts of each shade, in even steps of the logarithm."""
    steps = np.geomspace(1, max(1, most), len(SHADES) + 1)[:-1]
    return sorted({int(np.ceil(step)) for step in steps})


def _cells(chosen: np.ndarray, columns: Floats, rows: Floats) -> Path | None:
    """The chosen cells as one path, neighbours in time in one rectangle."""
    padded = np.pad(chosen, ((1, 1), (0, 0))).astype(np.int8)
    steps = np.diff(padded, axis=0).T
    row, begin = np.nonzero(steps == 1)
    _, end = np.nonzero(steps == -1)
    if not len(row):
        return None
    left, right, bottom, top = columns[begin], columns[end], rows[row], rows[row + 1]
    x = np.column_stack([left, right, right, left, left])
    y = np.column_stack([bottom, bottom, top, top, bottom])
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(row))
    return Path(np.column_stack([x.ravel(), y.ravel()]), codes)


def sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot shows, with figures."""
    ok = succeeded(run.records[["outcome", "started_s", "ttft_s", "user_latency_s"]])
    if not len(ok):
        return "No request succeeded, so there is no latency to draw."
    text = f"{count(len(ok), 'request')} that succeeded, all of them drawn"
    for what, column in (("first tokens", "ttft_s"), ("whole answers", "user_latency_s")):
        values_s = ok[column].dropna().to_numpy(dtype=np.float64)
        if len(values_s):
            low, high = time_ms(float(values_s.min())), time_ms(float(values_s.max()))
            half = time_ms(percentile(values_s, 0.5))
            text += f"; {what} took {low}"
            text += "" if low == high else f" to {high}, half of them at most {half}"
    return f"{text}. A band that rises from stage to stage is waiting."
