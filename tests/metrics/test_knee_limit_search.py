"""The search at a limit: it asks for no more users than were refused, and trusts no one reading."""

from dataclasses import replace

import pytest

from bench.knee.kinds import CHAT, SERVER, Kind
from bench.knee.world import World, hold, measured
from metrics.knee import KneeStatus
from metrics.knee_search import KneeSearch, LevelOrder, OrderKind, SearchSettings

WIDE = {"max_num_seqs": 1_024, "kv_tokens": 10_000_000}
LAG_S = 1.0


def lagging(level, held):
    """The level as it is read when the answers of the last second are still to come."""
    if not level.rate_limited:
        return level
    seen = [r for r in held.requests if r.outcome.value == "ok"]
    early = sum(r.sent_s + r.latency_s <= held.ended_s - LAG_S for r in seen)
    lasted_s = held.ended_s - held.began_s
    return replace(level, completed_per_s=0.6 * early / lasted_s)


def capped(cap, read, most_users=64):
    """(orders, levels, requests, verdict) of a search under a cap on requests in flight."""
    kind = Kind("cap", replace(SERVER, **WIDE, max_in_flight=cap), None, workload=CHAT)
    world, search = World(kind, seed=5), KneeSearch(SearchSettings(most_users=most_users))
    orders = []
    while isinstance(order := search.next(), LevelOrder):
        held = hold(world, order)
        orders.append(order)
        level = measured(kind, order.users, held)
        search.add(read(level, held), spent_requests=held.spent_requests)
    return orders, search.levels, search.spent_requests, order


@pytest.mark.parametrize("read", [lambda level, held: level, lagging], ids=["exact", "lagging"])
@pytest.mark.parametrize("cap", [2, 4, 7, 12])
def test_a_refused_level_bounds_the_climb(cap, read):
    """No level above the first that was refused, and none of more users than it again."""
    orders, levels, _, found = capped(cap, read)
    first = next(n for n, level in enumerate(levels) if level.rate_limited_much())

    assert KneeStatus.INFLIGHT_CAP is found.status
    assert max(order.users for order in orders) == orders[first].users
    assert 0.5 * cap <= found.at_least <= cap


@pytest.mark.parametrize("read", [lambda level, held: level, lagging], ids=["exact", "lagging"])
def test_a_cap_of_four_costs_no_storm_of_429s(read):
    """At most 150 requests are refused, and at most a fifth of all."""
    _, levels, spent, _ = capped(4, read)
    limited = sum(level.rate_limited for level in levels)

    assert limited <= 150
    assert limited <= spent / 5


def test_a_limit_that_was_read_too_low_is_looked_for_nearer():
    """What passed at 8 users was read as 2.4: no 429s at 3, so once more between 3 and 8."""
    orders, levels, _, _ = capped(4, lagging)
    pairs = zip(orders, levels, strict=True)
    tried = [
        (order.users, level.rate_limited_much())
        for order, level in pairs
        if order.kind is OrderKind.LIMIT
    ]

    assert [False, True] == [much for _, much in tried]
    assert tried[0][0] < tried[1][0] < 8
