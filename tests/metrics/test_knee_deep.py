"""Levels that were once misread: deep queues, queues under a ceiling, baselines that are not first.

Each has an answer that follows from the slots of the server alone.
"""

from dataclasses import replace

import pytest

from bench.knee.kinds import CHAT, SERVER, Kind
from bench.knee.world import search
from metrics.knee import KneeStatus, find_knee, level_of_means
from metrics.knee_explain import explain
from metrics.knee_search import SearchSettings
from tests.support.knee_levels import refused, slots, steady

DOUBLING = (1, 2, 4, 8, 16)
CAP = [24.0] * 40


def table(users, slots_, buffered=False):
    """A row of means of a server with so many slots; a proxy may send each answer in one piece."""
    level = slots(users, slots_)
    latency_s = level.mean_latency_s()
    ttft_s, tpot_s = (latency_s, 0.0) if buffered else (level.mean_ttft_s(), 0.02)
    return level_of_means(users, None, ttft_s, latency_s, tpot_s)


@pytest.mark.parametrize("make", [slots, table], ids=["records", "means"])
def test_a_queue_fifty_services_deep_is_no_buffering_proxy(make):
    """250 users on 5 slots: TTFT is 98 % of the latency, and the level still counts."""
    found = find_knee([make(n, 5) for n in (*DOUBLING, 250)])

    assert KneeStatus.KNEE is found.status
    assert 5 == pytest.approx(found.users, rel=0.05)
    assert "estimate" == found.evidence[-1].used_for


def test_means_of_whole_answers_from_the_lowest_level_on_hide_the_queue():
    """TTFT is the latency at one user too: whoever waits, the first token does not tell."""
    found = find_knee([table(n, 8, buffered=True) for n in (*DOUBLING, 32, 64)])

    assert KneeStatus.HIDDEN_QUEUE is found.status
    assert "in one piece" in found.reason


def test_a_latency_of_means_alone_has_no_interval():
    """A hidden queue read off a table without TTFT: a number, and no bounds around it."""
    rows = [slots(n, 8).mean_latency_s() for n in (*DOUBLING, 32, 64)]
    levels = zip((*DOUBLING, 32, 64), rows, strict=True)
    found = find_knee([level_of_means(n, None, None, latency_s) for n, latency_s in levels])

    assert KneeStatus.HIDDEN_QUEUE is found.status
    assert found.users is not None
    assert (None, None) == (found.low, found.high)


def test_a_level_that_was_left_out_is_no_lower_bound():
    """Calm up to 16 users; at 32 the answers came in one lump, which shows nothing."""
    lumped = replace(slots(32, 1_000), buffered=True)
    found = find_knee([*(slots(n, 1_000) for n in DOUBLING), lumped])

    assert KneeStatus.NO_KNEE is found.status
    assert 16 == found.at_least
    assert "16 users" in found.reason


def test_a_limit_over_levels_that_show_nothing_is_no_lower_bound():
    """Answers in one piece up to 16 users, 429s at 32: the limit, and no word on a queue."""
    whole = [replace(slots(n, 1_000), buffered=True, tpot_s=[]) for n in DOUBLING]
    found = find_knee([*whole, refused(32, 24.0, in_flight=CAP)])

    assert KneeStatus.INFLIGHT_CAP is found.status
    assert found.at_least is None


def test_few_slots_behind_long_thinking_are_found():
    """5 slots, 30 s of thought: about 129 users; the level of 256 waits 31 s of 32."""
    kind = Kind(
        "5 slots, think time 30 s",
        replace(SERVER, max_num_seqs=5),
        250,
        workload=replace(CHAT, think_s=30.0),
    )
    for seed in range(300, 303):
        # C + X * Z with 5 slots: what python -m bench.knee takes from the server itself.
        assert 128.7 == pytest.approx(search(kind, seed, SearchSettings()).estimate.users, rel=0.1)


