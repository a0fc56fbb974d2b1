"""Rate limits as people read them, and as plain values."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from metrics.limits_result import LimiterKind, LimitEstimate
from reports.loads import load_size
from reports.rate_limits import AskedWait, RateLimits
from reports.refusals import Cause, Faces
from reports.stage_loads import StageLoad
from reports.wording import MISSING, count, number, time_ms

LIMITED_SHARE = 0.05
"""Share of a stage's attempts answered 429 from which it is called rate-limited."""
FLAT = 1.5
"""First tokens up to so many times as late as below the limit came as before."""
LOAD_COLUMNS = (
    "load",
    "attempts",
    "accepted",
    "answered 429",
    "share",
    "accepted/s",
    "shed/s",
    "tokens accepted/s",
    "TTFT p50",
    "bound by",
)
FOUND_COLUMNS = ("limit", "figure", "could be", "burst", "from", "evidence")
_KINDS = {
    LimiterKind.REQUESTS_FIXED: "fixed window of requests",
    LimiterKind.REQUESTS_SLIDING: "sliding window of requests",
    LimiterKind.REQUESTS_BUCKET: "token bucket of requests",
    LimiterKind.TOKENS_FIXED: "fixed window of tokens",
    LimiterKind.TOKENS_SLIDING: "sliding window of tokens",
    LimiterKind.TOKENS_BUCKET: "bucket of tokens",
    LimiterKind.CONCURRENCY: "cap on requests at once",
    LimiterKind.OVERLOAD: "full server",
    LimiterKind.COOLDOWN: "a gateway's cooldown",
    LimiterKind.QUOTA: "a quota that is used up",
    LimiterKind.UNKNOWN: "unknown",
}
_BUCKETS = (LimiterKind.REQUESTS_BUCKET, LimiterKind.TOKENS_BUCKET)
_NO_RATE = {
    LimiterKind.CONCURRENCY: Cause.IN_FLIGHT_CAP,
    LimiterKind.OVERLOAD: Cause.OVERLOADED,
    LimiterKind.COOLDOWN: Cause.COOLDOWN,
    LimiterKind.QUOTA: Cause.QUOTA,
}
"""What answers 429 and limits no rate."""
_HEADER_WORDS = {
    "limit_requests": "{:,.0f} requests",
    "remaining_requests": "{:,.0f} requests left",
    "limit_tokens": "{:,.0f} tokens",
    "remaining_tokens": "{:,.0f} tokens left",
    "reset_s": "reset in {:,.3g} s",
}


def limit_sentences(limits: RateLimits) -> tuple[str, ...]:
    """From where on the run was rate-limited, by which limit, and what the refusals say."""
    answer = limits.answer
    found = [
        None if answer is None else answer.sentence(),
        _limited_sentence(limits.loads, limits.faces, answer is not None),
        *map(_found_sentence, limits.found),
    ]
    if limits.published:
        found.append(f"Last told by the rate-limit headers: {_published(limits)}.")
    found.append(_wait_sentence(limits.asked_wait))
    return (*(sentence for sentence in found if sentence), *limits.faces.sentences())


def _limited_sentence(loads: Sequence[StageLoad], faces: Faces, searched: bool) -> str | None:
    """A rate limit shows as 429s while the attempts that pass are served as before.

    The first tokens are the attempts' own: a wait before a retry does not make them late. Where
    the limit was ``searched``, its own sentence says from where on, and only doubts are told here.
    """
    order = sorted((load for load in loads if load.attempts), key=_size)
    over = next((load for load in order if load.limited_share > LIMITED_SHARE), None)
    if over is None:
        return None
    text = f"{over.limited_share:.0%} of the attempts were answered 429"
    cause = _no_rate(over, faces)
    if cause is not None:
        return f"From {over.load} on {text}, by {cause.value}: that is no rate limit."
    below = [
        load.ttft_p50_s
        for load in order
        if _size(load) < _size(over) and load.ttft_p50_s is not None
    ]
    now_s = over.ttft_p50_s
    if not below or now_s is None:
        return None if searched else f"Rate-limited from {over.load} on: {text}."
    least_s = min(below)
    times = f"{time_ms(now_s)} against {time_ms(least_s)} below, p50"
    if now_s <= FLAT * least_s and searched:
        return None
    if now_s <= FLAT * least_s:
        as_before = f"while first tokens came as before ({times})"
        return f"Rate-limited from {over.load} on: {text}, {as_before}."
    return (
        f"From {over.load} on {text}, and first tokens came later ({times}): what refuses may be a "
        "full endpoint rather than a rate limit."
    )


def _no_rate(load: StageLoad, faces: Faces) -> Cause | None:
    """What answered 429 if it was no rate limiter: by the limit found, else by its own words."""
    estimate = None if load.bound is None else load.bound.estimate
    if estimate is not None:
        return _NO_RATE.get(estimate.kind)
    causes = {row.cause for row in faces.rows if row.status == 429}
    cause = causes.pop() if len(causes) == 1 and not faces.unnamed_429s else None
    return cause if cause in _NO_RATE.values() else None


def _wait_sentence(asked: AskedWait) -> str | None:
    if not asked.refused:
        return None
    if asked.p50_s is None or asked.longest_s is None:
        return f"No refusal had a Retry-After header ({count(asked.refused, 'refused request')})."
    longest = "" if asked.longest_s == asked.p50_s else f" (p50), {asked.longest_s:,.3g} s at most"
    return (
        f"Asked to wait by the refusals' headers: {asked.p50_s:,.3g} s{longest}, told to "
        f"{asked.told:,} of {count(asked.refused, 'refused request')}."
    )


