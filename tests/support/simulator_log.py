"""The simulator's own testimony: when its queues were non-empty."""

from __future__ import annotations

import json
import math
from pathlib import Path


def queue_spans(trace: Path, queue: str = "engine") -> list[tuple[float, float]]:
    """Spans in which a queue of `--trace` was non-empty, seconds on the machine's monotonic clock.

    A span that had not ended when the file was read ends at infinity.
    """
    events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    edges = [(event["at_s"], event["waiting"]) for event in events if event["queue"] == queue]
    began = [at_s for at_s, waiting in edges if waiting]
    ended = [at_s for at_s, waiting in edges if not waiting]
    if [waiting > 0 for _, waiting in edges] != [place % 2 == 0 for place in range(len(edges))]:
        raise ValueError(f"{trace}: beginnings and ends of the queue do not alternate")
    return list(zip(began, [*ended, math.inf], strict=False))


def queued_ratio(spans: list[tuple[float, float]], since_s: float, until_s: float) -> float:
    """Share of a stretch of time in which the queue was non-empty, 0 to 1."""
    overlaps_s = (min(end_s, until_s) - max(start_s, since_s) for start_s, end_s in spans)
    return math.fsum(overlap_s for overlap_s in overlaps_s if overlap_s > 0) / (until_s - since_s)
