"""Open-loop steps: what was offered and carried, whether the backlog grew, how late we sent."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from metrics.backlog import BacklogTrend, backlog_trend
from metrics.outcome import Outcome
from metrics.stage import Phase, Stage
from metrics.statistics import percentile
from reports.load import SavedRun
from reports.loads import load_name, plan_of
from reports.windows import held_windows, window_rates
from reports.wording import count, number, time_ms

LATE_LIMIT_S = 0.01
LATE_SHARE_OF_TTFT = 0.1
LIMITS_LATE_S = 0.05
"""In a search for a rate limit: what limiters count in is seconds, and no latency is asked for."""
SAMPLE_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RateStep:
    """One rate (requests/s over the fleet); times in seconds, None where nothing was measured."""

    stage: int
    rate_rps: float
    rate_tokens_per_s: float | None = None
    """The nominal tokens/s that set the pace; None where requests do."""
    planned: int
    """Arrivals that were due while the rate was held."""
    ok: int
    failed: int
    cancelled: int
    not_sent: int
    offered_rps: float | None
    completed_rps: float | None
    in_flight_mean: float | None
    schedule_delay_p50_s: float | None
    schedule_delay_p99_s: float | None
    schedule_delay_max_s: float | None
    trend: BacklogTrend | None
    """Of the backlog over the step's later half; None when it was too short to say."""
    verdict: str
    """``stable``, ``unstable``, ``too short to say`` or ``not tried``."""

    def sentence(self) -> str:
        """One line for people."""
        load = load_name(0, self.rate_rps, self.rate_tokens_per_s)
        if not self.planned:
            return f"{load}: {self.verdict}."
        text = (
            f"{load}: {self.verdict}, offered {number(self.offered_rps)} and completed "
            f"{number(self.completed_rps)} requests/s"
        )
        if self.trend is not None:
            text += (
                f", backlog {self.trend.slope_rps:+.2f} requests/s "
                f"({self.trend.low_rps:+.2f} to {self.trend.high_rps:+.2f})"
            )
        if self.not_sent:
            text += f", {count(self.not_sent, 'arrival')} never sent"
        return f"{text}; sent {time_ms(self.schedule_delay_p99_s)} late at p99."


def late_reason(held: pd.DataFrame, shape: str | None = None) -> str | None:
    """Why a step's figures speak of the client: its arrivals were sent too late; None when not.

    ``shape`` is the run's.
    """
    delays_s = held["schedule_delay_s"].dropna().to_numpy()
    if not len(delays_s) or not delays_s.any():
        return None
    late_s = percentile(delays_s, 0.99) or 0.0
    ttft_s = percentile(held["ttft_s"].dropna().to_numpy(), 0.5)
    limit_s = min(LATE_LIMIT_S, LATE_SHARE_OF_TTFT * ttft_s) if ttft_s else LATE_LIMIT_S
    if shape == "limits":
        limit_s = LIMITS_LATE_S
    if late_s > limit_s:
        return f"arrivals were sent {time_ms(late_s)} late at p99 (limit {time_ms(limit_s)})"
    return None


def rate_steps(run: SavedRun) -> tuple[RateStep, ...]:
    """A step for each rate of the plan, also for those that were not tried any more."""
    steps = (stage for stage in plan_of(run).values() if stage.rate_rps)
    return tuple(_step(run, stage, stage.rate_rps or 0.0) for stage in steps)


def _step(run: SavedRun, of: Stage, rate_rps: float) -> RateStep:
    stage = of.id
    held = run.records[(run.records["stage"] == stage) & run.records["counted"]]
    outcomes = held["outcome"].value_counts()
    ok, cancelled = (int(outcomes.get(o.value, 0)) for o in (Outcome.OK, Outcome.CANCELLED))
    not_sent = int(outcomes.get(Outcome.NOT_SENT.value, 0))
    delays_s = held["schedule_delay_s"].dropna().to_numpy()
    windows = held_windows(run.marks, run.records).get(stage, [])
    rates = window_rates(windows, run.records)
    trend = backlog_trend(*_in_flight(run, stage), rate_rps)
    return RateStep(
        stage=stage,
        rate_rps=rate_rps,
        rate_tokens_per_s=of.rate_tokens_per_s,
        planned=len(held),
        ok=ok,
        failed=len(held) - ok - cancelled - not_sent,
        cancelled=cancelled,
        not_sent=not_sent,
        offered_rps=rates.sent_rps,
        completed_rps=rates.completed_rps,
        in_flight_mean=rates.in_flight,
        schedule_delay_p50_s=percentile(delays_s, 0.5),
        schedule_delay_p99_s=percentile(delays_s, 0.99),
        schedule_delay_max_s=float(delays_s.max()) if len(delays_s) else None,
        trend=trend,
        verdict=_verdict(held, trend),
    )


def _verdict(held: pd.DataFrame, trend: BacklogTrend | None) -> str:
    if not len(held):
        return "not tried"
    if trend is None:
        return "too short to say"
    return "unstable" if trend.unstable else "stable"


def _bounds(run: SavedRun, stage: int) -> list[tuple[str, float, float]]:
    """(worker, load began, over) of a stage, on each worker's clock, in seconds."""
    found = []
    for worker in sorted({mark.worker for mark in run.marks}):
        own = sorted((m for m in run.marks if m.worker == worker), key=lambda mark: mark.at_s)
        mine = [m for m in own if m.stage.id == stage and m.phase in (Phase.SETTLE, Phase.HOLD)]
        hold = next((m.at_s for m in mine if m.phase is Phase.HOLD), None)
        if hold is None:
            continue
        over = next((m.at_s for m in own if m.at_s > hold and m.stage.id != stage), None)
        ended_s = run.records.loc[run.records["worker"] == worker, "ended_s"].max()
        found.append((worker, mine[0].at_s, float(ended_s) if over is None else over))
    return found


def _in_flight(run: SavedRun, stage: int) -> tuple[Sequence[float], Sequence[float]]:
    """The fleet's requests in flight every quarter second from the load's begin: times and counts.

    Each worker counts on its own clock from its own announcement.
    """
    bounds = _bounds(run, stage)
    if not bounds:
        return (), ()
    length_s = min(over - began for _, began, over in bounds)
    at_s = np.arange(0.0, length_s, SAMPLE_S)
    total = np.zeros_like(at_s)
    for worker, began_s, _ in bounds:
        own = run.records[run.records["worker"] == worker]
        sent_s = np.sort(own["sent_s"].dropna().to_numpy())
        ended_s = np.sort(own["ended_s"].dropna().to_numpy())
        now_s = began_s + at_s
        total += np.searchsorted(sent_s, now_s, "right") - np.searchsorted(ended_s, now_s, "right")
    return list(at_s), list(total)
