"""The lines of an explanation agree with each other and with the levels."""

from dataclasses import replace

import numpy as np
import pytest

from metrics.knee import KneeStatus, find_knee, level_of_means
from metrics.knee_assess import assess
from metrics.knee_explain import explain
from tests.support.knee_levels import refused, slots, steady


def line(levels, begin):
    """The only line that begins so."""
    (text,) = [text for text in explain(levels) if text.startswith(begin)]
    return text


NEAR_TOP = [slots(n, 57) for n in (1, 2, 4, 8, 16, 32, 64)]
FAINT = [*NEAR_TOP[:-1], steady(64, 0.09, 1.04)]


def test_the_number_of_a_knee_near_the_top_is_told_where_it_comes_from():
    """57.6 of the top level's 10 %: an estimate is not denied and then given."""
    text = line(NEAR_TOP, "Estimate: ")

    assert text.startswith("Estimate: 57.6 users, N (1 - q) of the top level alone")
    assert "too little to measure" not in " ".join(explain(NEAR_TOP))


def test_a_top_level_at_which_a_queue_begins_is_not_called_calm():
    """q of 4 % at 64 users decides: it is the onset, and the calm level is the one below."""
    found = find_knee(FAINT)

    assert KneeStatus.NEAR_TOP is found.status
    assert (32, 32) == (found.calm_users, found.at_least)
    assert "used for: onset" in line(FAINT, "Level of 64 users")


LOW = [slots(n, 8) for n in (16, 32, 64)]


def test_an_estimate_that_is_no_knee_is_said_to_be_none():
    """All levels queue, the lowest is the baseline: no bracket, no rule that denies the queue."""
    text = explain(LOW)

    assert "The estimate is not the knee, for the reason in the verdict." in text
    assert not [words for words in text if words.startswith("Bracket")]
    assert "levels queue" in line(LOW, "Rule: unresolved")
    assert "the lowest one of 16 users or below it" in line(LOW, "Verdict")


def test_levels_that_a_higher_one_contradicts_are_told_to_count_for_nothing():
    """32 users queue, 64 surely do not: nobody says that no level waits."""
    levels = [*(slots(n, 20) for n in (1, 2, 4, 8, 16, 32)), slots(64, 1_000)]

    assert "used for: nothing, because a level above it" in line(levels, "Level of 32 users")
    assert "lie below one that surely does not" in line(levels, "Estimate: none")
    assert "although some did at 32 below it" in line(levels, "Verdict")


def test_a_baseline_that_may_queue_gives_no_level_an_estimate():
    """10 and 14 users alone: the wait at 14 counts for nothing, in the figures too."""
    levels = [steady(10, 2.0, 4.0), steady(14, 4.0, 6.0)]

    assert [] == [e.users for e in assess(levels).evidence if e.used_for == "estimate"]
    assert "the baseline may queue itself" in line(levels, "Level of 14 users")
    assert "free of a queue" in line(levels, "Estimate: none")


@pytest.mark.parametrize(
    ("below", "says"),
    [
        ([slots(1, 1_000), slots(4, 1_000)], "nothing queued below"),
        ([slots(2, 1_000)], "no level below shows whether requests queue"),
        ([], "no level below shows whether requests queue"),
    ],
    ids=["calm levels", "a baseline that is not shown calm", "none"],
)
def test_nothing_queued_below_a_limit_is_said_only_where_it_was_seen(below, says):
    """The climb ends with 429s."""
    assert says in line([*below, refused(6, 5.0)], "Rule: rate_limited")


def test_a_knee_is_called_sharp_only_beside_a_calm_level_just_below():
    """19 of 20 users and no wait; without that level nothing tells."""
    ladder = [slots(n, 20) for n in (1, 2, 4, 8, 32, 64)]

    assert "none was held just below the knee" in line(ladder, "Rule: knee")
    assert "one just below the knee does not" in line([*ladder, slots(19, 20)], "Rule: knee")


def test_a_wait_that_may_be_chance_is_not_called_none():
    """The top level's q is 12 % with an interval from 0 on."""
    noise_s = np.repeat([-0.15, -0.15, 0.45, -0.15], 15)
    even = steady(16, 0.2, 1.2, 60)
    top = replace(even, ttft_s=even.ttft_s + noise_s, latency_s=even.latency_s + noise_s)
    levels = [slots(1, 1_000), slots(4, 1_000), top]

    assert KneeStatus.NO_KNEE is find_knee(levels).status
    assert "may be chance (0% to " in line(levels, "Verdict")


def test_a_table_without_tpot_has_no_decode_step():
    """Missing is not 0.0 ms."""
    levels = [level_of_means(n, None, 0.05, 1.0) for n in (1, 2)]

    assert "Baseline: 1 user, the lowest mean TTFT of the smallest levels (50.0 ms)." == line(
        levels, "Baseline"
    )


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ([], "there is no level of concurrent users"),
        ([slots(4, 4, void="worker-lost: worker w lost while it ran")], "worker w lost"),
        ([steady(4, 0.1, 1, 0, requests=0)], "no level was held long enough"),
    ],
    ids=["none", "void", "empty"],
)
def test_why_no_level_may_be_used_is_the_true_reason(levels, says):
    """Nothing was held, or it was and is void, or there was nothing to hold."""
    assert says in find_knee(levels).reason
