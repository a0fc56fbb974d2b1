"""The parts of the search for limits: the ledger of each kind, the limit, headers, stages."""

from dataclasses import replace

import numpy as np
import pytest

from bench.limits.limiters import Bucket, Cap, Limiter, Window
from bench.limits.traffic import Traffic, generated
from metrics.limits import limits_found, what_bound
from metrics.limits_attempts import Attempts
from metrics.limits_models import bucket_fill, fixed_fill, in_flight_fill, sliding_fill
from metrics.limits_result import Charge, LimiterKind, LimitSource
from metrics.limits_threshold import best_threshold
from metrics.limits_trail import trail_of

TRAFFIC = Traffic(run_s=120, rate_rps=4, answer_s=0.8)
SAME_COST = replace(TRAFFIC, spread=0.0, max_tokens=200)


def limited_to(limit: int, traffic: Traffic = TRAFFIC) -> Attempts:
    limiter: Limiter = Window(limit, 10, 3.5, "requests")
    return generated(traffic, limiter, 1)


def column(attempts: Attempts, value: float) -> np.ndarray:
    return np.full(len(attempts), value)


@pytest.fixture(scope="module")
def attempts() -> Attempts:
    return generated(replace(TRAFFIC, run_s=60), Cap(3), 5)


@pytest.mark.parametrize("charge", list(Charge))
def test_fills_are_those_of_a_loop_over_the_attempts(attempts: Attempts, charge: Charge) -> None:
    trail = trail_of(attempts, every=True, slack_s=0.0)
    ledger = next(one for one in trail.ledgers if one.charge is charge)
    begins_s = np.arange(-10.0, 80.0, 7.0)
    fixed = fixed_fill(trail, ledger, begins_s)
    sliding = sliding_fill(trail, ledger, 7.0)
    # Fast enough to be full again at times.
    per_s = 1.1 * float(ledger.total[-1]) / 60
    bucket = bucket_fill(trail, ledger, per_s)
    amounts = np.diff(ledger.total)
    for row, at_s in enumerate(trail.judged_s):
        before = [
            (when, much)
            for when, much in zip(ledger.at_s, amounts, strict=True)
            if when < at_s
        ]  # fmt: skip
        own = ledger.own[row]
        since = max(begin for begin in begins_s if begin <= at_s)
        assert fixed[0][row] == pytest.approx(own + sum(m for w, m in before if w >= since))
        assert sliding[0][row] == pytest.approx(own + sum(m for w, m in before if w > at_s - 7))
        debt, last_s = 0.0, 0.0
        for when, much in before:
            debt = max(0.0, debt - per_s * (when - last_s)) + much
            last_s = when
        assert bucket[0][row] == pytest.approx(own + max(0.0, debt - per_s * (at_s - last_s)))


def test_requests_in_flight_are_counted_at_the_limiter(attempts: Attempts) -> None:
    trail = trail_of(attempts, every=True, slack_s=0.0)
    least, most = in_flight_fill(trail)
    half_s = trail.half_trip_s
    taken = attempts.accepted
    begin_s, end_s = attempts.sent_s[taken] + half_s, attempts.ended_s[taken] - half_s
    for row, at_s in enumerate(trail.judged_s):
        assert least[row] == 1 + ((begin_s < at_s) & (end_s >= at_s)).sum()
        assert most[row] >= least[row]


@pytest.mark.parametrize("shape", ["fixed", "sliding", "bucket"])
def test_slack_widens_a_fill_to_both_sides(attempts: Attempts, shape: str) -> None:
    begins_s = np.arange(-10.0, 80.0, 7.0)
    fills = []
    for slack_s in (0.0, 0.05):
        trail = trail_of(attempts, slack_s=slack_s)
        ledger = trail.ledgers[0]
        fill = {
            "fixed": lambda t=trail, led=ledger: fixed_fill(t, led, begins_s),
            "sliding": lambda t=trail, led=ledger: sliding_fill(t, led, 7.0),
            "bucket": lambda t=trail, led=ledger: bucket_fill(t, led, 4.0),
        }[shape]
        fills.append(fill())
    (exact, same), (least, most) = fills
    assert (exact == same).all()
    assert (least <= exact).all()
    assert (least < exact).any()
    assert (most >= exact).all()
    assert (most > exact).any()


