"""When the event loop asks the kernel what has arrived, and how much it lets arrive in between.

With many streams nearly every token wakes the process from its sleep, and waking costs more than
reading. Where the kernel stamps what arrives, nothing is lost by letting half a millisecond's
tokens come together: their times are the kernel's, and the delay is told with each of them.
"""

import time
from collections.abc import Sized
from typing import Any

import gevent
from gevent.monkey import get_original

COLLECT_S = 5e-4
COLLECT_FROM_STREAMS = 128
"""With fewer streams a fifth of a core bears the waking, and answers are noticed at once."""

_sleep = get_original("time", "sleep")


class PollClock:
    """Watches the loop's polls. What had arrived by ``before_s`` was read then, so it bounds how
    long data of the present turn can have lain unread. Times are of ``time.perf_counter``.

    ``streams`` are those under way; ``collects`` is to be set once the kernel is known to stamp.
    """

    def __init__(self, streams: Sized) -> None:
        self._streams = streams
        self.collects = False
        self._last_s = self.before_s = time.perf_counter()
        loop = gevent.get_hub().loop
        # Neither keeps a loop running by itself.
        self._before: Any = loop.prepare(ref=False)
        self._after: Any = loop.check(ref=False)
        self._before.start(self._collect)
        self._after.start(self._polled)

    def close(self) -> None:
        """Watch no longer."""
        for watcher in (self._before, self._after):
            watcher.stop()
            watcher.close()

    def _collect(self) -> None:
        if self.collects and len(self._streams) >= COLLECT_FROM_STREAMS:
            _sleep(COLLECT_S)

    def _polled(self) -> None:
        self.before_s, self._last_s = self._last_s, time.perf_counter()
