"""One limiter that explains all 429s, or why none is named."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from metrics.limits_attempts import Attempts
from metrics.limits_result import Charge, LimiterKind
from metrics.limits_rivals import rivals_of
from metrics.limits_search import Fit, all_fits
from metrics.limits_trail import Trail, trail_of

RUNS_MIN = 2
"""Runs of 429s below which nothing is said from traffic."""
MISFIT_MAX = 0.08
"""Share of the accepted, and of the refused, that may disagree with a consistent kind."""
SAME = 0.1
"""Relative difference up to which two figures are one."""
NAMES = {
    LimiterKind.REQUESTS_FIXED: "a fixed window of requests",
    LimiterKind.REQUESTS_SLIDING: "a sliding window of requests",
    LimiterKind.REQUESTS_BUCKET: "a token bucket of requests",
    LimiterKind.TOKENS_FIXED: "a fixed window of tokens",
    LimiterKind.TOKENS_SLIDING: "a sliding window of tokens",
    LimiterKind.TOKENS_BUCKET: "a bucket of tokens",
    LimiterKind.CONCURRENCY: "a cap on requests at once",
}
CHARGED = {
    Charge.ASKED: ", charged by prompt and asked maximum",
    Charge.USED: ", charged by prompt and completion when the answer is over",
}


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The kinds that explain the attempts, the best first; none, and why, when undecided."""

    trail: Trail
    rivals: tuple[Fit, ...]
    why: str
    inconsistent: bool = False
    """No single kind explains the 429s."""


def decided(attempts: Attempts, spent: Collection[str] = ()) -> Decision:
    """Try every kind on attempts of which some were accepted and some limited.

    ``spent`` are the quantities that the headers say were used up.
    """
    trail = trail_of(attempts)
    if not trail.resumed_s.size or trail.runs < RUNS_MIN:
        span_s = trail.last_s - trail.first_refused_s
        why = f"Refused for {span_s:.1f} s to the end: when requests pass again is not seen."
        return Decision(trail, (), why)
    fits = [fit for fit in all_fits(trail) if _consistent(trail, fit)]
    if spent:
        fits = [fit for fit in fits if fit.kind.quantity in spent] or fits
    if not fits:
        return Decision(trail, (), "No single kind of limit explains the 429s.", True)
    rivals = rivals_of(attempts, trail, fits)
    other = _other_figure(rivals)
    if other is not None:
        return Decision(trail, (), _undecided(rivals[0], other))
    if not _sharp(rivals[0]):
        return Decision(trail, (), _blurred(rivals[0]))
    return Decision(trail, tuple(rivals), "")


def _consistent(trail: Trail, fit: Fit) -> bool:
    accepted = int(trail.accepted.sum())
    refused = trail.accepted.size - accepted
    # One disagreement is allowed to the smallest of runs: two requests may pass each other.
    over = fit.threshold.accepted_over <= max(1, MISFIT_MAX * accepted)
    return over and fit.threshold.refused_under <= max(1, MISFIT_MAX * refused)


def _other_figure(rivals: Sequence[Fit]) -> Fit | None:
    best = rivals[0]
    for fit in rivals[1:]:
        same = fit.kind.quantity == best.kind.quantity and fit.charge == best.charge
        if not same or abs(fit.figure - best.figure) > SAME * best.figure:
            return fit
    return None


def _sharp(fit: Fit) -> bool:
    if not np.isfinite(fit.high):
        return False
    if fit.kind is LimiterKind.CONCURRENCY:
        return fit.high - fit.low <= max(1.0, 2 * SAME * fit.figure)
    return fit.high - fit.low <= 2 * SAME * fit.figure


def said(fit: Fit) -> str:
    window = f" of {fit.window_s:g} s" if fit.window_s else ""
    unit = "at once" if fit.kind is LimiterKind.CONCURRENCY else f"{fit.kind.quantity} a minute"
    charged = CHARGED.get(fit.charge, "") if fit.charge else ""
    return f"{NAMES[fit.kind]}{window}{charged} ({fit.figure:,.0f} {unit})"


def _undecided(best: Fit, other: Fit) -> str:
    missing = "more, or other, traffic is needed"
    if {best.kind.quantity, other.kind.quantity} == {"requests", "tokens"}:
        missing = "requests that differ more in length would tell the two apart"
    return f"The traffic fits {said(best)} and {said(other)}: {missing}."


def _blurred(fit: Fit) -> str:
    high = f"{fit.high:,.0f}" if np.isfinite(fit.high) else "any"
    return f"The traffic fits {said(fit)}, but anything from {fit.low:,.0f} to {high} as well."
