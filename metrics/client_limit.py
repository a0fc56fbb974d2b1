"""When a stage's figures speak of the client and not of the endpoint, and what helps then."""

LAG_LIMIT_S = 0.05
LAG_SHARE_OF_TTFT = 0.1
"""A lag is small against a TTFT ten times as long, whatever its size."""
NEAR_RATIO = 0.5
"""Of the lag's limit: from here on a reader is told, though the figures stand."""
CPU_LIMIT_RATIO = 0.9
IDLE_RATIO = 0.4
"""A worker that used less of its core than this was late for want of it, most likely."""
HOST_FULL_RATIO = 0.8
"""Share of a host's cores in its workers' use from which another worker there finds no room."""
STANDSTILL_S = 2.0
STANDSTILL_SHARE = 0.05
"""Of a window: of a long one the rest makes up for a pause."""


def client_limit(
    lag_p99_s: float | None, cpu_mean: float | None, ttft_s: float | None
) -> str | None:
    """Why the client was the limit, with the limit's value; None when it was not.

    ``lag_p99_s`` is the event loop's lateness, ``cpu_mean`` the share of its core that a worker
    used (0-1), ``ttft_s`` the stage's median TTFT.
    """
    if cpu_mean is not None and cpu_mean > CPU_LIMIT_RATIO:
        return f"a worker used {cpu_mean:.0%} of its core (limit {CPU_LIMIT_RATIO:.0%})"
    limit_s = _lag_limit_s(ttft_s)
    if lag_p99_s is not None and lag_p99_s > limit_s:
        return (
            f"the event loop ran {1e3 * lag_p99_s:,.0f} ms late at p99 (limit "
            f"{1e3 * limit_s:,.0f} ms)"
        )
    return None


def near_limit(lag_p99_s: float | None, ttft_s: float | None) -> str | None:
    """That the loop's lateness is within its limit but above half of it; None when it is not.

    Arguments as of ``client_limit``.
    """
    limit_s = _lag_limit_s(ttft_s)
    if lag_p99_s is None or not NEAR_RATIO * limit_s < lag_p99_s <= limit_s:
        return None
    return (
        f"the event loop ran {1e3 * lag_p99_s:,.0f} ms late at p99, near the limit of "
        f"{1e3 * limit_s:,.0f} ms"
    )


def _lag_limit_s(ttft_s: float | None) -> float:
    return max(LAG_LIMIT_S, LAG_SHARE_OF_TTFT * (ttft_s or 0.0))


def standstill(lag_max_s: float | None, window_s: float | None) -> str | None:
    """Why a pause of a worker voids a stage, with the limit; None when none does.

    ``lag_max_s`` is the event loop's largest lateness, ``window_s`` the stage's held time. A
    process that was stopped for less than its master takes to miss it leaves no other trace.
    """
    limit_s = max(STANDSTILL_S, STANDSTILL_SHARE * (window_s or 0.0))
    if lag_max_s is None or lag_max_s <= limit_s:
        return None
    return f"a worker stood still for {lag_max_s:.2f} s (limit {limit_s:.1f} s)"


def client_advice(cpu_mean: float | None, workers: int, cores: int | None) -> str:
    """What to do about a client at its limit.

    ``cpu_mean`` is the share of its core that a worker used (0-1), ``workers`` the most that ran on
    one host, ``cores`` that host's, None where it is not known.
    """
    if cpu_mean is not None and cpu_mean < IDLE_RATIO:
        return (
            f"a worker used {cpu_mean:.0%} of its core, so other work on its host most likely held "
            "it up: use a quieter host or another one, for more workers on this one do not help"
        )
    if cores is not None and cpu_mean is not None and workers * cpu_mean >= HOST_FULL_RATIO * cores:
        return (
            f"add workers on another host: {workers} on this one used "
            f"{workers * cpu_mean:.1f} of its {cores} cores"
        )
    return "add workers, on another host when no core of this one is free"
