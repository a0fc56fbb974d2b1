"""The mergeable histogram: its error is the stated one, and merging loses nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.histogram import RELATIVE_ERROR, Histogram
from metrics.statistics import percentile

durations = st.floats(min_value=1e-6, max_value=1e5, allow_nan=False)


def _of(values):
    histogram = Histogram()
    histogram.add_many(values)
    return histogram


@given(st.lists(durations, min_size=1, max_size=300), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_percentiles_are_within_the_stated_error(values, q):
    """Any quantile is within 1 % of the exact nearest-rank one and inside the seen range."""
    exact = percentile(values, q)

    found = _of(values).percentile(q)

    assert found == pytest.approx(exact, rel=RELATIVE_ERROR * 1.0001)
    assert min(values) <= found <= max(values)


@given(st.lists(st.lists(durations, max_size=60), min_size=1, max_size=5))
def test_merging_workers_equals_one_process(parts):
    """The merged histogram is the histogram of all values together, in any grouping."""
    merged = Histogram()
    for part in parts:
        merged.merge(_of(part))
    whole = _of([value for part in parts for value in part])

    assert whole.counts == merged.counts
    assert (whole.n, whole.zeros) == (merged.n, merged.zeros)
    assert (whole.minimum, whole.maximum) == (merged.minimum, merged.maximum)
    assert whole.total == pytest.approx(merged.total)


@given(st.lists(st.one_of(st.just(0.0), durations), min_size=1, max_size=100))
def test_adding_one_by_one_equals_adding_many(values):
    """The fast path counts as the plain one does."""
    single = Histogram()
    for value in values:
        single.add(value)
    many = _of(values)

    assert single.n == many.n == len(values)
    assert single.zeros == many.zeros
    # The two logarithms may differ in the last bit, which moves a value on a bucket's edge by one.
    assert sum(single.counts.values()) == sum(many.counts.values())
    assert single.percentile(0.5) == pytest.approx(many.percentile(0.5), rel=2.1 * RELATIVE_ERROR)


def test_the_wire_form_is_lossless():
    """A histogram that travelled is the same histogram."""
    histogram = _of([0.0, 0.1, 0.1, 7.5])

    assert histogram == Histogram.from_wire(histogram.to_wire())


def test_M09_a_single_large_value_is_not_rounded_past_itself():
    """p99 never exceeds the maximum, and one value is its own percentile."""
    histogram = _of([0.5964] + [0.1] * 49)

    assert histogram.percentile(0.99) == 0.5964
    assert histogram.maximum == 0.5964
    assert pytest.approx(1.2344) == _of([1.2344]).percentile(0.5)


def test_an_empty_histogram_says_nothing():
    """No value, no percentile, no mean: None, never 0."""
    histogram = Histogram()

    assert histogram.percentile(0.5) is None
    assert histogram.mean is None
    assert histogram.maximum is None


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf], ids=["negative", "nan", "infinite"])
def test_values_that_are_no_durations_are_refused(value):
    """A wrong value is an error where it happens, not a wrong percentile later."""
    with pytest.raises(ValueError, match="finite"):
        Histogram().add(value)
    with pytest.raises(ValueError, match="finite"):
        Histogram().add_many(np.array([0.1, value]))


def test_a_histogram_of_another_error_does_not_merge():
    """Buckets of different widths must not be added up."""
    wire = _of([1.0]).to_wire() | {"relative_error": 0.02}

    with pytest.raises(ValueError, match="same version"):
        Histogram.from_wire(wire)
