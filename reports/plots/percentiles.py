"""TTFT, time per token and gap percentiles against the load, with their intervals."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from metrics.statistics import Summary
from reports.load import SavedRun
from reports.loads import load_words
from reports.model import RunReport, StageRow
from reports.plot_style import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    MUTED,
    legend,
    logarithmic,
    nothing,
)
from reports.plots.against_load import (
    LINES,
    Point,
    draw_points,
    held_rows,
    load_axis,
    mark_knee,
    percentile_points,
    state_handles,
    title_against,
)
from reports.wording import time_ms


def title(report: RunReport) -> str:
    """What the plot shows."""
    return title_against("Latency percentiles", report)


def _series(report: RunReport) -> tuple[tuple[str, str, list[tuple[StageRow, Summary]]], ...]:
    """The axis' name, the colour and each stage's summary."""
    rows = held_rows(report)
    gaps = [(row, report.gaps[row.stage]) for row in rows if row.stage in report.gaps]
    return (
        ("TTFT (s)", FIRST_TOKEN, [(row, row.ttft) for row in rows]),
        ("TPOT (s)", BETWEEN_TOKENS, [(row, row.tpot) for row in rows]),
        ("gap (s)", BETWEEN_TOKENS, gaps),
    )


def draw(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """One above the other, on logarithmic axes: colour is the metric, the line the percentile."""
    panels = figure.subplots(3, 1, sharex=True)
    drawn: list[Point] = []
    for axes, (name, colour, summaries) in zip(panels, _series(report), strict=True):
        axes.set_ylabel(name)
        own: list[Point] = []
        for quantile, line in LINES.items():
            found = percentile_points(report, summaries, quantile)
            draw_points(axes, found, colour, quantile, line)
            own += found
        if not own:
            nothing(axes)
            continue
        if all(point.value > 0 for point in own):
            logarithmic(axes.yaxis)
        mark_knee(axes, report)
        axes.set_xlim(left=0)
        drawn += own
    panels[-1].set_xlabel(load_axis(held_rows(report)))
    if drawn:
        _legend(panels[0], state_handles(drawn))


def _legend(axes: Axes, handles: list[Line2D]) -> None:
    quantiles = [Line2D([], [], ls=ls, color=MUTED, label=q) for q, ls in LINES.items()]
    interval = Line2D([], [], lw=5, alpha=0.3, color=MUTED, label="95 % interval")
    entries = [*quantiles, interval, *handles]
    columns = 5 if len(entries) <= 5 else 4
    legend(axes, handles=entries, ncols=columns)


def sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot shows, with figures."""
    rows = [row for row in held_rows(report) if row.ttft.n]
    if not rows:
        return "No streamed answer was held, so there are no times to its tokens."
    chosen = list(dict.fromkeys((rows[0].stage, rows[len(rows) // 2].stage, rows[-1].stage)))
    told = [
        f"at {load_words(row)} TTFT is {time_ms(row.ttft.p50)} (p50) and {time_ms(row.ttft.p95)} "
        f"(p95), time per token {time_ms(row.tpot.p50)} (p50), n {row.ttft.n:,}"
        for row in rows
        if row.stage in chosen
    ]
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}. Hollow marks have fewer samples than they need."
