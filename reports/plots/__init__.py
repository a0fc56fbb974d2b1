"""The plots of a report: one module for each, and here the list of them in the page's order."""

from collections.abc import Mapping
from pathlib import Path

from reports.load import SavedRun
from reports.model import RunReport
from reports.plots import (
    cache,
    distributions,
    heat_map,
    limits,
    pareto,
    percentiles,
    requests,
    throughput,
)
from reports.plots.drawing import Plot, draw_plot

PLOTS: dict[str, Plot] = {
    "concurrency": Plot(throughput.draw, throughput.title, throughput.sentence),
    "percentiles": Plot(
        percentiles.draw, percentiles.title, percentiles.sentence, height_inches=6.2
    ),
    "pareto": Plot(pareto.draw, pareto.title, pareto.sentence, pareto.missing, 3.8),
    "cache": Plot(cache.draw, cache.title, cache.sentence, cache.missing, 3.4),
    "over-time": Plot(heat_map.draw, heat_map.title, heat_map.sentence, height_inches=5.0),
    "requests": Plot(requests.draw, requests.title, requests.sentence, height_inches=4.8),
    "distributions": Plot(
        distributions.draw, distributions.title, distributions.sentence, height_inches=6.0
    ),
    "limits-over-time": Plot(
        lambda figure, report, run: limits.draw_over_time(figure, report.rate_limits, run),
        limits.time_title,
        limits.time_sentence,
        limits.no_refusals,
        3.6,
    ),
    "limits-by-stage": Plot(
        lambda figure, report, run: limits.draw_by_stage(figure, report.rate_limits),
        limits.stage_title,
        limits.stage_sentence,
        limits.no_refusals,
        3.6,
    ),
}


def draw(name: str, report: RunReport, run: SavedRun, folder: Path) -> str:
    """Draw a plot as ``<name>.png`` into the folder; the same as inline SVG."""
    return draw_plot(name, PLOTS[name], report, run, folder)


def title_of(name: str, report: RunReport) -> str:
    """What a plot shows."""
    return PLOTS[name].title(report)


def missing_plots(report: RunReport, run: SavedRun) -> Mapping[str, str]:
    """The titles of the plots that this run has not, by the reason why."""
    found: dict[str, list[str]] = {}
    for plot in PLOTS.values():
        if (why := plot.missing(report, run)) is not None:
            found.setdefault(why, []).append(plot.title(report))
    return {why: "; ".join(titles) for why, titles in found.items()}
