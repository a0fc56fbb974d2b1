"""Turns repeated records of measured clients into the figures that tables show."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Self


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value at a share of the sorted values; None of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the middle and the greatest of the repeats."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Self | None:
        """Of the values there are; None when there are none."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(min(known), median(known), max(known))

    def text(self, digits: int) -> str:
        """As tables show it; a single repeat has no spread to show."""
        if self.low == self.high:
            return f"**{self.middle:.{digits}f}**"
        return f"{self.low:.{digits}f}-**{self.middle:.{digits}f}**-{self.high:.{digits}f}"


def cost_us(record: dict[str, Any]) -> float | None:
    """Microseconds of CPU per content event."""
    return 1e6 * record["cpu_s"] / record["events"] if record["events"] else None


def core_used(record: dict[str, Any]) -> float:
    """Cores in use during the window."""
    return float(record["cpu_s"] / record["wall_s"])


def rate(record: dict[str, Any]) -> float:
    """Content events a second of wall time."""
    return float(record["events"] / record["wall_s"])


def per_core(record: dict[str, Any]) -> float:
    """Content events a second of CPU."""
    return float(record["events"] / record["cpu_s"]) if record["cpu_s"] else 0.0


def cheaper_than(baseline: Sequence[dict], records: Sequence[dict]) -> Spread | None:
    """How many times less CPU per event than the baseline of the same repeat; over 1 is less."""
    ratios = []
    for other, own in zip(baseline, records, strict=False):
        other_us, own_us = cost_us(other), cost_us(own)
        ratios.append(other_us / own_us if other_us and own_us else None)
    return Spread.of(ratios)


def error_ms(records: Sequence[dict], share: float) -> float | None:
    """A percentile of the first-token stamp errors of all repeats together."""
    return percentile([value for record in records for value in record["stamp_errors_ms"]], share)


def answers_timed(records: Sequence[dict]) -> int:
    """How many first tokens the error percentiles rest on."""
    return sum(len(record["stamp_errors_ms"]) for record in records)
