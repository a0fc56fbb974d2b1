"""Which step the search for a rate limit wants next: it doubles, then goes around the limit.

While a limiter refuses it still lets pass what it carries, so the next step can follow at once; it
even has to, because a bucket that refilled would hide its rate behind a burst. Only a limiter that
is shut, as a window that is used up, is waited for with nobody asking.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from metrics.limits_attempts import Attempts
from metrics.limits_result import LimitEstimate
from metrics.rate_bracket import LimitStep, limit_rps, rate_bracket
from metrics.stage import load_text

MOST_RPS = 4096.0
"""The rise ends here."""
MOST_STEPS = 6
"""Steps around the limit."""
OFF = 0.1
"""How far above and below the estimate they are."""
FEWEST_REQUESTS = 80
"""Of a step around the limit: a tenth too many of them are more 429s than make it limited."""
WINDOWS = 2.2
"""Windows, or waits for a shut limiter, that a step lasts: one whole one is among them."""
LONGEST_HOLD_S = 150.0
LONGEST_PAUSE_S = 120.0
SAME = 0.02
"""Rates so near to one already held would show nothing new."""

Estimate = Callable[[Attempts], Sequence[LimitEstimate]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsBounds:
    """Where the search begins and what it may spend."""

    first_rate: float
    """Requests/s, or nominal tokens/s when ``tokens_per_request`` is given."""
    tokens_per_request: float | None = None
    """Nominal tokens of a request in the mean; None: rates are in requests/s."""
    hold_s: float
    most_requests: int | None = None
    most_s: float | None = None

    def rps(self, rate: float) -> float:
        """A rate in requests/s."""
        return rate / (self.tokens_per_request or 1.0)

    def rate(self, rps: float) -> float:
        """Requests/s in the unit of the rates."""
        return rps * (self.tokens_per_request or 1.0)

    def text(self, rate: float) -> str:
        """A rate with its unit."""
        if self.tokens_per_request:
            return load_text(0, None, rate)
        return load_text(0, float(f"{rate:.4g}"))


@dataclass(frozen=True, slots=True)
class StepOrder:
    """A step that is wanted: its rate, its length, and the pause before it, in seconds."""

    rate: float
    hold_s: float
    pause_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class LimitsEnd:
    """No further step is wanted."""

    sentence: str
    known: bool
    """The bracket is as narrow as it was meant to be."""


class LimitsSearch:
    """Chooses steps by what the earlier ones showed; ``estimate`` is asked for the limit."""

    def __init__(self, bounds: LimitsBounds, estimate: Estimate) -> None:
        self._bounds = bounds
        self._estimate = estimate

    def next(
        self, steps: Sequence[LimitStep], attempts: Attempts | None, asked_wait_s: float | None
    ) -> StepOrder | LimitsEnd:
        """What comes after ``steps``; ``attempts`` are those of all of them.

        ``asked_wait_s`` is the longest wait that the last step was asked for.
        """
        if not steps or attempts is None:
            return self._order(self._bounds.first_rate, "the rise begins")
        last = steps[-1]
        pause_s = self._pause_s(last, asked_wait_s)
        if not last.attempts:
            return self._again(steps, pause_s)
        bracket = rate_bracket(steps)
        if bracket.high is None:
            return self._higher(last.rate)
        if bracket.narrow or _around(steps) >= MOST_STEPS:
            return LimitsEnd(self.sentence(steps), bracket.narrow)
        return self._around(steps, attempts, pause_s)

    def sentence(self, steps: Sequence[LimitStep]) -> str:
        """What the steps show of the limit."""
        bracket, text = rate_bracket(steps), self._bounds.text
        if bracket.high is None:
            passed = max((step.rate for step in steps if step.attempts and step.whole), default=0.0)
            return f"no limit found up to {text(passed)}" if passed else "no limit found"
        if bracket.low is None:
            return f"the limit lies below {text(bracket.high)}"
        return f"the limit lies between {text(bracket.low)} and {text(bracket.high)}"

    def _order(
        self, rate: float, reason: str, pause_s: float = 0.0, hold_s: float = 0.0
    ) -> StepOrder:
        hold_s = max(self._bounds.hold_s, min(hold_s, LONGEST_HOLD_S))
        return StepOrder(rate, hold_s, pause_s, f"{self._bounds.text(rate)}: {reason}")

    def _pause_s(self, last: LimitStep, asked_wait_s: float | None) -> float:
        if not last.shut:
            return 0.0
        return min(asked_wait_s or self._bounds.hold_s, LONGEST_PAUSE_S)

    def _again(self, steps: Sequence[LimitStep], pause_s: float) -> StepOrder | LimitsEnd:
        """The last step had no answer, or was refused throughout: it shows nothing."""
        last = steps[-1]
        if len(steps) > 1 and not steps[-2].attempts:
            what = "every request was refused" if last.shut else "no request was answered"
            return LimitsEnd(f"{what} at {self._bounds.text(last.rate)}", known=False)
        reason = "once more, after a pause: nothing passed"
        return self._order(last.rate, reason, max(pause_s, self._bounds.hold_s))

    def _higher(self, rate: float) -> StepOrder | LimitsEnd:
        if self._bounds.rps(2 * rate) > MOST_RPS:
            return LimitsEnd(f"no limit found up to {self._bounds.text(rate)}", known=True)
        return self._order(2 * rate, "rising, no lasting 429s so far")

    def _around(self, steps: Sequence[LimitStep], attempts: Attempts, pause_s: float) -> StepOrder:
        bracket = rate_bracket(steps)
        high, low = bracket.high or math.inf, bracket.low or 0.0
        if not steps[-1].limited:
            return self._order(high, "refused before, so that no burst is left", pause_s)
        found = self._estimate(attempts)
        window_s = max((one.window_s or 0.0 for one in found), default=0.0)
        seems = self._seems(steps, attempts, found)
        if seems is None or not low < seems < high:
            rate = math.sqrt(low * high) if low else high / 2
            reason = "between what passed and what was refused"
        elif seems * (1 + OFF) < high * (1 - SAME):
            rate, reason = seems * (1 + OFF), "a tenth above what the limit seems to be"
        elif seems * (1 - OFF) > low * (1 + SAME):
            rate, reason = seems * (1 - OFF), "a tenth below what the limit seems to be"
        else:
            rate, reason = math.sqrt(low * high), "between what passed and what was refused"
        needed_s = FEWEST_REQUESTS / self._bounds.rps(rate)
        if any(step.shut for step in steps):
            window_s = max(window_s, pause_s, longest_asked_wait_s(attempts) or 0.0)
        return self._order(rate, reason, pause_s, max(needed_s, WINDOWS * window_s))

    def _seems(
        self, steps: Sequence[LimitStep], attempts: Attempts, found: Sequence[LimitEstimate]
    ) -> float | None:
        """What the limit seems to be: by the models of limiters, else by what passed."""
        rps = [one for one in (limit_rps(each, attempts) for each in found) if one]
        if not rps:
            rps = [step.passed_rps for step in steps if step.limited and step.passed_rps][-1:]
        return self._bounds.rate(min(rps)) if rps else None


def _around(steps: Sequence[LimitStep]) -> int:
    """How many rates were tried since the first that was limited."""
    first = next(place for place, step in enumerate(steps) if step.limited)
    return len({step.rate for step in steps[first:]}) - 1


def longest_asked_wait_s(attempts: Attempts) -> float | None:
    """The longest wait that 429s asked for, else the longest until a limit is full again."""
    for columns in (
        (attempts.retry_after_s,),
        (attempts.reset_requests_s, attempts.reset_tokens_s),
    ):
        waits = [column[attempts.limited] for column in columns if column is not None]
        known = np.concatenate(waits) if waits else np.empty(0)
        known = known[np.isfinite(known)]
        if known.size:
            return float(known.max())
    return None
