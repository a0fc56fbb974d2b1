"""Two limiters in one: what hosted endpoints have."""

from bench.limits.limiters import Ask, Bucket, Cap, SlidingLog, Window, cost_of


class Both:
    """Lets in what both let in, and charges neither otherwise."""

    def __init__(self, first: Window | Bucket | SlidingLog, second: Window | Bucket | Cap) -> None:
        self.first, self.second = first, second

    def admit(self, ask: Ask, now_s: float) -> bool:
        if not self.first.room(cost_of(ask, self.first.unit), now_s):
            return False
        if not self.second.admit(ask, now_s):
            return False
        self.first.charge(cost_of(ask, self.first.unit), now_s)
        return True

    def ended(self, ask: Ask, now_s: float) -> None:
        self.second.ended(ask, now_s)
