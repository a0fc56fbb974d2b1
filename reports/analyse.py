"""From a saved run to its report: figures, the knee, and what speaks against them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from metrics.knee import verdict
from metrics.knee_assess import assess
from metrics.knee_level import Level
from metrics.more_levels import more_levels
from metrics.outcome import Outcome
from metrics.slo import RATES, SloLimit, judge, parse_slo
from metrics.stage import ASIDE, Phase
from metrics.statistics import Summary
from metrics.tally import Counts
from metrics.validity import Finding, void_stages
from reports.calibration import calibration_sentence
from reports.client import client_notices, client_rows, measuring_error
from reports.cost import cost_of, cost_sentences
from reports.counting import (
    OF_COUNTS,
    cache_of,
    counts_of,
    failures_of,
    good_requests,
    latency_of,
    lengths_of,
    modes_of,
    succeeded,
)
from reports.gaps import all_gaps, gaps_by_stage
from reports.goodput import with_goodput
from reports.headline import headline
from reports.ledger import ledger_of
from reports.ledger_text import ledger_sentences, ledger_values
from reports.limits_answer import opening_sentences
from reports.limits_text import limit_sentences, limit_values, limited_by
from reports.load import SavedRun
from reports.memory import give_back
from reports.model import ClientRow, Lengths, RunReport, StageRow, Throughput
from reports.own_bound import own_bound_notices
from reports.rate_limits import RateLimits, rate_limits_of
from reports.sections import sections_of
from reports.stages import judged, knee_levels, stage_rows
from reports.validity import findings_of
from reports.verdicts import verdicts_of

_OF_FIGURES = (
    *("worker", "started_s", "ended_s", "outcome", "prompt_tokens", "completion_tokens"),
    *("cached_tokens", "asked_max_tokens"),
)


def analyse(run: SavedRun, slo: str | None = None) -> RunReport:
    """Everything that is said of a run.

    ``slo`` replaces the objectives that were stored with it.

    Raises:
        ValueError: ``slo`` cannot be read.
    """
    limits = _objectives(run, slo)
    seen = _examine(run)
    give_back()
    rows, client, totals, validity = seen.rows, seen.client, seen.totals, seen.findings
    advice = more_levels(run.meta.get("shape"), bool(run.meta.get("search_ended")))
    knee = verdict(assess(knee_levels(run, rows, validity, limits)), *advice)
    rows = judged(rows, knee, validity, run.void_reasons)
    void = void_stages(validity)
    usable = [row for row in rows if row.stage not in void]
    sections = sections_of(run)
    ledger, rate_limits = ledger_of(run), rate_limits_of(run)
    cost = cost_of(run.records, run.meta, rows)
    rows = _with_limits(rows, rate_limits)
    give_back()
    aside = run.records["phase"].isin([phase.value for phase in ASIDE])
    figures = run.records[list(_OF_FIGURES)][~aside]
    held = run.records[["user_class", *OF_COUNTS]][run.records["counted"]]
    held_counts = counts_of(held)
    lengths = lengths_of(figures)
    latency = dict(latency_of(held))
    latency["chunk_gap_s"] = all_gaps(run.book)
    good = good_requests(held, limits)
    rows = with_goodput(rows, held, good)
    good_ratio = None if good is None or not len(good) else float(good.mean())
    slo_verdicts = judge(
        limits, lambda m, s: _measured(m, s, latency, held_counts, usable, good_ratio)
    )
    return RunReport(
        meta=run.meta,
        folder_name=run.folder.name,
        headline=_once(
            *opening_sentences(rate_limits.answer if rate_limits else None, run.meta),
            *headline(run.meta, usable, knee, totals, slo_verdicts),
            *sections.sentences,
            *ledger_sentences(ledger),
            *cost_sentences(cost, {row.stage for row in usable}, knee.users or knee.at_least),
            *(limit_sentences(rate_limits) if rate_limits is not None else ()),
        ),
        verdicts=verdicts_of(validity, slo_verdicts),
        validity=validity,
        notices=(
            *map(str, run.meta.get("notices") or ()),
            *run.notes,
            *_remarks(totals, rows),
            *_short_answers(run, lengths),
            *own_bound_notices(run.meta, rows),
            *client_notices(client, rows),
        ),
        totals=totals,
        held=held_counts,
        not_sent=totals.by_outcome[Outcome.NOT_SENT.value],
        left_out_by_phase=_left_out(run.records),
        stages=rows,
        latency=latency,
        lengths=lengths,
        cache=cache_of(figures),
        modes=modes_of(held),
        failures=failures_of(run.records),
        client=client,
        client_sentences=(
            *measuring_error(client),
            calibration_sentence(run.folder, run.meta, client),
        ),
        knee=knee,
        slo=slo_verdicts,
        good_ratio=good_ratio,
        throughput=_throughput(figures),
        cost=cost,
        ledger=ledger,
        rate_limits=rate_limits,
        gaps=gaps_by_stage(run.book),
        complete=bool(run.meta.get("complete")),
        started_at=str(run.meta.get("started_at")),
        ended_at=run.meta.get("ended_at"),
        extra={
            **sections.values,
            "ledger": ledger_values(ledger),
            "rate_limits": limit_values(rate_limits) if rate_limits is not None else {},
        },
    )


def _objectives(run: SavedRun, slo: str | None) -> tuple[SloLimit, ...]:
    return parse_slo(str(run.meta.get("slo") or "") if slo is None else slo)


def levels_of(run: SavedRun) -> list[Level]:
    """The levels that a run's knee is read from, void ones with their reasons."""
    seen = _examine(run)
    return knee_levels(run, seen.rows, seen.findings, _objectives(run, None))


