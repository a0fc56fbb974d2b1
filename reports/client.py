"""The client's own state in each stage, and whether it was the client that set the limit."""

from collections.abc import Mapping, Sequence

from metrics.histogram import Histogram
from metrics.tally import TallyBook
from reports.model import ClientRow, StageRow
from reports.wording import time_ms

LAG_LIMIT_S = 0.05
LAG_SHARE_OF_TTFT = 0.1
"""A lag is small against a TTFT ten times as long, whatever its size."""
CPU_LIMIT_RATIO = 0.9


def client_rows(book: TallyBook | None, rows: Sequence[StageRow]) -> tuple[ClientRow, ...]:
    """A row for each stage in which the client watched itself."""
    if book is None:
        return ()
    watched = [row for row in rows if row.stage in book.by_stage]
    return tuple(
        _row(row, health)
        for row in watched
        if (health := book.by_stage[row.stage].health)["loop_lag_s"].n
    )


def _row(row: StageRow, health: Mapping[str, Histogram]) -> ClientRow:
    lag, delay, cpu = health["loop_lag_s"], health["client_delay_s"], health["cpu_ratio"]
    return ClientRow(
        stage=row.stage,
        loop_lag_p50_s=lag.percentile(0.5),
        loop_lag_p99_s=lag.percentile(0.99),
        client_delay_p50_s=delay.percentile(0.5),
        client_delay_p99_s=delay.percentile(0.99),
        cpu_mean_ratio=cpu.mean,
        cpu_max_ratio=cpu.maximum,
        n=lag.n,
        limited=_limited(lag.percentile(0.99), cpu.mean, row.ttft.p50),
    )


def _limited(lag_s: float | None, cpu: float | None, ttft_s: float | None) -> str | None:
    """Why the figures speak of the client and not of the endpoint; None when they do not."""
    if cpu is not None and cpu > CPU_LIMIT_RATIO:
        return f"a worker used {cpu:.0%} of its core: add workers"
    if lag_s is not None and lag_s > max(LAG_LIMIT_S, LAG_SHARE_OF_TTFT * (ttft_s or 0.0)):
        return f"the event loop ran {time_ms(lag_s)} late at p99: add workers"
    return None
