"""The streaming transport: kept HTTP/1.1 connections whose chunks bear the kernel's arrival times.

What has arrived is read from the event loop itself (``stamped_exchange``); the user's greenlet
sleeps until the answer is over. One sweeper for all streams looks after the limits, so that no read
sets a timer of its own.
"""

import ssl
import time
from collections import deque
from collections.abc import Mapping

import gevent
from gevent import GreenletExit

from metrics.outcome import Outcome
from settings import TimeLimits
from stream.gap_sample import GapSample
from stream.reply import ReplyReader
from stream.sse import EventTooLarge
from users.connecting import open_stamped
from users.deadlines import Deadlines, LimitReached
from users.http_request import RequestWriter
from users.http_response import ProtocolError
from users.lazy_reads import LazyReads
from users.poll_clock import PollClock
from users.stamped_exchange import Exchange
from users.stamped_socket import StampedSocket
from users.wire import ChatRequest, WireFacts, WireFailure
from users.wire_failures import failure_of
from workloads.endpoint import ChatEndpoint

SWEEP_PERIOD_S = 0.05
_ALL = GapSample(1.0)


class StampedTransport:
    """Posts chat requests to one endpoint; one per process."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        headers: Mapping[str, str],
        limits: TimeLimits,
        tls: ssl.SSLContext | None,
        gap_sample: GapSample = _ALL,
    ) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._deadlines = Deadlines(limits)
        self._tls = tls
        self._writer = RequestWriter(endpoint, headers)
        self._kept: deque[StampedSocket] = deque()
        self._active: set[Exchange] = set()
        self._gap_sample = gap_sample
        self._sampled = 0.0
        self._lazy_reads = LazyReads()
        self._poll_clock = PollClock(self._active)
        self._sweeper: gevent.Greenlet | None = None
        self._closed = False

    def close(self) -> None:
        """Drop kept connections."""
        self._closed = True
        self._lazy_reads.close()
        self._poll_clock.close()
        while self._kept:
            self._kept.pop().close()
        if self._sweeper is not None:
            self._sweeper.kill(block=False)
            self._sweeper = None

    def post(self, request: ChatRequest, reader: ReplyReader) -> WireFacts:
        """Send one request and read its answer into ``reader``."""
        facts = WireFacts(sent_at_s=time.perf_counter())
        try:
            if not self._attempt(request, reader, facts, fresh_only=False):
                # A kept connection that the server had closed: open one, once, and count it.
                facts.reconnects = 1
                self._attempt(request, reader, facts, fresh_only=True)
        except LimitReached as limit:
            facts.failure = WireFailure(limit.outcome, limit.message)
        except GreenletExit as stop:
            facts.failure = WireFailure(Outcome.CANCELLED, "cancelled by us")
            facts.interrupt = stop
        except (OSError, ProtocolError, EventTooLarge) as error:
            facts.failure = failure_of(error, facts, self._limits.connect_s)
        now_s = time.perf_counter() - facts.sent_at_s
        if not facts.end_s:
            facts.end_s = now_s
        facts.noticed_late_s = max(0.0, now_s - facts.end_s)
        return facts

    def _attempt(
        self, request: ChatRequest, reader: ReplyReader, facts: WireFacts, fresh_only: bool
    ) -> bool:
        """One try on one connection; False when a kept one was dead before it answered."""
        connection = None if fresh_only else self._take_kept()
        facts.connection_reused = connection is not None
        if connection is None:
            connection = self._open(facts)
        kept = False
        try:
            if not facts.reconnects:
                facts.sent_at_s = time.perf_counter()
            lazy = None if self._is_sampled() else self._lazy_reads
            exchange = Exchange(connection, reader, facts, self._deadlines, lazy, self._poll_clock)
            try:
                self._send(connection, request, facts)
                self._run(exchange)
            except OSError as error:
                stale = facts.connection_reused and not exchange.response.begun
                if stale and not isinstance(error, TimeoutError):
                    return False
                raise
            kept = exchange.response.keep_alive and not self._closed
        finally:
            if kept:
                self._kept.append(connection)
            else:
                connection.close()
        return True

    def _send(self, connection: StampedSocket, request: ChatRequest, facts: WireFacts) -> None:
        message = self._writer.message(request)
        facts.sent_bytes = len(message)
        try:
            connection.send(message, self._deadlines.remaining_s(0.0, started=False))
        except TimeoutError:
            elapsed_s = time.perf_counter() - facts.sent_at_s
            raise self._deadlines.reached(elapsed_s, started=False) from None

    def _run(self, exchange: Exchange) -> None:
        if self._sweeper is None or self._sweeper.dead:
            self._sweeper = gevent.spawn(self._sweep)
        self._active.add(exchange)
        try:
            exchange.run()
        finally:
            self._active.discard(exchange)

    def _is_sampled(self) -> bool:
        """Whether every chunk of the next stream is read as it comes."""
        self._sampled += self._gap_sample.share(len(self._active))
        if self._sampled < 1.0:
            return False
        self._sampled -= 1.0
        return True

    def _sweep(self) -> None:
        while True:
            gevent.sleep(SWEEP_PERIOD_S)
            now_s = time.perf_counter()
            for exchange in list(self._active):
                if now_s >= exchange.due_s:
                    exchange.check(now_s)

    def _take_kept(self) -> StampedSocket | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.idle_and_alive():
                return connection
            connection.close()
        return None

    def _open(self, facts: WireFacts) -> StampedSocket:
        began_s = time.perf_counter()
        connection = open_stamped(self._endpoint, self._tls, self._limits.connect_s)
        facts.connections_opened += 1
        facts.connect_s = time.perf_counter() - began_s
        return connection
