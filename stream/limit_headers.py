"""What an answer's headers say about rate limits: the wait asked for, and what is left.

Names are those of HTTP (``Retry-After``), OpenAI (``x-ratelimit-*-requests``), Anthropic, Envoy and
the IETF draft, and the same behind ``llm_provider-``, under which LiteLLM passes on its upstream's.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

T = TypeVar("T")

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[hms]))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[hms])")
_COUNT = re.compile(r"([0-9]{1,15})(?:\.0+)?(?:;.*|,\s+.*|,[0-9]+;.*)?")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_MOST_CHARACTERS = 64
"""Longer than any date or duration: what a server sends must not cost time here."""
_EPOCH_S = 1e9
"""No budget resets in 30 years, so a number from here on is a time (2001 and later), no wait."""
_EPOCH_MS = 1e11
"""As seconds this is the year 5138, so a number from here on counts milliseconds."""


@dataclass(frozen=True, slots=True)
class LimitHeaders:
    """The rate-limit headers of one answer; None for what it does not say or says unreadably."""

    retry_after_s: float | None = None
    """The wait that the server asks for; 0 is now."""
    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests_s: float | None = None
    """Time until the budget of requests is whole again."""
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens_s: float | None = None
    unreadable: tuple[str, ...] = ()
    """Names of the fields that were there and could not be read."""

    @property
    def wait_hint_s(self) -> float | None:
        """Seconds until the budget that is used up resets; the longer one when both are.

        When no remaining count is known, the shorter reset. None when nothing tells.
        """
        budgets = (
            (self.remaining_requests, self.reset_requests_s),
            (self.remaining_tokens, self.reset_tokens_s),
        )
        used_up = [reset for left, reset in budgets if left == 0 and reset is not None]
        if used_up:
            return max(used_up)
        if any(left is not None for left, _ in budgets):
            return None
        return min((reset for _, reset in budgets if reset is not None), default=None)

    @property
    def shortest_reset_s(self) -> float | None:
        """Seconds until the first of the budgets resets; None when nothing tells."""
        resets = (self.reset_requests_s, self.reset_tokens_s)
        return min((reset for reset in resets if reset is not None), default=None)


_NOTHING_SAID = LimitHeaders()


def _with_upstream(*names: str) -> tuple[str, ...]:
    """Each name, then each as LiteLLM passes it on: what the asked server itself says is first."""
    return names + tuple(f"llm_provider-{name}" for name in names)


def _budget(fact: str, what: str) -> tuple[str, ...]:
    plain = (f"x-ratelimit-{fact}", f"ratelimit-{fact}") if what == "requests" else ()
    own = f"x-ratelimit-{fact}-{what}"
    return _with_upstream(own, *plain, f"anthropic-ratelimit-{what}-{fact}")


_RETRY_AFTER_MS = _with_upstream("retry-after-ms")
_RETRY_AFTER = _with_upstream("retry-after")
_LIMIT_REQUESTS = _budget("limit", "requests")
_REMAINING_REQUESTS = _budget("remaining", "requests")
_RESET_REQUESTS = _budget("reset", "requests")
_LIMIT_TOKENS = _budget("limit", "tokens")
_REMAINING_TOKENS = _budget("remaining", "tokens")
_RESET_TOKENS = _budget("reset", "tokens")
_ALL_NAMES = frozenset(
    _RETRY_AFTER_MS
    + _RETRY_AFTER
    + _LIMIT_REQUESTS
    + _REMAINING_REQUESTS
    + _RESET_REQUESTS
    + _LIMIT_TOKENS
    + _REMAINING_TOKENS
    + _RESET_TOKENS
)


def read_limit_headers(headers: Mapping[str, str], now: datetime) -> LimitHeaders:
    """Read the rate-limit headers of one answer; never raises for what a server sent.

    Of several names for one fact the first that can be read counts.

    Args:
        headers: by lower-case name.
        now: with a time zone; dates count from it.
    """
    # Most answers have none of these, and every answer comes through here.
    if _ALL_NAMES.isdisjoint(headers):
        return _NOTHING_SAID
    unreadable: list[str] = []

    def first(names: tuple[str, ...], read: Callable[[str], T | None]) -> T | None:
        for name in names:
            text = headers.get(name)
            if text is not None:
                value = read(text.strip())
                if value is not None:
                    return value
                unreadable.append(name)
        return None

    def reset_s(text: str) -> float | None:
        return parse_reset_s(text, now)

    wait_s = first(_RETRY_AFTER_MS, _read_ms)
    if wait_s is None:
        wait_s = first(_RETRY_AFTER, lambda text: _read_retry_after_s(text, now))
    return LimitHeaders(
        retry_after_s=wait_s,
        limit_requests=first(_LIMIT_REQUESTS, _read_count),
        remaining_requests=first(_REMAINING_REQUESTS, _read_count),
        reset_requests_s=first(_RESET_REQUESTS, reset_s),
        limit_tokens=first(_LIMIT_TOKENS, _read_count),
        remaining_tokens=first(_REMAINING_TOKENS, _read_count),
        reset_tokens_s=first(_RESET_TOKENS, reset_s),
        unreadable=tuple(unreadable),
    )


def parse_reset_s(text: str, now: datetime) -> float | None:
    """Seconds until a reset, from ``6m0s``, ``1h2m3s``, ``500ms``, ``20``, an epoch or an ISO time.

    A number from 1e9 on is a time in epoch seconds, from 1e11 on in epoch milliseconds. A time
    that is past gives 0, one without a zone is UTC. None for anything else; ``now`` has a zone.
    """
    text = text.strip().lower()
    if len(text) > _MOST_CHARACTERS:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number >= _EPOCH_S:
            epoch_s = number / 1000 if number >= _EPOCH_MS else number
            return max(0.0, epoch_s - now.timestamp())
        return number
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(text))
    try:
        at = datetime.fromisoformat(text.upper())
        return _until_s(at, now)
    except (ValueError, OverflowError):
        return None


def _read_count(text: str) -> int | None:
    # Envoy appends the policies to the limit: "5, 5;w=60".
    match = _COUNT.fullmatch(text)
    return None if match is None else int(match[1])


def _read_number(text: str) -> float | None:
    if len(text) > _MOST_CHARACTERS or not _NUMBER.fullmatch(text):
        return None
    return float(text)


def _read_ms(text: str) -> float | None:
    number = _read_number(text)
    return None if number is None else number / 1000


def _read_retry_after_s(text: str, now: datetime) -> float | None:
    """Seconds, or an HTTP date: up to the next whole second, because a date has no fraction and a
    client that comes early is refused again."""
    if len(text) > _MOST_CHARACTERS:
        return None
    number = _read_number(text)
    if number is not None:
        return number
    try:
        return float(math.ceil(_until_s(parsedate_to_datetime(text), now)))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until_s(at: datetime, now: datetime) -> float:
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())
