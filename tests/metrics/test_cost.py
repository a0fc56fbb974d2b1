"""Costs that can be worked out by hand, and what is said where nothing is known."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.cost import RunUse, StageUse, cost_rows, run_costs
from metrics.prices import CostKind, Prices, Tokens, money
from metrics.tally import Counts

TOKEN_PRICES = Prices(per_m_in=0.5, per_m_cached=0.1, per_m_out=2.0)
GPU_PRICES = Prices(gpu_hour=3.6, gpus=2)  # 0.2 cents a second for both


def use(**changes):
    """10 successes of 1,000 prompt (400 cached) and 100 completion tokens, 10 s, 80 tokens/s."""
    counts = Counts(
        offered=12,
        ok=10,
        failed=2,
        prompt_tokens=10_000,
        cached_tokens=4_000,
        completion_tokens=1_000,
        token_sources=Counter(server=10),
    )
    values = {
        "stage": 0,
        "users": 4,
        "window_s": 10.0,
        "output_tokens_per_s": 80.0,
        "completed_rps": 0.8,
        "counts": counts,
    }
    return StageUse(**{**values, **changes})


def test_cached_tokens_have_their_own_price():
    """600,000 at 0.50, 400,000 at 0.10, 100,000 out at 2.00: 0.30 + 0.04 + 0.20."""
    assert 0.54 == pytest.approx(TOKEN_PRICES.of_tokens(Tokens(1_000_000, 400_000, 100_000)))


def test_without_a_price_of_their_own_cached_tokens_cost_as_the_others():
    """A million at 0.50, cached or not; 100,000 out at 2.00."""
    prices = replace(TOKEN_PRICES, per_m_cached=None)

    assert 0.7 == pytest.approx(prices.of_tokens(Tokens(1_000_000, 400_000, 100_000)))


def test_more_cached_than_prompt_tokens_are_no_rebate():
    """A server that tells 20 cached of 10 prompt tokens: 10 cached ones are billed."""
    assert TOKEN_PRICES.of_tokens(Tokens(10, 10, 0)) == TOKEN_PRICES.of_tokens(Tokens(10, 20, 0))


def test_a_gpu_hour_is_paid_for_each_gpu():
    """Two at 3.60 an hour for half an hour."""
    assert 3.6 == pytest.approx(GPU_PRICES.of_gpu_time(1800))


def test_what_has_no_price_has_no_cost():
    """Neither is 0 where the other is given."""
    assert GPU_PRICES.of_tokens(Tokens(1, 0, 1)) is None
    assert TOKEN_PRICES.of_gpu_time(10) is None
    assert (CostKind.TOKENS,) == TOKEN_PRICES.kinds
    assert not Prices().given


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"per_m_cached": 0.1}, "--price-cached 0.1 without --price-in"),
        ({"per_m_in": 0.5}, "--price-in without --price-out"),
        ({"per_m_out": 0.5}, "--price-out without --price-in"),
        ({"per_m_in": -0.5, "per_m_out": 1.0}, "--price-in -0.5"),
        ({"gpu_hour": float("nan")}, "--gpu-hour-price nan"),
        ({"gpu_hour": float("inf")}, "--gpu-hour-price inf"),
        ({"gpus": 2}, "--gpus 2 without --gpu-hour-price"),
        ({"gpu_hour": 1.0, "gpus": 0}, "--gpus 0"),
    ],
)
def test_prices_that_do_not_go_together_are_refused(wrong, told):
    """The message names the option and the value."""
    with pytest.raises(ValueError, match=told):
        Prices(**wrong)


def test_an_option_of_0_is_not_given_and_one_that_is_missing_neither():
    """Runs of before there were prices have none of the options."""
    options = {"price_in": 0.5, "price_cached": 0.0, "price_out": 2.0, "gpu_hour_price": 0.0}

    assert Prices(per_m_in=0.5, per_m_out=2.0) == Prices.from_options({**options, "gpus": 1})
    assert Prices() == Prices.from_options({})
    with pytest.raises(ValueError, match="--gpu-hour-price -2"):
        Prices.from_options({"gpu_hour_price": -2.0})
    with pytest.raises(ValueError, match="--gpus 0"):
        Prices.from_options({"gpu_hour_price": 2.0, "gpus": 0})


def test_a_stage_by_tokens():
    """6,000 at 0.50, 4,000 at 0.10 and 1,000 at 2.00 per million: 0.34 + 0.2 cents."""
    (row,) = cost_rows(TOKEN_PRICES, [use()])

    assert 0.0054 == pytest.approx(row.cost)
    assert 0.34 == pytest.approx(row.per_m_in)
    assert 5.4 == pytest.approx(row.per_m_out)
    assert 0.0054 / 11_000 * 1e6 == pytest.approx(row.per_m_total)
    assert 0.54 == pytest.approx(row.per_1000_ok)


def test_a_stage_by_gpu():
    """10 s at 0.2 cents are 2 cents, for 800 tokens that came in them and 8 successes."""
    (row,) = cost_rows(GPU_PRICES, [use()])

    assert 0.02 == pytest.approx(row.cost)
    assert 25.0 == pytest.approx(row.per_m_out)
    assert 2.5 == pytest.approx(row.per_1000_ok)
    assert row.per_m_in is None


def test_prompts_of_a_gpu_window_follow_the_answers():
    """10 prompt tokens to each of the 800 that came: 8,800 tokens for 2 cents."""
    (row,) = cost_rows(GPU_PRICES, [use()])

    assert Tokens(8_000, 3_200, 800) == row.tokens
    assert 0.02 / 8_800 * 1e6 == pytest.approx(row.per_m_total)


def test_both_ways_of_paying_stand_side_by_side():
    """Two stages, two prices: four rows, and the same figures as alone."""
    both = replace(TOKEN_PRICES, gpu_hour=3.6, gpus=2)
    rows = cost_rows(both, [use(), use(stage=1)])

    assert [(0, "tokens"), (0, "gpu"), (1, "tokens"), (1, "gpu")] == [
        (row.stage, row.kind) for row in rows
    ]
    assert [*cost_rows(TOKEN_PRICES, [use()]), *cost_rows(GPU_PRICES, [use()])] == list(rows[:2])


def test_answers_without_usage_are_not_in_the_mean():
    """10 answers, of which 5 told 5,400 µ$ of tokens: 1.08 $ for 1,000, not 0.54 $."""
    counts = replace(use().counts, token_sources=Counter(server=5, unknown=5))
    (row,) = cost_rows(TOKEN_PRICES, [use(counts=counts)])

    assert 1.08 == pytest.approx(row.per_1000_ok)
    assert 5 == row.unknown_requests


@pytest.mark.parametrize(
    "nothing",
    [
        {"counts": Counts()},
        {"counts": Counts(offered=10, ok=10, token_sources=Counter(unknown=10))},
        {"counts": Counts(), "window_s": None, "output_tokens_per_s": None, "completed_rps": None},
    ],
    ids=["no success", "no usage", "never held"],
)
def test_nothing_known_is_never_0(nothing):
    """No sum by tokens, and no figure per token or request by either."""
    by_tokens, by_gpu = cost_rows(
        replace(TOKEN_PRICES, gpu_hour=3.6),
        [use(**{"output_tokens_per_s": 0.0, "completed_rps": 0.0, **nothing})],
    )

    assert (None, None, None, None) == (
        by_tokens.cost,
        by_tokens.per_m_out,
        by_tokens.per_1000_ok,
        by_tokens.tokens,
    )
    assert (None, None, None) == (by_gpu.per_m_out, by_gpu.per_m_total, by_gpu.per_1000_ok)


def test_an_idle_gpu_window_costs_although_nothing_came():
    """10 s of one GPU at 3.60 an hour: 1 cent for no token."""
    (row,) = cost_rows(
        Prices(gpu_hour=3.6), [use(counts=Counts(), output_tokens_per_s=0.0, completed_rps=0.0)]
    )

    assert 0.01 == pytest.approx(row.cost)
    assert row.per_m_out is None


def run_use(**changes):
    values = {
        "tokens": Tokens(2_000_000, 0, 500_000),
        "wasted": Tokens(200_000, 0, 50_000),
        "in_vain": Tokens(400_000, 0, 50_000),
        "unknown_requests": 0,
        "cache_untold": 0,
        "seconds": 1800.0,
    }
    return RunUse(**{**values, **changes})


def test_what_was_wasted_is_part_of_what_a_run_cost():
    """2 M at 0.50 and 0.5 M at 2.00 are 2 $, of which 0.1 + 0.1 $ brought no answer."""
    (run,) = run_costs(TOKEN_PRICES, run_use())

    assert (2.0, 0.2) == pytest.approx((run.cost, run.wasted))
    assert not run.at_least


def test_a_run_by_gpu_costs_its_wall_time_and_wastes_nothing_that_is_known():
    """Half an hour of two at 3.60; of a killed run it is a lower bound."""
    (run,) = run_costs(GPU_PRICES, run_use())
    (killed,) = run_costs(GPU_PRICES, run_use(ended=False))

    assert (3.6, None, False) == (pytest.approx(run.cost), run.wasted, run.at_least)
    assert killed.at_least


def test_a_run_that_told_no_tokens_has_no_cost_and_one_that_told_some_a_lower_bound():
    """Unknown is None; known in part is at least; no request at all is truly 0."""
    told = {"wasted": Tokens(), "unknown_requests": 3}
    (nothing,) = run_costs(TOKEN_PRICES, run_use(tokens=Tokens(), **told))
    (some,) = run_costs(TOKEN_PRICES, run_use(**told))
    (no_request,) = run_costs(TOKEN_PRICES, run_use(tokens=Tokens(), wasted=Tokens()))

    assert (None, None) == (nothing.cost, nothing.wasted)
    assert (2.0, True) == (some.cost, some.at_least)
    assert (0.0, False) == (no_request.cost, no_request.at_least)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "n/a"),
        (0.0, "$0"),
        (1234.5, "$1,234.50"),
        (0.42, "$0.42"),
        (0.999, "$1.00"),
        (0.0123, "$0.012"),
        (0.00000456, "$0.0000046"),
    ],
)
def test_money_is_shown_in_cents_or_in_two_digits(value, shown):
    """Nothing small is rounded to nothing."""
    assert shown == money(value)


def test_a_currency_of_letters_stands_apart():
    """EUR 0.42, not EUR0.42."""
    assert ("EUR 0.42", "€0.42") == (money(0.42, "EUR"), money(0.42, "€"))


@given(st.floats(1e-15, 1e9))
def test_a_shown_sum_is_within_5_percent_and_never_0(value):
    """Read back, what is printed is the sum."""
    assert value == pytest.approx(float(money(value)[1:].replace(",", "")), rel=0.05)
