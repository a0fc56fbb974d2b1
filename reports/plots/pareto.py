"""What one user gets against what all get together: the trade that every endpoint makes."""

from itertools import pairwise

from matplotlib.figure import Figure

from reports.load import SavedRun
from reports.loads import load_words
from reports.model import RunReport, StageRow
from reports.plot_style import INK, MARKERS, MUTED, THROUGHPUT, from_zero, legend, nothing
from reports.plots.against_load import Point, held_rows, open_loop, state_handles
from reports.stage_state import states_of
from reports.wording import number


def title(report: RunReport) -> str:
    """What the plot shows."""
    return "Tokens/s for each user against tokens/s of all"


def missing(report: RunReport, run: SavedRun) -> str | None:
    """Why it is not drawn; None when it is."""
    return "an open loop has no users to divide by" if open_loop(report) else None


def _rows(report: RunReport) -> list[StageRow]:
    return [
        row
        for row in held_rows(report)
        if row.tokens_per_s_per_user is not None and row.output_tokens_per_s is not None
    ]


def draw(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """A point for each stage, labelled with its users; up and to the right is better."""
    axes = figure.subplots()
    axes.set_xlabel("output tokens/s for each user")
    axes.set_ylabel("output tokens/s of all users")
    rows, states = sorted(_rows(report), key=lambda row: row.target_users), states_of(report)
    if not rows:
        nothing(axes)
        return
    places = [(row.tokens_per_s_per_user or 0.0, row.output_tokens_per_s or 0.0) for row in rows]
    axes.plot(*zip(*places, strict=True), color=THROUGHPUT, lw=1.2)
    for row, (x, y) in zip(rows, places, strict=True):
        axes.plot([x], [y], MARKERS[states[row.stage]], color=THROUGHPUT)
    for row, place in _apart(rows, places):
        axes.annotate(
            f"{row.target_users}", place, (6, 4), textcoords="offset points", color=INK, fontsize=9
        )
    from_zero(axes)
    axes.set_xlim(0, max(x for x, _ in places) * 1.12 or 1)
    axes.text(
        1, 1.02, "labels: users", transform=axes.transAxes, ha="right", fontsize=9, color=MUTED
    )
    handles = state_handles(Point(0, 0, states[row.stage]) for row in rows)
    if handles:
        legend(axes, handles=handles)


def _apart(
    rows: list[StageRow], places: list[tuple[float, float]]
) -> list[tuple[StageRow, tuple[float, float]]]:
    """The points whose labels do not fall upon each other, the ends always among them."""
    span_x = max(x for x, _ in places) or 1.0
    span_y = max(y for _, y in places) or 1.0
    kept = [(rows[0], places[0])]
    for row, (x, y) in zip(rows[1:], places[1:], strict=True):
        near = (kept[-1][1][0] - x) / span_x, (kept[-1][1][1] - y) / span_y
        if abs(near[0]) + abs(near[1]) > 0.06:
            kept.append((row, (x, y)))
    return kept


def sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot shows, with figures."""
    rows = sorted(_rows(report), key=lambda row: row.target_users)
    if not rows:
        return "Nothing was held, so there is nothing to compare."
    told = [
        f"at {load_words(row)} each gets {number(row.tokens_per_s_per_user)} tokens/s and all "
        f"together {number(row.output_tokens_per_s, 0)}"
        for row in (rows[:1] if len(rows) == 1 else [rows[0], rows[-1]])
    ]
    text = "; ".join(told)
    text = f"{text[:1].upper()}{text[1:]}."
    dearest = [
        (after, before)
        for before, after in pairwise(rows)
        if (after.output_tokens_per_s or 0.0) < 1.02 * (before.output_tokens_per_s or 0.0)
    ]
    if dearest:
        after, before = dearest[0]
        text += (
            f" From {load_words(before)} on, more users ({load_words(after)}) add next to nothing."
        )
    return text
