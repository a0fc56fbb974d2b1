"""What the search for the knee asks for, and the bounds that it is given."""

import math
from dataclasses import dataclass
from enum import StrEnum

from metrics.knee_slo import GOOD_RATIO


class OrderKind(StrEnum):
    """What a level is held for."""

    PROBE = "probe"
    ESTIMATE = "estimate"
    BRACKET = "bracket"
    CONFIRM = "confirm"
    LIMIT = "limit"
    """Just above a limit that answered 429, for longer, so that a burst allowance runs out."""
    LIMIT_CHECK = "limit_check"
    """Just below it: a knee may lie there."""
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Bounds of the search; None in a budget means without end.

    Raises:
        ValueError: a bound that leaves nothing to search.
    """

    most_users: int = 256
    first_users: int = 1
    growth_ratio: float = 2.0
    most_levels: int = 14
    most_requests: int | None = None
    most_s: float | None = None
    tolerance: float = 0.10
    """Wanted half of the interval, relative to the knee."""
    fewest_successes: int = 60
    cycles: float = 3.0
    """Successes of a level for each of its users."""
    down_sweep: bool = False
    slo_ratio: float = GOOD_RATIO

    def __post_init__(self) -> None:
        rules = (
            ("first_users", self.first_users >= 1, "at least 1"),
            ("most_users", self.most_users >= self.first_users, "at least first_users"),
            ("growth_ratio", 1 < self.growth_ratio < math.inf, "over 1"),
            ("most_levels", self.most_levels >= 2, "at least 2"),
            ("most_requests", self.most_requests is None or self.most_requests >= 1, "at least 1"),
            ("most_s", self.most_s is None or self.most_s > 0, "over 0 s"),
            ("tolerance", 0 < self.tolerance < 1, "between 0 and 1"),
            ("fewest_successes", self.fewest_successes >= 8, "at least 8"),
            ("cycles", 0 < self.cycles < math.inf, "over 0"),
            ("slo_ratio", 0 < self.slo_ratio <= 1, "over 0 and at most 1"),
        )
        for name, holds, wanted in rules:
            if not holds:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be {wanted}")


@dataclass(frozen=True, slots=True)
class LevelOrder:
    """The next level: hold ``users`` until so many requests have succeeded."""

    users: int
    successes: int
    kind: OrderKind
    reason: str
    few_successes: int
    """Enough when a request takes over ``SLOW_S``; the same as ``successes`` for most levels."""

    @property
    def uncut(self) -> bool:
        """Whether it must be held to its end although requests are refused."""
        return self.kind is OrderKind.LIMIT
