"""One request under way on a stamped connection, and when its reads are made.

A *full* exchange reads from the event loop whenever something has arrived. A *lazy* one does so
until the first visible text; from then on the kernel keeps what arrives, with the time of the last
packet, and a timer reads it now and then for a fraction of the cost. TTFT and the end are as
exact; the times of the chunks between are not known, so a lazy stream has no gaps.
"""

import time
from typing import Any

import gevent
from gevent.hub import Waiter

from metrics.outcome import ReadMode, StampSource
from stream.reply import ReplyReader
from stream.sse import EventTooLarge
from users.deadlines import DRAIN_S, Deadlines, LimitReached
from users.http_response import HttpResponse, ProtocolError
from users.poll_clock import PollClock
from users.stamped_socket import READ_BYTES, StampedSocket
from users.wire import WireFacts

LAZY_TICK_S = 0.005
LAZY_LEAST_S = 0.02
LAZY_MOST_S = 0.2
LAZY_SHARE = 0.1
"""A lazy read comes at most this share of the request's age late, so that its user asks again in
time: a closed loop would slow down otherwise."""
_WHEEL_SLOTS = int(LAZY_MOST_S / LAZY_TICK_S) + 1


class Exchange:
    """Reads one answer in the event loop; ends by waking its greenlet."""

    def __init__(
        self,
        connection: StampedSocket,
        reader: ReplyReader,
        facts: WireFacts,
        deadlines: Deadlines,
        lazy_reads: "LazyReads | None",
        poll_clock: PollClock,
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._facts = facts
        self._deadlines = deadlines
        self._lazy_reads = lazy_reads
        self._poll_clock = poll_clock
        self._at_s = 0.0
        self._output_at_s = reader.output_at_s
        self._waiter: Any = Waiter()
        self._watcher: Any = None
        self._over = False
        self._error: Exception | None = None
        self._drain_until_s: float | None = None
        self.due_s = 0.0
        """When a limit may next be over, on ``time.perf_counter``'s clock."""
        self.response = HttpResponse(self._on_head, self._on_body)
        self._is_lazy = False

    def run(self) -> None:
        """Sleep until the answer is over.

        Raises:
            OSError, ProtocolError, EventTooLarge, LimitReached: what ended it too early.
        """
        self._watcher = gevent.get_hub().loop.io(self._connection.fileno(), 1)
        self._watcher.start(self.read)
        try:
            if not self._over:
                self._waiter.get()
        finally:
            self._over = True
            self._watcher.stop()
            self._watcher.close()
        if self._error is not None:
            raise self._error

    def check(self, now_s: float) -> None:
        """End the exchange when a limit is over; otherwise say when to look again."""
        if self._is_lazy:
            # What has arrived and was not looked at is no silence.
            self.read()
        if self._over:
            return
        if self._drain_until_s is not None:
            if now_s > self._drain_until_s:
                self._end()
            return
        elapsed_s = now_s - self._facts.sent_at_s
        reader = self._reader
        try:
            left_s = self._deadlines.remaining_s(
                elapsed_s, reader.started, reader.last_output_s or 0.0
            )
        except LimitReached as limit:
            self._end(limit)
            return
        # The first output puts another limit in force, which may be the shorter one.
        nearest_s = min(left_s or _FAR_S, self._deadlines.shortest_s or _FAR_S)
        self.due_s = now_s + nearest_s

    @property
    def over(self) -> bool:
        """Whether nothing more will be read."""
        return self._over

    def lazy_pause_s(self, now_s: float) -> float:
        """How long what arrives now may wait in the kernel."""
        pause_s = LAZY_SHARE * (now_s - self._facts.sent_at_s)
        return min(LAZY_MOST_S, max(LAZY_LEAST_S, pause_s))

    def read(self) -> None:
        """The event loop's callback: take what has arrived and hand it on."""
        if self._over:
            return
        try:
            received = self._connection.receive()
            if received is not None:
                self._take(*received)
                while len(received[0]) == READ_BYTES and not self._over:
                    received = self._connection.receive()
                    if received is None:
                        return
                    self._take(*received)
                if self._connection.ended and not self._over:
                    self._take(b"", received[1], None)
        except (OSError, ProtocolError, EventTooLarge) as error:
            self._end(None if self._reader.done else error)
        except Exception as error:
            # Whatever it is, it belongs to this request and must not end in the event loop.
            self._end(ProtocolError(f"fault in the client: {error!r}"))

    def _take(self, data: bytes, at_s: float, delay_s: float | None) -> None:
        facts, reader = self._facts, self._reader
        if not data:
            if self.response.end_of_input() or reader.done:
                self._end()
            else:
                self._end(ConnectionError(self._how_it_ended()))
            return
        before_s = self._at_s
        self._at_s = at_s - facts.sent_at_s
        outputs = len(self._output_at_s)
        self.response.feed(data)
        new = len(self._output_at_s) - outputs
        if new and not outputs:
            self._note_first(before_s, delay_s)
        elif new > 1 and not self._is_lazy:
            facts.merged_reads += 1
        if new and self._lazy_reads is not None and not self._is_lazy:
            self._become_lazy(self._lazy_reads)
        if self.response.complete:
            facts.end_s = facts.end_s or self._at_s
            self._end()
        elif reader.done and self._drain_until_s is None:
            facts.end_s = self._at_s
            self._drain_until_s = self.due_s = time.perf_counter() + DRAIN_S

    def _note_first(self, before_s: float, delay_s: float | None) -> None:
        """The first output has come; ``before_s`` is the stamp of the read before it."""
        facts = self._facts
        facts.client_delay_s = delay_s
        facts.stamp_source = StampSource.USER if delay_s is None else StampSource.KERNEL
        self._poll_clock.collects = delay_s is not None
        if self._reader.first_output_shared or self.response.complete:
            polled_s = self._poll_clock.before_s - facts.sent_at_s
            facts.ttft_late_max_s = max(0.0, self._at_s - max(before_s, polled_s))
            facts.merged_reads += self._reader.outputs > 1

    def _become_lazy(self, lazy_reads: "LazyReads") -> None:
        """From the first visible text on, which after long reasoning is a time of its own."""
        if not self._reader.answered or self.response.complete or self._reader.done:
            return
        self._is_lazy = True
        self._facts.read_mode = ReadMode.LAZY
        self._watcher.stop()
        lazy_reads.add(self)

    def _how_it_ended(self) -> str:
        if not self.response.begun:
            return "closed before any answer"
        return "closed in the middle of the answer"

    def _on_head(self, status: int, headers: dict[str, str]) -> None:
        self._facts.headers = headers
        self._reader.begin(status, headers.get("content-type"), self._at_s)

    def _on_body(self, data: bytes) -> None:
        self._facts.received_bytes += len(data)
        self._reader.feed(data, self._at_s)

    def _end(self, error: Exception | None = None) -> None:
        if self._over:
            return
        self._over = True
        self._error = error
        # Only the event loop may wake a waiter, and the caller may be a greenlet.
        gevent.get_hub().loop.run_callback(self._waiter.switch, None)


_FAR_S = 3600.0


class LazyReads:
    """A timer that reads lazy exchanges, each after a pause of its own."""

    def __init__(self) -> None:
        self._wheel: list[list[Exchange]] = [[] for _ in range(_WHEEL_SLOTS)]
        self._at = 0
        self._count = 0
        self._timer: Any = None

    def add(self, exchange: Exchange) -> None:
        """Read this exchange from now on, until it is over."""
        self._place(exchange, time.perf_counter())
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

    def _place(self, exchange: Exchange, now_s: float) -> None:
        ticks = max(1, min(_WHEEL_SLOTS - 1, int(exchange.lazy_pause_s(now_s) / LAZY_TICK_S)))
        self._wheel[(self._at + ticks) % _WHEEL_SLOTS].append(exchange)

    def _tick(self) -> None:
        self._at = (self._at + 1) % _WHEEL_SLOTS
        due, self._wheel[self._at] = self._wheel[self._at], []
        if not due:
            if not self._count:
                self.close()
            return
        now_s = time.perf_counter()
        for exchange in due:
            exchange.read()
            if exchange.over:
                self._count -= 1
            else:
                self._place(exchange, now_s)
