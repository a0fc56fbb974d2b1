"""What one held level of a closed loop measured: the input of everything about the knee."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from metrics.statistics import mean

LIMITED_RATIO = 0.01
"""Share of requests refused or failed above which a level measures the refusal, not the queue."""
FEW_REFUSALS = 3
"""Fewer than these speak of an accident, unless they are half of all requests."""
BUFFERED_RATIO = 0.95
"""Mean TTFT from this share of the latency on comes with the whole answer, not with a token. A deep
queue has such a TTFT too, so that only the lowest level is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level; the arrays are of successes, in the order by which they were picked.

    That is the order of their ends where what ended in a window counts, and of their starts where
    what was sent in it does. In another order the parts of a level differ by how they were picked,
    and intervals, which compare its parts, are several times too wide.

    ``ttft_s`` and ``tpot_s`` are of streamed requests only. A level of a published table has one
    value in each, its mean; intervals are then not available.
    """

    users: int
    stage: int | None = None
    """The stage's id: levels may repeat."""
    ttft_s: Sequence[float]
    tpot_s: Sequence[float]
    latency_s: Sequence[float]
    think_s: float = 0.0
    requests: int
    rate_limited: int = 0
    failed: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How many requests ended in each way, for the reason's sentence."""
    void: str | None = None
    """Why the level must not be used: never held, a worker was lost."""
    client_limited: bool = False
    """Whether it is void because the client, not the server, was at its end."""
    held_s: float | None = None
    """Seconds of the window that the successes were counted in."""
    completed_per_s: float | None = None
    """Successes per second, where no window is known."""
    sent_per_s: float | None = None
    in_flight: float | None = None
    """Time-weighted mean of requests sent and not ended."""
    in_flight_at_refusals: Sequence[float] = ()
    """Accepted requests in flight at each 429."""
    in_flight_shares: Sequence[float] = ()
    """Shares of the time with 0, 1, 2 ... accepted requests in flight; empty where not known."""
    buffered: bool | None = False
    """Whether most streams arrived in one piece: their TTFT is the time of the whole answer. None
    where the chunks are not known, in a table of means."""
    good: Sequence[bool] | None = None
    """Of each request, failed ones too, whether it met the objectives; in the order sent."""
    down: bool = False
    """Whether it was held on the way down: it shows hysteresis and gives no estimate."""

    def mean_ttft_s(self) -> float:
        """Mean TTFT in seconds; 0 without one."""
        return mean(self.ttft_s) or 0.0

    def mean_tpot_s(self) -> float:
        """Mean time per output token in seconds; 0 without one."""
        return mean(self.tpot_s) or 0.0

    def mean_latency_s(self) -> float:
        """Mean end-to-end latency in seconds; 0 without a success."""
        return mean(self.latency_s) or 0.0

    def cycle_s(self) -> float:
        """Latency and think time: what one turn of a user takes."""
        return self.mean_latency_s() + self.think_s

    def measured_rps(self) -> float | None:
        """Successes per second as they were counted; None when no window is known."""
        if self.completed_per_s is not None:
            return self.completed_per_s
        return len(self.latency_s) / self.held_s if self.held_s else None

    def completed_rps(self) -> float | None:
        """Successes per second, by Little's law where they were not counted."""
        counted = self.measured_rps()
        if counted is not None:
            return counted
        cycle_s = self.cycle_s()
        return self.users / cycle_s if cycle_s > 0 and not self.refused() else None

    def rate_limited_much(self) -> bool:
        """Whether 429s decide what the level shows."""
        return self._many(self.rate_limited)

    def failed_much(self) -> bool:
        """Whether other failures do."""
        return self._many(self.failed)

    def refused(self) -> bool:
        """Whether the level measures refusals or failures instead of a queue."""
        return self.rate_limited_much() or self.failed_much()

    def usable(self) -> bool:
        """Whether its latencies may be read at all."""
        return self.void is None and not self.refused() and len(self.latency_s) > 0

    def hides_waiting(self) -> bool:
        """Whether its TTFT cannot show a queue, or there is none."""
        return bool(self.buffered) or not len(self.ttft_s)

    def looks_whole(self) -> bool:
        """Whether its TTFT is nearly the latency although answers have several tokens.

        That tells a buffering proxy only where nothing can wait: at the lowest level.
        """
        whole = self.mean_ttft_s() >= BUFFERED_RATIO * self.mean_latency_s()
        return whole and len(self.tpot_s) > 0

    def _many(self, number: int) -> bool:
        if number <= LIMITED_RATIO * self.requests:
            return False
        return number >= FEW_REFUSALS or 2 * number >= self.requests


def level_of_means(
    users: int,
    completed_per_s: float | None,
    ttft_s: float | None,
    latency_s: float,
    tpot_s: float | None = None,
    think_s: float = 0.0,
) -> Level:
    """A level of a table that gives means only; ``completed_per_s`` None is worked out.

    Raises:
        ValueError: a figure that no level can have, with its name and value.
    """
    if users < 1:
        raise ValueError(f"users is {users}: a level has at least 1")
    times = {"latency_s": latency_s, "ttft_s": ttft_s, "tpot_s": tpot_s, "think_s": think_s}
    for name, value in {**times, "completed_per_s": completed_per_s}.items():
        if value is not None and not 0 <= value < float("inf"):
            raise ValueError(f"{name} of {users} users is {value}: it must be a number from 0 on")
    if latency_s == 0:
        raise ValueError(f"latency_s of {users} users is 0: a request takes time")
    return Level(
        users=users,
        ttft_s=[] if ttft_s is None else [ttft_s],
        tpot_s=[] if tpot_s is None else [tpot_s],
        latency_s=[latency_s],
        think_s=think_s,
        requests=1,
        completed_per_s=completed_per_s,
        buffered=None,
    )


def in_order(levels: Sequence[Level]) -> list[Level]:
    """By users, and the same for every order in which they are given."""
    return sorted(
        levels,
        key=lambda level: (
            level.users,
            -1 if level.stage is None else level.stage,
            level.requests,
            level.mean_latency_s(),
            level.mean_ttft_s(),
        ),
    )