def _size(load: StageLoad) -> float:
    return load_size(load.users, load.rate_rps, load.rate_tokens_per_s)


def _found_sentence(estimate: LimitEstimate) -> str:
    if estimate.kind is LimiterKind.UNKNOWN:
        return f"No limit can be named: {estimate.evidence}"
    if estimate.kind in _NO_RATE and estimate.kind is not LimiterKind.CONCURRENCY:
        return f"No rate limit found: {estimate.evidence}"
    burst = ""
    if estimate.kind in _BUCKETS and estimate.burst is not None:
        burst = f" with a burst of {estimate.burst:,.0f}"
    return f"Limit found: {_figure(estimate)}{burst}. {estimate.evidence}"


def _kind(estimate: LimitEstimate) -> str:
    fixed = estimate.window_s is not None and estimate.kind.quantity in ("requests", "tokens")
    window = f" of {estimate.window_s:g} s" if fixed else ""
    return f"{_KINDS[estimate.kind]}{window}"


def _figure(estimate: LimitEstimate) -> str:
    return MISSING if estimate.figure is None else f"{estimate.figure:,.0f} {_unit(estimate)}"


def _unit(estimate: LimitEstimate) -> str:
    quantity = estimate.kind.quantity
    return "at once" if quantity == "concurrency" else f"{quantity} a minute"


def _published(limits: RateLimits) -> str:
    words = _HEADER_WORDS
    return ", ".join(words[name].format(value) for name, value in limits.published.items())


def load_table(limits: RateLimits) -> tuple[tuple[str, ...], ...]:
    """The stages' rows as text under ``LOAD_COLUMNS``."""
    return tuple(
        (
            load.load,
            f"{load.attempts:,}",
            f"{load.accepted:,}",
            f"{load.limited:,}",
            f"{load.limited_share:.1%}",
            number(load.accepted_per_s, 2),
            number(load.shed_per_s, 2),
            number(load.accepted_tokens_per_s, 0),
            time_ms(load.ttft_p50_s),
            _bound(load),
        )
        for load in limits.loads
    )


def limited_by(load: StageLoad) -> str | None:
    """What answered 429 in a stage, as a remark; None when next to nothing did."""
    if load.bound is None:
        return None
    estimate = load.bound.estimate
    if estimate is None:
        over = load.limited_share > LIMITED_SHARE
        return f"{load.limited_share:.0%} answered 429, by no known limit" if over else None
    if estimate.kind is LimiterKind.CONCURRENCY:
        return f"limited by a cap of {_figure(estimate)}"
    cause = _NO_RATE.get(estimate.kind)
    if cause is not None:
        return f"answered 429 by {cause.value}"
    return f"rate-limited by {_kind(estimate) if estimate.figure is None else _figure(estimate)}"


def _bound(load: StageLoad) -> str:
    if load.bound is None:
        return ""
    estimate = load.bound.estimate
    return load.bound.evidence if estimate is None else _kind(estimate)


def found_table(limits: RateLimits) -> tuple[tuple[str, ...], ...]:
    """The limits' rows as text under ``FOUND_COLUMNS``."""
    return tuple(
        (
            _kind(one),
            _figure(one),
            "" if one.low is None or one.high is None else f"{one.low:,.0f} to {one.high:,.0f}",
            "" if one.burst is None else f"{one.burst:,.0f}",
            one.source.value,
            one.evidence,
        )
        for one in limits.found
    )


def limit_values(limits: RateLimits) -> dict[str, Any]:
    """Plain values for ``summary.json``: times in seconds, shares as 0-1, limits per minute."""
    return {
        "bucket_s": limits.bucket_s,
        "buckets": [{**asdict(one), "ratio": one.ratio} for one in limits.buckets],
        "stages": [_load_values(load) for load in limits.loads],
        "found": [_estimate_values(one) for one in limits.found],
        "published": dict(limits.published),
        "asked_wait": asdict(limits.asked_wait),
        "refusals": [
            {
                "cause": row.cause.name.lower(),
                "status": row.status,
                "error_code": row.error_code,
                "count": row.count,
            }
            for row in limits.faces.rows
        ],
        "refusals_429_untold": limits.faces.unnamed_429s,
        "bracket": None if limits.answer is None else limits.answer.values(),
        "clock_note": limits.clock_note,
    }


def _load_values(load: StageLoad) -> dict[str, Any]:
    bound = load.bound
    values = {name: value for name, value in asdict(load).items() if name != "bound"}
    values["limited_share"] = load.limited_share
    values["bound"] = None
    if bound is not None:
        values["bound"] = {
            "kind": None if bound.estimate is None else bound.estimate.kind.value,
            "refused": bound.refused,
            "explained": bound.explained,
            "evidence": bound.evidence,
        }
    return values


def _estimate_values(estimate: LimitEstimate) -> dict[str, Any]:
    values = asdict(estimate)
    for name in ("kind", "charge", "source"):
        value = values[name]
        values[name] = None if value is None else value.value
    # A figure that no traffic bounds from above has no upper end; JSON knows no infinity.
    for name in ("figure", "low", "high", "burst", "window_s", "phase_s"):
        value = values[name]
        values[name] = value if value is not None and abs(value) != float("inf") else None
    return values
