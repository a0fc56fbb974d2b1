"""The ledger as people read it, and as plain values."""

from typing import Any

from metrics.statistics import Summary
from reports.ledger import Ledger, LedgerRow
from reports.wording import MISSING, count, number, share, time_ms

STORM = 1.5
"""Attempts per sent request above which retries are a load of their own."""
LEDGER_COLUMNS = (
    "load",
    "planned",
    "ok",
    "failed",
    "cancelled",
    "not sent",
    "attempts",
    "429s",
    "retried",
    "then ok",
    "attempts per request",
    "retry wait mean",
    "p95",
    "of users' time",
    "most asked for",
    "wasted output tokens",
    "wasted prompt tokens",
    "attempt's TTFT p50",
    "p95",
    "users' TTFT p50",
    "p95",
    "no TTFT",
    "gave up",
)
_PAGE_ALONE = {"p95", "most asked for", "attempt's TTFT p50", "no TTFT", "gave up"}
SHORT_COLUMNS = tuple(name for name in LEDGER_COLUMNS if name not in _PAGE_ALONE)
"""Those that a terminal has room for; the page has all."""


def ledger_sentences(ledger: Ledger) -> tuple[str, ...]:
    """That the books do not agree, what retries did for users, and whether they were a storm."""
    found = [f"The books do not agree: {fault}." for fault in ledger.faults]
    total = ledger.total
    if total.retried:
        found.append(_retry_sentence(total))
    storm = _storm(ledger)
    return (*found, storm) if storm is not None else tuple(found)


def _retry_sentence(total: LedgerRow) -> str:
    verb = "was" if total.retried == 1 else "were"
    text = (
        f"{count(total.retried, 'request')} of {total.planned:,} {verb} sent again, "
        f"{total.ok_after_retry:,} of them then ok"
    )
    if total.retry_wait_share:
        text += f"; pauses before retries are {total.retry_wait_share:.0%} of what users waited"
    if total.user_ttft.n:
        text += (
            f"; the first token came {time_ms(total.attempt_ttft.p95)} after the last sending and "
            f"{time_ms(total.user_ttft.p95)} after it was wanted (p95)"
        )
    return text + "."


def _storm(ledger: Ledger) -> str | None:
    """Of the whole run, or of its worst stage when the others hide it."""
    rows = [row for row in (ledger.total, *ledger.rows) if (row.amplification or 0) > STORM]
    if not rows:
        return None
    row = rows[0] if rows[0] is ledger.total else max(rows, key=lambda r: r.amplification or 0)
    part, how = row.refused_attempts, "was refused"
    if not part:
        part, how = row.attempts - row.ok, "brought no answer"
    where = "" if row is ledger.total else f"at {row.load} "
    return (
        f"Retry storm: {where}each request became {number(row.amplification)} attempts; "
        f"{share(part, row.attempts)} of what was sent {how}."
    )


def ledger_table(ledger: Ledger) -> tuple[tuple[str, ...], ...]:
    """The rows as text under ``LEDGER_COLUMNS``, the total last."""
    return tuple(_cells(row) for row in (*ledger.rows, ledger.total))


def short_table(ledger: Ledger) -> tuple[tuple[str, ...], ...]:
    """The same rows under ``SHORT_COLUMNS``."""
    places = [LEDGER_COLUMNS.index(name) for name in SHORT_COLUMNS]
    return tuple(tuple(row[place] for place in places) for row in ledger_table(ledger))


def _cells(row: LedgerRow) -> tuple[str, ...]:
    ttft = row.user_ttft
    return (
        row.load,
        f"{row.planned:,}",
        f"{row.ok:,}",
        f"{row.failed:,}",
        f"{row.cancelled:,}",
        f"{row.not_sent:,}",
        f"{row.attempts:,}",
        f"{row.rate_limited_attempts:,}",
        f"{row.retried:,}",
        f"{row.ok_after_retry:,}",
        number(row.amplification, 2),
        time_ms(row.retry_wait_mean_s),
        time_ms(row.retry_wait_p95_s),
        _percent(row.retry_wait_share),
        time_ms(row.asked_wait_max_s),
        _wasted(row.wasted_tokens, row.wasted_tokens_ratio),
        _wasted_prompts(row),
        *(_quantile(row.attempt_ttft, name) for name in ("p50", "p95")),
        *(_quantile(ttft, name) for name in ("p50", "p95")),
        share(ttft.failed, ttft.n + ttft.failed),
        "; ".join(f"{reason} ({n:,})" for reason, n in row.gave_up.items()),
    )


def _quantile(summary: Summary, name: str) -> str:
    """With the same of all requests behind it, whose failures count as longer than any answer."""
    text = time_ms(getattr(summary, name)) + ("*" if f"{name}:few" in summary.flags else "")
    if name not in summary.adjusted:
        return text
    adjusted_s = summary.adjusted[name]
    return f"{text} ({'> max' if adjusted_s is None else time_ms(adjusted_s)})"


def _wasted(tokens: int, ratio: float | None) -> str:
    return f"{tokens:,}" + (f" ({ratio:.1%})" if tokens and ratio is not None else "")


def _wasted_prompts(row: LedgerRow) -> str:
    tokens = row.wasted_prompt_estimate
    if tokens is None:
        return MISSING
    return ("about " if row.untold_attempts else "") + _wasted(
        round(tokens), row.wasted_prompt_ratio
    )


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1%}"


def ledger_values(ledger: Ledger) -> dict[str, Any]:
    """Plain values for ``summary.json``: times in seconds, shares and ratios as 0-1."""
    return {
        "stages": [_values(row) for row in ledger.rows],
        "total": _values(ledger.total),
        "balanced": not ledger.faults,
    }


def _values(row: LedgerRow) -> dict[str, Any]:
    plain = {name: getattr(row, name) for name in _PLAIN}
    return {
        **plain,
        "gave_up": dict(row.gave_up),
        "attempt_ttft": _times(row.attempt_ttft),
        "user_ttft": _times(row.user_ttft),
        "faults": list(row.faults),
    }


def _times(summary: Summary) -> dict[str, Any]:
    return {
        "n": summary.n,
        "p50": summary.p50,
        "p95": summary.p95,
        "failed": summary.failed,
        "failure_adjusted": {name: summary.adjusted.get(name) for name in ("p50", "p95")}
        if summary.adjusted
        else {},
    }


_PLAIN = (
    "stage",
    "load",
    "planned",
    "ok",
    "failed",
    "cancelled",
    "not_sent",
    "sent",
    "attempts",
    "rate_limited_attempts",
    "refused_attempts",
    "retried",
    "ok_after_retry",
    "amplification",
    "retry_wait_s",
    "retry_wait_mean_s",
    "retry_wait_p95_s",
    "retry_wait_share",
    "asked_wait_max_s",
    "useful_tokens",
    "useful_prompt_tokens",
    "wasted_tokens",
    "wasted_tokens_ratio",
    "wasted_prompt_tokens",
    "untold_attempts",
    "wasted_prompt_estimate",
    "wasted_prompt_ratio",
)
