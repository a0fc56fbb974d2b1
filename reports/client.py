"""The client's own state in each stage, and whether it was the client that set the limit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from metrics.client_limit import client_limit, near_limit, standstill
from metrics.histogram import Histogram
from metrics.outcome import ReadMode, StampSource
from reports.load import SavedRun
from reports.model import ClientRow, StageRow
from reports.open_loop import late_reason
from reports.windows import held_windows
from reports.wording import count, share, time_ms

CHURN_RATIO = 0.1
CHURN_MINIMUM = 5
"""Fewer connections than this are chance, whatever their share."""
MERGED_RATIO = 0.01
"""Of the first tokens: from here on those read with later ones can decide a TTFT's p99."""

_OF_CLIENT = (
    *("streamed", "ttft_s", "schedule_delay_s", "connection_reused", "connections_opened"),
    *("reconnects", "merged_reads", "stamp_source", "read_mode", "ttft_late_max_s"),
    "noticed_late_s",
)


def client_rows(run: SavedRun, rows: Sequence[StageRow]) -> tuple[ClientRow, ...]:
    """A row for each stage in which the client watched itself or a held request was started."""
    windows = held_windows(run.marks, run.records)
    tallies = run.book.by_stage if run.book is not None else {}
    # No pause in a whole run means that nobody counted them: the run is of an older version.
    paused = any(tally.health["gc_pause_s"].n for tally in tallies.values())
    firsts = run.records[["worker", "user_class", "user"]].drop_duplicates().index
    found, records = [], run.records[list(_OF_CLIENT)]
    for row in rows:
        held = records[(run.records["stage"] == row.stage) & run.records["counted"]]
        health = tallies[row.stage].health if row.stage in tallies else {}
        watched = "loop_lag_s" in health and health["loop_lag_s"].n > 0
        if not watched and not len(held):
            continue
        held_s = sum(window.length_s for window in windows.get(row.stage, ()))
        found.append(
            ClientRow(
                stage=row.stage,
                **_health(health, row, held, run.meta.get("shape")),
                **_pauses(health["gc_pause_s"] if watched and paused else None, held_s),
                **_connections(held, new_users=int(held.index.isin(firsts).sum())),
                **_reads(held),
            )
        )
    return tuple(found)


def _health(
    health: Mapping[str, Histogram], row: StageRow, held: pd.DataFrame, shape: str | None
) -> dict[str, Any]:
    nothing = Histogram()
    lag, delay, cpu = (
        health.get(name, nothing) for name in ("loop_lag_s", "client_delay_s", "cpu_ratio")
    )
    return {
        "loop_lag_p50_s": lag.percentile(0.5),
        "loop_lag_p99_s": lag.percentile(0.99),
        "client_delay_p50_s": delay.percentile(0.5),
        "client_delay_p99_s": delay.percentile(0.99),
        "cpu_mean_ratio": cpu.mean,
        "cpu_max_ratio": cpu.maximum,
        "n": lag.n,
        "limited": client_limit(lag.percentile(0.99), cpu.mean, row.ttft.p50)
        or standstill(lag.maximum, row.window_s)
        or late_reason(held, shape),
    }


def _pauses(pauses: Histogram | None, held_s: float) -> dict[str, Any]:
    if pauses is None:
        names = ("gc_pauses", "gc_pause_p99_s", "gc_pause_max_s", "gc_share")
        return dict.fromkeys(names)
    return {
        "gc_pauses": pauses.n,
        "gc_pause_p99_s": pauses.percentile(0.99),
        "gc_pause_max_s": pauses.maximum,
        "gc_share": pauses.total / held_s if held_s else None,
    }


def _connections(held: pd.DataFrame, new_users: int) -> dict[str, Any]:
    told = held[held["connection_reused"] | (held["connections_opened"] > 0)]
    opened = int(told["connections_opened"].sum())
    extra = opened - new_users
    churned = None
    if extra >= CHURN_MINIMUM and extra > CHURN_RATIO * len(told):
        churned = f"{opened:,} for {count(len(told), 'request')} ({share(opened, len(told))})"
    return {
        "connection_requests": len(told),
        "connections_opened": opened,
        "connections_reused": int(told["connection_reused"].sum()),
        "reconnects": int(held["reconnects"].sum()),
        "connections_churned": churned,
    }


