"""The rows of a comparison as text, for every face that has a table."""

from collections.abc import Sequence

from metrics.compare import Verdict
from reports.comparison.model import ALL_LOADS, WHOLE_RUN, Figure, Metric, Pair, Row
from reports.comparison.wording import VERDICT_WORDS, change_text, size_text, value_text

COLUMNS = ("load", "figure", "A", "n", "B", "n", "change", "95 % interval", "verdict")
WORD_COLUMNS = (0, 1, 8)
"""Columns of words; the others hold numbers."""


def columns_of(pair: Pair) -> tuple[str, ...]:
    """The heads of the table, with the two runs' own letters."""
    names = {"A": pair.a.label, "B": pair.b.label}
    return tuple(names.get(column, column) for column in COLUMNS)


def cells_of(row: Row) -> tuple[str, ...]:
    """One row as text, under ``COLUMNS``."""
    scale, found = row.metric.scale, row.interval
    change = bounds = ""
    if found is not None:
        change = change_text(found.change, scale)
        bounds = f"{change_text(found.low, scale)} … {change_text(found.high, scale)}"
    return (
        row.load,
        row.metric.label,
        *_figure(row.a, row.metric, row.load),
        *_figure(row.b, row.metric, row.load),
        change,
        bounds,
        verdict_text(row),
    )


def verdict_text(row: Row) -> str:
    """The verdict in a cell: with the resolution, or with why there is none."""
    words = VERDICT_WORDS[row.verdict]
    if row.verdict is Verdict.NOT_SHOWN and row.interval is not None:
        return f"{words} (±{size_text(row.interval.resolution, row.metric.scale)})"
    return f"{words}: {row.why}" if row.why else words


def _figure(figure: Figure, metric: Metric, load: str) -> tuple[str, str]:
    if load == ALL_LOADS:
        return "", ""
    return value_text(figure.value, metric), f"{figure.n:,}"


def short_rows(pair: Pair) -> tuple[Row, ...]:
    """What fits a screen: with several loads the means and the knee, and what goes beyond them.

    A load at which a figure is shown to differ has a row of its own where the mean says otherwise.
    """
    loads = {row.load for row in pair.rows} - {ALL_LOADS, WHOLE_RUN}
    if len(loads) < 2:
        return pair.rows
    decided = (Verdict.WORSE, Verdict.BETTER, Verdict.DIFFERENT)
    means = {row.metric.name: row.verdict for row in pair.rows if row.load == ALL_LOADS}
    return tuple(
        row
        for row in pair.rows
        if row.load in (ALL_LOADS, WHOLE_RUN)
        or (row.verdict in decided and means.get(row.metric.name) is not row.verdict)
    )


def by_load(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows under their loads, the means and the knee first."""
    found: dict[str, list[Row]] = {ALL_LOADS: [], WHOLE_RUN: []}
    for row in rows:
        found.setdefault(row.load, []).append(row)
    return {load: own for load, own in found.items() if own}
