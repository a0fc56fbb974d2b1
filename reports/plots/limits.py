"""What was let in and what was refused: what passed is green, 429s are orange."""

import itertools
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metrics.stage import Phase
from reports.attempts import clock_offsets_s, wall_offsets_s_of
from reports.load import SavedRun
from reports.loads import axis_name, load_mark, mark_text
from reports.model import RunReport
from reports.plot_style import (
    FAILED,
    HEADROOM,
    LIMITED,
    MUTED,
    OK,
    legend,
    name_span,
    nothing,
)
from reports.rate_limits import RateLimits
from reports.stage_loads import StageLoad
from reports.wording import count, number

LABELLED_MAX = 12
"""Stages above which not each one's load is written below its bars."""


def draw_over_time(figure: Figure, limits: RateLimits | None, run: SavedRun) -> None:
    """Attempts let in and answered 429 per second, by when they were sent, with stages marked."""
    axes = figure.subplots()
    axes.set_xlabel("seconds since the first worker joined the run")
    axes.set_ylabel("attempts/s")
    if limits is None or not limits.buckets:
        nothing(axes)
        return
    width_s = limits.bucket_s
    at_s = np.array([bucket.at_s for bucket in limits.buckets])
    bottom = np.zeros(len(at_s))
    for label, name, colour in (
        ("let in", "accepted", OK),
        ("answered 429", "limited", LIMITED),
        ("failed otherwise", "other", FAILED),
    ):
        heights = np.array([getattr(bucket, name) for bucket in limits.buckets]) / width_s
        axes.bar(at_s, heights, width_s, bottom, align="edge", color=colour, label=label)
        bottom = bottom + heights
    _stages(axes, run)
    axes.set_xlim(left=0)
    axes.set_ylim(0, float(bottom.max()) * HEADROOM or 1)
    legend(axes)


def _stages(axes: Axes, run: SavedRun) -> None:
    """A line where each stage's window begins, with its load, by the first worker's marks."""
    if not run.marks:
        return
    worker = run.marks[0].worker
    shift_s = clock_offsets_s(run.records, wall_offsets_s_of(run.meta)).get(worker, 0.0)
    marks = [mark for mark in run.marks if mark.worker == worker]
    for mark, following in itertools.pairwise(marks):
        if mark.phase is not Phase.HOLD:
            continue
        begin_s, end_s = mark.at_s + shift_s, following.at_s + shift_s
        axes.axvline(begin_s, color=MUTED, lw=0.8, ls=":")
        name_span(axes, begin_s, end_s, mark_text(mark.stage))


def draw_by_stage(figure: Figure, limits: RateLimits | None) -> None:
    """Attempts let in beside those turned away, per second, for each stage that was held."""
    axes = figure.subplots()
    axes.set_ylabel("attempts/s")
    loads = _held(limits)
    axes.set_xlabel(axis_name((load.rate_rps, load.rate_tokens_per_s) for load in loads))
    if not loads:
        nothing(axes)
        return
    place = np.arange(len(loads))
    _bars(axes, place - 0.2, loads, lambda load: load.accepted_per_s, OK, "let in")
    _bars(axes, place + 0.2, loads, lambda load: load.shed_per_s, LIMITED, "shed (429, 503, 529)")
    names = [load_mark(load.users, load.rate_rps, load.rate_tokens_per_s) for load in loads]
    every = -(-len(loads) // LABELLED_MAX)
    axes.set_xticks(place[::every], names[::every])
    axes.set_ylim(0, max(axes.dataLim.y1 * HEADROOM, 1e-9))
    axes.grid(visible=False, axis="x")
    legend(axes)


def _held(limits: RateLimits | None) -> list[StageLoad]:
    if limits is None:
        return []
    return [load for load in limits.loads if load.accepted_per_s is not None]


def _bars(
    axes: Axes,
    place: np.ndarray,
    loads: list[StageLoad],
    value: Callable[[StageLoad], float | None],
    colour: str,
    label: str,
) -> None:
    axes.bar(place, [value(load) or 0.0 for load in loads], 0.4, color=colour, label=label)


def no_refusals(report: RunReport, run: SavedRun) -> str | None:
    """Why neither is drawn; None when they are."""
    return "no attempt was answered 429" if report.rate_limits is None else None


def time_title(report: RunReport) -> str:
    """What the plot over time shows."""
    return "Attempts let in and answered 429 over time"


def stage_title(report: RunReport) -> str:
    """What the plot of stages shows."""
    return "Attempts let in and shed at each load"


def time_sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot over time shows, with figures."""
    limits: RateLimits | None = report.rate_limits
    if limits is None or not limits.buckets:
        return "No attempt was made."
    refused = sum(bucket.limited for bucket in limits.buckets)
    passed = sum(bucket.accepted for bucket in limits.buckets)
    return (
        f"{count(passed, 'attempt')} were let in and {refused:,} answered 429, by when each "
        "was sent."
    )


def stage_sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot of stages shows, with figures."""
    loads = _held(report.rate_limits)
    if not loads:
        return "No stage was held."
    most = max(loads, key=lambda load: load.accepted_per_s or 0.0)
    return (
        f"At most {number(most.accepted_per_s, 2)} attempts/s were let in, at {most.load}, where "
        f"{number(most.shed_per_s, 2)} attempts/s were shed."
    )
