"""The share of requests that were answered within a time, for some of the stages."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from metrics.limits_attempts import Floats
from metrics.statistics import percentile, samples_needed
from reports.counting import succeeded
from reports.load import SavedRun
from reports.loads import load_words
from reports.model import RunReport, StageRow
from reports.plot_style import LEVELS, MUTED, PAPER, legend, logarithmic, nothing
from reports.wording import count, time_ms

MARKED = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
MOST_POINTS = 400
_STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_TOP = 4.0
"""The axis ends at p99.99."""


def title(report: RunReport) -> str:
    """What the plot shows."""
    return "Distribution of TTFT and of whole answers at the stages"


def draw(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """First tokens above, whole answers below, on an axis that gives the tail its room."""
    upper, lower = figure.subplots(2, 1)
    rows = _chosen(report)
    records = run.records[["stage", "streamed", "outcome", "ttft_s", "tpot_s", "e2e_latency_s"]]
    held = succeeded(records[run.records["counted"]])
    for axes, name, column in (
        (upper, "TTFT (s)", "ttft_s"),
        (lower, "whole answer (s)", "e2e_latency_s"),
    ):
        axes.set_xlabel(name)
        axes.set_ylabel("share of requests")
        samples = [
            (row, np.sort(held.loc[held["stage"] == row.stage, column].dropna().to_numpy()))
            for row in rows
        ]
        _draw_curves(axes, [(row, values) for row, values in samples if len(values)], len(rows))
    if upper.lines or lower.lines:
        _legend(upper, rows)


def _chosen(report: RunReport) -> list[StageRow]:
    """At most as many stages as there are colours, evenly spread, the ends among them."""
    rows = [row for row in report.stages if row.completed]
    if len(rows) <= len(LEVELS):
        return rows
    places = np.linspace(0, len(rows) - 1, len(LEVELS)).round().astype(int)
    return [rows[place] for place in places]


def _colour(number: int, of: int) -> str:
    return LEVELS[round(number * (len(LEVELS) - 1) / max(1, of - 1))]


def _draw_curves(axes: Axes, samples: Sequence[tuple[StageRow, Floats]], of: int) -> None:
    if not samples:
        nothing(axes)
        return
    for number, (_, values_s) in enumerate(samples):
        colour, n = _colour(number, of), len(values_s)
        ranks = _ranks(n)
        axes.plot(
            values_s[ranks],
            _height(ranks / n),
            color=colour,
            ls=_STYLES[number % len(_STYLES)],
            drawstyle="steps-post",
            lw=1.5,
        )
        for q in MARKED.values():
            if n < 1 / (1 - q):
                continue  # the quantile is the greatest value, of which the curve's end tells
            few = n < samples_needed(q)
            place = percentile(values_s, q), _height(np.array([q]))[0]
            axes.plot(
                *([x] for x in place), "o", color=colour, ms=4.5, mfc=PAPER if few else colour
            )
        if n == 1:
            axes.plot(values_s, [0.0], "o", color=colour, ms=4.5, mfc=PAPER)
    if all(values_s[0] > 0 for _, values_s in samples):
        logarithmic(axes.xaxis)
    axes.set_yticks([0.0, *_height(np.array(list(MARKED.values())))], ["0", *MARKED])
    longest = max(len(values_s) for _, values_s in samples)
    axes.set_ylim(-0.05, min(_TOP, max(1.4, np.log10(longest) + 0.2)))


def _height(shares: Floats) -> Floats:
    """Where a share stands: 0, p90, p99 and p99.9 are evenly apart."""
    return -np.log10(np.maximum(1 - shares, 10**-_TOP))


def _ranks(n: int) -> np.ndarray:
    """Places of the sorted values that are drawn: each of the tail, few of the bulk."""
    if n <= MOST_POINTS:
        return np.arange(n)
    tail = n - np.geomspace(1, n, MOST_POINTS)
    return np.unique(tail.round().astype(int).clip(0, n - 1))


def _legend(axes: Axes, rows: Sequence[StageRow]) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=_colour(number, len(rows)),
            ls=_STYLES[number % len(_STYLES)],
            label=f"{load_words(row)} (n {row.completed:,})",
        )
        for number, row in enumerate(rows)
    ]
    hollow = Line2D([], [], marker="o", ls="", color=MUTED, mfc=PAPER, label="few samples")
    legend(axes, handles=[*handles, hollow], ncols=2)


def sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot shows, with figures."""
    rows = _chosen(report)
    if not rows:
        return "No request succeeded in a held window, so there is no distribution."
    ends = rows[:1] if len(rows) == 1 else [rows[0], rows[-1]]
    told = []
    for row in ends:
        what, found = ("first tokens", row.ttft) if row.ttft.n else ("answers", row.e2e_latency)
        told.append(
            f"at {load_words(row)} half of the {what} came within {time_ms(found.p50)} and 95 % "
            f"within {time_ms(found.p95)}"
        )
    text = "; ".join(told)
    left_out = sum(1 for row in report.stages if row.completed) - len(rows)
    more = f" Not drawn: {count(left_out, 'stage')} in between." if left_out else ""
    return f"{text[:1].upper()}{text[1:]}. Marks stand at p50, p90, p95, p99 and p99.9.{more}"
