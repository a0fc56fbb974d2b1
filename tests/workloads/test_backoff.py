"""Waits between tries, and how many retries a client allows itself."""

import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.backoff import (
    DecorrelatedJitter,
    Exponential,
    Fixed,
    FullJitter,
    ServerOnly,
    parse_backoff,
)
from workloads.retry_budget import RetryBudget

CAP_S = 30.0
BASES = st.floats(min_value=0.001, max_value=CAP_S)
RETRIES = st.integers(min_value=1, max_value=100_000)
SEEDS = st.integers(min_value=0, max_value=1 << 32)


@pytest.mark.parametrize(
    ("text", "backoff"),
    [
        ("full-jitter", FullJitter(0.5, CAP_S)),
        ("full-jitter:200ms", FullJitter(0.2, CAP_S)),
        ("exponential", Exponential(0.5, CAP_S)),
        ("exponential:1s", Exponential(1.0, CAP_S)),
        ("decorrelated:500ms", DecorrelatedJitter(0.5, CAP_S)),
        ("fixed:1s", Fixed(1.0)),
        ("fixed:0s", Fixed(0.0)),
        ("fixed:0.25", Fixed(0.25)),
        (" Fixed:0.5m ", Fixed(30.0)),
        ("server", ServerOnly()),
    ],
)
def test_a_backoff_is_read(text, backoff):
    """Each kind, its time in ms, s or m, and the time it has without one."""
    assert backoff == parse_backoff(text, CAP_S)


def test_a_default_base_is_never_over_the_cap():
    """A short cap needs no time written."""
    assert FullJitter(0.1, 0.1) == parse_backoff("full-jitter", 0.1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "full-jitter:",
        "full-jitter:soon",
        "exponential:-1s",
        "fixed",
        "fixed:1h",
        "server:1s",
        "jitter:1s",
        "fixed:nan",
        "fixed:1e3",
        "500ms",
    ],
    ids=lambda text: repr(text),
)
def test_what_is_no_backoff_is_told_the_choices(text):
    """The value and all that may be written."""
    with pytest.raises(ValueError, match="is no backoff") as caught:
        parse_backoff(text, CAP_S)

    for part in (repr(text), "full-jitter:500ms", "exponential", "decorrelated", "fixed", "server"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("exponential:31s", r"'exponential:31s': 31 s is over the cap of 30 s"),
        ("fixed:1m", "60 s is over the cap of 30 s"),
        ("full-jitter:0s", "the time is over 0; to retry at once write fixed:0s"),
    ],
)
def test_a_time_out_of_range_is_told_the_range(text, says):
    """A base over the cap would make every wait the cap, unseen."""
    with pytest.raises(ValueError, match=says):
        parse_backoff(text, CAP_S)


@pytest.mark.parametrize(
    "text",
    ["full-jitter:0.2s", "exponential:1s", "decorrelated:0.5s", "fixed:1s", "server"],
)
def test_a_backoff_describes_itself_as_it_is_read(text):
    """A record's text makes the same backoff again."""
    assert text == parse_backoff(text, CAP_S).describe()


def test_exponential_doubles_up_to_its_cap():
    """Without jitter, and with no overflow however often it is retried."""
    chance = random.Random(1)
    backoff = Exponential(1.0, 30.0)

    waits = [backoff.wait_s(retry, 0.0, chance) for retry in (1, 2, 3, 4, 5, 6, 5000)]

    assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] == waits


@settings(deadline=None)
@given(base_s=BASES, retry=RETRIES, seed=SEEDS)
def test_full_jitter_is_within_the_exponential_wait(base_s, retry, seed):
    """From 0 to what the exponential one would wait, so never over the cap."""
    most_s = Exponential(base_s, CAP_S).wait_s(retry, 0.0, random.Random(0))

    assert 0 <= FullJitter(base_s, CAP_S).wait_s(retry, 0.0, random.Random(seed)) <= most_s <= CAP_S


