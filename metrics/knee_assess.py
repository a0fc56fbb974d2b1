"""What a set of levels shows, before a verdict: baseline, queue shares, ceiling, estimate.

The judgement of a saved ladder and the search both start from here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from metrics.knee_level import Level, in_order
from metrics.knee_limits import ceiling_of, passed_on_burst
from metrics.knee_queue import CALM_SHARE, ONSET_SHARE, QUEUE_SHARE, baseline, evidence_of
from metrics.knee_result import Ceiling, KneeStatus, LevelEvidence

MODEL_ERROR = 0.03
"""Relative error of the method itself on servers with a known knee (KV-limited ones, the worst)."""
_FINEST = 0.01
"""No level's own estimate counts as more precise than this, relative to it."""
_BRACKET = (0.84, 1.0)
"""Levels in this range of the knee show whether the queue begins there or before."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """One level's estimate and its share in the mean."""

    level_users: int
    users: float
    half_width: float | None
    weight: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of the levels' estimates; ``half_width`` None when levels have means only."""

    users: float
    half_width: float | None
    weighed: tuple[Weighed, ...]
    inflation: float
    """How much more the levels disagree than their intervals explain; 1 when they agree."""

    def tight(self, tolerance: float) -> bool:
        """Whether at least two levels agree on it to ``tolerance``."""
        if self.half_width is None or len(self.weighed) < 2:
            return False
        return self.half_width <= tolerance * self.users


@dataclass(frozen=True, slots=True)
class Assessment:
    """The levels in order, with what each is good for."""

    ordered: tuple[Level, ...]
    usable: tuple[Level, ...]
    evidence: tuple[LevelEvidence, ...]
    """One for each of ``ordered``."""
    base: Level | None
    base_is_calm: bool
    hides_waiting: bool
    """Whether TTFT cannot show a queue at all."""
    ceiling: Ceiling | None
    estimate: Estimate | None

    @property
    def seen(self) -> tuple[LevelEvidence, ...]:
        """The levels whose queue share is known."""
        return tuple(item for item in self.evidence if item.queue_share is not None)

    @property
    def stopped_at(self) -> int:
        """The most users that met the ceiling; 0 without one.

        A lower level may have met it as well, when it was held for longer.
        """
        limited = [level.users for level in self.ordered if level.rate_limited_much()]
        return max(self.ceiling.users, *limited, 0) if self.ceiling else 0

    @property
    def calm_users(self) -> int | None:
        """The highest level without a queue: below one that queues, a calm level is no accident."""
        # Above the levels that the estimate is from, a calm one is.
        limit = min(
            (item.level_users for item in self.estimate.weighed) if self.estimate else (),
            default=math.inf,
        )
        # Where the top level decides, for nothing is estimated, it cannot be calm as well.
        edge = self.onset_at_top if self.estimate is None else None
        calm = [
            e.users for e in self.seen if e.share < CALM_SHARE and e.users < limit and e is not edge
        ]
        return max(calm, default=None)

    @property
    def queueing_users(self) -> int | None:
        """The lowest level with a queue, above every calm one."""
        calm = self.calm_users or 0
        found = [
            e.users
            for e in self.seen
            if e.share >= CALM_SHARE and e.share_low > 0 and e.users > calm
        ]
        return min(found, default=None)

    @property
    def onset_at_top(self) -> LevelEvidence | None:
        """The top level, when a queue begins there that is too short for an estimate."""
        top = max((e.users for e in self.seen), default=0)
        edge = [e for e in self.seen if e.users == top and _begins(e)]
        return max(edge, key=lambda e: e.share, default=None)

    @property
    def contradicted(self) -> tuple[LevelEvidence, ...]:
        """Levels that queue, below one that surely does not: they count for nothing."""
        above = max((e.users for e in self.seen if _surely_calm(e)), default=0)
        return tuple(e for e in self.seen if _queues(e) and e.users <= above)

    @property
    def near_below(self) -> tuple[LevelEvidence, ...]:
        """The levels just below the knee, which show how the queue begins."""
        if self.estimate is None:
            return ()
        low, high = (ratio * self.estimate.users for ratio in _BRACKET)
        return tuple(e for e in self.seen if low <= e.users <= high)

    @property
    def gradual(self) -> bool:
        """Whether the levels just below the knee queue already."""
        near = [e.share for e in self.near_below]
        return bool(near) and min(near) >= CALM_SHARE


