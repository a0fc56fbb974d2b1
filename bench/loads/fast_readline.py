"""Measures what people write by hand under Locust's FastHttpUser: geventhttpclient and readline.

One client for all streams; Locust's own session and statistics are left out, in its favour.
"""

import json
import time
from urllib.parse import urlsplit

from geventhttpclient import HTTPClient

from bench.loads.gauge import Gauge, read_orders
from bench.loads.green import drive

orders = read_orders()
gauge = Gauge()
parts = urlsplit(orders.url)
client = HTTPClient(
    parts.hostname,
    parts.port,
    concurrency=orders.streams,
    connection_timeout=10.0,
    network_timeout=120.0,
)
path = f"{parts.path}?{parts.query}"
body = json.dumps(orders.body()).encode()
headers = {"Content-Type": "application/json"}


def ask() -> None:
    first = True
    response = client.post(path, body, headers)
    while line := response.readline(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        if not (chunk["choices"] and chunk["choices"][0]["delta"].get("content")):
            continue
        gauge.events += 1
        if first and "t" in chunk:
            gauge.stamp_errors_s.append(time.perf_counter() - chunk["t"] / 1e9)
        first = False
    response.release()
    gauge.answers += 1


drive(orders, gauge, lambda: ask, lambda: gauge.events)
