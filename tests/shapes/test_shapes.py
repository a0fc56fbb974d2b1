"""Soak, spike, open loop and cold start as plans: told what is seen, never by times alone."""

import pytest

from metrics.stage import COLD_REQUESTS, COLD_STAGE, Phase
from shapes.cold_start import ColdStartPlan
from shapes.ladder import LadderPlan
from shapes.open_loop import OpenLoopPlan
from shapes.plan import Observation
from shapes.soak import soak_plan
from shapes.spike import spike_plan


def follow(plan, users_at=lambda target, now_s: target, in_flight=None, finished=None, limit=500):
    """Drive a plan each second; (time, stage, phase, target) at each change, and when it ended."""
    seen, target, now_s = [], 0, 0.0
    while now_s <= limit:
        users = users_at(target, now_s)
        flying = in_flight(now_s, seen) if in_flight else None
        over = finished(now_s, seen) if finished else 0
        directive = plan.next(Observation(now_s, users, in_flight=flying, finished=over))
        if directive is None:
            return seen, now_s
        target = directive.target_users
        entry = (directive.stage.id, directive.phase, target)
        if not seen or seen[-1][1:] != entry:
            seen.append((now_s, *entry))
        now_s += 1.0
    return seen, None


def spans(seen):
    """How long each (stage, phase) lasted, in seconds."""
    ends = [at for at, *_ in seen[1:]]
    return {(s[1], s[2]): end - s[0] for s, end in zip(seen, ends, strict=False)}


def test_a_soak_holds_its_users_for_the_run_time_without_the_settling():
    """5 s of settling come before the 60 s, not out of them."""
    seen, _ = follow(soak_plan(8, 60, settle_s=5, spawn_rate=8, drain_limit_s=5))

    assert [Phase.RAMP, Phase.SETTLE, Phase.HOLD, Phase.DRAIN] == [phase for _, _, phase, _ in seen]
    assert 60 == spans(seen)[0, Phase.HOLD]


def test_a_spike_is_base_burst_base():
    """4 users for 20 s, 30 for 10 s, 4 again for 20 s."""
    plan = spike_plan(4, 30, hold_s=20, spike_hold_s=10, settle_s=3, drain_limit_s=35)

    seen, _ = follow(plan)

    held = [(stage, target) for _, stage, phase, target in seen if phase is Phase.HOLD]
    assert [(0, 4), (1, 30), (2, 4)] == held
    lasted = spans(seen)
    assert (20, 10, 20) == tuple(lasted[stage, Phase.HOLD] for stage in range(3))


def test_the_burst_lasts_from_when_its_users_are_there():
    """A fleet that needs 6 s to grow: the burst is held for 10 s all the same."""
    plan = spike_plan(4, 30, hold_s=20, spike_hold_s=10, settle_s=0, drain_limit_s=35)
    asked = {}

    def slow(target, now_s):
        asked.setdefault(target, now_s)
        return target if target != 30 or now_s - asked[30] >= 6 else 4

    seen, _ = follow(plan, slow)

    assert 10 == spans(seen)[1, Phase.HOLD]
    assert frozenset() == plan.not_reached


def test_users_that_leave_may_finish_their_answers():
    """40 s until the burst's users have gone, within the stop timeout: still reached and held."""
    plan = spike_plan(4, 30, hold_s=20, spike_hold_s=10, settle_s=0, drain_limit_s=35)
    left = {}

    def lingering(target, now_s):
        if left.get("was") == 30 and target == 4:
            left.setdefault("since", now_s)
        left["was"] = target if "since" not in left else left["was"]
        return 30 if "since" in left and now_s - left["since"] < 40 and target == 4 else target

    seen, _ = follow(plan, lingering)

    assert frozenset() == plan.not_reached
    assert 20 == spans(seen)[2, Phase.HOLD]


