"""Figures of the public cases that are worked out from values alone."""

import math

import pytest

from metrics.statistics import failure_adjusted_percentile, percentile, summarise

OK_MS = [100.0 + n for n in range(94)]
FAILED = 6


def test_M07_refusals_push_percentiles_up_and_not_down():
    """94 ok at 100 to 193 ms and 6 failed: plain p99 193, adjusted p90 189, p95 without bound."""
    assert 193 == percentile(OK_MS, 0.99)
    assert 189 == failure_adjusted_percentile(OK_MS, FAILED, 0.90)
    assert 193 == failure_adjusted_percentile(OK_MS, FAILED, 0.94)
    assert failure_adjusted_percentile(OK_MS, FAILED, 0.941) is None
    assert failure_adjusted_percentile(OK_MS, FAILED, 0.95) is None


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_M07_the_adjusted_percentile_is_that_of_infinite_failures(q):
    """The same as nearest rank with an infinity for each failure; without any, the plain one."""
    for n, failed in ((94, 6), (1, 1), (10, 90), (0, 3), (3, 0)):
        values = OK_MS[:n]
        found = failure_adjusted_percentile(values, failed, q)
        assert percentile([*values, *[math.inf] * failed], q) == (
            math.inf if found is None else found
        )


def test_M07_a_summary_says_how_many_failed_beside_its_percentiles():
    """n stays the successes'; the adjusted ones are there when something failed, and only then."""
    summary = summarise(OK_MS, FAILED)

    assert (94, 6) == (summary.n, summary.failed)
    assert 193 == summary.p99
    assert {"p50": 149, "p90": 189, "p95": None, "p99": None, "p999": None} == summary.adjusted
    assert {} == summarise(OK_MS).adjusted
    assert 0 == summarise(OK_MS).failed
