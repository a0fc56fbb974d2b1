"""The stage table, and the levels that the knee is read from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from metrics.knee import KneeEstimate, Level, LevelEvidence
from metrics.knee_limits import in_flight_at, in_flight_shares
from metrics.outcome import Outcome
from metrics.run_files import mark_to_wire
from metrics.slo import SloLimit
from metrics.stage import NOT_LEVELS, WITHOUT_WINDOW, Phase, Stage
from metrics.statistics import mean
from metrics.validity import Finding, void_by, void_reason
from reports.counting import (
    LATENCY_COLUMNS,
    OF_COUNTS,
    counts_of,
    good_requests,
    latency_of,
    succeeded,
)
from reports.load import SavedRun
from reports.loads import plan_of, rates_of
from reports.model import StageRow
from reports.own_bound import own_bound
from reports.windows import Window, WindowRates, held_windows, of_workers, window_rates

BUFFERED_SHARE = 0.5
"""Share of streams in one piece above which a level's TTFT is the time of whole answers."""

_OF_LEVELS = (
    *LATENCY_COLUMNS,
    *("worker", "outcome", "counted", "streamed", "buffered", "sent_s", "end_s", "think_s"),
)


def planned_stages(run: SavedRun) -> list[tuple[int, str, int]]:
    """(id, kind, users wanted) of each level, from the plan, the marks or the records."""
    plan = run.meta.get("stage_plan")
    if plan:
        found = {s["stage"]: (s["stage"], s["kind"], s["target_users"]) for s in plan}
    else:
        found = {
            wire["stage"]: (wire["stage"], wire["kind"], wire["target_users"])
            for wire in map(mark_to_wire, run.marks)
        }
    for stage in run.records["stage"].dropna().unique():
        found.setdefault(int(stage), (int(stage), "level", 0))
    return [found[key] for key in sorted(found) if found[key][1] not in WITHOUT_WINDOW]


def stage_rows(run: SavedRun) -> tuple[StageRow, ...]:
    """One row for each level of the plan, also for those that were never held."""
    windows = held_windows(run.marks, run.records)
    return tuple(
        _row(run, stage, kind, users, windows.get(stage, []))
        for stage, kind, users in planned_stages(run)
    )


def _row(run: SavedRun, stage: int, kind: str, target: int, windows: Sequence[Window]) -> StageRow:
    own = run.records[list(OF_COUNTS)][run.records["stage"] == stage]
    held = own[own["counted"]]
    counts, rates = counts_of(held), window_rates(windows, run.records)
    rate_rps, tokens_per_s = rates_of(plan_of(run), stage)
    latency = latency_of(held)
    seen = [m.users for m in run.marks if m.stage.id == stage and m.phase is Phase.HOLD]
    users = max(seen) if seen else None
    per_user = None
    if rates.output_tokens_per_s is not None and target:
        per_user = rates.output_tokens_per_s / target
    return StageRow(
        stage=stage,
        kind=kind,
        target_users=target,
        rate_rps=rate_rps,
        rate_tokens_per_s=tokens_per_s,
        users_seen=users,
        reached=stage not in run.not_reached and rates.window_s is not None,
        window_s=rates.window_s,
        window_begin_s=min((w.begin_s for w in windows if w.length_s), default=None),
        window_end_s=max((w.end_s for w in windows if w.length_s), default=None),
        offered=counts.offered,
        sent=counts.sent,
        completed=counts.ok,
        failed=counts.failed,
        cancelled=counts.cancelled,
        not_sent=counts.by_outcome[Outcome.NOT_SENT.value],
        left_out=len(own) - len(held),
        rate_limited_attempts=counts.rate_limited_attempts,
        rate_limited_ratio=_ratio(counts.rate_limited_attempts, counts.attempts),
        sent_rps=rates.sent_rps,
        completed_rps=rates.completed_rps,
        output_tokens_per_s=rates.output_tokens_per_s,
        tokens_per_s_per_user=per_user,
        in_flight=rates.in_flight,
        littles_law_gap=_little(rates, held),
        ttft=latency["ttft_s"],
        tpot=latency["tpot_s"],
        e2e_latency=latency["e2e_latency_s"],
        queue_share=None,
        carried_users=None,
        flags=(
            *_of_plan(run, stage, kind, target, rate_rps),
            *_flags(stage, run, counts.offered, counts.ok, latency["ttft_s"].flags),
        ),
    )


def _of_plan(
    run: SavedRun, stage: int, kind: str, users: int, rate_rps: float | None
) -> tuple[str, ...]:
    """Remarks that the figures do not show: the way down, the client's own bound."""
    bound = own_bound(run.meta, Stage(stage, kind, users, rate_rps))
    way = "on the way down" if kind == "down" else None
    return tuple(flag for flag in (way, bound) if flag is not None)


def _flags(stage: int, run: SavedRun, offered: int, ok: int, few: Sequence[str]) -> tuple[str, ...]:
    flags = []
    if stage in run.not_reached:
        flags.append("users not reached")
    elif not offered:
        flags.append("nothing measured")
    elif not ok:
        flags.append("no success")
    return (*flags, *(f"TTFT {flag.replace(':', ': too ')}" for flag in few))


