"""The plots: the same colour means the same thing in all of them, every axis has its unit.

Figures are drawn without pyplot's global state. With nothing to draw, the axes say so.
"""

import io
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from metrics.outcome import Outcome
from metrics.stage import Phase
from reports.counting import succeeded
from reports.load import SavedRun
from reports.loads import axis_name, load_name, load_size, mark_text
from reports.model import RunReport, StageRow
from reports.plot_limits import LIMIT_PLOTS, LIMIT_TITLES
from reports.plot_style import FAILED, HEADROOM, LIMITED, OK, legend, name_span, nothing

# Okabe and Ito's palette: told apart with every common colour blindness.
THROUGHPUT, TTFT_P50, TTFT_P95 = "#0072B2", "#E69F00", "#D55E00"
LATENCY, IN_FLIGHT, KNEE = "#56B4E9", "#009E73", "#CC79A7"
MAX_POINTS = 3000
SIZE_INCHES = (8.0, 4.6)
BINS = 60


def draw(name: str, report: RunReport, run: SavedRun, folder: Path) -> str:
    """Draw a plot as ``<name>.png`` into the folder; the same as inline SVG."""
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    PLOTS[name](figure, report, run)
    figure.savefig(folder / f"{name}.png", dpi=110)
    figure.set_layout_engine("none")  # the drawing has found its layout
    return _svg(figure, name, title_of(name, report))


def _svg(figure: Figure, name: str, title: str) -> str:
    """Inline SVG whose ids are its own, so that several can share a page."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(
            out, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{name}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def _concurrency(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """Throughput and time to first token against the load, with the knee and its interval."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    rows = [row for row in report.stages if row.window_s]
    upper.set_ylabel("output tokens/s")
    lower.set_ylabel("TTFT (s)")
    lower.set_xlabel(axis_name((row.rate_rps, row.rate_tokens_per_s) for row in rows))
    if not rows:
        nothing(upper)
        nothing(lower)
        return
    _line(upper, rows, lambda row: row.output_tokens_per_s, THROUGHPUT, "output tokens/s")
    _line(lower, rows, lambda row: row.ttft.p50, TTFT_P50, "TTFT p50")
    _line(lower, rows, lambda row: row.ttft.p95, TTFT_P95, "TTFT p95")
    _from_zero(upper)
    if any(row.ttft.p50 for row in rows):
        _log(lower.yaxis)
    knee = report.knee
    for axes in (upper, lower):
        if knee.users is not None and knee.low is not None and knee.high is not None:
            axes.axvspan(knee.low, knee.high, color=KNEE, alpha=0.2, lw=0)
            label = f"knee {knee.users:.0f} ({knee.low:.0f} to {knee.high:.0f})"
            axes.axvline(knee.users, color=KNEE, label=label)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            legend(axes)
        else:
            nothing(axes)


def _open_loop(report: RunReport) -> bool:
    return any(row.rate_rps is not None for row in report.stages)


def _load(row: StageRow) -> float:
    """What the stage asked for: users, or an open loop's requests/s or tokens/min."""
    return load_size(row.target_users, row.rate_rps, row.rate_tokens_per_s)


def _load_name(row: StageRow) -> str:
    return load_name(row.target_users, row.rate_rps, row.rate_tokens_per_s)


def title_of(name: str, report: RunReport) -> str:
    """What a plot shows."""
    if name == "concurrency" and _open_loop(report):
        return "Throughput and time to first token against the offered rate"
    return TITLES[name]


def _line(
    axes: Axes,
    rows: list[StageRow],
    value: Callable[[StageRow], float | None],
    colour: str,
    label: str,
) -> None:
    pairs = sorted((_load(row), v) for row in rows if (v := value(row)) is not None)
    if pairs:
        axes.plot(*zip(*pairs, strict=True), marker="o", color=colour, label=label)