def test_full_jitter_spreads_over_the_whole_range():
    """Even from 0 on: clients refused together do not come back together."""
    chance = random.Random(3)
    backoff = FullJitter(1.0, CAP_S)

    waits = [backoff.wait_s(3, 0.0, chance) for _ in range(20_000)]

    assert pytest.approx(2.0, rel=0.03) == fmean(waits)
    assert min(waits) < 0.05
    assert max(waits) > 3.95


@settings(deadline=None)
@given(base_s=BASES, previous_s=st.floats(min_value=0, max_value=1e6), seed=SEEDS)
def test_decorrelated_jitter_is_from_the_base_to_three_times_the_last_wait(
    base_s, previous_s, seed
):
    """Never under its base, over its cap or over three times the wait before."""
    wait_s = DecorrelatedJitter(base_s, CAP_S).wait_s(2, previous_s, random.Random(seed))

    assert base_s <= wait_s <= min(CAP_S, 3 * max(base_s, previous_s))


def test_decorrelated_jitter_grows_with_the_last_wait():
    """Uniform up to three times it: the mean after 4 s with a base of 1 s is 6.5 s."""
    chance = random.Random(3)
    backoff = DecorrelatedJitter(1.0, CAP_S)

    waits = [backoff.wait_s(2, 4.0, chance) for _ in range(20_000)]

    assert pytest.approx(6.5, rel=0.03) == fmean(waits)


def test_fixed_and_server_take_no_chance():
    """One always waits the same, the other has no wait of its own."""
    chance = random.Random(1)

    assert [1.5, 1.5] == [Fixed(1.5).wait_s(retry, 9.0, chance) for retry in (1, 7)]
    assert ServerOnly().wait_s(1, 0.0, chance) is None


@settings(deadline=None)
@given(
    millis=st.integers(min_value=0, max_value=3000),
    reserve=st.integers(min_value=0, max_value=20),
    steps=st.lists(st.booleans(), max_size=300),
)
def test_retries_never_outrun_the_budget(millis, reserve, steps):
    """After any sequence of requests and retries: retries ≤ reserve + ratio · requests."""
    budget = RetryBudget(millis / 1000, reserve)
    requests = retries = 0

    for is_request in steps:
        if is_request:
            budget.earn()
            requests += 1
        else:
            retries += budget.take()
        assert 1000 * retries <= 1000 * reserve + millis * requests


@pytest.mark.parametrize(("ratio", "taken"), [(0.1, 10), (0.29, 29), (1.0, 100), (2.01, 201)])
def test_a_budget_allows_its_whole_ratio(ratio, taken):
    """Of 100 refused requests, each tried again as often as allowed: no share is lost to rounding,
    nor to a reserve of 0."""
    budget = RetryBudget(ratio, reserve=0)
    retries = 0

    for _ in range(100):
        budget.earn()
        while budget.take():
            retries += 1

    assert taken == retries


def test_a_long_quiet_time_saves_up_no_storm():
    """A thousand good requests leave the reserve, not a thousand shares."""
    budget = RetryBudget(0.5, reserve=10)
    for _ in range(1000):
        budget.earn()

    assert 10 == sum(budget.take() for _ in range(1000))


def test_without_a_ratio_every_retry_is_allowed():
    """No budget is no limit, even with nothing earned and nothing in reserve."""
    budget = RetryBudget(None, reserve=0)

    assert 1000 == sum(budget.take() for _ in range(1000))


@pytest.mark.parametrize(
    ("ratio", "reserve", "says"),
    [
        (-0.1, 10, "budget of -0.1 per request"),
        (float("nan"), 10, "budget of nan per request"),
        (float("inf"), 10, "budget of inf per request"),
        (0.1, -1, "reserve of -1 retries"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(ratio, reserve, says):
    """The value and what to write."""
    with pytest.raises(ValueError, match=says):
        RetryBudget(ratio, reserve)
