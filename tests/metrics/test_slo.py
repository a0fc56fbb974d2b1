"""Service level objectives: the grammar, and what holds."""

import pytest

from metrics.slo import judge, parse_slo, request_is_good
from tests.support.records import make_record


def test_limits_are_read_with_their_units():
    """Milliseconds, seconds, percent and plain ratios become seconds and 0-1."""
    limits = parse_slo("ttft_p95<500ms, e2e_latency_p99<=3s,ok>99%,good>=0.9,completed_rps>5")

    assert [limit.limit for limit in limits] == [0.5, 3.0, 0.99, 0.9, 5.0]
    assert [limit.metric for limit in limits] == [
        "ttft_s",
        "e2e_latency_s",
        "ok_ratio",
        "good_ratio",
        "completed_rps",
    ]
    assert [limit.statistic for limit in limits] == ["p95", "p99", None, None, None]
    assert [limit.below for limit in limits] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ttft<500ms", "no metric"),
        ("ttft_p42<500ms", "statistics"),
        ("ttft_p95<500", "needs its unit"),
        ("ttft_p95 500ms", "not a limit"),
        ("ok>120%", "0% to 100%"),
        ("ok>99ms", "ratio"),
        ("completed_rps>5ms", "rate"),
    ],
    ids=[
        "no statistic",
        "odd statistic",
        "no unit",
        "no sign",
        "over 100",
        "ratio unit",
        "rate unit",
    ],
)
def test_a_wrong_limit_is_explained(text, says):
    """The message names the part and what may stand there."""
    with pytest.raises(ValueError, match=says):
        parse_slo(text)


def test_no_text_is_no_limit():
    """An empty option sets nothing."""
    assert parse_slo("  ") == ()


def test_a_limit_on_something_unmeasured_is_missed():
    """None never counts as met."""
    met, missed = judge(
        parse_slo("ttft_p95<500ms,tpot_p95<50ms"),
        lambda metric, statistic: 0.4 if metric == "ttft_s" else None,
    )

    assert met.met
    assert not missed.met
    assert missed.value is None


def test_a_good_request_is_within_every_latency_limit():
    """Goodput asks each request; a metric it does not have does not count against it."""
    limits = parse_slo("ttft_p95<200ms,tpot_p95<150ms,ok>99%")

    assert request_is_good(make_record(ttft_s=0.1), limits)
    assert not request_is_good(make_record(ttft_s=0.3), limits)
    assert request_is_good(make_record(completion_tokens=1), limits)
