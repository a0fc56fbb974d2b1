"""Caps on requests in flight, small ones too, against rate limits that look alike."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bench.knee.kinds import CHAT, SERVER, Kind
from bench.knee.world import search
from metrics.knee import KneeStatus, find_knee
from metrics.knee_search import SearchSettings
from tests.support.knee_levels import refused, slots

WIDE = replace(SERVER, max_num_seqs=1_024, kv_tokens=10_000_000)


def found(seed=9_100, **limits):
    """The verdict on a server without a queue and with these limits."""
    kind = Kind("limited", replace(WIDE, **limits), None, workload=CHAT)
    return search(kind, seed, SearchSettings()).estimate


@pytest.mark.parametrize("cap", range(2, 13))
def test_a_small_cap_is_named_with_its_number(cap):
    """A search on a server that takes so many at once: a cap of exactly that."""
    estimate = found(max_in_flight=cap)

    assert KneeStatus.INFLIGHT_CAP is estimate.status
    assert cap == estimate.side.ceiling.in_flight


@pytest.mark.parametrize("rpm", [60, 120, 200, 300, 600])
@pytest.mark.parametrize("span_s", [1.0, 10.0])
def test_a_rate_limit_that_few_requests_meet_stays_one(rpm, span_s):
    """1 to 12 in flight under a rate limit: never a cap."""
    assert KneeStatus.RATE_LIMITED is found(rpm=rpm, limit_span_s=span_s).status


def limited(in_flight, shares, spread=0.4):
    """A level of 12 users at 429s; latencies of a log-normal law around 1 s, 6 of which pass/s."""
    latency_s = np.random.default_rng(5).lognormal(0, spread, 100)
    return refused(
        12, 6.0, in_flight=in_flight, in_flight_shares=shares, latency_s=latency_s, tpot_s=[]
    )


def status_of(level):
    return find_knee([slots(1, 1_000), slots(2, 1_000), level]).status


def test_a_slot_that_is_freed_late_leaves_the_cap_one():
    """6 at once, and 55 of 100 are refused at 5, for the sixth had just ended: a cap of 6."""
    shares = [0.0] * 5 + [0.48, 0.52]
    estimate = find_knee(
        [slots(1, 1_000), slots(2, 1_000), limited([5.0] * 55 + [6.0] * 45, shares)]
    )

    assert KneeStatus.INFLIGHT_CAP is estimate.status
    assert 6 == estimate.side.ceiling.in_flight


def test_the_spread_of_an_even_rate_is_no_cap():
    """3 to 8 in flight at 429s, as 6/s of these lengths leave: a rate limit."""
    counts = [4.0] * 20 + [5.0] * 40 + [6.0] * 25 + [7.0] * 15
    assert KneeStatus.RATE_LIMITED is status_of(limited(counts, [0.0] * 4 + [0.2, 0.4, 0.25, 0.15]))


def test_more_in_flight_at_other_times_is_no_cap():
    """All refused at 5, and 6 in flight a third of the time: what let the sixth in is no cap."""
    assert KneeStatus.RATE_LIMITED is status_of(limited([5.0] * 40, [0.0] * 5 + [0.67, 0.33]))


def test_one_in_flight_or_none_is_a_single_users_rate():
    """Refused at 0 and at 1, never more in flight: one user's rate looks the same."""
    level = limited([0.0] * 45 + [1.0] * 55, [0.46, 0.54])
    assert KneeStatus.RATE_LIMITED is status_of(level)


def test_answers_that_are_all_alike_tell_no_cap_by_their_spread():
    """15 times refused at 6 and never elsewhere, 1 s each to 2 %: an even rate leaves that too."""
    level = limited([6.0] * 15, [0.0] * 5 + [0.5, 0.5], spread=0.02)
    assert KneeStatus.RATE_LIMITED is status_of(level)


def test_ten_refusals_tell_a_cap_and_nine_do_not():
    """All at 6; fewer may be chance."""
    shares = [0.0] * 5 + [0.5, 0.5]
    assert KneeStatus.INFLIGHT_CAP is status_of(limited([6.0] * 10, shares))
    assert KneeStatus.RATE_LIMITED is status_of(limited([6.0] * 9, shares))


def test_the_spread_that_an_even_rate_leaves_is_that_of_its_lengths():
    """6/s of log-normal lengths around 1 s: sqrt(6 x half the mean difference) = 1.2, so that a
    deviation of 0.8 is a cap's and one of 1.0 is none."""
    half_difference_s = math.exp(0.08) * math.erf(0.2)
    even = math.sqrt(6 * half_difference_s)
    narrow = [6 - 0.65 * even, 6 + 0.65 * even] * 20
    wide = [6 - 0.9 * even, 6 + 0.9 * even] * 20
    shares = [0.0] * 5 + [0.5, 0.5]

    assert KneeStatus.INFLIGHT_CAP is status_of(limited(narrow, shares))
    assert KneeStatus.RATE_LIMITED is status_of(limited(wide, shares))
