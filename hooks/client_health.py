"""Watches this process while it sends: how late its event loop runs, and how much CPU it takes.

Locust looks at the CPU every 10 s and warns at 90 %; by then times are wrong already. A sleeper
that measures its own lateness sees the same delay that a token would.
"""

import os
import time
from collections.abc import Callable

import gevent

LAG_PERIOD_S = 0.02
CPU_PERIOD_S = 1.0


def watch_loop_lag(sample: Callable[[float], None]) -> None:
    """Report, again and again, how many seconds late a short sleep ended; runs until killed."""
    while True:
        began_s = time.perf_counter()
        gevent.sleep(LAG_PERIOD_S)
        sample(time.perf_counter() - began_s - LAG_PERIOD_S)


def watch_cpu(sample: Callable[[float], None]) -> None:
    """Report each second the share (0-1) of one core that this process took; runs until killed."""
    wall_s, cpu_s = time.perf_counter(), _cpu_s()
    while True:
        gevent.sleep(CPU_PERIOD_S)
        now_wall_s, now_cpu_s = time.perf_counter(), _cpu_s()
        sample((now_cpu_s - cpu_s) / (now_wall_s - wall_s))
        wall_s, cpu_s = now_wall_s, now_cpu_s


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