def test_a_queue_under_a_cap_is_measured():
    """23 users on 20 slots wait 13 % of their cycle; 429s above do not make that "no queue"."""
    levels = [slots(n, 20) for n in (*DOUBLING, 23)]
    found = find_knee([*levels, refused(32, 24.0, in_flight=CAP)])

    assert KneeStatus.NEAR_TOP is found.status
    assert 20 == pytest.approx(found.users, rel=0.03)
    assert found.low < 20 < found.high
    assert 16 == found.at_least
    assert "a cap, not a queue" in found.reason
    assert KneeStatus.INFLIGHT_CAP is found.side.ceiling.status


def test_a_little_wait_under_a_cap_is_told_and_named_neither_way():
    """4 % at 23 users may be prefills in step: the cap, with what is calm below it."""
    levels = [*(slots(n, 1_000) for n in DOUBLING), steady(23, 0.05 + 0.05, 1.0)]
    levels.append(refused(32, 24.0, in_flight=CAP))
    found = find_knee(levels)

    assert KneeStatus.INFLIGHT_CAP is found.status
    assert 16 == found.at_least
    assert "at 23 users 4% of the cycle is spent waiting" in found.reason
    assert "no queue up to" not in found.reason
    assert "nothing queued below" not in "\n".join(explain(levels))


def test_a_level_refused_when_it_was_held_for_longer_is_at_the_limit():
    """One user passed, and then met 429s: the limit is the answer, and not "no queue"."""
    found = find_knee([slots(1, 9), refused(1, 0.9), refused(2, 0.9)])

    assert KneeStatus.RATE_LIMITED is found.status
    assert 1 == found.at_least


def test_a_limit_that_a_lower_level_met_later_is_still_the_answer():
    """16 users passed for a while, 32 met 429s, and so did 14 once they were held for longer."""
    levels = [*(slots(n, 1_000) for n in DOUBLING), refused(14, 15.5), refused(32, 15.6)]
    found = find_knee(levels)

    assert KneeStatus.RATE_LIMITED is found.status
    assert "at 14 users 429s" in found.reason


def test_a_cap_that_another_level_went_beyond_is_a_rate_limit():
    """All 429s at 24 in flight, but 32 users passed with 32 in flight most of the time."""
    levels = [slots(n, 1_000) for n in DOUBLING]
    levels.append(slots(32, 1_000, in_flight_shares=[0.0] * 32 + [1.0], completed_per_s=24.0))
    limited = refused(64, 24.0, in_flight=CAP)

    assert KneeStatus.RATE_LIMITED is find_knee([*levels, limited]).status
    assert KneeStatus.INFLIGHT_CAP is find_knee([*levels[:-1], limited]).status


@pytest.mark.parametrize("cold", [(1, 2), (1,)], ids=["two levels", "one level"])
def test_a_baseline_above_held_levels_shows_a_knee_at_itself(cold):
    """4 slots, and 4 users have the lowest TTFT because lower levels were cold: a knee at 4."""
    levels = [steady(n, 0.30, 1.25) for n in cold]
    found = find_knee([*levels, *(slots(n, 4) for n in (4, 8, 16))])

    assert KneeStatus.KNEE is found.status
    assert 4 == pytest.approx(found.users, rel=0.05)


def test_the_lowest_level_shows_no_knee_at_itself():
    """The same levels without the lower ones: 4 users may wait already, and nothing tells."""
    found = find_knee([slots(n, 4) for n in (4, 8, 16)])

    assert KneeStatus.UNRESOLVED is found.status


def test_the_bracket_is_what_the_levels_show():
    """8 users at q 3.5 % are calm, although the levels above put the knee at 7.7."""
    levels = [slots(n, 7.7) for n in (1, 2, 4, 16, 32)]
    found = find_knee([*levels, steady(8, 0.05 + 0.045, 1.0)])

    assert 7.7 == pytest.approx(found.users, rel=0.02)
    assert (8, 16) == (found.calm_users, found.queueing_users)
