"""Watches this process while it sends: how late its event loop runs, how much CPU it takes, and how
long Python's collector of cycles stops it.

Locust looks at the CPU every 10 s and warns at 90 %; by then times are wrong already. A sleeper
that measures its own lateness sees the same delay that a token would.
"""

import gc
import os
import time
from collections.abc import Callable, Mapping

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


class GcPauses:
    """The lengths of this process's garbage collections, while started."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._pauses_s: list[float] = []

    def start(self) -> None:
        """Listen to the collector; a second call changes nothing."""
        if self._note not in gc.callbacks:
            gc.callbacks.append(self._note)

    def stop(self) -> None:
        """Listen no more and forget what was not taken."""
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)
        self._began_s = None
        self._pauses_s = []

    def take(self) -> list[float]:
        """The pauses in seconds since the last call."""
        taken, self._pauses_s = self._pauses_s, []
        return taken

    def _note(self, phase: str, info: Mapping[str, int]) -> None:
        # A collection can begin at any allocation, also while a tally is being added to or packed:
        # here nothing is touched but a list of our own.
        if phase == "start":
            self._began_s = time.perf_counter()
        elif self._began_s is not None:
            self._pauses_s.append(time.perf_counter() - self._began_s)
            self._began_s = None


def set_start_up_objects_aside() -> None:
    """Have the collector never look at what lives now; it stays on for what comes.

    Modules, classes and code are hundreds of thousands of objects that never die. A full
    collection that walks them all stops the event loop for tens of milliseconds.
    """
    # What an earlier run in this process left behind must not be kept for good.
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
