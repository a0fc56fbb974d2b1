"""What every measured client shares: its orders, and the window in which CPU and events count."""

import argparse
import json
import os
import re
import resource
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from bench.process_memory import status_bytes

_SENT_NS = re.compile(rb'"t":(\d+)')


@dataclass(frozen=True, slots=True)
class Orders:
    """What to send, and when to measure; ``core`` is where this process is kept, if anywhere."""

    url: str
    streams: int
    max_tokens: int
    ramp_s: float
    window_s: float
    core: int | None

    def body(self) -> dict[str, Any]:
        """The chat request that every client sends."""
        return {
            "model": "simulated-model",
            "messages": [{"role": "user", "content": "Say something of the given length."}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": self.max_tokens,
            "ignore_eos": True,
        }


def read_orders() -> Orders:
    """The command line of a measured client; pins the process and puts it first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="of the chat completions, with its query")
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--ramp-s", type=float, default=1.0)
    parser.add_argument("--window-s", type=float, default=1.5)
    parser.add_argument("--core", type=int)
    orders = Orders(**vars(parser.parse_args()))
    if orders.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {orders.core})
    before_other_work()
    return orders


def before_other_work() -> bool:
    """Ask for real-time priority, so that other work on the host disturbs no figure.

    It needs a right that a container often lacks; False when it was not given.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (OSError, AttributeError):
        return False
    return True


def server_stamp_s(data: bytes) -> float | None:
    """When the server handed the event to its kernel, on this process's ``perf_counter``.

    Both read CLOCK_MONOTONIC; a server without stamps gives None.
    """
    found = _SENT_NS.search(data)
    return int(found[1]) / 1e9 if found else None


@dataclass(slots=True)
class Gauge:
    """Counts of one client; ``open_window`` and ``report`` bracket what is measured."""

    events: int = 0
    answers: int = 0
    failures: int = 0
    first_failure: str | None = None
    stamp_errors_s: list[float] = field(default_factory=list)
    """Time given to the first content event minus the server's stamp in it."""
    delays_s: list[float] = field(default_factory=list)
    merged_reads: int = 0
    merged_firsts: int = 0
    """First tokens read together with later ones: they bear the last one's time."""
    _base_rss_kb: float = 0.0
    _start: tuple[float, float, int, int] = (0.0, 0.0, 0, 0)

    def note_base(self) -> None:
        """Before the first stream: what the process weighs by itself."""
        self._base_rss_kb = status_bytes("VmRSS") / 1024

    def fail(self, why: str) -> None:
        """One request that did not end well."""
        self.failures += 1
        self.first_failure = self.first_failure or why

    def open_window(self, events: int) -> None:
        """From here CPU and events count; ``events`` is how many there have been."""
        self.stamp_errors_s.clear()
        self.delays_s.clear()
        self.merged_reads = 0
        self.merged_firsts = 0
        self._start = (time.perf_counter(), _cpu_s(), events, self.answers)

    def report(self, orders: Orders, events: int) -> None:
        """Print what the window held."""
        began_s, cpu_before_s, events_before, answers_before = self._start
        wall_s = time.perf_counter() - began_s
        cpu_s = _cpu_s() - cpu_before_s
        peak_kb = status_bytes("VmHWM") / 1024
        record = {
            "streams": orders.streams,
            "wall_s": wall_s,
            "cpu_s": cpu_s,
            "events": events - events_before,
            "answers": self.answers - answers_before,
            "failures": self.failures,
            "first_failure": self.first_failure,
            "stamp_errors_ms": [round(1e3 * value, 4) for value in self.stamp_errors_s],
            "delays_ms": [round(1e3 * value, 4) for value in self.delays_s],
            "merged_reads": self.merged_reads,
            "merged_firsts": self.merged_firsts,
            "peak_rss_mb": peak_kb / 1024,
            "rss_per_stream_kb": (peak_kb - self._base_rss_kb) / orders.streams,
        }
        print(json.dumps(record), flush=True)


def leave() -> None:
    """End at once: streams are still under way, and nobody waits for them."""
    sys.stdout.flush()
    os._exit(0)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
