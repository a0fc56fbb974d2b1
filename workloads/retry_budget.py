"""How many retries a client allows itself in proportion to its requests.

Retries of a refused load are load: without a bound a short outage ends in a storm of them.
"""

import math

_PARTS = 1_000_000
"""One retry in whole parts: a sum of floats such as ten times 0.1 would stay below 1."""


class RetryBudget:
    """A bucket of retries: full at the beginning, filled by requests, emptied by retries.

    Over any stretch of ``n`` requests at most ``reserve + ratio · n`` retries are allowed.
    """

    def __init__(self, ratio: float | None, reserve: int = 10) -> None:
        """``ratio`` is retries per logical request (0.2: one for five), to the millionth; None
        allows all. ``reserve`` is how many may be saved up.

        Raises:
            ValueError: the ratio or the reserve is below 0, or the ratio is no finite number.
        """
        if ratio is not None and not 0 <= ratio < math.inf:
            raise ValueError(f"a retry budget of {ratio} per request: write 0 or more, such as 0.2")
        if reserve < 0:
            raise ValueError(f"a reserve of {reserve} retries: write 0 or more")
        self._unlimited = ratio is None
        self._earned = round((ratio or 0.0) * _PARTS)
        self._left = reserve * _PARTS
        # A bucket that holds less than one retry, or than one request brings, would lose its share.
        self._most = max(self._left, self._earned + _PARTS)

    def earn(self) -> None:
        """A logical request was begun."""
        self._left = min(self._most, self._left + self._earned)

    def take(self) -> bool:
        """Spend one retry; False when none is left."""
        if self._unlimited:
            return True
        if self._left < _PARTS:
            return False
        self._left -= _PARTS
        return True
