"""Goodput: what was completed within the objectives, at each stage."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from reports.model import StageRow


def with_goodput(
    rows: Sequence[StageRow], held: pd.DataFrame, good: pd.Series | None
) -> tuple[StageRow, ...]:
    """The rows with the share and the rate of good requests; unchanged without objectives.

    ``good`` tells of each request in ``held`` whether it met them; failures never do. The rate is
    that of completions, of which it is the good ones' share, so that both have the same window.
    """
    if good is None:
        return tuple(rows)
    counts = good.groupby(held["stage"]).sum()
    return tuple(_with(row, int(counts.get(row.stage, 0))) for row in rows)


def _with(row: StageRow, good: int) -> StageRow:
    if not row.offered:
        return row
    rate = None
    if row.completed_rps is not None:
        rate = row.completed_rps * good / row.completed if row.completed else 0.0
    return replace(row, good_ratio=good / row.offered, goodput_rps=rate)
