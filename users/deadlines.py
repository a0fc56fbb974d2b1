"""The four separate limits on waiting, and which of them was reached."""

from metrics.outcome import Outcome
from settings import TimeLimits

DRAIN_S = 0.15
"""How long to wait for the body's end after [DONE] before the connection is dropped instead."""


class LimitReached(Exception):
    """A limit ended the request; the outcome says which."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message


class Deadlines:
    """Turns limits into the time that one read may still take; all times count from the send."""

    def __init__(self, limits: TimeLimits) -> None:
        self._limits = limits

    @property
    def shortest_s(self) -> float | None:
        """The shortest of the limits on an answer; None when there is none."""
        limits = (self._limits.first_token_s, self._limits.idle_s, self._limits.total_s)
        return min((limit for limit in limits if limit is not None), default=None)

    def remaining_s(
        self, elapsed_s: float, started: bool, last_output_s: float = 0.0
    ) -> float | None:
        """Seconds until the nearest limit; None when there is none.

        Before the first token the first-token limit counts, afterwards the idle limit from the
        last output: comments and empty chunks do not extend it.

        Raises:
            LimitReached: a limit is already over.
        """
        limits = self._limits
        nearest = None if limits.total_s is None else limits.total_s - elapsed_s
        phase = limits.idle_s if started else limits.first_token_s
        if phase is not None:
            left_s = phase - elapsed_s + (last_output_s if started else 0.0)
            nearest = left_s if nearest is None else min(nearest, left_s)
        if nearest is not None and nearest <= 0:
            raise self.reached(elapsed_s, started, last_output_s)
        return nearest

    def reached(self, elapsed_s: float, started: bool, last_output_s: float = 0.0) -> LimitReached:
        """The limit that a read which just timed out ran into."""
        limits = self._limits
        # A timed read may return a shade early, hence the millisecond.
        if limits.total_s is not None and elapsed_s >= limits.total_s - 0.001:
            return LimitReached(Outcome.TOTAL_TIMEOUT, f"not finished in {limits.total_s:g} s")
        if started:
            silent_s = elapsed_s - last_output_s
            return LimitReached(Outcome.IDLE_TIMEOUT, f"no output for {silent_s:.1f} s")
        limit_s = elapsed_s if limits.first_token_s is None else limits.first_token_s
        return LimitReached(Outcome.FIRST_TOKEN_TIMEOUT, f"no token in {limit_s:g} s")
