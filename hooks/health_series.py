"""A coarse series of a worker's own state, so that a soak can tell its drift from the server's."""

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metrics.histogram import Histogram

SAMPLE_PERIOD_S = 10.0
_STATM = Path("/proc/self/statm")
_MIB_PER_PAGE = resource.getpagesize() / 2**20


def resident_mib() -> float | None:
    """This process's memory in MiB; None where the system does not tell."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * _MIB_PER_PAGE
    except (OSError, ValueError, IndexError):
        return None


@dataclass(slots=True)
class HealthSeries:
    """One sample each 10 s: ``at_s`` on the worker's clock, memory, and the loop's lag since."""

    worker: str
    _since_s: float = 0.0
    _lag: Histogram | None = None

    def add_lag(self, lag_s: float) -> None:
        """Count how late one short sleep ended, in seconds."""
        if self._lag is None:
            self._lag = Histogram()
        self._lag.add(max(0.0, lag_s))

    def take(self, now_s: float) -> list[dict[str, Any]]:
        """The sample that is due, if one is."""
        if now_s - self._since_s < SAMPLE_PERIOD_S:
            return []
        lag, self._lag, self._since_s = self._lag, None, now_s
        return [
            {
                "worker": self.worker,
                "at_s": now_s,
                "resident_mib": resident_mib(),
                "loop_lag_p99_s": lag.percentile(0.99) if lag is not None else None,
            }
        ]
