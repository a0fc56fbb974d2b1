"""Warm-up by cycles, MSER-5, halves of a window, Little's law, and clocks that were set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.clock_steps import largest_step_s
from metrics.littles_law import check_littles_law, time_weighted_mean
from metrics.steady import after_first_of_each, halves_of_events, halves_of_values, mser5


def test_M12_each_users_first_request_is_left_out():
    """Three users, seven requests: the four that are not their user's first stay."""
    mask = after_first_of_each(["a", "b", "a", "c", "b", "a", "c"])

    assert [False, False, True, False, True, True, True] == mask.tolist()


@given(st.lists(st.integers(0, 5)))
def test_as_many_are_left_out_as_there_are_users(users):
    """Never more and never fewer than one for each."""
    assert len(set(users)) == int((~after_first_of_each(users)).sum())


def test_mser_cuts_the_warm_up():
    """40 values of 3, then 160 about 1: those 40 are cut, clearly, and were +200 %."""
    rng = np.random.default_rng(3)
    cut = mser5([*rng.normal(3, 0.1, 40), *rng.normal(1, 0.1, 160)])

    assert (40, 0.2, True) == (cut.samples, cut.ratio, cut.clear)
    assert 2.0 == pytest.approx(cut.excess_ratio, rel=0.05)


def test_what_mser_cuts_of_a_steady_series_is_not_clear():
    """300 steady series that wander: MSER cuts over a quarter, 20 % off the rest, of 10 or more; of
    these at most 1 is clear. So the cut alone is never held against a window.
    """
    rng = np.random.default_rng(5)
    series = rng.exponential(1, (300, 400))
    for n in range(1, 400):
        series[:, n] = 0.8 * series[:, n - 1] + 0.2 * series[:, n]
    cuts = [mser5(row) for row in series[:, 200:]]

    large = [cut for cut in cuts if cut.ratio > 0.25 and abs(cut.excess_ratio) > 0.2]
    assert len(large) >= 10
    assert 1 >= sum(cut.clear for cut in large)


def test_mser_needs_80_values_and_16_cycles_and_takes_equal_ones():
    """None for 79, and for 159 of 10 users; equal ones have nothing to cut."""
    assert mser5(np.ones(79)) is None
    assert mser5(np.ones(159), cycle=10) is None
    assert 0 == mser5(np.ones(80)).samples
    assert 0 == mser5(np.ones(160), cycle=10).samples


def test_halves_that_differ_are_seen():
    """Waits of 1 s, then 1.5 s: +40 % of their mean, for certain."""
    rng = np.random.default_rng(1)
    test = halves_of_values([*rng.normal(1, 0.1, 160), *rng.normal(1.5, 0.1, 160)], cycle=8)

    assert 0.4 == pytest.approx(test.change_ratio, rel=0.1)
    assert test.differs_by(0.2)
    assert not test.differs_by(0.5)


def test_halves_of_a_steady_series_rarely_differ():
    """400 steady series that wander (AR(1), 0.7), 40 values a batch: at most 4 are called unsteady.

    Batches of a cycle are nearly independent; single values are not.
    """
    rng = np.random.default_rng(2)
    series = np.zeros((400, 320))
    for n in range(1, 320):
        series[:, n] = 0.7 * series[:, n - 1] + rng.normal(size=400)
    called = sum(halves_of_values(5 + row, cycle=32).differs_by(0.2) for row in series)

    assert called <= 4


def test_a_change_of_next_to_nothing_is_next_to_nothing():
    """TTFT from 2 ms to 3 ms is +40 %; against a tenth of a latency of 1 s it is 1 %."""
    values = [*np.full(80, 0.002), *np.full(80, 0.003)]

    assert halves_of_values(values, cycle=1).differs_by(0.2)
    assert 0.01 == pytest.approx(halves_of_values(values, 1, least=0.1).change_ratio)


def test_batches_shorter_than_a_cycle_are_not_compared():
    """8 batches of 16 users need 128 values, and 8 batches of one user 40."""
    assert halves_of_values(np.ones(127), cycle=16) is None
    assert halves_of_values(np.ones(128), cycle=16) is not None
    assert halves_of_values(np.ones(39), cycle=1) is None
    assert halves_of_events([], 0.0, 10.0, cycle=1) is None


