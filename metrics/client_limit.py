"""When a stage's figures speak of the client and not of the endpoint."""

LAG_LIMIT_S = 0.05
LAG_SHARE_OF_TTFT = 0.1
"""A lag is small against a TTFT ten times as long, whatever its size."""
CPU_LIMIT_RATIO = 0.9


def client_limit(
    lag_p99_s: float | None, cpu_mean: float | None, ttft_s: float | None
) -> str | None:
    """Why the client was the limit, or None when it was not.

    ``lag_p99_s`` is the event loop's lateness, ``cpu_mean`` the share of its core that a worker
    used (0-1), ``ttft_s`` the stage's median TTFT.
    """
    if cpu_mean is not None and cpu_mean > CPU_LIMIT_RATIO:
        return f"a worker used {cpu_mean:.0%} of its core: add workers"
    if lag_p99_s is not None and lag_p99_s > max(LAG_LIMIT_S, LAG_SHARE_OF_TTFT * (ttft_s or 0.0)):
        return f"the event loop ran {1e3 * lag_p99_s:,.0f} ms late at p99: add workers"
    return None
