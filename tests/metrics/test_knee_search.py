"""The search as a state machine: which level it asks for, and when it is done."""

from dataclasses import replace

import pytest

from metrics.knee import KneeEstimate, KneeStatus, Level
from metrics.knee_search import KneeSearch, LevelOrder, OrderKind, SearchSettings
from tests.support.knee_levels import refused, slots


def run(answer, settings=None, spent=None):
    """Hold every level that is asked for; (search, orders, verdict)."""
    search, orders = KneeSearch(settings), []
    while isinstance(order := search.next(), LevelOrder):
        assert len(orders) < 40, "the search does not end"
        orders.append(order)
        search.add(answer(order), elapsed_s=10.0 * len(orders), spent_requests=spent)
    assert isinstance(order, KneeEstimate)
    return search, orders, order


def server(knee, **changes):
    """A server with so many slots, as the search sees it."""
    return lambda order: slots(order.users, knee, n=order.successes, **changes)


def limited(order, rate_rps=26.0, cap=False):
    """No queue, but 429s above ``rate_rps`` users, each of whom sends one request a second."""
    if order.users <= rate_rps:
        return slots(order.users, 1_000, completed_per_s=float(order.users))
    crowd = [rate_rps] * 40 if cap else [rate_rps * (0.7 + 0.02 * (n % 30)) for n in range(40)]
    return refused(order.users, rate_rps, in_flight=crowd)


@pytest.mark.parametrize("knee", [1, 2, 3, 5, 6])
def test_among_few_users_no_level_is_asked_for_again_and_again(knee):
    """0.9 and 1.5 times the knee round to levels that were held: a handful is enough."""
    _, orders, found = run(server(knee))

    assert knee == pytest.approx(found.users, abs=0.5)
    assert len(orders) <= 7


@pytest.mark.parametrize("knee", [4, 7, 19, 57, 100])
def test_L10_a_known_queue_is_found_to_a_tenth_with_its_bracket(knee):
    """Doubling, one level above, one below: the interval holds the slots, for few requests."""
    search, orders, found = run(server(knee))

    assert KneeStatus.KNEE is found.status
    assert knee == pytest.approx(found.users, rel=0.1)
    assert found.low <= knee <= found.high
    assert 0.8 * knee <= found.calm_users <= 1.05 * knee < found.queueing_users
    assert search.spent_requests <= 3500
    assert search.ended_by is None
    assert len(orders) <= 14


def test_the_climb_doubles_until_a_queue_shows_and_no_further():
    """19 slots: 1, 2, 4, 8, 16, 32, then around 19."""
    _, orders, _ = run(server(19))
    probes = [order.users for order in orders if order.kind is OrderKind.PROBE]
    others = [order for order in orders if order.kind is not OrderKind.PROBE]

    assert [1, 2, 4, 8, 16, 32] == probes
    assert all(0.8 * 19 <= order.users <= 1.6 * 19 for order in others)
    assert all(order.reason for order in orders)


def test_L09_without_a_knee_the_search_ends_at_the_most_users():
    """50 ms at any load, 16 users at most: at least 16, after five levels."""
    _, orders, found = run(server(10_000), SearchSettings(most_users=16))

    assert [1, 2, 4, 8, 16] == [order.users for order in orders]
    assert KneeStatus.NO_KNEE is found.status
    assert (16, None) == (found.at_least, found.users)
    assert "allow more users" in found.reason


def test_no_level_is_above_the_most_users():
    """A knee at 90 under 100 users: 1.5 times it is out of reach."""
    _, orders, found = run(server(90), SearchSettings(most_users=100))

    assert 100 == max(order.users for order in orders)
    assert KneeStatus.NEAR_TOP is found.status
    assert 90 == pytest.approx(found.users, rel=0.05)


@pytest.mark.parametrize(
    ("cap", "status"), [(False, KneeStatus.RATE_LIMITED), (True, KneeStatus.INFLIGHT_CAP)]
)
def test_L12_429s_are_looked_into_above_and_below_and_are_no_knee(cap, status):
    """Refused at 32: once longer just above what passes, once just below; the limit is 26."""
    _, orders, found = run(lambda order: limited(order, cap=cap))

    assert [OrderKind.LIMIT, OrderKind.LIMIT_CHECK] == [order.kind for order in orders[-2:]]
    assert [True, False] == [order.uncut for order in orders[-2:]]
    assert 26 < orders[-2].users <= 32
    assert 4 * 3 * orders[-2].users == orders[-2].successes
    assert 23 == orders[-1].users
    assert status is found.status
    assert (23, None) == (found.at_least, found.users)
    assert 26 == pytest.approx(found.side.ceiling.completed_rps)


def test_a_knee_under_a_limit_is_still_found():
    """5 slots under a limit that bites above 8 users."""
    _, orders, found = run(lambda o: limited(o, 8.0) if o.users > 8 else server(5)(o))

    assert OrderKind.ESTIMATE not in [order.kind for order in orders]
    assert KneeStatus.KNEE is found.status
    assert 5 == pytest.approx(found.users, rel=0.1)


