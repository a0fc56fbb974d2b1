"""The verdict step by step: what was seen at each level, and which rule decided."""

from collections.abc import Sequence

from metrics.knee import HIGHER, LOWER, verdict
from metrics.knee_assess import MODEL_ERROR, Assessment, assess
from metrics.knee_level import Level
from metrics.knee_queue import CALM_SHARE, QUEUE_SHARE
from metrics.knee_result import KneeEstimate, KneeStatus, LevelEvidence
from metrics.knee_rivals import rivals
from metrics.knee_slo import GOOD_RATIO

_LEFT_OUT = {
    KneeStatus.RATE_LIMITED.value: "too many of its requests were answered 429",
    KneeStatus.ERRORS.value: "too many of its requests failed",
}


def explain(
    levels: Sequence[Level],
    higher: str = HIGHER,
    lower: str = LOWER,
    slo_ratio: float = GOOD_RATIO,
) -> tuple[str, ...]:
    """Lines for a reader, from the baseline to the rule that fired; each follows from the last.

    ``higher`` and ``lower`` say how the reader gets more levels on either side.
    """
    seen = assess(levels)
    found = verdict(seen, higher, lower, slo_ratio)
    return (
        _baseline(seen),
        *(_level(evidence, seen) for evidence in seen.evidence),
        *_estimates(seen, found),
        f"Rule: {found.status.value}: {_rule(seen, found)}.",
        f"Verdict: {found.sentence()}.",
        *_side(found),
        *_rivals(levels, slo_ratio),
    )


def _users(number: int) -> str:
    return f"{number} user" + ("" if number == 1 else "s")


def _baseline(seen: Assessment) -> str:
    base = seen.base
    if base is None:
        why = (
            "the time to first token shows a wait at no level that may be used"
            if seen.usable
            else "no level may be used"
        )
        return f"Baseline: none, because {why}."
    step = f", decode step {base.mean_tpot_s() * 1000:.1f} ms" if len(base.tpot_s) else ""
    text = (
        f"Baseline: {_users(base.users)}, the lowest mean TTFT of the smallest levels "
        f"({base.mean_ttft_s() * 1000:.1f} ms{step})"
    )
    return text + ("." if seen.base_is_calm else "; not shown to be free of a queue.")


def _level(evidence: LevelEvidence, seen: Assessment) -> str:
    head = f"Level of {_users(evidence.users)}:"
    if evidence.queue_share is None:
        note = evidence.note or "nothing is known of its queue"
        return f"{head} left out, {_LEFT_OUT.get(note, note)}."
    interval = "interval n/a"
    if evidence.queue_share_low is not None and evidence.queue_share_high is not None:
        interval = f"{evidence.queue_share_low:.1%} to {evidence.queue_share_high:.1%}"
    text = f"{head} q = {evidence.share:.1%} ({interval}), used for: {_use(evidence, seen)}"
    if evidence.used_for == "estimate":
        text += f", N (1 - q) = {evidence.users * (1 - evidence.share):.1f}"
    return text + "."


def _use(evidence: LevelEvidence, seen: Assessment) -> str:
    if not seen.base_is_calm:
        return "nothing, because the baseline may queue itself"
    if any(item.users == evidence.users for item in seen.contradicted) and evidence.share > 0:
        return "nothing, because a level above it surely does not queue"
    edge = seen.onset_at_top
    if seen.estimate is None and edge is not None and edge.users == evidence.users:
        return "onset"
    return evidence.used_for


def _estimates(seen: Assessment, verdict: KneeEstimate) -> list[str]:
    found = seen.estimate
    if found is None:
        why = _why_no_estimate(seen)
        if verdict.users is None:
            return [f"Estimate: none, because {why}."]
        source = {
            KneeStatus.HIDDEN_QUEUE: "from the latency, which leaves the line A + D * N",
            KneeStatus.NEAR_TOP: "N (1 - q) of the top level alone",
        }[verdict.status]
        return [f"Estimate: {verdict.users:.1f} users, {source}, because {why}."]
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
    if verdict.users is None:
        return [*lines, "The estimate is not the knee, for the reason in the verdict."]
    calm = "none" if seen.calm_users is None else _users(seen.calm_users)
    queueing = "none" if seen.queueing_users is None else _users(seen.queueing_users)
    lines.append(
        f"Bracket: highest level with q under {CALM_SHARE:.0%}: {calm}; "
        f"lowest above it that waits: {queueing}."
    )
    return lines