def _over_time(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """Each success at its start, and how many requests were in flight."""
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    upper.set_ylabel("latency (s)")
    lower.set_ylabel("in flight")
    lower.set_xlabel("seconds since the workers joined the run")
    ok = _thinned(succeeded(run.records))
    if not len(ok):
        nothing(upper)
    else:
        if len(ok) < report.totals.ok:
            note = f"{len(ok):,} of {report.totals.ok:,} requests drawn"
            upper.set_title(note, loc="right", fontsize=8)
        upper.scatter(
            ok["started_s"], ok["user_latency_s"], s=6, color=LATENCY, lw=0, label="whole answer"
        )
        streamed = ok[ok["ttft_s"].notna()]
        upper.scatter(
            streamed["started_s"],
            streamed["ttft_s"],
            s=6,
            color=TTFT_P50,
            lw=0,
            label="first token",
        )
        _log(upper.yaxis)
        legend(upper, markerscale=2)
    _stage_bands(upper, run)
    _in_flight(lower, run.records)
    for axes in (upper, lower):
        axes.grid(alpha=0.3)


def _in_flight(axes: Axes, records: pd.DataFrame) -> None:
    if not len(records):
        nothing(axes)
        return
    times_s = np.concatenate([records["sent_s"].to_numpy(), records["ended_s"].to_numpy()])
    steps = np.repeat([1, -1], len(records))
    order = np.argsort(times_s, kind="stable")
    every = max(1, len(order) // MAX_POINTS)
    level = np.cumsum(steps[order])
    axes.step(times_s[order][::every], level[::every], where="post", color=IN_FLIGHT)
    _from_zero(axes)


def _stage_bands(axes: Axes, run: SavedRun) -> None:
    """Held windows in grey, from the first worker's marks."""
    marks = [mark for mark in run.marks if mark.worker == run.marks[0].worker]
    for mark, following in itertools.pairwise(marks):
        if mark.phase is Phase.HOLD:
            axes.axvspan(mark.at_s, following.at_s, color="0.5", alpha=0.12, lw=0)
            name_span(axes, mark.at_s, following.at_s, mark_text(mark.stage))


def _outcomes(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """Successes, 429s and other failures by when they ended."""
    axes = figure.subplots()
    axes.set_xlabel("seconds since the workers joined the run")
    axes.set_ylabel("requests/s")
    records = run.records
    if not len(records):
        nothing(axes)
        return
    ended_s = records["ended_s"].to_numpy()
    edges = np.linspace(0, max(1.0, float(ended_s.max()) + 1e-9), BINS + 1)
    limited = (records["status"] == 429).fillna(False).to_numpy(dtype=bool)
    ok = (records["outcome"] == Outcome.OK.value).to_numpy()
    cancelled = (records["outcome"] == Outcome.CANCELLED.value).to_numpy()
    parts = {
        "ok": (ok, OK),
        "429": (limited, LIMITED),
        "failed otherwise": (~ok & ~limited & ~cancelled, FAILED),
    }
    width_s = edges[1] - edges[0]
    bottom = np.zeros(BINS)
    for label, (chosen, colour) in parts.items():
        heights = np.histogram(ended_s[chosen], edges)[0] / width_s
        axes.bar(edges[:-1], heights, width_s, bottom, align="edge", color=colour, label=label)
        bottom = bottom + heights
    axes.set_xlim(left=0)
    axes.set_ylim(0, float(bottom.max()) * HEADROOM or 1)
    axes.grid(alpha=0.3)
    legend(axes)


def _distribution(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """The share of requests whose first token came within a time, for each stage."""
    axes = figure.subplots()
    axes.set_xlabel("time to first token (s)")
    axes.set_ylabel("share of requests (0-1)")
    rows = [row for row in report.stages if row.ttft.n]
    if not rows:
        nothing(axes)
        return
    held = succeeded(run.records[run.records["counted"]])
    shades = mpl.colormaps["viridis"](np.linspace(0.25, 0.9, len(rows)))
    for row, shade in zip(rows, shades, strict=True):
        values = np.sort(held[held["stage"] == row.stage]["ttft_s"].dropna().to_numpy())
        every = max(1, len(values) // 500)
        share = np.arange(1, len(values) + 1) / len(values)
        axes.step(
            values[::every],
            share[::every],
            where="post",
            color=shade,
            marker="o" if len(values) == 1 else None,
            label=f"{_load_name(row)} (n {row.ttft.n})",
        )
    _log(axes.xaxis)
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)


def _thinned(records: pd.DataFrame) -> pd.DataFrame:
    every = -(-len(records) // MAX_POINTS) if len(records) else 1
    return records.iloc[::every]


def _from_zero(axes: Axes) -> None:
    top = axes.dataLim.y1
    axes.set_ylim(0, top * HEADROOM if top > 0 else 1)


def _log(axis: Axis) -> None:
    """A logarithmic axis that is labelled with plain numbers at 1, 2 and 5."""
    set_scale = axis.axes.set_yscale if axis.axis_name == "y" else axis.axes.set_xscale
    set_scale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


TITLES = {
    "concurrency": "Throughput and time to first token against concurrent users",
    "over-time": "Latency and requests in flight over time",
    "outcomes": "Successes, 429s and failures over time",
    "ttft-distribution": "Distribution of the time to first token for each stage",
    **LIMIT_TITLES,
}
PLOTS: dict[str, Callable[[Figure, RunReport, SavedRun], None]] = {
    "concurrency": _concurrency,
    "over-time": _over_time,
    "outcomes": _outcomes,
    "ttft-distribution": _distribution,
    **LIMIT_PLOTS,
}
