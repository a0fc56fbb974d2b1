"""What the plots against the load share: points with their interval and state, and the knee."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from metrics.statistics import Summary
from reports.loads import axis_name, load_size
from reports.model import RunReport, StageRow
from reports.plot_style import INK, MARKERS, MUTED, PAPER
from reports.stage_state import StageState, states_of
from reports.wording import count

LINES: Mapping[str, str] = {"p50": "-", "p95": "--", "p99": ":"}
"""Colour is the metric, the line's style the percentile."""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure of one stage; ``low`` and ``high`` bound it where an interval is known."""

    load: float
    value: float
    state: StageState
    few: bool = False
    """Fewer samples than the figure needs."""
    low: float | None = None
    high: float | None = None


def held_rows(report: RunReport) -> list[StageRow]:
    """The stages that were held."""
    return [row for row in report.stages if row.window_s]


def load_of(row: StageRow) -> float:
    """What the stage asked for: users, or an open loop's requests/s or tokens/min."""
    return load_size(row.target_users, row.rate_rps, row.rate_tokens_per_s)


def load_axis(rows: Iterable[StageRow]) -> str:
    """The name of the axis of loads."""
    return axis_name((row.rate_rps, row.rate_tokens_per_s) for row in rows)


def title_against(what: str, report: RunReport) -> str:
    """The title of a plot of something against the load."""
    load = "the offered rate" if open_loop(report) else "concurrent users"
    return f"{what} against {load}"


def open_loop(report: RunReport) -> bool:
    """Whether rates were offered and not users."""
    return any(row.rate_rps is not None for row in report.stages)


def points(report: RunReport, values: Iterable[tuple[StageRow, float | None]]) -> list[Point]:
    """A point for each stage that has the value."""
    states = states_of(report)
    return [Point(load_of(row), v, states[row.stage]) for row, v in values if v is not None]


def percentile_points(
    report: RunReport, summaries: Iterable[tuple[StageRow, Summary]], quantile: str
) -> list[Point]:
    """A point for each stage that has the percentile, with its interval where there is one."""
    states, found = states_of(report), []
    for row, summary in summaries:
        value = getattr(summary, quantile)
        if value is not None:
            low, high = summary.intervals.get(quantile, (None, None))
            few = f"{quantile}:few" in summary.flags
            found.append(Point(load_of(row), value, states[row.stage], few, low, high))
    return found


def draw_points(
    axes: Axes, found: Sequence[Point], colour: str, label: str, line: str = "-"
) -> None:
    """A line through the points in the order of their load, intervals, and markers by state."""
    ordered = _by_load(found)
    if not ordered:
        return
    axes.plot(
        [p.load for p in ordered], [p.value for p in ordered], line, color=colour, label=label
    )
    for point in ordered:
        if point.low is not None and point.high is not None:
            axes.plot([point.load] * 2, [point.low, point.high], color=colour, lw=5, alpha=0.3)

    def looks(point: Point) -> tuple[str, bool]:
        return MARKERS[point.state], point.few

    for (marker, few), alike in groupby(sorted(ordered, key=looks), looks):
        group = list(alike)
        axes.plot(
            [p.load for p in group],
            [p.value for p in group],
            marker,
            color=colour,
            mfc=PAPER if few else colour,
            mew=1.4,
        )


def state_handles(drawn: Iterable[Point]) -> list[Line2D]:
    """Entries of a legend for every state but the ordinary one, and for too few samples."""
    known = list(drawn)
    handles = [
        _marker(MARKERS[state], MUTED, state.value)
        for state in StageState
        if state is not StageState.USABLE and any(point.state is state for point in known)
    ]
    if any(point.few for point in known):
        handles.append(_marker("o", PAPER, "few samples"))
    return handles


def _marker(shape: str, fill: str, label: str) -> Line2D:
    return Line2D([], [], marker=shape, ls="", color=MUTED, mfc=fill, mew=1.4, label=label)


def mark_knee(axes: Axes, report: RunReport) -> None:
    """The knee with its interval, or the lower bound; nothing where loads are no users."""
    knee = report.knee
    if open_loop(report):
        return
    if knee.users is not None:
        text = f"knee {knee.users:.0f}"
        if knee.low is not None and knee.high is not None:
            axes.axvspan(knee.low, knee.high, color=MUTED, alpha=0.2, lw=0, zorder=0.5)
            text += f" ({knee.low:.1f} to {knee.high:.1f})"
        axes.axvline(knee.users, color=INK, lw=1.2, ls=(0, (6, 2)), label=text, zorder=1)
    elif knee.at_least is not None:
        text = f"knee at least {knee.at_least}"
        axes.axvline(knee.at_least, color=INK, lw=1.2, ls=(0, (1, 2)), label=text, zorder=1)


def knee_words(report: RunReport) -> str:
    """The knee as the end of a sentence on a plot; empty where there is none to tell."""
    knee = report.knee
    if open_loop(report):
        return ""
    if knee.users is not None:
        bounds = ""
        if knee.low is not None and knee.high is not None:
            bounds = f", interval {knee.low:.1f} to {knee.high:.1f}"
        return f" The knee is marked at {knee.users:.0f} concurrent users{bounds}."
    if knee.at_least is not None:
        return f" No knee was reached: it is at least {count(knee.at_least, 'user')}."
    return " No knee was found."


def proportional(axes: Axes, found: Sequence[Point]) -> None:
    """What the lowest load's figure would be at the others, if each user brought the same."""
    ordered = [p for p in _by_load(found) if p.load > 0]
    if len(ordered) < 2 or ordered[0].load == ordered[-1].load:
        return
    first, last = ordered[0], ordered[-1]
    axes.plot(
        [0, last.load],
        [0, first.value * last.load / first.load],
        color=MUTED,
        lw=0.9,
        ls=":",
        zorder=0.8,
        label="if it scaled",
    )


def _by_load(found: Iterable[Point]) -> list[Point]:
    return sorted(found, key=lambda point: (point.load, point.value))
