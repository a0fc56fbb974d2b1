"""The knee as the levels held so far show it: an estimate from means, which the report replaces.

A master has no rows of all requests, so there is no interval; the method is the report's own.
"""

from hooks.live.run import LiveRun
from hooks.live.stage_lines import StageLine
from metrics.knee import find_knee
from metrics.knee_level import Level
from metrics.knee_result import KneeEstimate
from metrics.outcome import Outcome
from metrics.tally import StageTally

SHAPES = frozenset({"ladder", "knee"})
"""Shapes with levels of users, from which a knee can be read."""


def knee_so_far(run: LiveRun) -> KneeEstimate | None:
    """The verdict on what has been held; None for other shapes, and before the first level."""
    settings = run.state.settings
    if settings.shape not in SHAPES:
        return None
    think_s = settings.think_time_s.mean
    # A remark is the evidence of a rule that made the stage void.
    held = [line for _, line in run.lines.values() if line.state == "held" and not line.remark]
    tallies = run.state.book.by_stage
    levels = [
        _level(line, tallies[line.stage], think_s)
        for line in held
        if line.completed and line.stage in tallies
    ]
    return find_knee(levels) if levels else None


def _level(line: StageLine, tally: StageTally, think_s: float) -> Level:
    def means(name: str) -> list[float]:
        mean = tally.latency[name].mean
        return [] if mean is None else [mean]

    refused = tally.held.by_outcome[Outcome.RATE_LIMITED.value]
    return Level(
        users=line.target_users,
        stage=line.stage,
        ttft_s=means("ttft_s"),
        tpot_s=means("tpot_s"),
        latency_s=means("e2e_latency_s"),
        think_s=think_s,
        requests=line.offered,
        rate_limited=refused,
        failed=line.failed - refused,
        completed_per_s=line.completed / line.held_s if line.held_s else None,
        buffered=None,
        down=line.kind == "down",
    )
