"""What a search for limits is fed with: one row per attempt on the wire, on one clock."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from metrics.outcome import Outcome

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

LET_IN = frozenset(
    {
        Outcome.FIRST_TOKEN_TIMEOUT,
        Outcome.IDLE_TIMEOUT,
        Outcome.TOTAL_TIMEOUT,
        Outcome.CANCELLED,
    }
)
"""Ends without any status at which the server was at work: a limiter refuses at once."""
TOLD = (
    "prompt_tokens",
    "completion_tokens",
    "asked_max_tokens",
    "limit_requests",
    "remaining_requests",
    "limit_tokens",
    "remaining_tokens",
)
"""Columns that are fields of a request's record under the same name."""
_FLAGS = ("accepted", "limited")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempts:
    """Attempts in any order; NaN where a value is not known, None where no attempt has it.

    An attempt that is neither ``accepted`` nor ``limited`` failed for another reason. One that was
    let in and broke later is ``accepted``: it was charged.

    Raises:
        ValueError: columns of different lengths, a time that is no number, an end before the
            sending, or an attempt that is both accepted and limited.
    """

    sent_s: Floats
    """When the request was sent, seconds of one clock for all attempts."""
    ended_s: Floats
    """When the answer was over, same clock; NaN when it was still running."""
    accepted: Bools
    limited: Bools
    """Answered 429."""
    prompt_tokens: Floats | None = None
    completion_tokens: Floats | None = None
    asked_max_tokens: Floats | None = None
    limit_requests: Floats | None = None
    remaining_requests: Floats | None = None
    reset_requests_s: Floats | None = None
    limit_tokens: Floats | None = None
    remaining_tokens: Floats | None = None
    reset_tokens_s: Floats | None = None
    retry_after_s: Floats | None = None

    def __post_init__(self) -> None:
        size = np.asarray(self.sent_s).size
        for name in (field.name for field in fields(self)):
            column = getattr(self, name)
            if column is None:
                continue
            column = np.asarray(column, dtype=np.bool_ if name in _FLAGS else np.float64)
            if column.shape != (size,):
                raise ValueError(f"{name} has shape {column.shape}, sent_s has {size} attempts")
            object.__setattr__(self, name, column)
        _check(self)

    def __len__(self) -> int:
        return int(self.sent_s.size)

    def within(self, begin_s: float, end_s: float) -> Bools:
        """Which attempts were sent from ``begin_s`` to before ``end_s``."""
        return (self.sent_s >= begin_s) & (self.sent_s < end_s)


def known(values: Floats) -> Floats | None:
    """A column, or None where no attempt has a value."""
    return values if np.isfinite(values).any() else None


def unread(sent_s: Floats, ended_s: Floats, limited: Bools, left: Bools) -> Bools:
    """Attempts that were left (without a status) so early that a refusal may have been under way.

    They are to be taken neither for let in nor for refused.
    """
    took_s = ended_s - sent_s
    return left & (took_s <= np.max(took_s[limited], initial=-np.inf))


def _check(attempts: Attempts) -> None:
    if not np.isfinite(attempts.sent_s).all():
        row = int(np.flatnonzero(~np.isfinite(attempts.sent_s))[0])
        raise ValueError(f"sent_s of attempt {row} is {attempts.sent_s[row]}: give seconds")
    early = np.flatnonzero(attempts.ended_s < attempts.sent_s)
    if early.size:
        row = int(early[0])
        span = f"sent at {attempts.sent_s[row]} s, ended at {attempts.ended_s[row]} s"
        raise ValueError(f"attempt {row} was {span}: both must be of one clock")
    both = np.flatnonzero(attempts.accepted & attempts.limited)
    if both.size:
        raise ValueError(f"attempt {int(both[0])} is both accepted and limited")
