"""What stands behind a refusal: one cause shows several faces, one status has several causes.

A gateway passes on an overloaded server as 500, 503 or 429, as it comes, and refuses with 429
itself while it rests an upstream that is dead. So statuses are read with the code and the words.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from metrics.outcome import Outcome
from reports.attempts import limited
from reports.wording import count


class Cause(StrEnum):
    """What refused, as far as the answer tells."""

    QUOTA = "a quota that is used up"
    COOLDOWN = "a gateway that rests its upstream"
    IN_FLIGHT_CAP = "a cap on requests in flight"
    LIMITER = "a rate limiter"
    OVERLOADED = "an overloaded server"
    BROKEN = "a broken server or upstream"
    UNNAMED = "not named"


_WORDS = (
    (Cause.COOLDOWN, ("cooldown", "no deployments available")),
    (Cause.IN_FLIGHT_CAP, ("in_flight", "in flight", "parallel", "concurren", "inflight")),
    (Cause.OVERLOADED, ("overload", "queue_full", "queue is full", "busy", "at capacity")),
    (Cause.LIMITER, ("rate_limit", "rate limit", "ratelimit", "throttl")),
)
"""The first that fits counts: a gateway calls its cap and its cooldown rate limits too. The words
"Too Many Requests" are no sign: they are what 429 is called."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """Last attempts of one status, code and cause."""

    cause: Cause
    status: int
    error_code: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Faces:
    """All of them, the most frequent first, and the 429s that only their status is known of."""

    rows: tuple[Refusals, ...]
    unnamed_429s: int
    """Attempts that were made again: a record keeps the words of its last answer alone."""

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes that were named."""
        named = (row.cause for row in self.rows if row.cause is not Cause.UNNAMED)
        return tuple(dict.fromkeys(named))

    def sentences(self) -> tuple[str, ...]:
        """What the refusals say of themselves, and a warning where they may be one cause."""
        if not self.rows:
            return ()
        by_cause: dict[Cause, Counter[int]] = {}
        for row in self.rows:
            by_cause.setdefault(row.cause, Counter())[row.status] += row.count
        parts = [f"{cause.value}: {_statuses(seen)}" for cause, seen in by_cause.items()]
        found = [f"Refusals by what they say of themselves: {'; '.join(parts)}."]
        if self.unnamed_429s:
            found.append(
                f"Of {count(self.unnamed_429s, 'attempt')} answered 429 and made again only the "
                "status is recorded."
            )
        if len(self.causes) > 1:
            found.append(
                "A gateway shows one overloaded or dead upstream as 500, 503 and 429: read them "
                "together before calling the 429s a rate limit."
            )
        return tuple(found)


def faces_of(rows: pd.DataFrame) -> Faces:
    """The refusals among a run's attempts."""
    last = rows[rows["last"] & rows["status"].ge(400) & ~rows["outcome"].isin(_NOT_REFUSED)]
    known = last[["status", "error_code", "error_sample", "outcome"]].itertuples(index=False)
    seen = Counter(
        (_cause(int(status), _words(code, sample), outcome), int(status), _code(code))
        for status, code, sample, outcome in known
    )
    found = tuple(Refusals(*key, n) for key, n in seen.most_common())
    return Faces(found, int((limited(rows) & ~rows["last"].to_numpy(dtype=bool)).sum()))


_NOT_REFUSED = {
    outcome.value
    for outcome in (
        Outcome.CLIENT_ERROR,
        Outcome.CONTEXT_LENGTH,
        Outcome.AUTH,
        Outcome.NOT_FOUND,
    )
}
"""Answers to what was asked, which another moment does not change."""


def _cause(status: int, words: str, outcome: str) -> Cause:
    if outcome == Outcome.QUOTA_EXHAUSTED.value:
        return Cause.QUOTA
    if status in (503, 529):
        return Cause.OVERLOADED
    named = next((cause for cause, marks in _WORDS if any(m in words for m in marks)), None)
    if status == 429:
        return named or Cause.UNNAMED
    return Cause.OVERLOADED if named is Cause.OVERLOADED else Cause.BROKEN


def _words(*texts: object) -> str:
    return " ".join(str(text).lower() for text in texts if isinstance(text, str))


def _code(code: object) -> str | None:
    return code if isinstance(code, str) else None


def _statuses(seen: Counter[int]) -> str:
    return ", ".join(f"{n:,} × {status}" for status, n in _ordered(seen.items()))


def _ordered(items: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(items, key=lambda item: -item[1])
