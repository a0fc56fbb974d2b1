"""From a saved run to the facts that the rules of validity look at."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from metrics.clock_steps import largest_step_s
from metrics.drift import FEWEST_WINDOWS, WINDOW_S, Drift, find_drift, windowed_percentile
from metrics.littles_law import LittlesLaw, check_littles_law, time_weighted_mean
from metrics.outcome import Outcome
from metrics.stage import NOT_LEVELS
from metrics.statistics import mean
from metrics.steady import (
    halves_of_events,
    halves_of_values,
    mser5,
)
from metrics.tally import Counts
from metrics.validity import Finding
from metrics.validity_facts import LevelFacts, RunFacts
from metrics.validity_levels import LIMITS
from metrics.validity_runs import find_validity
from reports.calibration import host_cores
from reports.counting import cache_of, succeeded
from reports.load import SavedRun
from reports.looked_for import looked_for
from reports.model import ClientRow, StageRow
from reports.windows import Window, held_windows, of_workers
from workloads.lengths import parse_distribution

_OF_COURSE = ("worker", "outcome", "counted", "streamed", "started_s", "ttft_s", "e2e_latency_s")
LEAST_OF_LATENCY = 0.1
"""Changes of a TTFT below a tenth of the latency are shares of that tenth: 20 % of it, at most 2 %
of a cycle, move no queue share."""


def findings_of(
    run: SavedRun, rows: Sequence[StageRow], client: Sequence[ClientRow], totals: Counts
) -> tuple[Finding, ...]:
    """What speaks against the run and each of its levels, the gravest first."""
    return find_validity(_run_facts(run, rows, client, totals))


def _run_facts(
    run: SavedRun, rows: Sequence[StageRow], client: Sequence[ClientRow], totals: Counts
) -> RunFacts:
    windows = held_windows(run.marks, run.records)
    by_stage = {row.stage: row for row in client}
    # What was said in earlier turns is cached by design: sessions tell nothing of a warm cache.
    alone = run.records["counted"] & run.records["session"].isna()
    cache = cache_of(run.records[["outcome", "cached_tokens", "prompt_tokens"]][alone])
    tallied = run.book.total() if run.book is not None else None
    return RunFacts(
        levels=tuple(
            _level_facts(run, row, by_stage.get(row.stage), windows.get(row.stage, []))
            for row in rows
        ),
        complete=bool(run.meta.get("complete")),
        end_reason=run.meta.get("end_reason"),
        lost_workers=tuple(
            str(w["id"])
            for w in run.meta.get("workers") or ()
            if w.get("lost") and not w.get("merged")
        ),
        offered=totals.offered,
        ok=totals.ok,
        failed=totals.failed - looked_for(run, rows, run.records),
        max_fail_ratio=float(run.meta.get("max_fail_ratio", 0.1)),
        unaccounted=sum(
            abs(row.offered - row.completed - row.failed - row.cancelled - row.not_sent)
            for row in rows
        ),
        ended_early=run.meta.get("ended_early"),
        ended_by=run.meta.get("ended_by"),
        tallies_missing=run.book is None,
        tallied=tallied.offered if tallied is not None and tallied != totals else None,
        prompt_tokens=cache.prompt_tokens,
        cached_tokens=cache.cached_tokens,
        cached_n=cache.known,
        planned_cached_ratio=_planned_ratio(run.meta.get("settings") or {}, cache.prompt_tokens),
        clock_steps_s=_clock_steps_s(run.records),
    )


def _planned_ratio(settings: Mapping[str, Any], prompt_tokens: int) -> float:
    """Shared prefix / whole prompt, both in the words of the options, so that the server's own
    tokens per word cancel. Lengths from a file are not known here: all may then be cached.
    """
    prefix = float(settings.get("prefix_tokens") or 0) if settings.get("prefixes") else 0.0
    if not prefix or not prompt_tokens:
        return 0.0
    try:
        own = parse_distribution(str(settings.get("prompt_tokens") or "0")).mean
    except ValueError:
        return 1.0
    return prefix / (prefix + own)


def _clock_steps_s(records: pd.DataFrame) -> dict[str, float]:
    found = {}
    told = records[["worker", "started_at", "started_s"]]
    for worker, own in told.groupby("worker", observed=True):
        labels = pd.to_datetime(own["started_at"], utc=True, errors="coerce", format="ISO8601")
        own = own[labels.notna()]
        wall_s = (labels.dropna() - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
        step_s = largest_step_s(wall_s.to_numpy(), own["started_s"].to_numpy())
        if step_s is not None:
            found[str(worker)] = step_s
    return found


def _level_facts(
    run: SavedRun, row: StageRow, client: ClientRow | None, windows: Sequence[Window]
) -> LevelFacts:
    own = run.records[run.records["stage"] == row.stage]
    held = own[own["counted"]]
    ok = succeeded(held)
    tokens = ok["completion_tokens"].dropna().astype("float64").to_numpy()
    # That a search for the knee leaves a level for its refusals is told at the level all the same.
    failed = row.failed - (looked_for(run, (), held) if run.meta.get("shape") == LIMITS else 0)
    return LevelFacts(
        stage=row.stage,
        kind=row.kind,
        shape=str(run.meta.get("shape")),
        target_users=row.target_users,
        users_seen=row.users_seen,
        reached=row.stage not in run.not_reached,
        held=row.window_s is not None,
        window_s=row.window_s or 0.0,
        completed=row.completed,
        failed=failed,
        finished=row.completed + failed,
        lost_workers=_lost_in(run, row.stage),
        client_limit=client.limited if client is not None else None,
        client_cpu_ratio=client.cpu_mean_ratio if client is not None else None,
        workers_on_host=max(_workers_by_host(run.meta).values(), default=1),
        host_cores=host_cores(run.folder),
        without_descriptor=int((own["outcome"] == Outcome.CLIENT_RESOURCE.value).sum()),
        law=_littles_law(run.records, held, row, windows),
        token_sources=ok["token_source"].value_counts().to_dict(),
        streamed=int(ok["streamed"].sum()),
        buffered=int((ok["streamed"] & ok["buffered"]).sum()),
        churned=client.connections_churned if client is not None else None,
        output_n=int(tokens.size),
        output_tokens_mean=mean(tokens),
        output_tokens_sd=float(tokens.std(ddof=1)) if tokens.size > 1 else None,
        **_over_time(run.records, own, row, windows),
    )


def _lost_in(run: SavedRun, stage: int) -> tuple[str, ...]:
    """The workers that were lost in it, or away for some of it.

    One that was lost near its end may have been missed too late to be noted as away.
    """
    last = {mark.worker: mark.stage.id for mark in run.marks}
    found = []
    for worker in run.meta.get("workers") or ():
        missed_s = [one["missed_s"] for one in worker.get("away") or () if one["stage"] == stage]
        if worker.get("lost"):
            if missed_s or last.get(str(worker["id"])) == stage:
                found.append(str(worker["id"]))
        elif missed_s:
            found.append(f"{worker['id']} (for {max(missed_s):.0f} s)")
    return tuple(found)


def _workers_by_host(meta: Mapping[str, Any]) -> Counter[str]:
    return Counter(str(worker.get("host")) for worker in meta.get("workers") or ())


def _littles_law(
    records: pd.DataFrame, held: pd.DataFrame, row: StageRow, windows: Sequence[Window]
) -> LittlesLaw | None:
    if not len(held) or row.window_s is None or row.kind in NOT_LEVELS:
        return None
    thinks = bool((held["think_s"] > 0).any())
    found = sum(_users_found(records, own) for own in _by_worker(windows).values())
    cycle_s = float((held["elapsed_s"] + held["think_s"]).mean())
    return check_littles_law(row.target_users, found, cycle_s, row.window_s, thinks)


def _by_worker(windows: Sequence[Window]) -> dict[str, list[Window]]:
    found: dict[str, list[Window]] = {}
    for window in windows:
        if window.length_s > 0:
            found.setdefault(window.worker, []).append(window)
    return found


def _users_found(records: pd.DataFrame, windows: Sequence[Window]) -> float:
    """One worker's users inside a cycle, from the pause before it to its end, as a mean."""
    timed = records[["started_s", "ended_s", "think_s", "noticed_late_s"]]
    own = timed[records["worker"] == windows[0].worker]
    first_s = (own["started_s"] - own["think_s"]).to_numpy()
    # A user learns late of a lazily read end; with think time that is taken off the pause.
    late_s = own["noticed_late_s"].astype("float64").fillna(0.0).where(own["think_s"] <= 0, 0.0)
    last_s = (own["ended_s"] + late_s).to_numpy()
    seconds = sum(
        (time_weighted_mean(first_s, last_s, w.begin_s, w.end_s) or 0.0) * w.length_s
        for w in windows
    )
    return seconds / sum(w.length_s for w in windows)


