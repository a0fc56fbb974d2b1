"""What makes a step longer than its batch: leak, noisy neighbour, an overload that lingers."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from simulator.engine import Engine
from simulator.events import EngineRequest, TokenEvent
from simulator.profile import Profile
from simulator.step_time import StepTime

PLAIN = Profile(
    name="plain",
    max_num_seqs=4,
    prefill_tokens_per_s=math.inf,
    decode_base_s=0.1,
    decode_per_seq_s=0.0,
    kv_tokens=1_000_000,
    max_model_len_tokens=1_000_000,
    prefix_cache=False,
)


def factors(profile: Profile, times_s: list[float], seed: int = 0, left: int = 0) -> list[float]:
    """Length of one step at each time, as a multiple of the plain 0.1 s."""
    steps = StepTime(profile, seed)
    return [steps.step_s(at_s, 1, 0, 0.0, left) / 0.1 for at_s in times_s]


def test_a_leak_adds_its_percent_of_the_first_step_each_minute():
    """2 % a minute, counted from the first step: 1, 1.02, 1.2 after 0, 1, 10 minutes."""
    leaking = replace(PLAIN, leak_percent_per_minute=2.0)

    assert factors(leaking, [500.0, 560.0, 1100.0]) == pytest.approx([1.0, 1.02, 1.2])


def test_a_leak_shows_in_the_tokens_of_the_engine():
    """At 100 % a minute a gap is 0.1 s times one plus its minute."""
    engine = Engine(replace(PLAIN, leak_percent_per_minute=100.0))
    engine.submit(EngineRequest("a", 1, 500), 0.0)
    ends_s = [0.0]
    ends_s += [event.at_s for event in engine.advance(1e6) if isinstance(event, TokenEvent)]

    gaps_s = [after_s - before_s for before_s, after_s in pairwise(ends_s)]
    assert gaps_s == pytest.approx([0.1 * (1 + starts_s / 60) for starts_s in ends_s[:-1]])


def test_a_neighbour_comes_and_goes_between_nothing_and_its_depth():
    """One period of a sine: least 1, most 1 + depth, mean in the middle, then the same again."""
    noisy = replace(PLAIN, drift_depth_ratio=0.2, drift_period_s=100.0)
    turn = factors(noisy, [float(second) for second in range(200)])

    assert min(turn) == pytest.approx(1.0, abs=0.001)
    assert max(turn) == pytest.approx(1.2, abs=0.001)
    assert math.fsum(turn[:100]) / 100 == pytest.approx(1.1)
    assert turn[:100] == pytest.approx(turn[100:])


def test_the_neighbour_has_the_stated_formula():
    """1 + depth * (1 + sin(2 pi (t / period + phase))) / 2, whatever the phase: t and t + half a
    period are opposite, so their mean is 1 + depth / 2."""
    noisy = replace(PLAIN, drift_depth_ratio=0.2, drift_period_s=100.0)
    first, quarter, half = factors(noisy, [0.0, 25.0, 50.0])

    assert (first + half) / 2 == pytest.approx(1.1)
    # sin and cos of the same angle: their squares add up to one.
    assert ((first - 1.1) / 0.1) ** 2 + ((quarter - 1.1) / 0.1) ** 2 == pytest.approx(1.0)


def test_the_seed_decides_when_the_neighbour_comes():
    """The same seed gives the same phase, another one another."""
    noisy = replace(PLAIN, drift_depth_ratio=0.2)

    assert factors(noisy, [0.0], seed=1) == factors(noisy, [0.0], seed=1)
    assert len({factors(noisy, [0.0], seed=seed)[0] for seed in range(8)}) == 8


def test_a_neighbour_leaves_the_jitter_of_every_step_as_it_was():
    """Its phase is not drawn from the numbers of the jitter."""
    times_s = [100.0 * step for step in range(20)]  # whole periods: the same factor each time
    jittery = replace(PLAIN, jitter_ratio=0.1)
    noisy = replace(jittery, drift_depth_ratio=0.2, drift_period_s=100.0)
    ratios = [
        with_it / without
        for with_it, without in zip(factors(noisy, times_s), factors(jittery, times_s), strict=True)
    ]

    assert ratios == pytest.approx([ratios[0]] * 20)


LINGERING = replace(
    PLAIN, overload_waiting=3, overload_slowdown_ratio=0.5, overload_recovery_s=10.0
)


@pytest.mark.parametrize(
    ("steps", "slow"),
    [
        ([(0, 2), (1, 2)], [False, False]),
        ([(0, 3), (1, 0)], [True, True]),
        ([(0, 3), (9.9, 0), (10, 0)], [True, True, False]),
        ([(0, 3), (9, 1), (18.9, 0), (19, 0)], [True, True, True, False]),
        ([(0, 3), (20, 0), (21, 2), (22, 3)], [True, False, False, True]),
    ],
    ids=["below", "once", "recovers", "one waiting prolongs it", "again"],
)
def test_an_overload_lingers_until_the_queue_has_been_empty_for_its_time(steps, slow):
    """Each step: (start in s, requests left waiting); slow ones take half as long again."""
    model = StepTime(LINGERING, 0)
    lengths_s = [model.step_s(at_s, 1, 0, 0.0, left) for at_s, left in steps]

    assert lengths_s == pytest.approx([0.15 if each else 0.1 for each in slow])


def test_the_engine_stays_slow_after_an_overload_and_recovers():
    """Seven requests on four slots leave three behind: 0.15 s a step, 0.1 s long after."""
    engine = Engine(replace(LINGERING, overload_recovery_s=2.0))
    for name in "abcdefg":
        engine.submit(EngineRequest(name, 1, 5), 0.0)
    engine.submit(EngineRequest("last", 1, 60), 0.0)
    gaps_s = [
        event.since_previous_s
        for event in engine.advance(100.0)
        if isinstance(event, TokenEvent) and event.request_id == "last" and event.ordinal > 1
    ]

    assert gaps_s[0] == pytest.approx(0.15)
    assert gaps_s[-1] == pytest.approx(0.1)
    # The queue was last seen at the step before "last" got its slot; 2 s after it all is well.
    assert sum(gap_s > 0.12 for gap_s in gaps_s) == pytest.approx(2.0 / 0.15, abs=1.5)


def test_slowdowns_multiply():
    """A leak of 100 % a minute and an overload of 50 %: three times as long after a minute."""
    profile = replace(LINGERING, leak_percent_per_minute=100.0)

    assert factors(profile, [0.0, 60.0], left=3) == pytest.approx([1.5, 3.0])
