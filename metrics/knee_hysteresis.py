"""Whether a server behaves differently on the way down than on the way up."""

from collections.abc import Sequence

from metrics.knee_level import Level
from metrics.knee_queue import latency_interval_s, waiting_share, waiting_share_interval
from metrics.knee_result import Hysteresis

SHARE_DIFFERENCE = 0.05
"""Least difference in queue share that counts, if the intervals do not meet either."""
LATENCY_RATIO = 1.10
"""The same for the mean latency."""


def hysteresis(levels: Sequence[Level], base: Level) -> Hysteresis | None:
    """Compare levels of equal users before and after the top; None when none was repeated."""
    up = [level for level in levels if level.usable() and not level.down and len(level.ttft_s)]
    down = [level for level in levels if level.usable() and level.down and len(level.ttft_s)]
    pairs = [(a, b) for b in down for a in up if a.users == b.users]
    if not pairs:
        return None
    differing = [pair for pair in pairs if _differ(*pair, base)]
    before, after = max(
        differing or pairs,
        key=lambda pair: abs(waiting_share(pair[1], base) - waiting_share(pair[0], base)),
    )
    q_up, q_down = waiting_share(before, base), waiting_share(after, base)
    up_s, down_s = before.mean_latency_s(), after.mean_latency_s()
    figures = (
        f"at {before.users} users {q_up:.0%} of the cycle was spent waiting on the way up and "
        f"{q_down:.0%} on the way down, latency {up_s:.2f} s and {down_s:.2f} s"
    )
    sentence = f"hysteresis: {figures}" if differing else f"no hysteresis: {figures}"
    return Hysteresis(bool(differing), before.users, q_up, q_down, up_s, down_s, sentence)


def _differ(before: Level, after: Level, base: Level) -> bool:
    up, down = waiting_share_interval(before, base), waiting_share_interval(after, base)
    difference = abs(waiting_share(after, base) - waiting_share(before, base))
    if up and down and difference > SHARE_DIFFERENCE and not _meet(up, down):
        return True
    slow, fast = after.mean_latency_s(), before.mean_latency_s()
    ratio = max(slow, fast) / min(slow, fast) if min(slow, fast) > 0 else 1.0
    return ratio > LATENCY_RATIO and not _meet(
        latency_interval_s(before), latency_interval_s(after)
    )


def _meet(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]
