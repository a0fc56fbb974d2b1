"""429s that no rate explains: a gateway's cooldown, a quota that is gone, a full server."""

import numpy as np

from metrics.limits_attempts import Attempts
from metrics.limits_result import LimiterKind, LimitEstimate
from metrics.limits_search import Fit
from metrics.limits_trail import Trail

QUOTA_S = 120.0
"""Twice the longest usual window: refused for longer, no window comes back."""
COOLDOWN_SHARE = 0.95
"""Share of the 429s that must follow a failure for them to be a cooldown's."""
COOLDOWN_NEAR_S = 2.0
"""Time between the last failure and the first 429 of a cooldown, at most."""
SLOWER = 0.5
"""Answers this much slower, per mean, at the cap than alone come from a line of waiting ones."""
SURE_T = 6.0
"""Standard errors by which they must be slower."""
FULL_AUC = 0.95
"""How well requests in flight must tell 429s from accepted ones for a server to be full."""


def quota_of(attempts: Attempts) -> LimitEstimate | None:
    """A limit that never gave way again, after all had been accepted before."""
    sent_s, limited = attempts.sent_s, attempts.limited
    first_s = float(sent_s[limited].min())
    last_s = float(sent_s[limited].max())
    accepted_s = sent_s[attempts.accepted]
    if accepted_s.size and float(accepted_s.max()) > first_s + COOLDOWN_NEAR_S:
        return None
    if last_s - first_s < QUOTA_S:
        return None
    evidence = (
        f"{int(limited.sum()):,} requests in {last_s - first_s:.0f} s were all refused after "
        f"{accepted_s.size:,} had been accepted: a quota is gone, or the window is longer."
    )
    return LimitEstimate(
        kind=LimiterKind.QUOTA, figure=None, low=None, high=None, evidence=evidence
    )


def cooldown_of(attempts: Attempts) -> LimitEstimate | None:
    """Spans of the same length in which all is refused, each after failures."""
    failed = ~attempts.accepted & ~attempts.limited & np.isfinite(attempts.ended_s)
    if not failed.any():
        return None
    failed_s = np.sort(attempts.ended_s[failed])
    order = np.argsort(attempts.sent_s, kind="stable")
    sent_s, limited = attempts.sent_s[order], attempts.limited[order]
    # A slow gateway may let a request lie for seconds before it refuses it.
    told_s = np.fmax(attempts.ended_s[order], sent_s)
    begins = np.flatnonzero(limited & ~np.concatenate(([False], limited[:-1])))
    ends = np.flatnonzero(limited & ~np.concatenate((limited[1:], [False])))
    place = np.searchsorted(failed_s, told_s[begins] + COOLDOWN_NEAR_S / 10, side="right")
    cause_s = np.where(place > 0, failed_s[np.maximum(place - 1, 0)], -np.inf)
    follows = told_s[begins] - cause_s <= COOLDOWN_NEAR_S
    # Requests that were on their way when it began or ended cut a span in pieces.
    again = np.zeros(begins.size, dtype=np.bool_)
    again[1:] = sent_s[begins[1:]] - sent_s[ends[:-1]] <= COOLDOWN_NEAR_S / 4
    caused = np.flatnonzero(follows & ~again)
    if not caused.size:
        return None
    last = np.append(caused[1:] - 1, begins.size - 1)
    inside = sum(
        int(limited[begins[a] : ends[b] + 1].sum()) for a, b in zip(caused, last, strict=True)
    )
    if inside < COOLDOWN_SHARE * limited.sum() or not (follows | again).all():
        return None
    least_s = sent_s[ends[last]] - cause_s[caused]
    after = np.minimum(ends[last] + 1, sent_s.size - 1)
    most_s = np.where(ends[last] + 1 < sent_s.size, sent_s[after] - cause_s[caused], np.inf)
    told = attempts.retry_after_s
    steady = told is not None and _steady(told[attempts.limited])
    if not steady and (caused.size < 2 or least_s.max() > most_s.min() + COOLDOWN_NEAR_S / 4):
        return None
    length_s = float(least_s.max())
    also = ", with the same Retry-After each time" if steady else ""
    return LimitEstimate(
        kind=LimiterKind.COOLDOWN,
        figure=None,
        low=None,
        high=None,
        window_s=length_s,
        evidence=f"{caused.size} spans of about {length_s:.0f} s in which all is refused, each "
        f"begins after failed requests{also}: a gateway rests its upstream, no rate is limited.",
    )


def _steady(told: np.ndarray) -> bool:
    known = told[np.isfinite(told)]
    return bool(known.size >= 0.9 * told.size and np.ptp(known) <= 1.0) if known.size else False


def waits_in_line(attempts: Attempts, fit: Fit) -> str | None:
    """Why a cap is rather a full queue: answers take longer the more are in flight."""
    rows = np.flatnonzero(attempts.accepted & np.isfinite(attempts.ended_s))
    begin_s, end_s = attempts.sent_s[rows], attempts.ended_s[rows]
    taken_s = end_s - begin_s
    if rows.size < 30 or taken_s.mean() <= 0:
        return None
    in_flight = np.searchsorted(np.sort(begin_s), begin_s) - np.searchsorted(
        np.sort(end_s), begin_s
    )
    share = in_flight / fit.figure
    columns = [np.ones(rows.size), share]
    if attempts.completion_tokens is not None:
        tokens = attempts.completion_tokens[rows]
        if np.isfinite(tokens).all() and np.ptp(tokens) > 0:
            columns.append(tokens / tokens.mean())
    if np.ptp(share) < 0.3:
        return None
    matrix = np.column_stack(columns)
    found, *_ = np.linalg.lstsq(matrix, taken_s, rcond=None)
    left = taken_s - matrix @ found
    variance = float(left @ left) / max(1, rows.size - matrix.shape[1])
    error = float(np.sqrt(variance * np.linalg.pinv(matrix.T @ matrix)[1, 1]))
    slower = float(found[1])
    if slower < SLOWER * taken_s.mean() or slower < SURE_T * error:
        return None
    return (
        f"answers take {slower:.2f} s longer at {fit.figure:.0f} in flight than alone: "
        "a line is full, no limiter"
    )


def full_server_of(trail: Trail, in_flight: np.ndarray) -> LimitEstimate | None:
    """A server that refuses at many requests in flight, without a steady number."""
    refused, taken = np.sort(in_flight[~trail.accepted]), in_flight[trail.accepted]
    above = np.searchsorted(refused, taken, side="right") + np.searchsorted(refused, taken)
    auc = 1 - float(above.mean()) / (2 * refused.size)
    if auc < FULL_AUC:
        return None
    low, middle, high = np.quantile(refused, (0.1, 0.5, 0.9)) - 1
    return LimitEstimate(
        kind=LimiterKind.OVERLOAD,
        figure=float(middle),
        low=float(low),
        high=float(high),
        evidence=f"429s come at {low:.0f} to {high:.0f} requests in flight and seldom at fewer "
        f"(AUC {auc:.2f}), but at no steady number: a full server, no limiter.",
    )
