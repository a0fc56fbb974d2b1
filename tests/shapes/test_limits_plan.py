"""``--shape limits`` as a plan: against limiters in simulated time whose rate is known."""

from itertools import pairwise

import pytest

from metrics.limits import limits_found
from metrics.rate_bracket import LimitStep
from metrics.stage import Phase
from shapes.limits import LimitsPlan
from shapes.limits_search import LONGEST_PAUSE_S, MOST_RPS, LimitsBounds, LimitsSearch
from tests.support.limited_endpoint import Bucket, Cap, Fleet, Open, Window

TRUTH_RPS = 10.0


def search(limiter, fleet=None, estimate=limits_found, **bounds):
    """A search to its end; the plan and the fleet that followed it."""
    fleet = Fleet(limiter, **(fleet or {}))
    asked = LimitsBounds(**{"first_rate": 1.0, "hold_s": 12.0, **bounds})
    plan = LimitsPlan(asked, estimate, fleet.workers, drain_limit_s=5.0)
    fleet.follow(plan)
    return plan, fleet


@pytest.mark.parametrize(
    ("limiter", "most_requests"),
    [
        (Bucket(TRUTH_RPS, depth=1), 700),
        (Bucket(TRUTH_RPS, depth=10), 700),
        (Bucket(TRUTH_RPS, depth=60), 900),
        (Bucket(TRUTH_RPS, depth=600), 1_800),
        (Window(TRUTH_RPS, window_s=1), 700),
        (Window(TRUTH_RPS, window_s=10), 1_500),
        (Window(TRUTH_RPS, window_s=60), 7_500),
        (Cap(4), 700),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_the_limit_is_bracketed_from_both_sides_with_few_requests(limiter, most_requests):
    """10 requests/s pass, whatever burst or window is around it: 10 lies within a quarter."""
    plan, fleet = search(limiter)

    assert plan.ended_by is None
    assert plan.bracket.narrow
    assert plan.bracket.low <= TRUTH_RPS <= plan.bracket.high
    assert len(fleet.rows) <= most_requests
    held = [stage for stage in plan.stages if stage.kind == "rate"]
    assert len(held) == len(plan.steps)
    assert "drain" == plan.stages[-1].kind


@pytest.mark.parametrize("depth", [1, 10, 60, 600])
def test_the_bracket_needs_no_model_of_the_limiter(depth):
    """What passes while it refuses, and the steps alone, find the limit of a bucket."""
    plan, _ = search(Bucket(TRUTH_RPS, depth), estimate=lambda attempts: ())

    assert plan.bracket.narrow
    assert plan.bracket.low <= TRUTH_RPS <= plan.bracket.high


def test_the_rise_doubles_until_429s_last():
    """1, 2, 4, 8 and 16, and none of the steps after it is higher."""
    plan, _ = search(Bucket(TRUTH_RPS, 10))

    rates = [step.rate for step in plan.steps]
    assert [1.0, 2.0, 4.0, 8.0, 16.0] == rates[:5]
    assert [False] * 4 + [True] == [step.limited for step in plan.steps[:5]]
    assert max(rates[5:]) < 16.0


def test_a_rate_given_is_where_the_rise_begins():
    """From 6/s: 6, then 12."""
    plan, _ = search(Bucket(TRUTH_RPS, 10), first_rate=6.0)

    assert [6.0, 12.0] == [step.rate for step in plan.steps[:2]]


def test_steps_that_follow_a_bucket_leave_no_gap():
    """It would refill in a pause, and a burst would hide its rate: no second without arrivals."""
    _, fleet = search(Bucket(TRUTH_RPS, 10))

    sent_s = sorted(row["sent"] for row in fleet.rows)
    assert Phase.IDLE not in {phase for _, _, phase in fleet.seen}
    assert max(b - a for a, b in pairwise(sent_s)) <= 1.0


def test_a_limiter_that_is_shut_is_waited_for_with_nobody_asking():
    """A window of 60 s: the longest wait it asked for passes before the next step."""
    plan, fleet = search(Window(TRUTH_RPS, 60))

    shut = next(n for n, step in enumerate(plan.steps) if step.shut)
    idle = next(n for n, (_, stage, phase) in enumerate(fleet.seen) if phase is Phase.IDLE)
    began_s, stage, _ = fleet.seen[idle]
    asked_s = max(row["wait"] for row in fleet.rows if row["stage"] == shut and row["wait"] > 0)
    assert shut + 1 == stage
    assert fleet.seen[idle + 1][0] - began_s >= min(asked_s, LONGEST_PAUSE_S)
    quiet = [row for row in fleet.rows if began_s <= row["sent"] < fleet.seen[idle + 1][0]]
    assert [] == quiet


def test_without_a_told_wait_a_shut_limiter_is_waited_for_as_long_as_a_step():
    """A window of 10 s that tells nothing: 12 s, and the limit is found all the same."""
    plan, fleet = search(Window(TRUTH_RPS, 10), {"tells_waits": False})

    idle = next(n for n, (_, _, phase) in enumerate(fleet.seen) if phase is Phase.IDLE)
    assert fleet.seen[idle + 1][0] - fleet.seen[idle][0] == pytest.approx(12.0, abs=1.0)
    assert plan.bracket.low <= TRUTH_RPS <= plan.bracket.high


def test_without_429s_no_limit_is_claimed():
    """Up to the highest rate that is tried; it ends by itself and says how far it got."""
    plan, _ = search(Open())

    assert plan.bracket.high is None
    assert MOST_RPS == plan.steps[-1].rate
    assert "no limit found up to 4096 requests/s" == plan.ended_by


def test_a_backlog_that_grows_ends_the_rise():
    """20/s are served: at 32/s requests pile up, 64/s is never tried."""
    plan, _ = search(Open(), {"serves_rps": 20.0})

    assert 32.0 == plan.steps[-1].rate
    assert plan.ended_by.startswith("no limit found up to 16 requests/s")
    assert "pile up at 32 requests/s" in plan.ended_by


def test_a_client_at_its_end_ends_the_rise():
    """Above 100/s this client is what limits: 256/s is never tried."""
    plan, _ = search(Open(), {"client_limit_rps": 100.0})

    assert 128.0 == plan.steps[-1].rate
    assert "no limit found up to 64 requests/s: this client is at its end" in plan.ended_by


def test_failures_that_are_no_429s_end_the_search():
    """A server that breaks at 16/s is not asked for more."""
    plan, fleet = search(Open(), {"failing_from": 16.0})

    assert 16.0 == plan.steps[-1].rate
    assert "something other than a rate limit" in plan.ended_by
    assert sum(row["status"] == 500 for row in fleet.rows) < 100


def test_an_endpoint_that_refuses_everything_is_asked_twice():
    """A quota that is used up: once more after a pause, then it ends."""
    plan, fleet = search(Bucket(1e-9, 0.5))

    assert [1.0, 1.0] == [step.rate for step in plan.steps]
    assert "every request was refused" in plan.ended_by
    assert Phase.IDLE in {phase for _, _, phase in fleet.seen}


@pytest.mark.parametrize("most", [100, 250, 400])
def test_the_budget_of_requests_is_never_exceeded(most):
    """However far the search has come."""
    plan, fleet = search(Bucket(TRUTH_RPS, 10), most_requests=most)

    assert most / 3 < len(fleet.rows) <= most
    assert f"the budget of {most} requests" in plan.ended_by


def test_a_first_step_beyond_the_budget_is_cut():
    """20/s for 12 s would be 240."""
    plan, fleet = search(Open(), first_rate=20.0, most_requests=100)

    assert 40 < len(fleet.rows) <= 100
    assert [False] == [step.whole for step in plan.steps]


def test_no_step_is_begun_that_the_budget_has_no_room_for():
    """After 1, 2, 4 and 8/s, 180 requests, 16/s would have room for a moment."""
    plan, _ = search(Open(), most_requests=250)

    assert [1.0, 2.0, 4.0, 8.0] == [step.rate for step in plan.steps]
    assert plan.steps[-1].whole


def test_after_a_step_that_passed_the_limit_is_met_again_first():
    """8/s passed and left a burst behind: 16/s again, and only then something between."""
    passed = LimitStep(rate=8.0, attempts=96, refused=0, limited=False)
    refused = LimitStep(rate=16.0, attempts=64, refused=32, limited=True, passed_rps=20.0)
    attempts = Fleet(Open()).attempts()
    wants = LimitsSearch(LimitsBounds(first_rate=1.0, hold_s=12.0), lambda attempts: ())

    assert 16.0 == wants.next([refused, passed], attempts, None).rate
    between = wants.next([refused, passed, refused], attempts, None).rate
    assert (8 * 16) ** 0.5 == pytest.approx(between)


def test_a_step_cut_by_the_budget_is_no_lower_bound():
    """Nothing was refused in it, yet: that says nothing."""
    plan, _ = search(Bucket(TRUTH_RPS, 10), most_s=30.0)

    assert not plan.steps[-1].whole
    assert "the budget of 30 s was spent" in plan.ended_by


def test_a_search_paced_by_tokens_brackets_tokens():
    """250 nominal tokens a request: 10 requests/s are 2,500 tokens/s."""
    plan, _ = search(Bucket(TRUTH_RPS, 10), first_rate=300.0, tokens_per_request=250.0)

    assert plan.bracket.low <= 2_500 <= plan.bracket.high
    stage = plan.stages[0]
    assert (300.0, 1.2) == (stage.rate_tokens_per_s, pytest.approx(stage.rate_rps))
    assert "18,000 tokens/min" == stage.load


def test_users_that_never_run_end_the_search():
    """One of three workers never starts its user: nothing is sent, and it says why."""
    plan, fleet = search(Open(), {"workers": 3, "most_users": 2})

    assert frozenset({0}) == plan.not_reached
    assert "never all ran" in plan.ended_by
    assert [] == fleet.rows