def _reads(held: pd.DataFrame) -> dict[str, Any]:
    streams = held[held["streamed"] & held["ttft_s"].notna()]
    merged = held["merged_reads"].fillna(0)
    return {
        "streams": len(streams),
        "kernel_stamped": int((streams["stamp_source"] == StampSource.KERNEL.value).sum()),
        "merged_reads": int(merged.sum()),
        "requests_with_merged_reads": int((merged > 0).sum()),
        **_read_modes(streams),
    }


def _read_modes(streams: pd.DataFrame) -> dict[str, Any]:
    """What records of today say of each stream's reads; those of older versions do not."""
    if not streams["read_mode"].notna().any():
        names = ("first_merged", "ttft_late_max_s", "fully_read", "noticed_late_mean_s")
        return dict.fromkeys(names)
    late_s = pd.to_numeric(streams["ttft_late_max_s"]).dropna()
    lazy = streams[streams["read_mode"] == ReadMode.LAZY.value]
    return {
        "noticed_late_mean_s": float(lazy["noticed_late_s"].mean()) if len(lazy) else None,
        "first_merged": len(late_s),
        "ttft_late_max_s": float(late_s.max()) if len(late_s) else None,
        "fully_read": int((streams["read_mode"] == ReadMode.FULL.value).sum()),
    }


def client_notices(rows: Sequence[ClientRow], stages: Sequence[StageRow]) -> Iterator[str]:
    """What a reader must know of how the requests were timed."""
    ttft_s = {stage.stage: stage.ttft.p50 for stage in stages}
    for row in rows:
        if row.limited is None and (near := near_limit(row.loop_lag_p99_s, ttft_s.get(row.stage))):
            yield f"stage {row.stage + 1}: {near}; on a quieter client its figures may be lower"
        if row.first_merged and row.first_merged > MERGED_RATIO * row.streams:
            yield (
                f"stage {row.stage + 1}: {row.first_merged:,} of {row.streams:,} first tokens were "
                "read in one piece with later ones and bear their time: their TTFT is at most "
                f"{time_ms(row.ttft_late_max_s)} too long"
            )
    streams = sum(row.streams for row in rows)
    by_user = streams - sum(row.kernel_stamped for row in rows)
    if by_user:
        yield (
            f"{by_user:,} of {count(streams, 'stream')} bear this process's times and not the "
            "kernel's: their TTFT includes the client's own delay"
        )


def measuring_error(rows: Sequence[ClientRow]) -> Iterator[str]:
    """How far the client itself can have falsified the figures, in the worst stage."""
    known = [
        f"{what} {time_ms(worst)}{where}"
        for what, name, where in (
            ("event loop late by up to", "loop_lag_p99_s", " (p99)"),
            ("first tokens read up to", "client_delay_p99_s", " late (p99)"),
            ("first tokens in merged reads up to", "ttft_late_max_s", " late"),
            ("garbage collections of up to", "gc_pause_max_s", ""),
        )
        if (worst := _worst(rows, name)) is not None
    ]
    if known:
        yield f"measuring error, worst stage: {', '.join(known)}"
    told = [row for row in rows if row.fully_read is not None]
    if told:
        full, streams = sum(row.fully_read or 0 for row in told), sum(row.streams for row in told)
        yield f"gaps from {full:,} of {count(streams, 'stream')} (fully read)"
    if (late_s := _worst(rows, "noticed_late_mean_s")) is not None:
        yield f"users of lazily read streams asked again {time_ms(late_s)} late, worst stage's mean"


def _worst(rows: Sequence[ClientRow], name: str) -> float | None:
    values = (getattr(row, name) for row in rows)
    return max((value for value in values if value is not None), default=None)
