"""What a search for limits says: kinds of limiters and the estimate of one."""

from dataclasses import dataclass
from enum import StrEnum


class LimiterKind(StrEnum):
    """What refuses requests with 429."""

    REQUESTS_FIXED = "requests_fixed_window"
    REQUESTS_SLIDING = "requests_sliding_window"
    REQUESTS_BUCKET = "requests_token_bucket"
    TOKENS_FIXED = "tokens_fixed_window"
    TOKENS_SLIDING = "tokens_sliding_window"
    TOKENS_BUCKET = "tokens_token_bucket"
    CONCURRENCY = "concurrency_cap"
    OVERLOAD = "overloaded_server"
    COOLDOWN = "gateway_cooldown"
    QUOTA = "quota_exhausted"
    UNKNOWN = "unknown"

    @property
    def quantity(self) -> str | None:
        """``requests``, ``tokens`` or ``concurrency``; None for what has no such figure."""
        if self in (LimiterKind.CONCURRENCY, LimiterKind.OVERLOAD):
            return "concurrency"
        head = self.value.partition("_")[0]
        return head if head in ("requests", "tokens") else None


class Charge(StrEnum):
    """What an accepted request costs, and when it is charged."""

    REQUEST = "request"
    ASKED = "prompt_and_asked_max"
    """Prompt tokens and the asked maximum, when the request is let in."""
    USED = "prompt_and_completion"
    """Prompt and completion tokens, when the answer is over."""


class LimitSource(StrEnum):
    """Where the figure is from."""

    TRAFFIC = "traffic"
    HEADERS = "headers"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEstimate:
    """One limiter, as seen from outside."""

    kind: LimiterKind
    figure: float | None
    """Requests/min or tokens/min; requests at once for a cap or a full server; else None."""
    low: float | None
    high: float | None
    """The figures that explain the traffic about as well, in the figure's unit."""
    burst: float | None = None
    """Requests or tokens that may come at once; None when not known or not meant."""
    window_s: float | None = None
    """Length of the window, or of a cooldown, in seconds."""
    phase_s: float | None = None
    """A moment at which a fixed window began, on the attempts' clock, in seconds."""
    opened_by_first: bool = False
    """A fixed window begins with its first request instead of following the last one at once."""
    charge: Charge | None = None
    source: LimitSource = LimitSource.TRAFFIC
    evidence: str
    """Why, in one or two sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Which of the limits bound a stage."""

    estimate: LimitEstimate | None
    """None when nothing bound, or nothing known explains the 429s."""
    refused: int
    """429s in the stage."""
    explained: int
    """Those that came when this limit was exhausted."""
    evidence: str
