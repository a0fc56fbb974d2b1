"""The answer at a glance: what the endpoint carries, what limits it, and what that is like."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metrics.knee import KneeEstimate, KneeStatus
from metrics.prices import CostKind, money
from metrics.stage import NOT_LEVELS
from metrics.statistics import Summary
from metrics.validity import void_stages
from reports.headline import level_at_knee
from reports.loads import load_name, load_words
from reports.model import RunReport, StageRow
from reports.wording import MISSING, count, number, share, time_ms

_QUEUE = "the endpoint's own queue", "requests wait for a free slot before their first token"
_LIMITS: Mapping[KneeStatus, tuple[str, str]] = {
    KneeStatus.KNEE: _QUEUE,
    KneeStatus.GRADUAL_KNEE: _QUEUE,
    KneeStatus.NEAR_TOP: _QUEUE,
    KneeStatus.HIDDEN_QUEUE: (
        "a queue that first tokens do not show",
        "read from the latency of whole answers, and less sure",
    ),
    KneeStatus.NO_KNEE: ("nothing that was met", "no request waited for a slot"),
    KneeStatus.RATE_LIMITED: ("a rate limit", "answers 429 came before any queue"),
    KneeStatus.INFLIGHT_CAP: (
        "a cap on requests in flight",
        "answers 429 always came at the same number under way",
    ),
    KneeStatus.ERRORS: ("errors", "requests failed before they queued"),
    KneeStatus.CLIENT_LIMITED: (
        "this client",
        "it was at its end before the endpoint: use more workers",
    ),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to know, as words: what it is, what was found, and how sure or why not."""

    term: str
    value: str
    detail: str = ""


def facts_of(report: RunReport) -> tuple[Fact, ...]:
    """The facts of the first screen, in the order in which they are asked for."""
    void = void_stages(report.validity)
    rows = [row for row in report.stages if row.stage not in void]
    levels = [row for row in rows if row.kind not in NOT_LEVELS]
    steps: list[dict[str, Any]] = report.extra.get("open_loop") or []
    if steps:
        stable = [row for row in rows if _verdict(steps, row.stage) == "stable"]
        there = max(stable, key=lambda row: row.rate_rps or 0.0, default=None)
        return tuple((*_rate_facts(report, steps, there), *_facts_at(report, there)))
    there = level_at_knee(levels, report.knee)
    return tuple((*_knee_facts(report, levels), *_facts_at(report, there)))


def _knee_facts(report: RunReport, levels: list[StageRow]) -> Iterator[Fact]:
    knee = report.knee
    if not levels:
        return
    yield _carries(knee, len({row.target_users for row in levels}))
    yield Fact("Limited by", *_limited_by(report))


def _carries(knee: KneeEstimate, levels: int) -> Fact:
    term = "Carries"
    if knee.users is not None:
        bounds = "without an interval"
        if knee.low is not None and knee.high is not None:
            bounds = f"95 % interval {knee.low:.1f} to {knee.high:.1f}"
        return Fact(term, f"about {knee.users:.0f} concurrent streams", bounds)
    if knee.at_least is not None:
        known = f"at least {count(knee.at_least, 'concurrent stream')}"
        why = "more were not tried" if levels > 1 else "only this level was tried"
        if knee.side.ceiling is not None:
            why = "no queue up to there; what is beyond it could not be seen"
        return Fact(term, known, why)
    return Fact(term, "not known", knee.reason)


def _limited_by(report: RunReport) -> tuple[str, str]:
    knee = report.knee
    if knee.status not in _LIMITS:
        return "not known", "" if knee.users is None and knee.at_least is None else knee.reason
    value, detail = _LIMITS[knee.status]
    ceiling = knee.side.ceiling
    if knee.status is KneeStatus.NO_KNEE and knee.at_least is not None:
        return value, f"up to {count(knee.at_least, 'user')} {detail}"
    if ceiling is not None and ceiling.status is knee.status:
        return value, f"at {count(ceiling.users, 'user')} {ceiling.detail}"
    return value, detail


