"""What all plots share: colours that mean the same everywhere, legends, axes without anything."""

from matplotlib.axes import Axes

# Okabe and Ito's palette: told apart with every common colour blindness.
OK, LIMITED, FAILED = "#009E73", "#E69F00", "#D55E00"
HEADROOM = 1.08


def nothing(axes: Axes) -> None:
    """Axes that say that there is nothing to draw."""
    axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", color="0.4")
    axes.set_xticks([])
    axes.set_yticks([])


def name_span(axes: Axes, begin: float, end: float, text: str) -> None:
    """A name at the top of a stretch of the horizontal axis."""
    axes.text(
        (begin + end) / 2,
        0.98,
        text,
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="top",
        fontsize=8,
        color="0.5",
    )


def legend(axes: Axes, **options: float) -> None:
    """A legend in a line above the axes, where it covers nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        ncols=4,
        frameon=False,
        fontsize=8,
        **options,
    )