def assess(levels: Sequence[Level]) -> Assessment:
    """Look at finished levels, in any order."""
    ordered = in_order(levels)
    ceiling = ceiling_of(ordered)
    usable = [
        level
        for level in ordered
        if level.usable() and not level.down and not passed_on_burst(level, ceiling)
    ]
    timed = _timed(usable)
    hides = bool(usable) and 2 * len(timed) <= len(usable)
    base = baseline(timed) if timed and not hides else None
    calm_base = base is not None and _shown_calm(base, timed)
    judged = {id(level) for level in timed if base and (level is not base or calm_base)}
    evidence = [
        evidence_of(level, base) if base and id(level) in judged else _left_out(level, ceiling)
        for level in ordered
    ]
    above = max((e.users for e in evidence if _surely_calm(e)), default=0)
    # A baseline that may queue itself shows no other level's queue.
    chosen = [e for e in evidence if _queues(e) and e.users > above] if calm_base else []
    estimate = _estimate(chosen) if chosen else None
    return Assessment(
        ordered=tuple(ordered),
        usable=tuple(usable),
        evidence=tuple(
            _used(e, level, base, chosen) for e, level in zip(evidence, ordered, strict=True)
        ),
        base=base,
        base_is_calm=calm_base,
        hides_waiting=hides,
        ceiling=ceiling,
        estimate=estimate,
    )


def _timed(usable: Sequence[Level]) -> list[Level]:
    """The levels whose TTFT can show a queue."""
    timed = [level for level in usable if not level.hides_waiting()]
    unknown = bool(timed) and timed[0].buffered is None and timed[0].looks_whole()
    return [level for level in timed if not (unknown and level.buffered is None)]


def _queues(evidence: LevelEvidence) -> bool:
    return evidence.share >= QUEUE_SHARE and evidence.share_low > CALM_SHARE


def _surely_calm(evidence: LevelEvidence) -> bool:
    return evidence.queue_share is not None and evidence.share_high < CALM_SHARE


def _begins(evidence: LevelEvidence) -> bool:
    if evidence.queue_share_low is None:
        return evidence.share >= CALM_SHARE
    return evidence.share > ONSET_SHARE and evidence.share_low > 0


def _estimate(chosen: Sequence[LevelEvidence]) -> Estimate:
    weighed = [_weighed(evidence) for evidence in chosen]
    total = sum(item.weight for item in weighed)
    users = sum(item.weight * item.users for item in weighed) / total
    inflation = 1.0
    if len(weighed) > 1:
        spread = sum(item.weight * (item.users - users) ** 2 for item in weighed)
        inflation = max(1.0, spread / (len(weighed) - 1))
    half = None
    if all(item.half_width is not None for item in weighed):
        half = math.hypot(math.sqrt(inflation / total), MODEL_ERROR * users)
    shares = tuple(replace(item, weight=item.weight / total) for item in weighed)
    return Estimate(users, half, shares, math.sqrt(inflation))


def _weighed(evidence: LevelEvidence) -> Weighed:
    users = evidence.users * (1 - evidence.share)
    if evidence.queue_share_low is None:
        # Means alone have no precision of their own: they count alike, relative to the level.
        return Weighed(evidence.users, users, None, 1 / (MODEL_ERROR * evidence.users) ** 2)
    half = evidence.users * (evidence.share_high - evidence.share_low) / 2
    floor = max(half, _FINEST * max(users, 1e-9 * evidence.users))
    return Weighed(evidence.users, users, half, 1 / floor**2)


def _shown_calm(base: Level, timed: Sequence[Level]) -> bool:
    """Whether the baseline can be told from a queue.

    One user never queues behind another; with more, a queue would grow at a level well above.
    """
    return base.users == 1 or timed[-1].users >= 1.5 * base.users


def _left_out(level: Level, ceiling: Ceiling | None) -> LevelEvidence:
    return LevelEvidence(level.users, None, None, None, None, _why(level, ceiling), level.stage)


def _why(level: Level, ceiling: Ceiling | None) -> str:
    if level.void:
        return level.void
    if level.rate_limited_much():
        return KneeStatus.RATE_LIMITED.value
    if level.failed_much():
        return KneeStatus.ERRORS.value
    if level.down:
        return "on the way down"
    if passed_on_burst(level, ceiling):
        return "passed on the burst allowance"
    if not len(level.ttft_s):
        return "no time to first token"
    if level.hides_waiting() or (level.buffered is None and level.looks_whole()):
        return "TTFT does not show waiting"
    return "not shown free of a queue"


def _used(
    evidence: LevelEvidence, level: Level, base: Level | None, chosen: Sequence[LevelEvidence]
) -> LevelEvidence:
    if any(evidence is item for item in chosen):
        return replace(evidence, used_for="estimate")
    if level is base:
        return replace(evidence, used_for="baseline")
    if evidence.queue_share is None:
        return evidence
    return replace(evidence, used_for="calm" if evidence.share < CALM_SHARE else "onset")
