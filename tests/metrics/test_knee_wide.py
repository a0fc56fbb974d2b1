"""Answers of wide lengths: what is counted of a level, and what the search makes of it."""

from dataclasses import replace

import pytest

from bench.knee.kinds import CHAT, SERVER, Kind
from bench.knee.world import World, hold, measured, search
from metrics.knee_order import LevelOrder, OrderKind, SearchSettings
from metrics.knee_queue import waiting_share_interval

KIND = Kind(
    "30 slots",
    replace(SERVER, max_num_seqs=30),
    120,
    workload=replace(CHAT, output_cv=1.5),
)


def held(seed, users=45, successes=135):
    """What the hold of one level counts."""
    return hold(World(KIND, seed), LevelOrder(users, successes, OrderKind.PROBE, "", successes))


def test_a_hold_counts_all_that_it_was_to_after_the_longest_first_answer():
    """135 successes, and not what is left of 180 when all 45 users have had one."""
    for seed in range(5):
        assert 135 <= len(held(seed).requests) < 180


def test_parts_of_a_level_are_compared_in_the_order_in_which_they_were_picked():
    """Picked by their end and put in order of their start, the interval is twice as wide."""
    narrower = 0
    for seed in range(10):
        one, base = held(seed), measured(KIND, 1, held(seed, users=1, successes=60))
        by_end = measured(KIND, 45, one)
        one.requests.sort(key=lambda request: request.sent_s)
        by_start = measured(KIND, 45, one)
        widths = [high - low for low, high in _intervals(base, by_end, by_start)]
        narrower += 2 * widths[0] < widths[1]

    assert narrower >= 8


def _intervals(base, *levels):
    return [waiting_share_interval(level, base) for level in levels]


def test_answers_of_wide_lengths_leave_the_knee_where_it_is():
    """Lengths that vary by 1.5 times their mean: 30 slots within a tenth, interval and all."""
    for seed in range(400, 404):
        found = search(KIND, seed, SearchSettings()).estimate

        assert 30 == pytest.approx(found.users, rel=0.1)
        assert found.low <= 30 <= found.high
