"""What the rate-limit headers say, held against the traffic."""

from dataclasses import dataclass, replace

import numpy as np

from metrics.limits_attempts import Attempts, Floats
from metrics.limits_result import LimiterKind, LimitEstimate, LimitSource

STEADY_SHARE = 0.9
"""Share of the answers that must name the same limit."""
SPENT_SHARE = 0.8
"""Share of the 429s that must say that nothing is left."""
AGREE = 0.1
"""Relative difference up to which headers and traffic say the same."""
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """One limit as the headers tell it."""

    quantity: str
    limit: float
    """Requests or tokens, of a minute unless the traffic shows another window."""
    spent: bool
    """Nothing, or less than was asked for, was left at the 429s."""


def told_limits(attempts: Attempts) -> tuple[Told, ...]:
    """The limits that the headers name steadily."""
    found = []
    for quantity, limit, remaining in (
        ("requests", attempts.limit_requests, attempts.remaining_requests),
        ("tokens", attempts.limit_tokens, attempts.remaining_tokens),
    ):
        if limit is None or not np.isfinite(limit).any():
            continue
        values, counts = np.unique(limit[np.isfinite(limit)], return_counts=True)
        most = int(np.argmax(counts))
        if counts[most] >= STEADY_SHARE * counts.sum() and values[most] > 0:
            spent = _spent(attempts, quantity, remaining)
            found.append(Told(quantity, float(values[most]), spent))
    return tuple(found)


def _spent(attempts: Attempts, quantity: str, remaining: Floats | None) -> bool:
    if remaining is None:
        return False
    if not np.isfinite(remaining[attempts.limited]).any():
        remaining = _last_told(attempts, remaining)
    known = attempts.limited & np.isfinite(remaining)
    if not known.any():
        return False
    least = np.ones(len(attempts))
    asked = attempts.asked_max_tokens
    if quantity == "tokens" and asked is not None:
        prompt = attempts.prompt_tokens
        cost = asked + (0 if prompt is None else np.nan_to_num(prompt))
        least = np.fmax(least, cost)
    return bool((remaining < least)[known].mean() >= SPENT_SHARE)


def _last_told(attempts: Attempts, values: Floats) -> Floats:
    """What the answer to the last attempt before each said: some gateways' 429s say nothing."""
    order = np.argsort(attempts.sent_s, kind="stable")
    sorted_values = values[order]
    place = np.maximum.accumulate(np.where(np.isfinite(sorted_values), np.arange(order.size), 0))
    told = np.empty(order.size)
    told[order] = sorted_values[place]
    return told


def with_headers(estimate: LimitEstimate, told: tuple[Told, ...]) -> LimitEstimate:
    """The traffic's estimate, and whether the headers say the same."""
    quantity, figure = estimate.kind.quantity, estimate.figure
    same = [one for one in told if one.quantity == quantity]
    if not same or figure is None:
        spent = [one for one in told if one.spent and one.quantity != quantity]
        if not spent or quantity is None:
            return estimate
        words = f" The headers disagree: they say that the {spent[0].quantity} were spent."
        return replace(estimate, evidence=estimate.evidence + words)
    limit = same[0].limit
    burst, window_s = estimate.burst, estimate.window_s
    in_window = burst is not None and window_s is not None and _agree(limit, burst)
    if in_window or _agree(limit, figure):
        return _confirmed(estimate, limit, in_window)
    if burst is not None and window_s is None and _agree(limit, burst):
        words = f" The headers name the burst, {limit:,.0f}, and not the rate."
        return replace(estimate, source=LimitSource.BOTH, evidence=estimate.evidence + words)
    words = (
        f" The headers disagree: they name {limit:,.0f} {quantity}, "
        f"the traffic shows {figure:,.0f} a minute."
    )
    return replace(estimate, evidence=estimate.evidence + words)


def _agree(told: float, seen: float) -> bool:
    return abs(told - seen) <= AGREE * seen


def _confirmed(estimate: LimitEstimate, limit: float, in_window: bool) -> LimitEstimate:
    """The figure that the headers name: others' requests, which are not seen, hide a few of it."""
    figure, burst = limit, estimate.burst
    if in_window and estimate.window_s is not None:
        figure, burst = limit * MINUTE_S / estimate.window_s, limit
    low, high = estimate.low, estimate.high
    name = "the same limit, " if figure == estimate.figure else "about the same limit, "
    return replace(
        estimate,
        figure=figure,
        burst=burst,
        low=None if low is None else min(low, figure),
        high=None if high is None else max(high, figure),
        source=LimitSource.BOTH,
        evidence=f"{estimate.evidence} The headers name {name}{limit:,.0f}.",
    )


def from_headers(attempts: Attempts, told: Told, why: str) -> LimitEstimate:
    """An estimate by headers alone; unknown when more passed than they allow."""
    passed = _most_passed(attempts, told.quantity)
    if passed > 2 * told.limit * (1 + AGREE):
        return LimitEstimate(
            kind=LimiterKind.UNKNOWN,
            figure=None,
            low=None,
            high=None,
            evidence=f"{why} The headers name {told.limit:,.0f} {told.quantity}, which disagrees "
            f"with the traffic: {passed:,.0f} passed within one minute.",
        )
    kind = LimiterKind.REQUESTS_FIXED if told.quantity == "requests" else LimiterKind.TOKENS_FIXED
    met = "and nothing was left at the 429s" if told.spent else "but no 429 shows it"
    return LimitEstimate(
        kind=kind,
        figure=told.limit,
        low=told.limit,
        high=told.limit,
        source=LimitSource.HEADERS,
        evidence=f"{why} The headers name {told.limit:,.0f} {told.quantity}, {met}; "
        "that it is for a minute, and the kind of window, are assumed.",
    )


def _most_passed(attempts: Attempts, quantity: str) -> float:
    """Most units accepted within any minute."""
    order = np.argsort(attempts.sent_s)
    order = order[attempts.accepted[order]]
    if not order.size:
        return 0.0
    units = np.ones(order.size)
    if quantity == "tokens":
        parts = (attempts.prompt_tokens, attempts.completion_tokens)
        units = np.asarray(
            sum(np.nan_to_num(part[order]) for part in parts if part is not None)
            + np.zeros(order.size)
        )
    total = np.concatenate(([0.0], np.cumsum(units)))
    begin = np.searchsorted(attempts.sent_s[order], attempts.sent_s[order] - MINUTE_S)
    return float((total[1:] - total[begin]).max())
