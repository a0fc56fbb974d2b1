"""One stage of the live table: the report's figures of its held window, as far as they are in."""

from dataclasses import dataclass, replace

from hooks.live.windows import HeldRates
from metrics.stage import Stage
from metrics.statistics import samples_needed
from metrics.tally import StageTally


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLine:
    """Counts are exact, percentiles within 1 %; None where there is nothing to say yet.

    Times are in seconds; ``left_out`` are requests outside the held window; ``few_p95`` and
    ``few_p99`` say that the percentile has fewer samples than it needs.
    """

    stage: int
    kind: str
    load: str
    target_users: int
    state: str
    held_s: float | None = None
    offered: int = 0
    sent: int = 0
    completed: int = 0
    failed: int = 0
    rate_limited: int = 0
    left_out: int = 0
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    few_p95: bool = False
    few_p99: bool = False
    tpot_p50_s: float | None = None
    gap_p95_s: float | None = None
    output_tokens_per_s: float | None = None
    in_flight: float | None = None
    loop_lag_p99_s: float | None = None
    client_delay_p99_s: float | None = None
    cpu_mean_ratio: float | None = None
    remark: str = ""


def stage_line(
    stage: Stage, tally: StageTally | None, rates: HeldRates, state: str, remark: str
) -> StageLine:
    """The line of a stage; without a tally nothing of it was reported."""
    planned = StageLine(
        stage=stage.id,
        kind=stage.kind,
        load=stage.load,
        target_users=stage.target_users,
        state=state,
        remark=remark,
    )
    if tally is None:
        return planned
    held, latency, health = tally.held, tally.latency, tally.health
    ttft = latency["ttft_s"]
    return replace(
        planned,
        held_s=rates.window_s,
        offered=held.offered,
        sent=held.sent,
        completed=held.ok,
        failed=held.failed,
        rate_limited=held.rate_limited_attempts,
        left_out=tally.everything.offered - held.offered,
        ttft_p50_s=ttft.percentile(0.5),
        ttft_p95_s=ttft.percentile(0.95),
        ttft_p99_s=ttft.percentile(0.99),
        few_p95=0 < ttft.n < samples_needed(0.95),
        few_p99=0 < ttft.n < samples_needed(0.99),
        tpot_p50_s=latency["tpot_s"].percentile(0.5),
        gap_p95_s=latency["chunk_gap_s"].percentile(0.95),
        output_tokens_per_s=rates.output_tokens_per_s,
        in_flight=rates.in_flight,
        loop_lag_p99_s=health["loop_lag_s"].percentile(0.99),
        client_delay_p99_s=health["client_delay_s"].percentile(0.99),
        cpu_mean_ratio=health["cpu_ratio"].mean,
    )
