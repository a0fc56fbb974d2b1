"""The first knee estimate: read from the queue, and honest when there is none."""

import heapq
from dataclasses import replace

import pytest

from metrics.knee import KneeStatus, Level, find_knee


def level(users, ttft=0.0, latency=0.0, **changes):
    """A level of 60 equal requests."""
    values = {
        "users": users,
        "ttft_s": [ttft] * 60,
        "tpot_s": [0.02] * 60,
        "latency_s": [latency] * 60,
        "requests": 60,
    }
    return Level(**{**values, **changes})


def fifo_level(users, slots, service_s, first_token_s, seconds=30.0):
    """A closed loop of users on a FIFO queue with slots, worked out request by request."""
    free = [0.0] * slots
    ready = [(n * 1e-3, n) for n in range(users)]
    heapq.heapify(ready)
    ttft_s, latency_s = [], []
    while ready:
        wanted_s, user = heapq.heappop(ready)
        if wanted_s > seconds:
            continue
        begin_s = max(wanted_s, heapq.heappop(free))
        end_s = begin_s + service_s
        heapq.heappush(free, end_s)
        heapq.heappush(ready, (end_s, user))
        if wanted_s > 2:
            ttft_s.append(begin_s + first_token_s - wanted_s)
            latency_s.append(end_s - wanted_s)
    return Level(users=users, ttft_s=ttft_s, tpot_s=[], latency_s=latency_s, requests=len(ttft_s))


def test_L09_no_queue_up_to_the_top_is_a_lower_bound():
    """50 ms at any load, 1 to 16 users: not reached, at least 16."""
    estimate = find_knee([level(n, 0.05, 0.5) for n in (1, 2, 4, 8, 16)])

    assert KneeStatus.NO_KNEE is estimate.status
    assert estimate.at_least == 16
    assert estimate.users is None
    assert "at least 16" in estimate.sentence()


def test_L10_a_known_queue_gives_its_slot_count():
    """4 slots, 200 ms service, first token 20 ms into it, 1 to 12 users: knee 4."""
    levels = [fifo_level(n, slots=4, service_s=0.2, first_token_s=0.02) for n in range(1, 13)]

    estimate = find_knee(levels)

    assert KneeStatus.KNEE is estimate.status
    assert pytest.approx(estimate.users, abs=0.5) == 4
    assert estimate.low <= 4 <= estimate.high
    assert estimate.calm_users == 4
    # Twelve users on four slots wait two services: the evidence the case names.
    assert pytest.approx(levels[-1].ttft_s[-1], rel=0.1) == 0.42


@pytest.mark.parametrize("slots", [3, 7, 19, 57], ids=str)
def test_the_knee_need_not_be_a_level(slots):
    """On doubling levels the estimate finds slot counts that lie between them."""
    levels = [fifo_level(n, slots, 1.0, 0.05, seconds=60) for n in (1, 2, 4, 8, 16, 32, 64, 128)]

    assert slots == pytest.approx(find_knee(levels).users, rel=0.1)


def test_L12_a_limiter_is_not_a_queue():
    """429s from some level on: rate-limited, no knee, and the calm levels below are the bound."""
    levels = [level(n, 0.03, 0.3) for n in (1, 2, 4)]
    levels += [level(n, 0.03, 0.3, requests=100, rate_limited=40) for n in (8, 16)]

    estimate = find_knee(levels)

    assert KneeStatus.RATE_LIMITED is estimate.status
    assert estimate.users is None
    assert estimate.at_least == 4
    assert "not a queue" in estimate.sentence()


def test_a_queue_that_only_begins_is_not_measured():
    """10 % of the cycle waiting at the top: a lower bound, with the advice to go higher."""
    levels = [level(1, 0.05, 1.0), level(2, 0.05, 1.0), level(4, 0.15, 1.0)]

    estimate = find_knee(levels)

    assert KneeStatus.NEAR_TOP is estimate.status
    assert estimate.at_least == 2
    assert "--stages" in estimate.sentence()


def test_slower_decode_steps_are_not_waiting():
    """A TTFT that grows by 1.5 decode steps belongs to the fuller batch, not to a queue."""
    levels = [level(n, 0.05, 1.0) for n in (1, 2, 4)]
    levels.append(level(8, 0.05 + 0.3, 1.3, tpot_s=[0.22] * 60))

    assert KneeStatus.NO_KNEE is find_knee(levels).status


def test_a_cold_first_level_is_not_the_baseline():
    """Five times the TTFT at one user (cold start) neither hides nor makes a knee."""
    levels = [level(1, 0.25, 0.7), level(2, 0.05, 0.5), level(4, 0.05, 0.5)]
    levels.append(level(8, 0.55, 1.0))

    estimate = find_knee(levels)

    assert KneeStatus.KNEE is estimate.status
    assert pytest.approx(estimate.users, rel=0.1) == 4


@pytest.mark.parametrize(
    ("levels", "status"),
    [
        ([], KneeStatus.UNRESOLVED),
        ([level(4, 0, 0, ttft_s=[], latency_s=[], tpot_s=[], requests=0)], KneeStatus.UNRESOLVED),
        ([level(4, 0, 0, ttft_s=[], tpot_s=[])], KneeStatus.UNRESOLVED),
        ([level(4, 0, 0, ttft_s=[], latency_s=[], failed=60)], KneeStatus.ERRORS),
        ([level(4, 0, 0, ttft_s=[], latency_s=[], rate_limited=60)], KneeStatus.RATE_LIMITED),
    ],
    ids=["no levels", "no requests", "not streamed", "only errors", "only 429s"],
)
def test_too_little_is_said_to_be_too_little(levels, status):
    """Nothing usable never gives a number."""
    estimate = find_knee(levels)

    assert status is estimate.status
    assert estimate.users is None
    assert estimate.reason


def test_O02_one_level_of_one_request_is_no_division_by_zero():
    """A single request at a single level gives a lower bound."""
    single = level(1, 0.1, 0.5, ttft_s=[0.1], tpot_s=[0.1], latency_s=[0.5], requests=1)

    assert KneeStatus.NO_KNEE is find_knee([single]).status


@pytest.mark.parametrize("stages", [(24, 32, 48), (32,), (20, 24)], ids=["above", "one", "close"])
def test_levels_that_all_queue_name_no_knee(stages):
    """16 slots and no level below them: the lowest level's own wait is not taken for none."""
    estimate = find_knee([fifo_level(n, 16, 1.0, 0.05, seconds=60) for n in stages])

    assert KneeStatus.UNRESOLVED is estimate.status
    assert estimate.users is None
    assert estimate.at_least is None
    assert "lower --stages" in estimate.reason


def test_levels_may_repeat():
    """4, 32 and 4 users again: each level has its own evidence, and the knee is the slots'."""
    stages = [(0, 1), (1, 32), (2, 1)]
    levels = [
        replace(fifo_level(n, 16, 1.0, 0.05, seconds=60 + stage), stage=stage)
        for stage, n in stages
    ]

    estimate = find_knee(levels)

    assert 16 == pytest.approx(estimate.users, rel=0.1)
    assert {0, 1, 2} == {evidence.stage for evidence in estimate.evidence}


def test_void_levels_are_never_used():
    """A level whose users never all ran is named and left out."""
    levels = [level(n, 0.05, 0.5) for n in (1, 2)]
    levels.append(level(40, 5.0, 6.0, void="40 users were not reached"))

    estimate = find_knee(levels)

    assert KneeStatus.NO_KNEE is estimate.status
    assert estimate.at_least == 2
    assert estimate.evidence[-1].note == "40 users were not reached"