def _why_no_estimate(seen: Assessment) -> str:
    if not seen.usable:
        return "no level may be used"
    if seen.base is None:
        return "the time to first token cannot show a queue"
    if not seen.base_is_calm:
        return "nothing shows that the baseline is free of a queue"
    if seen.contradicted:
        return "the levels that queue lie below one that surely does not"
    return f"no level has q of {QUEUE_SHARE:.0%} or more for certain"


def _rule(seen: Assessment, found: KneeEstimate) -> str:
    below = "no level below shows whether requests queue"
    if seen.usable and seen.base_is_calm:
        below = "nothing queued below"
        if seen.onset_at_top is not None:
            below = "the wait at the top level is too little to tell a queue by"
    return {
        KneeStatus.KNEE: _how_it_begins(seen),
        KneeStatus.GRADUAL_KNEE: "a level queues, and so do the levels just below the knee",
        KneeStatus.NEAR_TOP: "a queue begins at the top level, and no level is surely deep in it",
        KneeStatus.NO_KNEE: "the top level shows no wait for certain",
        KneeStatus.HIDDEN_QUEUE: "latency leaves the batching law A + D * N as in a queue, and the "
        "time to first token does not show why",
        KneeStatus.RATE_LIMITED: f"the climb ends with 429s, and {below}",
        KneeStatus.INFLIGHT_CAP: f"429s come at one number of requests in flight, and {below}",
        KneeStatus.ERRORS: f"the climb ends with failures, and {below}",
        KneeStatus.CLIENT_LIMITED: f"the client was at its end, and {below}",
        KneeStatus.UNRESOLVED: _why_unresolved(seen),
    }[found.status]


def _how_it_begins(seen: Assessment) -> str:
    if seen.near_below:
        return "a level queues, and one just below the knee does not"
    return "a level queues; none was held just below the knee to show how sharply that begins"


def _why_unresolved(seen: Assessment) -> str:
    if not seen.usable:
        return "there is no level that may be used"
    if seen.base is None:
        return "neither the time to first token nor the latency shows a queue"
    if not seen.base_is_calm:
        return "without a level well above the lowest one, a queue there would not be seen"
    return "levels queue, but they do not tell from how many users on"


def _side(found: KneeEstimate) -> list[str]:
    side, lines = found.side, []
    if side.peak_rps is not None:
        lines.append(
            f"Peak throughput: {side.peak_rps:.3g} requests/s at {_users(side.peak_users or 0)}."
        )
    if side.efficiency_users is not None:
        lines.append(f"Efficiency knee (elasticity one half): {side.efficiency_users:.1f} users.")
    if side.slo is not None:
        share = f"{side.slo.good_ratio:.0%} of requests good"
        users = side.slo.users
        if users is None:
            lines.append(f"Capacity with {share}: below the lowest level.")
        else:
            bound = "at least " if side.slo.at_least else ""
            lines.append(f"Capacity with {share}: {bound}{_users(round(users))}.")
    if side.ceiling is not None:
        lines.append(f"Ceiling from {_users(side.ceiling.users)} on: {side.ceiling.detail}.")
    if side.hysteresis is not None:
        lines.append(f"{side.hysteresis.sentence.capitalize()}.")
    return lines


def _rivals(levels: Sequence[Level], slo_ratio: float) -> list[str]:
    named = [
        f"{name} {'none' if users is None else f'{users:.0f}'}"
        for name, users in rivals(levels, slo_ratio).items()
    ]
    return [f"Other methods, for comparison only: {', '.join(named)}."]
