"""What all plots share: colours that mean the same everywhere, in light and in dark, and axes.

The hues are Okabe and Ito's, told apart with every common colour blindness, in two shades each:
darker ones for white paper, where their orange and sky blue have too little contrast for a line,
lighter ones for the dark. A figure is drawn in the first; in the page a colour is a CSS variable.
"""

import re
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from reports.stage_state import StageState

INK, MUTED, LINE, PAPER = "#1b1f24", "#57606a", "#d0d7de", "#ffffff"
OK, LIMITED, FAILED = "#009e73", "#b97a00", "#d55e00"
"""What succeeded (within the objectives where goodput is meant), 429s, other failures."""
THROUGHPUT, FIRST_TOKEN, BETWEEN_TOKENS = "#0072b2", "#a8477f", "#2b8cc4"
ANSWER, IN_FLIGHT, CACHED = "#7d6f00", "#4d5560", "#7f5539"
LEVELS = ("#440154", "#453781", "#35608d", "#25848e", "#1f988b", "#27a070")
"""Levels of load from low to high."""
HEADROOM = 1.08

_NAMES: Mapping[str, tuple[str, str]] = {
    INK: ("ink", "#e6edf3"),
    MUTED: ("muted", "#9da7b1"),
    LINE: ("line", "#30363d"),
    PAPER: ("paper", "#0d1117"),
    OK: ("ok", "#2bc49a"),
    LIMITED: ("limited", "#e69f00"),
    FAILED: ("failed", "#f0793a"),
    THROUGHPUT: ("throughput", "#56a3e0"),
    FIRST_TOKEN: ("first-token", "#d98fbf"),
    BETWEEN_TOKENS: ("between-tokens", "#7cc7ee"),
    ANSWER: ("answer", "#e0d34a"),
    IN_FLIGHT: ("in-flight", "#b4bec8"),
    CACHED: ("cached", "#c99b78"),
    **{
        light: (f"level-{number}", dark)
        for number, (light, dark) in enumerate(
            zip(
                LEVELS,
                ("#3b7fa8", "#21918c", "#2db27d", "#5ec962", "#addc30", "#fde725"),
                strict=True,
            )
        )
    },
}
MARKERS: Mapping[StageState, str] = {
    StageState.USABLE: "o",
    StageState.VOID: "X",
    StageState.NOT_REACHED: "X",
    StageState.CLIENT_LIMITED: "v",
    StageState.RATE_LIMITED: "D",
}
HATCHES: Mapping[StageState, str] = {
    StageState.VOID: "////",
    StageState.NOT_REACHED: "////",
    StageState.CLIENT_LIMITED: "\\\\\\\\",
    StageState.RATE_LIMITED: "---",
}
RC: Mapping[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "hatch.color": MUTED,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.5,
    "legend.fontsize": 9,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
}
"""For matplotlib's ``rc_context``, around drawing and saving."""


def css_variables() -> str:
    """The colours as CSS variables, for light and dark screens; paper is always light."""
    light = "".join(f"--plot-{name}:{colour};" for colour, (name, _) in _NAMES.items())
    dark = "".join(f"--plot-{name}:{colour};" for name, colour in _NAMES.values())
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def themed(svg: str) -> str:
    """An SVG text with each of our colours as its variable."""
    return re.sub(r"#[0-9a-f]{6}\b", _variable, svg)


def _variable(found: re.Match[str]) -> str:
    colour = found[0]
    return f"var(--plot-{_NAMES[colour][0]})" if colour in _NAMES else colour


def nothing(axes: Axes) -> None:
    """Axes that say that there is nothing to draw."""
    axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", color=MUTED)
    axes.set_xticks([])
    axes.set_yticks([])


def name_span(axes: Axes, begin: float, end: float, text: str) -> None:
    """A name at the top of a stretch of the horizontal axis, cut off where the axes end."""
    axes.text(
        (begin + end) / 2,
        0.98,
        text,
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="top",
        fontsize=9,
        color=MUTED,
        clip_on=True,
    )


def legend(axes: Axes, **options: Any) -> None:
    """A legend in lines above the axes, where it covers nothing."""
    options = {"ncols": 3, "fontsize": 9, **options}
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.8,
        frameon=False,
        **options,
    )


def from_zero(axes: Axes) -> None:
    """A vertical axis from 0 to a little above what is drawn."""
    top = axes.dataLim.y1
    axes.set_ylim(0, top * HEADROOM if top > 0 else 1)


def logarithmic(axis: Axis) -> None:
    """A logarithmic axis that is labelled with plain numbers at 1, 2 and 5."""
    set_scale = axis.axes.set_yscale if axis.axis_name == "y" else axis.axes.set_xscale
    set_scale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
