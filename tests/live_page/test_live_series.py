"""The points of the live plots: nothing is lost when they are merged, and they stay few."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.live.points import Point, merged
from hooks.live.series import LiveSeries
from metrics.histogram import Histogram

PERIOD_S = 2.0
VALUES = st.lists(st.floats(1e-4, 1e3), max_size=40)


def histogram(values):
    """One with these values."""
    made = Histogram()
    made.add_many(values)
    return made


def point(number, **changes):
    """The point of a two-second stretch."""
    values = {"ok": 3, "failed": 1, "rate_limited": 2, "tokens": 50, "users": 4.0, "in_flight": 3.0}
    return Point(begin_s=PERIOD_S * number, end_s=PERIOD_S * (number + 1), **{**values, **changes})


def series_of(count, most=10, values=True):
    """So many points, one after the other."""
    series = LiveSeries(most)
    for number in range(count):
        ttft = {"ttft_s": histogram([0.1 * (1 + number % 7)])} if values else {}
        series.add(point(number, histograms=ttft))
    return series


@pytest.mark.parametrize("count", [0, 1, 10, 11, 12, 35, 500, 1801])
def test_points_follow_one_another_without_gap_and_count_everything(count):
    """Whatever was merged, the time is covered once and no request is lost."""
    points = list(series_of(count))

    edges = [edge for one in points for edge in (one.begin_s, one.end_s)]
    assert edges[1:-1:2] == edges[2:-1:2]
    assert PERIOD_S * count == sum(one.length_s for one in points)
    assert 3 * count == sum(one.ok for one in points)
    assert 50 * count == sum(one.tokens for one in points)
    assert count == sum(one.histograms["ttft_s"].n for one in points)


def test_a_day_costs_little_more_than_an_hour():
    """Each doubling of the time costs at most as many points as are kept of one width."""
    hour, day = len(series_of(1800, 60, False)), len(series_of(43_200, 60, False))

    assert hour <= 60 * (1 + math.ceil(math.log2(1800 / 60)))
    assert day <= hour + 60 * math.ceil(math.log2(24))


def test_the_newest_points_stay_fine_and_the_oldest_get_coarse():
    """The last two minutes are as they came."""
    points = list(series_of(1800, 60))

    assert {PERIOD_S} == {one.length_s for one in points[-60:]}
    widths = [one.length_s for one in points]
    assert sorted(widths, reverse=True) == widths
    assert widths[0] == 16 * PERIOD_S


@given(st.integers(0, 130), st.integers(0, 130))
def test_who_asked_at_any_revision_gets_the_same_as_who_asks_now(asked, more):
    """A page that replaces what lies within a new point ends with the points of the series."""
    series = series_of(asked, 4)
    page = list(series)
    revision = series.revision
    for number in range(asked, asked + more):
        series.add(point(number))
    for new in series.since(revision):
        page = [one for one in page if one.begin_s < new.begin_s or one.end_s > new.end_s]
        page.append(new)
    page.sort(key=lambda one: one.begin_s)

    assert [(one.begin_s, one.end_s, one.ok) for one in series] == [
        (one.begin_s, one.end_s, one.ok) for one in page
    ]


def test_two_points_a_look_are_told_on_average():
    """What is told again because it was merged is at most as much as what is new."""
    series, told = LiveSeries(60), 0
    for number in range(3000):
        revision = series.revision
        series.add(point(number))
        told += len(series.since(revision))

    assert told <= 2 * 3000


def test_means_are_weighted_by_time():
    """Four users for 2 s and one for 6 s are 1.75 on average."""
    both = merged(Point(0, 2, 4.0, 4.0), Point(2, 8, 1.0, None))

    assert 1.75 == both.users
    assert 4.0 == both.in_flight, "what is not known is no zero"


@given(VALUES, VALUES)
def test_a_difference_has_the_percentiles_of_what_came(before, came):
    """Within the histogram's 1 %, though least and greatest value are known to a bucket alone."""
    old, now, new = histogram(before), histogram(before + came), histogram(came)
    found = now.since(old)

    assert new.n == found.n
    assert math.isclose(new.total, found.total, rel_tol=1e-9, abs_tol=1e-6)
    for q in (0.5, 0.95, 0.99):
        if came:
            assert found.percentile(q) == pytest.approx(new.percentile(q), rel=0.0203)


def test_nothing_new_is_no_value():
    """Of a stretch in which nothing was measured there is no percentile."""
    same = histogram([0.1, 0.2])

    assert same.since(same).percentile(0.5) is None
    assert [None] * 9 == point(0, in_flight=None).row()[8:]
