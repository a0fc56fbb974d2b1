"""Measures what people write by hand under Locust's HttpUser: requests, iter_lines and json.

One session per stream as HttpUser has; Locust's own statistics are left out, in its favour.
"""

import json
import time

import requests

from bench.loads.gauge import Gauge, read_orders
from bench.loads.green import drive

orders = read_orders()
gauge = Gauge()
body = orders.body()


def make_ask():
    session = requests.Session()
    session.trust_env = False

    def ask() -> None:
        first = True
        with session.post(orders.url, json=body, stream=True, timeout=120) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                if not (chunk["choices"] and chunk["choices"][0]["delta"].get("content")):
                    continue
                gauge.events += 1
                if first and "t" in chunk:
                    gauge.stamp_errors_s.append(time.perf_counter() - chunk["t"] / 1e9)
                first = False
        gauge.answers += 1

    return ask


drive(orders, gauge, make_ask, lambda: gauge.events)
