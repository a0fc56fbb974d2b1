"""From a figure to a PNG file and to SVG that can stand in a page beside others."""

import html
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from reports.load import SavedRun
from reports.model import RunReport
from reports.plot_style import RC, themed

WIDTH_INCHES = 5.8
"""Narrow, so that the letters of a plot are still read when it is as wide as a phone."""
DPI = 120


def always(report: RunReport, run: SavedRun) -> str | None:
    """Nothing keeps the plot from being drawn."""
    return None


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its picture, its title, and a sentence that tells what it shows.

    ``missing`` says why a run has no such plot, None when it has one.
    """

    draw: Callable[[Figure, RunReport, SavedRun], None]
    title: Callable[[RunReport], str]
    sentence: Callable[[RunReport, SavedRun], str]
    missing: Callable[[RunReport, SavedRun], str | None] = always
    height_inches: float = 4.4


def draw_plot(name: str, plot: Plot, report: RunReport, run: SavedRun, folder: Path) -> str:
    """Draw a plot of a report, as :func:`draw_figure` does."""
    label = f"{plot.title(report)}. {plot.sentence(report, run)}"
    return draw_figure(
        name, plot.height_inches, lambda figure: plot.draw(figure, report, run), label, folder
    )


def draw_figure(
    name: str, height_inches: float, draw: Callable[[Figure], None], label: str, folder: Path
) -> str:
    """Draw as ``<name>.png`` into the folder, on white; the same as inline SVG.

    Figures are drawn without pyplot's global state. ``label`` is read out in the picture's place.
    """
    with mpl.rc_context({**RC, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        draw(figure)
        figure.savefig(folder / f"{name}.png", dpi=DPI)
        figure.set_layout_engine("none")  # the drawing has found its layout
        return inline_svg(figure, name, label)


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """SVG in the page's colours whose ids are its own; ``label`` is read out in its place."""
    out = io.StringIO()
    metadata = {"Date": None, "Creator": None}
    figure.savefig(out, format="svg", transparent=True, metadata=metadata)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # The style of one picture would be that of the whole page.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{name}-", text)
    text = re.sub(r'\b(d|x|y|points|transform)="[^"]*"', _rounded, text)
    escaped = html.escape(label, quote=True)
    return themed(text).replace("<svg ", f'<svg role="img" aria-label="{escaped}" ', 1)


def _rounded(attribute: re.Match[str]) -> str:
    """Hundredths of a point cannot be seen."""
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])
