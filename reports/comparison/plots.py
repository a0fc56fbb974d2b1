"""The runs' curves over each other: distributions, and throughput and first token by load.

A colour and a dash are one run in every plot of a comparison, so that grey print tells them too.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from metrics.compare import Verdict
from reports.comparison.model import ALL_LOADS, Pair, Row
from reports.comparison.sides import LoadKey, Side, steady
from reports.counting import succeeded
from reports.loads import axis_name, load_size
from reports.model import StageRow
from reports.plot_style import (
    ANSWER,
    BETWEEN_TOKENS,
    CACHED,
    FAILED,
    FIRST_TOKEN,
    INK,
    MUTED,
    OK,
    THROUGHPUT,
    from_zero,
    legend,
    logarithmic,
    nothing,
)
from reports.plots.drawing import draw_figure

_COLOURS = (INK, THROUGHPUT, FIRST_TOKEN, ANSWER, CACHED, BETWEEN_TOKENS)
_DASHES = ("-", "--", "-.", ":", (0, (6, 2)), (0, (1, 1)))
_CURVES = (
    ("ttft_s", "TTFT (s)", True),
    ("tpot_s", "TPOT (s)", True),
    ("e2e_latency_s", "whole answer (s)", False),
)
MOST_LOADS = 3
_POINTS = 400
_MOST_CHANGES = 40
_WIDE = 5.0
"""Values that differ by more have a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plot in a page: its title, what it shows, and the picture as SVG."""

    title: str
    sentence: str
    svg: str


@dataclass(frozen=True, slots=True)
class _Plot:
    name: str
    title: str
    sentence: str
    height_inches: float
    draw: Callable[[Figure], None]


def draw_all(
    sides: Sequence[Side], pairs: Sequence[Pair], margin: float, folder: Path
) -> tuple[Drawing, ...]:
    """Every plot as a PNG in the folder, on white, and as SVG; one of changes for each pair."""
    names = ", ".join(side.label for side in sides)
    plots = [
        _Plot(
            "loads",
            "Throughput and time to first token by load",
            f"Output tokens/s above, TTFT p50 and (paler) p95 below, of the runs {names}.",
            4.8,
            lambda figure: _loads(figure, sides),
        ),
        _Plot(
            "distributions",
            "Distributions at loads that all runs held",
            f"The share of requests within a time, of the runs {names}; n in their order.",
            7.6,
            lambda figure: _distributions(figure, sides),
        ),
    ]
    changes = [_of_changes(pair, rows, margin) for pair in pairs if (rows := _changed_rows(pair))]
    return tuple(_drawn(plot, folder) for plot in (*changes, *plots))


def _of_changes(pair: Pair, rows: Sequence[Row], margin: float) -> _Plot:
    return _Plot(
        f"changes-{pair.b.label}",
        f"Change from {pair.a.label} to {pair.b.label}",
        "A mark is the change of a figure, its line the interval; triangles and diamonds are shown "
        "differences, circles are none.",
        1.3 + 0.24 * max(4, len(rows)),
        lambda figure: _changes(figure, pair, rows, margin),
    )


def _drawn(plot: _Plot, folder: Path) -> Drawing:
    label = f"{plot.title}. {plot.sentence}"
    svg = draw_figure(plot.name, plot.height_inches, plot.draw, label, folder)
    return Drawing(plot.title, plot.sentence, svg)


def _style(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "linestyle": _DASHES[number % len(_DASHES)],
    }


def _loads(figure: Figure, sides: Sequence[Side]) -> None:
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.set_ylabel("output tokens/s")
    lower.set_ylabel("TTFT p50 and p95 (s)")
    drawn = False
    for number, side in enumerate(sides):
        rows = _usable_rows(side)
        if not rows:
            continue
        drawn = True
        style = _style(number)
        _line(upper, rows, lambda row: row.output_tokens_per_s, label=side.label, **style)
        _line(lower, rows, lambda row: row.ttft.p50, label=f"{side.label} p50", **style)
        _line(lower, rows, lambda row: row.ttft.p95, label=f"{side.label} p95", alpha=0.5, **style)
        lower.set_xlabel(axis_name((row.rate_rps, row.rate_tokens_per_s) for row in rows))
    for axes in (upper, lower):
        if not drawn or not axes.lines:
            nothing(axes)
            continue
        axes.set_xlim(left=0)
        legend(axes)
    if upper.lines:
        from_zero(upper)
    if lower.lines and lower.dataLim.y1 > _WIDE * lower.dataLim.y0 > 0:
        logarithmic(lower.yaxis)
    elif lower.lines:
        from_zero(lower)


def _usable_rows(side: Side) -> list[StageRow]:
    usable = {stage for key, load in side.loads.items() if steady(key) for stage in load.stages}
    return [row for row in side.report.stages if row.stage in usable]


def _line(
    axes: Axes,
    rows: Sequence[StageRow],
    value: Callable[[StageRow], float | None],
    **style: Any,
) -> None:
    points = sorted(
        (load_size(row.target_users, row.rate_rps, row.rate_tokens_per_s), found)
        for row in rows
        if (found := value(row)) is not None
    )
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, **style)


def _distributions(figure: Figure, sides: Sequence[Side]) -> None:
    keys = _shown_loads(sides)
    columns = max(1, len(keys))
    drawn: dict[str, Artist] = {}
    grid = figure.subplots(len(_CURVES), columns, squeeze=False, sharey=True)
    for line, (column, label, streams_only) in zip(grid, _CURVES, strict=True):
        for place, axes in enumerate(line):
            if place == 0:
                axes.set_ylabel("share (0-1)")
            axes.set_xlabel(label)
            if place >= len(keys):
                nothing(axes)
                continue
            drawn |= _curves(axes, sides, keys[place], column, streams_only)
    if drawn:
        figure.legend(
            drawn.values(), drawn.keys(), loc="outside upper left", ncols=len(drawn), frameon=False
        )


def _shown_loads(sides: Sequence[Side]) -> list[LoadKey]:
    """Loads that all runs have; of many the lowest, the highest and some between."""
    common = set.intersection(*({k for k, v in s.loads.items() if v.stages} for s in sides))
    keys = sorted(common)
    if len(keys) <= MOST_LOADS:
        return keys
    places = np.linspace(0, len(keys) - 1, MOST_LOADS).round().astype(int)
    return [keys[place] for place in places]


def _curves(
    axes: Axes, sides: Sequence[Side], key: LoadKey, column: str, streams_only: bool
) -> dict[str, Artist]:
    """A run's curve by its label; how many requests are behind each stands in the title."""
    drawn: dict[str, Artist] = {}
    counts = []
    for number, side in enumerate(sides):
        records = side.run.records
        held = records[records["counted"] & records["stage"].isin(side.loads[key].stages)]
        ok = succeeded(held)
        ok = ok[ok["streamed"]] if streams_only else ok
        values = np.sort(ok[column].dropna().to_numpy(dtype=np.float64))
        values = values[values > 0]
        counts.append(f"{len(values):,}")
        if not len(values):
            continue
        share = np.arange(1, len(values) + 1) / len(values)
        chosen = np.unique(np.linspace(0, len(values) - 1, _POINTS).round().astype(int))
        (drawn[side.label],) = axes.step(
            values[chosen], share[chosen], where="post", **_style(number)
        )
    axes.set_title(f"{key.text}\nn {' · '.join(counts)}", fontsize=8)
    if not drawn:
        nothing(axes)
        return drawn
    low, high = axes.dataLim.x0, axes.dataLim.x1
    if low > 0 and high > _WIDE * low:
        logarithmic(axes.xaxis)
        axes.xaxis.set_major_locator(FixedLocator(few_ticks(low, high)))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.set_ylim(0, 1.02)
    return drawn