def test_errors_end_the_climb():
    """From 8 users on half of the requests fail: at least 4, and no level above 8."""

    def failing(order):
        level = server(1_000)(order)
        return replace(level, failed=level.requests // 2) if order.users >= 8 else level

    _, orders, found = run(failing)

    assert [1, 2, 4, 8] == [order.users for order in orders]
    assert KneeStatus.ERRORS is found.status
    assert 4 == found.at_least


def test_M15_a_client_at_its_end_is_tried_once_more_and_then_named():
    """16 users twice void: never the server's knee, and at least 8."""

    def starved(order):
        level = server(1_000)(order)
        void = "client-limited: CPU 99 %" if order.users >= 16 else None
        return replace(level, void=void, client_limited=void is not None)

    _, orders, found = run(starved)

    assert [1, 2, 4, 8, 16, 16] == [order.users for order in orders]
    assert KneeStatus.CLIENT_LIMITED is found.status
    assert (8, None) == (found.at_least, found.users)


def test_L01_a_level_that_was_void_once_is_held_again_and_forgotten():
    """One lost worker at 16 users changes nothing but one more level."""
    lost = []

    def losing(order):
        if order.users == 16 and not lost:
            lost.append(order)
            return slots(16, 2, void="a worker was lost")
        return server(19)(order)

    _, orders, found = run(losing)

    assert 2 == sum(order.users == 16 for order in orders)
    assert KneeStatus.KNEE is found.status
    assert 19 == pytest.approx(found.users, rel=0.1)


def test_a_buffered_stream_stops_the_climb_when_latency_has_told():
    """32 slots behind a buffering proxy: two levels above the bend, not up to 256."""

    def buffered(order):
        level = server(32)(order)
        return replace(level, ttft_s=level.latency_s, tpot_s=[], buffered=True)

    _, orders, found = run(buffered)

    assert KneeStatus.HIDDEN_QUEUE is found.status
    assert 128 == max(order.users for order in orders)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (SearchSettings(most_levels=3), "levels"),
        (SearchSettings(most_requests=200), "requests"),
        (SearchSettings(most_s=25), "seconds"),
    ],
    ids=["levels", "requests", "seconds"],
)
def test_L02_a_budget_ends_the_search_with_what_is_known(settings, name):
    """Three levels of 60 requests and 10 s: at least 4, and the budget's name."""
    search, orders, found = run(server(19), settings)

    assert 3 == len(orders)
    assert name == search.ended_by
    assert KneeStatus.NO_KNEE is found.status
    assert 4 == found.at_least


def test_L05_a_question_asked_twice_has_one_answer():
    """Reading the state changes nothing: neither the level nor the verdict."""
    search = KneeSearch()
    first = search.next()
    assert first is search.next()

    search, _, found = run(server(19))
    assert found is search.next()


def test_small_levels_need_few_successes_when_requests_are_slow():
    """60 and 30 at one user, 3 N from 20 users on."""
    _, orders, _ = run(server(57))
    by_users = {order.users: (order.successes, order.few_successes) for order in orders}

    assert (60, 30) == by_users[1]
    assert (60, 60) == by_users[4]
    assert (192, 192) == by_users[64]


@pytest.mark.parametrize("stuck", [True, False], ids=["stuck", "recovers"])
def test_a_down_sweep_repeats_levels_downwards_and_judges_them_apart(stuck):
    """A server that keeps half its slots after the peak has hysteresis; its knee is the first."""
    slow = {OrderKind.DOWN: 9} if stuck else {}
    _, orders, found = run(
        lambda order: server(slow.get(order.kind, 19))(order), SearchSettings(down_sweep=True)
    )
    down = [order.users for order in orders if order.kind is OrderKind.DOWN]
    up = {order.users for order in orders if order.kind is not OrderKind.DOWN}

    assert down == sorted(down, reverse=True)
    assert 2 <= len(down) <= 4
    assert set(down) < up
    assert stuck is found.side.hysteresis.found
    assert 19 == pytest.approx(found.users, rel=0.1)


def test_a_level_of_nothing_never_crashes():
    """No success at any level, whatever else is said of it."""
    empty = {"ttft_s": [], "tpot_s": [], "latency_s": [], "requests": 60}
    for changes in ({}, {"rate_limited": 60}, {"failed": 60}, {"void": "lost"}):
        _, orders, found = run(lambda o, c=changes: Level(users=o.users, **empty, **c))

        assert found.users is None
        assert orders


def test_a_level_that_was_not_asked_for_is_refused():
    """Other users than wanted, or none wanted at all: the message names both numbers."""
    search = KneeSearch()
    with pytest.raises(ValueError, match="none was asked for"):
        search.add(slots(1, 4))
    search.next()
    with pytest.raises(ValueError, match="1 users were asked for, 2 were added"):
        search.add(slots(2, 4))


@pytest.mark.parametrize(
    "change",
    [
        {"first_users": 0},
        {"most_users": 0},
        {"growth_ratio": 1.0},
        {"most_levels": 1},
        {"most_requests": 0},
        {"most_s": 0.0},
        {"tolerance": 0.0},
        {"fewest_successes": 7},
        {"cycles": 0.0},
        {"slo_ratio": 1.1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_bound_that_leaves_nothing_to_search_is_refused(change):
    """The message has the name, the value and what it must be."""
    ((name, value),) = change.items()

    with pytest.raises(ValueError, match=f"{name} is {value}: it must be"):
        SearchSettings(**change)