def test_an_open_loop_goes_through_its_rates_without_a_gap():
    """Two rates on three workers: after the first ramp no phase is without arrivals."""
    plan = OpenLoopPlan([2.0, 4.0], hold_s=10, settle_s=2, workers=3, drain_limit_s=5)

    seen, _ = follow(plan, in_flight=lambda now_s, seen: 5)

    assert [
        (0, Phase.RAMP, 3),
        (0, Phase.SETTLE, 3),
        (0, Phase.HOLD, 3),
        (1, Phase.SETTLE, 3),
        (1, Phase.HOLD, 3),
        (2, Phase.DRAIN, 0),
    ] == [entry[1:] for entry in seen]
    assert [2.0, 4.0, None] == [stage.rate_rps for stage in plan.stages]


def test_a_growing_backlog_stops_the_step_and_all_higher_rates():
    """5 more in flight each second at 8/s: drained before the hold is over, 16/s never tried."""
    plan = OpenLoopPlan([8.0, 16.0], hold_s=60, settle_s=2, workers=1, drain_limit_s=5)

    seen, _ = follow(plan, in_flight=lambda now_s, seen: int(5 * now_s))

    assert [0, 0, 0, 2] == [stage for _, stage, _, _ in seen]
    assert seen[-1][0] < 30
    assert plan.trend.unstable


def test_a_backlog_that_stays_stops_nothing():
    """40 in flight all the time are much, and no growth."""
    plan = OpenLoopPlan([8.0, 16.0], hold_s=60, settle_s=2, workers=1, drain_limit_s=5)

    seen, _ = follow(plan, in_flight=lambda now_s, seen: 40 + int(now_s) % 3)

    assert {0, 1, 2} == {stage for _, stage, _, _ in seen}
    assert plan.trend is None


def test_a_step_is_judged_by_its_own_samples():
    """A backlog left by the step before is not growth of the next one."""
    plan = OpenLoopPlan([8.0, 16.0], hold_s=30, settle_s=0, workers=1, drain_limit_s=5)

    def jump(now_s, seen):
        return 10 if not seen or seen[-1][1] == 0 else 90

    seen, _ = follow(plan, in_flight=jump)

    assert 30 == spans(seen)[1, Phase.HOLD]


def test_a_cold_start_waits_then_asks_then_follows_the_plan():
    """60 s without users, one user until three answers are in, then the ladder."""
    plan = ColdStartPlan(LadderPlan([4], 5, 0, 4, 5), idle_s=60)

    def three_by(now_s, seen):
        probing = [at for at, _, phase, _ in seen if phase is Phase.COLD]
        return min(COLD_REQUESTS, int(now_s - probing[0])) if probing else 0

    seen, _ = follow(plan, finished=three_by)

    assert [(COLD_STAGE, Phase.IDLE, 0), (COLD_STAGE, Phase.COLD, 1), (0, Phase.RAMP, 4)] == [
        entry[1:] for entry in seen[:3]
    ]
    assert 60 == spans(seen)[COLD_STAGE, Phase.IDLE]
    assert 3 == spans(seen)[COLD_STAGE, Phase.COLD]


def test_a_cold_endpoint_that_never_answers_does_not_hold_the_run_up():
    """After two minutes the load comes all the same."""
    plan = ColdStartPlan(LadderPlan([4], 5, 0, 4, 5), idle_s=10)

    seen, _ = follow(plan)

    assert 120 == spans(seen)[COLD_STAGE, Phase.COLD]
    assert (0, Phase.HOLD, 4) in [entry[1:] for entry in seen]


@pytest.mark.parametrize(
    ("plan", "expected_s"),
    [
        (soak_plan(8, 60, 5, 8, 5), 66),
        (OpenLoopPlan([1, 2], 10, 2, 1, 5), 25),
        (ColdStartPlan(soak_plan(8, 60, 5, 8, 5), 30), 96),
    ],
    ids=["soak", "open loop", "cold start"],
)
def test_the_expected_time_is_told(plan, expected_s):
    """Ramps, settling, holds and idle time."""
    assert expected_s == pytest.approx(plan.expected_s, abs=1.1)
