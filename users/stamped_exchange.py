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
from users.framed_chunk import FramedChunk
from users.http_response import HttpResponse, ProtocolError
from users.lazy_reads import (
    LAZY_UNREAD_BYTES,
    LAZY_UNREAD_S,
    LOOK_BYTES,
    LOOK_SHARE,
    LazyReads,
    lazy_pause_s,
)
from users.poll_clock import PollClock
from users.stamped_socket import READ_BYTES, StampedSocket
from users.wire import WireFacts


class Exchange:
    """Reads one answer in the event loop; ends by waking its greenlet."""

    __slots__ = (
        "_at_s",
        "_connection",
        "_deadlines",
        "_drain_until_s",
        "_error",
        "_facts",
        "_framed",
        "_is_lazy",
        "_lazy_reads",
        "_ordinary",
        "_output_at_s",
        "_over",
        "_poll_clock",
        "_reader",
        "_unread_until_s",
        "_waiter",
        "_waiting_bytes",
        "_watcher",
        "due_s",
        "response",
    )

    def __init__(
        self,
        connection: StampedSocket,
        reader: ReplyReader,
        facts: WireFacts,
        deadlines: Deadlines,
        lazy_reads: LazyReads | None,
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
        self._framed: FramedChunk | None = None
        self._ordinary: FramedChunk | None = None
        """Set while nothing but whole chunks with whole events has been parsed."""
        self._error: Exception | None = None
        self._drain_until_s: float | None = None
        self.due_s = 0.0
        """When a limit may next be over, on ``time.perf_counter``'s clock."""
        self.response = HttpResponse(self._on_head, self._on_body)
        self._is_lazy = False
        self._unread_until_s = 0.0
        self._waiting_bytes = 0

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
            if self._is_lazy:
                # Whoever was told to stop has received all the same what lies unread.
                self.read()
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

    def lazy_turn(self, now_s: float) -> float:
        """Read what the kernel holds, unless the answer goes on; seconds to the next turn."""
        pause_s = lazy_pause_s(now_s - self._facts.sent_at_s)
        if now_s > self._unread_until_s or not self._goes_on():
            self._unread_until_s = now_s + LAZY_UNREAD_S
            looked, self._waiting_bytes = bool(self._waiting_bytes), 0
            self.read()
            if looked:
                # The connection's end behind those bytes has waited for one turn already.
                self.read()
        return pause_s * LOOK_SHARE if self._waiting_bytes >= LOOK_BYTES else pause_s

    def _goes_on(self) -> bool:
        """Whether more has come since the last turn, little lies unread, and no end is among it.

        An answer's end shows by its last bytes, or by the silence after it. Looking at bytes costs
        as much as taking them, so where many wait it is silence, looked for more often. Bytes that
        no more follow are read: they may be the last before the connection's end.
        """
        if self._ordinary is None:
            return False
        before_bytes = self._waiting_bytes
        try:
            waiting_bytes = self._connection.waiting_bytes()
            if not before_bytes < waiting_bytes < LAZY_UNREAD_BYTES:
                return False
            if before_bytes < LOOK_BYTES and not self._connection.waits_with(self._ordinary.after):
                return False
        except OSError:
            return False
        self._waiting_bytes = waiting_bytes
        return True

    def read(self) -> None:
        """The event loop's callback: take what has arrived and hand it on."""
        if self._over:
            return
        try:
            received = self._connection.receive()
            if received is not None:
                ordinary = self._ordinary
                if ordinary is not None and (body_bytes := ordinary.body_bytes(received[0])):
                    # One chunk with one ordinary event, which no parser need see.
                    facts = self._facts
                    self._at_s = at_s = received[1] - facts.sent_at_s
                    facts.received_bytes += body_bytes
                    self._reader.take_ordinary(body_bytes, at_s)
                else:
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
        self._know_ordinary()

    def _know_ordinary(self) -> None:
        """What the next read may be compared with, now that all before it has been parsed."""
        self._ordinary = None
        if self.response.at_chunk and (template := self._reader.ordinary) is not None:
            if self._framed is None or self._framed.template is not template:
                self._framed = FramedChunk(template)
            self._ordinary = self._framed

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

    def _become_lazy(self, lazy_reads: LazyReads) -> None:
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
