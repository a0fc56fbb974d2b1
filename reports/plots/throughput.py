"""Throughput and goodput against the load, with the knee and its interval."""

from matplotlib.figure import Figure

from reports.load import SavedRun
from reports.loads import load_words
from reports.model import RunReport
from reports.plot_style import HEADROOM, OK, THROUGHPUT, from_zero, legend, nothing
from reports.plots.against_load import (
    draw_points,
    held_rows,
    knee_words,
    load_axis,
    mark_knee,
    points,
    proportional,
    state_handles,
    title_against,
)
from reports.wording import number


def title(report: RunReport) -> str:
    """What the plot shows."""
    return title_against("Throughput and goodput", report)


def draw(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """Tokens per second above, whole answers per second below."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    rows = held_rows(report)
    upper.set_ylabel("output tokens/s")
    lower.set_ylabel("requests/s")
    lower.set_xlabel(load_axis(rows))
    tokens = points(report, ((row, row.output_tokens_per_s) for row in rows))
    done = points(report, ((row, row.completed_rps) for row in rows))
    good = points(report, ((row, row.goodput_rps) for row in rows))
    if not rows:
        nothing(upper)
        nothing(lower)
        return
    draw_points(upper, tokens, THROUGHPUT, "output tokens/s")
    draw_points(lower, done, THROUGHPUT, "completed")
    draw_points(lower, good, OK, "goodput: within the objectives", "--")
    tops = [upper.dataLim.y1, lower.dataLim.y1]
    proportional(upper, tokens)
    for axes, top in zip((upper, lower), tops, strict=True):
        mark_knee(axes, report)
        from_zero(axes)
        # The line of proportion may leave the picture; what was measured may not.
        axes.set_ylim(0, top * HEADROOM if top > 0 else 1)
        axes.set_xlim(left=0)
    handles = upper.get_legend_handles_labels()[0]
    legend(upper, handles=[*handles, *state_handles(tokens)])
    legend(lower, handles=lower.get_legend_handles_labels()[0][: 2 if good else 1])


def sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot shows, with figures."""
    rows = [row for row in held_rows(report) if row.output_tokens_per_s is not None]
    if not rows:
        return "Nothing was held, so there is no throughput to draw."
    first, best = rows[0], max(rows, key=lambda row: row.output_tokens_per_s or 0.0)
    text = f"Output is {number(first.output_tokens_per_s, 0)} tokens/s at {load_words(first)}"
    if best is not first:
        text += f" and at most {number(best.output_tokens_per_s, 0)} at {load_words(best)}"
    text += f".{knee_words(report)}"
    good = [row for row in rows if row.goodput_rps is not None]
    if not good:
        return text + " No objective was set (--slo), so no goodput is drawn."
    top = max(good, key=lambda row: row.goodput_rps or 0.0)
    return text + (
        f" Goodput is highest at {load_words(top)}: {number(top.goodput_rps, 2)} of "
        f"{number(top.completed_rps, 2)} completed requests/s met the objectives."
    )
