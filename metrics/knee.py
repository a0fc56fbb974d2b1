"""Where queueing begins, read from the queue itself rather than from the bend of a curve.

At a level of N closed-loop users whose requests wait W seconds for their first token beyond what
they would wait at low load, the share of the cycle spent waiting is q = W / (R + Z), with R the
latency and Z the think time. By Little's law N * q users stand in the queue, so the server carries
N_q = N * (1 - q) without queueing; every saturated level measures it independently.

W is the mean TTFT less the baseline's, less 1.5 times the growth of a decode step: with a fuller
batch an arrival waits half a longer step, and its own prefill shares one. Levels with q below
``QUEUE_SHARE`` are not used for an estimate, because synchronised prefills alone reach 0.1.
"""

from collections.abc import Sequence

from metrics.knee_assess import MODEL_ERROR, Assessment, Estimate, assess
from metrics.knee_hysteresis import hysteresis
from metrics.knee_level import LIMITED_RATIO, Level, level_of_means
from metrics.knee_queue import CALM_SHARE, QUEUE_SHARE
from metrics.knee_result import (
    Ceiling,
    Hysteresis,
    KneeEstimate,
    KneeStatus,
    LevelEvidence,
    Side,
    SloCapacity,
)
from metrics.knee_service import HiddenQueue, ServiceLaw, hidden_queue, service_law
from metrics.knee_slo import GOOD_RATIO, slo_capacity
from metrics.more_levels import more_levels

__all__ = [
    "CALM_SHARE",
    "LIMITED_RATIO",
    "MODEL_ERROR",
    "QUEUE_SHARE",
    "Ceiling",
    "Hysteresis",
    "KneeEstimate",
    "KneeStatus",
    "Level",
    "LevelEvidence",
    "Side",
    "SloCapacity",
    "find_knee",
    "level_of_means",
    "verdict",
]

WIDEST = 0.30
"""Half of an interval, relative to the knee, beyond which no number is given."""
SCALING = 0.25
"""Elasticity from which throughput is said to be still scaling."""
ALIKE = 0.15
"""Elasticity below which soft saturation and a hidden queue look alike from outside."""
HIGHER, LOWER = more_levels("ladder")


def find_knee(levels: Sequence[Level], slo_ratio: float = GOOD_RATIO) -> KneeEstimate:
    """Read the knee off finished levels of a closed loop, in any order.

    Levels that were never held, that were refused (429) or that failed are named and left out; a
    limiter is never taken for a queue. ``slo_ratio`` is the share of requests, 0 to 1, that must
    be good for the capacity under the objectives.
    """
    return verdict(assess(levels), HIGHER, LOWER, slo_ratio)


def verdict(
    seen: Assessment, higher: str = HIGHER, lower: str = LOWER, slo_ratio: float = GOOD_RATIO
) -> KneeEstimate:
    """The verdict on what was seen; ``higher`` and ``lower`` say how to measure other levels."""
    law = service_law(seen.usable, seen.base) if seen.usable else None
    side = _side(seen, law, slo_ratio)
    if not seen.usable:
        return _nothing_usable(seen, side)
    if seen.hides_waiting or seen.base is None:
        return _without_ttft(seen, side)
    if not seen.base_is_calm:
        if seen.ceiling is not None and seen.ceiling.users > seen.usable[-1].users:
            reason = f"at {seen.ceiling.users} users {seen.ceiling.detail}"
            return _answer(seen, side, seen.ceiling.status, reason)
        is_lowest = all(seen.base.users <= one.users for one in seen.seen)
        which = "the lowest level" if is_lowest else "the level with the soonest first tokens"
        reason = (
            f"{which} has {seen.base.users} users, and nothing shows that it is free of a queue; "
            f"{lower}"
        )
        return _answer(seen, side, KneeStatus.UNRESOLVED, reason)
    if seen.estimate is not None:
        return _knee(seen, seen.estimate, side, lower)
    return _no_estimate(seen, side, law, higher)


