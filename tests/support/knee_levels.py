"""Levels with a known answer, for tests of the knee."""

import numpy as np

from metrics.knee import Level


def steady(users, ttft_s, latency_s, n=120, spread=0.02, **changes):
    """A level of ``n`` requests that hardly differ; ``changes`` are the Level's own fields."""
    wave = 1 + spread * np.sin(np.arange(n) * 2.4)
    values = {
        "users": users,
        "ttft_s": ttft_s * wave,
        "tpot_s": np.full(n, 0.02),
        "latency_s": latency_s * wave,
        "requests": n,
        **changes,
    }
    return Level(**values)


def slots(users, knee, service_s=1.0, first_s=0.05, growth_s=0.0, n=None, **changes):
    """What ``users`` see of a server with ``knee`` slots, from Little's law alone.

    Service takes ``service_s + growth_s`` times the batch.
    """
    batch = min(users, knee)
    whole_s = service_s + growth_s * batch
    waited_s = whole_s * max(0.0, users / knee - 1)
    many = n or max(60, 3 * users)
    return steady(users, first_s + waited_s, whole_s + waited_s, many, **changes)


def refused(users, passing_rps, latency_s=1.0, in_flight=(), **changes):
    """A level at which most requests were answered 429 and ``passing_rps`` passed."""
    values = {
        "requests": 400,
        "rate_limited": 300,
        "completed_per_s": passing_rps,
        "in_flight_at_refusals": in_flight,
        **changes,
    }
    return steady(users, 0.05, latency_s, 100, **values)
