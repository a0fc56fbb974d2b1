"""What the limiter is, from outside: which limits explain the 429s of a run.

A limiter never accepts more than its limit, and refuses only when the limit is used up. So a kind
of limiter with its figures is consistent when every accepted attempt found room in it and every
429 found none. Every kind is tried; a figure is said when those that are consistent agree on it.
"""

from collections.abc import Sequence

from metrics.limits_attempts import Attempts
from metrics.limits_bound import what_bound
from metrics.limits_decide import Decision, decided, said
from metrics.limits_headers import Told, from_headers, told_limits, with_headers
from metrics.limits_models import in_flight_fill
from metrics.limits_other import cooldown_of, full_server_of, quota_of, waits_in_line
from metrics.limits_pairs import two_limits
from metrics.limits_result import LimiterKind, LimitEstimate

__all__ = ["limits_found", "what_bound"]

REFUSED_MIN = 10
"""429s below which nothing is said from traffic."""
LEFT_MIN = 5
LEFT_SHARE = 0.02
"""Number and share of the judged 429s without an explanation, from which a second is looked for."""


def limits_found(attempts: Attempts) -> tuple[LimitEstimate, ...]:
    """The limits that explain the 429s; one of kind ``UNKNOWN`` that says why when none does."""
    told = told_limits(attempts)
    few = _too_little(attempts)
    if few is not None:
        return _by_headers(attempts, told, few)
    for other in (cooldown_of(attempts), quota_of(attempts)):
        if other is not None:
            return (other,)
    decision = decided(attempts, {one.quantity for one in told if one.spent})
    if decision.inconsistent or _leaves_some(decision):
        both = two_limits(attempts, decision.trail)
        if both:
            return tuple(with_headers(_estimate(attempts, one, len(both)), told) for one in both)
    if decision.rivals:
        return (with_headers(_estimate(attempts, decision), told),)
    if decision.inconsistent:
        full = None
        if not told:
            full = full_server_of(decision.trail, in_flight_fill(decision.trail)[1])
        if full is not None:
            return (full,)
    return _by_headers(attempts, told, decision.why)


def _leaves_some(decision: Decision) -> bool:
    """Whether 429s are left that may be a second limiter's."""
    if not decision.rivals:
        return False
    left = decision.rivals[0].threshold.refused_under
    return left >= LEFT_MIN and left > LEFT_SHARE * int((~decision.trail.accepted).sum())


def _too_little(attempts: Attempts) -> str | None:
    refused, accepted = int(attempts.limited.sum()), int(attempts.accepted.sum())
    if not refused:
        return "No request was refused with 429."
    if refused < REFUSED_MIN:
        return f"Only {refused} 429s; {REFUSED_MIN} are needed."
    if accepted or cooldown_of(attempts) is not None:
        return None
    return f"{refused} requests were answered 429, none was accepted."


def _by_headers(attempts: Attempts, told: Sequence[Told], why: str) -> tuple[LimitEstimate, ...]:
    named = [one for one in told if one.spent] or list(told)
    if named:
        return tuple(from_headers(attempts, one, why) for one in named)
    return (
        LimitEstimate(kind=LimiterKind.UNKNOWN, figure=None, low=None, high=None, evidence=why),
    )


def _estimate(attempts: Attempts, decision: Decision, limits: int = 1) -> LimitEstimate:
    fit, judged = decision.rivals[0], decision.trail.accepted.size
    evidence = f"{said(fit)} agrees with {judged - fit.errors:,} of {judged:,} attempts judged"
    evidence = evidence[0].upper() + evidence[1:]
    evidence += ", the other limit's 429s left out." if limits > 1 else "."
    also = [other for other in decision.rivals[1:] if other.kind is not fit.kind]
    if also:
        words = said(also[0])
        evidence += f" {words[0].upper()}{words[1:]} would explain them too."
    kind = fit.kind
    if kind is LimiterKind.CONCURRENCY:
        line = waits_in_line(attempts, fit)
        if line is not None:
            kind, evidence = LimiterKind.OVERLOAD, f"{evidence} But {line}."
    return LimitEstimate(
        kind=kind,
        figure=fit.figure,
        low=fit.low,
        high=fit.high,
        burst=fit.burst,
        window_s=fit.window_s,
        phase_s=fit.phase_s,
        opened_by_first=fit.opened,
        charge=fit.charge,
        evidence=evidence,
    )
