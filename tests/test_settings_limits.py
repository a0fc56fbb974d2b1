"""The settings of retries, of users who leave, of paces and of prices."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from option_reader import SettingsError
from tests.test_settings import _settings
from values import OfferedRate, parse_rates


def test_by_default_nothing_is_sent_twice_and_nothing_is_priced():
    """No retries, no budget of them, nobody leaves, no price."""
    settings = _settings()

    assert 0 == settings.retrying.retries
    assert settings.retrying.budget_ratio is None
    assert {408, 429, 500, 502, 503, 504, 529} == settings.retrying.statuses
    assert 0 == settings.leaving.ratio
    assert not settings.prices.given
    assert 0 == settings.budget
    assert 0 == settings.max_in_flight


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("5", OfferedRate(5.0, False)),
        ("0.25", OfferedRate(0.25, False)),
        ("5/s", OfferedRate(5.0, False)),
        ("300/min", OfferedRate(5.0, False)),
        ("300 requests/min", OfferedRate(5.0, False)),
        ("7200/h", OfferedRate(2.0, False)),
        ("90k tokens/min", OfferedRate(1500.0, True)),
        ("1.5M tokens / min", OfferedRate(25000.0, True)),
        ("1200 tokens/s", OfferedRate(1200.0, True)),
    ],
)
def test_a_rate_has_the_units_that_providers_publish(text, rate):
    """Requests or tokens, by the second, the minute or the hour."""
    assert (rate,) == parse_rates(text)


@given(st.text(max_size=12))
def test_any_text_is_rates_or_a_clear_error(text):
    """Never another exception, never a rate of 0."""
    with contextlib.suppress(ValueError):
        assert all(rate.per_s > 0 for rate in parse_rates(text))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retries": -1}, "--retries -1: write 0 or more"),
        ({"retry_cap": "0s"}, "--retry-cap"),
        ({"retry_budget": -0.1}, "--retry-budget -0.1"),
        ({"retry_on": "200"}, "--retry-on: '200' is no status"),
        ({"retry_on": "429,401"}, "--retry-on: 401 is never retried"),
        ({"backoff": "wild"}, "--backoff: 'wild'"),
        ({"cancel_ratio": 1.5}, "--cancel-ratio 1.5: write 1 at most"),
        ({"cancel_after": "soon"}, "--cancel-after"),
        ({"price_in": -1.0}, "--price-in -1"),
        ({"price_cached": 0.1}, "--price-cached 0.1 without --price-in"),
        ({"price_in": 1.0}, "--price-in without --price-out"),
        ({"gpus": 2}, "--gpus 2 without --gpu-hour-price"),
        ({"budget": 5.0}, "--budget: give --price-in and --price-out, or --gpu-hour-price"),
        ({"gpus": 0}, "--gpus 0"),
        ({"max_in_flight": -2}, "--max-in-flight -2"),
    ],
)
def test_a_wrong_limit_is_explained(options, says):
    """Each message names the option, the value and what to write."""
    with pytest.raises(SettingsError) as raised:
        _settings(**options)

    assert says in str(raised.value)
