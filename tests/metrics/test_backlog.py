"""A rate is unstable when its backlog surely grows, and only then."""

import random

import pytest

from metrics.backlog import backlog_trend


def queue(rate_rps, slots, service_s, seconds, seed):
    """In flight once a second in a server of ``slots`` with Poisson arrivals."""
    chance = random.Random(seed)
    free_at_s = [0.0] * slots
    events = []
    now_s = 0.0
    while (now_s := now_s + chance.expovariate(rate_rps)) < seconds:
        place = min(range(slots), key=free_at_s.__getitem__)
        begin_s = max(now_s, free_at_s[place])
        free_at_s[place] = begin_s + service_s * (0.5 + chance.random())
        events.append((now_s, free_at_s[place]))
    ticks = list(range(int(seconds)))
    return ticks, [sum(a <= tick < b for a, b in events) for tick in ticks]


def stopped_after_s(rate_rps, capacity_rps, seconds, seed):
    """What the shape does: looks once a second, and stops at the first sure growth; else None."""
    ticks, in_flight = queue(rate_rps, 16, 16 / capacity_rps, seconds, seed)
    for now in range(2, len(ticks)):
        trend = backlog_trend(ticks[:now], in_flight[:now], rate_rps)
        if trend is not None and trend.unstable:
            return now
    return None


def test_a_rate_above_the_capacity_is_stopped_early():
    """10/s into 7/s: stopped within 45 of 60 s, in each of 30 runs."""
    stops = [stopped_after_s(10, 7, 60, seed) for seed in range(30)]

    assert None not in stops
    assert max(stops) <= 45


def test_a_rate_that_is_carried_is_not_stopped():
    """10/s into 15/s, looked at each second for a minute: stopped in none of 30 runs."""
    assert [None] * 30 == [stopped_after_s(10, 15, 60, seed) for seed in range(30)]


@pytest.mark.parametrize("seconds", [0, 1, 9])
def test_a_short_look_says_nothing(seconds):
    """Below 5 s in the later half there is no trend, not even of a steep rise."""
    ticks = [n / 2 for n in range(2 * seconds)]

    assert backlog_trend(ticks, [10 * tick for tick in ticks], 10.0) is None


def test_the_trend_of_a_line_is_its_slope():
    """5 more each second: slope 5, and at 8/s offered 3/s are completed."""
    trend = backlog_trend(range(40), [5 * tick for tick in range(40)], 8.0)

    assert pytest.approx(5.0) == trend.slope_rps
    assert pytest.approx(3.0) == trend.completed_rps
    assert trend.unstable


def test_the_filling_up_at_the_begin_is_no_growth():
    """In flight rises to 20 and stays: the later half is flat."""
    trend = backlog_trend(range(40), [min(20, 2 * tick) for tick in range(40)], 8.0)

    assert pytest.approx(0.0) == trend.slope_rps
    assert not trend.unstable