def _knee(seen: Assessment, found: Estimate, side: Side, lower: str) -> KneeEstimate:
    base = seen.base
    lowest = min(e.users for e in seen.seen)
    if base is not None and 1 < base.users == lowest and found.users <= 1.15 * base.users:
        # The baseline's own wait counts as none, so no knee can be named at or below it. Where
        # a lower level was held, its first token took longer: what that is, it is no queue.
        reason = (
            f"the levels put the knee at the lowest one of {base.users} users or below it, and "
            f"its own wait counts as none; {lower}"
        )
        return _answer(seen, side, KneeStatus.UNRESOLVED, reason)
    if found.half_width is not None and found.half_width > WIDEST * found.users:
        reason = (
            f"requests queue, but the levels leave the knee anywhere from "
            f"{max(0.0, found.users - found.half_width):.0f} to "
            f"{found.users + found.half_width:.0f} users; measure them for longer"
        )
        return _answer(seen, side, KneeStatus.UNRESOLVED, reason)
    used = [e for e in seen.evidence if e.used_for == "estimate"]
    worst = max(used, key=lambda e: e.users)
    calm = seen.calm_users
    reason = (
        f"at {_users(worst.users)} {worst.share:.0%} of each request's cycle is spent waiting "
        "for its first token"
    )
    reason += (
        f", at {_users(calm)} under {CALM_SHARE:.0%}"
        if calm is not None
        else ", and no level below was free of it"
    )
    status = KneeStatus.KNEE
    if seen.gradual:
        status = KneeStatus.GRADUAL_KNEE
        reason += ", and it grows gradually in between"
    return _at(seen, side, status, found.users, found.half_width, reason)


def _no_estimate(seen: Assessment, side: Side, law: ServiceLaw | None, higher: str) -> KneeEstimate:
    # A level that was left out shows no queue and no calm either.
    top = max(e.users for e in seen.seen)
    ceiling, edge = seen.ceiling, seen.onset_at_top
    if ceiling is not None and seen.stopped_at >= top:
        return _below_ceiling(seen, side, ceiling, top)
    if edge is not None:
        reason = f"at the top level of {edge.users} users {edge.share:.0%} of the cycle is spent "
        if edge.share < QUEUE_SHARE:
            reason += f"waiting: a queue begins there, and a level above would measure it; {higher}"
        else:
            reason += (
                f"waiting, but that is uncertain ({edge.share_low:.0%} to {edge.share_high:.0%}); "
                "measure it for longer"
            )
        return _near_top(seen, side, edge, reason)
    hidden = hidden_queue(seen.usable, fewest=2)
    if hidden is not None:
        return _hidden(seen, side, hidden, "the time to first token does not show it")
    reason = f"no request waited for a slot at {_users(top)}"
    uncertain = [e for e in seen.seen if e.users == top and e.share >= CALM_SHARE]
    if uncertain:
        e = uncertain[-1]
        reason = (
            f"the {e.share:.0%} of the cycle spent waiting at {_users(top)} may be chance "
            f"({e.share_low:.0%} to {e.share_high:.0%})"
        )
    if law is not None and side.elasticity is not None:
        reason += f", {_shape(side)}"
    if seen.contradicted:
        waited = ", ".join(str(item.users) for item in seen.contradicted)
        reason += f", although some did at {waited} below it: repeat that"
    reason += f"; {higher}"
    return _answer(seen, side, KneeStatus.NO_KNEE, reason, at_least=top)


def _below_ceiling(seen: Assessment, side: Side, ceiling: Ceiling, top: int) -> KneeEstimate:
    edge = seen.onset_at_top
    above = f"at {_users(ceiling.users)} {ceiling.detail}"
    if ceiling.users <= top:
        above = f"{above}, once it was held for longer"
    if edge is None:
        reason = f"no queue up to {top}, then {above}"
        return _answer(seen, side, ceiling.status, reason, at_least=top)
    reason = f"at {_users(edge.users)} {edge.share:.0%} of the cycle is spent waiting"
    if edge.share >= CALM_SHARE and _certain(edge):
        return _near_top(seen, side, edge, f"{reason}: a queue begins there; {above}")
    reason += f" ({edge.share_low:.0%} to {edge.share_high:.0%}), which is too little to tell"
    return _answer(seen, side, ceiling.status, f"{reason}; {above}", at_least=seen.calm_users)


def _certain(edge: LevelEvidence) -> bool:
    return edge.queue_share_low is not None and edge.share_low >= edge.share / 2


def _near_top(seen: Assessment, side: Side, edge: LevelEvidence, reason: str) -> KneeEstimate:
    at_least = seen.calm_users or (None if seen.ceiling else edge.users)
    if not _certain(edge):
        return _answer(seen, side, KneeStatus.NEAR_TOP, reason, at_least=at_least)
    users = edge.users * (1 - edge.share)
    half = edge.users * (edge.share_high - edge.share_low) / 2 + MODEL_ERROR * users
    return _at(seen, side, KneeStatus.NEAR_TOP, users, half, reason, at_least=at_least)


