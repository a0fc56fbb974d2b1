"""The verdict step by step: what was seen at each level, and which rule decided."""

from collections.abc import Sequence

from metrics.knee import find_knee
from metrics.knee_assess import MODEL_ERROR, Assessment, assess
from metrics.knee_level import Level
from metrics.knee_queue import CALM_SHARE, QUEUE_SHARE
from metrics.knee_result import KneeEstimate, KneeStatus, LevelEvidence
from metrics.knee_rivals import rivals
from metrics.knee_slo import GOOD_RATIO

RULES = {
    KneeStatus.KNEE: "a level queues, and the queue begins sharply",
    KneeStatus.GRADUAL_KNEE: "a level queues, and so do the levels just below the knee",
    KneeStatus.NEAR_TOP: "only the top level waits, and too little for an estimate",
    KneeStatus.NO_KNEE: "no level waits",
    KneeStatus.HIDDEN_QUEUE: "latency leaves the batching law A + D * N, TTFT does not show why",
    KneeStatus.RATE_LIMITED: "the climb ends with 429s, and nothing queued below",
    KneeStatus.INFLIGHT_CAP: "429s come at one number of requests in flight, nothing queued below",
    KneeStatus.ERRORS: "the climb ends with failures, and nothing queued below",
    KneeStatus.CLIENT_LIMITED: "the client was at its end, and nothing queued below",
    KneeStatus.UNRESOLVED: "nothing that was measured shows a queue or shows that there is none",
}


def explain(levels: Sequence[Level], slo_ratio: float = GOOD_RATIO) -> tuple[str, ...]:
    """Lines for a reader, from the baseline to the rule that fired."""
    seen, found = assess(levels), find_knee(levels, slo_ratio)
    return (
        _baseline(seen),
        *(_level(evidence) for evidence in seen.evidence),
        *_estimates(seen),
        f"Rule: {found.status.value}: {RULES[found.status]}.",
        f"Verdict: {found.sentence()}.",
        *_side(found),
        *_rivals(levels, slo_ratio),
    )


def _users(number: int) -> str:
    return f"{number} user" + ("" if number == 1 else "s")


def _baseline(seen: Assessment) -> str:
    base = seen.base
    if base is None:
        return (
            "Baseline: none, because no usable level has a time to first token that shows a wait."
        )
    text = (
        f"Baseline: {_users(base.users)}, the lowest mean TTFT of the 3 smallest levels "
        f"({base.mean_ttft_s() * 1000:.1f} ms, decode step {base.mean_tpot_s() * 1000:.1f} ms)"
    )
    return text + ("." if seen.base_is_calm else "; not shown to be free of a queue.")


def _level(evidence: LevelEvidence) -> str:
    head = f"Level of {_users(evidence.users)}:"
    if evidence.queue_share is None:
        return f"{head} left out, {evidence.note}."
    interval = "interval n/a"
    if evidence.queue_share_low is not None and evidence.queue_share_high is not None:
        interval = f"{evidence.queue_share_low:.1%} to {evidence.queue_share_high:.1%}"
    text = f"{head} q = {evidence.share:.1%} ({interval}), used for: {evidence.used_for}"
    if evidence.carried_users is not None:
        text += f", N (1 - q) = {evidence.carried_users:.1f}"
    return text + "."


def _estimates(seen: Assessment) -> list[str]:
    found = seen.estimate
    if found is None:
        return [f"Estimate: none, because no level has q of {QUEUE_SHARE:.0%} or more for certain."]
    weights = ", ".join(
        f"{item.users:.1f} from {item.level_users} users ({item.weight:.0%})"
        for item in found.weighed
    )
    lines = [f"Estimate: {found.users:.1f} users, the weighted mean of {weights}."]
    if found.half_width is None:
        lines.append("Interval: n/a, because the levels have means only.")
    else:
        lines.append(
            f"Interval: ± {found.half_width:.1f}, with {MODEL_ERROR:.0%} for the method and "
            f"widened {found.inflation:.2f} times for levels that disagree."
        )
    calm = "none" if seen.calm_users is None else f"{seen.calm_users} users"
    queueing = "none" if seen.queueing_users is None else f"{seen.queueing_users} users"
    lines.append(
        f"Bracket: highest level with q under {CALM_SHARE:.0%}: {calm}; "
        f"lowest above it: {queueing}."
    )
    return lines


def _side(found: KneeEstimate) -> list[str]:
    side, lines = found.side, []
    if side.peak_rps is not None:
        lines.append(f"Peak throughput: {side.peak_rps:.3g} requests/s at {side.peak_users} users.")
    if side.efficiency_users is not None:
        lines.append(f"Efficiency knee (elasticity one half): {side.efficiency_users:.1f} users.")
    if side.slo is not None:
        share = f"{side.slo.good_ratio:.0%} of requests good"
        users = side.slo.users
        if users is None:
            lines.append(f"Capacity with {share}: below the lowest level.")
        else:
            bound = "at least " if side.slo.at_least else ""
            lines.append(f"Capacity with {share}: {bound}{users:.0f} users.")
    if side.ceiling is not None:
        lines.append(f"Ceiling from {side.ceiling.users} users on: {side.ceiling.detail}.")
    if side.hysteresis is not None:
        lines.append(f"{side.hysteresis.sentence.capitalize()}.")
    return lines


def _rivals(levels: Sequence[Level], slo_ratio: float) -> list[str]:
    named = [
        f"{name} {'none' if users is None else f'{users:.0f}'}"
        for name, users in rivals(levels, slo_ratio).items()
    ]
    return [f"Other methods, for comparison only: {', '.join(named)}."]