def test_what_leaves_the_sliding_window_within_the_slack_may_still_count() -> None:
    two = Attempts(
        sent_s=[0.0, 7.01], ended_s=[0.1, 7.02], accepted=[True, False], limited=[False, True]
    )
    trail = trail_of(two, slack_s=0.02)
    least, most = sliding_fill(trail, trail.ledgers[0], 7.0)
    assert (least[1], most[1]) == (1.0, 2.0)


def test_the_limit_is_between_the_most_accepted_and_the_least_refused() -> None:
    accepted = np.array([True, True, True, False, False])
    fill = np.array([1.0, 2.0, 3.0, 5.0, 6.0])
    found = best_threshold(accepted, fill, fill)
    assert (found.low, found.high, found.errors) == (3.0, 5.0, 0)


def test_the_limit_with_the_fewest_against_it_is_taken() -> None:
    accepted = np.array([True] * 6 + [False] * 4)
    fill = np.array([1.0, 2, 3, 4, 5, 9, 6, 7, 8, 2])
    found = best_threshold(accepted, fill, fill)
    assert (found.low, found.high) == (5.0, 6.0)
    assert (found.accepted_over, found.refused_under) == (1, 1)


def test_nothing_refused_above_leaves_the_limit_open() -> None:
    accepted = np.array([True, True, False])
    fill = np.array([3.0, 4.0, 1.0])
    assert best_threshold(accepted, fill, fill).high == np.inf


def test_headers_that_agree_are_evidence() -> None:
    attempts = limited_to(20)
    told = replace(attempts, limit_requests=column(attempts, 120))
    found = limits_found(told)[0]
    assert (found.source, found.figure) == (LimitSource.BOTH, 120)
    assert limits_found(attempts)[0].source is LimitSource.TRAFFIC


def test_headers_may_name_the_limit_of_a_window() -> None:
    attempts = limited_to(20)
    found = limits_found(replace(attempts, limit_requests=column(attempts, 20)))[0]
    assert (found.source, found.figure) == (LimitSource.BOTH, 120)


def test_headers_that_disagree_are_said_and_the_traffic_is_believed() -> None:
    attempts = limited_to(20)
    found = limits_found(replace(attempts, limit_requests=column(attempts, 500)))[0]
    assert (found.source, found.figure) == (LimitSource.TRAFFIC, 120)
    assert "disagree" in found.evidence
    assert "500" in found.evidence


@pytest.mark.parametrize("quantity", ["requests", "tokens"])
def test_headers_decide_where_the_traffic_fits_two_quantities(quantity: str) -> None:
    attempts = limited_to(20, SAME_COST)
    assert limits_found(attempts)[0].kind is LimiterKind.UNKNOWN
    left = np.where(attempts.limited, 0.0, 50.0)
    told = replace(
        attempts,
        **{f"limit_{quantity}": column(attempts, 120), f"remaining_{quantity}": left},
    )
    found = limits_found(told)[0]
    assert found.kind.quantity == quantity


@pytest.mark.parametrize("left", [0.0, 5.0])
def test_what_was_left_before_decides_where_the_429s_have_no_headers(left: float) -> None:
    attempts = limited_to(20, SAME_COST)
    told = replace(
        attempts,
        limit_requests=np.where(attempts.limited, np.nan, 20.0),
        remaining_requests=np.where(attempts.limited, np.nan, left),
    )
    found = limits_found(told)[0]
    if left:
        assert found.kind is LimiterKind.UNKNOWN
    else:
        assert (found.kind, found.window_s) == (LimiterKind.REQUESTS_FIXED, 10)
        assert found.source is LimitSource.BOTH


def test_the_figure_is_the_headers_where_both_agree() -> None:
    attempts = limited_to(19)
    found = limits_found(replace(attempts, limit_requests=column(attempts, 20)))[0]
    assert (found.source, found.figure, found.burst) == (LimitSource.BOTH, 120, 20)
    assert (found.low, found.high) == (114, 120)


def test_headers_may_name_the_burst_of_a_bucket() -> None:
    attempts = generated(TRAFFIC, Bucket(100, 6, "requests"), 1)
    found = limits_found(replace(attempts, limit_requests=column(attempts, 6)))[0]
    assert (found.source, found.burst) == (LimitSource.BOTH, 6)
    assert "disagree" not in found.evidence


