"""Where queueing begins, read from the queue itself rather than from the bend of a curve.

At a level of N closed-loop users whose requests wait W seconds for their first token beyond what
they would wait at low load, the share of the cycle spent waiting is q = W / (R + Z), with R the
latency and Z the think time. By Little's law N * q users stand in the queue, so the server carries
N_q = N * (1 - q) without queueing; every saturated level measures it independently.

W is the mean TTFT less the baseline's, less 1.5 times the growth of a decode step: with a fuller
batch an arrival waits half a longer step, and its own prefill shares one. Levels with q below
``QUEUE_SHARE`` are not used for an estimate, because synchronised prefills alone reach 0.1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from metrics.statistics import jackknife_mean_interval, mean

QUEUE_SHARE = 0.20
"""q from which a level is taken as queueing and gives an estimate."""
CALM_SHARE = 0.05
"""q below which a level is taken as free of a queue."""
LIMITED_RATIO = 0.01
"""Share of requests refused or failed above which a level measures the refusal, not the queue."""
MODEL_ERROR = 0.03
"""Relative error of the method itself on servers with a known knee (KV-limited ones, the worst)."""


class KneeStatus(StrEnum):
    """What kind of answer a ladder gave."""

    KNEE = "knee"
    NOT_REACHED = "not_reached"
    """No queue up to the top level: the knee is at least there."""
    NEAR_TOP = "near_top"
    """A queue begins at the top level, but is too short there to measure."""
    RATE_LIMITED = "rate_limited"
    ERRORS = "errors"
    UNRESOLVED = "unresolved"
    """Too little was measured, or nothing that shows a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What one held level measured; the arrays are of successes, in the order they were sent.

    ``ttft_s`` and ``tpot_s`` are of streamed requests only. ``void`` gives the reason when the
    level must not be used (never held, a worker was lost).
    """

    users: int
    stage: int | None = None
    """The stage's id: levels may repeat."""
    ttft_s: Sequence[float]
    tpot_s: Sequence[float]
    latency_s: Sequence[float]
    think_s: float = 0.0
    requests: int
    rate_limited: int = 0
    failed: int = 0
    void: str | None = None


@dataclass(frozen=True, slots=True)
class LevelEvidence:
    """What the method saw at one level; None where it could not be told."""

    users: int
    queue_share: float | None
    queue_share_low: float | None
    queue_share_high: float | None
    carried_users: float | None
    """N * (1 - q), given from ``QUEUE_SHARE`` on."""
    note: str | None
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class KneeEstimate:
    """The verdict on a ladder: ``users`` with its interval, or the lower bound ``at_least``."""

    status: KneeStatus
    users: float | None
    low: float | None
    high: float | None
    at_least: int | None
    calm_users: int | None
    """The highest level without a queue."""
    queueing_users: int | None
    """The lowest level with one."""
    reason: str
    evidence: tuple[LevelEvidence, ...]

    def sentence(self) -> str:
        """The verdict as one line for a reader."""
        if self.status is KneeStatus.KNEE and self.users is not None:
            return (
                f"knee at about {self.users:.0f} concurrent streams "
                f"({self.low:.1f} to {self.high:.1f}): {self.reason}"
            )
        if self.at_least is not None:
            streams = "stream" if self.at_least == 1 else "streams"
            return f"knee not reached, at least {self.at_least} concurrent {streams}: {self.reason}"
        return f"no knee found: {self.reason}"


def find_knee(levels: Sequence[Level]) -> KneeEstimate:
    """Read the knee off finished levels of a closed loop, in any order.

    Levels that were never held, that were refused (429) or that failed are named and left out; a
    limiter is never taken for a queue.
    """
    ordered = sorted(levels, key=lambda level: level.users)
    limited = [level for level in ordered if _refusal(level) is not None]
    usable = [
        level
        for level in ordered
        if level.void is None and _refusal(level) is None and len(level.ttft_s) > 0
    ]
    if not usable:
        status, reason = _nothing_usable(ordered)
        return _verdict(status, reason, tuple(_note(level) for level in ordered))
    base = _baseline(usable)
    calm_base = _shown_calm(base, usable)
    chosen = {id(level) for level in usable if level is not base or calm_base}
    evidence = tuple(
        _evidence(level, base) if id(level) in chosen else _note(level) for level in ordered
    )
    if not calm_base:
        reason = (
            f"the lowest level has {base.users} users, and nothing shows that it is free of a "
            "queue; add lower --stages"
        )
        return _verdict(KneeStatus.UNRESOLVED, reason, evidence)
    return _not_below(_judge(evidence, usable, limited), base)


def _judge(
    evidence: tuple[LevelEvidence, ...], usable: Sequence[Level], limited: Sequence[Level]
) -> KneeEstimate:
    seen = [e for e in evidence if e.queue_share is not None]
    calm = max((e.users for e in seen if _share(e) < CALM_SHARE), default=None)
    queueing = [e for e in seen if _share(e) >= QUEUE_SHARE and (calm is None or e.users > calm)]
    if queueing:
        return _knee(evidence, queueing, calm)
    top = usable[-1].users
    if limited and limited[0].users > top:
        refusal = _refusal(limited[0])
        reason = f"no queue up to {top}, then at {limited[0].users} users " + (
            "429s: a rate limit, not a queue" if refusal is KneeStatus.RATE_LIMITED else "errors"
        )
        return _verdict(refusal or KneeStatus.ERRORS, reason, evidence, at_least=top, calm=calm)
    share = max(_share(e) for e in seen if e.users == top)
    if share >= CALM_SHARE:
        reason = (
            f"at the top level of {top} users {share:.0%} of the cycle is spent waiting, "
            "too little to measure a queue; add higher --stages"
        )
        return _verdict(KneeStatus.NEAR_TOP, reason, evidence, at_least=calm or top, calm=calm)
    reason = f"no request waited for a slot at {top} users; add higher --stages"
    return _verdict(KneeStatus.NOT_REACHED, reason, evidence, at_least=top, calm=top)


