"""The ladder: levels by users that are really there, then a drain, then the end."""

import pytest

from metrics.stage import Phase
from shapes.ladder import LadderPlan, constant_plan
from shapes.plan import Observation


def follow(plan, users_at, seconds, tick_s=1.0):
    """Drive a plan: ``users_at(target, now_s)`` is the fleet; phases with their begin."""
    seen, target, now_s = [], 0, 0.0
    while now_s <= seconds:
        directive = plan.next(Observation(now_s, users_at(target, now_s)))
        if directive is None:
            return seen, now_s
        target = directive.target_users
        entry = (directive.stage.id, directive.phase, target)
        if not seen or seen[-1][1:] != entry:
            seen.append((now_s, *entry))
        now_s += tick_s
    return seen, None


def obedient(target, now_s):
    """A fleet that has its users at the next tick."""
    return target


def test_each_level_ramps_settles_and_holds():
    """Two levels of 5 s after 2 s of settling, then a drain, then the end."""
    plan = LadderPlan([1, 4], hold_s=5, settle_s=2, spawn_rate=4, drain_limit_s=10)

    phases, ended_at_s = follow(plan, obedient, 60)

    assert [(stage, phase) for _, stage, phase, _ in phases] == [
        (0, Phase.RAMP),
        (0, Phase.SETTLE),
        (0, Phase.HOLD),
        (1, Phase.RAMP),
        (1, Phase.SETTLE),
        (1, Phase.HOLD),
        (2, Phase.DRAIN),
    ]
    assert phases[-1][3] == 0
    assert ended_at_s is not None
    held = {stage: at for at, stage, phase, _ in phases if phase is Phase.HOLD}
    left = {stage: at for at, stage, phase, _ in phases if phase in (Phase.RAMP, Phase.DRAIN)}
    assert left[1] - held[0] == 5
    assert left[2] - held[1] == 5


def test_L01_a_slow_ramp_is_waited_for():
    """10 then 40 users at 4/s: the window of 40 begins only when 40 users are there."""
    plan = LadderPlan([10, 40], hold_s=5, settle_s=0, spawn_rate=4, drain_limit_s=10)
    users = {"now": 0.0}

    def slow(target, now_s):
        step = max(-4.0, min(4.0, target - users["now"]))
        users["now"] += step
        return int(users["now"])

    phases, _ = follow(plan, slow, 120)

    hold_at_s = next(at for at, stage, phase, _ in phases if (stage, phase) == (1, Phase.HOLD))
    ramp_at_s = next(at for at, stage, phase, _ in phases if (stage, phase) == (1, Phase.RAMP))
    assert hold_at_s - ramp_at_s >= 30 / 4
    assert frozenset() == plan.not_reached


def test_L01_a_level_whose_users_never_come_is_marked_and_never_held():
    """A fleet that stops at 25 users: level 40 is not reached, and no window of it exists."""
    plan = LadderPlan([10, 40], hold_s=5, settle_s=0, spawn_rate=4, drain_limit_s=10)

    phases, ended_at_s = follow(plan, lambda target, now_s: min(target, 25), 200)

    assert frozenset({1}) == plan.not_reached
    assert (1, Phase.HOLD) not in [(stage, phase) for _, stage, phase, _ in phases]
    assert ended_at_s is not None


def test_the_drain_waits_for_the_last_answers_but_not_for_ever():
    """Users that never end are given up after the limit."""
    quick = LadderPlan([2], hold_s=1, settle_s=0, spawn_rate=2, drain_limit_s=10)
    stuck = LadderPlan([2], hold_s=1, settle_s=0, spawn_rate=2, drain_limit_s=10)

    _, quick_end_s = follow(quick, obedient, 60)
    phases, stuck_end_s = follow(stuck, lambda target, now_s: 2 if now_s else 0, 60)

    drain_at_s = phases[-1][0]
    assert Phase.DRAIN is phases[-1][2]
    assert stuck_end_s - drain_at_s == 10
    assert quick_end_s < stuck_end_s


def test_a_constant_load_without_a_run_time_holds_until_it_is_stopped():
    """Locust's -u without -t never drains by itself."""
    plan = constant_plan(3, None, settle_s=1, spawn_rate=3, drain_limit_s=5)

    phases, ended_at_s = follow(plan, obedient, 500)

    assert ended_at_s is None
    assert Phase.HOLD is phases[-1][2]
    assert plan.expected_s is None


def test_a_ladder_may_go_down_again():
    """A falling level is a ramp like any other."""
    plan = LadderPlan([4, 1], hold_s=1, settle_s=0, spawn_rate=4, drain_limit_s=5)

    phases, _ = follow(plan, obedient, 60)

    assert [target for _, _, phase, target in phases if phase is not Phase.HOLD] == [4, 1, 0]


@pytest.mark.parametrize(("levels", "expected_s"), [([4], 8), ([2, 4], 15)], ids=["one", "two"])
def test_the_expected_time_is_ramps_and_windows(levels, expected_s):
    """4 users at 4/s, 2 s settling, 5 s held; a second level adds its own."""
    plan = LadderPlan(levels, hold_s=5, settle_s=2, spawn_rate=4, drain_limit_s=5)

    assert expected_s == pytest.approx(plan.expected_s, abs=0.6)
