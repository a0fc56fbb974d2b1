"""One search against one simulated server, in simulated time; and the truth about that server."""

from dataclasses import dataclass

from bench.knee.kinds import Kind
from metrics.knee import KneeEstimate, Level
from metrics.knee_limits import in_flight_at, in_flight_shares
from metrics.knee_search import SLOW_S, KneeSearch, LevelOrder, SearchSettings
from shapes.knee import HOPELESS_FAILURES, HOPELESS_RATIO, LEAST_HOLD_S, WARM_LIMIT_S
from simulator.closed_loop import ClientRequest, ClosedLoop, RequestOutcome
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
    world, found = World(kind, seed), KneeSearch(settings)
    elapsed_s = 0.0
    while isinstance(order := found.next(), LevelOrder):
        held = hold(world, order)
        elapsed_s = held.ended_s
        level = measured(kind, order.users, held)
        found.add(level, elapsed_s=elapsed_s, spent_requests=held.spent_requests)
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


@dataclass(slots=True)
class Held:
    """One level as a run holds it: what ended in the hold, and when that was."""

    began_s: float
    ended_s: float
    spent_requests: int
    """Those of the warm-up among them."""
    requests: list[ClientRequest]


class World:
    """A server and its users, run in pieces; ``now_s`` is seconds since its creation."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self._loop = ClosedLoop(kind.profile, kind.workload, seed)
        self.now_s = 0.0

    def run(self, users: int, ended: int, until_s: float) -> list[ClientRequest]:
        """What ends until so many requests have ended, or until then."""
        level = HeldLevel(users, 10**9, longest_s=until_s - self.now_s, most_requests=ended)
        result = self._loop.run_level(level)
        self.now_s = result.ended_s
        return result.requests


def hold(world: World, order: LevelOrder) -> Held:
    """Hold a level by the rules of ``shapes/knee.py``, in simulated time.

    Until every user has finished a request of this level nothing is counted. With answers of wide
    lengths that takes several cycles: the longest of the first ones decides.
    """
    users, limit_s = order.users, WARM_LIMIT_S
    cold, spent, began_s = set(range(users)), 0, world.now_s
    while cold and world.now_s < began_s + limit_s:
        piece = world.run(users, len(cold), began_s + limit_s)
        spent += len(piece)
        cold -= {request.user for request in piece if request.sent_s >= began_s}
    held, began_s = Held(world.now_s, world.now_s, spent, []), world.now_s
    while (more := _missing(held, order)) and world.now_s < began_s + _LONGEST_S:
        piece = world.run(users, more, began_s + _LONGEST_S)
        held.requests += piece
        held.spent_requests += len(piece)
        held.ended_s = world.now_s
    return held


def _missing(held: Held, order: LevelOrder) -> int:
    """Requests until the hold can be over at the soonest; 0 when it is."""
    good = [r.latency_s for r in held.requests if r.outcome is RequestOutcome.OK]
    ended = len(held.requests)
    failed = ended - len(good)
    if failed >= HOPELESS_FAILURES and failed > HOPELESS_RATIO * ended:
        # Refused requests are a sign to stop, unless the level is there to look into them.
        return max(0, order.successes - ended) if order.uncut else 0
    slow = bool(good) and sum(good) > SLOW_S * len(good)
    missing = (order.few_successes if slow else order.successes) - len(good)
    if missing > 0:
        # No further than to where a level of refusals might be cut.
        return min(missing, max(1, HOPELESS_FAILURES - failed)) if failed else missing
    return 0 if held.ended_s - held.began_s >= LEAST_HOLD_S else 1


def measured(kind: Kind, users: int, held: Held) -> Level:
    """What a client would report of a level: what ended in the hold, in the order it ended.

    Picking by the end keeps long and short requests in proportion; picking by the start would
    leave out the long ones that were still running when the level ended. Of those, the first that
    were sent are the long ones and the last the short ones: batches in that order would differ by
    it alone, and widen every interval.
    """
    counted = held.requests
    good = [r for r in counted if r.outcome is RequestOutcome.OK]
    limited = [r for r in counted if r.outcome is RequestOutcome.RATE_LIMITED]
    spans_s = [(r.sent_s, r.sent_s + r.latency_s) for r in good]
    window_s = held.ended_s - held.began_s
    buffered = kind.profile.buffering is not Buffering.OFF
    return Level(
        users=users,
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
