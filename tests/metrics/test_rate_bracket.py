"""What one step of a search for limits showed, and between which rates the limit lies."""

import numpy as np
import pytest

from metrics.limits_attempts import Attempts
from metrics.limits_result import Charge, LimiterKind, LimitEstimate
from metrics.rate_bracket import LimitStep, RateBracket, limit_rps, limit_step, rate_bracket


def attempts(fates, rate=10.0, ended_after_s=0.2, **columns):
    """One each tenth of a second: ``.`` accepted, ``x`` 429, ``_`` not answered yet."""
    known = [(n / rate, fate) for n, fate in enumerate(fates) if fate != "_"]
    sent_s = np.array([at_s for at_s, _ in known])
    return Attempts(
        sent_s=sent_s,
        ended_s=sent_s + ended_after_s,
        accepted=np.array([fate == "." for _, fate in known], dtype=bool),
        limited=np.array([fate == "x" for _, fate in known], dtype=bool),
        **columns,
    )


def step_of(fates):
    return limit_step(10.0, 10.0, attempts(fates))


def a_step(rate, limited, attempts=100, refused=None, **changes):
    refused = refused if refused is not None else 20 * limited
    return LimitStep(rate=rate, attempts=attempts, refused=refused, limited=limited, **changes)


@pytest.mark.parametrize(
    ("fates", "limited"),
    [
        ("." * 100, False),
        (".........x" * 10, True),
        ("." * 200 + "..x" * 4, False),
        ("." * 200 + "..x" * 5, True),
        ("x" + "." * 40 + "x" + "." * 200 + "xxxx", False),
    ],
    ids=["none", "a tenth", "too few", "after a long burst", "a few in many"],
)
def test_a_step_is_limited_by_lasting_429s(fates, limited):
    """Five at least, and over 5 % from the first one on: a burst before them hides nothing."""
    assert limited == step_of(fates).limited


def test_what_earlier_steps_used_up_is_not_held_against_a_step():
    """429s before its first accepted attempt are those of a limiter that was empty already."""
    step = step_of("x" * 30 + "." * 50)

    assert (False, 50, 0) == (step.limited, step.attempts, step.refused)


def test_a_step_of_429s_alone_shows_nothing():
    """No attempt of it counts; it was shut."""
    step = step_of("x" * 30)

    assert (False, 0, True) == (step.limited, step.attempts, step.shut)


def test_answers_that_are_still_coming_count_as_offered():
    """5 known 429s and hardly an answer yet, of 200 sent: 429s are quicker, not more."""
    fates = "." + "x________________________________________" * 5

    assert not step_of(fates).limited


def test_what_passes_while_it_refuses_is_the_limits_rate():
    """Every second one passes at 10/s: 5/s, and the limiter is not shut."""
    step = step_of("." * 50 + "x." * 40)

    assert 5.0 == pytest.approx(step.passed_rps, rel=0.03)
    assert not step.shut


def test_a_limiter_that_lets_nothing_pass_is_shut():
    """A window that is used up."""
    step = step_of("." * 50 + "x" * 40)

    assert step.limited
    assert step.shut
    assert step.passed_rps is None


def test_the_bracket_is_between_what_passed_and_what_was_refused():
    """8 and 16 in the rise, 11 refused, then 9 passed."""
    steps = [a_step(8, False), a_step(16, True), a_step(11, True), a_step(9, False)]

    assert RateBracket(9.0, 11) == rate_bracket(steps)
    assert rate_bracket(steps).narrow


def test_what_a_burst_may_have_carried_is_no_lower_bound():
    """32/s passed in the rise, and 10.5/s after a step that let a bucket refill: neither counts."""
    steps = [a_step(32, False), a_step(64, True), a_step(9, False), a_step(10.5, False)]

    assert RateBracket(9.0, 64) == rate_bracket(steps)


def test_few_429s_lower_what_has_passed():
    """4 of 100 were refused: the limit may lie below the rate that was offered."""
    steps = [a_step(16, True), a_step(10, False, refused=4)]

    assert 9.6 == pytest.approx(rate_bracket(steps).low)


def test_a_step_that_was_cut_is_no_lower_bound():
    """Nothing was refused until the budget was spent."""
    steps = [a_step(16, True), a_step(10, False, whole=False)]

    assert RateBracket(None, 16) == rate_bracket(steps)


def test_without_lasting_429s_there_is_no_bracket():
    """Whatever passed."""
    assert RateBracket(None, None) == rate_bracket([a_step(8, False), a_step(4096, False)])


def estimate(kind, figure, charge=None):
    return LimitEstimate(
        kind=kind, figure=figure, low=None, high=None, charge=charge, evidence="made up"
    )


@pytest.mark.parametrize(
    ("found", "rps"),
    [
        (estimate(LimiterKind.REQUESTS_BUCKET, 600.0), 10.0),
        (estimate(LimiterKind.TOKENS_BUCKET, 60_000.0, Charge.ASKED), 1000 / 150),
        (estimate(LimiterKind.TOKENS_FIXED, 60_000.0, Charge.USED), 1000 / 120),
        (estimate(LimiterKind.CONCURRENCY, 4.0), 20.0),
        (estimate(LimiterKind.COOLDOWN, None), None),
    ],
    ids=lambda value: value.kind.value if isinstance(value, LimitEstimate) else None,
)
def test_a_limit_is_a_rate_of_requests_like_these(found, rps):
    """100 prompt tokens, 50 asked, 20 made, 0.2 s each."""
    columns = {"prompt_tokens": 100, "asked_max_tokens": 50, "completion_tokens": 20}
    like_these = attempts("." * 10 + "x" * 10, **{k: np.full(20, v) for k, v in columns.items()})

    assert rps == (None if rps is None else pytest.approx(limit_rps(found, like_these)))
    assert (rps is None) == (limit_rps(found, like_these) is None)
