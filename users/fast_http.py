"""The transport over Locust's own fast HTTP stack (geventhttpclient).

A stream is read with ``readline(b"\\n")``, which returns at each line; ``read(n)`` and iteration
wait for n bytes and so deliver tokens late. The body is read to its end, so that the connection can
be used again. One pool and one TLS context serve the whole process.
"""

import ssl
import time
from collections.abc import Mapping

import gevent.socket
from gevent import GreenletExit
from geventhttpclient.response import (
    HTTPConnectionClosed,
    HTTPParseError,
    HTTPSocketPoolResponse,
)

from metrics.outcome import Outcome
from settings import TimeLimits
from stream.reply import ReplyReader
from stream.sse import EventTooLarge
from users.connections import CountingPool
from users.deadlines import DRAIN_S, Deadlines, LimitReached
from users.http_request import RequestWriter
from users.wire import ChatRequest, WireFacts, WireFailure
from users.wire_failures import failure_of
from workloads.endpoint import ChatEndpoint

READ_BYTES = 64 * 1024
EXTRA_READ_S = 0.001


class FastHttpTransport:
    """Posts chat requests to one endpoint over kept HTTP/1.1 connections."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        headers: Mapping[str, str],
        limits: TimeLimits,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._limits = limits
        self._deadlines = Deadlines(limits)
        self._pool = CountingPool(endpoint, limits, tls)
        self._writer = RequestWriter(endpoint, headers)

    def close(self) -> None:
        """Drop kept connections."""
        self._pool.close()

    def post(self, request: ChatRequest, reader: ReplyReader) -> WireFacts:
        """Send one request and read its answer into ``reader``."""
        facts = WireFacts(sent_at_s=time.perf_counter())
        try:
            sock, fresh = self._connect(facts)
            try:
                response = self._send(sock, request, facts)
            except (HTTPConnectionClosed, OSError) as error:
                if fresh or isinstance(error, TimeoutError):
                    raise
                # A kept connection that the server had closed: open one, once, and count it.
                facts.reconnects = 1
                facts.connection_reused = False
                facts.connections_opened += 1
                sock = self._pool.take_fresh()
                response = self._send(sock, request, facts, first_try=False)
            self._read(sock, response, reader, facts)
        except LimitReached as limit:
            facts.failure = WireFailure(limit.outcome, limit.message)
        except GreenletExit as stop:
            facts.failure = WireFailure(Outcome.CANCELLED, "cancelled by us")
            facts.interrupt = stop
        except (OSError, HTTPParseError, EventTooLarge) as error:
            facts.failure = failure_of(error, facts, self._limits.connect_s)
        if not facts.end_s:
            facts.end_s = time.perf_counter() - facts.sent_at_s
        return facts

    def _connect(self, facts: WireFacts) -> tuple[gevent.socket.socket, bool]:
        began_s = facts.sent_at_s
        sock, fresh = self._pool.take()
        if fresh:
            facts.connect_s = time.perf_counter() - began_s
            facts.connections_opened += 1
        facts.connection_reused = not fresh
        return sock, fresh

    def _send(
        self,
        sock: gevent.socket.socket,
        request: ChatRequest,
        facts: WireFacts,
        first_try: bool = True,
    ) -> HTTPSocketPoolResponse:
        message = self._writer.message(request)
        if first_try:
            facts.sent_at_s = time.perf_counter()
        facts.sent_bytes = len(message)
        try:
            sock.settimeout(self._deadlines.remaining_s(0.0, started=False))
            sock.sendall(message)
        except BaseException:
            self._pool.release_socket(sock)
            raise
        try:
            # On failure the response gives the socket back by itself.
            return HTTPSocketPoolResponse(sock, self._pool, block_size=READ_BYTES, method="POST")
        except TimeoutError:
            raise self._deadlines.reached(self._elapsed_s(facts), started=False) from None

    def _read(
        self,
        sock: gevent.socket.socket,
        response: HTTPSocketPoolResponse,
        reader: ReplyReader,
        facts: WireFacts,
    ) -> None:
        try:
            facts.headers = {name.lower(): str(value) for name, value in response.items()}
            content_type = facts.headers.get("content-type")
            elapsed_s = time.perf_counter() - facts.sent_at_s
            reader.begin(response.status_code, content_type, elapsed_s)
            if response.status_code == 200 and "json" not in (content_type or ""):
                self._read_lines(sock, response, reader, facts)
            else:
                self._read_whole(sock, response, reader, facts)
        finally:
            response.release()

    def _read_whole(
        self,
        sock: gevent.socket.socket,
        response: HTTPSocketPoolResponse,
        reader: ReplyReader,
        facts: WireFacts,
    ) -> None:
        """A plain body has no first token of its own: the first-token limit covers all of it."""
        try:
            if not response.message_complete:
                sock.settimeout(self._deadlines.remaining_s(self._elapsed_s(facts), started=False))
            body = response.read()
        except TimeoutError:
            raise self._deadlines.reached(self._elapsed_s(facts), started=False) from None
        facts.received_bytes += len(body)
        reader.feed(body, time.perf_counter() - facts.sent_at_s)

    def _read_lines(
        self,
        sock: gevent.socket.socket,
        response: HTTPSocketPoolResponse,
        reader: ReplyReader,
        facts: WireFacts,
    ) -> None:
        sent_at_s, deadlines = facts.sent_at_s, self._deadlines
        last_s = 0.0
        while True:
            # A socket whose message is complete is back in the pool and may be another's by now.
            if not response.message_complete:
                elapsed_s = time.perf_counter() - sent_at_s
                sock.settimeout(deadlines.remaining_s(elapsed_s, reader.started, last_s))
            try:
                line = response.readline(b"\n")
            except TimeoutError:
                elapsed_s = time.perf_counter() - sent_at_s
                raise deadlines.reached(elapsed_s, reader.started, last_s) from None
            now_s = time.perf_counter() - sent_at_s
            if not line:
                break
            facts.received_bytes += len(line)
            reader.feed(line, now_s)
            last_s = reader.last_output_s or 0.0
            if reader.done:
                facts.end_s = now_s
                self._drain(sock, response, facts)
                return
        # What follows the last line end can only be an unfinished event or a one-line body.
        tail = response.read()
        facts.received_bytes += len(tail)
        if tail:
            reader.feed(tail, time.perf_counter() - sent_at_s)

    def _drain(
        self, sock: gevent.socket.socket, response: HTTPSocketPoolResponse, facts: WireFacts
    ) -> None:
        """Read to the body's end so that the connection can be kept; not for long."""
        until_s = time.perf_counter() + DRAIN_S
        try:
            while not response.message_complete:
                sock.settimeout(max(EXTRA_READ_S, until_s - time.perf_counter()))
                facts.received_bytes += len(response.readline(b"\n"))
                if time.perf_counter() > until_s:
                    return
        except (OSError, HTTPParseError):
            # The answer is complete; only the connection is not worth keeping.
            return

    @staticmethod
    def _elapsed_s(facts: WireFacts) -> float:
        return time.perf_counter() - facts.sent_at_s
