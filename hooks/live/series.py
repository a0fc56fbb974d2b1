"""A run's points over hours in bounded memory: the older, the coarser.

So many points are kept as they came; of what is older, neighbours are merged in pairs, and again
when those are too many. Each doubling of a run's length costs the same number of points more.
"""

from collections import deque
from collections.abc import Iterator

from hooks.live.points import Point, merged

MOST_OF_A_WIDTH = 60


class LiveSeries:
    """Points in the order of time, and which of them changed after a revision."""

    def __init__(self, most_of_a_width: int = MOST_OF_A_WIDTH) -> None:
        self._most = most_of_a_width
        self._tiers: list[deque[tuple[int, Point]]] = [deque()]
        """The finest first; each point with the revision that made it."""
        self.revision = 0
        """Grows by one with each point."""

    def __iter__(self) -> Iterator[Point]:
        for tier in reversed(self._tiers):
            yield from (point for _, point in tier)

    def __len__(self) -> int:
        return sum(map(len, self._tiers))

    def add(self, point: Point) -> None:
        """A new point; it follows the last one."""
        self.revision += 1
        self._tiers[0].append((self.revision, point))
        for number, tier in enumerate(self._tiers):
            if len(tier) <= self._most:
                return
            (_, first), (_, then) = tier.popleft(), tier.popleft()
            if number + 1 == len(self._tiers):
                self._tiers.append(deque())
            self._tiers[number + 1].append((self.revision, merged(first, then)))

    def since(self, revision: int) -> list[Point]:
        """The points made after a revision; each replaces those that lie within its time."""
        return [point for tier in reversed(self._tiers) for made, point in tier if made > revision]