def _knee(
    evidence: tuple[LevelEvidence, ...], queueing: Sequence[LevelEvidence], calm: int | None
) -> KneeEstimate:
    weights, estimates = [], []
    for level in queueing:
        half = (_share_high(level) - _share_low(level)) / 2 * level.users
        estimates.append(level.users * (1 - _share(level)))
        weights.append(1 / max(half, MODEL_ERROR * level.users) ** 2)
    total = sum(weights)
    users = sum(w * e for w, e in zip(weights, estimates, strict=True)) / total
    spread = sum(w * (e - users) ** 2 for w, e in zip(weights, estimates, strict=True))
    inflation = max(1.0, spread / (len(estimates) - 1)) if len(estimates) > 1 else 1.0
    half = math.sqrt(inflation / total + (MODEL_ERROR * users) ** 2)
    lowest = min(level.users for level in queueing)
    worst = max(queueing, key=lambda level: level.users)
    reason = (
        f"at {worst.users} users {_share(worst):.0%} of each request's cycle is spent waiting "
        "for its first token"
        + (
            f", at {calm} users under {CALM_SHARE:.0%}"
            if calm is not None
            else ", and no level below was free of it"
        )
    )
    return KneeEstimate(
        status=KneeStatus.KNEE,
        users=users,
        low=max(0.0, users - half),
        high=users + half,
        at_least=None,
        calm_users=calm,
        queueing_users=lowest,
        reason=reason,
        evidence=evidence,
    )


def _baseline(usable: Sequence[Level]) -> Level:
    """The level with the lowest mean TTFT among the 3 smallest."""
    return min(usable[:3], key=lambda level: mean(level.ttft_s) or math.inf)


def _shown_calm(base: Level, usable: Sequence[Level]) -> bool:
    """Whether the baseline can be told from a queue.

    One user never queues behind another; with more, a queue would grow at a level well above.
    """
    return base.users == 1 or usable[-1].users >= 1.5 * base.users


def _not_below(estimate: KneeEstimate, base: Level) -> KneeEstimate:
    """No knee is named at or below a baseline of several users: its own wait counts as none."""
    if estimate.users is None or base.users == 1 or estimate.users > 1.15 * base.users:
        return estimate
    reason = (
        f"requests queue from the lowest level of {base.users} users on: the knee is at or below "
        "it; add lower --stages"
    )
    return _verdict(KneeStatus.UNRESOLVED, reason, estimate.evidence)


def _evidence(level: Level, base: Level) -> LevelEvidence:
    base_ttft_s, base_tpot_s = mean(base.ttft_s) or 0.0, mean(base.tpot_s) or 0.0
    step_growth_s = 1.5 * max(0.0, (mean(level.tpot_s) or 0.0) - base_tpot_s)
    cycle_s = (mean(level.latency_s) or 0.0) + level.think_s

    def share(ttft_s: float) -> float:
        return max(0.0, ttft_s - base_ttft_s - step_growth_s) / cycle_s if cycle_s > 0 else 0.0

    q = share(mean(level.ttft_s) or 0.0)
    bounds = jackknife_mean_interval(level.ttft_s)
    return LevelEvidence(
        users=level.users,
        queue_share=q,
        queue_share_low=share(bounds[0]) if bounds else None,
        queue_share_high=share(bounds[1]) if bounds else None,
        carried_users=level.users * (1 - q) if q >= QUEUE_SHARE else None,
        note=None,
        stage=level.stage,
    )


def _refusal(level: Level) -> KneeStatus | None:
    if not level.requests:
        return None
    if level.rate_limited > LIMITED_RATIO * level.requests:
        return KneeStatus.RATE_LIMITED
    if level.failed > LIMITED_RATIO * level.requests:
        return KneeStatus.ERRORS
    return None


def _nothing_usable(ordered: Sequence[Level]) -> tuple[KneeStatus, str]:
    refusals = {_refusal(level) for level in ordered}
    if KneeStatus.RATE_LIMITED in refusals:
        return KneeStatus.RATE_LIMITED, "429s at every level: a rate limit, not a queue"
    if KneeStatus.ERRORS in refusals:
        return KneeStatus.ERRORS, "requests failed at every level"
    if any(level.requests for level in ordered):
        return KneeStatus.UNRESOLVED, "no streamed answer gave a time to first token"
    return KneeStatus.UNRESOLVED, "no level was held long enough to finish a request"


def _note(level: Level) -> LevelEvidence:
    refusal = _refusal(level)
    note = level.void or (refusal.value if refusal else _unmeasured(level))
    return LevelEvidence(level.users, None, None, None, None, note, level.stage)


def _unmeasured(level: Level) -> str:
    return "not shown free of a queue" if len(level.ttft_s) else "no time to first token"


def _verdict(
    status: KneeStatus,
    reason: str,
    evidence: tuple[LevelEvidence, ...],
    at_least: int | None = None,
    calm: int | None = None,
) -> KneeEstimate:
    return KneeEstimate(status, None, None, None, at_least, calm, None, reason, evidence)


def _share(evidence: LevelEvidence) -> float:
    return evidence.queue_share or 0.0


def _share_low(evidence: LevelEvidence) -> float:
    return _share(evidence) if evidence.queue_share_low is None else evidence.queue_share_low


def _share_high(evidence: LevelEvidence) -> float:
    return _share(evidence) if evidence.queue_share_high is None else evidence.queue_share_high
