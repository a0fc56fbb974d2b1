"""When lazily read streams are read: one timer for all, and each stream's own pauses."""

import time
from typing import Any, Protocol

import gevent

LAZY_TICK_S = 0.005
LAZY_LEAST_S = 0.02
LAZY_MOST_S = 0.2
LAZY_SHARE = 0.1
"""A lazy read comes at most this share of the request's age late, so that its user asks again in
time: a closed loop would slow down otherwise."""
LOOK_SHARE = 1 / 3
"""Of that pause, between looks for silence: it shows at the second look."""
LOOK_BYTES = 2048
LAZY_UNREAD_S = 1.0
LAZY_UNREAD_BYTES = 8 * 1024
"""The most that is left unread. The kernel counts far more than its bytes for a small event: some
hundred fill a socket's buffer, and a full one would hold the server up."""
_WHEEL_SLOTS = int(LAZY_MOST_S / LAZY_TICK_S) + 1


def lazy_pause_s(age_s: float) -> float:
    """How long what arrives now may wait, in a request of this age."""
    pause_s = LAZY_SHARE * age_s
    if pause_s < LAZY_LEAST_S:
        return LAZY_LEAST_S
    return pause_s if pause_s < LAZY_MOST_S else LAZY_MOST_S


class LazyStream(Protocol):
    """What is read now and then."""

    @property
    def over(self) -> bool:
        """Whether nothing more will be read."""

    def lazy_turn(self, now_s: float) -> float:
        """Read, or look whether that is needed; seconds to the next turn."""


class LazyReads:
    """A timer that reads lazy streams, each after a pause of its own."""

    def __init__(self) -> None:
        self._wheel: list[list[LazyStream]] = [[] for _ in range(_WHEEL_SLOTS)]
        self._at = 0
        self._count = 0
        self._timer: Any = None

    def add(self, stream: LazyStream) -> None:
        """Read this stream from now on, until it is over."""
        self._place(stream, LAZY_LEAST_S)
        self._count += 1
        if self._timer is None:
            self._timer = gevent.get_hub().loop.timer(LAZY_TICK_S, LAZY_TICK_S)
            self._timer.start(self._tick)

    def close(self) -> None:
        """Read nothing more."""
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None

    def _place(self, stream: LazyStream, pause_s: float) -> None:
        ticks = max(1, min(_WHEEL_SLOTS - 1, int(pause_s / LAZY_TICK_S)))
        self._wheel[(self._at + ticks) % _WHEEL_SLOTS].append(stream)

    def _tick(self) -> None:
        self._at = (self._at + 1) % _WHEEL_SLOTS
        due, self._wheel[self._at] = self._wheel[self._at], []
        if not due:
            if not self._count:
                self.close()
            return
        now_s = time.perf_counter()
        for stream in due:
            pause_s = 0.0 if stream.over else stream.lazy_turn(now_s)
            if stream.over:
                self._count -= 1
            else:
                self._place(stream, pause_s)
