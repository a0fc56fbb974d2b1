"""One search against one simulated server, in simulated time; and the truth about that server."""

from dataclasses import dataclass

from bench.knee.kinds import Kind
from metrics.knee import KneeEstimate, Level
from metrics.knee_limits import in_flight_at, in_flight_shares
from metrics.knee_search import KneeSearch, LevelOrder, SearchSettings
from simulator.closed_loop import ClosedLoop, LevelResult, RequestOutcome
from simulator.closed_loop import Level as HeldLevel
from simulator.profile import Buffering

_LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Found:
    """What one search answered and what it cost."""

    estimate: KneeEstimate
    requests: int
    levels: int
    seconds: float
    """Of simulated time."""


def search(kind: Kind, seed: int, settings: SearchSettings) -> Found:
    """Run one search to its verdict."""
    world, found = ClosedLoop(kind.profile, kind.workload, seed), KneeSearch(settings)
    elapsed_s = 0.0
    while isinstance(order := found.next(), LevelOrder):
        held = world.run_level(_held(order))
        elapsed_s = held.ended_s
        level = measured(kind, held)
        found.add(level, elapsed_s=elapsed_s, spent_requests=len(held.requests))
    return Found(order, found.spent_requests, len(found.levels), elapsed_s)


def true_knee(kind: Kind) -> float | None:
    """Users less the server's own mean queue, over a long saturated run; None without a knee.

    Nothing of the estimator is in it: no TTFT, no latency, no baseline.
    """
    if kind.deep_users is None:
        return None
    world = ClosedLoop(kind.profile, kind.workload, seed=1_000_003)
    users = kind.deep_users
    _, held = world.run_levels([HeldLevel(users, 5 * users), HeldLevel(users, 40 * users)])
    return users - held.mean_waiting - held.mean_front


def _held(order: LevelOrder) -> HeldLevel:
    wanted = order.successes + order.users
    # Refused requests are a sign to stop, unless the level is there to look into them.
    most = 20 * wanted if order.uncut else 1.3 * wanted + 40
    return HeldLevel(order.users, wanted, longest_s=_LONGEST_S, most_requests=most)


def measured(kind: Kind, held: LevelResult) -> Level:
    """What a client would report of a level: what ended once every user had finished a request.

    Picking by the end keeps long and short requests in proportion; picking by the start would
    leave out the long ones that were still running when the level ended.
    """
    begin_s = _warm_at_s(held)
    counted = [r for r in held.requests if r.sent_s + r.latency_s > begin_s]
    good = [r for r in counted if r.outcome is RequestOutcome.OK]
    limited = [r for r in counted if r.outcome is RequestOutcome.RATE_LIMITED]
    accepted = [r for r in held.requests if r.outcome is RequestOutcome.OK]
    spans_s = [(r.sent_s, r.sent_s + r.latency_s) for r in accepted]
    window_s = held.ended_s - begin_s
    buffered = kind.profile.buffering is not Buffering.OFF
    return Level(
        users=held.level.users,
        ttft_s=[r.ttft_s for r in good if r.ttft_s is not None],
        tpot_s=[] if buffered else [r.tpot_s for r in good if r.tpot_s is not None],
        latency_s=[r.latency_s for r in good],
        think_s=kind.workload.think_s,
        requests=len(counted),
        rate_limited=len(limited),
        failed=len(counted) - len(good) - len(limited),
        completed_per_s=len(good) / window_s if window_s > 0 else None,
        in_flight_at_refusals=in_flight_at(spans_s, [r.sent_s for r in limited]),
        in_flight_shares=in_flight_shares(spans_s),
        buffered=buffered,
    )


def _warm_at_s(held: LevelResult) -> float:
    first = [
        r.sent_s + r.latency_s
        for r in held.requests
        if r.turn == 0 and r.outcome is RequestOutcome.OK
    ]
    return min(max(first, default=held.started_s), held.ended_s)
