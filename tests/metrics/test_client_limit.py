"""When the client is the limit, and what is advised then."""

import pytest

from metrics.client_limit import client_advice, client_limit, standstill


@pytest.mark.parametrize(
    ("lag_s", "cpu", "ttft_s", "says"),
    [
        (0.001, 0.97, 0.1, "a worker used 97% of its core (limit 90%)"),
        (0.08, 0.5, 0.1, "the event loop ran 80 ms late at p99 (limit 50 ms)"),
        (0.25, 0.5, 2.0, "the event loop ran 250 ms late at p99 (limit 200 ms)"),
        (0.19, 0.9, 2.0, None),
        (None, None, None, None),
    ],
)
def test_what_was_measured_is_said_with_its_limit(lag_s, cpu, ttft_s, says):
    """Over 90 % of a core, or late by over 50 ms and a tenth of TTFT; both figures are given."""
    assert says == client_limit(lag_s, cpu, ttft_s)


@pytest.mark.parametrize(
    ("lag_s", "window_s", "says"),
    [
        (2.9, 5.0, "a worker stood still for 2.90 s (limit 2.0 s)"),
        (2.0, 5.0, None),
        (2.9, None, "a worker stood still for 2.90 s (limit 2.0 s)"),
        (2.9, 60.0, None),
        (3.1, 60.0, "a worker stood still for 3.10 s (limit 3.0 s)"),
        (None, 5.0, None),
    ],
)
def test_a_pause_counts_against_its_window(lag_s, window_s, says):
    """Over 2 s and over a twentieth of the held time."""
    assert says == standstill(lag_s, window_s)


@pytest.mark.parametrize(
    ("cpu", "workers", "cores", "another_host", "add"),
    [
        (0.97, 1, 8, False, True),
        (0.97, 2, 2, True, True),
        (0.97, 7, 8, True, True),
        (0.97, 6, 8, False, True),
        (0.97, 1, None, False, True),
        (0.2, 1, 8, True, False),
    ],
    ids=["free cores", "full", "nearly full", "a quarter free", "unknown", "starved"],
)
def test_more_workers_are_advised_only_where_they_find_a_core(
    cpu, workers, cores, another_host, add
):
    """A host whose cores are taken, by its workers or by others, gets no more of them."""
    advice = client_advice(cpu, workers, cores)

    assert another_host is ("add workers on another host" in advice or "do not help" in advice)
    assert add is advice.startswith("add workers")
