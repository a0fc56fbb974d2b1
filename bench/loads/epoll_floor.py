"""A floor: plain epoll, one read per wake-up, events counted and not parsed.

No HTTP client in Python can cost less per event than its wake-up and its read do here.
"""

import json
import select
import socket
import time
from urllib.parse import urlsplit

from bench.loads.gauge import Gauge, Orders, leave, read_orders, server_stamp_s

CONTENT = b'"delta":{"content":"'
ANSWER_END = b"\r\n0\r\n\r\n"


class _Floor:
    def __init__(self, orders: Orders, gauge: Gauge) -> None:
        parts = urlsplit(orders.url)
        body = json.dumps(orders.body()).encode()
        self._address = (parts.hostname, parts.port)
        self._message = (
            f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self._gauge = gauge
        self._poller = select.epoll()
        self._socks: dict[int, socket.socket] = {}
        self._unstarted: set[int] = set()

    def open(self) -> None:
        sock = socket.create_connection(self._address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socks[sock.fileno()] = sock
        self._poller.register(sock.fileno(), select.EPOLLIN)
        self._ask(sock)

    def run_until(self, end_s: float) -> None:
        while (left_s := end_s - time.perf_counter()) > 0:
            for descriptor, _ in self._poller.poll(left_s):
                self._read(self._socks[descriptor], descriptor)

    def _ask(self, sock: socket.socket) -> None:
        self._unstarted.add(sock.fileno())
        sock.sendall(self._message)

    def _read(self, sock: socket.socket, descriptor: int) -> None:
        data = sock.recv(65536)
        now_s = time.perf_counter()
        if not data:
            raise SystemExit("the server closed")
        count = data.count(CONTENT)
        self._gauge.events += count
        if count and descriptor in self._unstarted:
            self._unstarted.discard(descriptor)
            sent_s = server_stamp_s(data)
            if sent_s is not None:
                self._gauge.stamp_errors_s.append(now_s - sent_s)
        if data.endswith(ANSWER_END):
            self._gauge.answers += 1
            self._ask(sock)


def main() -> None:
    """Measure as the command line says."""
    orders = read_orders()
    gauge = Gauge()
    gauge.note_base()
    floor = _Floor(orders, gauge)
    start_s = time.perf_counter()
    for index in range(orders.streams):
        floor.open()
        floor.run_until(start_s + (index + 1) * orders.ramp_s / orders.streams)
    floor.run_until(start_s + 1.3 * orders.ramp_s)
    gauge.open_window(gauge.events)
    floor.run_until(time.perf_counter() + orders.window_s)
    gauge.report(orders, gauge.events)
    leave()


main()