@dataclass(frozen=True, slots=True)
class _Examined:
    """What is read from a run before its knee, which must not use a void level."""

    rows: tuple[StageRow, ...]
    client: tuple[ClientRow, ...]
    totals: Counts
    findings: tuple[Finding, ...]


def _examine(run: SavedRun) -> _Examined:
    rows, totals = stage_rows(run), counts_of(run.records)
    client = client_rows(run, rows)
    return _Examined(rows, client, totals, findings_of(run, rows, client, totals))


def _with_limits(rows: Sequence[StageRow], limits: RateLimits | None) -> tuple[StageRow, ...]:
    """The rows with the limit that each met."""
    met = {load.stage: limited_by(load) for load in limits.loads} if limits is not None else {}
    return tuple(replace(row, limited_by=met.get(row.stage)) for row in rows)


def _once(*sentences: str) -> tuple[str, ...]:
    """Each sentence where it comes first."""
    return tuple(dict.fromkeys(sentences))


def _measured(
    metric: str,
    statistic: str | None,
    latency: dict[str, Summary],
    counts: Counts,
    rows: Sequence[StageRow],
    good_ratio: float | None,
) -> float | None:
    if statistic is not None:
        value: float | None = getattr(latency[metric], statistic)
        return value
    if metric in RATES.values():
        return max((v for row in rows if (v := getattr(row, metric)) is not None), default=None)
    if metric == "good_ratio":
        return good_ratio
    if not counts.offered:
        return None
    ratios = {
        "ok_ratio": counts.ok / counts.offered,
        "failed_ratio": counts.failed / counts.offered,
        "rate_limited_ratio": counts.rate_limited_attempts / max(1, counts.attempts),
    }
    return ratios[metric]


def _left_out(records: pd.DataFrame) -> dict[str, int]:
    phases = records["phase"][~records["counted"]].fillna("before the first stage").value_counts()
    return {str(name): int(count) for name, count in phases.items() if name != Phase.HOLD.value}


def _throughput(records: pd.DataFrame) -> Throughput:
    """Over first start to last finish, on the clock of the worker that was at it longest.

    The workers' clocks are never mixed: each counts from when that worker joined the run.
    """
    ok = succeeded(records)
    if not len(ok):
        return Throughput(seconds=None, output_tokens_per_s=None)
    workers = ok.groupby("worker", observed=True)
    seconds = float((workers["ended_s"].max() - workers["started_s"].min()).max())
    tokens = float(ok["completion_tokens"].sum())
    rate = tokens / seconds if seconds > 0 else None
    return Throughput(seconds=seconds, output_tokens_per_s=rate)


def _remarks(totals: Counts, rows: Sequence[StageRow]) -> list[str]:
    remarks = []
    if totals.asked_stream_got_json:
        remarks.append(
            f"{totals.asked_stream_got_json} streams were asked for and answered with plain JSON"
        )
    unknown = totals.token_sources.get("unknown", 0)
    if unknown:
        remarks.append(
            f"{unknown} of {totals.ok} answers carried no token counts: they add no tokens/s"
        )
    if totals.reconnects:
        remarks.append(f"{totals.reconnects} kept connections had been closed and were reopened")
    return remarks


def _short_answers(run: SavedRun, lengths: Lengths) -> list[str]:
    """Endpoints compare at one length only; without it an early end is the model's own affair."""
    settings = run.meta.get("settings") or {}
    if not settings.get("ignore_eos") or not lengths.short:
        return []
    return [
        f"{lengths.short} of {lengths.n} answers are shorter than asked for, despite --ignore-eos: "
        f"{lengths.completion_tokens:,} of {lengths.asked_tokens:,} tokens came"
    ]