@pytest.mark.parametrize(("later", "differs"), [(10, False), (5, True)], ids=["same", "half"])
def test_completions_per_second_are_compared(later, differs):
    """10 a second for 30 s, then as many or half as many."""
    times = [*np.arange(0, 30, 1 / 10), *np.arange(30, 60, 1 / later)]

    assert differs == halves_of_events(times, 0.0, 60.0, cycle=4).differs_by(0.2)


@given(
    st.lists(st.floats(0.01, 100), min_size=80, max_size=200), st.sampled_from([0.25, 4.0, 64.0])
)
def test_halves_and_cuts_do_not_depend_on_the_unit(values, scale):
    """A power of two times as long: the same shares and the same cut."""
    halves = [halves_of_values(np.array(values) * unit, 1) for unit in (1.0, scale)]
    cuts = [mser5(np.array(values) * unit) for unit in (1.0, scale)]

    assert halves[0].change_ratio == pytest.approx(halves[1].change_ratio)
    assert cuts[0].samples == cuts[1].samples


def test_M13_in_flight_is_weighted_by_time():
    """Nine requests of 1 s by 3 s beside one of 9 s: 4 in flight in 0-3 s, 1 in 3-9 s."""
    first_s = [0, 0, 0, 1, 1, 1, 2, 2, 2, 0]
    last_s = [1, 1, 1, 2, 2, 2, 3, 3, 3, 9]

    assert 4.0 == time_weighted_mean(first_s, last_s, 0, 3)
    assert 1.0 == time_weighted_mean(first_s, last_s, 3, 9)
    assert time_weighted_mean(first_s, last_s, 3, 3) is None


@given(st.permutations(range(10)))
def test_in_flight_does_not_depend_on_the_order(order):
    """A mean over time knows no order of requests."""
    first_s, last_s = np.arange(10.0)[order], (np.arange(10.0) + 3)[order]

    assert 2.7 == pytest.approx(time_weighted_mean(first_s, last_s, 0, 10))


@pytest.mark.parametrize(
    ("found", "cycle_s", "thinks", "holds"),
    [
        (32.0, 1.0, False, True),
        (30.3, 0.5, False, False),
        (30.5, 0.5, False, True),
        (30.3, 10.0, False, True),
        (29.0, 3.0, False, False),
        (29.0, 3.0, True, True),
        (34.0, 0.5, False, False),
    ],
    ids=["exact", "-5.3 %", "-4.7 %", "3 cycles", "10 cycles", "with think", "too many"],
)
def test_the_limit_of_littles_law_is_5_percent_or_3_deviations(found, cycle_s, thinks, holds):
    """32 users in a window of 30 s; few cycles and thinking widen the limit."""
    assert holds == check_littles_law(32, found, cycle_s, 30.0, thinks).holds


@pytest.mark.parametrize("wrong", [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, 1.0, 0.0)])
def test_M05_littles_law_of_nothing_is_none(wrong):
    """No users, no cycle, no window: nothing to divide by."""
    users, cycle_s, window_s = wrong
    assert check_littles_law(users, 1.0, cycle_s, window_s, False) is None


def test_a_clock_that_was_set_is_seen():
    """Set back by 2 s in the middle of 100 records."""
    mono = np.arange(100) * 0.1
    wall = 1e9 + mono + np.where(np.arange(100) >= 50, -2.0, 0.0)

    assert -2.0 == pytest.approx(largest_step_s(wall, mono))


@pytest.mark.parametrize(
    "wall_of",
    [
        lambda mono: 1e9 + mono,
        lambda mono: 1e9 + mono * 1.0005,
        lambda mono: 1e9 + mono + np.where(np.arange(mono.size) == 50, 3.0, 0.0),
        lambda mono: np.full(mono.size, 1e9),
    ],
    ids=["right", "slewed", "one late reading", "one label"],
)
def test_other_clocks_were_not_set(wall_of):
    """A clock being slewed by 500 ppm over an hour, one reading that was late, equal labels."""
    mono = np.arange(100) * 36.0

    assert largest_step_s(wall_of(mono), mono) is None
