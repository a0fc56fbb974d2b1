"""Rate limits of a hosted endpoint: requests and tokens per minute.

Time is handed in and only moves forward.  A refused request is not charged, and a request that
one of two limits refuses is charged to neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from simulator.profile import LimitKind, Profile

# A level that is 1e-9 short of enough came from adding floats, not from a missing refill.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LimitState:
    """What the `x-ratelimit-*` headers tell: per-minute limit, units left now, seconds to full."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a limit refuses: `retry_after_s` is None if no wait helps (larger than the budget)."""

    what: str
    limit: int
    asked: int
    retry_after_s: float | None


class Meter(Protocol):
    """One budget."""

    def wait_s(self, amount: int, now_s: float) -> float | None: ...
    def take(self, amount: int, now_s: float) -> None: ...
    def state(self, now_s: float) -> LimitState: ...


class TokenBucket:
    """A budget of `depth` units that refills with `per_minute` / 60 units a second."""

    def __init__(self, per_minute: int, depth: float) -> None:
        self._per_minute = per_minute
        self._per_s = per_minute / 60.0
        self._depth = depth
        self._level = depth
        self._level_at_s = -math.inf

    def _level_now(self, now_s: float) -> float:
        gained = (now_s - self._level_at_s) * self._per_s
        return min(self._depth, self._level + gained)

    def wait_s(self, amount: int, now_s: float) -> float | None:
        """Seconds until `amount` can be taken; None if it is larger than the depth."""
        if amount > self._depth + _ROUNDING:
            return None
        missing = amount - self._level_now(now_s)
        return 0.0 if missing <= _ROUNDING else missing / self._per_s

    def take(self, amount: int, now_s: float) -> None:
        self._level = self._level_now(now_s) - amount
        self._level_at_s = now_s

    def state(self, now_s: float) -> LimitState:
        level = self._level_now(now_s)
        remaining = max(0, math.floor(level + _ROUNDING))
        return LimitState(self._per_minute, remaining, (self._depth - level) / self._per_s)


class FixedWindow:
    """A budget that is full again at each multiple of `window_s` after its first use."""

    def __init__(self, per_minute: int, window_s: float) -> None:
        self._per_minute = per_minute
        self._budget = max(1, math.floor(per_minute * window_s / 60.0 + _ROUNDING))
        self._window_s = window_s
        self._first_at_s: float | None = None
        self._window = 0
        self._used = 0

    def _used_now(self, now_s: float) -> int:
        return self._used if self._window == self._window_at(now_s) else 0

    def _window_at(self, now_s: float) -> int:
        if self._first_at_s is None:
            return 0
        return math.floor((now_s - self._first_at_s) / self._window_s + _ROUNDING)

    def _rest_s(self, now_s: float) -> float:
        if self._first_at_s is None:
            return 0.0
        ends_at_s = self._first_at_s + (self._window_at(now_s) + 1) * self._window_s
        return max(0.0, ends_at_s - now_s)

    def wait_s(self, amount: int, now_s: float) -> float | None:
        """Seconds until `amount` can be taken; None if it is larger than a window's budget."""
        if amount > self._budget:
            return None
        fits = self._used_now(now_s) + amount <= self._budget
        return 0.0 if fits else self._rest_s(now_s)

    def take(self, amount: int, now_s: float) -> None:
        if self._first_at_s is None:
            self._first_at_s = now_s
        self._used = self._used_now(now_s) + amount
        self._window = self._window_at(now_s)

    def state(self, now_s: float) -> LimitState:
        remaining = max(0, self._budget - self._used_now(now_s))
        return LimitState(self._per_minute, remaining, self._rest_s(now_s))


def _meter(per_minute: int | None, profile: Profile) -> Meter | None:
    if per_minute is None:
        return None
    if profile.limit_kind is LimitKind.WINDOW:
        return FixedWindow(per_minute, profile.limit_span_s)
    return TokenBucket(per_minute, max(1.0, per_minute * profile.limit_span_s / 60.0))


@dataclass(frozen=True, slots=True)
class Limits:
    """State of both limits; None for one that does not exist."""

    requests: LimitState | None
    tokens: LimitState | None


class Limiter:
    """The request limit and the token limit of a profile, taken together."""

    def __init__(self, profile: Profile) -> None:
        self._requests = _meter(profile.rpm, profile)
        self._tokens = _meter(profile.tpm, profile)

    def admit(self, tokens: int, now_s: float) -> Denial | None:
        """Charge one request of `tokens` tokens, or say which limit refuses it."""
        charges = ((self._requests, "requests", 1), (self._tokens, "tokens", tokens))
        for meter, what, amount in charges:
            if meter is None:
                continue
            wait_s = meter.wait_s(amount, now_s)
            if wait_s != 0.0:
                return Denial(what, meter.state(now_s).limit, amount, wait_s)
        for meter, _, amount in charges:
            if meter is not None:
                meter.take(amount, now_s)
        return None

    def limits(self, now_s: float) -> Limits:
        """What is left of both budgets."""
        requests, tokens = self._requests, self._tokens
        return Limits(
            requests.state(now_s) if requests else None,
            tokens.state(now_s) if tokens else None,
        )
