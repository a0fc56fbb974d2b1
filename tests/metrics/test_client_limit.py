"""When the client is the limit, and what is advised then."""

import pytest

from metrics.client_limit import client_advice, client_limit


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
