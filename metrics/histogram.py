"""A mergeable histogram of positive values with a stated relative error.

Buckets grow geometrically, as in DDSketch (Masson, Rim, Lee, VLDB 2019): with relative error a and
g = (1 + a) / (1 - a), bucket k holds the values in (g**(k-1), g**k], and its representative
2 * g**k / (g + 1) is within a of each of them. Adding two histograms adds their buckets, so merging
workers loses nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

RELATIVE_ERROR = 0.01
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)
_FLOOR = 1e-9
"""Values at or below this (a nanosecond, for seconds) are counted as zero."""


@dataclass(slots=True)
class Histogram:
    """Counts of values by geometric bucket; minimum, maximum and sum are exact."""

    counts: dict[int, int] = field(default_factory=dict)
    zeros: int = 0
    n: int = 0
    total: float = 0.0
    minimum: float | None = None
    maximum: float | None = None

    def add(self, value: float) -> None:
        """Count one value.

        Raises:
            ValueError: the value is negative, NaN or infinite.
        """
        if not 0 <= value < math.inf:
            raise ValueError(f"a histogram takes finite values of 0 and more, not {value!r}")
        if value <= _FLOOR:
            self.zeros += 1
        else:
            key = math.ceil(math.log(value) / _LOG_GAMMA)
            self.counts[key] = self.counts.get(key, 0) + 1
        self._note(1, value, value, value)

    def add_many(self, values: Sequence[float] | npt.NDArray[np.float64]) -> None:
        """Count many values at once; the same as :meth:`add` for each.

        Raises:
            ValueError: a value is negative, NaN or infinite.
        """
        array = np.asarray(values, dtype=np.float64)
        if array.size == 0:
            return
        if not (np.isfinite(array).all() and (array >= 0).all()):
            raise ValueError("a histogram takes finite values of 0 and more")
        positive = array[array > _FLOOR]
        self.zeros += int(array.size - positive.size)
        keys, counts = np.unique(
            np.ceil(np.log(positive) / _LOG_GAMMA).astype(np.int64), return_counts=True
        )
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            self.counts[key] = self.counts.get(key, 0) + count
        self._note(array.size, float(array.sum()), float(array.min()), float(array.max()))

    def _note(self, n: int, total: float, low: float, high: float) -> None:
        self.n += n
        self.total += total
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)

    def merge(self, other: "Histogram") -> None:
        """Add the other histogram's counts to this one."""
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        self.zeros += other.zeros
        if other.minimum is not None and other.maximum is not None:
            self._note(other.n, other.total, other.minimum, other.maximum)

    def copy(self) -> "Histogram":
        """The same values, on their own."""
        copy = Histogram()
        copy.merge(self)
        return copy

    def since(self, before: "Histogram | None") -> "Histogram":
        """What came to this growing histogram after it was as ``before``.

        Its least and greatest value are known to their bucket alone, so within 1 %.
        """
        if before is None or not before.n:
            return self.copy()
        counts = {
            key: count - before.counts.get(key, 0)
            for key, count in self.counts.items()
            if count > before.counts.get(key, 0)
        }
        zeros, n = self.zeros - before.zeros, self.n - before.n
        if n <= 0:
            return Histogram()
        return Histogram(
            counts=counts,
            zeros=zeros,
            n=n,
            total=self.total - before.total,
            minimum=0.0 if zeros else _value(min(counts)),
            maximum=_value(max(counts)) if counts else 0.0,
        )

    @property
    def mean(self) -> float | None:
        """Exact mean; None when empty."""
        return self.total / self.n if self.n else None

    def percentile(self, q: float) -> float | None:
        """Nearest-rank quantile for ``q`` in 0-1, within 1 %, never outside minimum and maximum.

        None when empty.
        """
        if not self.n or self.minimum is None or self.maximum is None:
            return None
        rank = max(1, math.ceil(q * self.n))
        if rank >= self.n:
            return self.maximum
        if rank <= self.zeros:
            return self.minimum
        seen = self.zeros
        for key in sorted(self.counts):
            seen += self.counts[key]
            if seen >= rank:
                return min(max(_value(key), self.minimum), self.maximum)
        return self.maximum

    def at_most(self, bounds: Sequence[float]) -> list[int]:
        """How many values are at most each bound; ``bounds`` ascend.

        A bucket counts by its representative, so a value within 1 % of a bound may be counted on
        its other side.
        """
        counted, seen, place, keys = [], self.zeros, 0, sorted(self.counts)
        for bound in bounds:
            while place < len(keys) and _value(keys[place]) <= bound:
                seen += self.counts[keys[place]]
                place += 1
            counted.append(seen)
        return counted

    def to_wire(self) -> dict[str, Any]:
        """Plain values for msgpack or JSON; :meth:`from_wire` is the inverse."""
        return {
            "relative_error": RELATIVE_ERROR,
            "keys": list(self.counts),
            "counts": list(self.counts.values()),
            "zeros": self.zeros,
            "n": self.n,
            "total": self.total,
            "minimum": self.minimum,
            "maximum": self.maximum,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Rebuild a histogram.

        Raises:
            ValueError: it was made with another relative error, so its buckets do not add up
                with ours.
        """
        if wire["relative_error"] != RELATIVE_ERROR:
            raise ValueError(
                f"histogram of relative error {wire['relative_error']}, not {RELATIVE_ERROR}: "
                "run the same version of the suite on all machines"
            )
        return cls(
            counts=dict(zip(wire["keys"], wire["counts"], strict=True)),
            zeros=wire["zeros"],
            n=wire["n"],
            total=wire["total"],
            minimum=wire["minimum"],
            maximum=wire["maximum"],
        )


def _value(key: int) -> float:
    """What stands for the values of a bucket."""
    return float(2 * _GAMMA**key / (_GAMMA + 1))
