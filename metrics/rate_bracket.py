"""Between which rates a limit lies, as the steps of ``--shape limits`` showed it.

A burst can carry a rate for a while that the limit does not. So a step that passes says something
only when the one before it was limited, which leaves no burst.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from metrics.limits_attempts import Attempts
from metrics.limits_result import Charge, LimitEstimate

REFUSED_MIN = 5
"""429s of a step from which it is limited."""
REFUSED_SHARE = 0.05
"""Their share, from the first one on, above which it is limited: workers' clocks jitter."""
NARROW = 1.25
"""Upper over lower rate at which the bracket is narrow enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStep:
    """One step and what became of its attempts. All steps' rates are in one unit per second."""

    rate: float
    """Offered: requests/s, or nominal tokens/s."""
    attempts: int
    """From the first accepted one on: what came before met what earlier steps had used up."""
    refused: int
    """429s among them."""
    limited: bool
    """The 429s lasted."""
    shut: bool = False
    """After its first 429 next to nothing passed."""
    passed_rps: float | None = None
    """Accepted requests/s from its first 429 on; None when too few to say."""
    whole: bool = True
    """It was held as long as it was meant to be, or until it was limited."""

    @property
    def passed_rate(self) -> float:
        """The rate that was accepted, in the rate's unit."""
        return self.rate * (1 - self.refused / self.attempts) if self.attempts else 0.0


@dataclass(frozen=True, slots=True)
class RateBracket:
    """The limit lies above ``low`` and below ``high``, per second; None where it is not known."""

    low: float | None
    high: float | None

    @property
    def narrow(self) -> bool:
        """Whether both are known and near each other."""
        if self.low is None or self.high is None:
            return False
        # The steps are a tenth off the estimate on either side: rounding must not matter.
        return self.high <= NARROW * self.low * (1 + 1e-9)


def limit_step(rate: float, rate_rps: float, attempts: Attempts, whole: bool = True) -> LimitStep:
    """One step from its attempts. ``rate_rps`` is its mean rate in requests/s.

    Attempts not answered yet are unknown here, and 429s are answered at once. So the share is taken
    of what was offered by then, at least.
    """
    order = np.argsort(attempts.sent_s, kind="stable")
    sent_s = attempts.sent_s[order]
    accepted, limited = attempts.accepted[order], attempts.limited[order]
    if not accepted.any():
        # Nothing passed at all: perhaps something else had used the limit up.
        return LimitStep(
            rate=rate, attempts=0, refused=0, limited=False, shut=bool(limited.any()), whole=whole
        )
    since = int(np.argmax(accepted))
    sent_s, accepted, limited = sent_s[since:], accepted[since:], limited[since:]
    refused = int(limited.sum())
    if not refused:
        return LimitStep(rate=rate, attempts=sent_s.size, refused=0, limited=False, whole=whole)
    first = int(np.argmax(limited))
    offered = max(sent_s.size - first, rate_rps * float(sent_s[-1] - sent_s[first]))
    lasts = refused >= REFUSED_MIN and refused > REFUSED_SHARE * offered
    # Which of the last were accepted is not known yet: only what is before them is looked at.
    passed = np.flatnonzero(accepted[first:])
    span_s = float(sent_s[first + passed[-1]] - sent_s[first]) if passed.size else 0.0
    enough = passed.size >= REFUSED_MIN and span_s > 0
    return LimitStep(
        rate=rate,
        attempts=sent_s.size,
        refused=refused,
        limited=lasts,
        shut=lasts and not enough,
        passed_rps=passed.size / span_s if enough else None,
        whole=whole,
    )


def rate_bracket(steps: Sequence[LimitStep]) -> RateBracket:
    """The bracket that the steps show, in the order in which they were held."""
    high = min((step.rate for step in steps if step.limited), default=None)
    if high is None:
        return RateBracket(None, None)
    passed = [
        step.passed_rate
        for before, step in pairwise(steps)
        if before.limited and not step.limited
        if step.whole and step.attempts and step.rate < high
    ]
    return RateBracket(max(passed, default=None), high)


def limit_rps(estimate: LimitEstimate, attempts: Attempts) -> float | None:
    """The rate in requests/s at which requests like these meet a limit; None when not known."""
    if not estimate.figure or not attempts.accepted.any():
        return None
    quantity = estimate.kind.quantity
    if quantity == "requests":
        return estimate.figure / 60
    if quantity == "tokens":
        answers = (
            attempts.completion_tokens
            if estimate.charge is Charge.USED
            else attempts.asked_max_tokens
        )
        if attempts.prompt_tokens is None or answers is None:
            return None
        tokens = (attempts.prompt_tokens + answers)[attempts.accepted]
        tokens = tokens[np.isfinite(tokens)]
        return estimate.figure / 60 / float(tokens.mean()) if tokens.size else None
    if quantity == "concurrency":
        served_s = (attempts.ended_s - attempts.sent_s)[attempts.accepted]
        served_s = served_s[np.isfinite(served_s)]
        mean_s = float(served_s.mean()) if served_s.size else 0.0
        return estimate.figure / mean_s if mean_s else None
    return None
