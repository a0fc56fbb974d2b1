"""What the plots over time share: one clock for all workers, and the stages marked on it."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from metrics.limits_attempts import Floats
from metrics.stage import Phase
from reports.attempts import clock_offsets_s, wall_offsets_s_of
from reports.load import SavedRun
from reports.loads import mark_text
from reports.model import RunReport
from reports.plot_style import HATCHES, INK, LINE, MUTED, name_span
from reports.stage_state import StageState, states_of
from reports.windows import of_workers

AXIS = "seconds since the first worker joined"
MOST_NAMES = 12
"""Stages above which not each one's load is written over its stretch."""
BINS = 80


@dataclass(frozen=True, slots=True)
class StageSpan:
    """A held window by the first worker's marks, in seconds on the common clock."""

    begin_s: float
    end_s: float
    load: str
    state: StageState


def shifts_s(run: SavedRun) -> Floats:
    """What to add to each record's own clock, in seconds."""
    offsets_s = clock_offsets_s(run.records, wall_offsets_s_of(run.meta))
    return np.nan_to_num(of_workers(run.records["worker"], offsets_s))


def edges_s(run: SavedRun) -> Floats:
    """The bounds of the time bins, from 0 to the last request's end."""
    ended_s = run.records["ended_s"].to_numpy() + shifts_s(run)
    last_s = float(np.nanmax(ended_s)) if np.isfinite(ended_s).any() else 0.0
    return np.linspace(0.0, max(1.0, last_s + 1e-9), BINS + 1)


def spans_of(report: RunReport, run: SavedRun) -> list[StageSpan]:
    """The held windows in order."""
    if not run.marks:
        return []
    worker, states = run.marks[0].worker, states_of(report)
    offsets_s = wall_offsets_s_of(run.meta)
    shifts_s = clock_offsets_s(run.records, offsets_s) if len(run.records) else {}
    shift_s = shifts_s.get(worker, 0.0)
    marks = [mark for mark in run.marks if mark.worker == worker]
    return [
        StageSpan(
            mark.at_s + shift_s,
            following.at_s + shift_s,
            mark_text(mark.stage),
            states.get(mark.stage.id, StageState.USABLE),
        )
        for mark, following in pairwise(marks)
        if mark.phase is Phase.HOLD
    ]


def mark_stages(axes: Axes, spans: list[StageSpan], named: bool = True) -> list[Patch]:
    """Bounds of the held windows with their load; what is not usable is hatched.

    The legend's entries for the hatches that were used.
    """
    every = -(-len(spans) // MOST_NAMES) or 1
    for number, span in enumerate(spans):
        axes.axvspan(span.begin_s, span.end_s, color=MUTED, alpha=0.07, lw=0, zorder=0.2)
        for bound_s in (span.begin_s, span.end_s):
            axes.axvline(bound_s, color=LINE, lw=0.8, zorder=0.3)
        if span.state in HATCHES:
            axes.axvspan(
                span.begin_s,
                span.end_s,
                facecolor="none",
                edgecolor=MUTED,
                hatch=HATCHES[span.state],
                lw=0,
                alpha=0.55,
                zorder=0.4,
            )
        if named and number % every == 0:
            name_span(axes, span.begin_s, span.end_s, span.load)
    found = dict.fromkeys(span.state for span in spans if span.state in HATCHES)
    return [
        Patch(facecolor="none", edgecolor=INK, hatch=HATCHES[state], lw=0.6, label=state.value)
        for state in found
    ]