def _shape(side: Side) -> str:
    """How throughput goes on, where nothing queues."""
    elasticity = side.elasticity or 0.0
    if elasticity >= SCALING:
        return f"and throughput is still scaling (elasticity {elasticity:.2f})"
    text = f"throughput has reached a plateau by batching (elasticity {elasticity:.2f}"
    if side.efficiency_users is not None:
        text += f", one half at {side.efficiency_users:.0f} users"
    text += ")"
    if elasticity < ALIKE:
        text += "; from outside, a queue after the first token would look the same"
    return text


def _without_ttft(seen: Assessment, side: Side) -> KneeEstimate:
    streamed = any(len(level.ttft_s) for level in seen.usable)
    why = "answers arrive in one piece" if streamed else "no streamed answer gave a TTFT"
    hidden = hidden_queue(seen.usable, fewest=1)
    if hidden is not None:
        return _hidden(seen, side, hidden, why)
    ceiling, top = seen.ceiling, seen.usable[-1].users
    if ceiling is not None and ceiling.users > top:
        reason = f"{why}; at {ceiling.users} users {ceiling.detail}"
        return _answer(seen, side, ceiling.status, reason)
    reason = f"{why}, and latency up to {top} users shows no queue either"
    return _answer(seen, side, KneeStatus.UNRESOLVED, reason)


def _hidden(seen: Assessment, side: Side, found: HiddenQueue, why: str) -> KneeEstimate:
    reason = f"latency grows as in a queue from {found.queueing_users} users on, but {why}"
    return KneeEstimate(
        status=KneeStatus.HIDDEN_QUEUE,
        users=found.users,
        low=found.low,
        high=found.high,
        at_least=None,
        calm_users=found.calm_users,
        queueing_users=found.queueing_users,
        reason=reason,
        evidence=seen.evidence,
        side=side,
    )


def _nothing_usable(seen: Assessment, side: Side) -> KneeEstimate:
    if seen.ceiling is not None:
        reason = f"no level is below it: from {_users(seen.ceiling.users)} on {seen.ceiling.detail}"
        return _answer(seen, side, seen.ceiling.status, reason)
    return _answer(seen, side, KneeStatus.UNRESOLVED, _why_unusable(seen.ordered))


def _why_unusable(levels: Sequence[Level]) -> str:
    void = next((level for level in levels if level.void is not None), None)
    if not levels:
        return "there is no level of concurrent users"
    if any(level.requests and level.void is None for level in levels):
        return "no request succeeded"
    if void is not None:
        return f"no level may be used; the first, of {_users(void.users)}: {void.void}"
    return "no level was held long enough to finish a request"


def _users(number: int) -> str:
    return f"{number} user" + ("" if number == 1 else "s")


def _side(seen: Assessment, law: ServiceLaw | None, slo_ratio: float) -> Side:
    top = max((level.users for level in seen.usable), default=0)
    efficiency = law.efficiency_users() if law else None
    if efficiency is not None and seen.estimate is not None:
        efficiency = min(efficiency, seen.estimate.users)
    fastest = max(seen.usable, key=lambda level: level.completed_rps() or 0.0, default=None)
    return Side(
        efficiency_users=efficiency if efficiency is not None and efficiency <= top else None,
        elasticity=law.elasticity(top) if law and seen.estimate is None else None,
        peak_rps=fastest.completed_rps() if fastest else None,
        peak_users=fastest.users if fastest else None,
        slo=slo_capacity(seen.ordered, slo_ratio),
        ceiling=seen.ceiling,
        hysteresis=hysteresis(seen.ordered, seen.base) if seen.base else None,
    )


def _at(
    seen: Assessment,
    side: Side,
    status: KneeStatus,
    users: float,
    half: float | None,
    reason: str,
    at_least: int | None = None,
) -> KneeEstimate:
    low = None if half is None else max(0.0, users - half)
    high = None if half is None else users + half
    calm, queueing = seen.calm_users, seen.queueing_users
    return KneeEstimate(
        status, users, low, high, at_least, calm, queueing, reason, seen.evidence, side
    )


def _answer(
    seen: Assessment, side: Side, status: KneeStatus, reason: str, at_least: int | None = None
) -> KneeEstimate:
    calm = seen.calm_users if at_least is not None else None
    return KneeEstimate(status, None, None, None, at_least, calm, None, reason, seen.evidence, side)
