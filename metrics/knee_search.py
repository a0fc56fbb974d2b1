"""The search for the knee: from finished levels to the next level, or to the verdict.

It doubles users until the queue share says that requests wait, reads the knee off the saturated
levels, and holds a few more where they tell most: at 1.5 times the knee, at 0.9 times it, and
again until the interval is narrow. A refused level is looked into once, above and below the limit.

It reads no clock and starts no load: whoever does hands each finished level to ``add``.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from metrics.knee import verdict
from metrics.knee_assess import Assessment, assess
from metrics.knee_level import Level
from metrics.knee_order import LevelOrder, OrderKind, SearchSettings
from metrics.knee_result import KneeEstimate
from metrics.knee_service import hidden_queue

__all__ = ["SLOW_S", "KneeResult", "KneeSearch", "LevelOrder", "OrderKind", "SearchSettings"]

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
_MOST_LIMIT_LEVELS = 3
_DOWN_LEVELS = 4


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
        elif order.kind is OrderKind.LIMIT:
            return self._nearer_limit(level)
        return None

    def _at_limit(self, order: LevelOrder, level: Level) -> LevelOrder | None:
        if order.kind is not OrderKind.LIMIT:
            # Whatever the longer level shows, this many users were refused.
            self._bound(level.users - 1)
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

    def _nearer_limit(self, passed: Level) -> LevelOrder | None:
        """The limit lies above a level that was to meet it: half way, by ratio, to what did.

        What passed at the refused level may have been read too low, when its last answers came
        after it was cut.
        """
        refused = min(level.users for level in self.levels if level.rate_limited_much())
        tried = sum(order.kind is OrderKind.LIMIT for order, _ in self._done)
        if tried >= _MOST_LIMIT_LEVELS or passed.users >= refused:
            return None
        users = max(passed.users + 1, math.ceil(math.sqrt(passed.users * refused)))
        reason = f"no 429s at {passed.users} users, so nearer to the {refused} that met them"
        return self._level(users, OrderKind.LIMIT, reason, _LIMIT_TIMES)

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
