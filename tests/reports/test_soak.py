"""A soak's series, and whose drift it is."""

import numpy as np
import pandas as pd
import pytest

from reports.soak import soak_from

MINUTES = 15


def samples(ttft_growth=0.0, delay_growth=0.0, per_s=4, seed=1):
    """Requests over 15 minutes whose TTFT and client delay grow by a share per minute."""
    chance = np.random.default_rng(seed)
    at_s = np.arange(0, MINUTES * 60, 1 / per_s)
    noise = chance.lognormal(0, 0.2, len(at_s))
    return pd.DataFrame(
        {
            "at_s": at_s,
            "ttft_s": 0.1 * noise * (1 + ttft_growth * at_s / 60),
            "client_delay_s": 0.001
            * chance.lognormal(0, 0.2, len(at_s))
            * (1 + delay_growth * at_s / 60),
        }
    )


def soak(**growth):
    return soak_from(8, MINUTES * 60.0, samples(**growth))


def test_a_server_that_gets_slower_is_found():
    """2 % a minute with a steady client: the server's leak, with its slope."""
    found = soak(ttft_growth=0.02)

    assert found.leak == "server"
    assert 0.01 < found.drifts["ttft_p50"].slope_per_min_ratio < 0.03
    assert "server gets slower" in found.sentences()[0]


def test_a_steady_server_has_no_leak():
    """The same without growth."""
    assert soak().leak == "none shown"


def test_a_client_that_drifts_along_takes_the_blame():
    """TTFT and the client's own delay grow: the server is not accused."""
    found = soak(ttft_growth=0.02, delay_growth=0.05)

    assert found.leak == "client"
    assert "client itself drifts" in found.sentences()[0]


def test_a_client_that_drifts_alone_is_no_leak():
    """The client's delay grows and TTFT does not: nothing to blame anyone for."""
    assert soak(delay_growth=0.05).leak == "none shown"


def test_windows_are_of_20_s_and_those_of_p99_as_long_as_it_needs():
    """45 windows of 80 requests; a p99 needs 368, so its windows are of 100 s."""
    found = soak()

    assert (found.window_s, len(found.windows)) == (20.0, MINUTES * 3)
    assert {80} == {window.n for window in found.windows}
    assert 100.0 == found.p99_window_s
    assert MINUTES * 60 // 100 == sum(w.ttft_p99_s is not None for w in found.windows)


def state(memory_growth=0.0, lag_growth=0.0):
    """A worker's own state every 10 s, growing by a share per minute."""
    return [
        {
            "worker": "w",
            "at_s": float(at_s),
            "resident_mib": 100 * (1 + memory_growth * at_s / 60),
            "loop_lag_p99_s": 0.002 * (1 + lag_growth * at_s / 60) * (1 + 0.1 * (at_s % 30) / 30),
        }
        for at_s in range(0, MINUTES * 60, 10)
    ]


@pytest.mark.parametrize(
    ("grown", "leak"),
    [
        ({}, "server"),
        ({"memory_growth": 0.005}, "server"),
        ({"memory_growth": 0.03}, "client"),
        ({"lag_growth": 0.03}, "client"),
    ],
    ids=["a steady worker", "a little memory", "much memory", "its event loop"],
)
def test_a_worker_that_drifts_along_is_seen(grown, leak):
    """TTFT grows; whether the worker's memory (by over a fifth) or its loop's lag does decides."""
    found = soak_from(8, MINUTES * 60.0, samples(ttft_growth=0.02), state(**grown))

    assert found.leak == leak