def few_ticks(low: float, high: float) -> list[float]:
    """At most three of 1, 2 and 5 with their powers of ten: more would touch in a third's width."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [
        k * 10.0**power for power in powers for k in (1, 2, 5) if low <= k * 10.0**power <= high
    ]
    places = np.linspace(0, len(ticks) - 1, min(3, len(ticks))).round().astype(int)
    return [ticks[place] for place in places]


_VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.WORSE: (FAILED, "v"),
    Verdict.BETTER: (OK, "^"),
    Verdict.DIFFERENT: (THROUGHPUT, "D"),
    Verdict.SAME: (OK, "s"),
    Verdict.NOT_SHOWN: (MUTED, "o"),
}


def _changed_rows(pair: Pair) -> list[Row]:
    """Means over all loads where there are some; shares have points and another axis."""
    rows = [row for row in pair.rows if row.interval is not None and row.metric.unit != "share"]
    means = [row for row in rows if row.load == ALL_LOADS]
    return (means or rows)[:_MOST_CHANGES]


def _changes(figure: Figure, pair: Pair, rows: Sequence[Row], margin: float) -> None:
    """Each interval as a line."""
    axes = figure.subplots()
    axes.set_xlabel(f"change from {pair.a.label} to {pair.b.label} (%)")
    seen: set[Verdict] = set()
    for place, row in enumerate(rows):
        if row.interval is None:
            continue
        colour, mark = _VERDICTS[row.verdict]
        axes.plot(
            [100 * row.interval.low, 100 * row.interval.high], [place, place], color=colour, lw=2
        )
        label = None if row.verdict in seen else row.verdict.value.replace("_", " ")
        seen.add(row.verdict)
        axes.plot([100 * row.interval.change], [place], mark, color=colour, label=label)
    axes.axvline(0, color=MUTED, lw=1)
    if margin:
        axes.axvspan(-100 * margin, 100 * margin, color=MUTED, alpha=0.15, lw=0)
    names = [r.metric.label if r.load == ALL_LOADS else f"{r.metric.label}, {r.load}" for r in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    legend(axes)