def _little(rates: WindowRates, held: pd.DataFrame) -> float | None:
    time_s = mean(held["end_s"].dropna().to_numpy())
    if not rates.in_flight or rates.sent_rps is None or time_s is None:
        return None
    return (rates.in_flight - rates.sent_rps * time_s) / rates.in_flight


def knee_levels(
    run: SavedRun,
    rows: Sequence[StageRow],
    findings: Sequence[Finding],
    limits: Sequence[SloLimit] = (),
) -> list[Level]:
    """What the knee is read from: the held requests of every level, void ones with the reason."""
    levels, records = [], run.records[list(_OF_LEVELS)]
    for row in rows:
        if row.kind in NOT_LEVELS:
            continue
        own = records[run.records["stage"] == row.stage]
        held = own[own["counted"]]
        ok = succeeded(held)
        streamed = ok[ok["streamed"]]
        good = good_requests(held, limits)
        bound = own_bound(run.meta, row)
        levels.append(
            Level(
                users=row.target_users,
                stage=row.stage,
                ttft_s=streamed["ttft_s"].dropna().to_numpy(),
                tpot_s=streamed["tpot_s"].dropna().to_numpy(),
                latency_s=streamed["e2e_latency_s"].dropna().to_numpy(),
                think_s=mean(held["think_s"].to_numpy()) or 0.0,
                requests=row.offered - row.cancelled - row.not_sent,
                rate_limited=row.rate_limited_attempts,
                failed=row.failed,
                outcomes={str(k): int(n) for k, n in held["outcome"].value_counts().items()},
                void=void_reason(findings, row.stage) or _never_held(row) or bound,
                client_limited=bound is not None or void_by("client_limited", findings, row.stage),
                held_s=row.window_s,
                completed_per_s=row.completed_rps,
                sent_per_s=row.sent_rps,
                in_flight=row.in_flight,
                **_in_flight(own, _hold_begins_s(run, row.stage)),
                buffered=len(streamed) > 0 and bool(streamed["buffered"].mean() > BUFFERED_SHARE),
                good=None if good is None else good.to_list(),
                down=row.kind == "down",
            )
        )
    return levels


def no_levels(run: SavedRun) -> str | None:
    """Why a run cannot have a knee, and what to do instead; None when it has levels of users."""
    kinds = {kind for _, kind, _ in planned_stages(run)}
    if not kinds or not kinds <= NOT_LEVELS:
        return None
    if "rate" in kinds:
        what = "an open loop: its requests were sent at set rates and not by a number of users"
        instead = "its answer is the highest stable rate"
    else:
        what = f"of the shape {run.meta.get('shape')}: it has no levels of users in a steady state"
        instead = "its answer is in its own sentences"
    return (
        f"this run is {what}, so there is no knee to read from it; {instead} (python -m reports "
        f"{run.folder}); for a knee run --shape knee or --shape ladder"
    )


def _never_held(row: StageRow) -> str | None:
    return "never held" if row.window_s is None else None


def _hold_begins_s(run: SavedRun, stage: int) -> dict[str, float]:
    """When the stage's hold began on each worker, by its own clock: the same moment for all."""
    found: dict[str, float] = {}
    for mark in run.marks:
        if mark.stage.id == stage and mark.phase is Phase.HOLD:
            found.setdefault(mark.worker, mark.at_s)
    return found


def _in_flight(records: pd.DataFrame, begins_s: Mapping[str, float]) -> dict[str, Any]:
    """What a cap on requests in flight is told by, over the whole fleet."""
    several = records["worker"].nunique() > 1  # also a killed run, without marks, may have one
    shift_s = of_workers(records["worker"], begins_s) if several else 0.0
    known = records.assign(sent_s=records["sent_s"] - shift_s).dropna(subset=["sent_s"])
    accepted = succeeded(known)
    begins = accepted["sent_s"].to_numpy()
    spans_s = np.column_stack([begins, begins + accepted["end_s"].to_numpy()])
    refused = known[known["counted"] & (known["outcome"] == Outcome.RATE_LIMITED.value)]
    return {
        "in_flight_at_refusals": in_flight_at(spans_s, refused["sent_s"].to_list()),
        "in_flight_shares": in_flight_shares(spans_s),
    }


def judged(
    rows: Sequence[StageRow],
    knee: KneeEstimate,
    findings: Sequence[Finding],
    live: Mapping[int, str],
) -> tuple[StageRow, ...]:
    """The rows with what the knee's method saw at each level, and with what voids them.

    ``live`` are the reasons for which the search set levels aside while it ran.
    """
    seen = {e.stage: e for e in knee.evidence if e.stage is not None}
    return tuple(_with_evidence(_with_void(row, findings, live), seen) for row in rows)


def _with_void(row: StageRow, findings: Sequence[Finding], live: Mapping[int, str]) -> StageRow:
    reason = void_reason(findings, row.stage)
    if reason is None and row.stage in live:
        # The search went by what it saw; the whole window may be in order all the same.
        reason = f"set aside by the search: {live[row.stage]}"
    # That its users were not reached is a flag already.
    return replace(row, flags=(*row.flags, reason)) if reason and row.reached else row


def _with_evidence(row: StageRow, seen: Mapping[int, LevelEvidence]) -> StageRow:
    evidence = seen.get(row.stage)
    if evidence is None:
        return row
    return replace(row, queue_share=evidence.queue_share, carried_users=evidence.carried_users)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
