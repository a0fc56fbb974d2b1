"""The clock of a request starts when its user wants it, before any pool inside the client."""

import gevent
import pytest

import users.connections
from metrics.outcome import Outcome
from tests.support.asking import asker
from tests.support.raw_server import answer, raw_server

pytestmark = [pytest.mark.live, pytest.mark.alone]

SERVICE_S = 0.5
BODY = (
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def test_M14_waiting_for_a_connection_is_told_apart_from_the_service(tmp_path, monkeypatch):
    """8 at once, 500 ms each, one connection: 2.25 s felt, 0.5 s served, 1.75 s waited."""
    monkeypatch.setattr(users.connections, "POOL_SIZE", 1)
    reply = answer((SERVICE_S * 1000, HEAD % len(BODY) + BODY))
    with raw_server(tmp_path, reply) as server, asker(server.url, traffic="block") as user:
        asking = [gevent.spawn(lambda: user.ask().record) for _ in range(8)]
        gevent.joinall(asking, timeout=30)
        records = [one.value for one in asking]
        connections = {event["connection"] for event in server.events("request")}

    def mean(name):
        return sum(getattr(record, name) for record in records) / len(records)

    assert [Outcome.OK] * 8 == [record.outcome for record in records]
    assert 1 == len(connections)
    assert 2.25 == pytest.approx(mean("user_latency_s"), rel=0.1)
    assert pytest.approx(mean("end_s"), rel=0.1) == SERVICE_S
    assert 1.75 == pytest.approx(mean("client_wait_s"), rel=0.1)