def _over_time(
    records: pd.DataFrame, own: pd.DataFrame, row: StageRow, windows: Sequence[Window]
) -> dict[str, Any]:
    """The tests on the course of a window, with all workers' clocks set to 0 at its begin.

    A level that a worker held twice has no one course.
    """
    by_worker = _by_worker(windows)
    if not by_worker or any(len(of_worker) > 1 for of_worker in by_worker.values()):
        return {}
    begins_s = {worker: found[0].begin_s for worker, found in by_worker.items()}
    length_s = min(found[0].length_s for found in by_worker.values())
    # One finished request per user is the warm-up of a closed loop.
    after_first = own[["worker", "user_class", "user"]].duplicated()
    warm = own[list(_OF_COURSE)].assign(warm=after_first)
    ok = _since_begin(succeeded(warm[warm["counted"]]), begins_s)
    ended = records[["worker", "outcome", "started_s", "elapsed_s"]]
    done = _since_begin(succeeded(ended), begins_s)
    series = "ttft_s" if ok["streamed"].any() else "e2e_latency_s"
    name = "TTFT" if series == "ttft_s" else "latency"
    seen = ok.dropna(subset=[series])
    least = LEAST_OF_LATENCY * (mean(ok["e2e_latency_s"].dropna().to_numpy()) or 0.0)
    halves = {
        name: halves_of_values(seen[series].to_numpy(), row.target_users, least),
        "completions/s": halves_of_events(
            (done["at_s"] + done["elapsed_s"]).to_numpy(), 0.0, length_s, row.target_users
        ),
    }
    return {
        "halves": {what: test for what, test in halves.items() if test is not None},
        "mser": mser5(seen.loc[seen["warm"], series].to_numpy(), row.target_users, least),
        "drift": _drifts(seen, series, name, length_s),
    }


def _since_begin(records: pd.DataFrame, begins_s: Mapping[str, float]) -> pd.DataFrame:
    """The rows of workers that held the level, by their start in seconds after its begin."""
    found = records.assign(at_s=records["started_s"] - of_workers(records["worker"], begins_s))
    return found.dropna(subset=["at_s"]).sort_values("at_s", kind="stable")


def _drifts(seen: pd.DataFrame, series: str, name: str, length_s: float) -> dict[str, Drift]:
    if length_s < (FEWEST_WINDOWS - 0.01) * WINDOW_S:
        return {}
    found = {}
    for column, what in {series: name, "e2e_latency_s": "latency"}.items():
        values = seen.dropna(subset=[column])
        times_s, p99_s = windowed_percentile(
            values["at_s"].to_numpy(), values[column].to_numpy(), 0.99, 0.0, length_s
        )
        drift = find_drift(times_s, p99_s)
        if drift is not None:
            found[f"{what} p99"] = drift
    return found
