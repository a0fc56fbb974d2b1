"""The verdict on a ladder of levels: which kind it is, its figures, and its sentence."""

from dataclasses import dataclass
from enum import StrEnum


class KneeStatus(StrEnum):
    """What kind of answer a ladder gave."""

    KNEE = "knee"
    """A queue that begins sharply."""
    GRADUAL_KNEE = "gradual_knee"
    """A queue that begins over a range: KV memory, prefill, several replicas."""
    NEAR_TOP = "near_top"
    """A queue begins at the top level, but is too short there to measure."""
    NO_KNEE = "no_knee"
    """No queue up to the top level: the knee is at least there."""
    HIDDEN_QUEUE = "hidden_queue"
    """Latency shows a queue that TTFT does not: a buffering proxy, answers not streamed."""
    RATE_LIMITED = "rate_limited"
    INFLIGHT_CAP = "inflight_cap"
    """429s always at the same number of requests in flight."""
    ERRORS = "errors"
    CLIENT_LIMITED = "client_limited"
    """The client was at its end before the server."""
    UNRESOLVED = "unresolved"
    """Too little was measured, or nothing that shows a queue."""


@dataclass(frozen=True, slots=True)
class LevelEvidence:
    """What the method saw at one level; None where it could not be told."""

    users: int
    queue_share: float | None
    queue_share_low: float | None
    queue_share_high: float | None
    carried_users: float | None
    """N * (1 - q), given where the level queues enough for an estimate."""
    note: str | None
    stage: int | None = None
    used_for: str = "nothing"
    """baseline, calm, onset or estimate."""

    @property
    def share(self) -> float:
        """q; 0 where it was not told."""
        return self.queue_share or 0.0

    @property
    def share_low(self) -> float:
        """Lower end of q; q itself without an interval."""
        return self.share if self.queue_share_low is None else self.queue_share_low

    @property
    def share_high(self) -> float:
        """Upper end of q; q itself without an interval."""
        return self.share if self.queue_share_high is None else self.queue_share_high


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Something other than a queue that ends the climb."""

    status: KneeStatus
    users: int
    """The lowest level that met it."""
    completed_rps: float | None
    """Successes per second under it: the limit itself, if it limits requests."""
    equivalent_users: float | None
    """Users whose requests all pass: ``completed_rps`` times their cycle."""
    in_flight: float | None
    """The cap, if it is one on requests in flight."""
    detail: str


@dataclass(frozen=True, slots=True)
class SloCapacity:
    """Largest number of users with enough requests inside the objectives."""

    good_ratio: float
    """The share of requests that must be."""
    users: float | None
    """None when not even the lowest level has it."""
    low: float | None
    high: float | None
    at_least: bool
    """Whether it holds up to the top level, so that ``users`` is a lower bound."""


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """The same numbers of users on the way up and on the way down."""

    found: bool
    users: int
    """The level where the two differ most."""
    queue_share_up: float
    queue_share_down: float
    latency_up_s: float
    latency_down_s: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Side:
    """What stands beside the verdict, whatever its kind."""

    efficiency_users: float | None = None
    """Where another user adds half of what the first did; None beyond the top level."""
    elasticity: float | None = None
    """d ln(throughput) / d ln(users) at the top level: 1 scales, 0 is a plateau."""
    peak_rps: float | None = None
    """Most successes per second that a level had."""
    peak_users: int | None = None
    slo: SloCapacity | None = None
    ceiling: Ceiling | None = None
    hysteresis: Hysteresis | None = None


@dataclass(frozen=True, slots=True)
class KneeEstimate:
    """The verdict on a ladder: ``users`` with its interval, or the lower bound ``at_least``.

    The interval is None when the levels have means only.
    """

    status: KneeStatus
    users: float | None
    low: float | None
    high: float | None
    at_least: int | None
    calm_users: int | None
    """The highest level without a queue."""
    queueing_users: int | None
    """The lowest level with one."""
    reason: str
    evidence: tuple[LevelEvidence, ...]
    side: Side = Side()

    def sentence(self) -> str:
        """The verdict as one line for a reader."""
        if self.users is not None:
            kind = {
                KneeStatus.GRADUAL_KNEE: "gradual knee at",
                KneeStatus.NEAR_TOP: "knee near the top, at",
                KneeStatus.HIDDEN_QUEUE: "hidden queue from",
            }.get(self.status, "knee at")
            interval = f" ({self.low:.1f} to {self.high:.1f})" if self._bounded() else ""
            return f"{kind} about {self.users:.0f} concurrent streams{interval}: {self.reason}"
        if self.at_least is not None:
            streams = "stream" if self.at_least == 1 else "streams"
            return f"knee not reached, at least {self.at_least} concurrent {streams}: {self.reason}"
        return f"no knee found: {self.reason}"

    def _bounded(self) -> bool:
        return self.low is not None and self.high is not None
