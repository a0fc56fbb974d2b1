"""Drives one of the suite's own transports as a user would, up to the reply."""

import json
import time
from collections.abc import Callable

from bench.loads.gauge import Gauge, read_orders, server_stamp_s
from bench.loads.green import drive
from settings import TimeLimits
from stream.reply import ReplyReader
from users.wire import ChatRequest, ChatTransport
from workloads.endpoint import parse_endpoint

LIMITS = TimeLimits(connect_s=10.0, first_token_s=120.0, idle_s=60.0, total_s=None)


class WatchingReader(ReplyReader):
    """Keeps the server's stamp of the first event with output, then steps out of the way."""

    def __init__(self) -> None:
        super().__init__()
        self.server_s: float | None = None
        self.feed = self._feed_first
        self.feed_payload = self._feed_payload_first

    def _feed_first(self, data: bytes, at_s: float) -> None:
        super().feed(data, at_s)
        self._note(data)

    def _feed_payload_first(self, payload: bytes, at_s: float) -> None:
        super().feed_payload(payload, at_s)
        self._note(payload)

    def _note(self, data: bytes) -> None:
        # Read line by line, an event counts at its blank line, after its stamp.
        self.server_s = server_stamp_s(data) or self.server_s
        if self.outputs:
            del self.feed, self.feed_payload


def main(make_transport: Callable[..., ChatTransport]) -> None:
    """Measure the transport as the command line says."""
    orders = read_orders()
    gauge = Gauge()
    transport = make_transport(parse_endpoint(orders.url), {}, LIMITS, None)
    body = json.dumps(orders.body()).encode()
    active: set[WatchingReader] = set()

    def ask() -> None:
        reader = WatchingReader()
        active.add(reader)
        facts = transport.post(ChatRequest(body, "bench"), reader)
        active.discard(reader)
        end_s = facts.end_s or time.perf_counter() - facts.sent_at_s
        reply = reader.close(end_s)
        gauge.events += reply.chunks
        gauge.answers += 1
        gauge.merged_reads += facts.merged_reads
        if facts.failure is not None or reply.status != 200 or not reply.saw_done:
            gauge.fail(str(facts.failure or reply.error or reply.status))
            return
        if reader.server_s is not None and reply.first_output_s is not None:
            given_s = facts.sent_at_s + reply.first_output_s
            gauge.stamp_errors_s.append(given_s - reader.server_s)
            gauge.merged_firsts += facts.ttft_late_max_s is not None
        if facts.client_delay_s is not None:
            gauge.delays_s.append(facts.client_delay_s)

    def events() -> int:
        return gauge.events + sum(reader.outputs for reader in active)

    drive(orders, gauge, lambda: ask, events)