def test_headers_alone_are_named_as_such() -> None:
    few = generated(Traffic(run_s=20, rate_rps=2), Cap(1000), 1)
    found = limits_found(replace(few, limit_tokens=column(few, 90_000)))[0]
    assert (found.kind, found.source) == (LimiterKind.TOKENS_FIXED, LimitSource.HEADERS)
    assert found.figure == 90_000
    assert "No request was refused" in found.evidence


def test_headers_that_the_traffic_refutes_give_no_figure() -> None:
    few = generated(Traffic(run_s=60, rate_rps=5), Cap(1000), 1)
    found = limits_found(replace(few, limit_requests=column(few, 30)))[0]
    assert (found.kind, found.figure) == (LimiterKind.UNKNOWN, None)
    assert "disagrees" in found.evidence


def test_headers_that_change_name_no_limit() -> None:
    few = generated(Traffic(run_s=60, rate_rps=5), Cap(1000), 1)
    wavering = np.where(np.arange(len(few)) % 2, 30.0, 60.0)
    assert limits_found(replace(few, limit_requests=wavering))[0].kind is LimiterKind.UNKNOWN


def test_a_stage_is_bound_by_the_limit_that_was_used_up() -> None:
    attempts = limited_to(20)
    found = limits_found(attempts)
    bound = what_bound(attempts, found, 20, 60)
    assert bound.estimate is found[0]
    assert bound.refused == (attempts.within(20, 60) & attempts.limited).sum()
    assert bound.explained >= 0.95 * bound.refused


def test_a_stage_without_429s_is_bound_by_nothing() -> None:
    attempts = limited_to(20)
    calm = np.flatnonzero(attempts.limited)[0]
    bound = what_bound(attempts, limits_found(attempts), 0, float(attempts.sent_s[calm]))
    assert (bound.estimate, bound.refused) == (None, 0)


def test_429s_that_no_limit_explains_bind_to_none() -> None:
    attempts = limited_to(20)
    higher = replace(limits_found(attempts)[0], burst=40.0, figure=240.0)
    bound = what_bound(attempts, [higher])
    assert (bound.estimate, bound.explained) == (None, 0)
    assert bound.refused == attempts.limited.sum()


def test_of_two_limits_the_one_that_explains_the_stage_bound_it() -> None:
    slow = generated(replace(TRAFFIC, run_s=60), Cap(3), 5)
    windowed = limited_to(20)
    cap, window = limits_found(slow)[0], limits_found(windowed)[0]
    assert cap.kind is LimiterKind.CONCURRENCY
    assert what_bound(slow, [window, cap]).estimate is cap
    assert what_bound(windowed, [cap, window]).estimate is window


def test_an_empty_stage_is_refused() -> None:
    with pytest.raises(ValueError, match="give end after begin"):
        what_bound(limited_to(20), (), 5, 5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limited": [True]}, "limited has shape"),
        ({"sent_s": [0.0, float("nan")]}, "sent_s of attempt 1 is nan"),
        ({"ended_s": [1.0, 0.5]}, "attempt 1 was sent at 1.0 s, ended at 0.5 s"),
        ({"limited": [True, True]}, "attempt 0 is both accepted and limited"),
    ],
)
def test_attempts_that_cannot_be_are_refused(changes: dict[str, object], words: str) -> None:
    good: dict[str, object] = {
        "sent_s": [0.0, 1.0],
        "ended_s": [1.0, 1.1],
        "accepted": [True, False],
        "limited": [False, True],
    }
    with pytest.raises(ValueError, match=words):
        Attempts(**{**good, **changes})


def test_no_attempts_at_all_are_unknown() -> None:
    none = np.empty(0)
    found = limits_found(Attempts(sent_s=none, ended_s=none, accepted=none, limited=none))
    assert [one.kind for one in found] == [LimiterKind.UNKNOWN]


def test_answers_still_running_count_as_in_flight_to_the_end() -> None:
    attempts = generated(replace(TRAFFIC, run_s=60), Cap(3), 5)
    seen = attempts.sent_s < 55
    running = Attempts(
        sent_s=attempts.sent_s[seen],
        ended_s=np.where(attempts.ended_s > 55, np.nan, attempts.ended_s)[seen],
        accepted=attempts.accepted[seen],
        limited=attempts.limited[seen],
    )
    assert np.isnan(running.ended_s).sum() >= 3
    found = limits_found(running)[0]
    assert (found.kind, found.figure) == (LimiterKind.CONCURRENCY, 3)
