"""The search for the knee: from finished levels to the next level, or to the verdict.

It doubles users until the queue share says that requests wait, reads the knee off the saturated
levels, and holds a few more where they tell most: at 1.5 times the knee, at 0.9 times it, and
again until the interval is narrow. A refused level is looked into once, above and below the limit.

It reads no clock and starts no load: whoever does hands each finished level to ``add``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from metrics.knee import verdict
from metrics.knee_assess import Assessment, assess
from metrics.knee_level import Level
from metrics.knee_result import KneeEstimate
from metrics.knee_service import hidden_queue
from metrics.knee_slo import GOOD_RATIO

KneeResult = KneeEstimate

QUEUES_SHARE = 0.10
"""Lower end of q from which the climb has met a queue."""
SLOW_S = 5.0
"""Mean latency from which few successes must do at the smallest levels."""
ABOVE, BELOW = 1.5, 0.9
"""Levels that tell most, relative to the knee: well above it, and just below."""
_NEAR_ABOVE = (0.83, 1.2)
_NEAR_BELOW = (0.84, 1.02)
_OVER_LIMIT, _UNDER_LIMIT = 1.3, 0.92
_LIMIT_TIMES = 4
_DOWN_LEVELS = 4


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


class KneeSearch:
    """One search. Ask ``next()``, hold that level, tell it to ``add()``, and so on."""

    def __init__(self, settings: SearchSettings | None = None) -> None:
        self.settings = settings or SearchSettings()
        self.spent_requests = 0
        self.elapsed_s = 0.0
        self.ended_by: str | None = None
        """The budget that ended the search before it knew enough; None if none did."""
        self._done: list[tuple[LevelOrder, Level]] = []
        self._order: LevelOrder | None = None
        self._result: KneeEstimate | None = None
        self._climbing = True
        self._top = self.settings.most_users
        self._down: list[int] | None = None

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every level that was held."""
        return tuple(level for _, level in self._done)

    def next(self) -> LevelOrder | KneeEstimate:
        """The level to hold, the same until it is added; or the verdict, once there is one."""
        if self._result is None and self._order is None:
            self._order = self._within_budget(self._decide())
            if self._order is None:
                self._result = self._judge()
        return self._result or self._order or self._judge()

    def add(
        self, level: Level, *, elapsed_s: float = 0.0, spent_requests: int | None = None
    ) -> None:
        """Tell a finished level; void ones too, with their reason.

        ``elapsed_s`` is seconds since the search began. ``spent_requests`` is what the level cost,
        warm-up included; without it the level's own requests count.

        Raises:
            ValueError: no level was asked for, or one of other users.
        """
        order = self._order
        if order is None:
            raise ValueError(f"a level of {level.users} users was added, but none was asked for")
        if level.users != order.users:
            raise ValueError(f"{order.users} users were asked for, {level.users} were added")
        self._order = None
        self._done.append((order, replace(level, down=order.kind is OrderKind.DOWN)))
        self.spent_requests += level.requests if spent_requests is None else spent_requests
        self.elapsed_s = max(self.elapsed_s, elapsed_s)

    def _judge(self) -> KneeEstimate:
        seen = assess(self.levels)
        return verdict(seen, "allow more users", "begin with fewer users", self.settings.slo_ratio)

    def _decide(self) -> LevelOrder | None:
        if not self._done:
            return self._level(self.settings.first_users, OrderKind.PROBE, "the first level")
        order, level = self._done[-1]
        if self._down is not None:
            return self._next_down()
        again = self._after_trouble(order, level)
        if again is not None:
            return again
        seen = assess(self.levels)
        step = (self._climb(seen) if self._climbing else None) or self._refine(seen)
        return step or self._next_down()

    def _after_trouble(self, order: LevelOrder, level: Level) -> LevelOrder | None:
        """A void level once more, a refused one closer to its limit; else bounds the climb."""
        if level.void is not None:
            if not self._retried(order):
                return replace(order, reason=f"once more: {level.void}")
            self._bound(level.users - 1)
        elif level.rate_limited_much() and order.kind is not OrderKind.LIMIT_CHECK:
            return self._at_limit(order, level)
        elif level.refused():
            self._bound(level.users - 1)
        return None

    def _at_limit(self, order: LevelOrder, level: Level) -> LevelOrder | None:
        if order.kind is not OrderKind.LIMIT:
            rate_rps = level.measured_rps()
            passed = rate_rps * level.cycle_s() if rate_rps else level.users / 4
            users = min(level.users, max(1, math.ceil(_OVER_LIMIT * passed)))
            reason = "longer, just above the limit, so that a burst allowance runs out"
            return self._level(users, OrderKind.LIMIT, reason, _LIMIT_TIMES)
        ceiling = assess(self.levels).ceiling
        equivalent = ceiling.equivalent_users if ceiling else None
        self._bound(math.floor(_UNDER_LIMIT * (equivalent or level.users / 2)))
        held = assess(self.levels).usable
        best = max((item.users for item in held), default=0)
        if self._top <= max(1.0, 1.15 * best):
            return None
        reason = "just below the limit, where a knee may lie"
        return self._level(self._top, OrderKind.LIMIT_CHECK, reason)

    def _bound(self, users: int) -> None:
        self._top = max(0, min(self._top, users))
        self._climbing = False

    def _retried(self, order: LevelOrder) -> bool:
        same = [done for done, level in self._done if level.void and done.users == order.users]
        return len(same) > 1

    def _climb(self, seen: Assessment) -> LevelOrder | None:
        highest = max(order.users for order, _ in self._done)
        queued = any(e.share_low > QUEUES_SHARE for e in seen.seen)
        if queued or highest >= self._top or self._hidden_shown(seen):
            self._climbing = False
            return None
        users = max(highest + 1, math.ceil(highest * self.settings.growth_ratio))
        reason = f"no queue up to {highest} users" if seen.seen else "the next level up"
        return self._level(min(self._top, users), OrderKind.PROBE, reason)

    def _hidden_shown(self, seen: Assessment) -> bool:
        """Two levels above the departure are enough where TTFT can show nothing anyway."""
        if not seen.hides_waiting:
            return False
        return hidden_queue(seen.usable, fewest=2) is not None

    def _refine(self, seen: Assessment) -> LevelOrder | None:
        found = seen.estimate
        if found is None:
            edge = seen.onset_at_top
            highest = max((level.users for level in seen.usable), default=0)
            if edge is None or highest >= self._top or seen.base is None:
                return None
            reason = f"a queue begins at {edge.users} users"
            return self._level(
                min(self._top, math.ceil(ABOVE * highest)), OrderKind.ESTIMATE, reason
            )
        # At 1 user 1.5 times the knee rounds to the knee itself.
        above = min(max(ABOVE * found.users, round(found.users) + 1), self._top)
        if not self._held(seen, above, above, _NEAR_ABOVE):
            reason = f"half above the {found.users:.0f} users seen so far, where q tells most"
            return self._level(above, OrderKind.ESTIMATE, reason)
        below = BELOW * found.users
        bracketed = self._held(seen, below, found.users, _NEAR_BELOW)
        if 1 <= below <= self._top and not bracketed:
            reason = f"just below {found.users:.0f} users, where no request should wait"
            return self._level(below, OrderKind.BRACKET, reason)
        if not found.tight(self.settings.tolerance) and above >= 1:
            return self._level(above, OrderKind.CONFIRM, "the interval is still wide")
        return None

    def _held(
        self, seen: Assessment, wanted: float, users: float, range_: tuple[float, float]
    ) -> bool:
        """Whether a level in the range was held; among few users none may lie in it."""
        low, high = (ratio * users for ratio in range_)
        held = [level.users for level in seen.ordered if level.void is None]
        return round(wanted) in held or any(low <= n <= high for n in held)

    def _next_down(self) -> LevelOrder | None:
        if not self.settings.down_sweep:
            return None
        if self._down is None:
            found = {level.users for level in assess(self.levels).usable if level.users > 1}
            # Down from the highest level: that one is where the server is now.
            self._down = sorted(found)[-_DOWN_LEVELS - 1 : -1][::-1]
        if not self._down:
            return None
        reason = "on the way down, against the same level on the way up"
        return self._level(self._down.pop(0), OrderKind.DOWN, reason)

    def _level(self, users: float, kind: OrderKind, reason: str, times: int = 1) -> LevelOrder:
        number = max(1, round(users))
        wanted = times * max(
            self.settings.fewest_successes, math.ceil(self.settings.cycles * number)
        )
        few = min(wanted, max(8, self.settings.fewest_successes // 2)) if number <= 2 else wanted
        return LevelOrder(number, wanted, kind, reason, few)

    def _within_budget(self, order: LevelOrder | None) -> LevelOrder | None:
        if order is None:
            return None
        bounds: tuple[tuple[str, float | None, Callable[[], float]], ...] = (
            ("levels", self.settings.most_levels, lambda: len(self._done) + 1),
            (
                "requests",
                self.settings.most_requests,
                lambda: self.spent_requests + order.successes,
            ),
            ("seconds", self.settings.most_s, lambda: self.elapsed_s),
        )
        for name, most, wanted in bounds:
            down = order.kind is OrderKind.DOWN and name == "levels"
            if most is not None and not down and wanted() > most:
                self.ended_by = name
                return None
        return order
