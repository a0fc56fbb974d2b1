"""Limiters as servers run them, one decision after another; nothing here knows the estimator."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Ask:
    """One request as the server sees it."""

    prompt_tokens: int
    asked_max_tokens: int
    completion_tokens: int


class Limiter(Protocol):
    """Decides at its own clock; hears of the end of what it let in."""

    def admit(self, ask: Ask, now_s: float) -> bool: ...
    def ended(self, ask: Ask, now_s: float) -> None: ...


def cost_of(ask: Ask, unit: str) -> float:
    """Units of a request: 1, or tokens asked for, or tokens used."""
    if unit == "requests":
        return 1.0
    second = ask.asked_max_tokens if unit == "asked" else ask.completion_tokens
    return float(ask.prompt_tokens + second)


class _Metered:
    """Charges when it admits, or (``used``) only when the answer is over."""

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def room(self, cost: float, now_s: float) -> bool:
        raise NotImplementedError

    def charge(self, cost: float, now_s: float) -> None:
        raise NotImplementedError

    def admit(self, ask: Ask, now_s: float) -> bool:
        if self.unit == "used":
            # Nothing is known of the answer yet: any unit left lets it in.
            return self.room(1e-6, now_s)
        cost = cost_of(ask, self.unit)
        if not self.room(cost, now_s):
            return False
        self.charge(cost, now_s)
        return True

    def ended(self, ask: Ask, now_s: float) -> None:
        if self.unit == "used":
            self.charge(cost_of(ask, self.unit), now_s)


class Window(_Metered):
    """A counter that is cleared at every multiple of its length after a phase."""

    def __init__(self, limit: float, window_s: float, phase_s: float, unit: str) -> None:
        super().__init__(unit)
        self.limit, self.window_s, self.phase_s = limit, window_s, phase_s
        self.number, self.count = -(10**9), 0.0

    def _turn(self, now_s: float) -> None:
        number = math.floor((now_s - self.phase_s) / self.window_s)
        if number != self.number:
            self.number, self.count = number, 0.0

    def room(self, cost: float, now_s: float) -> bool:
        self._turn(now_s)
        return self.count + cost <= self.limit

    def charge(self, cost: float, now_s: float) -> None:
        self._turn(now_s)
        self.count += cost


class OpenedWindow(_Metered):
    """A counter with an expiry, set by the first request it counts (INCR and EXPIRE)."""

    def __init__(self, limit: float, window_s: float, unit: str) -> None:
        super().__init__(unit)
        self.limit, self.window_s = limit, window_s
        self.expires_s, self.count = -math.inf, 0.0

    def room(self, cost: float, now_s: float) -> bool:
        return cost <= self.limit if now_s >= self.expires_s else self.count + cost <= self.limit

    def charge(self, cost: float, now_s: float) -> None:
        if now_s >= self.expires_s:
            self.expires_s, self.count = now_s + self.window_s, 0.0
        self.count += cost


class SlidingLog(_Metered):
    """Remembers each charge for the length of the window."""

    def __init__(self, limit: float, window_s: float, unit: str) -> None:
        super().__init__(unit)
        self.limit, self.window_s = limit, window_s
        self.log: deque[tuple[float, float]] = deque()
        self.sum = 0.0

    def room(self, cost: float, now_s: float) -> bool:
        while self.log and self.log[0][0] <= now_s - self.window_s:
            self.sum -= self.log.popleft()[1]
        return self.sum + cost <= self.limit

    def charge(self, cost: float, now_s: float) -> None:
        self.log.append((now_s, cost))
        self.sum += cost


class Bucket(_Metered):
    """Refills evenly up to its depth; may owe when charged afterwards."""

    def __init__(self, per_minute: float, depth: float, unit: str) -> None:
        super().__init__(unit)
        self.per_s, self.depth = per_minute / 60, depth
        self.level, self.at_s = depth, 0.0

    def _refill(self, now_s: float) -> None:
        self.level = min(self.depth, self.level + (now_s - self.at_s) * self.per_s)
        self.at_s = now_s

    def room(self, cost: float, now_s: float) -> bool:
        self._refill(now_s)
        return self.level >= cost - 1e-9

    def charge(self, cost: float, now_s: float) -> None:
        self._refill(now_s)
        self.level -= cost


class Cap:
    """So many at once; also the places of a server and its queue."""

    def __init__(self, limit: int) -> None:
        self.limit, self.now = limit, 0

    def admit(self, ask: Ask, now_s: float) -> bool:
        if self.now >= self.limit:
            return False
        self.now += 1
        return True

    def ended(self, ask: Ask, now_s: float) -> None:
        self.now -= 1


class Quota:
    """So many requests for ever."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def admit(self, ask: Ask, now_s: float) -> bool:
        self.left -= 1
        return self.left >= 0

    def ended(self, ask: Ask, now_s: float) -> None:
        pass


class Chance:
    """Refuses a share of all requests by lot: no limit at all."""

    def __init__(self, share: float, draw: "deque[float]") -> None:
        self.share, self.draw = share, draw

    def admit(self, ask: Ask, now_s: float) -> bool:
        self.draw.rotate(1)
        return self.draw[0] >= self.share

    def ended(self, ask: Ask, now_s: float) -> None:
        pass
