"""Recovery after a burst, judged by the medians of short windows."""

import math

import pytest

from reports.spike import find_recovery

BEFORE = [0.1] * 50


def after(back_at_s, seconds=60, slow_s=2.0, per_s=2):
    """A request each half second: slow until ``back_at_s``, as before from then on."""
    times = [n / per_s for n in range(seconds * per_s)]
    return [(at_s, slow_s if at_s < back_at_s else 0.1) for at_s in times]


def recovery(samples, before=BEFORE):
    return find_recovery(before, 2.0, 2.0, samples, 60.0)


@pytest.mark.parametrize("back_at_s", [0, 12, 30])
def test_the_recovery_time_is_when_the_median_is_back(back_at_s):
    """Windows of 6 s (12 requests at 2/s): the begin of the first that is back."""
    found = recovery(after(back_at_s))

    assert found.verdict == "recovered"
    assert back_at_s == found.recovery_s
    assert f"recovered {back_at_s:.1f} s after" in found.sentence()


def test_a_state_that_stays_bad_is_metastable():
    """All slow although the load is as before: not recovered, and said so."""
    found = recovery(after(999))

    assert (found.verdict, found.recovery_s) == ("not recovered", None)
    assert "metastable" in found.sentence()


def test_a_relapse_is_no_recovery():
    """Back for 12 s and then slow to the end: not recovered."""
    samples = [(at, 0.1 if at < 12 else 2.0) for at, _ in after(0)]

    assert recovery(samples).verdict == "not recovered"


def test_a_relapse_moves_the_recovery_to_its_end():
    """Back, slow for 12 s, back for good: the later moment counts."""
    samples = [(at, 2.0 if 12 <= at < 24 else 0.1) for at, _ in after(0)]

    assert 24 == recovery(samples).recovery_s


def test_one_odd_window_is_forgiven():
    """A single window above the limit among good ones is noise."""
    samples = [(at, 0.13 if 12 <= at < 18 else 0.1) for at, _ in after(0)]

    assert 0 == recovery(samples).recovery_s


def test_the_limit_is_a_fifth_above():
    """1.19 times as before is back, 1.21 times is not."""
    assert recovery(after(999, slow_s=0.119)).verdict == "recovered"
    assert recovery(after(999, slow_s=0.121)).verdict == "not recovered"


def test_failures_are_not_fast():
    """An endpoint that refuses everything has not recovered."""
    found = recovery([(at, math.inf) for at, _ in after(0)])

    assert found.verdict == "not recovered"
    assert "requests fail" in found.sentence()


@pytest.mark.parametrize(
    ("before", "samples"), [([], after(0)), ([0.1] * 11, after(0)), (BEFORE, [])]
)
def test_too_few_requests_are_not_judged(before, samples):
    """Without a median before, or anything after, nothing is claimed."""
    assert recovery(samples, before).verdict == "unknown"
