"""The streaming transport: kept HTTP/1.1 connections whose chunks bear the kernel's arrival times.

A persistent watcher on each connection reads what has arrived from the event loop itself; the
user's greenlet sleeps until the answer is over. One sweeper for all streams looks after the limits,
so that no read sets a timer of its own.
"""

import ssl
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import gevent
from gevent import GreenletExit
from gevent.hub import Waiter

from metrics.outcome import Outcome, StampSource
from settings import TimeLimits
from stream.reply import ReplyReader
from stream.sse import EventTooLarge
from users.deadlines import DRAIN_S, Deadlines, LimitReached
from users.http_request import RequestWriter
from users.http_response import HttpResponse, ProtocolError
from users.stamped_socket import Arrival, StampedSocket, connect
from users.wire import ChatRequest, WireFacts, WireFailure
from users.wire_failures import failure_of
from workloads.endpoint import ChatEndpoint

SWEEP_PERIOD_S = 0.02


class StampedTransport:
    """Posts chat requests to one endpoint; one per process."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        headers: Mapping[str, str],
        limits: TimeLimits,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._deadlines = Deadlines(limits)
        self._tls = tls
        self._writer = RequestWriter(endpoint, headers)
        self._kept: deque[StampedSocket] = deque()
        self._active: set[_Exchange] = set()
        self._sweeper: gevent.Greenlet | None = None
        self._closed = False

    def close(self) -> None:
        """Drop kept connections."""
        self._closed = True
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
        if not facts.end_s:
            facts.end_s = time.perf_counter() - facts.sent_at_s
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
            exchange = _Exchange(connection, reader, facts, self._deadlines)
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

    def _run(self, exchange: "_Exchange") -> None:
        if self._sweeper is None or self._sweeper.dead:
            self._sweeper = gevent.spawn(self._sweep)
        self._active.add(exchange)
        try:
            exchange.run()
        finally:
            self._active.discard(exchange)

    def _sweep(self) -> None:
        while True:
            gevent.sleep(SWEEP_PERIOD_S)
            now_s = time.perf_counter()
            for exchange in list(self._active):
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
        endpoint, limit_s = self._endpoint, self._limits.connect_s
        connection = connect(endpoint.host, endpoint.port, limit_s)
        try:
            if self._tls is not None:
                connection.start_tls(self._tls, endpoint.host, limit_s)
        except BaseException:
            connection.close()
            raise
        facts.connections_opened += 1
        facts.connect_s = time.perf_counter() - began_s
        return connection


class _Exchange:
    """One request under way: reads in the event loop, ends by waking its greenlet."""

    def __init__(
        self,
        connection: StampedSocket,
        reader: ReplyReader,
        facts: WireFacts,
        deadlines: Deadlines,
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._facts = facts
        self._deadlines = deadlines
        self._at_s = 0.0
        self._waiter: Any = Waiter()
        self._over = False
        self._error: Exception | None = None
        self._drain_until_s: float | None = None
        self.response = HttpResponse(self._on_head, self._on_body)

    def run(self) -> None:
        """Sleep until the answer is over.

        Raises:
            OSError, ProtocolError, EventTooLarge, LimitReached: what ended it too early.
        """
        watcher = gevent.get_hub().loop.io(self._connection.fileno(), 1)
        watcher.start(self._readable)
        try:
            if not self._over:
                self._waiter.get()
        finally:
            watcher.stop()
            watcher.close()
        if self._error is not None:
            raise self._error

    def check(self, now_s: float) -> None:
        """Called by the sweeper: end the exchange when a limit is over."""
        if self._over:
            return
        if self._drain_until_s is not None:
            if now_s > self._drain_until_s:
                self._end()
            return
        elapsed_s = now_s - self._facts.sent_at_s
        reader = self._reader
        try:
            self._deadlines.remaining_s(elapsed_s, reader.started, reader.last_output_s or 0.0)
        except LimitReached as limit:
            self._end(limit)

    def _readable(self) -> None:
        """The event loop's callback: take one read and hand it on."""
        if self._over:
            return
        try:
            arrival = self._connection.receive()
            if arrival is not None:
                self._take(arrival)
        except (OSError, ProtocolError, EventTooLarge) as error:
            self._end(None if self._reader.done else error)
        except Exception as error:
            # Whatever it is, it belongs to this request and must not end in the event loop.
            self._end(ProtocolError(f"fault in the client: {error!r}"))

    def _take(self, arrival: Arrival) -> None:
        if not arrival.data:
            if self.response.end_of_input() or self._reader.done:
                self._end()
            else:
                self._end(ConnectionError(self._how_it_ended()))
            return
        facts, reader = self._facts, self._reader
        self._at_s = arrival.at_s - facts.sent_at_s
        outputs = reader.outputs
        self.response.feed(arrival.data)
        new = reader.outputs - outputs
        if new:
            facts.merged_reads += new > 1
            if not outputs:
                facts.client_delay_s = arrival.delay_s
                facts.stamp_source = (
                    StampSource.USER if arrival.delay_s is None else StampSource.KERNEL
                )
        if self.response.complete:
            facts.end_s = facts.end_s or self._at_s
            self._end()
        elif reader.done and self._drain_until_s is None:
            facts.end_s = self._at_s
            self._drain_until_s = time.perf_counter() + DRAIN_S

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
        # The sweeper is a greenlet of its own; only the event loop may wake a waiter.
        gevent.get_hub().loop.run_callback(self._waiter.switch, None)