def _verdict(steps: list[dict[str, Any]], stage: int) -> str | None:
    return next((step["verdict"] for step in steps if step["stage"] == stage), None)


def _rate_facts(
    report: RunReport, steps: list[dict[str, Any]], there: StageRow | None
) -> Iterator[Fact]:
    if report.rate_limits is not None and report.rate_limits.answer is not None:
        yield Fact("Lets through", report.rate_limits.answer.sentence())
        return
    what = "not known" if there is None else load_words(there)
    yield Fact("Carries", what, "the highest rate at which no backlog grew")
    unstable = [step for step in steps if step["verdict"] == "unstable"]
    limited = next((row.limited_by for row in report.stages if row.limited_by), None)
    if limited is not None:
        yield Fact("Limited by", "a rate limit", limited)
    elif unstable:
        lowest = min(unstable, key=lambda step: step["rate_rps"])
        at = load_name(0, lowest["rate_rps"], lowest["rate_tokens_per_s"])
        yield Fact("Limited by", "the endpoint's own queue", f"at {at} a backlog grows")
    else:
        yield Fact("Limited by", "nothing that was met", "no step was unstable")


def _facts_at(report: RunReport, there: StageRow | None) -> Iterator[Fact]:
    if there is not None:
        yield _first_token(there)
        yield _speed(there)
    else:
        yield Fact("First token there", MISSING, "no level may be used")
        yield Fact("Tokens/s there", MISSING, "no level may be used")
    yield _cost(report, there)
    totals = report.totals
    yield Fact(
        "Requests",
        f"{totals.offered:,}",
        f"{totals.ok:,} ok ({share(totals.ok, totals.offered)}), {totals.failed:,} failed, "
        f"{totals.rate_limited_attempts:,} answered 429",
    )


def _first_token(row: StageRow) -> Fact:
    term = f"First token at {load_words(row)}"
    if not row.ttft.n:
        whole = row.e2e_latency
        return Fact(
            f"Whole answer at {load_words(row)}",
            f"{time_ms(whole.p50)} (p50)",
            f"p95 {_with_interval(whole, 'p95')}, n {whole.n:,}; no answer was streamed",
        )
    return Fact(
        term,
        f"{time_ms(row.ttft.p50)} (p50)",
        f"p95 {_with_interval(row.ttft, 'p95')}, n {row.ttft.n:,}",
    )


def _with_interval(found: Summary, quantile: str) -> str:
    text = time_ms(getattr(found, quantile))
    if f"{quantile}:few" in found.flags:
        text += " (too few samples)"
    if quantile in found.intervals:
        low, high = found.intervals[quantile]
        text += f" ({time_ms(low)} to {time_ms(high)})"
    return text


def _speed(row: StageRow) -> Fact:
    each = f"{number(1 / row.tpot.p50)} for each stream once it flows (p50)" if row.tpot.p50 else ""
    return Fact(
        f"Output at {load_words(row)}", f"{number(row.output_tokens_per_s, 0)} tokens/s", each
    )


def _cost(report: RunReport, there: StageRow | None) -> Fact:
    term = "Cost there" if there is None else f"Cost at {load_words(there)}"
    if report.cost is None:
        return Fact(term, "not known", "no price was given (--price-out or --gpu-hour-price)")
    sign = report.cost.prices.currency
    spent = ", ".join(
        f"this test {'at least ' if run.at_least else ''}{money(run.cost, sign)}"
        for run in report.cost.runs
    )
    found = [
        row
        for row in report.cost.rows
        if there is not None and row.stage == there.stage and row.per_m_out is not None
    ]
    if not found:
        return Fact(term, MISSING, spent)
    words = {CostKind.TOKENS: "by tokens", CostKind.GPU: "by GPU hours"}
    value = " · ".join(
        f"{money(row.per_m_out, sign)}{f' {words[row.kind]}' if len(found) > 1 else ''}"
        for row in found
    )
    return Fact(term, f"{value} per M output tokens", spent)
