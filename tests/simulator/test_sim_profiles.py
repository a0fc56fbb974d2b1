"""The named servers: each has the knee, or the lack of one, that its name promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.closed_loop import ClosedLoop, Level, LevelResult
from simulator.profile import PROFILES, Profile
from simulator.workload import Workload

WORK = Workload(prompt_tokens=200, output_tokens=32)


def levels(name: str, *users: int, **changes) -> list[LevelResult]:
    """One warm level of each number of users, one after the other."""
    loop = ClosedLoop(replace(PROFILES[name], **changes), WORK, seed=2)
    results = []
    for count in users:
        loop.run_level(Level(count, max(20, 2 * count)))
        results.append(loop.run_level(Level(count, max(300, 8 * count))))
    return results


def rate(result: LevelResult) -> float:
    """Successes per second."""
    return len(result.requests) / (result.ended_s - result.started_s)


def latency_s(result: LevelResult) -> float:
    return sum(r.latency_s for r in result.requests) / len(result.requests)


@pytest.mark.parametrize(("name", "slots"), [("slots-8", 8), ("slots-16", 16), ("slots-48", 48)])
def test_slots_queue_from_one_user_more_than_slots(name, slots):
    """None at the slots, always at 1.25 times; throughput is flat from there."""
    at_slots, above, far = levels(name, slots, slots * 5 // 4, slots * 2)

    assert at_slots.queue_began_s is None
    assert above.queued_ratio > 0.9
    assert far.mean_running == pytest.approx(slots, rel=0.02)
    assert rate(far) == pytest.approx(rate(above), rel=0.06)


@pytest.mark.parametrize("name", ["slots-8", "slots-16", "slots-48", "kv-limited"])
def test_a_request_is_quick_enough_for_tests_on_a_clock(name):
    """0.3 to 0.8 s, alone and at the knee."""
    slots = {"slots-8": 8, "slots-48": 48}.get(name, 16)

    for result in levels(name, 1, slots):
        assert 0.3 < latency_s(result) < 0.8


def test_the_kv_limited_server_queues_for_memory_and_preempts():
    """It holds 13 to 18 requests in 64 slots."""
    low, high = levels("kv-limited", 10, 40)

    assert (low.queue_began_s, low.preemptions) == (None, 0)
    assert 13 < high.mean_running < 18
    assert high.queued_ratio > 0.9
    assert high.preemptions > 10


def test_the_soft_server_bends_without_a_queue():
    """From 32 to 64 streams throughput gains a fifth, and nobody ever waits for a slot."""
    results = levels("soft", 1, 32, 64, 256)
    rates = [rate(result) for result in results]

    assert [result.queue_began_s for result in results] == [None] * 4
    assert rates[1] < 0.35 * 32 * rates[0]
    assert 1.1 < rates[2] / rates[1] < 1.3
    assert rates[3] > rates[2]


def test_the_soft_server_follows_its_formula():
    """X = N / (A + D * N + rtt) with A = 32 * base and D = 32 * per_seq + 200 / prefill rate, plus
    half a step of waiting for the step under way, and the one its prefill lengthens."""
    profile = PROFILES["soft"]
    (result,) = levels("soft", 64, jitter_ratio=0.0)
    a_s = 32 * profile.decode_base_s
    d_s = 32 * profile.decode_per_seq_s + 200 / profile.prefill_tokens_per_s

    assert rate(result) == pytest.approx(64 / (a_s + d_s * 64), rel=0.05)


def test_the_scaling_server_still_scales_at_128_streams():
    """Four times the streams give more than three times the throughput."""
    low, high = levels("still-scaling", 32, 128)

    assert rate(high) > 3 * rate(low)
    assert high.queue_began_s is None


def test_the_noisy_server_drifts_and_stalls():
    """Stalls apart, throughput in 20 s differs by more than 8 % along two periods of the neighbour,
    and without it by less than 5 %; a stall makes some requests 0.25 s longer than the median."""
    noisy = PROFILES["noisy"]
    no_stalls = replace(noisy, stall_probability=0.0)
    quiet = replace(no_stalls, drift_depth_ratio=0.0)

    def windows(profile: Profile) -> list[LevelResult]:
        loop = ClosedLoop(profile, replace(WORK, output_cv=0.0), seed=2)
        return [loop.run_level(Level(24, 10**9, longest_s=20.0)) for _ in range(13)][1:]

    def spread(results: list[LevelResult]) -> float:
        rates = [rate(result) for result in results]
        return max(rates) / min(rates) - 1

    def longest_over_median_s(results: list[LevelResult]) -> float:
        latencies_s = sorted(r.latency_s for r in results[0].requests)
        return latencies_s[-1] - latencies_s[len(latencies_s) // 2]

    drifting = windows(no_stalls)
    assert spread(drifting) > 0.08
    assert spread(windows(quiet)) < 0.05
    assert longest_over_median_s(windows(noisy)) > 0.25
    assert longest_over_median_s(drifting) < 0.2
